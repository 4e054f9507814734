#!/usr/bin/env bash
# Folders of checkpoints: who writes there, what crashes and power cuts leave: tests/job/checkpoints.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="-q --data glyphs:size=16,train=60,test=20 --batch 20 -t 1 --checkpoint-every 1"
endless="-q --data glyphs:size=16,train=400,test=50 --batch 40 --steps 100000 --epochs 100000 -t 1 --checkpoint-every 5"

# --- one run at a time ---
engines=threads
[ "$mpi" = ON ] && engines="threads mpi"
for engine in $engines; do
    for more in "" "--max-restarts 1"; do
        rm -rf one
        # shellcheck disable=SC2086
        background first first.err "$weft" train $endless -n 2 --engine $engine $more --checkpoint one
        job=$!
        appears one/latest
        for again in "" "--resume" "--resume -n 2 --engine $engine $more"; do
            # shellcheck disable=SC2086
            timeout 300 "$weft" train $endless --checkpoint one $again >out 2>err
            [ $? = 2 ] && [ "$(grep -c "^weft: one: another run (process [0-9]* on .*) writes its checkpoints there" err)" = 1 ] &&
                [ "$(wc -l <err)" -le 2 ] && pass || flunk "a second run, $engine $more, $again"
        done
        kill -0 $job 2>/dev/null && pass || flunk "the first run ended"
        all="$job $(below $job)"
        kill -KILL $job
        wait $job 2>/dev/null
        # shellcheck disable=SC2086
        gone $all
        step=$(readlink one/latest | cut -d - -f 2)
        # shellcheck disable=SC2086
        timeout 300 "$weft" train $endless --checkpoint one --resume --steps $((step + 3)) >out 2>err && pass ||
            flunk "after a killed run, $engine $more"
    done
done
# Reading is free to all.
background first first.err "$weft" train $endless --checkpoint one --resume
job=$!
sleep 0.5
"$weft" eval one/latest -q >out 2>err && pass || flunk "reading while a run writes"
kill -TERM $job
wait $job

# An exported model in the folder of a run would hide its checkpoints.
cp -r one before
for folder in one one/latest "$(echo one/step-* | cut -d ' ' -f 1)"; do
    refuses 2 "would hide" "$weft" export one/latest --folder "$folder" -q
    diff -r one before >out 2>err && pass || flunk "what a refused export left in $folder"
done
rm -rf before
accepts "an export over an export" eval 'for i in 1 2; do "$weft" export one/latest --folder plain -q || exit; done'

# --- what a kill leaves ---
cc -O -shared -fPIC -o power.so "$here/power_loss.c" -ldl || flunk "power_loss.c"
# The address sanitizer wants to come first.
preload="$(ldd "$weft" | awk '/libasan/ {print $3}') $PWD/power.so"
hidden() { find "$1" -mindepth 1 -maxdepth 1 -name '.*' ! -name .lock; }
for n in 1 2 3 4 5 6 7 8; do
    rm -rf killed
    # shellcheck disable=SC2086
    POWER_KILL=$n POWER_DIR=$PWD/killed LD_PRELOAD=$preload "$weft" train $small --keep 1 --steps 6 --epochs 9 --checkpoint "$PWD/killed" >out 2>err
    [ $? = 137 ] && "$weft" inspect killed >out 2>err && pass || flunk "killed at removal $n"
    # shellcheck disable=SC2086
    "$weft" train $small --keep 1 --steps 9 --epochs 9 --checkpoint killed --resume >out 2>err && [ -z "$(hidden killed)" ] &&
        [ "$(echo killed/step-*)" = killed/step-9 ] && pass || flunk "what removal $n left: $(ls -A killed)"
done 2>/dev/null
# A folder that cannot be removed yet stays hidden until a later run removes it.
rm -rf busy
# shellcheck disable=SC2086
POWER_BUSY=1 POWER_DIR=$PWD/busy LD_PRELOAD=$preload "$weft" train $small --keep 1 --steps 6 --epochs 9 --checkpoint "$PWD/busy" >out 2>err &&
    [ ! -s err ] && [ "$(hidden busy | wc -l)" = 5 ] && [ "$(echo busy/step-*)" = busy/step-6 ] && pass || flunk "folders that cannot be removed: $(ls -A busy)"
