#!/usr/bin/env bash
# Several arrays as inputs, sequences of different lengths, and the model transformer: tests/data/several_inputs.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
python3 - <<'PYTHON'
import random
from npy import write_npy

random.seed(4)
N, T = 60, 6


lengths = [1 + random.randrange(T) for _ in range(N - 1)] + [T]
label = [i % 2 for i in range(N)]
# The class is the sign of the mean of the positions that count; those that do not are far off.
x = [(2 * label[i] - 1) * 0.7 + random.gauss(0, 0.4) if t < lengths[i] else random.choice((-50.0, 50.0))
     for i in range(N) for t in range(T) for _ in range(2)]
write_npy("x.npy", "f4", (N, T, 2), x)
write_npy("b.npy", "f8", (N, T, 2), [random.gauss(0, 1) for _ in x])
write_npy("image.npy", "f4", (N, 1, 3, 3), [random.gauss(0, 1) for _ in range(9 * N)])
write_npy("lengths.npy", "i8", (N,), lengths)
write_npy("long.npy", "i8", (N,), [n + 3 for n in lengths])
write_npy("brief.npy", "i8", (N,), [min(n, 3) for n in lengths])
write_npy("label.npy", "i8", (N,), label)
write_npy("column.npy", "i8", (N, 1), label)
write_npy("short.npy", "i8", (N - 1,), label[:-1])
write_npy("tokens.npy", "u2", (N, T), [random.randrange(9) for _ in range(N * T)])
write_npy("negative.npy", "i8", (N, T), [-1 if i == 2 * T + 3 else 1 for i in range(N * T)])
write_npy("fewer.npy", "u2", (N, T), [random.randrange(5) for _ in range(N * T)])
write_npy("more.npy", "u2", (N, T), [12 if i == 9 else 1 for i in range(N * T)])
write_npy("tags.npy", "i8", (N, T), [i % 3 for i in range(N * T)])
write_npy("weight.npy", "f8", (N, T), [float(t < lengths[i]) for i in range(N) for t in range(T)])
write_npy("numbers.npy", "f8", (N,), [random.gauss(0, 1) for _ in range(N)])
far = [v if (i // 2) % T < lengths[i // (2 * T)] else 7.0 for i, v in enumerate(x)]
write_npy("far.npy", "f4", (N, T, 2), far)
with open("rows.csv", "w") as out:
    out.write("a,b,c,d,class\n" + "".join(",".join(f"{random.gauss(0, 1):.4f}" for _ in range(4)) + f",{i % 2}\n" for i in range(N)))
PYTHON
printf 'layers:
  - {type: lstm, name: left, from: a, units: 6, last: true, lengths: n}
  - {type: gru, name: right, from: b, units: 4, bidirectional: true, last: true, lengths: n}
  - {type: concat, name: both, from: "left, right"}
  - {type: dense, units: outputs}\n' >two.yaml
printf 'layers:
  - {type: linear, units: 8, name: wide}
  - {type: attention, heads: 2, lengths: lengths}
  - {type: sequence_mean, lengths: lengths}
  - {type: dense, units: outputs}\n' >mean.yaml
same="--device reference --dtype f64 -t 1 --steps 6 --lr 0.01 --batch 12"
series="--data npy:x=x.npy,lengths=lengths.npy,label=label.npy $same"
small="transformer:layers=1,heads=2,width=8"
# The same losses on every mesh, to rounding.
# shellcheck disable=SC2086
alike() { # OPTIONS -- MORE...
    local options=$1
    shift
    "$weft" train $options "$@" >out 2>err && grep 'test loss' out | cmp -s - one && pass || flunk "$options $*: $(cat one out err)"
}
for options in \
    "--model $small $series" "--model mean.yaml $series" \
    "--model two.yaml --data npy:a=x.npy,b=b.npy,n=lengths.npy,label=column.npy $same" \
    "--model twin-lstm:units=5 --data npy:b=b.npy,a=x.npy,b_lengths=lengths.npy,label=label.npy $same" \
    "--model $small --data npy:words=tokens.npy,label=tags.npy,weight=weight.npy,lengths=lengths.npy $same" \
    "--model $small --data npy:lengths=lengths.npy,x=x.npy,label=label.npy $same" \
    "--model $small --data csv:rows.csv $same"; do
    # shellcheck disable=SC2086
    "$weft" train $options >out 2>err && grep 'test loss' out >one && pass || flunk "$options: $(cat err)"
    alike "$options" -n 2 --mesh data=2
    alike "$options" -n 2 --mesh tensor=2
    alike "$options" -n 2 --mesh pipeline=2 --microbatches 2
    alike "$options" -n 3 --mesh data=3 --zero 3
    alike "$options" -n 4 --mesh tensor=2,data=2
    case $options in
    *twin-lstm* | *two.yaml*) refuses 2 "mesh domain=2 would split the" "$weft" train $options -n 2 --mesh domain=2 ;;
    *) alike "$options" -n 2 --mesh domain=2 ;;
    esac
