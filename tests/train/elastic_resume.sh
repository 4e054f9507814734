#!/usr/bin/env bash
# Runs of several processes that go on from a checkpoint, with members that have it, lack it or have another one, in every
# order of arrival: tests/train/elastic_resume.sh PATH/TO/weft. The run has the checkpoint's weights or does not begin.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"

# accuracy FILE: the last one that a member printed.
accuracy() { awk '/accuracy/ { sub(/.*accuracy /, ""); a = $1 + 0 } END { print a + 0 }' "$1"; }
# as_good NAME: its accuracy is not far below the checkpoint's, where fresh weights would have 0.1.
as_good() {
    awk -v have="$(accuracy "$1.out")" -v want="$good" 'BEGIN { exit !(have > want - 0.15) }' && pass ||
        { cp "$1.out" out; cp "$1.err" err; flunk "accuracy $(accuracy "$1.out") after a checkpoint with $good: $what"; }
}

for exchange in "server:policy=async --servers 1" "easgd:every=2 --servers 1" "gossip"; do
    servers=${exchange##*--servers }
    [ "$servers" = 1 ] || servers=
    rm -rf ck other
    for folder in ck other; do
        # shellcheck disable=SC2086
        accepts "a checkpoint of $exchange" "$weft" train $data --batch 40 -t 1 -n 2 --exchange $exchange -q -c $folder \
            --epochs $([ $folder = ck ] && echo 4 || echo 1)
    done
    # shellcheck disable=SC2086
    "$weft" eval ck --data ${data#--data } >out 2>err
    good=$(accuracy out)
    awk -v a="$good" 'BEGIN { exit !(a > 0.8) }' && pass || flunk "the checkpoint has learned little: $good"
    run="-n 2 --exchange $exchange --epochs 5 --checkpoint ck --resume"

    for order in "with without" "without with" "with with"; do
        what="$exchange, members come $order a checkpoint"
        rm -rf ck1 ck2 && cp -a ck ck1 && cp -a ck ck2
        # shellcheck disable=SC2086
        coordinator $run
        [ -z "$servers" ] || server s1
        k=0
        for has in $order; do
            k=$((k + 1))
            if [ $has = with ]; then
                join l$k --checkpoint ck$k --resume
            elif [ -n "$servers" ]; then
                join l$k
            else # peers have no servers to take the state from
                # shellcheck disable=SC2086
                refuses 1 "this run resumes from the checkpoint of step" timeout 300 "$weft" join "$at" $data -t 1
                join l$k --checkpoint ck$k --resume
            fi
            [ $k = 2 ] || until_there learner 1
        done
        ends 0 l1
        ends 0 l2
        [ -z "$servers" ] || ends 0 s1
        ends 0 c
        as_good l1
        as_good l2
    done

    what="$exchange, a checkpoint of the last step: there is nothing left to do, and the run ends"
    rm -rf ck1 ck2 && cp -a ck ck1 && cp -a ck ck2
    # shellcheck disable=SC2086
    coordinator -n 2 --exchange $exchange --epochs 4 --checkpoint ck --resume
    [ -z "$servers" ] || server s1
    join l1 --checkpoint ck1 --resume
    join l2 --checkpoint ck2 --resume
    ends 0 l1
    ends 0 l2
    [ -z "$servers" ] || ends 0 s1
    ends 0 c
    holds l1.out '^nothing to do: step [0-9]* is done'
    tail -n 1 co | grep -q 'the run is over' && pass || { cp co out; flunk "the run is not over: $what"; }

    what="$exchange, a member with another checkpoint, and one whose folder is empty"
    # shellcheck disable=SC2086
    coordinator $run
    [ -z "$servers" ] || server s1
    # shellcheck disable=SC2086
    {
        refuses 1 "this run resumes from another checkpoint" timeout 300 "$weft" join "$at" $data -t 1 --checkpoint other --resume
        refuses 2 "nothing holds no checkpoint to go on from" timeout 300 "$weft" join "$at" $data -t 1 --checkpoint nothing --resume
        refuses 2 "ck/latest is a checkpoint itself" timeout 300 "$weft" join "$at" $data -t 1 --checkpoint ck/latest --resume
    }
    kill -TERM "$(self "$c")"
    ends 143 c
    [ -z "$servers" ] || killed s1
    refuses 2 "nothing holds no checkpoint to go on from" "$weft" coordinator --listen "tcp://127.0.0.1:*" $data --batch 40 -n 2 --exchange $exchange --checkpoint nothing --resume

    if [ -n "$servers" ]; then
        what="$exchange, the only learner with the checkpoint is lost before servers have its parameters"
        rm -rf ck1 && cp -a ck ck1
        # shellcheck disable=SC2086
        coordinator $run --failure-timeout 8
        join l1 --checkpoint ck1 --resume
        until_there learner 1
        join l2
        until_there learner 2
        kill -STOP "$(self "$l1")" # the run begins with the server, to which this one says nothing
        server s1
        ends 1 c
        ends 1 l2
        ends 1 s1
        for out in ce l2.err; do
            holds $out 'all learners with the checkpoint of step [0-9]+ have left or are lost, before the servers had its parameters; begin the run again'
        done
        killed l1
    fi

    what="$exchange, a checkpoint for a run that begins anew"
    # shellcheck disable=SC2086
    coordinator -n 2 --exchange $exchange --epochs 5
    [ -z "$servers" ] || server s1
    # shellcheck disable=SC2086
    refuses 1 "this run starts at step 0, but this process has loaded a checkpoint" timeout 300 "$weft" join "$at" $data -t 1 --checkpoint ck --resume
    kill -TERM "$(self "$c")"
    ends 143 c
    [ -z "$servers" ] || killed s1
done

what="easgd, a coordinator that resumes from a checkpoint of the run under way finds the run again"
run_id() { "$weft" status "$at" --timeout 20 2>/dev/null | sed -n 's/^run \([0-9a-f]*\):.*/\1/p'; }
step() { "$weft" status "$at" --timeout 20 2>/dev/null | awk '$1 == "learner" { n = $5 } END { print n + 0 }'; }
# again: another coordinator in the place of the killed one, with the newest checkpoint.
again() {
    killed c
    listen=$at
    coordinator -n 1 --exchange easgd:every=10 --servers 1 $endless --failure-timeout 10 --checkpoint kept --resume
    listen=
    within '[ "$(run_id)" = "$id" ]' && pass || flunk "$(run_id) is another run than $id: $what"
}
coordinator -n 1 --exchange easgd:every=10 --servers 1 $endless --failure-timeout 10
server s1
join l1 -c kept --checkpoint-every 50
moves_on kept "" && moves_on kept step-50 || flunk "no checkpoint: $what"
id=$(run_id)
again
saved=$(readlink kept/latest | cut -c6-)
within '[ "$(step)" -ge "$saved" ]' || flunk "$(step) steps are reported, and $saved are saved: $what"
kill -INT "$(self "$l1")"
ends 130 l1
until_there learner 0
what="easgd, ... where only the server is left"
again
join l2
until_there learner 1
kill -INT "$(self "$l2")"
ends 130 l2
holds l2.out '^resumed after step [1-9][0-9]*'
killed s1 c

# state QUESTION FOLDERS...: about the newest checkpoints' exchange.safetensors. `same A B`: both hold the same state of the
# servers; `whole A`: the moments are not zero and have as many updates as the checkpoint has steps (of a lone learner).
state() {
    python3 - "$@" <<'PYTHON' && pass || { (cd "${2:?}" && ls -R) >out 2>&1; flunk "state: $*: $what"; }
import json, os, struct, sys
def read(folder):
    data = open(folder + "/latest/exchange.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    cut = lambda t: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
    return {name: cut(t) for name, t in header.items() if not name.startswith("onebit")}
a = read(sys.argv[2])
assert a, "no state"
if sys.argv[1] == "same":
    b = read(sys.argv[3])
    assert a.keys() == b.keys(), (list(a), list(b))
    assert a == b, [name for name in a if a[name] != b[name]]
else:
    step = int(os.readlink(sys.argv[2] + "/latest")[5:])
    age = struct.unpack("<i", a["moments_age"])[0]
    assert age == step, (age, step)
    for moment in "m", "v":
        assert any(any(a[name]) for name in a if name.split("/")[0] == moment), moment + " is zero"
PYTHON
}
# resumes FOLDER OPTIONS...: a run goes on from there with a lone learner, and is as good as the checkpoint.
resumes() {
    local folder=$1
    shift
    "$weft" eval "$folder" --data ${data#--data } >out 2>err
    good=$(accuracy out)
    coordinator -n 1 "$@" --checkpoint "$folder" --resume
    server s1
    join l1 --checkpoint "$folder" --resume
    for m in l1 s1 c; do ends 0 $m; done
    as_good l1
}

for codec in none onebit; do
    run="--exchange server:policy=async --servers 1 --compress $codec"
    what="$codec: each learner that stays to the end has the state of the servers"
    rm -rf ck1 ck2
    # shellcheck disable=SC2086
    coordinator -n 2 $run --epochs 2
    join l1 --checkpoint ck1
    until_there learner 1
    join l2 --checkpoint ck2
    server s1
    for m in l1 l2 s1 c; do ends 0 $m; done
    state same ck1 ck2
    # shellcheck disable=SC2086
    resumes ck2 $run --epochs 3

    for how in leave INT; do
        what="$codec: a learner that leaves the others ($how) has the state of the servers at its last step"
        rm -rf ck1
        # shellcheck disable=SC2086
        coordinator -n 1 $run $endless
        server s1
        join l1 --checkpoint ck1
        moves_on ck1 "" || flunk "no checkpoint: $what"
        if [ $how = leave ]; then
            accepts "leave" "$weft" leave "$at" 'learner 0'
            ends 0 l1
            state whole ck1
        else
            kill -INT "$(self "$l1")"
            ends 130 l1
            # A server that does not answer soon is not awaited, and then no checkpoint is written.
            grep -q 'while it waited for' l1.err || state whole ck1
        fi
        kill -TERM "$(self "$c")" 2>/dev/null
        wait "$c"
        killed s1
    done
    steps=$(readlink ck1/latest)
    # shellcheck disable=SC2086
    resumes ck1 $run --epochs $((${steps#step-} / 50 + 2))
done
none_left
what="learners that have each written a checkpoint of the same state"
rm -rf own1 own2
bsp="-n 2 --exchange server:policy=bsp --servers 1"
# shellcheck disable=SC2086
coordinator $bsp --epochs 1
server s1
join l1 --checkpoint own1
until_there learner 1
join l2 --checkpoint own2
for m in l1 l2 s1 c; do ends 0 $m; done
# shellcheck disable=SC2086
coordinator $bsp --epochs 2 --checkpoint own1 --resume
server s1
join l2 --checkpoint own2 --resume
join l1
for m in l1 l2 s1 c; do ends 0 $m; done
holds l2.out '^resumed after step [1-9]'

what="a run with other learners and more epochs goes on in the schedule of its learning rate"
cosine="--lr 0.01 --lr-schedule cosine --exchange server:policy=bsp --servers 1"
# shellcheck disable=SC2086
accepts "two epochs of two learners" "$weft" train $data --batch 40 -t 1 -n 2 $cosine --epochs 2 -q -c half
cp -a half own
# shellcheck disable=SC2086
coordinator $cosine -n 1 --epochs 4 --checkpoint half --resume
server s1
join l1 --checkpoint own --resume --metrics rates
for m in l1 s1 c; do ends 0 $m; done
holds ce 'goes on by --epochs 4 instead of 2: step 51 has 0.005, and would have had 0$'
holds ce 'each step counts as 0.5 of its schedule'
# Half of a cosine is left, in the 100 steps that one learner takes for two epochs.
sed -n 's/.*"event":"step".*"lr":\([0-9.e-]*\).*/\1/p' rates | awk '{ i = NR - 1; want = 0.005 * (1 + cos(3.14159265358979 * (0.5 + i / 200)))
    bad += ($1 - want) ^ 2 > 1e-14 } END { exit !(NR == 100 && bad == 0) }' && pass || { cp rates out; flunk "$what"; }

what="a process that ends before it joins leaves its slot to another"
# shellcheck disable=SC2086
coordinator $bsp --epochs 1
server s1
for i in 1 2; do
    # shellcheck disable=SC2086
    refuses 2 "nothing holds no checkpoint to go on from" timeout 300 "$weft" join "$at" $data -t 1 --checkpoint nothing --resume
done
join l1
join l2
for m in l1 l2 s1 c; do ends 0 $m; done
for slot in 0 1; do holds co "learner $slot on .* has joined"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
