#!/usr/bin/env bash
# Members of an elastic run whose devices lay parameters out differently: tests/train/unlike_members.sh PATH/TO/weft.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
data="--data glyphs:size=16,train=60,test=20"
other=distant
"$weft" train -q --model mlp $data --batch 20 --steps 1 --device opencl >out 2>err && other=opencl
# near A B: the parameters of two checkpoints differ by rounding alone.
near() {
    python3 - "$1/latest/parameters.safetensors" "$2/latest/parameters.safetensors" <<'PYTHON' && pass || flunk "$1 and $2 differ: $what"
import array, json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = sorted((k, v["data_offsets"]) for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__")
    return [x for _, (a, b) in tensors for x in array.array("f", data[8 + size + a:8 + size + b])]
a, b = map(read, sys.argv[1:3])
sys.exit(not a or len(a) != len(b) or max(abs(x - y) for x, y in zip(a, b)) > 2e-5)
PYTHON
}
# run FOLDER EXCHANGE COORDINATOR FIRST SECOND: two learners on devices, the first of which writes checkpoints.
run() {
    rm -rf "$1"
    what="coordinator on $3, learners on $4 and $5: $2"
    # shellcheck disable=SC2086
    coordinator -n 2 --exchange $2 --model lenet --batch 20 --steps 4 --seed 5 -o sgd --lr 0.05 --device "$3"
    case $2 in server* | easgd*) server s1 ;; esac
    join l1 -t 1 --device "$4" --checkpoint "$1"
    until_there learner 1
    join l2 -t 1 --device "$5"
    for l in l1 l2 c; do ends 0 $l; done
}
# The run has the layout of the coordinator's device, to which a learner on another device turns its own; or the plain one.
run like server:policy=bsp reference reference reference
for devices in "cpu cpu $other" "cpu cpu distant" "cpu,$other $other cpu" "distant cpu reference" "$other cpu distant"; do
    # shellcheck disable=SC2086
    run unlike server:policy=bsp $devices
    near like unlike
done
for exchange in "server:policy=async" "easgd:every=2" "gossip" "gossip:mode=average"; do
    run unlike "$exchange" cpu cpu $other
    run unlike "$exchange" cpu,distant distant cpu
done
what="the checkpoint goes on with one learner on another device"
accepts "$what" "$weft" train -q --model lenet $data --batch 20 --steps 6 --seed 5 -o sgd --lr 0.05 --device reference -n 1 --checkpoint unlike --resume
what="a learner of another layout writes no checkpoint with a state that servers have in that of the run"
coordinator -n 1 --exchange server --model lenet --batch 20 --steps 2 --device cpu
server s1
join l1 --device distant --checkpoint none
ends 2 l1
grep -q "lays them out otherwise than the run, cannot write checkpoints with the state of exchange server" l1.err && pass || { cp l1.err err; flunk "$what"; }
killed c
what="a layout that neither the learner's device nor its cpu has, but the run's device"
coordinator -n 1 --exchange gossip --model lenet --batch 20 --steps 2 --device reference
join l1 --device cpu
ends 0 l1
ends 0 c
what="a learner of two ranks, which needs no mesh"
coordinator -n 1 --exchange gossip --model lenet --batch 20 --steps 2
join l1 -n 2
ends 0 l1
ends 0 c
what="devices go to the ranks of learners that are processes in turn"
job="train -q --model lenet $data --batch 20 --steps 2 -t 1 --engine processes"
accepts "$what" "$weft" $job -n 2 --exchange server --servers 2 --device cpu,reference
accepts "$what: several ranks" "$weft" $job -n 4 --mesh tensor=2 --exchange gossip --device cpu,distant:of=cpu
refuses 2 "names 3 devices for 2 ranks" "$weft" $job -n 2 --exchange gossip --device cpu,reference,cpu
"$weft" $job -n 2 --exchange gossip --device cpu,distant:of=cpu:memory=1 >out 2>err
[ $? != 0 ] && grep -q "device distant: its memory has no room" err && pass || flunk "$what: the second one"
what="two ranks by the mesh, and one by -n"
coordinator -n 2 --mesh data=2 --zero 1 --exchange gossip --model lenet --batch 20 --steps 2 --device cpu
join l1 --mesh data=2
ends 2 l1
grep -q "one learner, of 2 ranks by its mesh 'data=2', but it has 1 (-n); give -n 2" l1.err && pass || { cp l1.err err; flunk "$what"; }
what="what --zero cuts by device and mesh"
join l1 -n 2 --device reference
ends 2 l1
grep -q "its device is 'reference' and its mesh 'data=2', those of the run are 'cpu' and 'data=2', and --zero 1 cuts them by mesh and device; give --device cpu, or start the coordinator with --device cpu,reference" l1.err && pass || { cp l1.err err; flunk "$what"; }
join l1 -n 4
ends 2 l1
grep -q "its device is 'cpu' and its mesh 'data=4', those of the run are 'cpu' and 'data=2', and --zero 1 cuts them by mesh and device; give --mesh data=2" l1.err && pass || { cp l1.err err; flunk "$what"; }
join l1 -n 2
ends 0 l1
ends 0 c
echo "$passed passed, $failed failed"
[ $failed = 0 ]
