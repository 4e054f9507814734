#!/usr/bin/env bash
# Ranks on cores that --device names (cpu:cores=0-3+8): tests/train/core_sets.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --model mlp"
own=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
first=${own%% *} last=${own##* }

# A rank on a core has the bits of one thread.
"$weft" train $small --steps 3 -t 1 --device cpu >want 2>err
"$weft" train $small --steps 3 --device cpu:cores=$first >got 2>err && [ "$(grep 'test loss' got)" = "$(grep 'test loss' want)" ] && pass || flunk "one core"
# --place finds the device without its cores.
if [ "$first" != "$last" ]; then
    "$weft" train $small --steps 3 --device cpu:cores=$first,cpu:cores=$last -n 2 --mesh data=2 >got 2>err && grep -q 'test loss' got && pass || flunk "two sets"
    "$weft" train $small --steps 3 --device cpu:cores=$first,reference -n 2 --place 'fc1=cpu:0,*=reference' >got 2>err && grep -q 'test loss' got && pass || flunk "--place"
fi

# The threads of a rank run on its cores alone.
background out err "$weft" train $small --epochs 100000 --device cpu:cores=$last
job=$!
bound() { grep -qx "Cpus_allowed_list:[[:space:]]*$last" /proc/$job/task/*/status 2>/dev/null; }
within bound && pass || flunk "no thread is bound to core $last: $(grep -h Cpus_allowed_list /proc/$job/task/*/status)"
kill -TERM $job
wait $job

refuses 2 "the cores '0-99999': this process may not use core" "$weft" train $small --device cpu:cores=0-99999
refuses 2 "the cores '$first+4095': this process may not use core 4095, only " "$weft" train $small --device cpu:cores=$first+4095
refuses 2 "another rank of this machine has some of them, too" "$weft" train $small -n 2 --device cpu:cores=$first,cpu:cores=$first
refuses 2 "another rank of this machine has some of them, too" "$weft" train $small -n 2 --device cpu:cores=$first
for wrong in "" a 3-1 1- -1 1++2 1+ 123456 "1 2"; do
    refuses 2 "the cores '$wrong', must be numbers and ranges with '+' between them" "$weft" train $small --device "cpu:cores=$wrong"
done
refuses 2 "--no-bind forbids it" "$weft" train $small --device cpu:cores=$first --no-bind
refuses 2 "device cpu: 'core=1' is none of its options; there is cores=LIST" "$weft" train $small --device cpu:core=1
refuses 2 "device cpu: the cores '4095'" "$weft" plan $small --device cpu:cores=4095
echo "$passed passed, $failed failed"
[ $failed = 0 ]
