#!/usr/bin/env bash
# Runs whose learners and servers come and go, as processes: tests/train/elastic.sh PATH/TO/weft.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
what="as many as were expected"
coordinator -n 2 --exchange server:policy=async --servers 2 --epochs 3
server s1
server s2
join l1
until_there learner 1
holds <("$weft" status "$at") '^run [0-9a-f]{8}: model lenet, exchange server:policy=async, 75 steps$'
holds <("$weft" status "$at") '^waits for members: 1 of 2 learners, 2 of 2 servers$'
holds <("$weft" status "$at") "^learner 0 +[0-9]+ +$(hostname) +0 "
for m in 'learner 0' 'server 1'; do
    refuses 1 "$m cannot be asked to leave before the run begins" "$weft" leave "$at" "$m"
done
join l2
ends 0 l1
ends 0 l2
ends 0 s1
ends 0 s2
ends 0 c
learned l1
learned l2
holds s1.err 'this server joins run [0-9a-f]{8}: model lenet, exchange server:policy=async$'
holds s1.err 'the run is over; this server ends$'
# The coordinator's log has a line for each member that joins and leaves, and one for each state of the run.
for m in 'learner [01]' 'server [01]'; do
    [ "$(grep -cE "^[0-9:]{8} $m on $(hostname) \(number [0-9]+\) has joined$" co)" = 2 ] &&
        [ "$(grep -cE "$m .* has finished and left$" co)" = 2 ] && pass || { cp co out; flunk "the log lacks members: $what"; }
done
for state in 'the run is under way' 'the run is over'; do
    [ "$(grep -c "$state" co)" = 1 ] && pass || { cp co out; flunk "'$state' is not there once: $what"; }
done
tail -n 1 co | grep -q 'the run is over' && pass || { cp co out; flunk "the end is not last: $what"; }

what="the table on a terminal is marked when the coordinator is gone"
coordinator -n 1 --exchange server:policy=async --servers 1
watch() {
    rm -f live
    background live live python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$weft" status "$at" --timeout 8
    live=$!
    within 'grep -qs "waits for members" live'
}
watch
kill -INT "$(self $live)"
wait $live
[ $? = 0 ] && ! grep -q 'weft:' live && pass || { cp live out; flunk "Ctrl-C is a failure of status"; }
watch
kill -KILL "$(self "$c")"
wait $live
[ $? = 1 ] && pass || flunk "status did not end with 1: $what"
holds live 'STALE: the coordinator has not answered for [0-9]+ s'
holds live 'no coordinator answers at'

if in_full; then
what="bsp has the numbers of one process"
coordinator -n 2 --exchange server:policy=bsp --servers 1 --epochs 2
server s1
join l1 -n 2 --mesh data=2
join l2 -n 2 --mesh data=2
ends 0 l1
ends 0 l2
ends 0 s1
ends 0 c
# shellcheck disable=SC2086
"$weft" train $data --batch 40 -t 1 -n 4 --mesh data=2 --exchange server:policy=bsp --epochs 2 >out 2>err
# What is evaluated is the parameters after step 50; lines that a slow machine prints on the way may say "step 50" too.
evaluated() { grep '^step  *50  *test' "$1"; }
evaluated out >want && cmp -s want <(evaluated l1.out) && pass || { evaluated l1.out >>want; cp want out; flunk "other numbers: $what"; }

what="metrics of a joiner"
coordinator -n 2 --exchange server:policy=async --servers 2 --epochs 2
server s1
server s2
join l1 --metrics l1.jsonl
join l2 --metrics l2.jsonl
ends 0 l1
ends 0 l2
ends 0 c
for k in l1 l2; do # an update of each range a step
    steps=$(grep -c '"event":"step"' $k.jsonl)
    sum=$(sed -n 's/.*"staleness":\[\([0-9,.]*\)\].*/\1/p' $k.jsonl | tr , '\n' | awk '{ s += $1 } END { print s + 0 }')
    [ "$sum" = $((2 * steps)) ] && pass || { tail -n 1 $k.jsonl >out; flunk "$sum updates of $steps steps have a staleness: $what"; }
