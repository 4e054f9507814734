#!/usr/bin/env bash
# What a trace shows of devices with memory of their own: the bytes that a step copies, and the device's times on tracks of their
# own: tests/train/device_trace.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
checks=$PYTHONPATH/check_copies.py
images="--data glyphs:size=16,train=40,test=20 --batch 8 --steps 3"
devices=distant
"$weft" train $images --model mlp --steps 1 --device opencl >out 2>err && devices="distant opencl"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
# traced DEVICE IN OUT GRADIENTS OPTIONS: each step copies so many bytes in and out.
traced() {
    local device=$1 in=$2 out=$3 gradients=$4
    shift 4
    "$weft" train "$@" --device "$device" --trace t.json >out 2>err && python3 "$checks" t.json "$in" "$out" "$gradients" >out 2>err && pass || flunk "$* on $device"
}
for device in $devices; do
    # The batch in: 8 images of 16 x 16 f32 pixels, labels and weights; out: the loss and the learning rate.
    traced $device $((8 * 256 * 4 + 8 * 4 + 8 * 4)) 8 0 --model lenet $images
    # 8 rows of 16 tokens and labels, and the weights of all of them.
    traced $device $((8 * 16 * 4 * 3)) 8 0 --model gpt:layers=1,heads=2,width=16 --data text:text,unit=char,context=16,stride=8 --batch 8 --steps 3
done
# Gradients of all parameters that a server gets are copied in a queue of their own.
traced distant $((8 * 256 * 4 + 8 * 4 + 8 * 4)) 8 $((4 * 128906)) --model lenet $images -n 2 --exchange server:policy=bsp
# A trace changes neither what is queued nor the weights.
for device in $devices; do
    "$weft" train --model lenet $images --device $device -n 2 >want 2>err
    "$weft" train --model lenet $images --device $device -n 2 --trace t.json >got 2>err && [ "$(grep 'test loss' got)" = "$(grep 'test loss' want)" ] && pass || flunk "a traced run on $device"
done
# The metrics say how busy a device is, which needs a clock, and how full, which the device must know; nothing of the cpu.
uses() {
    "$weft" train --model lenet --data glyphs:size=16,train=200,test=20 --batch 8 --steps 25 --device "$1" --metrics m.jsonl >out 2>err
    python3 -c '
import json, sys
steps = [row for row in map(json.loads, open("m.jsonl")) if row["event"] == "step"]
keys = {key for row in steps for key in row if key.startswith("device_")}
assert keys == set(sys.argv[1:]), keys
assert all(0 < row["device_busy"] <= 1 for row in steps if "device_busy" in row)
assert all(0 < row["device_used_bytes"] < row["device_total_bytes"] == 64000000 for row in steps if "device_used_bytes" in row)
' "${@:2}" >out 2>err && pass || flunk "the metrics of $1"
}
uses distant device_busy
uses distant:memory=64000000 device_busy device_used_bytes device_total_bytes
uses cpu
echo "$passed passed, $failed failed"
[ $failed = 0 ]
