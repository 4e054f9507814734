#!/usr/bin/env bash
# Jobs whose coordinator, servers and learners are processes: tests/job/processes.sh PATH/TO/weft servers|peers,
# those with servers, or those without.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
trap 'for p in $(below $$); do kill -CONT "$p" 2>/dev/null; kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
data="--data glyphs:size=16,train=2000,test=200 --batch 25 -t 1"
async="--exchange server:policy=async --servers 2"

# run EXTRA...: a job in the background; $job is its supervisor, out and err what it says.
run() {
    # shellcheck disable=SC2086
    background out err timeout --foreground 600 "$weft" train $data --engine processes "$@"
    timer=$!
    within 'job=$(below $timer | head -n 1); [ -n "$job" ]'
}
# part ROLE SLOT: the process of that part (coordinator, server, join).
part() {
    local pid
    # shellcheck disable=SC2013
    for pid in $(cat "/proc/$job/task/$job/children" 2>/dev/null); do
        [ "$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | sed -n 2p)" = "$1" ] &&
            tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "WEFT_SLOT=$2" && echo "$pid" && return
    done
}
# reaches PATTERN: waits for a line of the job.
reaches() {
    local pattern=$1
    within 'grep -qE -- "$pattern" out err || ! lives $timer'
    grep -qE -- "$pattern" out err || { missed "never said '$1': $what"; return 1; }
}
# missed WORDS: a failure, unless the job has ended and `longer` tries one that is longer.
missed() { [ -n "${retry:-}" ] && ! lives $timer || flunk "$1"; }
# longer COMMAND EPOCHS...: a command that begins a job of so many epochs and does something to it is tried until the job does not
# end before: a fast machine needs more of them, and a slow one shall not take them.
longer() {
    local retry=1 epochs
    for epochs in "${@:2}"; do
        "$1" $epochs && return
        lives $timer && return # that is a failure
        wait $timer
    done
    flunk "a job of $epochs epochs has ended too soon: $what"
}
ends() {
    local code
    wait $timer
    code=$?
    [ $code = "$1" ] && pass || flunk "ended with $code, not $1: $what"
}
# Four times as good as guessing: how far asynchronous learners come in a few epochs depends on how they take turns.
learned() { awk '/accuracy/ { sub(/.*accuracy /, ""); a = $1 + 0 } END { exit !(a >= 0.4) }' out && pass || flunk "has not learned: $what"; }
# hits SIGNAL ROLE SLOT WORDS: one process gets a signal, and the supervisor says so.
hits() {
    local pid
    pid=$(part "$2" "$3")
    [ -n "$pid" ] || { missed "no $2 $3: $what"; return 1; }
    kill "-$1" "$pid"
    reaches "$4"
}
# alike A B FILES...: these files of two checkpoints are the same.
alike() {
    local file
    for file in "${@:3}"; do
        cmp -s "$1/latest/$file.safetensors" "$2/latest/$file.safetensors" || { flunk "$file differs: $what"; return; }
    done
    pass
}
# asked_to_stop OPTIONS...: Ctrl-C in the middle of a long run leaves a checkpoint to go on from.
asked_to_stop() {
    local last
    rm -rf asked
    run "$@" -e 4000 -c asked
    reaches 'wrote'
    keeps_to_itself
    kill -INT "$job"
    ends 130
    left_no_sockets
    holds err 'stopped after step [0-9]+; continue with --resume from asked'
    last=$(sed -n 's/.*stopped after step \([0-9]*\);.*/\1/p' err)
    [ "$(readlink asked/latest)" = "step-$last" ] && pass || flunk "no checkpoint of step $last: $what"
    # shellcheck disable=SC2086
    accepts "and goes on" "$weft" train $data "$@" --engine processes --steps $((last + 5)) -c asked --resume
    holds out "resumed after step $last"
}
# killed_together OPTIONS...: all processes of a job die at once; it goes on from its newest checkpoint, and where
# there is none it ends.
killed_together() {
    local gone='all processes that had the parameters of step [1-9][0-9]* are lost' options=("$@")
    all_killed() {
        rm -rf all
        run "${options[@]}" -e "$1" --timeout 30 -c all
        # shellcheck disable=SC2046
        reaches 'wrote all' && kill -KILL $(cat "/proc/$job/task/$job/children") && reaches "$gone"
    }
    longer all_killed 8 30 300
    ends 0
    holds err "$gone; what was saved of the run is in the newest checkpoint"
    holds err 'starting again from the newest checkpoint'
    learned
    nothing_left
    run "$@" -e 4000 --timeout 30
    reaches 'step .* test'
    # shellcheck disable=SC2046
    kill -KILL $(cat "/proc/$job/task/$job/children")
    ends 1
    holds err "$gone; nothing of the run was saved, since no --checkpoint was given"
    nothing_left
}
# one_is_told OPTIONS...: a signal to a learner that is not the first ends all, and the first one saves.
one_is_told() {
    rm -rf signalled
    run "$@" -e 4000 -c signalled
    reaches 'wrote signalled'
    kill -TERM "$(part join 1)"
    ends 143
    holds err '^weft: learner 1 was stopped by signal 15 \(Terminated\); stopped after step [0-9]+; continue with --resume from signalled'
    ! grep -q 'the run continues' err && pass || flunk "said '$(cat err)': $what"
}
nothing_left() {
    [ -z "$(below $$ | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$(readlink -f "$weft")" ] && echo "$p"; done)" ] && pass || flunk "processes are left: $what"
}
# sockets_of: the folder of the job's sockets, by the command line of a learner.
sockets_of() {
    local at
    at=$(tr '\0' '\n' 2>/dev/null <"/proc/$(part join 1)/cmdline" | grep '^ipc://') && dirname "${at#ipc://}"
}
# keeps_to_itself: the processes of the job listen at no port, and their sockets are in a folder of this user alone; `left_no_sockets`
# later asserts that the folder is gone.
keeps_to_itself() {
    local p
    for p in $(below $timer); do
        awk '$4 == "0A" { print "socket:[" $10 "]" }' /proc/net/tcp /proc/net/tcp6 | grep -qxFf - <(readlink /proc/"$p"/fd/*) && flunk "process $p listens at a port: $what"
    done
    sockets=$(sockets_of)
    [ "$(stat -c %a "$sockets")" = 700 ] && [ -S "$sockets/coordinator" ] &&
        [ "$(stat -c %a "$sockets/coordinator")" = 600 ] && pass || flunk "sockets in '$sockets', mode $(stat -c %a "$sockets"): $what"
}
left_no_sockets() { [ ! -e "$sockets" ] && pass || flunk "$sockets is left: $what"; }

servers() {
[ -n "${TIMES:-}" ] && trap 'echo "$SECONDS s: $BASH_COMMAND"' DEBUG
what="bsp has the bits of threads"
same() { # what codecs have left out is kept of the first learner alone
    local files="parameters state"
    rm -rf t p
    case $* in *--compress*) ;; *) files="$files exchange" ;; esac
    # shellcheck disable=SC2086
    accepts "threads: $*" "$weft" train $data "$@" -c t
    mv out told
    # shellcheck disable=SC2086
    accepts "processes: $*" "$weft" train $data "$@" -c p --engine processes
    cmp -s <(grep ' test ' told) <(grep ' test ' out) && pass || flunk "other figures: $*"
    # shellcheck disable=SC2086
    alike t p $files
}
same -n 4 --exchange server:policy=bsp --servers 2 -e 2
if in_full; then
same -n 4 --mesh data=2 --exchange server:policy=ssp,bound=0 --servers 1 --steps 15 --optimizer sgd --momentum 0.9
# shellcheck disable=SC2086
accepts "easgd" "$weft" train $data -n 2 --exchange easgd:every=5 --servers 2 --engine processes -e 3
learned
same -n 2 --exchange server:policy=bsp --servers 2 --replicas 1 --compress topk:ratio=0.1 --steps 15

# Parameters whose layouts are padded: servers that are processes know it from the coordinator.
same -n 2 --model lenet --exchange server:policy=bsp --servers 2 --compress none --compress-downlink onebit --steps 9
same -n 2 --model lenet --exchange server:policy=bsp --servers 2 --compress none --compress-downlink topk:ratio=0.02 --steps 9
fi

what="between two pulls a learner steps by itself, and a single one takes the steps of a run without servers"
alone="-n 1 --model mlp --dtype f64 --device reference --optimizer sgd --lr 0.1 --steps 9"
losses() { sed -n 's/.*"event":"step".*"loss":\([^,}]*\).*/\1/p' "$1"; }
# shellcheck disable=SC2086
accepts "without servers" "$weft" train $data $alone --metrics plain.jsonl
# shellcheck disable=SC2086
accepts "with servers" "$weft" train $data $alone --exchange server:policy=async,fetch=4 --engine processes --metrics own.jsonl
[ "$(losses plain.jsonl | wc -l)" = 9 ] && cmp -s <(losses plain.jsonl) <(losses own.jsonl) && pass || flunk "other losses: $what"

what="a learner is told to end when the first one has taken all steps"
# told_late EPOCHS [FOLDER]: learner 1 stands still after the first epoch, and is told to end when the first one has taken its
# last step. False if learner 1 was at its end before (the machine is fast), or was given up meanwhile (it is slow).
told_late() {
    local last=$((40 * $1))
    rm -rf late late.jsonl
    # shellcheck disable=SC2086
    run -n 2 $async --model mlp -e "$1" --metrics late.jsonl ${2:+-c "$2"}
    reaches 'step .* test'
    late=$(part join 1)
    [ -n "$late" ] && kill -STOP "$late" && within 'grep -q "\"step\",\"step\":$last," late.jsonl || ! lives $late'
    lives "${late:-none}" && kill -TERM "$late" && kill -CONT "$late" || kill -INT "$job"
    wait $timer
    [ $? = 143 ] && grep -qE "^weft: learner 1 was stopped by signal 15 \(Terminated\); the first learner had finished all steps${2:+, and saved them in $2}\$" err
}
for saves in "" late; do
    for epochs in 2 5 10 20 40 100 never; do
        [ $epochs = never ] && flunk "$what" || { told_late $epochs $saves && pass && break; }
    done
done

what="a refusal that cannot change is the end of a job"
rows() { awk -v first="$1" 'BEGIN { print "a,b,kind"; for (i = 0; i < 800; i++) print first + i % 7 "," i % 5 "," (i % 2 ? "up" : "down") }'; }
rows 0 >table.csv
usual=$data
data="--data csv:table.csv,test=0.5 --model mlp --batch 25 -t 1"
# shellcheck disable=SC2086
run -n 2 $async --replicas 1 -e 100000 --max-restarts 3
reaches 'step .* test'
rows 1 >other.csv
mv other.csv table.csv # which learner 1 reads when it is started again
hits KILL join 1 'learner 1 died of signal 9 .*\(2 restarts left\)'
ends 2
holds err "^weft: the coordinator refuses this learner: this run's data are .* the rows differ\$"
[ "$(grep -c 'started again' err)" = 1 ] && pass || flunk "it is started again: $what"
data=$usual

what="a job that resumes from nothing is a new run"
# shellcheck disable=SC2086
"$weft" train $data -n 2 $async --engine processes -e 1 -c fresh --resume --drop-state >out 2>err && pass || flunk "$what"
holds err '^weft: fresh holds no checkpoint, so --resume starts a new run$'

what="a resumed job has the bits of one that was not interrupted"
rm -rf once twice
bsp="-n 3 --exchange server:policy=bsp --servers 2 --engine processes"
# shellcheck disable=SC2086
accepts "once" "$weft" train $data $bsp -e 2 -c once -q
# shellcheck disable=SC2086
accepts "first" "$weft" train $data $bsp -e 1 -c twice -q
[ ! -s out ] && pass || flunk "-q is not quiet: $what"
# shellcheck disable=SC2086
accepts "second" "$weft" train $data $bsp -e 2 -c twice --resume --metrics m.jsonl
alike once twice parameters state exchange
holds out 'resumed after step'
holds m.jsonl '"ranks":3'

what="each kind of process is killed"
each_killed() {
    rm -rf killed
    # shellcheck disable=SC2086
    run -n 3 $async --replicas 1 -e "$1" --timeout 30 -c killed --metrics killed.jsonl
    reaches 'step .* test' && sockets=$(sockets_of) && hits KILL join 1 'learner 1 died of signal 9 .*started again' &&
        hits KILL join 0 'learner 0 died of signal 9 .*started again' &&
        hits KILL coordinator 0 'the coordinator died of signal 9 .*started again' &&
        hits KILL server 1 'server 1 died of signal 9 .*\(96 restarts left\)'
}
longer each_killed 20 90 900
ends 0
holds out '^[0-9]+ steps since step [1-9][0-9]* in '
learned
nothing_left
left_no_sockets
[ "$(grep -c '"event":"step"' killed.jsonl)" -gt 0 ] && pass || flunk "no metrics: $what"

what="a coordinator that comes again in a run with --drop-state"
rm -rf other
# shellcheck disable=SC2086
accepts "another exchange" "$weft" train $data -n 2 --exchange gossip --engine processes -e 1 -c other -q
cp -r other first
other_killed() {
    rm -rf other && cp -r first other
    # shellcheck disable=SC2086
    run -n 2 $async --replicas 1 -e "$1" --timeout 30 -c other --resume --drop-state
    reaches 'step .* test' && hits KILL coordinator 0 'the coordinator died of signal 9 .*started again'
}
longer other_killed 8 30 300
ends 0
learned

what="a coordinator comes again before a resumed run has begun"
rm -rf begun
# shellcheck disable=SC2086
accepts "first" "$weft" train $data -n 2 $async -e 1 -c begun -q
# shellcheck disable=SC2086
run -n 2 $async -e 3 --timeout 30 -c begun --resume
within 'late=$(part join 1); [ -n "$late" ] && kill -STOP "$late"' # so that it cannot begin
at=$(tr '\0' '\n' <"/proc/$late/cmdline" | grep '^ipc://')
within '"$weft" status "$at" >told 2>/dev/null' || flunk "no coordinator: $what"
hits KILL coordinator 0 'the coordinator died of signal 9 .*started again'
kill -CONT "$late"
ends 0
holds out 'resumed after step'
! grep -q 'refuses' err && pass || flunk "learners are refused: $what"

what="all processes are killed together"
# shellcheck disable=SC2086
killed_together -n 2 $async --replicas 1

what="one learner is told to end"
# shellcheck disable=SC2086
one_is_told -n 2 $async

if in_full; then
what="all may leave but the one that tells"
run -n 3 $async -e 30
reaches 'step .* test'
at=$(tr '\0' '\n' <"/proc/$(part join 1)/cmdline" | grep '^ipc://')
number() { "$weft" status "$at" | awk -v slot="$1" '$1 == "learner" && $2 == slot { print $3 }'; }
"$weft" leave "$at" "$(number 0)" 2>told && flunk "left: $what"
grep -q 'cannot leave: it reports the results of this job' told && pass || flunk "said '$(cat told)': $what"
"$weft" leave "$at" "$(number 1)" 2>told && pass || flunk "said '$(cat told)': $what"
ends 0
learned
nothing_left

what="the job is stopped while one stands still"
for who in "server 0" "join 0" "coordinator 0"; do
    rm -rf still
    run -n 2 $async -e 1000 --timeout 30 -c still --checkpoint-every 7
    reaches 'wrote still'
    # shellcheck disable=SC2086
    kill -STOP "$(part $who)"
    sleep 0.5
    kill -INT "$job"
    ends 130
    grep -q 'stopped.*continue with --resume from' err && pass || flunk "said '$(tail -n1 err)': $what: $who"
    nothing_left
done

what="a server is lost of which nobody has a replica"
run -n 2 $async -e 15 -c lost
reaches 'wrote lost'
hits KILL server 0 'server 0 died of signal 9 .*the only copy of its parameters'
ends 0
holds err 'starting again from the newest checkpoint with 2 learners'
learned
run -n 2 $async -e 400
reaches 'step .* test'
hits KILL server 0 'server 0 died of signal 9 .*the only copy of its parameters .*nothing of the run was saved, since no --checkpoint was given'
ends 1
[ "$(grep -c 'server 0' err)" = 1 ] && ! grep -q 'started again' err && pass || flunk "it says more, or starts again what cannot help: $what"
nothing_left

what="a server is lost before the first checkpoint"
long() { data="${data/train=2000/train=100000}" run "$@"; }
rm -rf early
# shellcheck disable=SC2086
long -n 2 $async -e 9 --timeout 30 -c early --metrics early.jsonl
within 'grep -qs "\"step\"" early.jsonl' || flunk "no step: $what"
hits KILL server 0 'server 0 died of signal 9 .*the only copy of its parameters'
reaches 'starting again from the first step, since no checkpoint was written yet, with 2 learners'
within '[ -n "$(part join 0)" ]'
kill -INT "$job"
ends 130
nothing_left

what="a server is lost, and the one that had its replicas"
run -n 2 $async --replicas 1 -e 400
reaches 'step .* test'
for k in 0 1; do kill -KILL "$(part server $k)"; done
ends 1
# the first one may have been started again by then
holds err 'with it range [01] of 2 of the parameters: (this was the last copy|its replica was not in sync).*nothing of the run was saved, since no --checkpoint was given'
nothing_left

what="restarts are used up"
run -n 2 $async -e 400 --max-restarts 1
reaches 'step .* test'
hits KILL join 1 '0 restarts left'
hits KILL join 1 'no restart is left of 1 \(--max-restarts\)'
ends 1
nothing_left

what="who is stopped is given up, and comes again"
run -n 2 --exchange server:policy=bsp --servers 2 --replicas 1 -e 30 --timeout 30
reaches 'step .* test'
stopped=$(part join 1)
hits STOP join 1 'learner 1 was stopped for 10 s.*started again'
gone "$stopped" && pass || flunk "$stopped is left: $what"
ends 0
learned

what="the first learner is stopped, and the other one has come to its end meanwhile"
run -n 2 $async --replicas 1 -e 40 --timeout 30
reaches 'step .* test'
hits STOP join 0 'learner 0 was stopped for 10 s.*started again'
ends 0
learned
nothing_left
fi

what="signals"
asked_to_stop -n 3 --exchange server:policy=bsp --servers 2
nothing_left
what="no step is lost by it"
rm -rf t
# shellcheck disable=SC2086,SC2046
accepts "as many steps" "$weft" train $data -n 3 --exchange server:policy=bsp --servers 2 --steps $(readlink asked/latest | tr -dc 0-9) -c t
cmp -s asked/latest/parameters.safetensors t/latest/parameters.safetensors && pass || flunk "other parameters: $what"
what="stopped while it starts"
run -n 2 $async -e 4000 -c unbegun
within '[ -n "$(part join 0)" ]'
kill -INT "$job"
ends 130
grep -q 'stopped before the first step\|stopped after step' err && ! grep -q "died of signal" err && pass || flunk "said '$(tail -n 1 err)': $what"
nothing_left
what="a learner is told to end before the run has begun"
run -n 3 --model mlp --exchange gossip -e 4000
within '[ -n "$(part join 0)" ]'
first=$(part join 0)
kill -STOP "$first" # it has not joined yet, so the others wait for it
within '[ -n "$(part join 1)" ]' && catches "$(part join 1)"
deliver TERM "$(part join 1)"
lives "$first" && kill -CONT "$first"
ends 143
holds err 'learner 1 was stopped by signal 15'
nothing_left
in_full || return 0
what="signals"
run -n 2 $async -e 4000
reaches 'step .* test'
kill -TERM "$job"
ends 143
run -n 2 $async -e 4000
reaches 'step .* test'
kill -STOP "$(part join 0)" "$(part join 1)"
deliver INT "$job"
kill -INT "$job"
ends 130
nothing_left

what="the supervisor is killed"
run -n 2 $async -e 4000
reaches 'step .* test'
# shellcheck disable=SC2046
all=$(marked $(below "$job"))
cp "/proc/$(part join 1)/cmdline" told
kill -KILL "$job"
# shellcheck disable=SC2086
gone $all && pass || flunk "processes are left: $what"
wait $timer 2>/dev/null
left="$(dirname "$(tr '\0' '\n' <told | sed -n 's#^ipc://##p')")"
[ -S "$left/coordinator" ] && pass || flunk "the job has left no sockets in $left: $what"
# The next job removes them, and none of a job that lives.
run -n 2 $async -e 4000
reaches 'step .* test'
keeps_to_itself
[ ! -e "$left" ] && pass || flunk "$left is left: $what"
accepts "another job" "$weft" train $data -n 2 $async -e 1 -q --engine processes
[ -S "$sockets/coordinator" ] && pass || flunk "the sockets of a job that lives are gone: $what"
kill -INT "$job"
ends 130
left_no_sockets

what="bad input"
bad() { refuses "$1" "$2" "$weft" train $data --engine processes "${@:3}"; }
# shellcheck disable=SC2086
{
    bad 2 "need an exchange between the learners; give --exchange server, easgd or gossip" -n 2
    bad 2 "exchange gossip has no use for it" -n 2 --exchange gossip --servers 2
    bad 2 "there is no topology=rung" -n 2 --exchange gossip:topology=rung
    bad 2 "needs all learners in one job of threads or MPI" -n 2 --exchange average
    bad 2 "cannot be divided into learners of 2" -n 3 --mesh data=2 $async
    bad 2 "hosts 'a:2' and engine processes" -n 2 $async --hosts a:2
    bad 2 "place '*=cpu:0' and engine processes" -n 2 $async --place '*=cpu:0'
    bad 2 "profile 'true' and engine processes" -n 2 $async --profile
    bad 2 "give one of them" -n 2 $async --device cpu,reference
    bad 2 "policy" -n 2 --exchange server:policy=none
    bad 2 "needs --servers 2 or more" -n 2 --exchange server:policy=async --replicas 1
    bad 2 "already holds" -n 2 $async -c asked
    bad 1 "nowhere" -n 2 $async --model nowhere.yaml
}
nothing_left
}

# --- without servers ---

# near A B: do the parameters of two checkpoints differ by no more than what rounding does?
near() {
    python3 - "$1/latest/parameters.safetensors" "$2/latest/parameters.safetensors" <<'PYTHON'
import array, json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = sorted((k, v["data_offsets"]) for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__")
    return [x for _, (a, b) in tensors for x in array.array("f", data[8 + size + a:8 + size + b])]
a, b = map(read, sys.argv[1:])
sys.exit(not a or len(a) != len(b) or max(abs(x - y) for x, y in zip(a, b)) > 1e-7)
PYTHON
}
peers() {
    local mode shape last try gossip="--exchange gossip --compress threshold:tau=0.003"
    what="the end is the mean of all"
    # shellcheck disable=SC2086
    for n in 2 3 5; do
        rm -rf mean
        accepts "one step, synchronous" "$weft" train $data -n $n --exchange average --steps 1 --optimizer sgd -q -c mean
        # Who is late to begin takes what the first one has after its step, and another mean is right.
        for try in $(seq 12); do
            rm -rf own
            accepts "$n peers" "$weft" train $data -n $n --exchange gossip:mode=average --steps 1 --optimizer sgd -q -c own --engine processes --metrics m.jsonl
            holds m.jsonl "\"exchange_mean_contributors\":$n[,}]"
            near mean own && break
        done
        near mean own && pass || flunk "$n peers that began together have another mean, $try times: $what"
    done
    # shellcheck disable=SC2086
    for shape in ring torus random; do
        accepts "$shape" "$weft" train $data -n 4 --exchange gossip:topology=$shape -e 3 --engine processes
        learned
    done
    # shellcheck disable=SC2086
    accepts "meshes" "$weft" train $data -n 4 --mesh data=2 $gossip -e 4 --engine processes
    learned

    for mode in updates average; do
        what="each kind of process is killed: mode=$mode"
        rm -rf killed
        run -n 3 --exchange gossip:mode=$mode,topology=ring -e 120 --timeout 30 -c killed --metrics killed.jsonl
        reaches 'step .* test'
        keeps_to_itself
        hits KILL join 1 'learner 1 died of signal 9 .*started again'
        sleep 2
        hits KILL join 0 'learner 0 died of signal 9 .*started again'
        hits KILL coordinator 0 'the coordinator died of signal 9 .*\(97 restarts left\)'
        ends 0
        learned
        # who comes when the others have ended already takes what they have come to
        holds killed.jsonl '"exchange_mean_contributors":[23][,}]'
        accepts "its checkpoint" "$weft" eval killed --data glyphs:size=16,train=2000,test=200 -q
        nothing_left
        left_no_sockets
    done

    what="who is stopped is given up, and comes again"
    # shellcheck disable=SC2086
    run -n 3 $gossip -e 60 --timeout 30
    reaches 'step .* test'
    hits STOP join 2 'learner 2 was stopped for 10 s.*started again'
    ends 0
    learned

    what="all that have what the run has come to are lost"
    rm -rf lost
    # shellcheck disable=SC2086
    run -n 2 $gossip -e 60 -c lost
    reaches 'wrote lost'
    kill -KILL "$(part join 0)" "$(part join 1)"
    reaches 'no learner is left that has the state of the run'
    ends 0
    holds err 'starting again from the newest checkpoint'
    learned
    # shellcheck disable=SC2086
    run -n 2 $gossip -e 4000
    reaches 'step .* test'
    kill -KILL "$(part join 0)" "$(part join 1)"
    reaches 'no learner is left that has the state of the run'
    ends 1
    [ "$(grep -c 'no learner is left' err)" = 1 ] && pass || flunk "said more than once: $what"
    nothing_left

    what="all processes are killed together"
    # shellcheck disable=SC2086
    killed_together -n 2 $gossip
    what="one learner is told to end"
    # shellcheck disable=SC2086
    one_is_told -n 2 $gossip

    what="signals"
    asked_to_stop -n 3 --exchange gossip:mode=average
    nothing_left
    # shellcheck disable=SC2086
    run -n 3 $gossip -e 4000
    reaches 'step .* test'
    kill -TERM "$job"
    ends 143
    nothing_left

    what="the first learner dies while the job stops"
    # shellcheck disable=SC2086
    run -n 3 $gossip -e 4000
    reaches 'step .* test'
    first=$(part join 0)
    kill -STOP "$first"
    kill -TERM "$job"
    kill -KILL "$first"
    within '! kill -0 "$job" 2>/dev/null' || { flunk "does not end: $what"; kill -KILL "$job"; }
    ends 143
    nothing_left
}
"$2"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