done
fi

what="a coordinator with other options takes the place of one whose run has not begun"
coordinator -n 2 --exchange server:policy=bsp --servers 1
server s1
join l1
until_there server 1
until_there learner 1
kill -INT "$(self "$c")"
wait "$c"
listen=$at
coordinator -n 1 --exchange server:policy=async --servers 1 --steps 5
listen=
ends 0 l1
ends 0 s1
ends 0 c
holds l1.out '^step +5 +test'
holds s1.err 'this server joins run [0-9a-f]{8}: model lenet, exchange server:policy=async$'

what="who comes, goes, and is killed"
# shellcheck disable=SC2086
coordinator -n 1 --exchange server:policy=async --servers 2 --replicas 1 $endless --failure-timeout 10
server s1
server s2
join l1
until_there learner 1
server s3
join l2
join l3
until_there learner 3
until_there server 3
kill -KILL "$(self "$l2")"
until_there learner 2
kill -KILL "$(self "$s1")"
until_there server 2
kill -INT "$(self "$l3")"
ends 130 l3
until_there learner 1
join l4
until_there learner 2
accepts "leave" "$weft" leave "$at" 'learner 1'
ends 0 l4
holds l4.err 'this learner has left after step'
holds l4.out '^resumed after step [1-9][0-9]*, in epoch [0-9]+$'
refuses 1 "neither the name nor the number of a member" "$weft" leave "$at" 77
refuses 2 "give -n 1 or more" "$weft" coordinator -n 0 --exchange gossip $data
learns l1
killed l1 s2 s3 c
holds co 'learner [12] .* is lost: no heartbeat for [0-9.]+ s$'
holds co 'server [0-2] .* is lost: no heartbeat for [0-9.]+ s$'
holds co 'learner [12] .* has left before the end of the run: it was stopped, or has failed$'
holds co 'learner 1 .* has left, as requested \(weft leave\)$'

what="the coordinator's standard output is full"
at=ipc://$PWD/full.socket
# shellcheck disable=SC2086
background /dev/full ce timeout 600 "$weft" coordinator --listen "$at" $data --batch 40 -t 1 -n 1 --exchange gossip --steps 5
c=$!
join l1
ends 0 l1
ends 1 c
holds ce 'standard output: cannot write: No space left on device'

what="a learner that fails leaves the run at once"
for exchange in server:policy=ssp,bound=2 gossip; do
    coordinator -n 2 --exchange $exchange --epochs 2 --failure-timeout 60
    [ $exchange = gossip ] || server s1
    join l1
    join l2 --metrics /dev/full
    ends 1 l2
    within 'grep -q "has left before the end of the run: it was stopped, or has failed" co'
    ends 0 l1
    [ $exchange = gossip ] || ends 0 s1
    ends 0 c
done

if in_full; then
# Each draws as hard as it may where so many are there, not where as many as were first asked for.
what="a centre that learners draw at, and three who come later"
# shellcheck disable=SC2086
coordinator -n 1 --exchange easgd:every=1 --servers 2 $endless
server s1
server s2
join l1
until_there learner 1
for i in 2 3 4; do join l$i; done
until_there learner 4
for i in 1 2 3 4; do learns l$i; done
killed l1 l2 l3 l4 s1 s2 c

what="the coordinator is killed, and another one comes"
# shellcheck disable=SC2086
coordinator -n 2 --exchange server:policy=async --servers 1 $endless --failure-timeout 10
server s1
join l1
join l2
until_there learner 2
killed c
listen=$at
# shellcheck disable=SC2086
coordinator -n 2 --exchange server:policy=async --servers 1 $endless --failure-timeout 10
listen=
until_there learner 2
learns l1
killed l1 l2 s1 c
fi

