#!/usr/bin/env bash
# Models with recurrent layers train on series, go on from a checkpoint to the same numbers, and are evaluated:
# tests/models/recurrent_models.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"

python3 - <<'PY'
import math, random
from npy import write_npy
random.seed(3)
x, y = [], []
for i in range(120):  # a wave and noise; the target is the wave's next number
    phase, pace = random.uniform(0, 6), random.uniform(0.3, 0.9)
    for t in range(9):
        x += [math.sin(phase + pace * t), random.uniform(-1, 1)]
    y.append(math.sin(phase + pace * 9))
write_npy("x.npy", "f4", (120, 9, 2), x)
write_npy("y.npy", "f4", (120,), y)
PY
data=npy:x.npy,target=y.npy,layout=cw,test=0.2
for type in lstm gru; do
    cat >$type.yaml <<YAML
layers:
  - {type: $type, name: series, units: 12, layers: 2, bidirectional: true, last: true}
  - {type: dense, units: outputs}
YAML
    run=(--model $type.yaml --data $data --batch 12 --optimizer adam --lr 0.01 -q)
    accepts "train $type" "$weft" train "${run[@]}" --epochs 6 --checkpoint $type-whole --metrics $type.jsonl
    python3 - $type.jsonl <<'PY' && pass || flunk "the loss of $type does not fall"
import json, re, sys
losses = [json.loads(line).get("loss") for line in open(sys.argv[1])]
losses = [l for l in losses if l is not None]
sys.exit(not (len(losses) > 10 and sum(losses[-4:]) < 0.3 * sum(losses[:4])))
PY
    accepts "half of $type" "$weft" train "${run[@]}" --epochs 3 --checkpoint $type-half
    accepts "the rest of $type" "$weft" train "${run[@]}" --epochs 6 --resume --checkpoint $type-half
    accepts "eval $type" "$weft" eval $type-whole
    cp out whole
    accepts "eval the resumed $type" "$weft" eval $type-half
    cmp -s whole out && pass || flunk "$type that is resumed differs"
    accepts "inspect $type" "$weft" inspect $type-whole
    for name in weight recurrent_l1 bias_reverse weight_l1_reverse; do holds out "series/$name"; done
done
refuses 2 "needs samples [positions, width], such as those of an embedding; here they have 3 dimensions" \
    "$weft" train --model lstm.yaml --data glyphs:size=16,train=40 --batch 12 -q
sed 's/units: 12, //' lstm.yaml >wrong.yaml
refuses 2 "a lstm layer needs 'units'" "$weft" train --model wrong.yaml --data $data --batch 12 -q

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
