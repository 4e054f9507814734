#!/usr/bin/env bash
# Ranks whose devices reach each other's memory add up and pass on values there: the bits are those of transfers through the host, and
# no gradient is copied to it: tests/train/device_sums.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
images="--data glyphs:size=16,train=40,test=20 --batch 8 --steps 3"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--data text:text,unit=char,context=16,stride=8 --batch 8 --steps 3"
gpt="--model gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens --optimizer adamw --clip-norm 1"
lstm="--model char-lstm:layers=1,units=16 $tokens"

# weights DEVICE OPTIONS: trains and prints a sum of the exported weights.
weights() {
    local device=$1
    shift
    rm -rf run weights.safetensors
    "$weft" train -q "$@" --device "$device" --checkpoint run >out 2>err && "$weft" export run --output weights.safetensors >out 2>err || cat err
    cksum <weights.safetensors
}
# same OPTIONS: on devices that reach each other, and on the same devices through the host (alone; another name is another card).
pairs="distant~distant:alone distant:of=cpu~distant:of=cpu:alone"
"$weft" train --model mlp $images --device opencl >out 2>err && pairs="$pairs opencl~opencl,opencl:0.0"
same() {
    for pair in $pairs; do
        in_turn 2 || continue
        near=$(weights "${pair%~*}" "$@")
        far=$(weights "${pair#*~}" "$@")
        [ "$near" = "$far" ] && pass || flunk "$pair $*: $near, through the host $far"
    done
}
same --model lenet $images -n 2
same --model lenet $images -n 4 --zero 2
same --model lenet $images -n 2 --mesh pipeline=2 --microbatches 4
same $gpt -n 2 --zero 3
same $lstm -n 4 --virtual-workers 8
same --model lenet $images -n 3 --mesh domain=3
same --model lenet $images -n 3 --mesh tensor=3
if in_full; then
    same --model lenet $images -n 3 --virtual-workers 6
    same --model lenet $images -n 2 --zero 1
    same --model lenet $images -n 2 --zero 3
    same --model lenet $images -n 4 --mesh data=2,pipeline=2 --microbatches 2
    same --model lenet $images -n 4 --mesh data=2,tensor=2
    same --model lenet $images -n 2 --mesh domain=2
    same --model lenet $images -n 2 --mesh domain=2 --dtype f64
    same --model lenet $images -n 4 --mesh domain=2,tensor=2 --dtype bf16
    same $gpt -n 2 --mesh tensor=2
    same --model lenet $images -n 2 --dtype f64
    same --model lenet $images -n 4 --dtype bf16
    same --model lenet $images -n 2 --mesh tensor=2 --dtype bf16
    same --model lenet $images -n 2 --home cpu
    same --model lenet $images -n 4 --mesh data=2 --exchange average:every=2
    same --model lenet $images -n 4 --mesh data=2 --exchange server:policy=bsp
    same $gpt -n 4
    same $lstm -n 4 --mesh data=2,pipeline=2 --microbatches 2
fi

# What a program of a rank copies to the host.
copied() { "$weft" plan "$@" --dump=1 | sed -n 's/^ *[0-9]* [a-z]* copy \([^ ]*\) .*to the host.*/\1/p' | sort | tr '\n' ' '; }
for zero in 0 1 2 3; do
    [ "$(copied --model lenet $images -n 2 --zero $zero --device distant)" = "learning_rate loss " ] && pass ||
        flunk "zero $zero: $(copied --model lenet $images -n 2 --zero $zero --device distant)"
done
for mesh in tensor=2 domain=2 data=2,tensor=2 tensor=2,domain=2 domain=3; do
    ranks=$(($(echo $mesh | tr -cd '0-9,' | tr ',' '*')))
    for device in distant $(case $pairs in *opencl*) echo opencl ;; esac); do
        [ "$(copied --model lenet $images -n $ranks --mesh $mesh --device $device)" = "learning_rate loss " ] && pass ||
            flunk "$mesh: $(copied --model lenet $images -n $ranks --mesh $mesh --device $device)"
    done
done
[ "$(copied $gpt -n 2 --mesh tensor=2 --device distant)" = "learning_rate loss " ] && pass || flunk "gpt: $(copied $gpt -n 2 --mesh tensor=2 --device distant)"
copied --model lenet $images -n 2 --mesh domain=2 --device distant:lacks=pad | grep -q loss && pass || flunk "a device without pad"
# MPI moves, and does not add, in the memory of devices whose addresses it may have: distant's is the host's in truth.
if command -v mpirun >/dev/null; then
    for way in "--model lenet $images -n 2 --zero 3" "--model lenet $images -n 3 --mesh domain=3" "--model lenet $images -n 2 --mesh pipeline=2 --microbatches 4"; do
        near=$(weights distant $way --engine mpi --trace trace)
        grep -q 'copy [^"]*/all_gather\|copy [^"]*/halo\|copy [^"]*\(receive\|send\)' trace* && flunk "$way: staged: $(grep -o '"copy [^"]*"' trace* | sort -u | head -5)" || pass
        far=$(weights distant $way --home cpu --engine mpi)
        base=$(weights distant:alone $way)
        [ "$near" = "$base" ] && [ "$far" = "$base" ] && pass || flunk "$way by MPI: $near, through the host $base"
    done
fi
# Ranges of ZeRO are updated on the device by every rule.
case $pairs in *opencl*) device=opencl ;; *) device=distant ;; esac
for rule in adamw lamb muon adafactor; do
    for zero in 1 3; do
        "$weft" plan --model lenet $images -n 2 --zero $zero -o $rule --clip-norm 1 --device $device --dump=1 >out 2>err
        grep -q '^# device .* 0 on the reference device' out && ! grep -q '^ *[0-9]* update .*\[to the host\]' <(grep -v 'copy learning_rate' out) && pass || flunk "zero $zero, $rule"
    done
done
copied --model lenet $images -n 2 --device distant:alone | grep -q 'fc1/dw' && pass || flunk "alone: $(copied --model lenet $images -n 2 --device distant:alone)"
copied --model lenet $images -n 2 --device distant --engine mpi | grep -q 'fc1/dw' && pass || flunk "processes"
# A trace of the run says the same.
"$weft" train -q --model lenet $images -n 2 --device distant --trace trace.json >out 2>err
grep -q '"all_reduce ' trace.json && ! grep -q '"copy [^"]*/d[wb]"' trace.json && pass || flunk "the trace: $(head -c 300 trace.json)"

# A rank that fails ends the others, with its sentence.
"$weft" train --model lenet $images --steps 60 --lr 1000000 -n 4 --device distant >out 2>err
code=$?
[ $code != 0 ] && grep -q 'not finite' err && pass || flunk "a loss that is no number: $code $(cat err)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
