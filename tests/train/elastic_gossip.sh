#!/usr/bin/env bash
# Runs without servers whose learners come and go, as processes: tests/train/elastic_gossip.sh PATH/TO/weft.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
last() { grep "accuracy" "$1.out" | tail -n 1; }
# the same figures at the end
alike() { [ -n "$(last "$1")" ] && [ "$(last "$1")" = "$(last "$2")" ] && pass || { last "$1" >out; last "$2" >err; flunk "$1 and $2 differ: $what"; }; }
# the number of a learner that is not the first
another() { "$weft" status "$at" | awk '$1 == "learner" && $2 > 0 { id = $3 } END { print id }'; }

what="as many as were expected"
coordinator -n 3 --exchange gossip:topology=ring --epochs 4
join l1
until_there learner 1
holds <("$weft" status "$at") 'waits for members'
join l2 --metrics l2.jsonl
join l3 -n 2 --mesh data=2 --checkpoint kept
for l in l1 l2 l3 c; do ends 0 $l; done
learned l1
alike l1 l2
alike l1 l3
holds l2.jsonl '"learners":3,.*"learners_at_start":3,"learners_at_end":3[,}]'
holds co 'the run is over'
accepts "a checkpoint" "$weft" eval kept $data
grep -q "$(last l1 | sed 's/.*accuracy *\([0-9.]*\).*/\1/')" out && pass || flunk "another accuracy: $what"

what="a peer is stopped while the run waits for members"
coordinator -n 2 --exchange gossip --steps 40
join l1
until_there learner 1
kill -INT "$(self "$l1")"
ends 130 l1
holds l1.err 'stopped before the run began: 1 of 2 learners has joined$'
holds co 'learner 0 .* has left before the end of the run: it was stopped, or has failed'
join l1
join l2
for l in l1 l2 c; do ends 0 $l; done
alike l1 l2

what="who comes, goes, and is killed"
# shellcheck disable=SC2086
coordinator -n 1 --exchange gossip:topology=ring --compress threshold:tau=0.003 $endless --failure-timeout 10
join l1
until_there learner 1
join l2
join l3
join l4
until_there learner 4
kill -KILL "$(self "$l2")"
until_there learner 3
kill -INT "$(self "$l3")"
ends 130 l3
until_there learner 2
join l5
join l6
until_there learner 4
accepts "leave" "$weft" leave "$at" "$(another)"
until_there learner 3
holds <("$weft" status "$at") 'learner 0 +[0-9]+ +[^ ]+ +[1-9][0-9]* +[0-9.]+ +[1-9]'
within 'grep -qs "this learner has left after step" l4.err l5.err l6.err' || flunk "no learner has left: $what"
left=$(grep -ls "this learner has left after step" l4.err l5.err l6.err)
ends 0 "${left%.err}"
learns l1
# shellcheck disable=SC2046
killed l1 $(printf '%s\n' l4 l5 l6 | grep -vx "${left%.err}") c
for l in l5 l6; do holds $l.out '^resumed after step [1-9][0-9]*, in epoch [0-9]+$'; done

what="connections to members that are gone are closed"
files() { find "/proc/$(self "$l1")/fd" -mindepth 1 | wc -l; }
coordinator -n 1 --exchange gossip --epochs 4000 --failure-timeout 10
join l1
within '"$weft" status "$at" | grep -Eq "learner 0 +[0-9]+ +[^ ]+ +[1-9][0-9]"' || flunk "does not begin: $what"
alone=$(files)
for l in 2 3 4; do
    join l$l
    until_there learner 2
    within '[ "$(files)" -gt "$alone" ]' || flunk "no connection: $what"
    leaver=l$l
    [ $l = 2 ] && kill -KILL "$(self "${!leaver}")" || kill -INT "$(self "${!leaver}")"
    until_there learner 1
done
within '[ "$(files)" -le "$alone" ]' && pass || { ls -l "/proc/$(self "$l1")/fd" >out; flunk "$what"; }
kill -INT "$(self "$l1")"
ends 130 l1
killed c

for mode in updates average; do
    what="the coordinator is killed, then a learner: mode=$mode"
    # shellcheck disable=SC2046
    coordinator -n 3 --exchange gossip:topology=ring,mode=$mode $(lasting 3 3) --failure-timeout 10
    join l1
    join l2
    join l3
    until_there learner 3
    killed c
    sleep 1
    kill -KILL "$(self "$l2")"
    ends 0 l1
    ends 0 l3
    learned l1
    learned l3
    alike l1 l3
done

