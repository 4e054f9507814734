#!/usr/bin/env python3
"""Losses and weights of classes, against formulas of their own: tests/train/losses.py PATH/TO/weft

A linear model takes two steps with all samples. The loss of the second one must be that of the weights before it, and
the weights must move against the slope of that loss, which is measured by differences: for every loss that `weft help
losses` lists, on devices and meshes.
"""
import csv, json, math, os, re, shutil, struct, sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import checks
from checks import check, end, scratch
from npy import write_npy

LR, ROWS, FEATURES, CLASSES = 0.1, 12, 4, 3


def run(*words, ok=True):
    got = checks.run(*words, code=0 if ok else 2)
    return got


def weights(step):
    """The matrix [features][outputs] and the bias [outputs] of a checkpoint."""
    data = open(f"run/step-{step}/parameters.safetensors", "rb").read()
    head = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, about in json.loads(data[8:8 + head]).items():
        if name != "__metadata__":
            begin, stop = about["data_offsets"]
            found[len(about["shape"])] = about["shape"], struct.unpack(f"<{(stop - begin) // 8}d", data[8 + head + begin:8 + head + stop])
    (rows, columns), flat = found[2]
    if rows == FEATURES:
        return [list(flat[i * columns:(i + 1) * columns]) for i in range(rows)], list(found[1][1])
    return [[flat[o * columns + i] for o in range(rows)] for i in range(columns)], list(found[1][1])


def outputs(w, b, x):
    return [sum(x[i] * w[i][o] for i in range(FEATURES)) + b[o] for o in range(len(b))]


def cross_entropy(z, label, _):
    top = max(z)
    return math.log(sum(math.exp(v - top) for v in z)) + top - z[label]


def focal(z, label, gamma):
    loss = cross_entropy(z, label, None)
    return (1 - math.exp(-loss)) ** gamma * loss


def of_numbers(formula):
    return lambda z, target, key: formula(z[0] - target, key)


def bce(z, labels, _):
    return sum(math.log(1 + math.exp(v)) - t * v for v, t in zip(z, labels)) / len(z)


REFERENCE = {
    "cross_entropy": (cross_entropy, [None]),
    "focal": (focal, ["gamma=2", "gamma=1.5"]),
    "mse": (of_numbers(lambda e, _: e * e), [None]),
    "l1": (of_numbers(lambda e, _: abs(e)), [None]),
    "huber": (of_numbers(lambda e, d: e * e / 2 if abs(e) < d else d * (abs(e) - d / 2)), ["delta=1", "delta=0.3"]),
    "quantile": (of_numbers(lambda e, q: max(-q * e, (1 - q) * e)), ["q=0.5", "q=0.9"]),
    "bce": (bce, [None]),
}
# Numbers of samples that single precision holds exactly, as they are read.
OF_CLASSES = "cross_entropy", "focal"
SAMPLES = [[round(64 * math.sin(3 * i + j * j)) / 64 for j in range(FEATURES)] for i in range(ROWS)]
LABELS = [0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0]
MANY = [[int(math.sin(i * i + j) > 0.3 * j - 0.2) for j in range(CLASSES)] for i in range(ROWS)]
TARGETS = [round(128 * math.cos(i * i)) / 64 for i in range(ROWS)]


