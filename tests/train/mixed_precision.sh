#!/usr/bin/env bash
# Runs in mixed precision (--dtype bf16): bits over ranks, ZeRO, processes and resumed runs; the losses of f32; resuming across
# types; processors without instructions for bf16: tests/train/mixed_precision.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--data glyphs:size=16,train=120,test=20 --batch 12"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--data text:text,unit=char,context=16,stride=8 --batch 8"

# weights OPTIONS: the sum of the weights that a run exports.
weights() {
    rm -rf run
    "$weft" train -q -t 1 --dtype bf16 -c run "$@" >out 2>err || { flunk "$*"; return; }
    "$weft" export "$(ls -d run/step-* | sort -t- -k2n | tail -n 1)" -q -o weights.safetensors && md5sum <weights.safetensors
}
# alike WANT OPTIONS: a run with these options has these weights.
alike() {
    local want=$1
    shift
    [ "$(weights "$@")" = "$want" ] && pass || flunk "other weights with $*"
}

models=("mlp $images" "lenet $images" "gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens" "char-lstm:layers=1,units=16 $tokens")
for model in "${models[@]}"; do
    run="--model $model --steps 5"
    one=$(weights $run --virtual-workers 4)
    for device in cpu reference; do
        in_full || [ $device = cpu ] || continue
        [ $device = cpu ] || one=$(weights $run --virtual-workers 4 --device $device)
        alike "$one" $run --virtual-workers 4 -n 2 --device $device
        alike "$one" $run --virtual-workers 4 -n 4 --device $device
    done
    two=$(weights $run -n 2)
    alike "$two" $run -n 2 --zero 1
    alike "$two" $run -n 2 --zero 3
    whole=$(weights $run -n 2 --mesh data=2 --steps 6)
    rm -rf run
    "$weft" train -q -t 1 --dtype bf16 -c run $run -n 2 --steps 3 >out 2>err && cp -r run kept
    "$weft" train -q -t 1 --dtype bf16 -c run $run -n 2 --steps 6 --resume >out 2>err &&
        "$weft" export run/step-6 -q -o weights.safetensors && [ "$(md5sum <weights.safetensors)" = "$whole" ] && pass ||
        flunk "resumed: $model"
    # Within what rounding does in a few steps; losses are printed with four digits.
    for dtype in f32 bf16; do
        "$weft" train -t 1 --dtype $dtype $run --steps 8 >out 2>err || flunk "$model in $dtype"
        sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1 >loss-$dtype
    done
    awk '{ loss[NR] = $1 } END { d = loss[1] - loss[2]; exit !(NR == 2 && d * d <= (0.01 * loss[1]) ^ 2) }' loss-f32 loss-bf16 && pass ||
        flunk "$model: f32 $(cat loss-f32), bf16 $(cat loss-bf16)"
done

# Products of updates are f32: in bf16 the bits would depend on what ZeRO leaves to fuse.
for optimizer in adafactor muon; do
    run="--model mlp $images --steps 3 --virtual-workers 2 -o $optimizer"
    alike "$(weights $run)" $run -n 2 --zero 1
done

# Meshes whose values cross ranks in bf16.
while read -r options; do
    "$weft" train -t 1 --dtype bf16 --steps 3 $options >out 2>err && grep -q 'test loss [0-9]' out && pass || flunk "$options"
done <<WAYS
--model lenet --data glyphs:size=28,train=40,test=20 --batch 8 -n 2 --mesh domain=2
--model lenet $images -n 2 --mesh pipeline=2 --microbatches 2
--model lenet $images -n 4 --mesh data=2,tensor=2
--model gpt:layers=2,heads=2,width=16 $tokens -n 2 --mesh domain=2
--model lenet $images -n 2 --recompute
--model lenet $images -n 2 --exchange average
--model lenet $images -n 2 --device cpu,reference
--model lenet $images --device distant
WAYS

# Around the pool and the gradient of its index: layers that compute in bf16 and those that do not.
tried=0
for layer in $("$weft" help layers | sed -n 's/^  \([a-z][a-z_0-9]*\)$/\1/p'); do
    keys=
    [[ $layer == conv* ]] && keys=", filters: 6, kernel: 3"
    [[ $layer == group_norm ]] && keys=", groups: 3"
    [[ $layer == cast ]] && keys=", dtype: f32"
    for before in relu "$layer$keys"; do
        printf '  - %s\n' "{type: conv, filters: 6, kernel: 3}" "{type: $before}" "{type: maxpool}" "{type: $layer$keys}" "{type: dense, units: outputs}" |
            sed '1i layers:' >net.yaml
        run="-t 1 --model net.yaml --data glyphs:size=16,train=40,test=20 --batch 8 --steps 4"
        "$weft" train $run >out 2>err || continue # no layer of pictures without other keys
        sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1 >loss
        "$weft" train $run --dtype bf16 >out 2>err
        sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1 >>loss
        awk '{ loss[NR] = $1 } END { d = loss[1] - loss[2]; exit !(NR == 2 && d * d <= (0.02 * loss[1]) ^ 2) }' loss && pass ||
            flunk "$before, maxpool, $layer: $(cat loss)"
        tried=$((tried + 1))
    done
