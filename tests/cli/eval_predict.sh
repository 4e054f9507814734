#!/usr/bin/env bash
# What is measured and predicted with a checkpoint, what is said of it, and what that may write over:
# tests/cli/eval_predict.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20"
printf 'layers:\n  - {type: dense, units: classes}\n' >own.yaml

# No output is a file of a checkpoint: of the one that is read, or of one beside it.
# shellcheck disable=SC2086
accepts train "$weft" train -q $small --model own.yaml --epochs 2 --checkpoint run
ln -s run/step-6/index.json link
cp -r run kept
for file in run/latest/index.json ./run/step-6/parameters.safetensors run/latest/state.safetensors run/step-6/model.yaml \
    run/step-3/index.json link; do
    [ -e "$file" ] || flunk "$file is not there"
    refuses 2 "output $file is a file of a checkpoint, which would be lost; give another" "$weft" predict run --json -o "$file"
    refuses 2 "output $file is a file of a checkpoint" "$weft" export run -o "$file"
    for option in metrics trace; do
        # shellcheck disable=SC2086
        refuses 2 "$option $file is a file of a checkpoint" "$weft" train -q $small --model own.yaml --epochs 3 --checkpoint run --resume --$option "$file"
    done
done
diff -r run kept >out && pass || flunk "a file of a checkpoint was written over"
accepts "export of a folder" "$weft" export run --folder ex -q
cp -r ex ex-kept
for file in ex/*; do
    refuses 2 "output $file is a file of an exported model, which would be lost; give another" "$weft" predict run --json -o "$file"
    refuses 2 "output $file is a file of an exported model" "$weft" export run -o "$file"
    refuses 2 "log $file is a file of an exported model" timeout 300 "$weft" serve run --port 0 --log "$file"
done
echo 'm secret' >own.tokens && chmod 600 own.tokens
refuses 2 "log own.tokens is a file that the server reads" timeout 300 "$weft" serve run --port 0 --tokens own.tokens --log own.tokens
refuses 2 "log run/latest/index.json is a file of a checkpoint" timeout 300 "$weft" serve run --port 0 --log run/latest/index.json
diff -r ex ex-kept >out && cmp run/latest/index.json kept/latest/index.json && pass || flunk "a file of an export was written over"
refuses 2 "--output and --folder are both given" "$weft" export run -o both.st -f both
[ ! -e both ] && [ ! -e both.st ] && pass || flunk "an export to a file and a folder"
# A folder in which files may be made but not listed takes them. Root gives up the right to list it all the same.
mkdir blind && chmod 300 blind
plainly=()
[ "$(id -u)" = 0 ] && setpriv --bounding-set=-dac_override,-dac_read_search true 2>/dev/null && plainly=(setpriv --bounding-set=-dac_override,-dac_read_search)
accepts "a folder that cannot be read" "${plainly[@]}" "$weft" predict run -o blind/said.csv
chmod 700 blind
[ -s blind/said.csv ] && pass || flunk "what is written to a folder that cannot be read"
accepts "a file beside the checkpoints" "$weft" predict run -o run/said.csv
accepts "the same again" "$weft" export run -q -o run/said.csv
mkdir plain
echo '{}' >plain/index.json
for name in p.json ./x/P.JSONL a.csv/p.ndjson p.tsv p.parquet; do
    refuses 2 "output '$name' ends with .${name##*.}, and CSV, without --json, is written; name it '${name%.*}.csv'" "$weft" predict run -o "$name"
    [ -e "$name" ] && flunk "$name was written" || pass
done
for name in p.csv p.XLSX; do
    refuses 2 "output '$name' ends with .${name##*.}, and JSON is written; name it '${name%.*}.jsonl'" "$weft" predict run --json -o "$name"
done
accepts "what has such a name elsewhere" "$weft" predict run --json -o plain/index.json

# A path that is empty is refused by the name of its option.
for command in "predict -c" "eval -d" "predict run -o" "export run -o" "train --metrics" "train --trace" "train --checkpoint" "train --model" \
    "inspect --data" "plan --mesh"; do
    option=$(case "$command" in *-c) echo checkpoint ;; *-d) echo data ;; *-o) echo output ;; *) echo "${command##*--}" ;; esac)
    # shellcheck disable=SC2086
    refuses 2 "option '$option' is empty; give" "$weft" $command ""
done
refuses 2 "option 'metrics' is empty; give FILE, or leave the option out" "$weft" train --metrics=
for command in eval predict export inspect train; do
    refuses 2 "an argument is empty" "$weft" $command ""
done
printf 'checkpoint: ""\n' >empty.yaml
refuses 2 "option 'checkpoint' is empty" "$weft" train empty.yaml

# The weights of training are found again as the label is, by name or place; predictions do not need them.
python3 - <<'PY'
import random
chance = random.Random(4)
rows = [(chance.gauss(0, 1), chance.gauss(0, 1), chance.choice([0.5, 1, 2])) for _ in range(60)]
def table(name, names, *columns):
    with open(name + ".csv", "w") as f:
        f.write(",".join(names) + "\n" if names else "")
        f.writelines(",".join(str(c(r)) for c in columns) + "\n" for r in rows)
a, b, w = (lambda r: f"{r[0]:.4f}"), (lambda r: f"{r[1]:.4f}"), (lambda r: r[2])
y, c = (lambda r: f"{r[0] - 2 * r[1] + r[2]:.4f}"), (lambda r: "up" if r[0] > r[1] else "down")
for kind, what in ("number", y), ("class", c):
    table(kind, "abwy", a, b, w, what)
    table(kind + "_turned", "wyba", w, what, b, a)
    table(kind + "_light", "aby", a, b, what)
    table(kind + "_bare", "", a, b, w, what)
    table(kind + "_zero", "abwy", a, b, lambda r: 0, what)
    table(kind + "_rubbish", "abwy", a, b, lambda r: "none", what)
    table(kind + "_clash", "abwyv", a, b, w, what, w)
    table(kind + "_missing", "awy", a, w, what)
table("new", "awb", a, lambda r: -1, b)
PY
"$weft" train -q --model mlp --data csv:number.csv,target=y,weight=w --batch 12 --steps 1 --checkpoint weighed
"$weft" eval weighed -d csv:number_bare.csv,test=1 >out 2>err
holds err '^weft: number_bare.csv has no header and the table of the training had one, so columns are taken by their places and not by their names$'
expected='so columns are taken by their places and not by their names$' # of tables of which one has a header
for kind in number class; do
    key=$([ $kind = number ] && echo target || echo label)
    for names in "$kind $key=y,weight=w" "${kind}_bare $key=3,weight=2"; do
        table=${names% *} keys=${names#* }
        rm -rf weighed
        accepts "train on $table" "$weft" train -q --model mlp --data "csv:$table.csv,$keys" --batch 12 --epochs 3 --checkpoint weighed
        accepts "measure $table as it was" "$weft" eval weighed -d "csv:$table.csv,$keys,test=1"
        cp out want
        accepts "predict $table as it was" "$weft" predict weighed -d "csv:$table.csv,$keys,test=1" -o said.csv
        accepts "measure ${kind}_light" "$weft" eval weighed -d csv:${kind}_light.csv,test=1
        cmp -s want out && flunk "weights count for nothing in $table" || pass
        for other in $kind ${kind}_turned ${kind}_bare; do
            # Without names columns count as they stand.
            [ $table = $kind ] || [ $other != ${kind}_turned ] || continue
            accepts "weights of $other, trained on $table" "$weft" eval weighed -d csv:$other.csv,test=1
            cmp want out && pass || flunk "$other is measured otherwise than $table was"
            accepts "predict $other, trained on $table" "$weft" predict weighed -d csv:$other.csv,test=1
            cmp said.csv out && pass || flunk "$other is predicted otherwise than $table"
        done
        for other in ${kind}_zero.csv ${kind}_rubbish.csv ${kind}_light.csv ${kind}_zero.csv,weight=2; do
            accepts "predict $other, trained on $table" "$weft" predict weighed -d csv:$other,test=1
            cmp said.csv out && pass || flunk "$other is predicted otherwise than $table"
        done
        refuses 1 "the weight, holds 'none'" "$weft" eval weighed -d csv:${kind}_rubbish.csv,test=1
        refuses 2 "all weights of the test part are 0" "$weft" eval weighed -d csv:${kind}_zero.csv,test=1
        [ $table = $kind ] || continue
        accepts "predict without $key" "$weft" predict weighed -d csv:new.csv
        [ "$(wc -l <out)" = 61 ] && pass || flunk "rows without a $key"
        refuses 2 "column 'w' was the weight in training; give weight=w, or leave it out" \
            "$weft" eval weighed -d csv:${kind}_clash.csv,weight=v,test=1
        "$weft" eval weighed -d csv:${kind}_clash.csv,test=1 >out 2>err && grep -q "the column 'v', .* is ignored" err && pass ||
            flunk "a column that training had not"
        refuses 2 "has no column 'b', which the model was trained with" "$weft" eval weighed -d csv:${kind}_missing.csv,test=1
        grep -q "'w'" err && flunk "the weight is no column too many" || pass
        refuses 2 "column 'w' is given as the weight, and as the label or target" "$weft" eval weighed -d csv:$kind.csv,$key=w,weight=w
    done
done

# Arrays: predictions need no weights; where the channels lie is hinted at.
python3 - <<'PY'
import math
from npy import write_npy
def npy(name, shape, number):
    write_npy(name, "f4", shape, [number(i) for i in range(math.prod(shape))])
npy("series.npy", (30, 2, 12), lambda i: i * 7 % 13)
npy("turned.npy", (30, 12, 2), lambda i: i * 7 % 13)
npy("short.npy", (30, 2, 11), lambda i: i * 7 % 13)
npy("kinds.npy", (30,), lambda i: i % 3)
npy("none.npy", (30,), lambda i: 0)
PY
accepts "train on series" "$weft" train -q --model own.yaml --data npy:series.npy,kinds.npy,layout=cw --batch 6 --checkpoint series
accepts "predict series" "$weft" predict series -d npy:series.npy,layout=cw
cp out want
accepts "predict without weight" "$weft" predict series -d npy:series.npy,weight=none.npy,layout=cw
cmp want out && pass || flunk "weights change predictions"
refuses 2 "all weights of the test part are 0" "$weft" eval series -d npy:series.npy,kinds.npy,weight=none.npy,layout=cw
refuses 1 "short.npy: weights must be numbers in one dimension" "$weft" predict series -d npy:series.npy,weight=short.npy,layout=cw
refuses 2 "have samples of shape [1, 2, 12], the training data had [2, 12]; give layout=cw" "$weft" predict series -d npy:series.npy,layout=hw
accepts "predict with the layout of the training" "$weft" predict series -d npy:series.npy
cmp want out && pass || flunk "the layout of the training is not held"
refuses 2 "have samples of shape [1, 12, 2], the training data had [2, 12]; give layout=wc" "$weft" predict series -d npy:turned.npy
refuses 2 "samples of shape" "$weft" predict series -d npy:short.npy
grep -q layout err && flunk "a layout is hinted at that does not fit" || pass

# Figures do not depend on the scale of weights, and what is too small to be squared is refused.
python3 - <<'PY'
import random
chance = random.Random(5)
rows = [(chance.gauss(0, 1), chance.choice([1, 2, 4]), chance.gauss(3, 2)) for _ in range(40)]
for name, scale in ("one", "1"), ("low", "1e-170"), ("high", "1e155"), ("highest", "1e306"):
    with open(f"scale_{name}.csv", "w") as f:
        f.write("x,w,y\n" + "".join(f"{x:.6f},{w * float(scale):.17g},{y:.6f}\n" for x, w, y in rows))
for name, x, y in ("target", "1", "1e-200"), ("column", "1e-170", "1"), ("edge", "1", "1e-150"):
    with open(f"tiny_{name}.csv", "w") as f:
        f.write("x,y\n" + "".join(f"{i * 7 % 40 * float(x):.17g},{(i + 1) * float(y):.17g}\n" for i in range(40)))
with open("same.csv", "w") as f:
    f.write("x,w,y\n" + "".join(f"{i},1,0.1\n" for i in range(40)))
PY
accepts "train with weights" "$weft" train -q --model mlp --data csv:scale_one.csv,target=y,weight=w --batch 8 --epochs 4 --checkpoint scale
accepts "figures" "$weft" eval scale -d csv:scale_one.csv,test=1
holds out ' R2 -?[0-9]'
cp out want
for name in low high; do
    accepts "weights of another scale" "$weft" eval scale -d csv:scale_$name.csv,test=1
    cmp want out && pass || flunk "figures by weights that are $name"
done
for name in high highest; do # and neither do the means and deviations of a training
    accepts "train with weights of another scale" "$weft" train -q --model mlp --data csv:scale_$name.csv,target=y,weight=w --batch 8 --epochs 4 --checkpoint scale_$name
    "$weft" predict scale -d csv:scale_one.csv,test=1 >one.csv && "$weft" predict scale_$name -d csv:scale_one.csv,test=1 >other.csv
    python3 - <<'PY' && pass || flunk "a training with weights that are $name"
one, other = ([[float(x) for x in line.split(",")] for line in list(open(name))[1:]] for name in ("one.csv", "other.csv"))
assert len(one) == len(other) == 40
assert all(abs(a - b) < 1e-4 for x, y in zip(one, other) for a, b in zip(x, y))
PY
done
accepts "targets that are alike" "$weft" eval scale -d csv:same.csv,test=1
holds out ' R2 undefined \(the targets are all alike\), MAE [0-9.]+, RMSE [0-9.]+$'
refuses 2 "tiny_target.csv: target 0 (y): its numbers are too small to be squared; multiply them by a power of ten" \
    "$weft" train -q --model mlp --data csv:tiny_target.csv,target=y --batch 8
refuses 2 "tiny_column.csv: feature 0 (x): its numbers are too small to be squared" "$weft" train -q --model mlp --data csv:tiny_column.csv,target=y --batch 8
accepts "small numbers" "$weft" train -q --model mlp --data csv:tiny_edge.csv,target=y --batch 8 --epochs 60 --lr 0.01 --checkpoint tiny
accepts "their figures" "$weft" eval tiny -d csv:tiny_edge.csv,test=1
holds out ' R2 -?0\.[0-9]+, MAE [0-9.]+e-1[45][0-9],'

# Parameters that have diverged: figures that are no numbers say so, and predictions have one form for them; both are failures.
for kind in number class; do
    key=$([ $kind = number ] && echo target || echo label)
    for steps in $(seq 2 24); do
        rm -rf wild
        "$weft" train --model mlp --data csv:$kind.csv,$key=y,weight=w --optimizer sgd --lr 1e6 --batch 12 --steps "$steps" --checkpoint wild >out 2>err ||
            break
        grep -q 'test loss not a number (the parameters have diverged)' out && break
    done
    holds out 'test loss not a number \(the parameters have diverged\)'
    for json in "" --json; do
        # shellcheck disable=SC2086
        refuses 1 "the predictions for 12 of 12 samples are not finite (the first one: sample 2)" "$weft" eval wild $json
        grep -qE 'accuracy|R2|loss"' out && flunk "figures of $kind that has diverged" || pass
    done
    refuses 1 "the predictions for 12 of 12 samples are not finite" "$weft" predict wild
    [ "$(sed 1d out | grep -cE ',(nan|-?inf)$')" = 12 ] && pass || flunk "what has diverged as CSV"
    refuses 1 "the predictions for 12 of 12 samples are not finite" "$weft" predict wild --json
    [ "$(grep -cE '(\[null\]|\{"down":null,"up":null\})\}$' out)" = 12 ] && pass || flunk "what has diverged as JSON"
done

# The confusion matrix counts samples.
accepts "a matrix" "$weft" eval weighed -d csv:class.csv,test=1 --confusion
holds out '^confusion in samples \(rows: true class, columns: predicted\)$'
awk '/^confusion/ { n = NR } n && NR > n + 1 { for (i = 2; i <= NF; i++) sum += $i } END { exit sum != 60 }' out && pass || flunk "what the matrix counts"
{ head -n 1 class.csv; yes "$(sed -n 2p class.csv)" | head -n 100000; } >many.csv
accepts "a matrix of many samples" "$weft" eval weighed -d csv:many.csv,test=1 --confusion -t 1
awk '/^confusion/ { n = NR } n && NR == n + 1 { classes = NF } n && NR > n + 1 { for (i = 2; i <= NF; i++) sum += $i; wrong += NF != classes + 1 }
    END { exit sum != 100000 || wrong }' out && pass || flunk "columns of the matrix run together"
accepts "its help" "$weft" help eval
holds out 'confusion matrix counts samples'

# Classes of files without names are numbers, and names of other files that are these numbers are the same classes.
python3 - <<'PY'
from npy import write_npy
def both(name, labels, as_name=str):
    rows = [(float(c % 4), float(c // 4) + i % 3 / 8) for i, c in enumerate(labels)]
    write_npy(name + "_x.npy", "f4", (len(rows), 2), [v for r in rows for v in r])
    write_npy(name + "_y.npy", "f4", (len(rows),), labels)
    with open(name + ".csv", "w") as f:
        f.write("a,b,kind\n" + "".join(f"{a},{b},{as_name(c)}\n" for (a, b), c in zip(rows, labels)))
both("ten", [i % 10 for i in range(200)])
both("few", [3, 7, 7] * 8)
both("tens", [10, 20] * 20)
both("words", [0, 1] * 20, lambda c: "no" if c else "yes")
both("eleven", [11, 3] * 8)
both("beyond", [20, 21] * 8)
PY
accepts "train on numbers" "$weft" train -q --model own.yaml --data npy:ten_x.npy,ten_y.npy --normalize standard --batch 8 --lr 0.1 --epochs 20 --checkpoint numbers
accepts "train on names" "$weft" train -q --model own.yaml --data csv:tens.csv --batch 8 --epochs 4 --checkpoint named
while read -r run table; do
    accepts "measure $table, $run" "$weft" eval $run -d csv:$table.csv,test=1 --json
    cp out want
    accepts "measure $table as arrays, $run" "$weft" eval $run -d npy:${table}_x.npy,${table}_y.npy,test=1 --json
    cmp want out && pass || flunk "classes of $table with $run"
done <<'CASES'
numbers ten
numbers few
named tens
CASES
refuses 2 "label 'no' is not among the 10 classes the model was trained on" "$weft" eval numbers -d csv:words.csv,test=1
refuses 2 "label '11' is not among the 10 classes the model was trained on" "$weft" eval numbers -d csv:eleven.csv,test=1
refuses 2 "words_y.npy: number 0 of sample 0 is 0, not among the 2 classes the model was trained on" \
    "$weft" eval named -d npy:words_x.npy,words_y.npy,test=1
refuses 2 "beyond_y.npy: number 0 of sample 1 is 21, not among the 2 classes the model was trained on" \
    "$weft" eval named -d npy:beyond_x.npy,beyond_y.npy,test=1
accepts "predict the samples of other classes" "$weft" predict named -d npy:words_x.npy

# What a description of a model says can be computed with, or it is refused. One of an older version has no checksum.
"$weft" export -q named -f said || flunk "an exported model"
cp said/model.json model.json
describe() { # CHANGE OF d, THE DATA STATISTICS
    python3 - "$1" <<'PY'
import json, sys
about = json.load(open("model.json"))
about.pop("crc32", None)
d = about["data"]
exec(sys.argv[1])
json.dump(about, open("said/model.json", "w"))
PY
}
describe 'pass'
accepts "an older description" "$weft" eval said -d csv:tens.csv,test=1
while IFS=';' read -r words change; do
    describe "$change"
    refuses 1 "said/model.json: damaged checkpoint: $words" "$weft" eval said -d csv:tens.csv,test=1
done <<'CASES'
a mean is not a number;d["mean"][1] = None
a mean is not a number;d["mean"][0] = "0.5"
a deviation is not a number above 0;d["deviation"][0] = 0
a deviation is not a number above 0;d["deviation"][1] = -1
a deviation is not a number above 0;d["deviation"][1] = "x"
the shape of a sample is incomplete;d["shape"] = [1] * 1000000
the shape of a sample has a dimension below 1, or is too large;d["shape"] = [-1, -2]
the shape of a sample has a dimension below 1, or is too large;d["shape"] = [4294967296, 4294967296, 2]
'label_column' is -2147483648, must be from 0 to 2147483647;d["label_column"] = -2147483648
CASES

# Of the training data the test part is taken, wherever they lie; of another file all, unless a part is asked for. Each row has its
# number in the file and its identifier.
python3 - <<'PY'
import random
for name, rows, seed in ("old", 90, 1), ("new", 70, 2):
    chance = random.Random(seed)
    with open(f"parts_{name}.csv", "w") as f:
        f.write("key,a,b,y\n")
        for i in range(rows):
            a, b = chance.gauss(0, 1), chance.gauss(0, 1)
            f.write(f'"{name} ""{i * 7 % rows}""",{a:.4f},{b:.4f},{"no" if a > b else "yes"}\n')
PY
rows_of() { # FILE: what predict has printed of a row agrees with that row of the file
    python3 - "$1" <<'PY'
import csv, json, sys
file = list(csv.DictReader(open(sys.argv[1])))
text = open("out").read()
said = [json.loads(l) for l in text.splitlines()] if text.startswith("{") else list(csv.DictReader(text.splitlines()))
names = sorted({r["y"] for r in file})
rows = [int(r["sample"]) for r in said]
assert rows == sorted(set(rows)), "rows are not in order"
for r in said:
    label = names[r["label"]] if isinstance(r["label"], int) else r["label"]
    assert (r["id"], label) == (file[int(r["sample"])]["key"], file[int(r["sample"])]["y"]), r
print(len(rows))
PY
}
accepts "train on rows with identifiers" "$weft" train -q --model own.yaml --data csv:parts_old.csv,label=y,id=key,test=0.3 --batch 9 --checkpoint parts
cp parts_old.csv parts_copy.csv
while read -r count part words; do
    # shellcheck disable=SC2086
    "$weft" eval parts $words >out 2>err && pass || flunk "measure $part, $words"
    holds out "^$part: $count samples?,"
    for form in "" --json; do
        # shellcheck disable=SC2086
        "$weft" predict parts $words $form >out 2>err && pass || flunk "predict $part, $words"
        file=$(echo "$words" | grep -o 'parts_[a-z]*.csv' || echo parts_old.csv)
        [ "$(rows_of "$file" 2>why)" = "$count" ] && pass || flunk "rows of $part, $words: $(tail -n 1 why)"
    done
done <<'CASES'
27 test
27 test --split test
63 train --split train
90 all --split all
27 test -d csv:parts_old.csv,label=y,id=key,test=0.3
27 test -d csv:parts_old.csv
27 test -d csv:parts_copy.csv
90 all -d csv:parts_copy.csv --split all
70 all -d csv:parts_new.csv
14 test -d csv:parts_new.csv,test=0.2
14 test -d csv:parts_new.csv --split test
56 train -d csv:parts_new.csv --split train
70 test -d csv:parts_new.csv,test=1
70 all -d csv:parts_new.csv --split all
CASES
"$weft" eval parts -d csv:parts_copy.csv >out 2>err
holds err "the test part of data .*parts_copy.csv' has as many samples as that of .*parts/step-7, and the few that were compared are the same: it is taken; --split all takes"
"$weft" export parts -q --folder parts_out || flunk "an exported model of a table"
"$weft" eval parts_out -d csv:parts_copy.csv >out 2>err # an export knows the samples, though not the file
holds out '^test: 27 samples'
holds err "has as many samples as that of parts_out, and the few that were compared are the same: it is taken"
"$weft" eval parts_out -d csv:parts_new.csv >out 2>err
holds out '^all: 70 samples'
# A run without a test part shows nothing of other files: all of them is taken.
python3 - <<'PY'
from npy import write_npy
for name, rows in ("old", 90), ("copy", 90), ("new", 70):
    write_npy(f"parts_{name}_x.npy", "f4", (rows, 2), [i * i % 71 / 9 for i in range(2 * rows)])
    write_npy(f"parts_{name}_y.npy", "i4", (rows,), [i % 2 for i in range(rows)])
PY
expected="^weft: data 'csv:parts_copy.csv.* have rows on which .* was trained, about 90 of its 90, so"
for form in 'csv:parts_@.csv,label=y,id=key' npy:parts_@_x.npy,parts_@_y.npy; do
    accepts "train on all samples" "$weft" train -q --model own.yaml --data "${form//@/old},test=0" --batch 9 --checkpoint whole
    "$weft" export whole -q --folder whole_out || flunk "an export of a run without a test part"
    for file in copy new; do
        for from in whole whole_out; do
            accepts "a run without a test part, $file" "$weft" eval $from -d "${form//@/$file}"
            holds out "^all: $(($(wc -l <parts_$file.csv) - 1)) samples"
            accepts "a run without a test part, $file" "$weft" predict $from -d "${form//@/$file}"
            [ "$(wc -l <out)" = "$(wc -l <parts_$file.csv)" ] && pass || flunk "predictions of all samples of $file, by $from"
        done
    done
    rm -r whole whole_out
done
expected=
accepts "the data of a run elsewhere" env -C plain "$weft" eval ../parts
holds out '^test: 27 samples'
refuses 2 "split is all, and data 'glyphs:" "$weft" eval run --split all

# How bytes of a file are read is held by the checkpoint.
python3 - <<'PY'
import struct
from npy import write_npy
tokens = [i * i % 70001 for i in range(600)]
open("long.bin", "wb").write(struct.pack("<600I", *tokens))
write_npy("long.npy", "u4", (600,), tokens)
write_npy("real.npy", "f4", (600,), tokens)
PY
printf 'layers:\n  - {type: embedding, units: 2}\n  - {type: linear, units: outputs}\n' >tokens.yaml
accepts "train on long tokens" "$weft" train -q --model tokens.yaml --data tokens:long.bin,type=uint32,values=70002,context=9 --batch 8 --steps 1 --checkpoint long -t 1
accepts "measure them" "$weft" eval long --split all -t 1
cp out want
for data in tokens:long.bin tokens:long.npy tokens:long.npy,type=uint32; do
    accepts "measure $data" "$weft" eval long -d $data --split all -t 1
    cmp want out && pass || flunk "$data is read otherwise"
done
refuses 1 "long.npy: type is 'uint16', and its NumPy header says uint32" "$weft" eval long -d tokens:long.npy,type=uint16
refuses 1 "real.npy: is a NumPy array of other numbers than uint16 or uint32" "$weft" eval long -d tokens:real.npy
python3 - <<'PY'
from npy import write_npy
write_npy("cube.npy", "f4", (20, 3, 3, 3, 3), [i * 7 % 13 for i in range(20 * 81)])
write_npy("cube_y.npy", "f4", (20,), [i % 2 for i in range(20)])
PY
for layout in dhwc cdhw; do
    rm -rf cube
    accepts "train on volumes" "$weft" train -q --model own.yaml --data npy:cube.npy,cube_y.npy,layout=$layout --batch 8 --checkpoint cube
    accepts "predict them" "$weft" predict cube -d npy:cube.npy,layout=$layout
    cp out want
    accepts "predict them as trained" "$weft" predict cube -d npy:cube.npy
    cmp want out && pass || flunk "layout=$layout is not held"
done

# The memory of an evaluation grows with the classes, not with their square; most of these do not occur, which is said.
cat >many.py <<'PY'
import resource, subprocess, sys
from npy import write_npy
write_npy("wide_x.npy", "f4", (30, 2), [i * 7 % 13 for i in range(60)])
write_npy("wide_y.npy", "u2", (30,), [(0, 1, 12000)[i % 3] for i in range(30)])
for words in ["train --model own.yaml --data npy:wide_x.npy,wide_y.npy --batch 6 --epochs 1 -t 1 --checkpoint wide", "eval wide --json -t 1 --batch 6", "predict wide -t 1 --batch 6"]:
    ran = subprocess.run([sys.argv[1], *words.split()], capture_output=True, text=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(words, ran.returncode, ran.stderr, f"{most:.0f} MiB")
    if words.startswith("train"):
        assert "3 of the 12001 classes occur in the training part" in ran.stderr
    assert ran.returncode == 0 and most < 1000
    if words.startswith("eval"):
        assert '"confusion":null' in ran.stdout, ran.stdout
PY
python3 many.py "$weft" >out 2>err && pass || flunk "many classes: $(tail -n 1 err)"
refuses 2 "confusion counts at most 1024 classes, and" "$weft" eval wide --confusion

# Numbers that are not finite, or are not after normalisation, are a fault of the data.
python3 - <<'PY'
import math, os, struct
from npy import write_npy
def idx(name, kind, shape, numbers):
    code = {"B": 0x08, "f": 0x0D, "d": 0x0E}[kind]
    with open(name, "wb") as f:
        f.write(bytes([0, 0, code, len(shape)]) + struct.pack(">%dI" % len(shape), *shape) + struct.pack(">%d%s" % (len(numbers), kind), *numbers))
for name, kind, bad in ("nan", "f", math.nan), ("inf", "d", math.inf), ("big", "d", 1e300), ("good", "f", 1):
    os.mkdir(name)
    for part in "train", "t10k":
        idx(f"{name}/{part}-images-idx3-ubyte", kind, (20, 2, 2), [bad if i == 21 and part == "t10k" else i % 5 for i in range(80)])
        idx(f"{name}/{part}-labels-idx1-ubyte", "B", (20,), [i % 2 for i in range(20)])
for name, a, y in ("usual", 3, 4), ("far", 1e300, 4), ("high", 3, 1e300):
    with open(f"range_{name}.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{a if i == 7 else i % 5},{i % 3},{y if i == 7 else i % 4}\n" for i in range(40)))
write_npy("nan_y.npy", "f4", (30,), [math.nan if i % 2 else 0 for i in range(30)])
PY
train_on() { "$weft" train -q --model mlp --batch 4 --steps 2 -t 1 --data "$@"; }
for name in nan inf; do
    refuses 1 "$name: the test part, sample 5: element 1 is $name, and not a finite number" train_on idx:$name
done
refuses 1 "big: the test part, sample 5: element 1 is 1e+300, and not a finite number in single precision after normalisation" train_on idx:big
accepts "images of floats" train_on idx:good
refuses 1 "range_far.csv: row 7: feature 0 (a) is 1e+300, and not a finite number in single precision" train_on csv:range_far.csv,label=y --normalize none
refuses 1 "range_high.csv: row 7: target 0 (y) is 1e+300, and not a finite number in single precision" train_on csv:range_high.csv,target=y --normalize none
accepts "a usual range" train_on csv:range_usual.csv,target=y --checkpoint range
refuses 1 "range_far.csv: row 7: feature 0 (a) is 1e+300, and" "$weft" eval range -d csv:range_far.csv,test=1
refuses 1 "range_high.csv: row 7: target 0 (y) is 1e+300, and" "$weft" eval range -d csv:range_high.csv,test=1
refuses 1 "nan_y.npy: label 1 is nan, must be a whole number from 0 to 65535" train_on npy:wide_x.npy,nan_y.npy

# Predictions need no labels: a column without any is as good as none, and one with some is refused.
printf 'a,b,y\n1,2,\n3,4,\n' >vacant_1.csv
printf 'a,b\n1,2\n3,4\n' >vacant_2.csv
printf 'a,b,y\n1,2,\n3,4,4\n' >vacant_3.csv
printf 'a,b,y\n1,2,4\n3,4,\n' >vacant_4.csv
accepts "a column of labels without any" "$weft" predict range -d csv:vacant_1.csv
cp out want
accepts "no column of labels" "$weft" predict range -d csv:vacant_2.csv
cmp out want && pass || flunk "predictions by a column of empty labels"
refuses 1 "vacant_3.csv:3: column 2 (y): the label is '4', and empty in the rows before" "$weft" predict range -d csv:vacant_3.csv
refuses 1 "vacant_4.csv:3: column 2 (y), the target, is empty" "$weft" predict range -d csv:vacant_4.csv
refuses 1 "vacant_1.csv:2: column 2 (y), the target, is empty" "$weft" eval range -d csv:vacant_1.csv

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
