#!/usr/bin/env python3
"""What the command tells, against the same computed here: tests/told.py PATH/TO/weft

Predictions, figures and the confusion matrix follow from the exported weights of one dense layer over a table
in which sample i has feature i alone; what a plan dumps must be the rank that was asked for.
"""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

weft = os.path.abspath(sys.argv[1])
ROWS, CLASSES = 23, 4
NAMES = ["ash", "birch", "cedar", "fir, silver"]  # sorted, as classes are numbered
failed = passed = 0


def check(what, holds, told=""):
    global failed, passed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what}: {str(told)[:400]}")


def run(*words):
    done = subprocess.run([weft, *words], capture_output=True, text=True, timeout=120)
    check("weft " + " ".join(words), done.returncode == 0, done.stderr)
    return done.stdout


def label_of(i):
    return (7 * i + i // 5) % CLASSES


def tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            yield name, struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])


def softmax(w):
    e = [math.exp(x) for x in w]
    return [x / sum(e) for x in e]


def csv_fields(line):
    return [a or b for a, b in re.findall(r'(?:^|,)(?:"([^"]*)"|([^",]*))', line)]


def predictions():
    with open("rows.csv", "w") as f:
        for i in range(ROWS):
            name = NAMES[label_of(i)]
            name = f'"{name}"' if "," in name else name
            print(",".join("1" if j == i else "0" for j in range(ROWS)) + "," + name, file=f)
    with open("net.yaml", "w") as f:
        print("layers:\n  - {type: dense, name: fc, units: classes, bias: false}", file=f)
    run("train", "-q", "--model", "net.yaml", "--data", "csv:rows.csv,test=0.3", "--normalize", "none", "--batch", "4",
        "--steps", "6", "--optimizer", "sgd", "--lr", "2", "--checkpoint", "run", "--metrics", "m.jsonl")
    run("export", "run/latest", "-o", "w", "-q")
    w = dict(tensors("w"))["fc/weight"]
    p = [softmax(w[CLASSES * i:CLASSES * i + CLASSES]) for i in range(ROWS)]
    all_rows = ["--data", "csv:rows.csv,test=1"]
    lines = run("predict", "--checkpoint", "run", *all_rows).splitlines()
    check("the head of predictions", lines[0] == "sample,label,predicted,probability" and len(lines) == ROWS + 1, lines)
    wrong = 0
    for i, line in enumerate(lines[1:]):
        sample, label, predicted, probability = csv_fields(line)
        best = p[i].index(max(p[i]))
        wrong += best != label_of(i)
        check("a prediction", int(sample) == i and label == NAMES[label_of(i)] and predicted == NAMES[best] and
              abs(float(probability) - p[i][best]) < 2e-6, (line, p[i]))
    check("predictions that are wrong are among them", 3 < wrong < ROWS - 3, wrong)
    for i, line in enumerate(run("predict", "--checkpoint", "run", "--json", *all_rows).splitlines()):
        o = json.loads(line)
        check("a prediction as JSON", o["sample"] == i and o["label"] == label_of(i) and
              o["predicted"] == p[i].index(max(p[i])) and
              all(abs(a - b) < 2e-6 for a, b in zip(o["probabilities"], p[i])), line)
    confusion = [[0] * CLASSES for _ in range(CLASSES)]
    for i in range(ROWS):
        confusion[label_of(i)][p[i].index(max(p[i]))] += 1
    check("a confusion matrix that is not its mirror", confusion != [list(r) for r in zip(*confusion)], confusion)
    right = sum(confusion[c][c] for c in range(CLASSES))
    loss = sum(-math.log(p[i][label_of(i)]) for i in range(ROWS)) / ROWS
    told = json.loads(run("eval", "--checkpoint", "run", "--json", *all_rows))
    check("figures as JSON", told["confusion"] == confusion and told["samples"] == ROWS and
          abs(told["accuracy"] - right / ROWS) < 1e-6 and abs(told["loss"] - loss) < 1e-5, told)
    text = run("eval", "--checkpoint", "run", "--confusion", *all_rows)
    table = [[int(x) for x in line.split()][1:] for line in text.splitlines() if re.match(r"\s+\d+(\s+\d+){4}$", line)]
    check("the printed confusion matrix", table == confusion, text)
    check("the printed figures", f"{ROWS} samples, loss {loss:.4f}, accuracy {right / ROWS:.4f}" in text, text)
    tested = {int(x) for x in re.findall(r"^(\d+),", run("predict", "--checkpoint", "run"), re.M)}
    check("the test part", len(tested) == round(0.3 * ROWS), tested)
    with open("m.jsonl") as f:
        kinds = [json.loads(line) for line in f]
    check("steps in the metrics", [k["step"] for k in kinds if k["event"] == "step"] == list(range(1, 7)), kinds)


