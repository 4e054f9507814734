#!/usr/bin/env bash
# What a checkpoint must hold, and what may go on from one: tests/checkpoint/resume.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=8,train=60,test=20 --batch 20"

# The learning rate that inspect shows for a checkpoint is that of the step after it.
while read -r words; do
    rm -rf run
    # shellcheck disable=SC2086
    accepts "train $words" "$weft" train -q $small -m mlp --lr 0.0123456789 $words --checkpoint run --checkpoint-every 2 --keep 99 --metrics rates
    for at in run/step-*; do "$weft" inspect "$at" | sed -nE 's/^(after step [0-9]+|learning rate .*)/\1/p'; done >told
    python3 - "$words" <<'PY' && pass || flunk "the rates of inspect: $words"
import json, re, sys
rates = {row["step"]: row["lr"] for row in map(json.loads, open("rates")) if row["event"] == "step"}
told = [(float(rate), int(step)) for rate, step in re.findall(r"^learning rate (\S+) in step (\d+): at step", open("told").read(), re.M)]
assert len(told) >= 4, open("told").read()
for rate, step in told:
    assert step not in rates or abs(rate - rates[step]) <= 1e-5 * rate, (rate, step, rates)
assert sum(step in rates for _, step in told) >= 3, told
PY
done < <("$weft" inspect --list | sed -n '/^learning rate schedules:/,/^$/s/^  \([a-z][a-z-]*\).*/--epochs 3 --lr-schedule \1/p' && cat <<'RUNS'
--steps 9
--epochs 3 --warmup 5
--epochs 3 --lr-schedule cosine --lr-floor 0.001
--steps 9 --lr-schedule cosine --warmup 3
--epochs 4 --lr-schedule step --decay-every 3 --gamma 0.5
--epochs 5 --lr-schedule plateau:patience=0,threshold=1 --gamma 0.5
RUNS
)

# A layer whose result nobody reads is warned of, and a checkpoint holds it all the same.
cat >side.yaml <<'YAML'
layers:
  - {type: dense, name: first, units: 7}
  - {type: relu, name: top}
  - {type: dense, name: side, units: 5}
  - {type: dense, from: top, units: classes}
