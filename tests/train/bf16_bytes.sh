#!/usr/bin/env bash
# Bytes that cross ranks in bf16: those of `weft plan` over meshes and stages of ZeRO against a formula, and those that communicators
# count in a run against the plan: tests/train/bf16_bytes.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--model lenet --data glyphs:size=20,train=48,test=8 --batch 8"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--model gpt:layers=1,heads=2,width=16 --data text:text,unit=char,context=16,stride=8 --batch 8"

chars="--model char-lstm:layers=1,units=16 --data text:text,unit=char,context=16,stride=8 --batch 8"
branches="--model inception --data glyphs:size=20,train=48,test=8 --batch 8"

# planned OPTIONS: the bytes of a step by the plan.
planned() { "$weft" plan "$@" 2>err | sed -n 's/On the wire in a step: .*(\([0-9]*\) bytes).*/\1/p'; }

# --sum-dtype bf16 halves the bytes of sums of gradients, and nothing else. --dtype bf16 halves all others: activations between stages,
# halos, gathered activations, sums over heads, with ZeRO 3 weights; but not the new weights of ZeRO 1 and 2, of which ranks send what
# they have received of sums in a micro-batch, and with ZeRO 3 not weights that are no operands of products, such as biases.
formula() {
    local micro=1 most=0 sums new=0 want wide narrow
    wide=$(planned "$@") sums=$((2 * (wide - $(planned "$@" --sum-dtype bf16))))
    case "$*" in *--microbatches*) micro=$(echo "$*" | sed 's/.*--microbatches \([0-9]*\).*/\1/') ;; esac
    case "$*" in *"--zero 1"* | *"--zero 2"*) new=$((sums / micro)) ;; *"--zero 3"*) most=$((wide / 20)) ;; esac
    want=$(((wide - sums - new) / 2 + sums + new)) narrow=$(planned "$@" --dtype bf16)
    [ "$narrow" -ge $want ] && [ "$narrow" -le $((want + most)) ] && pass || flunk "$* --dtype bf16: $narrow bytes of $wide, must be $want"
    [ "$(planned "$@" --dtype bf16 --sum-dtype bf16)" = $((narrow - sums / 2)) ] && pass || flunk "$*: sums are not half as long"
}
while read -r ways; do
    formula $images $ways
    formula $tokens $ways
    if in_full; then
        formula $branches $ways
        [[ $ways == *domain* ]] || formula $chars $ways # a recurrence is not cut along its positions
    fi
done <<WAYS
-n 2
-n 3 --zero 2
-n 2 --zero 3
-n 2 --mesh tensor=2
-n 2 --mesh domain=2
-n 3 --mesh pipeline=3 --microbatches 2
-n 4 --mesh data=2,tensor=2 --zero 1
-n 4 --mesh data=2,pipeline=2 --microbatches 2 --zero 2
-n 4 --mesh data=2,domain=2
-n 8 --mesh data=2,tensor=2,pipeline=2 --microbatches 2 --zero 3
WAYS
in_full && formula $images -n 4 --mesh data=2,domain=2 --zero 3 && formula $images -n 4 --mesh tensor=2,domain=2

# What is rounded lies beside the gradients.
"$weft" plan $images -n 2 --sum-dtype bf16 >out 2>err
holds out '^ *0  among activations, gradients rounded to bf16 and their sums: up to 1[0-9]{3} kB$'
"$weft" plan $images -n 2 --dtype bf16 2>err | grep -q 'gradients rounded' && flunk "gradients that are not rounded" || pass

# figures OPTIONS: the bytes of a step by the plan, and those that communicators count in one.
figures() {
    rm -f metrics
    planned=$(planned "$@")
    "$weft" train -q -t 1 --metrics metrics --steps 2 "$@" >out 2>err || flunk "$*"
    counted=$(sed -n 's/.*"step":2,.*"comm_bytes":\([0-9]*\),.*/\1/p' metrics)
}
# A run sends what is planned, and losses and requests to stop, and what fills up messages to whole cache lines.
while read -r options; do
    figures $options
    [ "$counted" -ge "$planned" ] && [ "$counted" -le $((planned + planned / 50 + 2000)) ] && pass ||
        flunk "$options: plan $planned, sent $counted"
done <<WAYS
$images -n 2
$images -n 2 --sum-dtype bf16
$images -n 2 --zero 1 --sum-dtype bf16
$images -n 2 --zero 2 --dtype bf16
$images -n 2 --zero 3 --dtype bf16
$images -n 4 --mesh data=2,domain=2 --dtype bf16 --sum-dtype bf16
$images -n 3 --mesh pipeline=3 --microbatches 2 --dtype bf16
$images -n 2 --mesh domain=2 --dtype bf16
$tokens -n 2 --microbatches 2 --sum-dtype bf16
$tokens -n 2 --zero 3 --dtype bf16
$tokens -n 2 --mesh tensor=2
$tokens -n 2 --mesh tensor=2 --dtype bf16
$tokens -n 2 --mesh domain=2 --dtype bf16
WAYS

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