what="keys"
for k in coordinator server learner stranger; do "$weft" keygen $k.key >/dev/null; done
cat server.key.pub learner.key.pub coordinator.key.pub >allowed
coordinator -n 1 --exchange server:policy=async --servers 1 --epochs 1 --key coordinator.key --allow allowed
server s1 --key server.key --allow allowed
within 'listens_everywhere s1' || flunk "a server beside the coordinator, at $at, is out of reach of other machines"
refuses 2 "has no public key after '#'" "$weft" join "${at%#*}" --key learner.key --timeout 3 -q $data
refuses 1 "it does not admit the key of this process" "$weft" join "$at" --key stranger.key --timeout 3 -q $data
refuses 2 "so this process needs one too" "$weft" join "$at" --timeout 3 -q
refuses 1 "a process listens at ${at%%#*}, but within 2 s no coordinator has answered: it accepts only connections with keys" "$weft" status "${at%%#*}" --timeout 2 -q
kill -STOP "$(self "$c")"
refuses 1 "a process listens at $at, but within 7 s no coordinator has answered: it sends no Weft handshake" "$weft" status "$at" --key learner.key --timeout 7 -q
kill -CONT "$(self "$c")"
join l1 --key learner.key
ends 0 l1
ends 0 s1
ends 0 c
learned l1

what="a learner that saves no checkpoint pushes the rest of its gradients before it leaves"
# steps ROLE SLOT: the steps of that learner, or the updates of that server.
steps() { "$weft" status "$at" --timeout 20 2>/dev/null | awk -v r="$1" -v s="$2" '$1 == r && $2 == s { n = $5 } END { print n + 0 }'; }
coordinator -n 2 --exchange server:policy=async,push=1000000 --servers 1 --epochs 10000
server s1
join l1
until_there learner 1
join l2
within '[ "$(steps learner 1)" -gt 0 ]' || flunk "no steps: $what"
kill -INT "$(self "$l2")"
ends 130 l2
within '[ "$(steps server 0)" = 1 ]' || flunk "the server has $(steps server 0) updates: $what"
killed l1 s1 c

what="data that differ in a name alone"
all_alike=$data
awk 'BEGIN { print "a,b,kind"; for (i = 0; i < 80; i++) print i % 7 "," i % 5 "," (i % 2 ? "up" : "down") }' >t.csv
sed 's/down$/left/' t.csv >classes.csv
sed '1s/a,b/b,a/' t.csv >columns.csv
sed '2,$s/^/1/' t.csv >rows.csv
cp t.csv copy.csv
data="--data csv:t.csv --model mlp"
coordinator -n 2 --exchange server:policy=async --servers 1
for other in classes columns rows; do
    refuses 2 "the names of classes or columns, the test samples or the rows differ" "$weft" join "$at" --data csv:$other.csv -q
done
data="--data csv:copy.csv"
join l1
until_there learner 1
kill -INT "$(self "$l1")" "$(self "$c")"
ends 130 l1
wait "$c"
data=$all_alike