# shellcheck disable=SC2086
accepts "a run after them" "$weft" train $small --keep 1 --steps 9 --epochs 9 --checkpoint busy --resume
[ -z "$(hidden busy)" ] && pass || flunk "folders that can be removed now: $(ls -A busy)"
# NFS keeps mapped files: a run that has begun, or a server that is ready, maps none of its checkpoint.
# shellcheck disable=SC2086
"$weft" train $endless --checkpoint mapped --steps 10 >out 2>err || flunk "a run to go on from"
# shellcheck disable=SC2086
background first first.err "$weft" train $endless --checkpoint mapped --resume
job=$!
moves_on mapped step-10 && ! grep -F "$PWD/mapped/" /proc/$job/maps && lives $job && pass || flunk "files that a resumed run maps"
kill -TERM $job
wait $job
background served served.err "$weft" serve m=mapped/latest --port 0 --metrics-port -1
job=$!
appears mapped/times.json && ! grep -F "$PWD/mapped/" /proc/$job/maps && lives $job && pass || flunk "files that a server maps"
kill -TERM $job
wait $job
# A folder that an older version left half removed counts for nothing, and goes; what is not ours stays.
rm -rf gutted && cp -r killed gutted && cp -r killed/step-9 gutted/step-3 && cp -r killed/step-9 gutted/step-06 && mkdir gutted/step-5
rm gutted/step-3/index.json
echo notes >gutted/step-5/notes
touch gutted/step-7
# shellcheck disable=SC2086
"$weft" train $small --keep 1 --steps 10 --epochs 9 --checkpoint gutted --resume >out 2>err && [ ! -e gutted/step-3 ] && [ ! -e gutted/step-9 ] &&
    [ -f gutted/step-5/notes ] && [ -f gutted/step-7 ] && [ -f gutted/step-06/index.json ] && [ -f gutted/step-10/index.json ] &&
    pass || flunk "a gutted one: $(ls gutted)"
# What is not ours stands in the way of a name that this run may need: said before it begins, and left alone.
mkdir linked
touch linked/notes
for way in file folder mixed link hidden newest; do
    rm -rf foreign && cp -r killed foreign # at step 9; 10 to 12 are to come
    case $way in
    file) name=step-11 && echo mine >foreign/$name ;;
    folder) name=step-12 && mkdir foreign/$name && echo mine >foreign/$name/notes ;;
    mixed) name=step-10 && cp -r killed/step-9 foreign/$name && echo mine >foreign/$name/notes ;;
    link) name=step-11 && ln -s ../linked foreign/$name ;;
    hidden) name=.step-10.tmp && echo mine >foreign/$name ;;
    newest) name=.latest.tmp && mkdir foreign/$name && echo mine >foreign/$name/notes ;;
    esac
    cp -a foreign copy
    # shellcheck disable=SC2086
    "$weft" train $small --keep 1 --steps 12 --epochs 9 --checkpoint foreign --resume >out 2>err
    [ $? = 2 ] && [ "$(grep -c "^weft: foreign/$name .*move it away" err)" = 1 ] && [ "$(wc -l <err)" = 1 ] &&
        diff -r --no-dereference -x .lock foreign copy >out && [ -e linked/notes ] && pass || flunk "a foreign $way: $(ls -A foreign)"
    rm -rf copy
done
# Out of the way it is left alone: behind the end of the run, or older; nor does pruning follow links or take notes.
rm -rf foreign && cp -r killed foreign && cp -r killed/step-9 foreign/step-8 && echo mine >foreign/step-8/notes && echo mine >foreign/step-13 &&
    rm -rf linked && cp -r killed/step-9 linked && ln -s ../linked foreign/step-7 && mkdir foreign/.step-notes && touch foreign/.step-notes/x
# shellcheck disable=SC2086
"$weft" train $small --keep 1 --steps 12 --epochs 9 --checkpoint foreign --resume >out 2>err && [ -f foreign/step-8/notes ] && [ -f foreign/step-13 ] &&
    [ -f linked/index.json ] && [ -L foreign/step-7 ] && [ -f foreign/.step-notes/x ] && [ ! -e foreign/step-9 ] && [ -f foreign/step-12/index.json ] &&
    pass || flunk "what is not ours: $(ls -A foreign)"
