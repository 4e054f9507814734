#!/usr/bin/env bash
# Where output goes, whatever the path is, and what a terminal shows: tests/cli/output_paths.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF}
. "$(dirname "$0")/../support/check.sh"
small="--model mlp --data glyphs:size=8,train=60,test=20 --batch 20"
# shellcheck disable=SC2086
"$weft" train -q $small --checkpoint run 2>err || flunk "a checkpoint to begin with"

# Each command that writes a file, with where to as $1; what it writes must begin with the given words.
write_trace() { "$weft" train -q $small --trace "$1"; }
write_metrics() { "$weft" train -q $small --metrics "$1"; }
write_predictions() { "$weft" predict run --output "$1"; }
write_weights() { "$weft" export run -q -o "$1"; }
begins() { # WRITER: a pattern of the first 40 bytes
    case $1 in
    trace) echo '^{"traceEvents":\[' ;;
    metrics) echo '^{"event":"step","step":1' ;;
    predictions) echo '^sample,label,predicted' ;;
    weights) echo '{"__metadata__"' ;;
    esac
}
good() { head -c 40 "$2" | tr '\0' ' ' | grep -aq -- "$(begins "$1")"; }
for writer in trace metrics predictions weights; do
    write=write_$writer
    # A new file, and one that is there already: nothing but it is left, and its permissions are kept.
    rm -rf place && mkdir place
    accepts "$writer: a new file" $write place/new
    good $writer place/new && pass || flunk "$writer: what is in the new file"
    echo old >place/new && chmod 640 place/new
    accepts "$writer: a file that is there" $write place/new
    good $writer place/new && [ "$(stat -c %a place/new)" = 640 ] && [ "$(ls -A place)" = new ] && pass ||
        flunk "$writer: the file that was there: $(ls -lA place)"
    # A link stays a link; so does one that points nowhere yet, and one through two folders.
    mkdir place/far && ln -s far/target place/link && ln -s link place/chain
    for name in link chain; do
        accepts "$writer: a $name" $write place/$name
        [ -h place/$name ] && [ ! -h place/far/target ] && good $writer place/far/target && pass || flunk "$writer: a $name was replaced"
    done
    # Something that is no regular file is written to: a pipe, a device.
    mkfifo place/pipe
    background from_pipe /dev/null timeout 300 cat place/pipe
    reader=$!
    accepts "$writer: a pipe" timeout 300 bash -c "$(declare -f $write); weft='$weft' small='$small'; $write place/pipe"
    wait $reader
    [ -p place/pipe ] && good $writer from_pipe && pass || flunk "$writer: a pipe"
    # "-" is standard output, and nothing else is written there.
    $write - >from_dash 2>err && [ ! -e ./- ] && good $writer from_dash && pass || flunk "$writer: to standard output"
    # The same by its other name, /dev/stdout (here a link of our own, so that a fault does no harm).
    ln -sf /proc/self/fd/1 stdout
    $write stdout >from_stdout 2>err && [ -h stdout ] && good $writer from_stdout && pass || flunk "$writer: to /dev/stdout, a file"
    $write stdout 2>err | cat >from_stdout && [ -h stdout ] && good $writer from_stdout && pass || flunk "$writer: to /dev/stdout, a pipe"
    # What cannot be written is said, with the path, and what was there is still there.
    for path in place /nowhere/f; do
        $write $path >out 2>err
        [ $? = 1 ] && [ "$(grep -c "^weft: $path: cannot" err)" = 1 ] && pass || flunk "$writer: to $path"
    done
    $write - >/dev/full 2>err
    [ $? = 1 ] && grep -q "^weft: standard output: cannot write: No space left" err && pass || flunk "$writer: to a full standard output"
done
# What is new has the permissions that the user wants new files to have.
# shellcheck disable=SC2086
(umask 027 && "$weft" train -q $small --checkpoint mine/run --metrics mine.m --trace mine.t && "$weft" predict mine/run --output mine.p &&
    "$weft" export mine/run -q -o mine.w) 2>err || flunk "files of one's own: $(cat err)"
for path in $(find mine mine.? ! -type l); do
    wanted=640 && [ ! -d "$path" ] || wanted=750
    [ "$(stat -c %a "$path")" = $wanted ] && pass || flunk "$path has permissions $(stat -c %a "$path"), not $wanted"
