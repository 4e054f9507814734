#!/usr/bin/env bash
# A learner that was stopped for so long that the run has gone on without it: tests/train/elastic_rejoin.sh PATH/TO/weft.
# With --rejoin it comes back as a new member, with what the run has come to; without, it ends and names the option.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"

# number SLOT: of the learner that has it.
number() { "$weft" status "$at" --timeout 20 2>/dev/null | awk -v s="$1" '$1 == "learner" && $2 == s { print $3 }'; }
# begins ARGUMENTS...: a coordinator, and nothing is left of what members of another run have said.
begins() {
    rm -rf k1 k2 l*.out l*.err l*.jsonl
    coordinator "$@" $endless --failure-timeout 10
}
# sleeps NAME: its process is stopped until the run has gone on without it.
sleeps() {
    kill -STOP "$(self "${!1}")"
    until_there learner 1
}

for exchange in "server:policy=async --servers 1" "server:policy=bsp --servers 1" "easgd:every=2 --servers 1" gossip; do
    in_full || [ "${exchange%%:*}" != easgd ] || continue
    servers=${exchange##*--servers }
    [ "$servers" = 1 ] || servers=
    what="$exchange, a learner that rejoins"
    # shellcheck disable=SC2086
    begins -n 2 --exchange $exchange
    [ -z "$servers" ] || server s1
    join l1 -c k1 --checkpoint-every 50
    until_there learner 1
    join l2 -c k2 --checkpoint-every 50 --metrics l2.jsonl --rejoin
    until_there learner 2
    moves_on k2 "" || flunk "no checkpoint: $what"
    before=$(number 1) first=$(grep -m 1 '"step"' l2.jsonl)
    sleeps l2
    step=$(readlink k2/latest)
    # shellcheck disable=SC2012
    touch "k2/$(ls k2 | grep step- | sort -V | head -n 1)/notes" # a user's, of a step that the run is past
    kill -CONT "$(self "$l2")"
    until_there learner 2
    within 'grep -q "joining again as learner" l2.err' || { cp l2.err err; flunk "nothing is said: $what"; }
    holds l2.err '^weft: removed from the run after [0-9]+ s without a heartbeat; joining again as learner 1$'
    after=$(number 1)
    [ -n "$before" ] && [ -n "$after" ] && [ "$before" != "$after" ] && pass || flunk "the member $before is $after: $what"
    # It goes on where the run is, and neither writes over what it wrote nor loads it.
    moves_on k2 "$step" && [ "$(readlink k2/latest | cut -c6-)" -gt "$(echo "$step" | cut -c6-)" ] && pass || flunk "checkpoints do not go on: $what"
    [ "$(grep -m 1 '"step"' l2.jsonl)" = "$first" ] && python3 - l2.jsonl <<'PY' && pass || flunk "its metrics do not go on: $what"
import json, sys
steps = [e["step"] for e in map(json.loads, filter(lambda l: l.endswith("\n"), open(sys.argv[1]))) if e["event"] == "step"]
assert steps == sorted(set(steps)), steps[:5]
PY
    accepts "leave" "$weft" leave "$at" "$after"
    ends 0 l2
    "$weft" eval k2 >out 2>err && cp out l2.out && learned l2 || flunk "its checkpoint is not whole: $what"

    what="$exchange, a learner that does not"
    join l3
    until_there learner 2
    sleeps l3
    kill -CONT "$(self "$l3")"
    ends 1 l3
    holds l3.err '^weft: .*\(weft join --rejoin does so by itself\)$'
    kill -INT "$(self "$l1")"
    ends 130 l1
    kill -TERM "$(self "$c")"
    ends 143 c
    [ -z "$servers" ] || killed s1
done

# The rate rises with every step, so that it tells which step the schedule of a learner is at.
for exchange in "server:policy=async --servers 1" "easgd:every=2 --servers 1" gossip; do
    what="$exchange, a learner that comes late has the learning rate of the run's step"
    # shellcheck disable=SC2086
    begins -n 1 --exchange $exchange --warmup 1000000
    [ "${exchange##*--servers }" != 1 ] || server s1
    join l1 --metrics l1.jsonl
    within 'grep -qs "\"step\": *40," l1.jsonl' || flunk "it takes no steps: $what"
    join l2 -c k2 --metrics l2.jsonl
    moves_on k2 "" || flunk "no checkpoint: $what"
    kill -INT "$(self "$l2")"
    ends 130 l2
    python3 - l1.jsonl l2.jsonl k2/latest <<'PY' && pass || flunk "it is at another step of its schedule: $what"
import json, os, struct, sys
def rates(path):
    lines = filter(lambda line: line.endswith("\n"), open(path))
    return {e["step"]: e["lr"] for e in map(json.loads, lines) if e["event"] == "step"}
first, late = map(rates, sys.argv[1:3])
assert late and min(late) > 1, list(late)[:3]
each = first[max(first)] / max(first)
for step, lr in late.items():
    assert abs(lr / each - step) < 1e-3 * step + 0.5, (step, lr / each)
data = open(sys.argv[3] + "/state.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
at = json.loads(data[8:8 + size])["step"]["data_offsets"][0]
assert struct.unpack("<i", data[8 + size + at:][:4])[0] == int(os.readlink(sys.argv[3])[5:])
PY
    kill -INT "$(self "$l1")"
    ends 130 l1
    kill -TERM "$(self "$c")"
    ends 143 c
    [ "${exchange##*--servers }" != 1 ] || killed s1
done
what="another coordinator takes the place of the one that has invited a learner to rejoin" # before others have answered it
options="-n 2 --model mlp --exchange server:policy=async --servers 1"
# shellcheck disable=SC2086
begins $options
server s1
join l1
until_there learner 1
join l2 -c k2 --checkpoint-every 50 --metrics l2.jsonl --rejoin
until_there learner 2
moves_on k2 "" || flunk "no checkpoint: $what"
first=$(grep -m 1 '"step"' l2.jsonl)
sleeps l2
step=$(readlink k2/latest)
# Once invited the learner needs the lock of its folder before it joins: a lock file that somebody holds takes the place of its own.
rm -f free
python3 - <<'PY' &
import fcntl, os, time
lock = open("held", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
os.rename("held", "k2/.lock")
while not os.path.exists("free"): time.sleep(0.02)
PY
within '[ ! -s k2/.lock ]' || flunk "nobody holds the lock: $what" # its own holds its name
kill -CONT "$(self "$l2")"
within 'ls -l "/proc/$(self "$l2")/fd" 2>/dev/null | grep -q "k2/.lock$"' || flunk "it does not come back: $what"
killed c
kill -STOP "$(self "$l1")" "$(self "$s1")"
touch free
# shellcheck disable=SC2086
listen=$at coordinator $options $endless --failure-timeout 20
sleep 3
kill -CONT "$(self "$l1")" "$(self "$s1")"
until_there learner 2
lives "$l2" && moves_on k2 "$step" && pass || { cp l2.err err; flunk "it has not come back: $what"; }
[ "$(grep -m 1 '"step"' l2.jsonl)" = "$first" ] && pass || flunk "its metrics do not go on: $what"
kill -INT "$(self "$l1")" "$(self "$l2")"
ends 130 l1
ends 130 l2
kill -TERM "$(self "$c")"
ends 143 c
killed s1

what="keys"
for k in coordinator server learner; do "$weft" keygen $k.key >/dev/null; done
cat ./*.key.pub >allowed
begins -n 1 --exchange server:policy=async --servers 1 --key coordinator.key --allow allowed
server s1 --key server.key --allow allowed
join l1 --key learner.key --rejoin
within 'grep -q "^step" l1.out' || flunk "it takes no steps: $what"
kill -STOP "$(self "$l1")"
within 'grep -q "learner 0 .*is lost: no heartbeat for" co' || flunk "it is not lost: $what"
kill -CONT "$(self "$l1")"
within 'grep -q "joining again as learner 0" l1.err' && pass || { cp l1.err err; flunk "nothing is said: $what"; }
within '[ "$(grep -c "learner 0 .*has joined" co)" = 2 ]' && pass || { cp co out; flunk "it is not back: $what"; }
kill -INT "$(self "$l1")"
ends 130 l1
kill -TERM "$(self "$c")"
ends 143 c
killed s1

# Before the run begins a member has nothing to lose: it joins again by itself, under its own number.
what="a learner is stopped while the run waits for members"
begins -n 2 --exchange gossip
join l1
until_there learner 1
before=$(number 0)
kill -STOP "$(self "$l1")"
within 'grep -q "learner 0 .*is lost: no heartbeat for" co' || flunk "it is not lost: $what"
kill -CONT "$(self "$l1")"
within '[ "$(grep -c "learner 0 .*has joined" co)" = 2 ]' && pass || { cp co out; flunk "it is not back: $what"; }
until_there learner 1
[ -n "$before" ] && [ "$(number 0)" = "$before" ] && pass || flunk "it has another number: $what"
join l2
within 'grep -q "^step" l1.out && grep -q "^step" l2.out' && pass || flunk "the run does not begin: $what"
# A coordinator that hears nobody suspects its own network, and takes nobody for lost.
what="all peers are stopped"
silent() { "$weft" status "$at" --timeout 20 2>/dev/null | grep -cE "^ *learner .* (1[2-9]|[2-9][0-9])\.[0-9] s ago"; }
kill -STOP "$(self "$l1")" "$(self "$l2")"
within '[ "$(silent)" = 2 ]' || { "$weft" status "$at" >out; flunk "they are not silent: $what"; }
kill -CONT "$(self "$l1")" "$(self "$l2")"
within '[ "$(silent)" = 0 ]' || flunk "they are still silent: $what"
until_there learner 2
grep -q "is lost: no heartbeat" <(sed '1,/under way/d' co) && { cp co out; flunk "members are lost: $what"; } || pass
kill -INT "$(self "$l1")" "$(self "$l2")"
ends 130 l1
ends 130 l2
kill -TERM "$(self "$c")"
ends 143 c

# The run has no state any more but what the lost peer had, which may be old, and never begins with fresh weights.
what="one peer is lost, and the other one leaves"
begins -n 2 --exchange gossip
join l1 --rejoin -c k1 --checkpoint-every 1
join l2
within 'grep -q "^step" l1.out && grep -q "^step" l2.out' || flunk "they take no steps: $what"
sleeps l1
kill -TERM "$(self "$l2")"
ends 143 l2
kill -CONT "$(self "$l1")"
ends 1 l1
ends 1 c
holds ce 'no learner is left that has the state of the run; begin the run again, with --resume'
holds l1.err 'no learner is left that has the state of the run; begin the run again, with --resume .*; this learner.s newest checkpoint is k1/latest$'
none_left
echo "$passed passed, $failed failed"
[ $failed = 0 ]