what="all end with the same parameters"
for mode in updates average; do
    rm -rf kept1 kept2 kept3
    coordinator -n 3 --exchange gossip:mode=$mode --epochs 3
    for l in 1 2 3; do join l$l --checkpoint kept$l --metrics l$l.jsonl; done
    for l in l1 l2 l3 c; do ends 0 $l; done
    for l in 2 3; do cmp -s kept1/latest/parameters.safetensors kept$l/latest/parameters.safetensors && pass || flunk "other parameters: $what"; done
    holds l3.jsonl '"exchange_mean_contributors":3,"exchange_mean_of":3[,}]'
done

what="one that stands still slows nobody"
rm -rf kept1 kept2 kept3
fastest() { "$weft" status "$at" | awk '$1 == "learner" && $5 > most { most = $5 } END { print most + 0 }'; }
# beyond STEP: how many learners are
beyond() { "$weft" status "$at" | awk -v step="$1" '$1 == "learner" && $5 > step { n++ } END { print n + 0 }'; }
# shellcheck disable=SC2046
coordinator -n 3 --exchange gossip --compress threshold:tau=0.003 $(lasting 3 3) --failure-timeout 60
for l in 1 2 3; do join l$l --checkpoint kept$l; done
within '[ "$(beyond 20)" = 3 ]' || flunk "does not begin: $what"
kill -STOP "$(self "$l2")"
began=$(fastest)
within '[ "$(beyond $((began + 600)))" = 2 ]' || { "$weft" status "$at" >out; flunk "the others stand still, too: $what"; }
kill -CONT "$(self "$l2")"
for l in l1 l2 l3 c; do ends 0 $l; done
for l in 2 3; do cmp -s kept1/latest/parameters.safetensors kept$l/latest/parameters.safetensors && pass || flunk "other parameters: $what"; done

what="another coordinator comes"
options="-n 2 --exchange gossip $(lasting 12 2) --failure-timeout 10"
# shellcheck disable=SC2086
coordinator $options
join l1
join l2
until_there learner 2
killed c
listen=$at
# shellcheck disable=SC2086
coordinator $options
listen=
until_there learner 2
join l3
for l in l1 l2 l3 c; do ends 0 $l; done
alike l1 l2
alike l1 l3

what="another coordinator comes with other options"
coordinator -n 1 --exchange gossip --epochs 4000 --failure-timeout 10
join l1
until_there learner 1
killed c
refuses 1 "batch is 40 there and 20 here" timeout 300 "$weft" coordinator --listen "$at" $data --batch 20 -t 1 -n 1 --exchange gossip --epochs 4000
kill -0 "$(self "$l1")" && pass || flunk "the learner has gone: $what"
within 'grep -q "the coordinator has not answered for .*: the run goes on without it" l1.err' && pass || flunk "it does not say so: $what"
listen=$at coordinator -n 1 --exchange gossip --epochs 4000 --failure-timeout 10
within 'grep -q "the coordinator answers again" l1.err' && pass || flunk "it does not say that it is back: $what"
killed l1 c

if ! ldd "$weft" | grep -q lib.san; then # which keeps what is freed
    what="updates that are kept take no more than they say"
    coordinator -n 2 --model mlp --exchange gossip --compress threshold --epochs 10
    join l1 --metrics l1.jsonl
    join l2
    for l in l1 l2 c; do ends 0 $l; done
    [ "$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\).*/\1/p' l1.jsonl)" -lt 70000000 ] && pass || { tail -n 1 l1.jsonl >out; flunk "$what"; }
fi

what="keys"
for k in coordinator one other stranger; do "$weft" keygen $k.key >/dev/null; done
cat one.key.pub other.key.pub >allowed
coordinator -n 2 --exchange gossip --epochs 4 --key coordinator.key --allow allowed
refuses 1 "it does not admit the key of this process" "$weft" join "$at" --key stranger.key --timeout 3 -q $data
join l1 --key one.key
within 'listens_everywhere l1' || flunk "a peer beside the coordinator, at $at, is out of reach of other machines"
join l2 --key other.key
for l in l1 l2 c; do ends 0 $l; done
learned l1
alike l1 l2

what="who does not fit"
coordinator -n 2 --exchange gossip
refuses 2 "exchange gossip has no servers" "$weft" server "$at" -q
refuses 2 "exchange gossip has no use for it" "$weft" coordinator -n 2 --exchange gossip --servers 1 -q
join l1 --listen tcp://127.0.0.1:21000-21999
until_there learner 1
port=$(ports_of l1)
[ "${port:-0}" -ge 21000 ] && [ "$port" -le 21999 ] && pass || flunk "a peer listens at port '$port', not at one of its range"
kill -TERM "$(self "$c")"
ends 143 c
killed l1
none_left
echo "$passed passed, $failed failed"
[ $failed = 0 ]
