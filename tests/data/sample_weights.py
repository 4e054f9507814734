#!/usr/bin/env python3
"""Weights of samples: tests/data/sample_weights.py PATH/TO/weft

Weights of 1 are none at all, whole weights are rows that stand there so often, a row of weight 0 is not there, and
every way to run comes to the same.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft, write
from npy import write_npy

scratch()
EXACT = "--device reference --dtype f64".split()


def run(*words):
    return subprocess.run([weft, *words], capture_output=True, text=True, timeout=120)


write("net.yaml", """layers:
  - {type: dense, units: 5}
  - {type: tanh}
  - {type: dense, units: outputs}
""")
write("normed.yaml", """layers:
  - {type: dense, units: 5, bias: false}
  - {type: batch_norm}
  - {type: tanh}
  - {type: dense, units: outputs}
""")


def rows_of(kind, count, seed):
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        x = [round(draw.uniform(-1, 1), 3) for _ in range(3)]
        y = "ABC"[i % 3] if kind == "label" else round(2 + x[0] - 3 * x[1] + draw.uniform(-1, 1), 3)
        rows.append((x, y, draw.randint(1, 3)))
    return rows


def table(name, rows, weighted):
    """The weights stand in the middle."""
    lines = ["a,b,w,c,y"] if weighted else ["a,b,c,y"]
    for (a, b, c), y, w in rows:
        lines.append(f"{a},{b},{w},{c},{y}" if weighted else f"{a},{b},{c},{y}")
    write(name, "\n".join(lines) + "\n")


def spec(name, kind, weighted, test=0):
    return f"csv:{name},{kind}=y,test={test}" + (",weight=w" if weighted else "")


def exported(folder):
    """Names and numbers of what a run has learned."""
    done = run("export", folder + "/latest", "-o", "w.st", "-q")
    check("export", done.returncode == 0, done.stderr)
    with open("w.st", "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        letter, each = ("d", 8) if t["dtype"] == "F64" else ("f", 4)
        out[name] = struct.unpack(f"<{(end - begin) // each}{letter}", data[8 + size + begin:8 + size + end])
    return out


def train(data, *words, model="net.yaml"):
    """What was learned, and the losses and figures on the way."""
    subprocess.run(["rm", "-rf", "run", "m.jsonl"], check=True)
    done = run("train", "--model", model, "--data", data, "--lr", "0.1", "--optimizer", "sgd", "--seed", "5", "-t", "1",
               "-q", "--checkpoint", "run", "--metrics", "m.jsonl", *words)
    check("train " + data + " " + " ".join(words), done.returncode == 0 and not done.stderr, done.stderr)
    told = []
    if os.path.exists("m.jsonl"):
        for e in map(json.loads, open("m.jsonl")):
            told += [e[k] for k in ("loss", "accuracy", "f1_macro", "r2", "mae", "rmse") if e.get(k) is not None]
    return exported("run"), told


def same(what, a, b, limit):
    """To `limit` of the largest number of each list."""
    (tensors, told), (others, told_others) = a, b
    lists = [(name, tensors[name], others.get(name, ())) for name in tensors] + [("figures", told, told_others)]
    for name, x, y in lists:
        most = max([1e-3] + [abs(v) for v in x])
        off = max([abs(u - v) for u, v in zip(x, y)] + [0]) / most
        check(f"{what}: {name}", len(x) == len(y) and off <= limit, f"off by {off}, {len(x)} and {len(y)} numbers")


WAYS = ["", "-n 2", "-n 3 --zero 3", "--microbatches 2", "-n 2 --mesh pipeline=2 --microbatches 2", "--virtual-workers 4",
        "-n 2 --virtual-workers 4 --zero 2", "-n 2 --mesh tensor=2"]
for kind in ("label", "target"):
    # Weights of 1: the same bits, in every way, with a last batch that is not full, and between learners.
    rows = [(x, y, 1) for x, y, _ in rows_of(kind, 29, 1)]
    table("plain.csv", rows, False)
    table("ones.csv", rows, True)
    for way in WAYS + ["-n 2 --exchange average:every=2", "-n 2 --engine threads --optimizer adam --clip-norm 0.1"]:
        words = [*way.split(), "--batch", "8", "--epochs", "2"]
        a, b = train(spec("plain.csv", kind, False, 0.3), *words), train(spec("ones.csv", kind, True, 0.3), *words)
        same(f"weights of 1, {kind}, {way}", a, b, 0)

    # Whole weights: the rows repeated, where a batch is everything.
    rows = rows_of(kind, 12, 2)
    rows[0] = (rows[0][0], rows[0][1], 3 + 24 - sum(w for _, _, w in rows)) if sum(w for _, _, w in rows) < 24 else rows[0]
    repeated = [r for r in rows for _ in range(r[2])]
    table("weighted.csv", rows, True)
    table("repeated.csv", repeated, False)
    want = train(spec("repeated.csv", kind, False), "--batch", str(len(repeated)), "--epochs", "6", "--normalize", "none", *EXACT)
    for way in WAYS + ["-n 5"]:
        have = train(spec("weighted.csv", kind, True), "--batch", "12", "--epochs", "6", "--normalize", "none", *EXACT, *way.split())
        same(f"rows repeated, {kind}, {way}", want, have, 1e-12)
    # What is learned of the columns goes by weights, too; columns are in float32.
    want = train(spec("repeated.csv", kind, False), "--batch", str(len(repeated)), "--epochs", "6", *EXACT)
    have = train(spec("weighted.csv", kind, True), "--batch", "12", "--epochs", "6", *EXACT)
    same(f"rows repeated, normalised, {kind}", want, have, 1e-6)
    # Figures of the model that is there now.
    figures = {}
    for name, weighted in (("weighted.csv", True), ("repeated.csv", False), ("weighted.csv", False)):
        if name == "weighted.csv" and not weighted:
            continue
        done = run("eval", "-c", "run/latest", "--data", spec(name, kind, weighted, 1), "--json", "--batch", "5", "--device", "reference")
        check(f"eval {name}", done.returncode == 0, done.stderr)
        figures[name] = json.loads(done.stdout)
    for key, value in figures["repeated.csv"].items():
        if isinstance(value, float):
            have = figures["weighted.csv"][key]
            check(f"{key} by weights, {kind}", abs(value - have) <= 1e-6 * max(1, abs(value)), (value, have))
    check(f"samples that count, {kind}", figures["weighted.csv"]["samples"] == 12, figures)

    # Weight 0: the row is not there, whatever stands in it; also for norms over the batch, and what is learned of columns.
    rows = [(x, y, round(w / 7, 3)) for x, y, w in rows_of(kind, 12, 3)]
    absent = [([1e6, -1e6, 3e5], rows[0][1] if kind == "label" else 1e7, 0)] * 6
    mixed = [r for pair in zip(rows, (absent + absent)) for r in pair][:18] + rows[9:]
    table("kept.csv", rows, True)
    table("mixed.csv", mixed, True)
    count = len(mixed)
    want = train(spec("kept.csv", kind, True), "--batch", "12", "--epochs", "6", *EXACT, model="normed.yaml")
    for way in ("", "-n 2", "-n 3 --zero 1"):
        have = train(spec("mixed.csv", kind, True), "--batch", str(count), "--epochs", "6", *EXACT, *way.split(), model="normed.yaml")
        same(f"weight 0, {kind}, {way}", want, have, 1e-9)

    # Small batches, the last of which is not full: denominators are those of one rank.
    rows = [(x, y, 0 if i % 7 == 3 else w) for i, (x, y, w) in enumerate(rows_of(kind, 31, 4))]
    table("many.csv", rows, True)
    words = ["--batch", "8", "--epochs", "2", *EXACT]
    want = train(spec("many.csv", kind, True, 0.3), *words)
    for way in WAYS[1:]:
        same(f"batches, {kind}, {way}", want, train(spec("many.csv", kind, True, 0.3), *words, *way.split()), 1e-9)

    # A batch in which nothing counts teaches nothing, and has no loss.
    rows = [(x, y, 0 if i > 0 else 2.5) for i, (x, y, w) in enumerate(rows_of(kind, 9, 5))]
    table("one.csv", rows, True)
    a = train(spec("one.csv", kind, True), "--batch", "1", "--epochs", "1", *EXACT, "--normalize", "none")
    check("finite", all(math.isfinite(v) for t in a[0].values() for v in t), a[0])
    steps = [e["loss"] for e in map(json.loads, open("m.jsonl")) if e["event"] == "step"]
    check("losses", len(steps) == 9 and steps.count(None) == 8, steps)

    # Arrays: the same rows, the same bits.
    rows = rows_of(kind, 14, 6)
    table("t.csv", rows, True)
    write_npy("x.npy", "f8", (14, 3), [v for x, _, _ in rows for v in x])
    if kind == "label":
        write_npy("y.npy", "i4", (14,), ["ABC".index(y) for _, y, _ in rows])
    else:
        write_npy("y.npy", "f8", (14,), [y for _, y, _ in rows])
    write_npy("w.npy", "f8", (14,), [w for _, _, w in rows])
    arrays = "npy:x.npy," + ("y.npy" if kind == "label" else "target=y.npy") + ",weight=w.npy,test=0.3"
    words = ["--batch", "4", "--epochs", "2", "--normalize", "none"]
    same(f"arrays, {kind}", train(spec("t.csv", kind, True, 0.3), *words), train(arrays, *words), 0)

# A table for predictions may lack the weights, whose column is none of the model's.
write("new.csv", "c,b,a\n0.1,0.2,0.3\n0.5,0.5,0.5\n")
done = run("predict", "-c", "run/latest", "--data", "npy:x.npy", "-o", "-")
check("predict arrays without weights", done.returncode == 0 and len(done.stdout.splitlines()) == 15, done.stderr)
train(spec("t.csv", "target", True), "--epochs", "1", "--batch", "14")
done = run("predict", "-c", "run/latest", "--data", "csv:new.csv", "-o", "-")
check("predict without weights", done.returncode == 0 and len(done.stdout.splitlines()) == 3, done.stderr)
write("bare.csv", "0.1,0.2,7,0.3,1\n0.5,0.5,9,0.5,2\n")
done = run("eval", "-c", "run/latest", "--data", "csv:bare.csv,weight=2,test=1")
check("columns by number", done.returncode == 0, done.stderr)

# One row that counts, or almost alone: what is learned of columns is not less than nothing.
for weights in ([3.5, 0], [0.1, 0], [1e-9, 7.3], [7.3, 1e-18]):
    table("alone.csv", [([0.7 + i / 3, -1.1, 1e3 / 7 + i], 0.1 + i, w) for i, w in enumerate(weights)], True)
    train(spec("alone.csv", "target", True), "--batch", "2", "--epochs", "1")

# --- what is refused ---
for text, how, words in [
    ("a,w,y\n1,2,3\n1,-1,3\n", "target=y,weight=w", "bad.csv:3: column 1 (w), the weight, holds '-1'"),
    ("a,w,y\n1,2,3\n1,nan,3\n", "target=y,weight=w", "bad.csv:3: column 1 (w), the weight, holds 'nan'"),
    ("a,w,y\n1,2,3\n1,,3\n", "target=y,weight=w", "bad.csv:3: column 1 (w), the weight, holds ''"),
    ("a,w,y\n1,2,3\n1,inf,3\n", "target=y,weight=w", "must stand in every row"),
    ("a,w,y\n1,0,3\n2,0,3\n", "target=y,weight=w,test=0", "all weights of the training part are 0"),
    ("a,w,y\n1,1e308,3\n2,1e308,3\n", "target=y,weight=w,test=0", "the sum of the weights of the training part is not finite"),
    ("a,w,y\n1,1,3\n2,1,3\n", "target=y,weight=v", "no column is named 'v', for weights"),
    ("a,w,y\n1,1,3\n2,1,3\n", "target=y,weight=3", "weight column 3 does not exist"),
    ("a,w,y\n1,1,3\n2,1,3\n", "target=y,weight=y", "is given as the weight, and as the label or target"),
    ("1,1,3\n2,1,3\n", "target=2,weight=2", "is given as the weight, and as the label or target"),
    ("w,y\n1,3\n1,3\n", "target=y,weight=w", "needs rows of at least one feature"),
]:
    write("bad.csv", text)
    done = run("train", "--model", "net.yaml", "--data", "csv:bad.csv," + how, "-q")
    check(f"{how}: {words}", 0 < done.returncode < 5 and words in done.stderr, done.stderr)
write_npy("short.npy", "f8", (13,), [1.0] * 13)
write_npy("wide.npy", "f8", (14, 2), [1.0] * 28)
write_npy("low.npy", "f8", (14,), [1.0] * 13 + [-0.5])
for name, words in [("short", "short.npy has 13 weights"), ("wide", "weights must be numbers in one dimension"),
                    ("low", "the weight of sample 13 is -0.5")]:
    done = run("train", "--model", "net.yaml", "--data", f"npy:x.npy,target=y.npy,weight={name}.npy", "-q")
    check(words, 0 < done.returncode < 5 and words in done.stderr, done.stderr)

sys.exit(end())