YAML
sed 's/^  - {type: dense, from.*/  - {type: batch_norm, name: norm}\n&/' side.yaml >norm.yaml
holds_all() { # FILE NAMES...
    "$weft" export run -o w.st -q >out 2>err || { flunk "export of $1"; return; }
    python3 - "$@" <<'PY' && pass || flunk "$1 is not whole in a checkpoint"
import json, struct, sys
data = open("w.st", "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
assert all(name in header for name in sys.argv[2:]), sorted(header)
PY
}
turn=0
while read -r ranks; do
    for model in side norm; do
        turn=$((turn + 1)) # each way with one of them in a short run, and each of them with every other way
        in_full || [ $((turn % 4)) = 1 ] || [ $((turn % 4)) = 0 ] || continue
        rm -rf run
        # shellcheck disable=SC2086
        "$weft" train -q $small --model $model.yaml $ranks --checkpoint run >out 2>err && [ ! -s err ] && pass ||
            flunk "$model.yaml $ranks"
        accepts "eval $model.yaml $ranks" "$weft" eval run
        # shellcheck disable=SC2086
        accepts "resume $model.yaml $ranks" "$weft" train -q $small --model $model.yaml $ranks --checkpoint run --resume --epochs 2
        holds_all "$model.yaml $ranks" side/weight side/bias $([ $model = norm ] && echo norm/gamma norm/mean)
    done
done <<'RANKS'

-n 2
-n 3 --zero 3
-n 2 --zero 1
-n 2 --mesh tensor=2
-n 2 --mesh pipeline=2 --microbatches 2
-n 6 --mesh pipeline=6
-n 2 --virtual-workers 4
-n 2 --exchange average:every=2,outer=nesterov
RANKS
# Said once, whatever the number of ranks, with the line.
"$weft" train $small --model side.yaml -n 2 >out 2>err
grep -q "^weft: side.yaml:4: no layer reads 'side'" err && [ "$(wc -l <err)" = 1 ] && pass || flunk "the warning of a layer that no layer reads"
"$weft" train $small --model norm.yaml >out 2>err
grep -q "^weft: norm.yaml:5: no layer reads 'norm'" err && [ "$(wc -l <err)" = 1 ] && pass || flunk "the warning of the last one"

# A run goes on with what it was begun with: the same layers, whatever the file is called and however it is
# written, and the same options where others would be another run.
rm -rf run
"$weft" train -q $small --model side.yaml --checkpoint run 2>err || flunk "a run to go on from"
again() { "$weft" train $small --checkpoint run --resume --epochs 2 "$@"; }
sed 's/units: 7/units: 8/' side.yaml >other.yaml
refuses 2 "other.yaml:2: units is '8', " again --model other.yaml
grep -q "/run/step-3/model.yaml has '7'" err && pass || flunk "what the checkpoint has"
sed 's/name: side, units: 5/name: side, units: 5, bias: false/' side.yaml >other.yaml
refuses 2 "other.yaml:4: bias is 'false', " again --model other.yaml
sed 's/from: top, units/from: first, units/' side.yaml >other.yaml
refuses 2 "other.yaml:5: from is 'first', " again --model other.yaml
sed 's/name: top/name: crown/; s/from: top/from: crown/' side.yaml >other.yaml
refuses 2 "other.yaml:3: name is 'crown', " again --model other.yaml
sed '/relu/d; s/from: top, //' side.yaml >other.yaml
refuses 2 "other.yaml:3: " again --model other.yaml
sed '$d' side.yaml >other.yaml
refuses 2 "other.yaml: has 3 layers, " again --model other.yaml
refuses 1 "nowhere.yaml: cannot open" again --model nowhere.yaml
grep -q "run/step-3/model.yaml is the one" err && pass || flunk "where the model is"
refuses 2 "was made with --model side.yaml, this run has mlp" again --model mlp
for option in "batch 10" "seed 2" "data glyphs:size=8,train=61,test=20" "dtype f64" "normalize none" "optimizer sgd"; do
    # shellcheck disable=SC2086
    refuses 2 "was made with --${option% *} " again --model side.yaml --$option
done
# The last word of "data" above; and options that are free.
{ echo "# the same, written otherwise"; sed 's/- {type: dense, name: first, units: 7}/- name: first\n    units: 7\n    type: dense/' side.yaml; } >same.yaml
cp -r run kept
accepts "the same layers" again --model same.yaml -q --lr 0.1 -n 2
rm -rf run && cp -r kept run
accepts "the checkpoint's own text" again --model run/latest/model.yaml -q
# The file may be edited while a run goes on: it was read at the start.
rm -rf run
cp side.yaml edited.yaml
background out err "$weft" train -q $small --model edited.yaml --checkpoint run --checkpoint-every 1 --epochs 300
appears run/latest
: >edited.yaml
wait $! && cmp -s run/latest/model.yaml side.yaml && pass || flunk "a model that was edited meanwhile"
rm -rf run
"$weft" train -q $small --model mlp --checkpoint run 2>err || flunk "a built-in model to go on from"
refuses 2 "was made with --model mlp, this run has side.yaml" again --model side.yaml
refuses 2 "was made with --model mlp, this run has vgg11" again --model vgg11

# A checkpoint is not the folder of a run: nothing is written to it, and nothing begins with fresh weights beside it.
rm -rf run renamed exported
"$weft" train -q $small --model side.yaml --checkpoint run 2>err || flunk "a run whose checkpoint is given"
cp -r run/step-3 renamed
"$weft" export run --folder exported -q 2>err || flunk "an exported model"
ls -A run/step-3 >before
for given in run/latest run/step-3/ renamed exported; do
    advice="$PWD/run"
    case $given in renamed) advice="step-N" ;; exported) advice="exported model" ;; esac
    for command in "train -q" "train -q --resume" "train -q -n 2 --exchange server --engine processes" \
        "train -q -n 2 --exchange server --engine processes --resume" "train -q --max-restarts 1 --resume" "simulate -n 2 --exchange server" \
        "coordinator --listen tcp://127.0.0.1:* --exchange server --resume"; do
        # shellcheck disable=SC2086
        refuses 2 "weft: ${given%/} is " timeout 300 "$weft" $command $small --model side.yaml --epochs 2 --checkpoint ${given%/}
        grep -qF "$advice" err && pass || flunk "$given: what is right: $command"
    done