def traces():
    """What an instruction computes and moves, on the reference device, where nothing is padded and all rows of the
    table are trained on."""
    batch = 4
    run("train", "-q", "--device", "reference", "--model", "net.yaml", "--data", "csv:rows.csv,test=0.3", "--batch",
        str(batch), "--steps", "2", "--optimizer", "sgd", "--trace", "t.json")
    x, w, y = batch * ROWS, ROWS * CLASSES, batch * CLASSES
    wanted = {
        "dense fc": (2 * batch * ROWS * CLASSES, 4 * (x + w + y)),
        "dense_dw fc/dw": (2 * batch * ROWS * CLASSES, 4 * (x + y + w)),
        "softmax_xent loss": (None, 4 * (y + batch + batch + 1 + y)),  # logits, labels, weights; loss, probabilities
        "sgd fc/weight/update": (None, 4 * (w + w + 1 + w)),
        "counter step/next": (None, 4 * 2),
    }
    with open("t.json") as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    for name, (flops, moved) in wanted.items():
        told = [(e["args"]["flops"], e["args"]["bytes"]) for e in events if e["name"] == name]
        check(f"work and bytes of {name}", len(told) == 2 and all(b == moved and flops in (None, a) for a, b in told), told)


def manuals():
    """A page of the manual has every option that the help has, with its letter, its argument and its text."""
    for command in re.findall(r"^  ([a-z]+)  +[a-z]", run("help"), re.M):
        text, page = run("help", command), run("help", "--man", command)
        entries = re.findall(r"^  (?:-(\w), )?--([\w-]+)(?: (\S+))?(?: {2,}| *\n {6,})(\S.*(?:\n {6,}\S.*)*)", text, re.M)
        page = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\\\", "\\")
        for letter, name, argument, said in entries:
            head = (f"-{letter}, " if letter else "") + f"--{name}" + (f" {argument}" if argument else "")
            found = re.search(rf"^\.TP\n{re.escape(head)}\n(.*)", page, re.M)
            check(f"the manual of {command}: {head}", found and
                  re.sub(r"\s", "", found.group(1)) == re.sub(r"\s", "", said), (found and found.group(1), said))
        check(f"options of {command} in the manual", len(entries) == len(re.findall(r"^\.TP\n-", page, re.M)),
              (len(entries), page[-300:]))


def plans():
    layers = 6
    with open("deep.yaml", "w") as f:
        print("layers:", file=f)
        for i in range(layers):  # nearly all the work is in the first one
            print(f"  - {{type: dense, name: d{i}, units: {2000 if i == 0 else 'classes' if i == layers - 1 else 3}}}", file=f)
    data = ["--data", "glyphs:size=12,train=40,test=10", "--batch", "20", "--model", "deep.yaml"]
    nodes = [f"d{i}{part}" for i in range(layers) for part in ("", "/add_bias")] + ["loss"]
    for stages in (2, 3, layers):
        mine = []
        for rank in range(stages):
            text = run("plan", "-n", str(stages), "--mesh", f"pipeline={stages}", "--microbatches", "2",
                       f"--dump={rank}", *data)
            check("the rank of a dump", f"Graph of rank {rank}:" in text and
                  not any(f"Graph of rank {r}:" in text for r in range(stages) if r != rank), text[-500:])
            mine.append(re.findall(r"^%.*# (d\d(?:/add_bias)?|loss) ", text, re.M))
        check("no stage is empty", all(mine), mine)
        check("stages are neighbours in order, each node in one", [x for m in mine for x in m] == nodes, mine)
    check("a plan without a dump has none", "Graph of rank" not in run("plan", "-n", "2", *data))


def losses(*words):
    run("train", "-q", "--data", "glyphs:size=12,train=40,test=10", "--batch", "20", "--steps", "4", "--dtype", "f64",
        "--device", "reference", "-t", "1", "--model", "conv.yaml", "--metrics", "l.jsonl", *words)
    with open("l.jsonl") as f:
        return [e["loss"] for e in map(json.loads, f) if e["event"] == "step"]


def pins():
    """Weights stored in any part, also along dimensions that an operator needs whole."""
    with open("conv.yaml", "w") as f:
        print("layers:\n  - {type: conv, name: c, filters: 4, kernel: 3}\n  - {type: relu}\n  - {type: conv, name: g, "
              "filters: 4, kernel: 2, groups: 2}\n  - {type: maxpool}\n  - {type: dense, name: d, units: classes}", file=f)
    want = losses()
    for pin in ("c/weight:0", "c/weight:2", "c/weight:3", "g/weight:0", "g/weight:1", "g/weight:2", "g/weight:3",
                "d/weight:0", "d/weight:1", "c/bias:0", "d/bias:0"):
        told = losses("-n", "2", "--mesh", "tensor=2", "--shard", pin + "=tensor")
        check(f"losses with {pin} in two parts", len(told) == 4 and all(abs(a - b) < 1e-8 for a, b in zip(told, want)),
              (told, want))


work = tempfile.mkdtemp()
try:
    os.chdir(work)
    predictions()
    traces()
    manuals()
    plans()
    pins()
finally:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
