#!/usr/bin/env bash
# Operators placed on ranks by name: tests/train/placement.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --steps 3"
# A layer without weights that reads the input runs where it is placed, and its neighbours elsewhere.
cat >first.yaml <<'YAML'
layers:
  - {type: avgpool, name: shrink}
  - {type: relu, name: edge}
  - {type: dense, units: classes}
YAML
for place in 'shrink=cpu:0,*=cpu:1' 'shrink=cpu:1,*=cpu:0' 'shrink=cpu:1,edge=cpu:0,*=cpu:1' 'edge=cpu:0,dense*=cpu:1'; do
    "$weft" train $small --model first.yaml -n 2 --place "$place" >out 2>err && pass || flunk "placed by $place"
    grep 'test loss' out >"loss-$(echo "$place" | tr -c 'a-z0-9\n' -)"
done
"$weft" train $small --model first.yaml | grep 'test loss' >loss
for other in loss-*; do [ -s loss ] && cmp -s loss "$other" && pass || flunk "$other: $(cat loss "$other")"; done
# What only training has may be placed as well: evaluation goes without it.
printf 'layers:\n  - {type: dense, name: first, units: 9}\n  - {type: dropout, name: fall}\n  - {type: dense, units: classes}\n' >fall.yaml
for place in 'fall=cpu:1,*=cpu:0' 'fall=cpu:0,*=cpu:1'; do
    "$weft" train $small --model fall.yaml -n 2 --place "$place" >out 2>err && grep -q 'test loss' out && pass || flunk "placed by $place"
done
# A pipeline with a stage for each operator that training has: in evaluation one rank is idle.
"$weft" train $small --model fall.yaml -n 6 --mesh pipeline=6 --microbatches 2 --checkpoint stages >out 2>err &&
    grep 'test loss' out >six && [ -e stages/latest ] && "$weft" train $small --model fall.yaml --microbatches 2 | grep 'test loss' >one &&
    cmp -s one six && pass || flunk "six stages: $(cat six one err)"
# An input that is sent on as it is must not change when the sender goes on to the next batch.
printf 'layers:\n  - {type: flatten, name: flat}\n  - {type: dense, units: 30}\n  - {type: dense, units: classes}\n' >flat.yaml
ahead="--model flat.yaml --data glyphs:size=16,train=60,test=90 --batch 1 --steps 3"
for device in cpu reference; do
    "$weft" train $ahead --device $device | grep 'test loss' >alone
    "$weft" train $ahead --device $device -n 2 --place 'flat=cpu:0,*=cpu:1' 2>err | grep 'test loss' >out
    [ -s alone ] && cmp -s alone out && pass || flunk "the sender ran ahead, $device: $(cat out err), alone $(cat alone)"
done
"$weft" plan $small --model first.yaml -n 2 --place 'shrink=cpu:1,*=cpu:0' --dump=1 >out 2>err && grep -q '^ *[a-z0-9%]* *avgpool\|avgpool shrink' out &&
    ! sed -n '/^Program of rank 1/,$p' out | grep -q dense && pass || flunk "the program of rank 1"
