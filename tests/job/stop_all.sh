#!/usr/bin/env bash
# Every process of a job gets the same signal at once, as from scancel, systemctl stop or a terminal: tests/job/stop_all.sh
# PATH/TO/weft MPI(ON|OFF). Each engine with each exchange of the registry, and each exchange whose members join.
set -u
weft=$1 mpi=${2:-OFF}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
. "$here/../support/elastic_lib.sh"
data="--data glyphs:size=16,train=400,test=50"
endless="--steps 1000000000 --epochs 1000000000"
soon=30 # seconds of polls (see `within`); a job that waits for --timeout takes ten times as long
long="--timeout 300"
mapfile -t exchanges < <("$weft" inspect --list | awk '/^exchanges/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { sub(/[:\[].*/, "", $1); print $1 }')
[ ${#exchanges[@]} -ge 6 ] && pass || flunk "the exchanges of the registry: ${exchanges[*]}"

# all_get SIGNAL PIDS...: one call, so that no process sees the end of another one before.
all_get() {
    local signal=$1
    shift
    kill -"$signal" "$@" 2>/dev/null
}
# saved FOLDER FILE: the step that the message names is the newest checkpoint.
saved() {
    local step
    step=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' "$2")
    [ -n "$step" ] && [ "$(readlink "$1/latest")" = "step-$step" ]
}
# part COMMAND SLOT: the process of $job with this part of it.
part() {
    local p
    for p in $(below "$job"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$p/cmdline" | sed -n 2p | grep -qx "$1" &&
            tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -qxE "(WEFT_SLOT|OMPI_COMM_WORLD_RANK|PMI_RANK)=$2" && echo "$p"
    done
}
# stops SIGNAL ARGUMENTS...: a job of one command. With $asleep, a command and a slot, that process is stopped before.
asleep=
stops() {
    local signal=$1 all code
    shift
    what="SIG$signal to all: $*${asleep:+, $asleep is stopped}"
    rm -rf run
    # shellcheck disable=SC2086
    background out err setsid "$weft" train -q --model mlp $data --batch 40 -t 1 $endless --checkpoint run --checkpoint-every 5 $long "$@"
    job=$!
    appears run/latest || flunk "no checkpoint: $what"
    all=$(below $job)
    # shellcheck disable=SC2086
    [ -z "$asleep" ] || kill -STOP "$(part $asleep)" || flunk "no process: $what"
    # shellcheck disable=SC2086
    all_get "$signal" $all $job
    limit=$soon gone $job || kill -KILL $job
    wait $job
    code=$?
    # shellcheck disable=SC2086
    if [ $code = $((128 + $(kill -l "$signal"))) ] && saved run err && gone $all; then pass
    else flunk "exit $code, the newest checkpoint is $(readlink run/latest): $what"; fi
}
joined= # exchanges whose members may be processes of their own
for engine in threads mpi processes; do
    [ $engine = mpi ] && [ "$mpi" != ON ] && continue
    for exchange in "${exchanges[@]}"; do
        "$weft" train -q --model mlp $data --batch 40 -t 1 --steps 1 -n 2 --engine $engine --exchange "$exchange" >out 2>err || {
            # Exchanges of threads alone, and those whose learners cannot be processes of their own, are refused.
            [ $? = 2 ] && grep -qE "engine|threads" err && pass || flunk "$exchange with engine $engine"
            continue
        }
        [ $engine = processes ] && joined="$joined $exchange"
        for signal in TERM INT; do
            in_full || [ $signal = TERM ] || [ "$exchange" = server ] || continue
            stops $signal -n 2 --engine $engine --exchange "$exchange"
        done
    done
    [ $engine = processes ] && continue
    stops TERM -n 2 --engine $engine
    stops INT -n 2 --engine $engine --max-restarts 2
done
stops TERM -n 2 --engine processes --exchange server --servers 2 --replicas 1
in_full && stops INT -n 4 --mesh data=2 --engine processes --exchange easgd
# A process that is stopped (SIGSTOP) gets no signal before it goes on.
for asleep in "join 0" "server 0" "coordinator 0"; do
    in_full || [ "$asleep" != "coordinator 0" ] || continue
    stops TERM -n 2 --engine processes --exchange server
done
asleep="join 1"
stops TERM -n 2 --engine processes --exchange gossip
asleep="train 0"
[ "$mpi" = ON ] && stops TERM -n 2 --engine mpi
asleep=

# Members that are commands of their own, as in a batch file. A server may hold the only copy of its parameters, so that
# learners, servers and the coordinator have to leave in this order.
elastic_stops() {
    local signal=$1 code name
    shift
    code=$((128 + $(kill -l "$signal")))
    what="SIG$signal to all members: $*"
    rm -rf run
    # shellcheck disable=SC2086
    coordinator -n 2 --model mlp $endless --failure-timeout 200 $long "$@"
    [ "$servers" = 0 ] || { server s1 $long; server s2 $long; }
    join l1 --checkpoint run --checkpoint-every 5 $long
    join l2 $long
    appears run/latest || flunk "no checkpoint: $what"
    # shellcheck disable=SC2046
    all_get "$signal" $(for name in c l1 l2 $members; do self "${!name}"; done)
    # shellcheck disable=SC2046
    limit=$soon gone $(for name in l1 l2 $members c; do echo "${!name}"; done) || flunk "some are still there: $what"
    for name in l1 l2 $members c; do ends $code $name; done
    saved run l1.err && pass || { cat ./*.err >err; flunk "$(readlink run/latest): $what"; }
}
for exchange in $joined; do
    servers=2 members="s1 s2"
    [ "$exchange" = gossip ] && servers=0 members=
    more=
    [ $servers = 2 ] && more="--servers 2"
    for signal in TERM INT; do
        in_full || [ $signal = TERM ] || continue
        # shellcheck disable=SC2086
        elastic_stops $signal --exchange "$exchange" $more
    done
    # shellcheck disable=SC2086
    [ $servers = 2 ] && elastic_stops TERM --exchange "$exchange" $more --replicas 1
done
none_left
echo "$passed passed, $failed failed"
[ $failed = 0 ]
