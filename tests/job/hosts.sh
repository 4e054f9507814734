#!/usr/bin/env bash
# Jobs on several hosts, lines between them that are cut, daemons that are killed: tests/job/hosts.sh PATH/TO/weft MPI(ON|OFF).
# The hosts are network namespaces, so this needs root and Open MPI; else it says so and is skipped (77).
set -u
weft=$1 mpi=${2:-OFF}
here=$(cd "$(dirname "$0")" && pwd)
skip() {
    echo "SKIPPED: $1"
    exit 77
}
[ "$mpi" = ON ] || skip "built without MPI"
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "network namespaces need ip (apt-get install iproute2)"
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "needs Open MPI, whose way to other hosts can be replaced"
. "$here/../support/check.sh"
. "$here/hosts-up"
trap 'hosts_down; rm -rf "$work"' EXIT
if ! hosts_up alpha beta gamma 2>err; then
    cat err
    skip "network namespaces cannot be made here"
fi
endless="--data glyphs:size=16,train=400,test=50 --batch 40 --steps 100000 --epochs 100000 -t 1 --timeout 20 --checkpoint c --checkpoint-every 5"

# begin HOST ARGUMENTS...: a job whose supervisor runs on HOST; leaves $job, the supervisor.
begin() {
    local host=$1 k
    shift
    rm -rf c
    # shellcheck disable=SC2086
    background out err host_command "$host" "$weft" train -q $endless --engine mpi "$@"
    job=$!
    appears c/latest || flunk "no checkpoint: $*"
    for k in $(below $job); do # what the shell has started on the host
        supervisor=$k
        [ "$(readlink "/proc/$k/exe")" = "$(readlink -f "$weft")" ] && break
    done
}
# The job ends when it is asked to.
finish() {
    kill -TERM "$supervisor" 2>/dev/null
    gone $job || kill -KILL $job
    wait $job
    got=$?
    [ $got = 143 ] && [ "$(grep -c 'stopped after step' err)" = 1 ] && pass || flunk "$1: ended with $got"
    "$weft" inspect c >out 2>&1 && pass || flunk "$1: its checkpoint"
}
# said TIMES WORDS: in so many lines.
said() { [ "$(grep -c -- "$2" err)" = "$1" ] && pass || flunk "'$2' is not said $1 times: $what"; }
ranks_on() {
    local pid
    for pid in $(on_host "$1"); do grep -qz OMPI_COMM_WORLD_RANK "/proc/$pid/environ" 2>/dev/null && echo "$pid"; done
}
goes_on() { # PATTERN: the job begins again and writes
    local step pattern=$1
    within 'grep -q "$pattern" err'
    step=$(readlink c/latest)
    moves_on c "$step"
    grep -q "$1" err && [ "$(readlink c/latest)" != "$step" ] && pass || flunk "does not go on: $what"
}

# A signal reaches ranks on all hosts, also where the supervisor has none and rank 0 is elsewhere.
for hosts in alpha:2,beta:2 beta:2,alpha:2 beta:1,gamma:1; do
    what="SIGTERM, $hosts"
    n=$(($(echo $hosts | tr , '\n' | cut -d : -f 2 | paste -sd+)))
    begin alpha -n "$n" --hosts $hosts --max-restarts 2
    finish "$what"
    said 0 "starting again"
done
# A line is cut: the ranks name who is missing and where, once, and the job goes on without that host.
for hosts in alpha:2,beta:2 beta:1,alpha:2 beta:1,gamma:1; do
    what="a cut line, $hosts"
    n=$(($(echo $hosts | tr , '\n' | cut -d : -f 2 | paste -sd+)))
    begin alpha -n "$n" --hosts $hosts --max-restarts 2
    lost=$(ranks_on beta)
    cut_line beta
    goes_on "starting again"
    said 1 "waited 20 s in"
    said 1 "weft: host beta is lost in step"
    said 0 "beta:"
    # shellcheck disable=SC2086
    gone $lost && pass || flunk "ranks on a host that is cut off: $what"
    finish "$what"
    mend_line beta
