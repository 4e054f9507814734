#!/usr/bin/env bash
# Built-in models on the device opencl against the cpu, bits over ranks that share it, what it prints for wrong devices, and its
# cache: tests/train/opencl_models.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
# Compiled kernels are kept in the build, also if no other test says where.
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
images="--data glyphs:size=16,train=40,test=20 --batch 8"
if ! "$weft" train $images --model mlp --steps 1 --device opencl >out 2>err; then
    echo "SKIPPED: $(cat err)"
    grep -q 'no OpenCL platform\|libOpenCL' err # any other message is a failure
    exit
fi
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--data text:text,unit=char,context=16,stride=8 --batch 8"

# same STEPS TYPE MODEL OPTIONS: the losses of the test samples agree with those of the cpu.
same() {
    local steps=$1 type=$2 name=$3
    shift 3
    for device in cpu opencl; do
        "$weft" train --model "$name" "$@" --steps "$steps" --dtype "$type" --device $device >out 2>err || flunk "$name on $device"
        sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1 >loss-$device
    done
    # Losses are printed with four digits; the last one may be rounded otherwise.
    awk -v within="$([ "$type" = f64 ] && echo 0.00011 || echo 0.002)" '{ loss[NR] = $1 } END { d = loss[1] - loss[2]; exit !(NR == 2 && d <= within && -d <= within) }' \
        loss-cpu loss-opencl && pass || flunk "$name $type: cpu $(cat loss-cpu), opencl $(cat loss-opencl)"
}
same 4 f32 lenet $images
same 4 f32 gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens --optimizer adamw --clip-norm 1
same 4 f32 char-lstm:layers=1,units=16 $tokens
if in_full; then
    same 4 f64 lenet $images
    same 4 f64 gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens
    same 4 f64 char-lstm:layers=1,units=16 $tokens
    same 3 f32 inception $images
    same 2 f64 inception $images
    same 2 f32 vgg11 $images
    same 3 f32 mlp $images --optimizer lamb
fi

# Operators with integers, truth values and indices of 64 bits.
types=$(dirname "$weft")/tests/test_op_types
if in_full && [ -x "$types" ]; then "$types" opencl >out 2>err && pass || flunk "types of operators"; fi

# Meshes, exchanges and mixed devices: as one rank of the cpu, to rounding. Convolutions on the device and dense layers on cores;
# a device and cores that share a batch; processes that share a device.
alone=$("$weft" train --model lenet $images --steps 3 --dtype f64 | grep 'test loss')
way() {
    "$weft" train --model lenet $images --steps 3 --dtype f64 "$@" >out 2>err && [ "$(grep 'test loss' out)" = "$alone" ] && pass || flunk "$* (alone $alone)"
}
way --device opencl -n 2 --mesh tensor=2
way --device opencl,cpu -n 2 --place 'conv*=cpu:0,pool*=cpu:0,*=cpu:1'
# Kernels of the cores, which update and clip here, are not told layouts of the device's memory.
"$weft" train --model mlp $images --steps 3 --clip-norm 0.1 --device cpu >out 2>err
grep 'test loss' out >by-cpu
"$weft" train --model mlp $images --steps 3 --clip-norm 0.1 --device opencl --home cpu >out 2>err
grep 'test loss' out >by-opencl
[ -s by-cpu ] && cmp -s by-cpu by-opencl && pass || flunk "--home cpu with a clipped norm: $(cat by-cpu by-opencl err)"
"$weft" plan --model mlp $images --clip-norm 0.1 --device opencl --home cpu --dump=0 >out 2>err
sed -n '/ update sum_squares/,/^ *[0-9]* update add/p' out | grep -q '<- .*:plain@host ' && ! sed -n '/ update sum_squares/,/^ *[0-9]* update add/p' out | grep -q 'plain@arena' &&
    pass || flunk "the sum of squares is computed where the gradients are not: $(cat out err)"
if in_full; then
    way --device opencl -n 2 --mesh data=2
    way --device opencl -n 2 --mesh data=2 --zero 2
    way --device opencl -n 2 --mesh pipeline=2 --microbatches 2
    way --device opencl -n 2 --mesh domain=2
    way --device opencl,cpu -n 2 --mesh data=2
    way --device opencl,distant -n 2 --mesh data=2
    for exchange in average:every=2 server; do
        for device in cpu opencl; do
            "$weft" train --model mlp $images --steps 4 --dtype f64 -n 2 --exchange $exchange --device $device >out 2>err
            grep 'test loss' out >by-$device
        done
        [ -s by-cpu ] && cmp -s by-cpu by-opencl && pass || flunk "$exchange: $(cat by-cpu by-opencl)"
    done
    "$weft" train --model mlp $images --steps 3 -n 2 --exchange server --engine processes --device opencl >out 2>err && grep -q 'test loss' out && pass || flunk "processes"
fi

# The same bits from run to run, and with virtual workers on any number of ranks that share the device.
for n in 1 1 2 4; do
    "$weft" train -q --model lenet $images --steps 3 --device opencl -n $n --virtual-workers 4 --checkpoint ranks-$n >out 2>err &&
        "$weft" export ranks-$n --output weights-$n.safetensors >out 2>err || flunk "$n ranks"
    [ -e first ] || cp weights-$n.safetensors first
    cmp -s first weights-$n.safetensors && pass || flunk "$n ranks have other bits"
    rm -rf ranks-$n.old && mv ranks-$n ranks-$n.old
done
# A checkpoint of the device is evaluated on the cpu.
"$weft" eval ranks-4.old >out 2>err && grep -q loss out && pass || flunk "evaluation on the cpu"

# Generated texts are those of the cpu.
"$weft" train -q --model gpt:layers=1,heads=2,width=16 $tokens --steps 4 --device opencl --checkpoint text-run >out 2>err || flunk "a run for texts"
for device in cpu opencl; do "$weft" generate text-run --prompt 'the ' --tokens 9 --temperature 0 --device $device >said-$device 2>err; done
[ -s said-cpu ] && cmp -s said-cpu said-opencl && pass || flunk "generated: $(cat said-cpu said-opencl)"

# Wrong devices, and a model that does not fit.
POCL_MEMORY_LIMIT=1 refuses 1 "has no room for" "$weft" train --model gpt:layers=24,heads=16,width=1024 $tokens --steps 1 --device opencl
refuses 2 "there is no device 7.0; there are: 0.0 " "$weft" train $images --model mlp --device opencl:7.0
refuses 2 "'first' is no device; write PLATFORM.DEVICE" "$weft" train $images --model mlp --device opencl:first
mkdir none
OCL_ICD_VENDORS=$PWD/none refuses 1 "there is no OpenCL platform here" "$weft" train $images --model mlp --device opencl

# Kernels of a processor are kept by PoCL alone, and a folder that cannot be made changes nothing (cuda_models.sh has the files).
train="$weft train $images --model mlp --steps 2 --device opencl"
$train | grep 'test loss' >want
pocl=$XDG_CACHE_HOME/pocl
XDG_CACHE_HOME=/proc/none POCL_CACHE_DIR=$pocl $train 2>err | grep 'test loss' >got
cmp -s want got && pass || flunk "without a cache: $(cat got err)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
