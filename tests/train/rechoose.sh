#!/usr/bin/env bash
# Runs that choose their own phases (--rechoose): rechoose.sh PATH/TO/weft [MPI]
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
data="--data glyphs:size=9,train=192,test=8 --batch 8 -t 1 --model mlp --microbatches 2 --noise-scale 1"
version=$("$weft" --version | sed -n 's/^weft \([^ ]*\).*/\1/p')
{
    printf 'weft-times\t1\nversion\t%s\nprocessor\tone\n' "$version"
    printf 'time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\n'
    printf 'time\t1\t2\t4e-5\t0\t1e4\tall-reduce threads\t\nend\t4\n'
} >one.times
cluster() { printf 'times: one.times\nbandwidth: %s\nlatency: 0\nmachines:\n  - {count: 4, cores: 1}\n' "$2" >"$1"; } # FILE BANDWIDTH
cluster slow.yaml 1e6
cluster fast.yaml 1e15
index() { sed -n "s/.*\"$2\": *\"\([^\"]*\)\".*/\1/p" "$1/latest/index.json"; } # RUN OPTION
same() { # WORDS: the runs `once` and `twice` have the same parameters and state
    local part
    for part in parameters state; do
        cmp once/latest/$part.safetensors twice/latest/$part.safetensors >out 2>err && pass || flunk "other $part: $1"
    done
}
choices() { grep '"event":"choice"' "$1" | sed 's/,"seconds":[^,}]*}$//'; }

# The run equals one with the phases that it has chosen, whatever the ways are.
while IFS='|' read -r n file ways first steady; do
    rm -rf once twice once.jsonl
    # shellcheck disable=SC2086
    {
        "$weft" train $data -n $n --epochs 4 --rechoose "$file: $ways" -c once --metrics once.jsonl >out 2>err || flunk "rechoose: $ways"
        phases=$(index once phases)
        if [ -z "$steady" ]; then [ -n "$phases" ] && pass || flunk "no change: $ways"; else [ -z "$phases" ] && pass || flunk "changed to $phases: $ways"; fi
        "$weft" train -q $data -n $n --epochs 4 $first ${phases:+--phases "$phases"} -c twice >out 2>err || flunk "phases: $phases"
    }
    same "$ways"
    # Each choice is told, and none is made at the last epoch, behind which nothing comes.
    [ "$(choices once.jsonl | wc -l)" -ge 1 ] && [ "$(choices once.jsonl | wc -l)" -le 3 ] && pass || flunk "choices: $(choices once.jsonl)"
done <<'RUNS'
4|slow.yaml|exchange=average; exchange=average:every=3|--exchange average|
4|slow.yaml|no-exchange mesh=data=4 batch=48; exchange=average:every=4 mesh=data=1 batch=12|--mesh data=4 --batch 48|
2|slow.yaml|batch=24 lr=0.001; batch=96 lr=0.004|--batch 24|
4|slow.yaml|exchange=average:every=3|--exchange average:every=3|steady
4|fast.yaml|exchange=average; exchange=average|--exchange average|steady
RUNS

# A run that is stopped within an epoch and resumed chooses alike, from the same measurements.
rm -rf once twice
ways='slow.yaml: exchange=average; exchange=average:every=3'
"$weft" train -q $data -n 4 --epochs 8 --rechoose "$ways" -c once --metrics once.jsonl >out 2>err || flunk "undisturbed"
for step in 4 9 15 27; do # epochs of six steps
    background out err "$weft" train -q $data -n 4 --epochs 8 --rechoose "$ways" -c twice --resume --checkpoint-every 1 --metrics twice.jsonl
    run=$!
    within '[ -e twice/step-$step ] || ! lives $run'
    kill -KILL $run 2>/dev/null
    wait $run 2>/dev/null
done
"$weft" train -q --resume -c twice --metrics twice.jsonl >out 2>err || flunk "resumed"
same "a run that was killed"
choices once.jsonl >out
choices twice.jsonl >err
cmp out err >/dev/null && pass || flunk "other choices after kills"
[ "$(index once phases)" = "$(index twice phases)" ] && pass || flunk "other phases: $(index once phases), $(index twice phases)"