done
[ $tried -ge 36 ] && pass || flunk "$tried layers around pools"

# A checkpoint of one type goes on in the other, and a line says so; f64 is stored otherwise.
rm -rf run
run="--model mlp $images -c run"
"$weft" train -q $run --dtype f32 --steps 2 >out 2>err && "$weft" train $run --dtype bf16 --steps 4 --resume >out 2>err &&
    grep -q 'goes on after step 2 with --dtype bf16 instead of f32' err && "$weft" train $run --dtype f32 --steps 6 --resume >out 2>err &&
    grep -q 'with --dtype f32 instead of bf16' err && pass || flunk "across types: $(cat err)"
"$weft" train $run --dtype f64 --steps 8 --resume >out 2>err
[ $? = 2 ] && grep -q 'dtype' err && pass || flunk "f64 after f32: $(cat err)"

# Prediction, evaluation, generation.
cat >turns.yaml <<'NET'
name: turns
layers:
  - {type: embedding, units: 16}
  - {type: rms_norm}
  - {type: attention, heads: 2, rotary: 10000, causal: true}
  - {type: linear, units: 16}
  - {type: silu}
  - {type: gru, units: 17, layers: 2}
  - {type: linear, units: outputs}
NET
for model in turns.yaml char-lstm:layers=1,units=16 gpt:layers=1,heads=2,width=16; do
    rm -rf talk
    "$weft" train -q --model $model $tokens --dtype bf16 --steps 5 -c talk >out 2>err
    "$weft" generate talk --prompt 'the ' --tokens 20 --seed 1 >one 2>err && "$weft" generate talk --prompt 'the ' --tokens 20 --seed 1 >two 2>err &&
        [ -s one ] && cmp -s one two && pass || flunk "generate by $model: $(cat err)"
done
"$weft" eval talk >out 2>err && grep -q 'loss [0-9]' out && pass || flunk "eval: $(cat err)"

# What the processor has; without instructions for bf16 the same run goes on in f32 between conversions.
"$weft" train --model lenet $images --steps 3 --dtype bf16 >out 2>err && grep -q 'bf16 on cpu: ' err && pass || flunk "no line: $(cat err)"
# With instructions no group is computed in f32 between conversions, and the reference device computes but the numbers of a step.
cat >norms.yaml <<'NET'
name: norms
layers:
  - {type: conv, name: c1, filters: 20, kernel: 3, padding: 1}
  - {type: batch_norm, name: b1}
  - {type: relu, name: r1}
  - {type: avgpool, kernel: 2, stride: 2}
  - {type: global_avgpool}
  - {type: dropout, rate: 0.3}
  - {type: dense, units: classes}
NET
twins="--data pairs:text,length=7,train=60,test=20 --batch 12"
while read -r options; do
    grep -q 'no instructions' err && break
    "$weft" train -q -t 1 --dtype bf16 --steps 1 --trace steps $options >out 2>err || flunk "trace: $options: $(cat err)"
    slow=$(grep -E '"kernel":"(in f32|reference)"' steps | grep -oE '"name":"[a-z_+]*' | grep -vE ':"(schedule|constant|counter)$' | sort -u)
    [ -s steps ] && [ -z "$slow" ] && pass || flunk "$options: in f32 or on the reference device: $slow"
    # Parameters lie as their gradients are made, images are joined as they lie, and no convolution is copied into a product.
    [[ $options == *"$images" ]] && ! grep -q AMX err || continue
    slow=$(grep -oE '"name":"reorder [^"]*/dw"|"name":"concat[^}]*"kernel":"loop"|"name":"conv_dw[^}]*"kernel":"x64:gemm' steps | sort -u)
    [ -z "$slow" ] && pass || flunk "$options: converted: $slow"
done <<WAYS
--model mlp $images
--model lenet $images
--model vgg11 $images
--model inception $images
--model norms.yaml $images
--model gpt:layers=1,heads=2,width=16,dropout=0.1,tied $tokens
--model transformer:dropout=0.1 $tokens
--model turns.yaml $tokens
--model char-lstm:layers=2,units=16,dropout=0.1 $tokens
--model twin-lstm:units=9 $twins
WAYS
export ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2
"$weft" train --model lenet $images --steps 3 --dtype bf16 >out 2>err && grep -q 'no instructions for products of bf16' err && pass ||
    flunk "without instructions: $(cat err)"
unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA

# Too large a rate: the report and the exit code of f32.
for dtype in f32 bf16; do
    "$weft" train -q --model mlp $images --steps 20 --lr 1e6 --optimizer sgd --dtype $dtype >out 2>err
    echo "$? $(sed 's/.*instruction [0-9]*/instruction/; s/[0-9]//g' err)" >report-$dtype
done
grep -q 'first to make a number that is not finite' err && cmp -s report-f32 report-bf16 && pass || flunk "overflow: $(cat report-f32 report-bf16)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
