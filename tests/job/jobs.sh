#!/usr/bin/env bash
# Jobs that are stopped, killed, or meet each other: tests/job/jobs.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF}
. "$(dirname "$0")/../support/check.sh"
engines=threads
[ "$mpi" = ON ] && engines="threads mpi"
in_full || engines=${engines##* }
endless="--data glyphs:size=16,train=400,test=50 --batch 40 --steps 1000000000 --epochs 1000000000 -t 1"

# begin FOLDER ARGUMENTS...: a job in a process group of its own, as a shell starts it; leaves $job.
begin() {
    local folder=$1
    shift
    rm -rf "$folder"
    # shellcheck disable=SC2086
    background out err setsid "$weft" train -q $endless --checkpoint "$folder" --checkpoint-every 5 "$@"
    job=$!
    appears "$folder/latest" || flunk "no checkpoint: $*"
}

# end: waits for the job; leaves its exit code in $got.
end() {
    gone $job || kill -KILL $job
    wait $job
    got=$?
}

# --- a signal asks for the end: the job saves, stops, and does not begin again ---
# stops SIGNAL CODE TARGET(one|all) ARGUMENTS...: to the command alone, or to all of its group, as a terminal does.
stops() {
    local signal=$1 code=$2 target=$3 step all
    shift 3
    begin stopped "$@"
    all=$(below $job)
    [ "$target" = all ] && kill -"$signal" -- -$job || kill -"$signal" $job
    end
    step=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' err)
    if [ $got = "$code" ] && [ "$(grep -c '^weft:' err)" = 1 ] && [ "$(readlink stopped/latest)" = "step-$step" ]; then pass
    else flunk "SIG$signal to $target ended with $got, wanted $code: $*"; fi
    # shellcheck disable=SC2086
    gone $all && pass || flunk "processes are left after SIG$signal: $*"
}
stops INT 130 one
stops XCPU 152 one # the limit of processor time
# A reader of standard output that ends costs the run its output, and nothing else.
for more in "" "-n 2" "-n 2 --engine processes --exchange server"; do
    rm -rf piped
    # shellcheck disable=SC2086
    "$weft" train -m mlp --data glyphs:size=8,train=90,test=20 -b 10 -t 1 -e 60 --progress lines --checkpoint piped $more 2>err | head -1 >out
    codes="${PIPESTATUS[*]}"
    steps=$(readlink piped/latest)
    [ "$codes" = "1 0" ] && [ "${steps#step-}" -ge 60 ] && grep -q "standard output: cannot write: Broken pipe" err && pass ||
        flunk "train $more into head: $codes, $steps, $(cat err)"
done
stops INT 130 all -n 3
if in_full; then
    stops TERM 143 one -n 3
    stops HUP 129 one -n 3
    stops INT 130 one -n 2 --exchange average:every=3
fi
# Learners that do not go in lock step tell each other, also where only the first one is asked.
for engine in $engines; do
    stops INT 130 one -n 3 --engine $engine --exchange gossip
    in_full || continue
    stops TERM 143 one -n 3 --engine $engine --exchange gossip:topology=ring,mode=average
    stops INT 130 one -n 4 --mesh data=2 --engine $engine --exchange server:policy=async --servers 2
done
# Where the first learner has taken its last step and waits for the others, one signal ends these, too.
late() {
    local ranks steps
    # The other learner may have finished before it is stopped: then nobody has dropped a step, and the job ends with 0.
    for steps in 1000 2000 4000 8000 16000; do
        rm -rf late late.jsonl
        background out err setsid "$weft" train -q --data glyphs:size=16,train=4000,test=50 --batch 10 --steps $steps --epochs 1000 -t 1 --engine mpi \
            --timeout 300 --checkpoint late --metrics late.jsonl "$@"
        job=$!
        within 'ranks=$(ranks $job); [ "$(wc -w <<<"$ranks")" = '"$2"' ]' && within 'grep -qs "\"step\":1[,}]" late.jsonl' || flunk "no step: $*"
        kill -STOP "$(tail -n 1 <<<"$ranks")"
        within 'grep -q "\"step\":'$steps'[,}]" late.jsonl' || flunk "the first learner does not end: $*"
        kill -INT $job
        sleep 2
        kill -CONT "$(tail -n 1 <<<"$ranks")"
        end
        [ $got = 0 ] || break
    done
    [ $got = 130 ] && [ "$(grep -c '^weft:' err)" = 1 ] && [ "$(readlink late/latest)" = step-$steps ] &&
        grep -q "the first learner had finished all $steps steps and saved them in late, and 1 of the others had not" err && pass ||
        flunk "a signal when the first learner has ended: $got, wanted 130: $*"
}
if [ "$mpi" = ON ]; then
    late -n 2 --exchange server:policy=async
    late -n 2 --exchange gossip
    in_full && late -n 2 --exchange gossip:mode=average
    in_full && late -n 2 --exchange easgd
    in_full && late -n 4 --mesh data=2 --exchange server:policy=async
fi
for engine in $engines; do
    for signal in INT:130 TERM:143 HUP:129; do
        in_full || [ $signal = TERM:143 ] || continue
        stops ${signal%:*} ${signal#*:} one -n 2 --engine $engine --max-restarts 2
    done
    stops INT 130 all -n 3 --engine $engine --max-restarts 2
done
# A rank that was asked itself tells the others; no more is that a death.
for engine in $engines; do
    begin stopped -n 2 --engine $engine --max-restarts 2
    kill -TERM "$(ranks $job | tail -n 1)"
    end
    { [ $got = 143 ] || [ $got = 130 ]; } && grep -q "stopped after step" err && ! grep -q "starting again" err && pass ||
        flunk "a rank that was asked to stop: $got, $engine"
    # A second signal ends it at once, without a word about deaths.
    begin stopped -n 2 --engine $engine --max-restarts 2
    all=$(below $job)
    # shellcheck disable=SC2046
    kill -STOP $(ranks $job)
    deliver INT $job
    kill -INT $job
    # shellcheck disable=SC2086
    gone $job $all && pass || flunk "a second signal, $engine"
    end
    [ $got = 130 ] && ! grep -q "died\|left\|starting" err && pass || flunk "a second signal: $got, $engine"
    # A death before the ranks have stopped is told, since it leaves the last steps unsaved.
    begin stopped -n 2 --engine $engine --max-restarts 2
    last=$(ranks $job | tail -n 1)
    # The supervisor continues ranks that are stopped when it is asked to stop, so it is stopped itself until one is dead.
    # shellcheck disable=SC2046
    kill -STOP $job $(below $job)
    kill -INT $job
    kill -KILL "$last"
    kill -CONT $job
    end
    [ $got = 130 ] && grep -q "^weft: .* died of signal 9" err && grep -q "^weft: stopped, and the last steps are not saved" err &&
        ! grep -q starting err && pass || flunk "a death after a request to stop: $got, $engine"
    # A launcher that stands still as well is killed with a third one, and what it leaves goes, but not what others have.
    # The names are those of Open MPI 4.
    if [ $engine = mpi ] && mpirun --version 2>/dev/null | grep -q "Open MPI) 4"; then
        begin stopped -n 2 --engine mpi
        all=$(below $job)
        launcher=$(head -n 1 <<<"$all")
        mapped=$(for pid in $(ranks $job); do grep -ho '/dev/shm/vader_segment[^ ]*' "/proc/$pid/maps"; done | sort -u)
        other=/dev/shm/vader_segment.$(hostname).$(id -u).fffe0001.$$
        touch "$other"
        # shellcheck disable=SC2086
        kill -STOP $all
        for _ in 1 2 3; do deliver TERM $job; done
        # shellcheck disable=SC2086
        gone $job $all && pass || flunk "a third signal"
        end
        # shellcheck disable=SC2086
        [ -n "$mapped" ] && [ -z "$(ls $mapped 2>/dev/null)" ] && [ ! -e "${TMPDIR:-/tmp}/ompi.$(hostname).$(id -u)/pid.$launcher" ] && [ -e "$other" ] && pass ||
            flunk "what a killed launcher leaves: $(echo $mapped)"
        rm -f "$other"
    fi
    # Ctrl-Z stops all of it, and it goes on when it is told to.
    begin paused -n 2 --engine $engine --max-restarts 2
    mine=$(ranks $job)
    kill -TSTP $job
    for pid in $job $mine; do
        within "grep -q '^State:.*T' /proc/$pid/status" && pass || flunk "a pause does not reach process $pid, $engine"
    done
    before=$(readlink paused/latest)
    kill -CONT $job
    moves_on paused "$before"
    [ "$(readlink paused/latest)" != "$before" ] && pass || flunk "does not go on after a pause, $engine"
    kill -TERM $job
    end
    [ $got = 143 ] && pass || flunk "a job that had paused ends with $got, $engine"
    # Peers of a rank that is killed end, and so does the job, as soon as its launcher has ended.
    begin dead -n 3 --engine $engine
    all="$job $(below $job)"
    mine=$(ranks $job)
    mine=${mine:-$job} # one process without a supervisor
    since=${EPOCHREALTIME/./}
    kill -KILL "$(tail -n 1 <<<"$mine")"
    # shellcheck disable=SC2086
    gone $mine && pass || flunk "peers of a killed rank, $engine"
    took=$(((${EPOCHREALTIME/./} - since) / 1000))
    # shellcheck disable=SC2086
    gone $all && pass || flunk "the job of a killed rank, $engine"
    echo "peers of a killed rank, $engine: gone after $took ms, the job after $(((${EPOCHREALTIME/./} - since) / 1000)) ms"
    end
    [ $got != 0 ] && pass || flunk "a killed rank ends with 0, $engine"
    # When the supervisor is killed its ranks end, and so do what it started them with.
    for with in "" launcher; do
        begin orphaned -n 2 --engine $engine --max-restarts 2
        all=$(below $job)
        others=
        [ -n "$with" ] && for pid in $all; do [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$weft")" ] || others="$others $pid"; done
        # shellcheck disable=SC2086
        kill -KILL $job $others
        wait $job 2>/dev/null
        # shellcheck disable=SC2086
        gone $all && pass || flunk "ranks outlive their supervisor ${with:+and launcher}, $engine"
        "$weft" inspect orphaned >out 2>err && pass || flunk "the checkpoint of a killed supervisor, $engine"
    done
    # However long a pause is, nobody has waited meanwhile.
    in_full || continue
    begin paused -n 2 --engine $engine --max-restarts 2 --timeout 5
    kill -TSTP $job
    sleep 8
    before=$(readlink paused/latest)
    kill -CONT $job
    moves_on paused "$before"
    sleep 2
    kill -TERM $job
    end
    [ $got = 143 ] && [ "$(readlink paused/latest)" != "$before" ] && [ "$(grep -c ^weft: err)" = 1 ] && pass ||
        flunk "a pause that is longer than --timeout: $got, $engine"
    # Where all ranks stand still nobody is left to complain but the supervisor.
    for n in 1 2; do
        begin still -n $n --engine $engine --max-restarts 1 --timeout 5
        mine=$(ranks $job)
        # shellcheck disable=SC2086
        kill -STOP $mine
        # shellcheck disable=SC2086
        gone $mine && pass || flunk "$n ranks that stand still, $engine"
        before=$(readlink still/latest)
        moves_on still "$before"
        grep -q "^weft: the job stands still in step [0-9]*: for [0-9]* s no rank has computed, read or written" err &&
            grep -q "starting again from the newest checkpoint with $n rank" err && [ "$(readlink still/latest)" != "$before" ] && pass ||
            flunk "a job that stood still does not go on, $engine"
        # shellcheck disable=SC2046
        kill -STOP $(ranks $job)
        end
        [ $got = 1 ] && [ "$(grep -c "stands still" err)" = 2 ] && pass || flunk "a job that stands still for good: $got, $engine"
    done
done
# Its checkpoints can be read while it replaces them, however often it does.
begin hurried --checkpoint-every 1 --keep 1
missed=
for _ in $(seq 60); do "$weft" inspect hurried >out 2>&1 || missed=$(cat out); done
[ -z "$missed" ] && pass || flunk "reading what is being replaced: $missed"
kill -INT $job
end
# What a job was begun with it goes on with, whatever has become of the user's files since.
for engine in $engines; do
    printf 'layers:\n  - {type: dense, units: classes}\n' >net.yaml
    printf 'model: net.yaml\nlr: 0.002\n' >run.yaml
    begin kept run.yaml -n 2 --engine $engine --max-restarts 2
    printf 'layers:\n  - {type: dense, units: 5}\n  - {type: dense, units: classes}\n' >net.yaml
    [ $engine = mpi ] && rm net.yaml
    rm run.yaml
    kill -KILL "$(ranks $job | tail -n 1)"
    within 'grep -q "starting again" err'
    before=$(readlink kept/latest)
    moves_on kept "$before"
    [ "$(readlink kept/latest)" != "$before" ] && "$weft" inspect kept | grep -q "lr  *0.002" && pass ||
        flunk "does not go on when the user's files have changed, $engine"
    kill -TERM $job
    end
    [ $got = 143 ] && pass || flunk "a job whose files have changed ends with $got, $engine"
done
# Whoever reads the newest checkpoint while a run writes gets one, however soon it is removed.
begin read --model mlp --checkpoint-every 1 --keep 1
lost=0 readings=${WEFT_FAST:+100}
for _ in $(seq "${readings:-400}"); do "$weft" inspect read >read.out 2>read.err || lost=$((lost + 1)); done
[ $lost = 0 ] && pass || { flunk "$lost readings of a living checkpoint"; cat read.err; }
kill -TERM $job
end
timeout 300 "$weft" train -q $endless --max-restarts 2 >out 2>err
[ $? = 2 ] && [ "$(grep -c "^weft: max-restarts .*needs --checkpoint" err)" = 1 ] && pass || flunk "restarts without checkpoints"
# Words are passed on however many they are, and how long.
words=$(for k in $(seq 600); do echo "--seed $k"; done)
# shellcheck disable=SC2086
timeout 300 "$weft" train -q $endless $words --steps 3 --max-restarts 1 --checkpoint words >out 2>err && "$weft" inspect words | grep -q "seed  *600" && pass ||
    flunk "a long command line"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
