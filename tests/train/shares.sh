#!/usr/bin/env bash
# Unlike parts of a batch for the ranks of the data axis (--shares): tests/train/shares.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=16,train=90,test=20 --batch 20 --epochs 2 --dtype f64"
last() { grep 'test loss' | tail -n 1; }
# In f64 any shares give the printed digits of one rank: alone, with ZeRO, with a tensor axis, with micro-batches, where the last
# batch of an epoch is smaller, with shares that round to nothing.
for model in lenet mlp; do
    "$weft" train --model $model $small | last >expected
    for options in "-n 2 --shares 3,1" "-n 3 --shares 1,5,2" "-n 2 --shares 1,1000" "-n 20 --shares 1,9,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1" \
        "-n 2 --zero 3 --shares 1,2" "-n 4 --mesh data=2,tensor=2 --shares 1,2" "-n 2 --microbatches 4 --shares 4,1" \
        "-n 2 --device reference,cpu --shares measured" "-n 2 --device cpu,distant --shares measured --engine mpi" \
        "--shares measured" "-n 2 --device distant,reference --shares 2,5 --home cpu"; do
        "$weft" train --model $model $small $options 2>err | last >out
        [ -s expected ] && cmp -s expected out && pass || flunk "$model $options: $(cat expected out err)"
    done
done
"$weft" train --model mlp $small -n 2 --device reference,cpu --shares measured 2>&1 |
    grep -q '^weft: measured shares of the batch; another run has the same with --shares 0\.[0-9]*,0\.[0-9]*$' && pass || flunk "measured shares"
"$weft" plan --model mlp $small -n 3 --shares 3,1,2 >out 2>err && grep -q '^   2  data 2' out && pass || flunk "a plan: $(cat err)"
"$weft" plan --model mlp $small -n 2 --shares 3,1 --dump=0 | grep -q 'flatten:plain@.*(30720)' && pass || flunk "15 of 20 samples of rank 0"
refuses() { # refuses WORDS OPTIONS...
    local words=$1
    shift
    "$weft" train --model mlp $small "$@" >out 2>err && flunk "not refused: $*" || { grep -q -- "$words" err && pass || flunk "$*: $(cat err)"; }
}
refuses "shares '1,2,3' has 3 numbers, and the data axis has 2 ranks" -n 2 --shares 1,2,3
refuses "shares '1,2' has 2 numbers, and the data axis has 1 rank" --shares 1,2
refuses "'a' is no number; give one for each rank" -n 2 --shares 1,a
refuses "has an empty piece" -n 2 --shares 1,
refuses "the share of rank 1 is 0, must be above 0" -n 2 --shares 1,0
refuses "the share of rank 0 is -1" -n 2 --shares=-1,2
refuses "the share of rank 1 is inf" -n 2 --shares 1,inf
refuses "virtual-workers and shares contradict each other" -n 2 --shares 1,2 --virtual-workers 4
unlike="is to be split over the data axis, whose ranks have unlike shares of the batch; split it over another axis, or leave --shares out"
refuses "shard: 'fc1/weight' $unlike" -n 2 --shares 1,2 --shard fc1/weight:out=data
refuses "shard: 'x' $unlike" -n 2 --shares 1,2 --shard x:3=data
"$weft" plan --model mlp $small -n 2 --shares measured >out 2>err && flunk "a plan measures" || grep -q 'for a plan give numbers' err && pass || flunk "plan: $(cat err)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