done
# A line that is cut before the job has begun: it ends, and so do the ranks behind the cut.
what="a line cut at the start"
rm -rf c
# shellcheck disable=SC2086
background out err host_command alpha "$weft" train -q $endless --engine mpi -n 4 --hosts alpha:2,beta:2 --timeout 1
job=$!
within 'lost=$(ranks_on beta) && [ -n "$lost" ]' 
cut_line beta
# shellcheck disable=SC2086
gone $job $lost && pass || { flunk "$what: processes are left"; kill -KILL $job; }
wait $job
[ $? != 0 ] && ! grep -q "died of signal 9" err && pass || flunk "$what"
mend_line beta
# Without restarts it ends.
what="a cut line without restarts"
begin alpha -n 4 --hosts alpha:2,beta:2
cut_line beta
gone $job && pass || { flunk "$what: has not ended"; kill -KILL $job; }
wait $job
[ $? != 0 ] && pass || flunk "$what: ended with 0"
said 1 "missing: 2 3 (on beta)"
said 1 "weft: host beta is lost"
mend_line beta
# Daemons and sessions are killed: the host is named, and it is not said that the job cannot be started.
for whom in orted session; do
    what="a killed $whom"
    begin alpha -n 4 --hosts alpha:2,beta:2 --max-restarts 1
    if [ $whom = orted ]; then
        for pid in $(on_host beta); do # Open MPI 5 calls it prted
            case $(readlink "/proc/$pid/exe") in */orted | */prted) kill -KILL "$pid" ;; esac
        done
    else
        for pid in $(below $job); do grep -qz '^beta$' "/proc/$pid/cmdline" 2>/dev/null && kill -KILL "$pid"; done
    fi
    goes_on "starting again from the newest checkpoint with 2 ranks"
    said 1 "weft: host beta is lost in step"
    said 0 "cannot be started"
    said 0 "stopped after"
    finish "$what"
done
# The supervisor is killed: ranks end on all hosts.
what="a killed supervisor"
begin alpha -n 4 --hosts alpha:2,beta:2 --max-restarts 1
all="$(below "$supervisor") $(ranks_on beta) $(ranks_on alpha)"
kill -KILL "$supervisor"
# shellcheck disable=SC2086
gone $all && pass || flunk "$what: processes are left"
wait $job 2>/dev/null
# A host that is not there is named.
what="a host that does not answer"
host_command alpha timeout 300 "$weft" train -q $endless --engine mpi -n 4 --hosts alpha:2,delta:2 --max-restarts 1 --checkpoint d >out 2>err
said 1 "the job cannot be started on delta of --hosts alpha:2,delta:2"
said 0 "starting again"
# Learners that speak to servers and to each other past MPI, which between hosts they do with keys: the numbers of one host.
few="--data glyphs:size=16,train=400,test=50 --batch 40 --epochs 2 -t 1 --timeout 20"
# Now and then Open MPI's launcher is late to put a process that has begun already into a group, and says so.
quiet() { ! grep -v 'setpgid(.*) failed in parent' err | grep -q .; }
for exchange in "server:policy=bsp --servers 2" "gossip"; do
    what="--exchange $exchange on two hosts"
    # shellcheck disable=SC2086
    host_command alpha timeout 300 "$weft" train $few --engine mpi -n 2 --hosts alpha:1,beta:1 --exchange $exchange >out 2>err &&
        quiet && pass || flunk "$what"
    grep "test loss" out >there
    # shellcheck disable=SC2086
    timeout 300 "$weft" train $few -n 2 --exchange $exchange >out 2>err && [ "$(grep -c 'test loss' there)" = 2 ] && pass || flunk "$what"
    [ "$exchange" = gossip ] || { grep "test loss" out | cmp -s - there && pass || flunk "$what: other numbers"; }
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
