#!/usr/bin/env bash
# Runs whose steps are queued before the loss of the step before is known: a loss that is not finite, a signal, metrics and traces, on
# the devices with memory of their own that are here: tests/train/queued_steps.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
train="$weft train --data glyphs:size=16,train=60,test=20 --batch 8 --model mlp"
weights() { "$weft" export "$1" -q -o "$2"; }

for device in distant opencl cuda; do
    if ! $train -q --steps 1 --device $device 2>err; then
        grep -q 'no OpenCL platform\|libOpenCL\|no driver here\|unknown device' err || flunk "$device: $(cat err)"
        echo "SKIPPED: $(cat err)"
        continue
    fi
    # The loss of step 5 is not finite. Step 6 is queued then; nothing of both is kept. A run that is traced waits for each step.
    for way in "" "--microbatches 2" "-n 2" "-n 2 --zero 2 --microbatches 2" "-n 2 --mesh pipeline=2 --microbatches 4"; do
        [ $device = distant ] || [ -z "$way" ] || [ "$way" = "-n 2" ] || continue
        rm -rf run good
        $train $way -q --device $device -o sgd --lr 30000 --steps 9 --checkpoint run --checkpoint-every 2 --metrics metrics 2>err && flunk "$device $way: a loss that is not finite"
        grep -q "^weft: step 5: the loss is nan; \(on rank [01], \)*instruction [0-9]*, '[a-z+]* fc2', was the first to make a number that is not finite" err && pass || flunk "$device $way: $(cat err)"
        grep -q 'Nothing was updated in this step' err && [ "$(grep -c '"event":"step"' metrics)" = 4 ] && pass || flunk "$device $way: metrics"
        $train $way -q --device $device -o sgd --lr 30000 --steps 4 --checkpoint good --trace trace || flunk "$device $way: 4 steps"
        weights run/latest had && weights good/latest wanted && cmp -s had wanted && pass || flunk "$device $way: the checkpoint before"
    done
    # Each step is reported once and in order, with the time of the host's work, and so are evaluations.
    $train -q --device $device --epochs 2 --metrics metrics || flunk "$device: 2 epochs"
    grep -o '"event":"[a-z]*","steps*":[0-9]*' metrics | tr -dc 'a-z0-9\n' >order
    { seq -f 'eventstepstep%g' 8; echo eventevalstep8; seq -f 'eventstepstep%g' 9 16; echo eventevalstep16; echo eventsummarysteps16; } | cmp -s - order && pass || flunk "$device: order of events"
    [ "$(grep -c '"host_seconds":[0-9.e-]*[1-9]' metrics)" = 16 ] && pass || flunk "$device: host_seconds"
done

# A signal: the queued steps are completed, saved, and the run continues as if it had not stopped.
for way in "" "-n 2 --microbatches 2"; do
    rm -rf run whole metrics
    background /dev/null err $train $way -q --device distant --steps 100000000 --checkpoint run --metrics metrics
    pid=$!
    within '[ "$(grep -cs step metrics)" -ge 3 ]' 2>/dev/null
    kill -TERM $pid
    wait $pid
    steps=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' err)
    [ -n "$steps" ] && [ "$(grep -c '"event":"step"' metrics)" = "$steps" ] && pass || flunk "$way: the steps of a run that was stopped: $(cat err)"
    $train $way -q --device distant --steps "${steps:-1}" --checkpoint whole && weights run/latest had && weights whole/latest wanted && cmp -s had wanted && pass || flunk "$way: the weights of a run that was stopped"
done

# A step's bar in the trace has the host's seconds; the trace waits for each instruction.
$train -q --device distant --steps 2 --trace trace && [ "$(grep -c '"name":"step [12]".*"host_seconds":0\.[0-9]*[1-9]' trace)" = 2 ] && pass || flunk "host_seconds of the trace"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