def check_loss(name, key, ways, class_weights=None):
    formula, _ = REFERENCE[name]
    classes = name in OF_CLASSES
    truth = LABELS if classes else MANY if name == "bce" else TARGETS
    counts = [LABELS.count(c) for c in range(CLASSES)]
    given = {"balanced": [ROWS / (CLASSES * n) for n in counts], None: [1] * CLASSES}.get(class_weights) or \
        [float(v) for v in class_weights.split(",")]
    weight = [given[c] if classes else 1 for c in LABELS]
    number = float(key.split("=")[1]) if key else None

    def loss(w, b):
        return sum(v * formula(outputs(w, b, x), t, number) for v, x, t in zip(weight, SAMPLES, truth)) / sum(weight)

    shutil.rmtree("run", ignore_errors=True)
    data = "csv:classes.csv,test=0" if classes else "csv:labels.csv,label=l0+l1+l2,test=0" if name == "bce" else "csv:numbers.csv,target=y,test=0"
    more = ["--class-weights", class_weights] if class_weights else []
    run("train", "-q", "-m", "linear.yaml", "-d", data, "--normalize", "none", "--dtype", "f64", "-b", str(ROWS), "--steps", "2", "-t", "1",
        "--checkpoint-every", "1", "-o", "sgd", "--lr", str(LR), "-c", "run", "--metrics", "m.jsonl", "--loss", f"{name}:{key}" if key else name,
        *more, *ways)
    (w, b), (moved, shifted) = weights(1), weights(2)
    what = f"{name} {key or ''} {class_weights or ''} {' '.join(ways)}"
    said = [json.loads(line) for line in open("m.jsonl")]
    said = [e["loss"] for e in said if e["event"] == "step" and e["step"] == 2][0]
    check(f"{what}: the loss", abs(said - loss(w, b)) < 1e-10, (said, loss(w, b)))
    for o in range(len(b)):
        for i in range(FEATURES + 1):
            row, after = (w[i], moved[i]) if i < FEATURES else (b, shifted)
            before, h = row[o], 1e-6
            row[o] = before + h
            above = loss(w, b)
            row[o] = before - h
            slope = (above - loss(w, b)) / (2 * h)
            row[o] = before
            check(f"{what}: slope", abs((before - after[o]) / LR - slope) < 1e-7, (i, o, (before - after[o]) / LR, slope))


scratch()
with open("linear.yaml", "w") as f:
    f.write("layers:\n  - {type: dense, units: outputs}\n")
with open("classes.yaml", "w") as f:
    f.write("layers:\n  - {type: dense, units: classes}\n")
for file, label, truth in ("classes.csv", "kind", LABELS), ("numbers.csv", "y", TARGETS):
    with open(file, "w", newline="") as f:
        table = csv.writer(f)
        table.writerow([*(f"x{j}" for j in range(FEATURES)), label])
        table.writerows([*map(repr, x), t if label == "kind" else repr(t)] for x, t in zip(SAMPLES, truth))
with open("labels.csv", "w", newline="") as f:
    csv.writer(f).writerows([[f"x{j}" for j in range(FEATURES)] + [f"l{j}" for j in range(CLASSES)], *([*map(repr, x), *t] for x, t in zip(SAMPLES, MANY))])
listed = re.findall(r"^  ([a-z_0-9]+)[^ \n]*$", run("help", "losses").stdout, re.M)
check("a reference for each loss", sorted(set(listed)) == sorted(REFERENCE), listed)
WAYS = [], ["--device", "reference"], ["-n", "2", "--mesh", "data=2"], ["-n", "2", "--virtual-workers", "4"], ["--microbatches", "3"]
for name, (_, keys) in REFERENCE.items():
    for key in keys:
        for ways in WAYS if key == keys[-1] else WAYS[:1]:
            check_loss(name, key, ways)
for how in "balanced", "0.5,2,0":
    for ways in WAYS:
        check_loss("cross_entropy", None, ways, how)
    check_loss("focal", "gamma=3", WAYS[0], how)
# Labels of positions, and weights that are split by classes.
open("t.txt", "w").write("to be or not to be that is the question " * 20)
text = ["train", "-q", "-d", "text:t.txt,context=8", "-m", "gpt:layers=1,heads=2,width=8", "--steps", "3", "-b", "6", "--loss", "focal", "-t", "1"]
losses = []
for ways in [], ["-n", "2", "--mesh", "data=2"], ["-n", "2", "--mesh", "tensor=2"], ["-n", "2", "--mesh", "domain=2"], ["-n", "2", "--mesh", "pipeline=2"]:
    run(*text, "--metrics", "m.jsonl", *ways)
    losses.append([json.loads(line)["loss"] for line in open("m.jsonl") if '"step"' in line][2])
    check(f"focal of positions {ways}", abs(losses[-1] - losses[0]) < 1e-4, losses)