done
# Devices survive: made here, so that a fault does no harm to the machine.
if [ "$(id -u)" = 0 ] && mknod null c 1 3 2>/dev/null && { echo >null; } 2>/dev/null; then
    for writer in trace metrics predictions weights; do
        accepts "$writer: a device" write_$writer null
        [ -c null ] && pass || flunk "$writer: the device has gone"
        rm -f null full && mknod null c 1 3 && mknod full c 1 7
        write_$writer full >out 2>err
        [ $? = 1 ] && [ -c full ] && grep -q "^weft: full: cannot write: No space left" err && pass || flunk "$writer: to a full device"
    done
else
    echo "SKIPPED: no device can be made here"
fi
# Metrics are whole lines at any moment, so that a run which goes on after a kill leaves no line in pieces.
for _ in 1 2 3; do
    rm -f killed.jsonl
    background /dev/null err "$weft" train -q --model mlp --data glyphs:size=8,train=8000,test=20 --batch 4 --epochs 100000 -t 1 --metrics killed.jsonl
    job=$!
    within '[ "$(stat -c %s killed.jsonl 2>/dev/null || echo 0)" -gt 20000 ]'
    kill -KILL $job
    wait $job 2>/dev/null
    [ -s killed.jsonl ] && [ -z "$(tail -c 1 killed.jsonl)" ] && pass || flunk "metrics of a run that was killed: $(tail -n 1 killed.jsonl)"
done
# Two runs do not share a file, which keeps the lines of the first.
rm -f one.jsonl
background /dev/null err "$weft" train -q --model mlp --data glyphs:size=8,train=8000,test=20 --batch 4 --epochs 100000 -t 1 --metrics one.jsonl
job=$!
within '[ "$(stat -c %s one.jsonl 2>/dev/null || echo 0)" -gt 20000 ]'
ln -s one.jsonl alias.jsonl
for file in one.jsonl alias.jsonl; do
    # shellcheck disable=SC2086
    refuses 2 "weft: $file: another run writes to this file" "$weft" train $small --metrics $file
done
kill -INT $job
wait $job
python3 -c 'import json; assert [json.loads(x)["step"] for x in open("one.jsonl") if "step\"" in x[:16]][:2] == [1, 2]' 2>err &&
    pass || flunk "lines of two runs in one file"
# shellcheck disable=SC2086
accepts "metrics once the other run has ended" "$weft" train -q $small --metrics one.jsonl
# A place where nothing can be written is found before any step.
while read -r command; do
    for place in nowhere/x .; do
        # shellcheck disable=SC2086
        refuses 1 "weft: $place: cannot" "$weft" $command $place
        [ ! -s out ] && pass || flunk "$command $place did work before: $(head -c 300 out)"
    done
done <<COMMANDS
train $small --trace
train $small --metrics
train $small -n 2 --mesh data=2 --trace
train $small -n 2 --exchange hogwild --trace
predict run --output
COMMANDS
refuses 1 "weft: nowhere/x.svg: cannot" "$weft" find-lr $small --plot nowhere/x.svg
[ ! -s out ] && pass || flunk "find-lr --plot did work before: $(head -c 300 out)"
# Looking at a run writes nothing.
echo kept >m.jsonl
# shellcheck disable=SC2086
refuses 2 "--metrics has no effect in weft inspect" "$weft" inspect $small --metrics m.jsonl
refuses 2 "--checkpoint has no effect in weft inspect" "$weft" inspect $small --checkpoint untouched
refuses 2 "--resume has no effect in weft inspect" "$weft" inspect $small --resume
printf 'metrics: m.jsonl\ncheckpoint: untouched\n' >inspected.yaml
accepts "inspect leaves metrics alone" "$weft" inspect inspected.yaml $small
[ "$(cat m.jsonl)" = kept ] && [ ! -e untouched ] && pass || flunk "inspect wrote"

# Every command says when standard output takes no more, and is closed.
while read -r command; do
    # shellcheck disable=SC2086
    "$weft" $command >/dev/full 2>err
    [ $? = 1 ] && [ "$(grep -c '^weft: standard output: cannot write: No space left on device' err)" = 1 ] && pass || flunk "$command with a full standard output: $(cat err)"
    # shellcheck disable=SC2086
    "$weft" $command >&- 2>err
    [ $? = 1 ] && [ "$(grep -c '^weft: standard output: cannot .*Bad file descriptor' err)" = 1 ] && pass || flunk "$command without a standard output: $(cat err)"
