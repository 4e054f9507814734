#!/usr/bin/env bash
# Ranks with a card each that add up by NCCL, over the doubles of tests/device/fake_cuda (the environment names their folders), as
# threads and as processes: the bits of two ranks are those of the tree, more ranks are near them; virtual workers keep the tree; plans, the start and metrics
# name NCCL; ranks that fail or are killed end the others, and nothing is left: tests/train/nccl.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--data glyphs:size=16,train=40,test=20 --batch 8 --steps 3"
if ! "$weft" train $images --model mlp --device opencl >out 2>err; then
    echo "SKIPPED: $(cat err)"
    grep -q 'no OpenCL platform\|libOpenCL' err
    exit
fi
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--data text:text,unit=char,context=16,stride=8 --batch 8 --steps 3"
gpt="--model gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens --optimizer adamw --clip-norm 1"
mkdir -p tmp
export FAKE_CUDA_CARDS=4 FAKE_CUDA_LEFT=$PWD/left TMPDIR=$PWD/tmp
cards() { local k list=; for ((k = 0; k < $2; k++)); do list=$list${list:+,}cuda:$k:libraries=$1; done; echo $list; }
leaves_nothing() {
    if [ -s left ] && ! grep -qv '^0 contexts, 0 streams, 0 events, 0 modules, 0 allocations, 0 graphs$' left && ! ls tmp | grep -q fake-nccl; then pass; else flunk "$1 leaves: $(cat left) $(ls tmp)"; fi
    rm -rf left tmp/*
}

# ended NAME ENGINE: as leaves_nothing, but the launcher of MPI may kill ranks that leave files of the double.
ended() {
    [ "$2" = threads ] || rm -rf tmp/* left
    [ "$2" != threads ] || leaves_nothing "$1, $2"
}

# weights LIBRARY RANKS OPTIONS: trains and exports the weights to LIBRARY.safetensors.
weights() {
    local library=$1 ranks=$2
    shift 2
    rm -rf run $library.safetensors
    timeout 200 "$weft" train -q -n $ranks "$@" --device $(cards $library $ranks) --checkpoint run >out 2>err && "$weft" export run --output $library.safetensors >out 2>err
}
# same RANKS OPTIONS: the same bits as without NCCL, through which all sums went.
same() {
    rm -f calls
    weights none "$@" && FAKE_NCCL_CALLS=$PWD/calls weights nccl "$@" && cmp -s none.safetensors nccl.safetensors && pass || flunk "$*: other bits $(cat err)"
    grep -q 'ncclAllReduce\|ncclReduce' calls && pass || flunk "$*: no sums by NCCL"
    leaves_nothing "$*"
}
same 2 --model lenet $images
same 2 --model mlp $images --zero 2
mpi=
command -v mpirun >/dev/null && mpi=yes
[ -z "$mpi" ] || same 2 --model mlp $images --engine mpi
if in_full; then
    same 2 $gpt --zero 3
    [ -z "$mpi" ] || same 2 $gpt --zero 1 --engine mpi
    same 2 --model lenet $images --mesh tensor=2
    same 2 --model mlp $images --dtype f64
fi

# More ranks: the losses are near, and not the same.
losses() { timeout 200 "$weft" train -q --model mlp $images -n "$1" --device "$(cards "$2" "$1")" --metrics "$3" >out 2>err && grep -o '"loss":[0-9.]*' "$3" | cut -d: -f2 >"$3.losses"; }
losses 4 none a && losses 4 nccl b && paste a.losses b.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) far = 1; n++ } END { exit far || n < 3 }' && pass || flunk "4 ranks: $(cat err a.losses b.losses)"
grep -q '"device":"Fake 0, nccl 2.27.3"' b && pass || flunk "the metrics' device"
leaves_nothing "4 ranks"
# Virtual workers keep the bits of the tree: their sums are not NCCL's.
rm -f calls
export FAKE_CUDA_NAME=Fake
weights none 2 --model mlp $images --virtual-workers 4 && FAKE_NCCL_CALLS=$PWD/calls weights nccl 2 --model mlp $images --virtual-workers 4 && cmp -s none.safetensors nccl.safetensors &&
    ! grep -q Reduce calls 2>/dev/null && pass || flunk "virtual workers: $(cat calls err)"
leaves_nothing "virtual workers"
unset FAKE_CUDA_NAME

mlp="--model mlp $images"
"$weft" plan $mlp -n 2 --device "$(cards nccl 2)" --dump=0 >out 2>err && grep -q 'all_reduce .*\[2 ranks, nccl 2.27.3\]' out && grep -q '^ *0  on Fake 0, nccl 2.27.3$' out && pass || flunk "plan --dump"
"$weft" plan $mlp -n 2 --engine mpi --device "$(cards nccl 2)" --dump=0 >out 2>err && grep -q 'all_reduce .*\[2 ranks, nccl 2.27.3\]' out && pass || flunk "plan --dump of processes"
"$weft" train $mlp -n 2 --device "$(cards nccl 2)" >out 2>err && grep -q '^on Fake 0, nccl 2.27.3' out && pass || flunk "the start of a run"
"$weft" train $mlp -n 2 --device cuda:0,cuda:1 >out 2>err && ! grep -q nccl out && pass || flunk "NCCL without being asked for"
leaves_nothing "the start of a run"

# What does not fit.
train="timeout 300 $weft train $mlp"
pair=$(cards nccl 2)
refuses 2 "nccl 2.27.3 needs a device for each rank, and the 4 ranks of a learner have 2" $train -n 4 --device "$pair,$pair"
refuses 2 "the device of rank 0 adds up by nccl 2.27.3, and that of rank 1 by no library" $train -n 2 --device cuda:0:libraries=nccl,cuda:1
mkdir -p empty bin # NCCL itself may be installed here, beside Python
ln -s "$(command -v env)" "$(command -v bash)" bin/
if ! ldconfig -p | grep -q libnccl; then
    refuses 1 "nccl does not work here: $VIRTUAL_ENV" env FAKE_NCCL_VERSION=21705 HOME="$PWD/empty" PATH="$PWD/bin" $weft train $mlp -n 2 --device "$pair"
    holds err 'libnccl.so.2 is older than version 2.18'
    refuses 1 "nccl is not found: neither in the packages of Python nor by the loader nor in CUDA_HOME nor in /usr/local/cuda; pip install nvidia-nccl-cu13" \
        env -u VIRTUAL_ENV HOME="$PWD/empty" PATH="$PWD/bin" $weft train $mlp -n 2 --device "$pair"
fi
[ -z "$mpi" ] || {
    timeout 300 "$weft" train $mlp -n 4 --engine mpi --device "$pair,$pair" >out 2>err
    [ $? = 2 ] && grep -q 'needs a device for each rank, and the 4 ranks of a learner have 2' err && pass || flunk "4 processes with 2 cards"
}
leaves_nothing "what does not fit"

# Failures: each function in turn; an error that NCCL finds on its own, after which the newest checkpoint goes on; ranks that leave.
for fail in CommInitRankConfig=2@1 GroupEnd=2@4 $(in_full && echo GetUniqueId=2@1 CommInitRankConfig=2@2 CommGetAsyncError=2@1 CommGetAsyncError=2@30 GroupStart=2@5 AllReduce=2@2 AllReduce=2@6); do
    FAKE_CUDA_FAIL=nccl$fail timeout 300 "$weft" train $mlp --steps 9 -n 3 --device "$(cards nccl 3)" >out 2>err
    code=$?
    # Another rank may meet the failure first, in another function.
    [ $code = 1 ] && grep -q "nccl 2.27.3: nccl[A-Za-z]* failed with 'the text of a status' (2)" err && ! grep -q 'fake_' err && pass || flunk "$fail: $code"
    # A rank that has not come to the communicator when another one fails does not leave the double's folder.
    [ "${fail%%=*}" != CommInitRankConfig ] || rm -rf tmp/fake-nccl-*
    leaves_nothing "$fail"
done
for engine in threads $([ -z "$mpi" ] || echo mpi); do
    rm -rf run
    FAKE_NCCL_ERROR=6@4@1 timeout 300 "$weft" train $mlp --steps 9 -n 2 --engine $engine --device "$pair" --checkpoint run --checkpoint-every 1 --max-restarts 0 >out 2>err
    code=$?
    [ $code = 1 ] && grep -q "nccl 2.27.3: an operation that runs on its own failed with 'remote process exited or there was a network error' (6): a planned error" err && pass || flunk "an error of its own, $engine: $code"
    ended "an error of its own" $engine
    # Memory of operations that stay in their streams for a while after the communicator is given up is not freed before they end.
    FAKE_NCCL_POLLS=20000 FAKE_NCCL_ABORT_MS=300 FAKE_NCCL_ERROR=6@4@1 timeout 300 "$weft" train $mlp --steps 9 -n 2 --engine $engine --device "$pair" --max-restarts 0 >out 2>err
    code=$?
    [ $code = 1 ] && ! grep -q 'fake_' err && pass || flunk "operations that outlast an abort, $engine: $code"
    "$weft" train $mlp --steps 9 -n 2 --device cuda:0,cuda:1 --checkpoint run --resume >out 2>err && grep -q 'step 9' out && pass || flunk "the run goes on after it, $engine"
    rm -f left
    timeout 300 "$weft" train --model lenet $images --steps 60 --lr 1000000 -n 3 --engine $engine --device "$(cards nccl 3)" >out 2>err
    code=$?
    [ $code != 0 ] && [ $code != 124 ] && grep -q 'not finite' err && pass || flunk "a loss that is no number, $engine: $code"
    ended "a loss that is no number" $engine
done
if [ -n "$mpi" ]; then
    background out err timeout 300 "$weft" train $mlp --steps 100000 -n 3 --engine mpi --device "$(cards nccl 3)" --max-restarts 0
    job=$!
    within "grep -q '^step' out"
    victim=$(ranks $job | sed -n 2p)
    [ -n "$victim" ] && kill -9 "$victim"
    wait $job
    code=$?
    [ $code != 0 ] && [ $code != 124 ] && [ -n "$victim" ] && grep -q 'rank 1' err && pass || flunk "a rank that is killed: $code $victim"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