# With virtual workers 1, 2 and 4 ranks measure and choose alike; where the ranks are makes no difference.
for n in 1 2 4; do
    rm -rf once && "$weft" train -q ${data/--microbatches 2/--virtual-workers 4} -n $n --epochs 3 --rechoose 'slow.yaml: batch=32; batch=96' -c once --metrics n$n.jsonl >out 2>err || flunk "$n ranks"
    choices n$n.jsonl | grep -o '"epoch":.*"chosen":"[^"]*"' >n$n
    [ -s n$n ] && cmp n1 n$n >out 2>err && pass || flunk "$n ranks choose otherwise: $(cat n1 n$n)"
done
if [ $# -gt 1 ]; then
    rm -rf once twice
    "$weft" train -q $data -n 2 --epochs 3 --rechoose "$ways" -c once >out 2>err || flunk threads
    "$weft" train -q $data -n 2 --engine mpi --epochs 3 --rechoose "$ways" -c twice >out 2>err || flunk mpi
    same "threads and mpi"
fi

# A run stays with learners that do not wait for each other, which end no epoch together.
rm -rf once
"$weft" train $data -n 4 --epochs 3 --rechoose 'slow.yaml: exchange=average; exchange=gossip' -c once --metrics last.jsonl >out 2>err || flunk "gossip"
holds err 'begins with exchange=gossip'
[ "$(choices last.jsonl | wc -l)" = 1 ] && pass || flunk "chose again: $(choices last.jsonl)"
# A run that --patience ends makes no choice behind its last epoch: there is none to come.
rm -rf once
"$weft" train ${data/--noise-scale 1/--noise-scale 1 --lr 1e-30 --validation 0.25} -n 4 --epochs 9 --patience 2 --rechoose "$ways" -c once >out 2>err || flunk "patience"
holds err '^weft: the run ends after step 15: '
holds err '^weft: epoch 3 goes on with '
! grep -q '^weft: epoch 4 ' err && pass || flunk "a choice of the fourth epoch"
# A plain checkpoint may go on so, and a run that chose may go on without.
rm -rf once
"$weft" train -q $data -n 4 --epochs 1 --exchange average -c once >out 2>err || flunk plain
"$weft" train --resume -c once --epochs 5 --rechoose "$ways" >out 2>err && holds err 'begins with exchange=average:every=3' || flunk "a plain checkpoint"
"$weft" train -q --resume -c once --epochs 6 --without rechoose >out 2>err || flunk "without rechoose"

while IFS='|' read -r words message; do
    rm -rf no
    refuses 2 "$message" "$weft" train -q $data -n 4 --epochs 3 --rechoose "$words" -c no
    ! ls no/step-* >out 2>&1 && pass || flunk "$words wrote checkpoints"
done <<'WRONG'
slow.yaml|is no list; give a cluster file, a colon
exchange=average; exchange=average:every=3|is no list
slow.yaml: |is no list
slow.yaml: exchange=average;|is no list
: exchange=average|is no list
gone.yaml: exchange=average|gone.yaml: cannot open
slow.yaml: exchange=average; batch=16|'batch=16' says nothing of exchange, which 'exchange=average' sets
slow.yaml: no-exchange; exchange=average batch=8|'no-exchange' says nothing of batch
slow.yaml: exchange=average; exchange=average:often=3|rechoose, 'exchange=average:often=3'
slow.yaml: seed=4|--seed is the same in all phases
slow.yaml: no-exchange mesh=data=4 microbatches=1; exchange=average mesh=data=1 microbatches=1|rechoose, 'exchange=average mesh=data=1 microbatches=1': noise-scale compares the gradients of parts of a batch
slow.yaml: nope=4|no option is named 'nope'
slow.yaml: mesh=data=3|mesh 'data=3' has 3 ranks
slow.yaml: exchange=gossip; exchange=average|the run begins with 'exchange=gossip', whose learners are at different steps
WRONG
refuses 2 "give --checkpoint DIR too" "$weft" train -q $data -n 2 --rechoose "slow.yaml: exchange=average"
refuses 2 "give --noise-scale STEPS too" "$weft" train -q $data -n 2 --noise-scale 0 --rechoose "slow.yaml: exchange=average" -c no
refuses 2 "leave one of the two out" "$weft" train -q $data -n 2 --epochs 3 --phases '2: lr=1' --rechoose "slow.yaml: exchange=average" -c no
refuses 2 "learners are at different steps and end no epoch together" "$weft" train -q $data -n 2 --engine processes --exchange gossip --rechoose "slow.yaml: exchange=gossip" -c no
refuses 2 "a simulation has one phase" "$weft" simulate -n 2 --model mlp --data glyphs --exchange average --rechoose "slow.yaml: exchange=average"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
