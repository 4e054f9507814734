#!/usr/bin/env bash
# What a checkpoint must hold, and what may go on from one: tests/resume.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/check.sh"
small="--data glyphs:size=8,train=60,test=20 --batch 20"

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
while read -r ranks; do
    for model in side norm; do
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
-n 2 --virtual-workers 4
-n 2 --exchange average:every=2,outer=nesterov
RANKS
# Said once, whatever the number of ranks, with the line.
"$weft" train $small --model side.yaml -n 2 >out 2>err
grep -q "^weft: side.yaml:4: nobody reads layer 'side'" err && [ "$(wc -l <err)" = 1 ] && pass || flunk "the warning of a layer nobody reads"
"$weft" train $small --model norm.yaml >out 2>err
grep -q "^weft: norm.yaml:5: nobody reads layer 'norm'" err && [ "$(wc -l <err)" = 1 ] && pass || flunk "the warning of the last one"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