run(*text, "--dtype", "bf16")
# Other types, a plan that splits the weights, and what evaluates the checkpoint.
run("train", "-q", "-m", "linear.yaml", "-d", "csv:numbers.csv,target=y,test=0.3", "--steps", "2", "-b", "4", "--dtype", "bf16", "--loss", "huber")
run("train", "-q", "-m", "mlp", "-d", "csv:numbers.csv,target=y,test=0.3", "--steps", "2", "-b", "4", "-n", "2", "--mesh", "tensor=2", "--loss", "l1",
    "-c", "other")
one, two = (json.loads(run("eval", "-c", "other", "--json", *words).stdout) for words in ([], ["--device", "reference"]))
check("a checkpoint is evaluated by its loss", abs(one["loss"] - two["loss"]) < 1e-5, (one, two))
# Several numbers a sample: the evaluation of a run on a mesh is that of its checkpoint by one rank.
write_npy("x.npy", "f8", (ROWS, FEATURES), [v for x in SAMPLES for v in x])
write_npy("y.npy", "f8", (ROWS, 2), [v for i, t in enumerate(TARGETS) for v in (t, math.sin(i))])
SEVERAL = [(name, "npy:x.npy,target=y.npy,test=0.5", ("loss", "mae", "rmse", "r2")) for name in sorted(set(REFERENCE) - {*OF_CLASSES, "bce"})]
for name, data, keys in SEVERAL + [("bce", "csv:labels.csv,label=l0+l1+l2,test=0.5", ("loss", "accuracy", "f1_macro", "f1_micro", "subset_accuracy", "auc"))]:
    for ways in [], ["-n", "2", "--mesh", "data=2"], ["-n", "2", "--mesh", "tensor=2"], ["-n", "4", "--mesh", "data=2,tensor=2"], ["-n", "2", "--zero", "3"]:
        shutil.rmtree("run", ignore_errors=True)
        metric = ["--metric", "auc"] if "auc" in keys else []
        run("train", "-q", "-m", "linear.yaml", "-d", data, "--dtype", "f64", "-b", "2", "--steps", "3", "-t", "1",
            "--loss", name, "-c", "run", "--metrics", "m.jsonl", *metric, *ways)
        said = [json.loads(line) for line in open("m.jsonl") if '"eval"' in line][-1]
        alone = json.loads(run("eval", "-c", "run", "--json", *metric).stdout)
        check(f"{name} of several {ways}", all(abs(said[key] - alone[key]) < 1e-9 for key in keys), (said, alone))
for words, sentence in ((["--loss", "huber:delta=0"], "delta is '0', must be from 1e-06"), (["--loss", "cross_entropy"], "needs classes"),
                        (["--loss", "focal"], "needs classes"),
                        (["--loss", "l1:q=1"], "no key is named 'q'")):
    got = run("train", "-m", "linear.yaml", "-d", "csv:numbers.csv,target=y", "-b", "4", *words, ok=False)
    check(f"{words} refused", got.returncode != 0 and sentence in got.stderr, got.stderr)
for file, label, words in ("numbers.csv", "target=y", "the target of these data is numbers"), ("labels.csv", "label=l0+l1+l2", "these data have several labels"):
    for model, *more in ("mlp", "--class-weights", "balanced"), ("mlp", "--label-smoothing", "0.1"), ("classes.yaml",):
        got = run("train", "-m", model, "-d", f"csv:{file},{label}", "-b", "4", *more, ok=False)
        check(f"{model} {more} of {label} refused", got.returncode == 2 and words in got.stderr, got.stderr)
for value, sentence in (("1,2", "class-weights has 2 numbers, and the data have 3 classes"), ("0,0,0", "class-weights are all 0"),
                        ("1,x,2", "class-weights is '1,x,2', must be balanced or a number")):
    got = run("train", "-m", "linear.yaml", "-d", "csv:classes.csv", "-b", "4", "--class-weights", value, ok=False)
    check(f"{value} refused", got.returncode != 0 and sentence in got.stderr, got.stderr)
sys.exit(end())
