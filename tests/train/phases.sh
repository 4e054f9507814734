#!/usr/bin/env bash
# Phases of a run (--phases) equal runs that are stopped and resumed with the other options: phases.sh PATH/TO/weft [MPI]
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
data="--data glyphs:size=9,train=96,test=8 --batch 8 -t 1 --model mlp"

# same NAME: the runs `once` and `twice` have the same parameters and state.
same() {
    local part
    for part in parameters state; do
        cmp once/latest/$part.safetensors twice/latest/$part.safetensors >out 2>err && pass || flunk "other $part: $1"
    done
}
# The options of the run, those of the second phase as words, and as options.
while IFS='|' read -r first words second; do
    rm -rf once twice
    # shellcheck disable=SC2086
    {
        "$weft" train -q $data $first --epochs 3 --phases "2: $words" -c once >out 2>err || flunk "phases: $first | $words"
        "$weft" train -q $data $first --epochs 1 -c twice >out 2>err || flunk "first: $first"
        [[ $words = no-* ]] && first=
        "$weft" train -q $data $first --epochs 3 $second --drop-state --resume -c twice >out 2>err || flunk "second: $second"
    }
    same "$first | $words"
done <<'RUNS'
-n 1|lr=0.01 clip-norm=1|--lr 0.01 --clip-norm 1
-n 2|exchange=average:every=3|--exchange average:every=3
-n 2 --zero 2|mesh=tensor=2 zero=0|--mesh tensor=2 --zero 0
-n 2 --exchange average:every=2|no-exchange mesh=data=2 microbatches=2|-n 2 --without exchange --mesh data=2 --microbatches 2
-n 2 --exchange average:every=1,state=average|exchange=oneshot|--exchange oneshot
-n 4 --mesh data=2 --exchange average|mesh=pipeline=2 microbatches=4|--mesh pipeline=2 --microbatches 4
-n 1|augment=crop:pad=1,flip|--augment crop:pad=1,flip
-n 2 --augment flip|no-augment|-n 2 --without augment
-o sgd --momentum 0.9|momentum=0.5 nesterov|--momentum 0.5 --nesterov
RUNS

# A run that is resumed is in the phase of its epoch, and three phases follow each other.
phases='2: exchange=average:every=3; 4: no-exchange mesh=data=2 lr=0.01'
rm -rf once twice
accepts "three phases" "$weft" train -q $data -n 2 --epochs 5 --phases "$phases" -c once
for epochs in 2 3 5; do
    "$weft" train -q $data -n 2 --epochs $epochs --phases '2: exchange=average:every=3; 4: no-exchange mesh=data=2 lr=0.01' -c twice --resume >out 2>err ||
        { [ $epochs = 2 ] && holds err "epoch 4, and the run has 2"; } || { [ $epochs = 3 ] && holds err "epoch 4, and the run has 3"; } || flunk "epochs $epochs"
done
same "a run that was refused before"
rm -rf twice
background out err "$weft" train -q $data -n 2 --epochs 5 --phases "$phases" --checkpoint-every 4 -c twice
run=$!
within '[ -e twice/step-16 ] || ! lives $run'
kill -INT $run
wait $run
accepts "goes on" "$weft" train -q --resume -c twice
same "a run that was stopped"

# The batch may grow at the end of an epoch (Smith et al. 2018).
rm -rf once
"$weft" train $data --epochs 2 --phases '2: batch=24' -c once >out 2>err && holds out "^step 16 " || flunk "a larger batch"

# Later learners need not wait for each other; earlier ones must.
rm -rf once
"$weft" train $data -n 2 --epochs 2 --phases '2: exchange=gossip' -c once >out 2>err && holds err "exchange gossip instead of none" || flunk "gossip last"
if [ $# -gt 1 ]; then
    rm -rf once twice
    accepts "threads" "$weft" train -q $data -n 2 --epochs 2 --phases '2: exchange=average:every=3' -c once
    accepts "mpi" "$weft" train -q $data -n 2 --engine mpi --epochs 2 --phases '2: exchange=average:every=3' -c twice
    same "threads and mpi"
fi

while IFS='|' read -r words message; do
    rm -rf no
    refuses 2 "$message" "$weft" train -q $data -n 2 --epochs 3 --phases "$words" -c no
    ! ls no/step-* >out 2>&1 && pass || flunk "$words wrote checkpoints"
done <<'WRONG'
1: lr=1|'1' is no phase
2|'2' is no phase
2:|'2' is no phase
x: lr=1|'x' is no phase
3: lr=1; 2: lr=2|epoch 2 comes after epoch 3
3: lr=1; 3: lr=2|epoch 3 comes after epoch 3
2: lr=1;|'' is no phase
2: seed=4|--seed is the same in all phases
2: no-model|--model is the same in all phases
2: phases=3|--phases is the same in all phases
2: nope=4|phases, epoch 2: no option is named 'nope'
2: lr=abc|phases, epoch 2: option 'lr' is 'abc'
3: batch=500|phases, epoch 3: batch is 500, the training part has only 96 samples; give --batch 96 or less
2: lr=0.1; 3: microbatches=9|phases, epoch 3: batch 8 cannot be cut into 9 equal micro-batches
3: exchange=server:policy=none|phases, epoch 3: no server policy is named 'none'
3: mesh=data=3|phases, epoch 3: mesh 'data=3' has 3 ranks
4: lr=1|one begins with epoch 4, and the run has 3
2: exchange=hogwild; 3: lr=1|phases, epoch 3: all learners begin an epoch together
WRONG
refuses 2 "give --checkpoint DIR too" "$weft" train -q $data -n 2 --epochs 3 --phases "2: lr=1"
rm -rf no
refuses 2 "learners of exchange server are at different steps" "$weft" train -q $data -n 2 --epochs 3 --phases "2: lr=1" --engine processes --exchange server -c no

echo "$passed passed, $failed failed"
[ $failed = 0 ]