done
# tensors FILE: those of a safetensors file, without what it tells of the data.
tensors() {
    python3 -c 'import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
del header["__metadata__"]
sys.stdout.buffer.write(json.dumps(header).encode() + data[8 + size:])' "$1"
}
# Positions that do not count have no effect: other numbers there change no bit.
# shellcheck disable=SC2086
for model in "$small" mean.yaml; do
    "$weft" train -q --model $model $series --checkpoint one-run && "$weft" export one-run -o one &&
        "$weft" train -q --model $model ${series/x=x.npy/x=far.npy} --checkpoint far-run && "$weft" export far-run -o far && cmp -s <(tensors one) <(tensors far) &&
        pass || flunk "$model: positions behind the length count"
    rm -rf one-run far-run one far
done
# The mean over the positions that count is learned, on cpu.
"$weft" train --model mean.yaml --data npy:x=x.npy,lengths=lengths.npy,label=label.npy -t 1 -e 40 --lr 0.01 -b 16 --seed 2 --checkpoint run >out 2>err
grep -qE 'test accuracy (1\.0|0\.9)|accuracy +(1\.0|0\.9)' out && pass || flunk "not learned: $(cat out err)"
# A checkpoint knows its inputs; their order in the specification does not matter.
accepts "evaluate" "$weft" eval run --json --data npy:x=x.npy,lengths=lengths.npy,label=label.npy
cp out first
"$weft" eval run --json --data npy:lengths=lengths.npy,label=label.npy,x=x.npy >out 2>err && pass || flunk "evaluate in another order"
cmp -s out first && pass || flunk "the order of the inputs matters"
accepts "predict without labels" "$weft" predict run --data npy:x=x.npy,lengths=lengths.npy
[ "$(wc -l <out)" -ge 60 ] && pass || flunk "predictions: $(wc -l <out)"
refuses 2 "no file is given for the input 'lengths' of the training" "$weft" eval run --data npy:x=x.npy,label=label.npy
refuses 1 "long.npy: number 0 of sample 3 is 9, must be from 0 to 6, as in training" "$weft" eval run --data npy:x=x.npy,lengths=long.npy,label=label.npy
accepts "train on tokens" "$weft" train -q --model "$small" --data npy:words=tokens.npy,label=tags.npy --steps 3 -t 1 -b 8 --checkpoint words
accepts "fewer tokens" "$weft" eval words --data npy:words=fewer.npy,label=tags.npy
refuses 1 "more.npy: number 3 of sample 1 is 12, must be from 0 to 8, as in training" "$weft" eval words --data npy:words=more.npy,label=tags.npy
# An input has the name that it was given; lengths may be as large as the sequences are long.
printf 'layers:\n  - {type: lstm, units: 4, last: true, from: series}\n  - {type: dense, units: outputs}\n' >named.yaml
accepts "an input of another name" "$weft" train -q --model named.yaml --data npy:series=x.npy,label=label.npy --steps 3 -t 1 -b 8 --checkpoint named
accepts "its evaluation" "$weft" eval named
accepts "its prediction" "$weft" predict named --data npy:series=b.npy
accepts "short lengths" "$weft" train -q --model mean.yaml --data npy:x=x.npy,lengths=brief.npy,label=label.npy --steps 3 -t 1 -b 8 --checkpoint brief
accepts "longer ones" "$weft" eval brief --data npy:x=x.npy,lengths=lengths.npy,label=label.npy
accepts "weights without labels" "$weft" predict words --data npy:words=tokens.npy,weight=weight.npy
# What cannot be
printf 'layers:\n  - {type: lstm, units: 4, last: true}\n  - {type: dense, units: outputs}\n' >last.yaml
printf 'layers:\n  - {type: dense, units: outputs, lengths: x}\n' >keyed.yaml
try() { "$weft" train -q --steps 1 -t 1 -b 8 "$@"; }
refuses 2 "no layer of the model reads the input 'b' of these data" try --model mean.yaml --data npy:x=x.npy,lengths=lengths.npy,b=b.npy,label=label.npy
refuses 2 "reads the lengths 'lengths', which is no input of these data: they have x" try --model mean.yaml --data npy:x=x.npy,label=label.npy
refuses 2 "sequences of 6 positions, and the lengths 'lengths' go up to 9" try --model mean.yaml --data npy:x=x.npy,lengths=long.npy,label=label.npy
refuses 2 "must be one whole number a sample" try --model mean.yaml --data npy:x=x.npy,lengths=tokens.npy,label=label.npy
refuses 1 "negative.npy: number 3 of sample 2 is -1, must be from 0 to" try --model "$small" --data npy:x=negative.npy,label=label.npy
refuses 1 "short.npy has 59 labels" try --model "$small" --data npy:x=x.npy,label=short.npy
refuses 1 "x.npy has 60 samples, short.npy has 59 samples" try --model mean.yaml --data npy:x=x.npy,lengths=short.npy,label=label.npy
refuses 1 "numbers.npy: real numbers need at least 2 dimensions" try --model "$small" --data npy:x=numbers.npy,label=label.npy
refuses 1 "weight.npy: weights must be numbers in one dimension" try --model "$small" --data npy:x=x.npy,label=label.npy,weight=weight.npy
refuses 2 "the input 'x' is given twice" try --model "$small" --data npy:x=x.npy,x=b.npy,label=label.npy
refuses 2 "layout is 'xyz', must be one of" try --model mlp --data npy:x=x.npy,label=label.npy,layout=xyz
refuses 2 "layout is 'chw', but the samples of x.npy have 2 dimensions" try --model mlp --data npy:x=x.npy,label=label.npy,layout=chw
refuses 2 "'a.b' cannot be the name of an input" try --model mlp --data npy:a.b=x.npy,label=label.npy
refuses 2 "no input can be named 'labels'" try --model mlp --data npy:labels=x.npy,label=label.npy
refuses 1 "input 'foo': 3: cannot open" try --model mlp --data npy:x=x.npy,foo=3,label=label.npy
refuses 2 "reads numbers, and not the tokens of the input 'x'" try --model mlp --data npy:x=tokens.npy,label=label.npy
refuses 2 "label.npy and column.npy" try --model mlp --data npy:x.npy,label.npy,label=column.npy
refuses 2 "'x=' needs a file" try --model "$small" --data npy:x=,label=label.npy
refuses 2 "give two files" try --model "$small" --data npy:x=x.npy
refuses 2 "model transformer needs one input" try --model transformer --data npy:x=x.npy,b=b.npy,label=label.npy
refuses 2 "model transformer needs one input" try --model transformer --data npy:x=image.npy,layout=chw,label=label.npy
refuses 2 "has no key 'lengths'" try --model keyed.yaml --data npy:x.npy,label.npy
echo "$passed passed, $failed failed"
[ $failed = 0 ]