done
ls -A run/step-3 | cmp - before >out 2>err && pass || flunk "a checkpoint that was given as the folder of a run"
[ -z "$(find renamed exported -name '.lock' -o -name 'step-*')" ] && pass || flunk "a renamed checkpoint or an exported model"

# A run that is at its end stays as it is: learners have met already, and do not meet again.
rm -rf run
outer="--model side.yaml -n 2 --exchange average:every=2,outer=nesterov,state=reset"
# shellcheck disable=SC2086
"$weft" train -q $small $outer --checkpoint run --steps 4 2>err || flunk "a run with an outer optimizer"
cp -r run kept4
# shellcheck disable=SC2086
accepts "nothing left to do" "$weft" train -q $small $outer --checkpoint run --steps 4 --resume
for file in parameters state learners exchange; do
    cmp run/latest/$file.safetensors kept4/latest/$file.safetensors >out 2>err && pass || flunk "$file of a run at its end"
done

# Before moments counted their steps they were as old as the run: what was saved then goes on to the same bits.
rm -rf run whole
adam="--model side.yaml -n 2 --exchange average:every=3"
# shellcheck disable=SC2086
"$weft" train -q $small $adam --checkpoint run --steps 4 2>err || flunk "a run to go on from as of old"
cp -r run whole
python3 - run/latest state learners <<'PY' && pass || flunk "no age of moments in a checkpoint"
import json, re, sys, zlib
folder, names = sys.argv[1], sys.argv[2:]
index = open(folder + "/index.json").read()
for name in names:
    path = f"{folder}/{name}.safetensors"
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    tensors, values, rest = json.loads(data[8:8 + size]), data[8 + size:], b""
    assert any("moments/age" in key for key in tensors), path
    for key in list(tensors):
        if "moments/age" in key:
            del tensors[key]
        elif key != "__metadata__":
            begin, end = tensors[key]["data_offsets"]
            tensors[key]["data_offsets"] = [len(rest), len(rest) + end - begin]
            rest += values[begin:end]
    head = json.dumps(tensors).encode()
    head += b" " * (-len(head) % 8)
    data = len(head).to_bytes(8, "little") + head + rest
    open(path, "wb").write(data)
    entry = re.compile(r'("%s.safetensors": \{\s*"bytes": )[0-9]+([^}]*"crc32": ")[0-9a-f]{8}' % name)
    assert entry.search(index), index
    index = entry.sub(lambda m: m[1] + str(len(data)) + m[2] + "%08x" % zlib.crc32(data), index)
index = index[:index.rindex(',\n "crc32"')] + "\n}"
open(folder + "/index.json", "w").write(index.replace('"format": 2', '"format": 1'))
PY
for folder in run whole; do
    # shellcheck disable=SC2086
    accepts "$folder goes on" "$weft" train -q $small $adam --checkpoint $folder --steps 8 --resume
done
for file in parameters learners; do
    cmp run/latest/$file.safetensors whole/latest/$file.safetensors >out 2>err && pass || flunk "$file of moments without an age"
done