# Devices in --place are ranks in the order of their first mention, or those of --device; cpu:K is the K-th set of cores.
same() { # same PLACE-AND-OPTIONS... -- PLACE-AND-OPTIONS...: both runs have the same last line of the test split
    local first=()
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    shift
    "$weft" train $small --model first.yaml "${first[@]}" 2>err | grep 'test loss' >by-device
    "$weft" train $small --model first.yaml "$@" 2>>err | grep 'test loss' >by-rank
    [ -s by-rank ] && cmp -s by-device by-rank && pass || flunk "${first[*]}: $(cat by-device by-rank err)"
}
same --place 'shrink=distant,*=reference' -- --device distant,reference -n 2 --place 'shrink=rank:0,*=rank:1'
same --place 'edge=distant,shrink=reference,*=distant' -- --device distant,reference -n 2 --place 'edge=rank:0,shrink=rank:1,*=rank:0'
same --place 'shrink=distant,edge=cpu:0,*=cpu:1' -- --device distant,cpu -n 3 --place 'shrink=rank:0,edge=rank:1,*=rank:2' --device distant,cpu,cpu
same --place 'shrink=distant,*=cpu:7' -- --device distant,cpu -n 2 --place 'shrink=rank:0,*=rank:1'
same --device reference,distant -n 2 --place 'shrink=distant,*=reference' -- --device reference,distant -n 2 --place 'shrink=rank:1,*=rank:0'
# A device may have options, also those with numbers behind '=' and lists behind it. The test may run on one core of many.
core=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
same --place 'shrink=distant:of=cpu,*=reference' -- --device distant:of=cpu,reference -n 2 --place 'shrink=rank:0,*=rank:1'
same --place 'shrink=distant:memory=64000000,*=distant' -- --device distant:memory=64000000,distant -n 2 --place 'shrink=rank:0,*=rank:1'
same --place "shrink=cpu:cores=$core,*=distant:of=cpu" -- --device cpu:cores=$core,distant:of=cpu -n 2 --place 'shrink=rank:0,*=rank:1'
same --device cpu:cores=$core,distant:of=cpu -n 2 --place "shrink=distant:of=cpu,edge=cpu,*=cpu:cores=$core" -- --device cpu,distant:of=cpu -n 2 --place 'shrink=rank:1,*=rank:0'
refuses 2 "device 'cpu:': nothing stands behind" "$weft" train $small --model first.yaml --device cpu:
refuses 2 "place 'shrink=distant:of=cpu': no rank has that device; --device is distant,cpu for 2 ranks" "$weft" train $small --model first.yaml --device distant,cpu -n 2 \
    --place 'shrink=distant:of=cpu,*=cpu'
same --place 'shrink=distant,*=reference' --engine mpi -- --device distant,reference -n 2 --place 'shrink=rank:0,*=rank:1' --engine mpi
# Ranks that share out virtual workers have devices of the same bits: those of a pipeline may be others than those of the next stage.
workers="$small --model first.yaml --virtual-workers 4"
same="give them one device, or leave --virtual-workers out"
for engine in threads mpi; do
    refuses 2 "rank 0 has cpu, and rank 1 has reference; $same" "$weft" train $workers --engine $engine --device cpu,reference -n 2
done
refuses 2 "$same" "$weft" train $workers --device cpu,cpu,reference -n 4
refuses 2 "$same" "$weft" train $workers --device cpu,cpu,reference,reference -n 4 --mesh data=2,tensor=2
accepts "unlike devices along another axis" "$weft" train -q $workers --device cpu,reference -n 4 --mesh data=2,tensor=2
accepts "virtual workers on distant and its device" "$weft" train -q $workers --device reference,distant,distant:of=reference,reference -n 4
# A device that cannot be opened ends the job at once, though the other ranks have theirs: here OpenCL without a platform.
for options in "--device opencl,cpu -n 2" "--device cpu,opencl -n 2" "--device opencl,cpu -n 2 --engine mpi" "--place shrink=opencl,*=cpu:0"; do
    # shellcheck disable=SC2086
    OCL_ICD_VENDORS=$PWD/none timeout 300 "$weft" train $small --model first.yaml $options >out 2>err </dev/null
    code=$?
    [ $code != 0 ] && [ $code != 124 ] && [ "$(grep -c '^weft: .*opencl' err)" = 1 ] && pass || flunk "$options: $code $(cat err)"
done
# The same losses as on one device: the reference device and distant have the same bits.
"$weft" train $small --model first.yaml --device reference | grep 'test loss' >one
"$weft" train $small --model first.yaml --place 'shrink=distant,*=reference' | grep 'test loss' >two
[ -s one ] && cmp -s one two && pass || flunk "one device, two devices: $(cat one two)"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
