#!/usr/bin/env bash
# Learners of a run that are meshes of several ranks, each of its own: tests/train/elastic_meshes.sh PATH/TO/weft.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
bsp="--exchange server:policy=bsp --servers 2"
# near A B LIMIT: the parameters of two checkpoints differ by no more than that.
near() {
    python3 - "$1/latest/parameters.safetensors" "$2/latest/parameters.safetensors" "$3" <<'PYTHON' && pass || flunk "$1 and $2 differ: $what"
import array, json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = sorted((k, v["data_offsets"]) for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__")
    return [x for _, (a, b) in tensors for x in array.array("f", data[8 + size + a:8 + size + b])]
a, b = map(read, sys.argv[1:3])
sys.exit(not a or len(a) != len(b) or max(abs(x - y) for x, y in zip(a, b)) > float(sys.argv[3]))
PYTHON
}
# run FOLDER OPTIONS WORDS...: two learners, of which the second has these words; what the first one has is in the folder.
run() {
    local folder=$1 options=$2
    shift 2
    rm -rf "$folder"
    # shellcheck disable=SC2086
    coordinator -n 2 $options $length --seed 5
    case $options in *server*) server s1 && server s2 ;; esac
    join l1 --checkpoint "$folder"
    until_there learner 1
    join l2 "$@"
    for l in l1 l2 c; do ends 0 $l; done
}

# Sums over ranks are rounded otherwise: by 3e-7 after one step as after eight, ten times less than the bound. After some 20 steps
# the bias of a filter has another sign, which turns a relu on or off for all of a blank background, and from then on weights differ
# by more than rounding. A gradient that is lost changes weights by 1e-4 in its step.
length="--steps 8"
what="the numbers are those of learners of one rank"
run one "$bsp"
for mesh in "2 tensor=2" "2 pipeline=2" "4 tensor=2,data=2" "4 pipeline=2,data=2"; do
    what="the numbers are those of learners of one rank: $mesh"
    run other "$bsp" -n "${mesh% *}" --mesh "${mesh#* }"
    near one other 3e-6
done
what="the coordinator is told of meshes, too"
# shellcheck disable=SC2086
coordinator -n 4 --mesh tensor=2 $bsp $length --seed 5
server s1
server s2
rm -rf other
join l1 -n 2 --mesh pipeline=2
until_there learner 1
join l2 --checkpoint other
for l in l1 l2 c; do ends 0 $l; done
near one other 3e-6

what="each exchange"
length="--epochs 5"
for options in "--exchange server:policy=async --servers 2 --compress topk:ratio=0.1" "--exchange easgd:every=3 --servers 2" "--exchange gossip:mode=average" \
    "--exchange gossip --compress threshold:tau=0.003"; do
    run other "$options" -n 2 --mesh tensor=2
    learned l1
    learned l2
done
run other "--exchange gossip:mode=average" -n 2 --mesh tensor=2 --checkpoint mine
cmp -s other/latest/parameters.safetensors mine/latest/parameters.safetensors && pass || flunk "other parameters: $what"

# With alpha=0 the centre stays where it was, while the learner goes on with weights of its own.
what="a checkpoint in the middle of a run of easgd has the centre, and the learner goes on as if there were none"
for options in "" "--checkpoint centre --checkpoint-every 20 --keep 9"; do
    coordinator -n 1 --exchange easgd:every=2,alpha=0 --servers 1 --epochs 1 --seed 5
    server s1
    # shellcheck disable=SC2086
    join l1 -n 2 --mesh tensor=2 --metrics "losses${options:+_of}" $options
    for m in l1 s1 c; do ends 0 $m; done
done
for step in 20 40; do
    cmp -s centre/step-$step/parameters.safetensors centre/step-50/parameters.safetensors && pass || flunk "another centre after step $step: $what"
done
python3 - losses losses_of <<'PYTHON' && pass || flunk "it learns otherwise: $what"
import json, sys
a, b = ([e["loss"] for e in map(json.loads, open(path)) if e["event"] == "step"] for path in sys.argv[1:3])
assert len(a) == len(b) == 50 and max(abs(x - y) for x, y in zip(a, b)) < 1e-4, (a, b)
PYTHON

what="options of the run that say how learners are cut"
job="train -n 4 --engine processes -t 1 -q --batch 40 --steps 2 $data"
for options in "--mesh pipeline=2 --microbatches 2 --schedule gpipe --exchange server" "-n 8 --mesh tensor=2,data=2 --zero 1 --exchange gossip" \
    "--mesh data=2 --zero 2 --exchange gossip"; do
    # shellcheck disable=SC2086
    accepts "$what: $options" "$weft" $job $options