# Epochs are counted, whoever did those before: as many learners have other steps in one.
endings=""
for epochs in 2:"-n 2 --exchange average:every=2" 3:"--without exchange,ranks" 5:"-n 3 --exchange average:every=2"; do
    # shellcheck disable=SC2086
    "$weft" train $small --model side.yaml -e ${epochs%%:*} ${epochs#*:} --checkpoint other --resume >out 2>err &&
        "$weft" inspect other | grep -qx "after step [0-9]*: ${epochs%%:*} epochs" && ! grep -q "stopped" err && pass ||
        { flunk "epochs after other learners: $epochs"; cat err; }
    endings="$endings $(readlink other/latest)"
done
[ "$endings" = " step-4 step-7 step-9" ] && pass || flunk "steps of epochs by 2, 1 and 3 learners:$endings"
# A learner that is a process saves its own residual alone. It counts as it did when the run resumes with as many learners.
alone="--model mlp --optimizer sgd --lr 1e-30 -n 2 --exchange server:policy=bsp --compress threshold:tau=1000000 --engine processes -t 1 --epochs 9"
while read -r folder options; do
    # shellcheck disable=SC2086
    accepts "$folder $options" "$weft" train -q $small $alone --checkpoint $folder $options
done <<'RUNS'
parts --steps 6
old --steps 6
parts --steps 7 --resume
once --steps 7
RUNS
# An older checkpoint does not have the number of learners.
python3 - old/latest/index.json <<'PY' && pass || flunk "no number of learners in a checkpoint"
import re, sys
index = open(sys.argv[1]).read()
index = index[:index.rindex(',\n "crc32"')] + "\n}"
index, found = re.subn(r',\n "learners": \d+', "", index)
assert found == 1, index
open(sys.argv[1], "w").write(index.replace('"format": 2', '"format": 1'))
PY
# shellcheck disable=SC2086
accepts "old goes on" "$weft" train -q $small $alone --checkpoint old --steps 7 --resume
for folder in parts old; do
    cmp $folder/step-7/exchange.safetensors once/step-7/exchange.safetensors >out 2>err && pass || flunk "the residual of a learner that resumed: $folder"
done
# A run that was finished has nothing to add to its metrics.
done="--model mlp -q --data glyphs:size=8,train=60,test=20 --batch 20 --epochs 2 -t 1 --checkpoint done --metrics done.jsonl"
# shellcheck disable=SC2086
"$weft" train $done && cp done.jsonl once.jsonl && "$weft" train $done --resume && cmp -s once.jsonl done.jsonl && pass ||
    flunk "metrics of a finished run: $(cut -c1-40 done.jsonl | tail -3)"
# A loss that is left out is the one that fits the target.
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 80; i++) print i % 7 "," i % 5 "," i % 7 * 2 - i % 5 }' >lossy.csv
printf 'loss: mse\nlayers:\n  - {type: dense, units: outputs}\n' >lossy.yaml
fit="-q --model lossy.yaml --data csv:lossy.csv,target=y --batch 16 -t 1 --checkpoint lossy"
# shellcheck disable=SC2086
"$weft" train $fit --epochs 1 && sed -i 1d lossy.yaml && accepts "a YAML without its loss" "$weft" train $fit --epochs 2 --resume
# Rows that were added or changed split a table anew: what was trained on would be tested. A run does not go on with them.
row() { awk -v n="$1" -v k="$2" 'BEGIN { for (i = 0; i < n; i++) print i % 7 + k "," i % 5 "," i % 7 * 2 - i % 5 }'; }
grown="-q --model mlp --data csv:grown.csv,target=y --batch 16 -t 1 --checkpoint grown"
{ echo a,b,y && row 256 0; } >grown.csv
# shellcheck disable=SC2086
accepts "a table" "$weft" train $grown --epochs 1
accepts "the same table" "$weft" eval grown
for path in ./grown.csv "$PWD/grown.csv"; do
    # shellcheck disable=SC2086
    accepts "the same table as $path" "$weft" train ${grown/grown.csv/$path} --epochs 1 --resume
