#!/usr/bin/env bash
# Bytes that cross ranks in bf16, counted by communicators, against the figures of `weft plan`: sums of gradients (--sum-dtype),
# and with --dtype bf16 activations between stages, halos, gathered activations, sums over heads, parameters of ZeRO 3:
# tests/train/bf16_bytes.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--model lenet --data glyphs:size=20,train=48,test=8 --batch 8"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--model gpt:layers=1,heads=2,width=16 --data text:text,unit=char,context=16,stride=8 --batch 8"

# figures OPTIONS: the bytes of a step by the plan, and those that communicators count in one.
figures() {
    rm -f metrics
    planned=$("$weft" plan "$@" 2>err | sed -n 's/On the wire in a step: .*(\([0-9]*\) bytes).*/\1/p')
    "$weft" train -q -t 1 --metrics metrics --steps 2 "$@" >out 2>err || flunk "$*"
    counted=$(sed -n 's/.*"step":2,.*"comm_bytes":\([0-9]*\),.*/\1/p' metrics)
}
# halves WANT TYPE OPTIONS: with TYPE bf16 WANT percent of the bytes of a step are left by the plan, and so many are sent. Losses and
# requests to stop come on top, and what fills up messages to whole cache lines.
halves() {
    local want=$1 type=$2 whole
    shift 2
    figures "$@"
    whole=$planned
    follows "$@"
    figures "$@" "$type" bf16
    follows "$@" "$type" bf16
    [ $((100 * planned / whole)) = "$want" ] && pass || flunk "$* $type bf16: plan $whole to $planned, not $want %"
}
follows() {
    [ "$counted" -ge "$planned" ] && [ "$counted" -le $((planned + planned / 50 + 2000)) ] && pass ||
        flunk "$*: plan $planned, sent $counted"
}

halves 50 --sum-dtype $images -n 2
# What is rounded lies beside the gradients.
"$weft" plan $images -n 2 --sum-dtype bf16 >out 2>err
holds out '^ *0  among activations, gradients rounded to bf16 and their sums: up to 1[0-9]{3} kB$'
"$weft" plan $images -n 2 --dtype bf16 2>err | grep -q 'gradients rounded' && flunk "gradients that are not rounded" || pass
halves 75 --sum-dtype $images -n 2 --zero 1
halves 75 --sum-dtype $images -n 2 --zero 2
halves 50 --sum-dtype $images -n 4 --mesh data=2,domain=2 --dtype bf16
halves 50 --sum-dtype $tokens -n 2 --microbatches 2
halves 50 --dtype $images -n 2 --mesh pipeline=2
in_full && halves 50 --dtype $images -n 3 --mesh pipeline=3 --microbatches 2
halves 66 --dtype $images -n 2 --zero 3
halves 71 --dtype $tokens -n 2 --zero 3
halves 82 --dtype $images -n 2 --mesh domain=2 --sum-dtype bf16
halves 54 --dtype $tokens -n 2 --mesh tensor=2
halves 65 --dtype $tokens -n 2 --mesh domain=2

# The exchange average sends what has changed since the last mean: the parameters' share of its bytes halves.
for every in 1 2; do # step 2 ends with a mean
    options="$images -n 2 --exchange average:every=$every"
    figures $options
    before=$counted
    figures $options --sum-dtype bf16
    rest=$((2 * counted - before)) # of losses and requests to stop; the first mean of a run in f32 compares layouts (8 bytes)
    [ $rest -ge -8 ] && [ $rest -lt 2000 ] && pass || flunk "average:every=$every sends $before, in bf16 $counted bytes"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