done
# sent OPTIONS...: the bytes of a step.
sent() {
    # shellcheck disable=SC2086
    "$weft" $job --mesh tensor=2 --exchange gossip --metrics bytes "$@" 2>err && grep -o '"comm_bytes": *[0-9]*' bytes | tail -n 1
}
[ -n "$(sent)" ] && [ "$(sent)" != "$(sent --shard fc1/weight:out=tensor)" ] && pass || flunk "a learner does not take --shard: $what"
# shellcheck disable=SC2086
{
    refuses 2 "the mesh has no pipeline" "$weft" $job --mesh tensor=2 --schedule gpipe --exchange server
    refuses 2 "zero is 3, which shards the parameters" "$weft" $job --mesh data=2 --zero 3 --exchange gossip
    refuses 2 "exchange server makes the update itself" "$weft" coordinator -n 4 --mesh tensor=2,data=2 --zero 1 --exchange server $data
    refuses 2 "nothing in this model is named 'fc9/weight'" "$weft" $job --mesh tensor=2 --shard fc9/weight:out=tensor --exchange server
}
coordinator -n 2 $bsp --steps 2 --microbatches 2 --schedule gpipe
server s1
server s2
join l1
until_there learner 1
join l2 -n 2 --mesh pipeline=2
for l in l1 l2 c; do ends 0 $l; done

# keeps EXCHANGE MESH: learners of this mesh can write checkpoints, which would have no state of servers.
keeps() { case $1,$2 in server*,tensor* | server*,pipeline*) false ;; esac; }
# interrupted NAME PID: the process ends soon after SIGINT, for which it has no other reason, and says after which step.
interrupted() {
    kill -INT "$2"
    gone "$2" || flunk "still there: $what"
    kill -KILL "$2" 2>/dev/null
    ends 130 "$1"
    grep -q "^weft: stopped after step [0-9]" "$1.err" && ! grep -q "not saved" "$1.err" && pass || { cp "$1.err" err; flunk "no end of its own: $what"; }
}
# more FOLDER: --steps for a run that goes on from its checkpoint.
more() { echo "--steps $(($(readlink "$1/latest" | tr -dc 0-9) + 5))"; }

for pair in "server:policy=bsp tensor=2" "server:policy=bsp pipeline=2" "server:policy=bsp data=2" "server:policy=async tensor=2" \
    "easgd:every=2 tensor=2" "gossip pipeline=2" "gossip:mode=average data=2"; do
    exchange=${pair% *} mesh=${pair#* }
    what="Ctrl-C in a job: $exchange with $mesh"
    rm -rf job steps
    run="train -n 4 --mesh $mesh --exchange $exchange --engine processes -t 1 --batch 40 $data"
    keeps $exchange $mesh && run="$run --checkpoint job"
    # shellcheck disable=SC2086
    background job.out job.err timeout 600 "$weft" $run --epochs 9999 --metrics steps --timeout 300
    job=$!
    within 'grep -qs "\"step\": *3," steps' || flunk "no steps: $what"
    interrupted job "$(self $job)"
    keeps $exchange $mesh || continue
    # shellcheck disable=SC2046,SC2086
    accepts "it goes on: $what" "$weft" $run -q --resume $(more job)
done
none_left

what="who is a mesh is killed"
coordinator -n 2 $bsp $endless --failure-timeout 10
server s1
server s2
join l1
until_there learner 1
join l2 -n 2 --mesh tensor=2
until_there learner 2
# l3 joins after a first step, which it says.
within '"$weft" status "$at" | grep -Eq "learner 0 +[0-9]+ +[^ ]+ +[1-9]"' || flunk "no first step: $what"
kill -KILL "$(self "$l2")"
wait "$l2" 2>/dev/null
join l3 -n 2 --mesh pipeline=2
within 'grep -qs "^resumed after step" l3.out' || flunk "l3 does not begin: $what"
learns l1
killed l1 l3 s1 s2 c

what="checkpoints of what servers have"
coordinator -n 1 $bsp
server s1
server s2
refuses 2 "cannot write checkpoints" "$weft" join "$at" -q $data -n 2 --mesh tensor=2 --checkpoint no
for m in "$c" "$s1" "$s2"; do
    kill -TERM "$(self "$m")"
    wait "$m" 2>/dev/null
done
none_left
echo "$passed passed, $failed failed"
[ $failed = 0 ]