done <<COMMANDS
--version
--help
help train
help --man train
inspect --list
inspect run
inspect $small
inspect --program $small
plan $small
eval run
eval run --json
predict run
export run -o w.st
train $small
COMMANDS
# So does a supervisor, whose ranks print through it; it is no reason to start them again.
for job in "--max-restarts 1 --checkpoint supervised" "-n 2 --engine mpi"; do
    [ "$mpi" = ON ] || [ "${job#*mpi}" = "$job" ] || continue
    # shellcheck disable=SC2086
    timeout 300 "$weft" train $small $job >/dev/full 2>err
    [ $? = 1 ] && [ "$(cat err)" = "weft: standard output: cannot write: No space left on device" ] && pass || flunk "$job with a full standard output: $(cat err)"
    rm -rf supervised
    # shellcheck disable=SC2086
    timeout 300 "$weft" train $small $job -q >/dev/full 2>err && [ ! -s err ] && pass || flunk "$job has nothing to print"
    rm -rf supervised
    # shellcheck disable=SC2086
    accepts "$job" timeout 300 "$weft" train $small $job
    [ "$(grep -c 'test loss' out)" = 1 ] && pass || flunk "what $job prints"
    rm -rf supervised
done
[ "$(ls -A | grep -c tmp)" = 0 ] && pass || flunk "something half written is left"

# What a killed process has left beside a file goes with the next one that writes it; nothing else does.
mkdir left
sleep 300 &
living=$!
sh -c 'exit 0' &
dead=$!
wait $dead
# A child that ends when its parent has become sleep, which does not wait for it.
cat >ends.sh <<'ENDS'
until grep -qx sleep "/proc/$PPID/comm"; do sleep 0.05; done
ENDS
bash -c 'bash ends.sh & echo $! >zombie; exec sleep 300' &
keeper=$!
within 'grep -qs "^State:.*Z" "/proc/$(cat zombie 2>/dev/null)/status"' || flunk "no zombie"
for name in p.csv.weft-tmp$(cat zombie) p.csv.weft-tmp$dead p.csv.weft-tmp$living p.csv.weft-tmp p.csv.weft-tmp${dead}x p.csv.tmp$dead q.csv.weft-tmp$dead; do echo mine >left/$name; done
ln -s p.csv left/link.weft-tmp$dead
accepts "a file beside leftovers" "$weft" predict run --output left/p.csv
[ "$(ls left | tr '\n' ' ')" = "$(printf '%s\n' link.weft-tmp$dead p.csv p.csv.tmp$dead p.csv.weft-tmp p.csv.weft-tmp$living p.csv.weft-tmp${dead}x q.csv.weft-tmp$dead | sort | tr '\n' ' ')" ] &&
    pass || flunk "leftovers: $(ls left)"
accepts "the other file" "$weft" export run -q -o left/q.csv
[ -e left/q.csv.weft-tmp$dead ] && flunk "what was left of the other file is still there" || pass
# One that is held belongs to somebody, perhaps on another machine.
echo theirs >left/p.csv.weft-tmp$dead
flock left/p.csv.weft-tmp$dead "$weft" predict run --output left/p.csv
[ -e left/p.csv.weft-tmp$dead ] && pass || flunk "a file that somebody writes was removed"
kill $living $keeper
# In a container, every first process has the same id.
sh -c "echo old >left/p.csv.weft-tmp\$\$.01234567; exec '$weft' predict run --output left/p.csv" 2>err || flunk "after a process of the same id: $(cat err)"
[ "$(ls left | grep -c '01234567')" = 0 ] && pass || flunk "what a process of the same id left: $(ls left)"
# A kill in the middle of it.
awk 'BEGIN { for (i = 0; i < 30000; i++) print i % 7 ",1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20," i % 3 }' >rows.csv
"$weft" train -q --model mlp --data csv:rows.csv --batch 500 --steps 2 --checkpoint tall 2>err || flunk "rows"
for try in 1 2 3 4 5 6 7 8; do
    background /dev/null err "$weft" predict tall --output left/tall.csv
    within "compgen -G 'left/tall.csv.weft-tmp$!.*' >/dev/null"
    kill -KILL $!
    wait $! 2>/dev/null
    [ -e left/tall.csv ] || break
    rm left/tall.csv
done
[ "$(ls left | grep -c tall.csv.weft-tmp)" = 1 ] && pass || flunk "a kill left nothing: $(ls left)"
accepts "after a kill" "$weft" predict tall --output left/tall.csv
[ "$(ls left | grep -c tall)" = 1 ] && pass || flunk "what a kill left: $(ls left)"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