# A checkpoint that a process is reading stays until that process has closed it.
rm -rf reading
# shellcheck disable=SC2086
"$weft" train $small --keep 1 --steps 2 --epochs 9 --checkpoint reading >out 2>err
exec 8<reading/step-2
flock -s 8
# shellcheck disable=SC2086
"$weft" train $small --keep 1 --steps 4 --epochs 9 --checkpoint reading --resume >out 2>err
[ -f reading/step-2/index.json ] && [ ! -e reading/step-3 ] && pass || flunk "what is being read: $(ls -A reading)"
exec 8<&-
# shellcheck disable=SC2086
"$weft" train $small --keep 1 --steps 5 --epochs 9 --checkpoint reading --resume >out 2>err
[ "$(ls reading)" = "latest
step-5" ] && pass || flunk "what has been read: $(ls -A reading)"
# What comes during the run costs this checkpoint, but nobody's files.
# shellcheck disable=SC2086
background out err "$weft" train $endless --checkpoint-every 20 --checkpoint meanwhile
job=$!
appears meanwhile/.lock && for k in $(seq 2 200); do echo mine >meanwhile/step-$((k * 20)); done
gone $job || kill -KILL $job
wait $job
[ $? = 1 ] && grep -q "^weft: meanwhile/step-[0-9]* is no checkpoint of weft.*move it away" err && ! grep -Lx mine meanwhile/step-4* | grep -q . && pass ||
    flunk "a foreign file during the run"
# The newest one is not passed over when its index is lost, nor overwritten.
rm -rf lost && cp -r killed lost && cp -r killed/step-9 lost/step-4 && rm lost/step-9/index.json
for command in "eval -q --checkpoint lost" "inspect lost" "train $small --steps 12 --epochs 9 --checkpoint lost --resume"; do
    # shellcheck disable=SC2086
    timeout 300 "$weft" $command >out 2>err
    [ $? = 1 ] && grep -q "step-9/index.json: damaged checkpoint: it is missing; the one before is .*/step-4 " err && [ -f lost/step-9/parameters.safetensors ] &&
        pass || flunk "a lost index: $command"
done
# A missing file is damage, after which an older checkpoint serves; one that cannot be read now may be intact.
cp killed/step-9/index.json lost/step-9/ && rm lost/step-9/parameters.safetensors
refuses 1 "parameters.safetensors: damaged checkpoint: it is missing; the one before is" "$weft" eval -q --checkpoint lost
holds err "/step-4 [(]remove the damaged folder to resume from it[)]$"
ln -s parameters.safetensors lost/step-9/parameters.safetensors
refuses 1 "parameters.safetensors: cannot open: " "$weft" eval -q --checkpoint lost
holds err "; the one before is .*/step-4$"
for way in "mkdir" "mkfifo" "ln -sf /dev/null"; do # a folder, a pipe or a device in the place of a file
    for file in parameters.safetensors state.safetensors index.json; do
        rm -rf lost && cp -r killed lost && cp -r killed/step-9 lost/step-4 && rm lost/step-9/$file && $way lost/step-9/$file
        refuses 1 "$file: damaged checkpoint: it is not a regular file; the one before is" "$weft" eval -q --checkpoint lost
        holds err "/step-4 [(]remove the damaged folder to resume from it[)]$"
    done
done
rm lost/step-9/index.json
rm -rf lost/step-4
# shellcheck disable=SC2086
timeout 300 "$weft" train $small --steps 2 --checkpoint lost >out 2>err
[ $? = 1 ] && grep -q "step-9/index.json: damaged checkpoint" err && [ ! -e lost/step-2 ] && pass || flunk "a lost index and a new run"
# A link that leads nowhere is named, with the checkpoints that are there; a run goes on from the newest of them.
rm -rf gone && cp -r killed gone && cp -r killed/step-9 gone/step-4 && cp -r killed/step-9 gone/step-7 && rm -r gone/step-9 && mkdir gone/step-8
said="latest: holds no checkpoint, since it is a link to step-9, which is absent; complete checkpoints there: step-7, step-4; give gone/step-7"
for command in "eval -q" "predict --data glyphs:size=16,train=60,test=20" "export -q -o weights" inspect "serve --port 0"; do
    for path in gone/latest gone/latest/; do
        # shellcheck disable=SC2086
        refuses 1 "${said/#latest/$path}" timeout 300 "$weft" $command $path
    done
done
(cd gone && refuses 1 "give ./step-7" "$weft" eval -q latest)
refuses 1 "gone/step-9: holds no checkpoint (no index.json, no latest, no step-N); complete checkpoints there: step-7, step-4; give gone/step-7" \
    "$weft" eval -q gone/step-9
for resume in "" --resume; do
    # shellcheck disable=SC2086
    refuses 2 "gone/latest is a link to step-9, which is absent; a run needs the folder that holds its checkpoints" \
        "$weft" train $small --steps 10 --epochs 9 --checkpoint gone/latest $resume
done
mkdir none && ln -s step-5 none/latest
refuses 1 "none: holds no checkpoint, since its latest is a link to step-5, which is absent; give a folder that weft train" "$weft" eval -q none
rmdir gone/step-8
# shellcheck disable=SC2086
accepts "a run after a lost newest checkpoint" "$weft" train $small --steps 10 --epochs 9 --checkpoint gone --resume
# Where all are lost, a run with fresh weights would replace its metrics.
mkdir vanished && ln -s step-7 vanished/latest && echo kept >vanished.jsonl
refuses 2 "vanished/latest names step-7, which is not there" "$weft" train -q $small --checkpoint vanished --resume --metrics vanished.jsonl
[ "$(cat vanished.jsonl)" = kept ] && pass || flunk "metrics of a run whose checkpoints are lost"
[ "$(readlink gone/latest)" = step-10 ] && pass || flunk "the link after a lost newest checkpoint"
# One that was being replaced has its name again.
rm -rf moved && cp -r killed moved && mv moved/step-9 moved/.step-9.old && mkdir moved/.step-9.tmp && touch moved/.step-9.tmp/x
mkdir moved/step-3 && cp moved/.step-9.old/* moved/step-3
# shellcheck disable=SC2086
"$weft" train $small --steps 10 --epochs 9 --keep 9 --checkpoint moved --resume >out 2>err && [ -f moved/step-9/index.json ] && [ -z "$(hidden moved)" ] &&
    pass || flunk "a checkpoint that had been moved aside: $(ls -A moved)"
# A copy without links has a folder `latest`: a run goes on from it, and gives it the name of its step. Nothing is lost.
"$weft" train $small --keep 9 --steps 12 --epochs 9 --checkpoint killed12 >out 2>err || flunk "a run to compare with"
"$weft" train $small --keep 1 --steps 9 --epochs 9 --seed 2 --checkpoint sister >out 2>err || flunk "a run with another seed"
for way in twice alone half behind; do
    rm -rf copied && cp -rL killed copied # at step 9
    case $way in
    alone) rm -r copied/step-9 ;;
    half) rm copied/step-9/index.json ;;
    behind) cp -r killed12/step-12 copied/step-11 ;; # of another branch: `latest` is what a run goes on from
    esac
    # shellcheck disable=SC2086
    [ ! -L copied/latest ] && "$weft" train $small --keep 9 --steps 12 --epochs 9 --checkpoint copied --resume >out 2>err && [ ! -s err ] &&
        [ "$(readlink copied/latest)" = step-12 ] && [ -z "$(hidden copied)" ] && diff -r copied/step-9 killed/step-9 >out &&
        cmp copied/latest/parameters.safetensors killed12/latest/parameters.safetensors && pass || flunk "a copy without links, $way: $(ls -A copied)"
done
for way in other notes in_step file empty; do
    rm -rf copied && cp -rL killed copied
    code=2
    case $way in
    other) rm -r copied/step-9 && cp -r sister/step-9 copied/step-9 && words="copied/latest and copied/step-9 are two different checkpoints of step 9" ;;
    notes) echo mine >copied/latest/notes && words="copied/latest is no checkpoint of weft ('notes' is in it)" ;;
    in_step) echo mine >copied/step-9/notes && words="copied/step-9 is no checkpoint of weft ('notes' is in it)" ;;
    file) rm -r copied/latest && echo step-9 >copied/latest && code=1 words="/copied/latest is a file, where a link to the newest checkpoint belongs; remove the file to resume from copied/step-9" ;;
    empty) rm copied/latest/* && code=1 words="/copied/step-9 (remove the damaged folder" ;;
    esac
    rm -rf copy && cp -a copied copy
    # shellcheck disable=SC2086
    refuses $code "$words" "$weft" train $small --keep 9 --steps 12 --epochs 9 --checkpoint copied --resume
    diff -r --no-dereference -x .lock copied copy >out && pass || flunk "a copy that is not gone on from, $way: $(ls -A copied)"
done
# A server has kept the times of batches in its folder `latest`, which is no reason to refuse it.
rm -rf copied && cp -rL killed copied
background served served.err "$weft" serve m=copied/latest --port 0 --metrics-port -1
job=$!
appears copied/latest/times.json && pass || flunk "the times of batches: $(ls copied/latest)"
kill -TERM $job
wait $job
# shellcheck disable=SC2086
accepts "a checkpoint that was served" "$weft" train $small --keep 9 --steps 12 --epochs 9 --checkpoint copied --resume
rm -rf copied && cp -rL killed copied && rm -r copied/step-9
# shellcheck disable=SC2086
refuses 2 "copied already holds 1 checkpoint; add --resume" "$weft" train $small --steps 12 --epochs 9 --checkpoint copied

# A run that goes on from an older checkpoint keeps what it writes.
# shellcheck disable=SC2086
"$weft" train $small --steps 6 --epochs 9 --keep 9 --checkpoint older >out 2>err && ln -sfn step-2 older/latest &&
    "$weft" train $small --steps 3 --epochs 9 --keep 2 --checkpoint older --resume >out 2>err && "$weft" inspect older/latest | grep -q "step 3[^0-9]" &&
    [ ! -e older/step-1 ] && [ -e older/step-6 ] && pass || flunk "going on from an older one: $(ls older)"

# --- a damaged index ---
cat >flip.py <<'PY'
import subprocess, sys
weft, folder, name = sys.argv[1:]
path = f"{folder}/{name}"
whole, unnoticed = open(path, "rb").read(), []
for at in range(0, len(whole), 5):
    # Without the name of its checksum, model.json is as that of an older version.
    if name == "model.json" and len(whole) - 22 <= at < len(whole) - 11:
        continue
    for bit in (1, 64):
        open(path, "wb").write(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        ran = subprocess.run([weft, "inspect", folder], capture_output=True, text=True)
        if ran.returncode != 1 or len(ran.stderr.strip().splitlines()) != 1:
            unnoticed.append((at, bit, ran.returncode, ran.stderr))
for size in range(0, len(whole), 97):
    open(path, "wb").write(whole[:size])
    if subprocess.run([weft, "inspect", folder], capture_output=True).returncode != 1:
        unnoticed.append(size)
# As format 1 had it, without a checksum of its own.
end = whole.rindex(b",\n \"crc32\"")
open(path, "wb").write((whole[:end] + b"\n}").replace(b'"format": 2', b'"format": 1'))
if subprocess.run([weft, "inspect", folder], capture_output=True).returncode != 0:
    unnoticed.append("format 1")
open(path, "wb").write(whole)
print(unnoticed)
sys.exit(len(unnoticed) > 0)
PY
python3 flip.py "$weft" killed/step-9 index.json >out 2>err && pass || flunk "a damaged index"
python3 flip.py "$weft" plain model.json >out 2>err && pass || flunk "a damaged description of an exported model"

# --- the power is cut ---
# Every state that a cut may leave is tried: in a slow build, of the way with more of them alone.
ways=("" 1)
[ -n "${WEFT_FAST:-}" ] && ways=(1)
for old in "${ways[@]}"; do
    rm -rf cut before log*
    # shellcheck disable=SC2086
    POWER_OLD=$old POWER_DIR=$PWD/cut POWER_LOG=$PWD/log LD_PRELOAD=$preload "$weft" train $small --keep 2 --steps 5 --epochs 9 --checkpoint "$PWD/cut" >out 2>err ||
        flunk "a run that is watched"
    python3 "$here/power_loss.py" "$weft" "$PWD/cut" log >out 2>err && pass || flunk "a power cut"
    cp -r cut before
    rm -f log*
    ln -sfn step-4 cut/latest
    rm -rf before
    cp -r cut before
    # shellcheck disable=SC2086
    POWER_OLD=$old POWER_DIR=$PWD/cut POWER_LOG=$PWD/log LD_PRELOAD=$preload "$weft" train $small --keep 2 --steps 6 --epochs 9 --checkpoint "$PWD/cut" --resume >out 2>err ||
        flunk "a run that is watched"
    python3 "$here/power_loss.py" "$weft" "$PWD/cut" log before >out 2>err && pass || flunk "a power cut while a checkpoint is replaced"
    for step in step-6 ""; do # beside a folder `latest`, or not
        rm -rf copied before log*
        cp -rL cut copied
        [ -n "$step" ] || rm -r copied/step-6
        cp -r copied before
        # shellcheck disable=SC2086
        POWER_OLD=$old POWER_DIR=$PWD/copied POWER_LOG=$PWD/log LD_PRELOAD=$preload "$weft" train $small --keep 2 --steps 7 --epochs 9 --checkpoint "$PWD/copied" --resume >out 2>err ||
            flunk "a run that is watched"
        python3 "$here/power_loss.py" "$weft" "$PWD/copied" log before >out 2>err && pass || flunk "a power cut while a folder latest gets its name"
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
