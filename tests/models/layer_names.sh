#!/usr/bin/env bash
# Layers may be named like what training keeps for itself. They train, resume and are exported like
# those with other names, to the same bits: tests/models/layer_names.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"

cat >plain.yaml <<'YAML'
layers:
  - {type: conv, name: layer1, filters: 4, padding: 1}
  - {type: batch_norm, name: layer2}
  - {type: dropout, name: layer3, rate: 0.25}
  - {type: dense, name: layer4, units: 9}
  - {type: tanh, name: layer5}
  - {type: dense, name: layer6/weight, units: 7}
  - {type: dense, name: layer6, units: outputs}
YAML
# Other names for layers 1 to 6.
renamed() { # FILE NAMES...
    local file=$1 i=0 script=
    shift
    for name in "$@"; do
        i=$((i + 1))
        script+="s,layer$i\b,$name,;"
    done
    sed "$script" plain.yaml >"$file"
}
renamed first.yaml step keep moments m velocity lr
renamed second.yaml learning_rate 0 1/step moments/age keep w/m
renamed third.yaml outer gradient_sum state velocity 1 average

# Weights begin as their names and the seed say, so a run begins with plain names, and goes on from a checkpoint in
# which each tensor has been given its other name.
rename_checkpoint() { # FOLDER MODEL
    python3 - "$1" plain.yaml "$2" <<'PY'
import json, os, re, struct, sys, zlib
folder = sys.argv[1] + "/latest/"
old, new = (re.findall(r"name: ([^,}]*)", open(f).read()) for f in sys.argv[2:4])
names = dict(zip(old, new))
index = open(folder + "index.json").read()

def other(name, prefixed):
    first, rest = name.split("/", 1) if prefixed else ("", name)
    layers = sorted((k for k in names if rest.startswith(k + "/")), key=len)
    rest = names[layers[-1]] + rest[len(layers[-1]):] if layers else rest
    return first + "/" + rest if prefixed else rest

def write(name, data):
    global index
    open(folder + name, "wb").write(data)
    index = re.sub(r'("%s": {\s*"bytes": )\d+(,\s*"crc32": ")\w+' % re.escape(name),
                   lambda m: "%s%d%s%08x" % (m[1], len(data), m[2], zlib.crc32(data)), index)

for name in sorted(os.listdir(folder)):
    if not name.endswith(".safetensors"):
        continue
    data = open(folder + name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = {k if k == "__metadata__" else other(k, name[0] in "le"): v
              for k, v in json.loads(data[8:8 + size]).items()}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write(name, struct.pack("<Q", len(text)) + text + data[8 + size:])
write("model.yaml", open(sys.argv[3], "rb").read())
index = index.replace("plain.yaml", sys.argv[3])
body, tail = index.rsplit(',\n "crc32": "', 1)
open(folder + "index.json", "w").write('%s,\n "crc32": "%08x"\n}' % (body, zlib.crc32(body.encode())))
PY
}

# The tensors of a checkpoint in the order of the layers, without their names: two lists that are the same
# mean that what belongs together has the same bits.
bits() { # EXPORTED MODEL
    python3 - "$1" "$2" <<'PY'
import hashlib, json, re, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
names = re.findall(r"name: ([^,}]*)", open(sys.argv[2]).read())
header = {k: v for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__"}
for i, layer in enumerate(names):
    for leaf in ("weight", "bias", "gamma", "beta", "mean", "variance"):
        tensor = header.pop(layer + "/" + leaf, None)
        if tensor:
            begin, end = tensor["data_offsets"]
            print(i, leaf, tensor["shape"], hashlib.sha256(data[8 + size + begin:8 + size + end]).hexdigest())
assert not header, header
PY
}
small="--data glyphs:size=8,train=60,test=20 --batch 12 --seed 3 -t 1 -q"
while read -r ways; do
    rm -rf begun
    # shellcheck disable=SC2086
    accepts "plain.yaml $ways" "$weft" train $small --model plain.yaml $ways --checkpoint begun --epochs 1
    for model in plain first second third; do
        rm -rf run
        cp -a begun run
        [ $model = plain ] || rename_checkpoint run $model.yaml 2>err || flunk "names of $model.yaml"
        # shellcheck disable=SC2086
        accepts "$model.yaml $ways" "$weft" train $small --model $model.yaml $ways --checkpoint run --epochs 3 --resume
        accepts "eval $model.yaml $ways" "$weft" eval run
        accepts "export $model.yaml $ways" "$weft" export run -o $model.st -q
        bits $model.st $model.yaml >$model.bits 2>err || flunk "what $model.yaml exports $ways"
        if [ "$(wc -l <plain.bits)" = 12 ] && cmp -s plain.bits $model.bits; then pass; else
            flunk "$model.yaml comes to other bits: $ways"
        fi
    done
done <<'WAYS'

--optimizer sgd --momentum 0.9 --microbatches 2
-n 2 --zero 1
-n 2 --zero 2 --clip-norm 0.5
-n 3 --zero 3
-n 2 --virtual-workers 4 --zero 2
-n 2 --mesh pipeline=2 --microbatches 2
-n 2 --exchange average:every=2,state=keep
-n 2 --exchange average:every=2,state=average
-n 2 --exchange average:every=2,state=reset
-n 2 --exchange average:every=2,outer=nesterov
WAYS

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