done
# A column by its number is that of its name, and the rows tell whether it is.
# shellcheck disable=SC2086
accepts "the target by its number" "$weft" train ${grown/target=y/target=2} --epochs 1 --resume
# shellcheck disable=SC2086
refuses 2 "column 'b' is given as the target, but was a feature in training; the target was 'y'" "$weft" train ${grown/target=y/target=1} --epochs 1 --resume
# shellcheck disable=SC2086
refuses 2 "was made with --data csv:grown.csv,target=y, this run has csv:grown.csv,target=b" "$weft" train ${grown/target=y/target=b} --epochs 1 --resume
cp grown.csv whole.csv
{ cat whole.csv && echo 1,2,3; } >grown.csv
# shellcheck disable=SC2086
refuses 2 "data 'csv:grown.csv,target=y' have changed since" "$weft" train $grown --epochs 2 --resume
holds err 'step-[0-9]* was written: the (training|test) part has [0-9]+ samples, it had [0-9]+; a resumed run must have the same data'
for command in eval predict; do
    "$weft" $command grown >out 2>err
    [ $? = 0 ] && [ "$(grep -c "^weft: data 'csv:grown.csv,target=y' have changed since .*may have been trained on$" err)" -le 1 ] && pass || flunk "$command of a table with another row"
done
{ echo a,b,y && row 256 1; } >grown.csv
# shellcheck disable=SC2086
refuses 2 "was written: the training part has other samples; a resumed run" "$weft" train $grown --epochs 2 --resume
for command in eval predict; do
    "$weft" $command grown >out 2>err
    [ $? = 0 ] && grep -q "^weft: data 'csv:grown.csv,target=y' have changed since .*: the test part has other samples; samples of the test part may have been trained on$" err &&
        pass || flunk "$command of a table with other rows"
done
accepts "another table" "$weft" eval grown -d csv:grown.csv,target=y,test=1
# An older checkpoint does not know its data.
python3 - grown/latest/index.json <<'PY' && pass || flunk "no splits in a checkpoint"
import json, sys
index = json.load(open(sys.argv[1]))
assert [s["samples"] for s in index["data"].pop("splits")] != [0, 0]
del index["crc32"]
json.dump({**index, "format": 1}, open(sys.argv[1], "w"))
PY
# shellcheck disable=SC2086
accepts "an older checkpoint and its data" "$weft" train $grown --epochs 2 --resume
# A run that has no step left to take leaves a checkpoint between two averages as it is, and a run that has goes on from it.
between="--data glyphs:size=8,train=400,test=20 -m mlp -b 20 -t 1 --seed 3 -q"
average="-n 2 --exchange average:every=7"
# shellcheck disable=SC2086
accepts "averages" "$weft" train $between $average --epochs 4 --checkpoint means --checkpoint-every 13 --keep 100
mkdir few && cp -a means/step-26 few/
before=$(cksum few/step-26/*)
for way in "$average --epochs 1" "--epochs 1" "--steps 20" "-n 2 --exchange easgd --epochs 2"; do
    # shellcheck disable=SC2086
    accepts "no step left: $way" "$weft" train $between $way --checkpoint few --resume
    [ "$(cksum few/step-26/*)" = "$before" ] && pass || flunk "the checkpoint is another one: $way"
done
# A run that ends at that very step ends with the mean of its learners, and says so.
cp -a few ends
# shellcheck disable=SC2086
accepts "the end of a run" "$weft" train ${between% -q} $average --steps 26 --checkpoint ends --resume
holds out "the checkpoint has the end of the run now, with the mean of learners that differed: step 26 is done"
# shellcheck disable=SC2086
accepts "a second time" "$weft" train ${between% -q} $average --steps 26 --checkpoint ends --resume
holds out "nothing to do: step 26 is done"
# shellcheck disable=SC2086
accepts "averages go on" "$weft" train $between $average --epochs 4 --checkpoint few --resume
cmp -s means/latest/parameters.safetensors few/latest/parameters.safetensors && pass || flunk "averages that go on are others"
# shellcheck disable=SC2086
refuses 2 "few/step-70 is absent, and few is the folder of a run that has other checkpoints; give few" "$weft" train $between --checkpoint few/step-70 --resume
[ ! -e few/step-70 ] && pass || flunk "a run has begun in few/step-70"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
