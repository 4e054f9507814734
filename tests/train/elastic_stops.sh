#!/usr/bin/env bash
# Somebody wants a process to end while nobody answers it: tests/train/elastic_stops.sh PATH/TO/weft.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
long="--timeout 300"

# stops SIGNAL NAME: it ends by that signal, long before its --timeout.
stops() {
    local code=$((128 + $(kill -l "$1"))) begun=$SECONDS
    kill -"$1" "$(self "${!2}")"
    ends $code "$2"
    [ $((SECONDS - begun)) -le 60 ] && pass || flunk "$2 took $((SECONDS - begun)) s to end after SIG$1: $what"
}
# asks NAME ARGUMENTS...: a command whose process is $NAME.
asks() {
    local name=$1
    shift
    background "$name.out" "$name.err" timeout 300 "$weft" "$@"
    eval "$name=$!"
}
still() { kill -STOP "$(self "$1")"; }

# The first rank of a mesh alone waits for the server.
for pair in "server:policy=bsp data=1" "easgd:every=2 data=1" "server:policy=bsp data=2" "easgd:every=2 tensor=2"; do
    exchange=${pair% *} mesh=${pair#* }
    what="the server of $exchange says nothing to a learner of $mesh"
    # shellcheck disable=SC2086
    coordinator -n 2 --exchange $exchange --servers 1 --epochs 1000 --failure-timeout 200 $long
    server s1
    # shellcheck disable=SC2086
    join l1 -n "${mesh#*=}" --mesh $mesh $long
    join l2
    until_there learner 2
    sleep 1
    still "$s1"
    stops INT l1
    stops TERM l2
    killed s1
    killed c
done

what="the neighbour says nothing"
# shellcheck disable=SC2086
coordinator -n 2 --exchange gossip --epochs 1000 --failure-timeout 200 $long
join l1
join l2
until_there learner 2
sleep 1
still "$l2"
stops TERM l1
killed l2

what="the coordinator says nothing"
still "$c"
# shellcheck disable=SC2086
join l1 $long
# shellcheck disable=SC2086
asks status status "$at" $long
# shellcheck disable=SC2086
asks leave leave "$at" 77 $long
sleep 1
stops INT l1
stops TERM status
stops INT leave
killed c

what="a run that waits for more"
# shellcheck disable=SC2086
coordinator -n 2 --exchange server:policy=bsp --servers 1 $long
server s1
join l1
until_there learner 1
still "$c"
stops TERM l1
killed s1
killed c
none_left

# ends_by SIGNAL NAME: it ends by that signal, in its time.
ends_by() {
    kill -"$1" "$(self "${!2}")"
    ends $((128 + $(kill -l "$1"))) "$2"
}
# goes_on SIGNAL NAME: it says why it does not end.
goes_on() {
    kill -"$1" "$(self "${!2}")"
    within "grep -qs 'this server is to stop, but goes on' $2.err" && lives "$(self "${!2}")" && pass || { cp "$2.err" err; flunk "$2 does not go on: $what"; }
}

what="a server that is stopped hands its ranges over" # no member waits for the failure timeout
# shellcheck disable=SC2086
coordinator -n 1 --exchange server:policy=async --servers 2 --replicas 1 $endless --failure-timeout 200 $long
server s1
until_there server 1
server s2
until_there server 2
# shellcheck disable=SC2086
join l1 $long
until_there learner 1
ends_by INT s1
until_there server 1
holds co 'server 0 .* has left before the end of the run: it was stopped, or has failed$'

what="a server with the only copy goes on until another one has a copy"
goes_on TERM s2
holds s2.err 'server 1 cannot leave: no other server has all of its parameters'
[ "$(members server)" = 1 ] && pass || flunk "it has left: $what"
server s3
ends 143 s2
until_there server 1

what="a server that was asked to leave says so"
server s4
until_there server 2
within '"$weft" leave "$at" "server 0" >/dev/null 2>&1'
ends 0 s3
holds s3.err 'this server has left, as requested; the run continues$'
until_there server 1

what="a server goes on while the server with the other copy is silent"
server s5
until_there server 2
still "$s5"
goes_on INT s4
holds s4.err 'has not been heard since the request|no other server has all of its parameters'
kill -CONT "$(self "$s5")"
ends 130 s4
until_there server 1

what="a stopped server whose coordinator says nothing ends at the second signal"
still "$c"
goes_on INT s5
holds s5.err 'the coordinator does not answer'
ends_by TERM s5
killed c
killed l1
none_left

what="a server that is stopped before the run begins"
# shellcheck disable=SC2086
coordinator -n 1 --exchange server:policy=async --servers 2 --failure-timeout 200 $long
server s1
until_there server 1
ends_by INT s1
until_there server 0
killed c
none_left

what="a learner that comes when the run is over is told before it prepares anything"
coordinator -n 1 --exchange server:policy=async --servers 1 --steps 20 --failure-timeout 200
server s1
until_there server 1
server s2 # keeps no range
until_there server 2
still "$s2" # keeps the coordinator
join l1
ends 0 l1
ends 0 s1
join l2
ends 1 l2
holds l2.err 'the coordinator refuses this learner: this run is over'
[ -s l2.out ] && { cp l2.out out; flunk "it has prepared: $what"; } || pass
killed s2
killed c
none_left

what="a learner that has taken all its steps waits for one that takes longer than --timeout, but goes on"
# slowest: the steps of the learner that is behind, as the coordinator knows them.
slowest() { "$weft" status "$at" --timeout 20 2>/dev/null | awk '$1 == "learner" && (min == "" || $5 < min) { min = $5 } END { print min + 0 }'; }
coordinator -n 2 --exchange server:policy=async --servers 1 --epochs 30 --failure-timeout 200
join l1 --timeout 10 --metrics l1.jsonl
until_there learner 1 # the first one brings the parameters
join l2
until_there learner 2
still "$l2" # before the run begins, which it does with the server
server s1
within 'grep -qs "\"step\": *750," l1.jsonl' || flunk "it does not take its steps: $what"
for _ in 1 2 3 4 5 6; do
    sleep 2
    before=$(slowest)
    within 'kill -CONT "$(self "$l2")"; sleep 0.05; still "$l2"; [ "$(slowest)" -gt "$before" ]' || flunk "no steps: $what"
done
[ "$(slowest)" -lt 750 ] && lives "$l1" && pass || { cp l1.err err; flunk "it does not wait any more: $what"; }
kill -CONT "$(self "$l2")"
for m in l1 l2 s1 c; do ends 0 $m; done
none_left

what="a run that does not begin is the reason that a learner of several ranks gives"
coordinator -n 2 --exchange server --servers 1
server s1
join l1 -n 2 --mesh data=2 --timeout 5
ends 1 l1
holds l1.err "the run has not begun for 5 s: 1 of 2 learners has joined"
join l1 -n 2 --mesh tensor=2 --timeout 5
ends 1 l1
holds l1.err "the run has not begun for 5 s: 1 of 2 learners has joined"
killed s1
killed c
none_left

echo "$passed passed, $failed failed"
[ $failed = 0 ]
