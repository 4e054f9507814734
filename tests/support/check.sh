# For tests in the shell: a folder to work in, what passed and what did not; modules of this folder for Python.
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 passed=0

# in_full: this run takes all cases; with WEFT_FAST=1 it takes a part of them.
in_full() { [ -z "${WEFT_FAST:-}" ]; }
# in_turn N: in full always, in short in one of N calls.
turns=0
in_turn() { turns=$((turns + 1)) && { in_full || [ $((turns % $1)) = 0 ]; }; }
pass() { passed=$((passed + 1)); }
flunk() {
    echo "FAILED: $1"
    sed 's/^/    /' out err 2>/dev/null | head -n 12
    failed=$((failed + 1))
}
# Takes lines with $expected, which a test may set, off stderr: those that a command may print; and for whose processor estimates are.
expected=
drop_expected() {
    sed -i "/^weft: .*: estimates are for '.*', where its times were measured$/d" err
    [ -z "$expected" ] || sed -i "/$expected/d" err
}
# accepts NAME COMMAND...: exit 0 and nothing on stderr.
accepts() {
    local name=$1
    shift
    "$@" >out 2>err
    local got=$?
    drop_expected
    if [ $got = 0 ] && [ ! -s err ]; then pass; else flunk "$name (exit $got)"; fi
}
# refuses CODE WORDS COMMAND...: this exit code, one message with these words, nothing on stdout.
refuses() {
    local code=$1 words=$2
    shift 2
    "$@" >out 2>err
    local got=$?
    drop_expected
    if [ "$got" = "$code" ] && grep -qF -- "$words" err && [ "$(grep -c '^weft:' err)" = 1 ]; then pass; else
        flunk "exit $got, wanted $code and '$words': $*"
    fi
}
# background OUT ERR COMMAND...: begins a command, whose process is $!, with both outputs in files (or one file) of its own. They are
# new before this returns: a wait for a line of OUT never finds the line of an earlier process, which a redirection in the
# child leaves there until the child has run.
background() {
    local out=$1 err=$2 file
    shift 2
    for file in "$out" "$err"; do
        [ ! -f "$file" ] || rm "$file"
        : >"$file"
    done
    "$@" >>"$out" 2>>"$err" &
}
# holds FILE PATTERN
holds() { if grep -qE -- "$2" "$1"; then pass; else flunk "$1 lacks '$2'"; cat "$1" | head -5; fi; }

# below PID: the processes that come from this one. Processes are found by where they come from, never by
# their name: others on the machine may run the same programs.
below() {
    local pid
    # shellcheck disable=SC2013
    for pid in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$pid"
        below "$pid"
    done
}
# ranks PID: of these the ranks of a job, in their order; the one process of all ranks where they are threads.
ranks() {
    local pid rank
    for pid in $(below "$1"); do
        rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" |
            sed -n 's/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=//p; s/^WEFT_SUPERVISED=.*/all/p' | sort | head -n 1)
        [ -n "$rank" ] && [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$weft")" ] && echo "$rank $pid"
    done 2>/dev/null | sort -n | cut -d ' ' -f 2
}
# born PID: when it began. marked PIDS...: PID/TIME, since the number may soon be another process's.
born() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
marked() {
    local pid
    for pid in "$@"; do echo "$pid/$(born "$pid")"; done
}
# lives PID[/TIME]
lives() {
    local pid=${1%%/*}
    [ -d "/proc/$pid" ] && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null && { [ "$1" = "$pid" ] || [ "$(born "$pid")" = "${1#*/}" ]; }
}
# A wait ends with its event. A busy machine may need long, so the limit is there only for what hangs. It counts polls, 20 to a
# second, and not the clock: a machine that was stopped for a minute has used up one poll.
limit=90
# within COMMAND: runs it again and again until it succeeds. It is evaluated anew each time.
within() {
    local polls=0
    until eval "$1"; do
        [ $((polls++)) -gt $((limit * 20)) ] && return 1
        sleep 0.05
    done
}
# gone PIDS...: waits until none of them is left, marked or not.
gone() { within "all_gone $*"; }
all_gone() {
    local pid
    for pid in "$@"; do lives "$pid" && return 1; done
    return 0
}
# appears FILE: waits for a file.
appears() { within "[ -e '$1' ]"; }
# masks FIELD SIGNAL PID: whether a mask of its status has this signal: SigCgt of those that it has handlers for, ShdPnd of those
# that it has not received yet.
masks() { [ $((0x$(sed -n "s/^$1:[[:space:]]*//p" "/proc/$3/status" 2>/dev/null || echo 0) >> $(kill -l "$2") - 1 & 1)) = 1 ]; }
# catches PID: waits until signals let it stop. SIGXCPU is the last to get its handler; until then others end it at once.
catches() { within "masks SigCgt XCPU $1"; }
# deliver SIGNAL PID: returns when the process has received it. A second one that comes before would be the same one.
deliver() { kill -"$1" "$2" && within "! masks ShdPnd $1 $2"; }
# moves_on FOLDER STEP: waits until its newest checkpoint is another than this one.
moves_on() { within "[ -e '$1/latest' ] && [ \"\$(readlink '$1/latest')\" != '$2' ]"; }
