# Members of runs as processes, for tests that come after check.sh with $weft.
trap 'for p in $(below $$); do kill -KILL "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
data="--data glyphs:size=16,train=2000,test=200"
at=

# coordinator ARGUMENTS...: begins one; leaves $at, where it listens, and $c.
coordinator() {
    # shellcheck disable=SC2086
    background co ce timeout 600 "$weft" coordinator --listen "${listen:-tcp://127.0.0.1:*}" $data --batch 40 -t 1 "$@"
    c=$!
    within 'grep -qs "^coordinator at" co'
    at=$(sed -n 's/^coordinator at //p' co)
    [ -n "$at" ] || { cp ce err; flunk "no coordinator: $*"; }
}
# server NAME ARGUMENTS..., join NAME ARGUMENTS...: a member, whose process is $NAME and output NAME.out, NAME.err.
server() {
    local name=$1
    shift
    background "$name.out" "$name.err" timeout 600 "$weft" server "$at" -t 1 "$@"
    eval "$name=$!"
}
join() {
    local name=$1
    shift
    # shellcheck disable=SC2086
    background "$name.out" "$name.err" timeout 600 "$weft" join "$at" $data -t 1 "$@"
    eval "$name=$!"
}
# ends CODE NAME: its process ends with that code.
ends() {
    local code
    wait "${!2}"
    code=$?
    [ $code = "$1" ] && pass || { cp "$2.out" out 2>/dev/null; cp "$2.err" err 2>/dev/null; flunk "$2 ended with $code, not $1: $what"; }
}
# the process itself, which timeout has started
self() { below "$1" | head -n 1; }
# listens_everywhere NAME: its process accepts connections on all interfaces.
listens_everywhere() {
    local p
    p=$(self "${!1}")
    awk '$2 ~ /^0+:/ && $4 == "0A" { print "socket:[" $10 "]" }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qxFf - <(readlink /proc/"$p"/fd/*)
}
# ports_of NAME: those at which its process listens.
ports_of() {
    local p
    p=$(self "${!1}")
    awk '$4 == "0A" { split($2, at, ":"); print "socket:[" $10 "] " at[2] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        grep -F -f <(readlink /proc/"$p"/fd/* | grep '^socket:') | while read -r _ port; do echo $((16#$port)); done
}
# Four times as good as guessing: how far asynchronous learners come in a few epochs depends on how they take turns.
accurate() { awk '/accuracy/ { sub(/.*accuracy /, ""); a = $1 + 0 } END { exit !(a >= 0.4) }' "$1.out"; }
learned() { accurate "$1" && pass || { cp "$1.out" out; flunk "$1 has not learned: $what"; }; }
# A run in which members come and go is endless and killed by its test: a fast machine takes any number of steps before
# a process has started.
endless="--epochs 100000"
# lasting SECONDS LEARNERS: --epochs with which so many learners take that long on this machine if nothing else runs on
# it, for a run that has to come to its end by itself.
lasting() {
    local TIMEFORMAT=%U
    # shellcheck disable=SC2086
    { time "$weft" train -q $data --batch 40 -t 1 --epochs 10 >/dev/null 2>&1; } 2>&1 |
        awk -v seconds="$1" -v learners="$2" '{ print "--epochs " int(10 * seconds * learners / ($1 + 0.01)) + 1 }'
}
# learns NAME: it learns while the run goes on.
learns() {
    within "accurate $1"
    learned "$1"
}
# killed NAMES...: kills members.
killed() {
    local name
    for name in "$@"; do
        kill -KILL "$(self "${!name}")" 2>/dev/null
        wait "${!name}" 2>/dev/null
    done
}
members() { "$weft" status "$at" --timeout 20 2>/dev/null | grep -c "^$1 [0-9]"; }
until_there() { # ROLE COUNT
    within "[ \"\$(members $1)\" = $2 ]" || flunk "no $2 $1s: $what"
}
none_left() {
    [ -z "$(below $$ | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$(readlink -f "$weft")" ] && echo "$p"; done)" ] && pass || flunk "processes are left"
}