what="who does not fit"
coordinator -n 2 --exchange server:policy=async --servers 1
refuses 2 "this run's data are 2000 samples" "$weft" join "$at" --data glyphs:size=16,train=1999,test=200 -q
refuses 2 "learners of exchange server connect to servers and accept no connections" "$weft" join "$at" $data -q --listen 'tcp://127.0.0.1:*'
join l1 # the slot that was reserved for the rejected learner is free again
until_there learner 1
holds <("$weft" status "$at") 'learner 0 '
kill -INT "$(self "$l1")"
ends 130 l1
holds l1.err 'stopped before the run began: 1 of 2 learners has joined, 0 of 1 servers have joined$'
refuses 1 "another process listens there already" "$weft" coordinator --listen "$at" -q $data --exchange server -n 2
refuses 2 "no option is named 'lr'" "$weft" join "$at" --lr 3
refuses 2 "is not local to this machine" "$weft" coordinator --listen 'tcp://*:*' -q --exchange server -n 2
refuses 2 "needs all learners in one job of threads or MPI" "$weft" coordinator --exchange average -n 2 -q
refuses 2 "a version of c=3 updates, but there are 2 learners" "$weft" coordinator -n 2 -q $data --batch 40 --exchange server:policy=softsync,c=3
refuses 2 "need an exchange between the learners" "$weft" coordinator -n 2 -q
refuses 2 "address of a coordinator" "$weft" join
refuses 2 "number of a member" "$weft" leave "$at"
refuses 1 "neither the name nor the number of a member" "$weft" leave "$at" me
refuses 2 "no other key is admitted, so no process could join; give --allow" "$weft" coordinator --key coordinator.key -n 1 --exchange server:policy=async $data
echo '# nobody yet' >nobody
refuses 2 "allow is 'nobody', which has no key" "$weft" coordinator --key coordinator.key --allow nobody -n 1 --exchange server:policy=async $data
refuses 2 "'99999' is no port" "$weft" coordinator --listen tcp://127.0.0.1:99999 -n 1 --exchange server:policy=async $data
refuses 2 "'65536' is no port" "$weft" join tcp://127.0.0.1:65536 $data
refuses 2 "key and open-unencrypted contradict" "$weft" server "$at" --key coordinator.key --open-unencrypted
refuses 2 "allow is 'allowed', but" "$weft" server "$at" --allow allowed
refuses 1 "no coordinator answers at tcp://127.0.0.1:9 within 1 s: no process answers" "$weft" server tcp://127.0.0.1:9 --timeout 1
refuses 2 "inproc://x is an address inside of one process" "$weft" coordinator --listen inproc://x -n 1 $data --exchange server -q
refuses 2 "inproc://x is an address inside of one process" "$weft" server --listen inproc://x "$at"
refuses 2 "inproc://x is an address inside of one process" "$weft" join inproc://x $data --timeout 1
"$weft" train -q $data --steps 1 --checkpoint older
refuses 2 "checkpoint is 'older', but a coordinator writes no checkpoints and reads one only with --resume" "$weft" coordinator --listen 'tcp://127.0.0.1:*' -n 1 $data --exchange server -q --checkpoint older
refuses 2 "no address" "$weft" join nowhere
refuses 1 "tcp://no.host.test:1 within 1 s: its host name is unknown, or there is no route to it" "$weft" status tcp://no.host.test:1 --open-unencrypted --timeout 1
what="the name of this host is an address to listen at"
background named named "$weft" coordinator --listen 'tcp://localhost:*' -n 1 $data --exchange server
within "grep -q 'coordinator at tcp://127[.]0[.]0[.]1:' named" && pass || flunk "$what: $(cat named)"
kill $! && wait $!
refuses 1 "this machine has no such name or address" "$weft" coordinator --listen tcp://no.host.test:1 --open-unencrypted -n 1 $data --exchange server -q
# kept WORDS COMMAND...: gives up with these words, and not before a second has passed.
kept() {
    local words=$1 began
    shift
    began=$(date +%s%N)
    refuses 1 "$words" "$weft" "$@" --timeout 1
    began=$((($(date +%s%N) - began) / 1000000))
    [ $began -ge 1000 ] && pass || flunk "took $began ms, not 1000: $*"
}
kept "no coordinator answers at tcp://127.0.0.1:9 within 1 s" status tcp://127.0.0.1:9
# shellcheck disable=SC2086
kept "no coordinator answers at tcp://127.0.0.1:9 within 1 s" join tcp://127.0.0.1:9 $data
kill -STOP "$(self "$c")"
kept "a process listens at $at, but within 1 s no coordinator has answered" status "$at"
kill -CONT "$(self "$c")"
kill -TERM "$(self "$c")"
ends 143 c
none_left
echo "$passed passed, $failed failed"
[ $failed = 0 ]
