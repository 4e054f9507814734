#!/usr/bin/env bash
# Parameters that are kept and updated in host memory (--home cpu), and the memory of a device: tests/train/home.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --steps 4"
last() { grep 'test loss' | tail -n 1; }
# The reference device and distant have the same bits, wherever the parameters are: alone, on ranks with their gradients added up
# in host memory or after copies from the devices, sharded, in stages, with exchanges and servers, on unlike devices. In short, with
# one of the models.
turn=0
for options in "" "-n 2" "-n 3 --zero 1" "-n 2 --zero 3" "--microbatches 4" "-n 2 --mesh pipeline=2 --microbatches 4" \
    "-n 2 --mesh tensor=2" "-n 2 --exchange average:every=2" "-n 2 --exchange server:policy=bsp" "--recompute" \
    "--virtual-workers 4 -n 2" "--clip-norm 0.5 -o lamb" "-n 2 --engine mpi"; do
    for model in lenet mlp; do
        in_full || [ $(((turn + turn++ / 2) % 2)) = 0 ] || continue
        "$weft" train --model $model $small $options --device reference 2>err | last >expected
        [ -s expected ] || flunk "$model $options: $(cat err)"
        for device in "distant" "distant --home cpu" "distant:lacks=dense+conv_dw+adam --home cpu"; do
            "$weft" train --model $model $small $options --device $device 2>err | last >out
            cmp -s expected out && pass || flunk "$model $options --device $device: $(cat expected out err)"
        done
    done
done
"$weft" train --model lenet $small -n 2 --device reference 2>err | last >expected
"$weft" train --model lenet $small -n 2 --device distant,reference --home cpu 2>err | last >out
cmp -s expected out && pass || flunk "unlike devices: $(cat expected out err)"
# The same with the kernels and blocked layouts of the cpu behind a queue and in memory of their own, which have the bits of one thread of it.
for options in "" "-n 2" "-n 2 --zero 3" "-n 2 --mesh pipeline=2 --microbatches 4" "-n 2 --exchange average:every=2" "-n 2 --exchange server:policy=bsp" "-o muon"; do
    for model in lenet inception; do
        [ $model = lenet ] || [ -z "$options" ] || in_full || continue
        "$weft" train --model $model $small -t 1 $options --device cpu 2>err | last >expected
        [ -s expected ] || flunk "$model $options: $(cat err)"
        for device in "distant:of=cpu" "distant:of=cpu --home cpu"; do
            "$weft" train --model $model $small -t 1 $options --device $device 2>err | last >out
            cmp -s expected out && pass || flunk "$model $options --device $device: $(cat expected out err)"
        done
    done
done
# A checkpoint goes from one home to the other.
"$weft" train --model lenet $small --device distant --home cpu --checkpoint kept >/dev/null 2>err || flunk "$(cat err)"
for home in device cpu; do
    rm -rf go && cp -a kept go
    "$weft" train --model lenet $small --steps 8 --device distant --home $home --checkpoint go --resume 2>err | last >resumed-$home
done
"$weft" train --model lenet $small --steps 8 --device reference | last >expected
[ -s expected ] && cmp -s expected resumed-device && cmp -s expected resumed-cpu && pass || flunk "resumed: $(cat expected resumed-* err)"
# A model that the memory of a device does not hold is refused before the first step, with the sizes, and trains from host memory.
device=distant:memory=12000000
"$weft" train --model lenet --data glyphs:train=60,test=20 --batch 20 --steps 2 --device $device >out 2>err && flunk "it fits" || pass
grep -q 'of the memory of device distant, of whose 12000000 bytes [0-9]* are free; .* --home cpu take less$\|device distant: its memory has no room for [0-9]* bytes; [0-9]* of 12000000 are free; these are parameters and state, which --home cpu keeps in host memory$' err &&
    pass || flunk "the message: $(cat err)"
"$weft" train --model lenet --data glyphs:train=60,test=20 --batch 20 --steps 2 --device $device --home cpu 2>err | last >out
"$weft" train --model lenet --data glyphs:train=60,test=20 --batch 20 --steps 2 --device reference | last >expected
[ -s expected ] && cmp -s expected out && pass || flunk "from host memory: $(cat expected out err)"
"$weft" plan --model lenet --data glyphs:train=60,test=20 --batch 20 --device $device >out 2>err
grep -q '^   0  of this in the memory of its device: .* MB (12 MB of 12 MB are free); it does not fit: ' out && pass || flunk "plan: $(cat out err)"
"$weft" plan --model lenet --data glyphs:train=60,test=20 --batch 20 --device $device --home cpu >out 2>err
grep -q '^   0  of this in the memory of its device: [0-9]* kB (12 MB of 12 MB are free)$' out && pass || flunk "plan, host memory: $(cat out err)"
# The plan refuses what the run refuses, in the same words: the training, then the evaluation beside it, and at last nothing.
refusals=
for bytes in 2000000 2500000 3000000 4000000; do
    run="--model lenet --data glyphs:size=16,train=60,test=20 --batch 20 --device distant:memory=$bytes"
    words=
    "$weft" train -q $run --steps 1 2>err || words=$(sed 's/^weft: //;s/ [0-9]* are free/ N are free/' err)
    "$weft" plan $run >out 2>err || flunk "plan: $(cat err)"
    refused=$(sed -n 's/.*; it does not fit: //p' out | sed 's/ [0-9]* are free/ N are free/' | head -1)
    [ "$words" = "$refused" ] && pass || flunk "$bytes bytes: the run says '$words', the plan '$refused'"
    refusals=$refusals$(grep -c 'does not fit' out)$(grep -c 'for the evaluation: .* does not fit' out)
done
[ $refusals = 21210100 ] || [ $refusals = 21211100 ] && pass || flunk "what the plan refuses: $refusals"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
