#!/usr/bin/env bash
# Models that are trained a little on the device opencl reach the accuracy of the cpu: tests/train/opencl_accuracy.sh PATH/TO/weft
# Both devices round in their own way, so after some steps in f32 losses differ; a wrong kernel keeps a model from learning, which would
# show in a loss that stays where it began or an accuracy that is another.
set -u
weft=$(realpath "$1")
data=$(cd "$(dirname "$0")/../../../shared/data" 2>/dev/null && pwd)
. "$(dirname "$0")/../support/check.sh"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
if ! "$weft" train --model mlp --data glyphs:size=16,train=20,test=10 --batch 5 --steps 1 --device opencl >out 2>err; then
    echo "SKIPPED: $(cat err)"
    grep -q 'no OpenCL platform\|libOpenCL' err
    exit
fi
# reaches ACCURACY MODEL OPTIONS: on both devices the test samples have at least this accuracy; they differ by no more than 0.03 in it,
# and by no more than 0.05 in the loss.
reaches() {
    local least=$1 model=$2
    shift 2
    for device in cpu opencl; do
        "$weft" train --model "$model" "$@" --seed 3 --device $device >out 2>err || flunk "$model on $device"
        sed -n 's/.*test loss \([0-9.]*\) *accuracy \([0-9.]*\).*/\1 \2/p' out | tail -n 1 >$device
    done
    echo "$model: loss and accuracy $(cat cpu) on cpu, $(cat opencl) on opencl"
    awk -v least="$least" '{ loss[NR] = $1; right[NR] = $2 } END { d = loss[1] - loss[2]; e = right[1] - right[2]; exit !(NR == 2 && right[1] >= least &&
        right[2] >= least && d <= 0.05 && -d <= 0.05 && e <= 0.03 && -e <= 0.03) }' cpu opencl && pass || flunk "$model: $(cat cpu opencl)"
}
images="--data glyphs:size=16,train=400,test=100"
if [ -n "$data" ] && [ -d "$data/mnist15k" ]; then
    reaches 0.9 lenet --data idx:"$data/mnist15k" --batch 50 --steps 60
else
    reaches 0.4 lenet $images --batch 20 --steps 60
fi
reaches 0.2 vgg11 $images --batch 20 --steps 60 --optimizer adam --lr 0.0003
reaches 0.8 inception $images --batch 20 --steps 160 --lr-schedule cosine
text=$data/tinyshakespeare/input.txt
if [ -f "$text" ]; then
    letters="--data text:$text,unit=char,context=32 --batch 20"
    reaches 0.27 char-lstm:layers=1,units=48 $letters --steps 60 --optimizer adam --lr 0.01
    reaches 0.25 gpt:layers=1,heads=2,width=32 $letters --steps 60 --optimizer adamw --lr 0.003
    head -c 40000 "$text" >book.txt
    reaches 0.4 twin-lstm:units=12 --data pairs:book.txt,length=12,train=400,test=100 --batch 20 --steps 60 --optimizer adam --lr 0.01
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
