#!/usr/bin/env bash
# A device from a plug-in, by the command: the same bits as the device that it wraps, wherever a device may be
# named: tests/cli/plugin_command.sh WEFT PLUGINS MPI
set -u
weft=$1 plugins=$2 mpi=$3
. "$(dirname "$0")/../support/check.sh"
own=$plugins/libcounting.so
run="--model mlp --data glyphs:size=12,train=90,test=30 --batch 18 --microbatches 3"

# weights NAME OPTIONS...: trains and exports.
weights() {
    local name=$1
    shift
    accepts "train $name: $*" "$weft" train $run --checkpoint "$name" "$@"
    accepts "export $name" "$weft" export "$name/latest" --output "$name.safetensors"
}
# alike A B: the same exported bytes.
alike() { cmp -s "$1.safetensors" "$2.safetensors" && pass || flunk "$1 and $2 have other weights"; }

for inside in reference cpu; do
    weights "$inside" --device $inside
    weights "own-$inside" --device "$own:$inside"
    alike $inside "own-$inside"
    weights "$inside-2" -n 2 --zero 1 --device $inside
    weights "own-$inside-2" -n 2 --zero 1 --device "$own:$inside"
    alike "$inside-2" "own-$inside-2"
done
# Ranks with different devices, the plug-in's name once it is known, and a path without a slash.
cp "$own" here.so
weights mixed -n 2 --device reference,cpu
weights own-mixed -n 2 --device "here.so,cpu"
alike mixed own-mixed
weights by-name -n 3 --device "$own,counting,reference"
weights by-path -n 3 --device "reference"
alike by-name by-path
"$weft" plan $run --device "$own" --dump=0 >out 2>err && grep -q '\[counted 1\]' out && pass || flunk "its kernels are in no dump"

# What goes on from a checkpoint and what is done with one.
weights half --device "$own" --steps 3
weights half --device "$own" --resume --without steps
alike half reference
"$weft" eval reference/latest --device reference >of-reference 2>err && "$weft" eval reference/latest --device "$own" >out 2>>err &&
    cmp -s of-reference out && pass || flunk "eval"
"$weft" predict reference/latest --device reference >of-reference 2>err && "$weft" predict reference/latest --device "$own" >out 2>>err &&
    cmp -s of-reference out && pass || flunk "predict"
if [ "$mpi" = ON ]; then
    weights own-mpi -n 2 --engine mpi --zero 1 --device "$own"
    alike own-mpi reference-2
fi

# One sentence for each mistake.
refuses 1 "./missing.so: cannot open: No such file or directory" "$weft" train $run --device ./missing.so
echo text >text.so
refuses 1 "plug-in ./text.so cannot be loaded" "$weft" train $run --device ./text.so:reference
refuses 1 "has no symbol weft_plugin_entry" "$weft" train $run --device "$plugins/libno_plugin.so"
refuses 1 "was built for interface 42 of plug-ins, this library has 3" "$weft" eval reference/latest --device "$plugins/libother_abi.so"
refuses 1 "there is no such hardware here" "$weft" plan $run --device "$plugins/libunwilling.so"
# A failure that says nothing is told as one, by the name of who failed, and not in the words of an earlier one.
refuses 1 "device case: its function 'open' failed (internal) and did not say why" "$weft" train $run --device "$plugins/libgood.so"
refuses 1 "libsilent.so: symbol weft_plugin_entry: its function 'start' failed (io) and did not say why" "$weft" train $run --device "$plugins/libsilent.so"
refuses 2 "a device named 'cpu' is there already" "$weft" train $run -n 2 --device "cpu,$plugins/libtaken.so"
refuses 2 "has nothing among its devices" "$weft" train $run --device "$plugins/libno_device.so"
refuses 2 "no device is named 'counting'" "$weft" train $run --device counting
refuses 2 "has memory of its own" "$weft" train $run --device "$own:distant"
refuses 2 "no device is named './libcounting'" "$weft" train $run --device ./libcounting
refuses 2 "no kind is named './table.csv'" "$weft" train --data ./table.csv
refuses 2 "no device is named 'cup'; did you mean 'cpu'?" "$weft" train $run --device "$own:cup"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
