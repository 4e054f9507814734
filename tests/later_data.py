#!/usr/bin/env python3
"""Data that are read otherwise than they were trained on: tests/later_data.py PATH/TO/weft

Statistics are those of what counts, whatever stands behind the lengths of sequences; a model answers the same for the same
numbers in any type and unit; arrays of types and forms that other programs write are read or refused.
"""
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

weft = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp())
failed = passed = 0


def check(what, holds, told=""):
    global failed, passed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what}: {str(told)[:300]}")


def run(*words):
    return subprocess.run([weft, *words, "-t", "1"], capture_output=True, text=True, timeout=120)


def npy(name, kind, shape, numbers):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join("%d," % d for d in shape))
    head += " " * (117 - len(head)) + "\n"
    code = {"f2": "e", "f4": "f", "f8": "d", "u1": "B", "i4": "i", "u2": "H", "i8": "q"}[kind[1:]]
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%d%s" % (len(numbers), code), *numbers))


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def train(folder, model, data, *more):
    shutil.rmtree(folder, ignore_errors=True)
    return run("train", "-q", "-m", model, "-d", data, "-b", "8", "-c", folder, *more)


def answers(folder, data, *more):
    said = run("predict", folder, "-d", data, "--json", *more)
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    return said, [p for r in rows for p in r.get("probabilities") or r["predicted"]]


def near(a, b, within=1e-5):
    return len(a) == len(b) > 0 and all(abs(x - y) <= within for x, y in zip(a, b))


# Statistics are those of the positions that count, and nothing depends on what stands behind them.
def write_series(name, seed, rows, positions, width, padding):
    chance = random.Random(seed)
    lengths = [chance.randint(0 if i % 9 == 0 else 1, positions) for i in range(rows)]
    x = [[single(chance.gauss(5, 3)) for _ in range(positions * width)] for _ in range(rows)]
    counted = [v for r, n in zip(x, lengths) for v in r[:n * width]]
    npy(name + "_x.npy", "<f4", (rows, positions, width), [v if j < n * width else padding for r, n in zip(x, lengths) for j, v in enumerate(r)])
    npy(name + "_n.npy", "<i8", (rows,), lengths)
    npy(name + "_y.npy", "<i8", (rows,), [int(sum(r[:n * width]) > 5 * n * width) for r, n in zip(x, lengths)])
    mean = sum(counted) / len(counted)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in counted) / len(counted))


with open("lstm.yaml", "w") as f:
    f.write("layers:\n  - {type: linear, units: 4}\n  - {type: tanh}\n  - {type: lstm, units: 5, lengths: n, last: true}\n  - {type: dense, units: outputs}\n")
with open("attention.yaml", "w") as f:
    f.write("layers:\n  - {type: linear, units: 4}\n  - {type: attention, heads: 2, lengths: n}\n  - {type: layer_norm}\n"
            "  - {type: sequence_mean, lengths: n}\n  - {type: dense, units: outputs}\n")
for model, way, device in [("lstm.yaml", "standard", "cpu"), ("lstm.yaml", "none", "reference"), ("attention.yaml", "standard", "reference"),
                           ("attention.yaml", "standard", "cpu"), ("attention.yaml", "none", "cpu")]:
    first = None
    for padding in 0, -999, 1e6, 3.4e38, -3.4e38:
        seed = 3 + len(model)
        mean, deviation = write_series("series", seed, 40, 7, 3, padding)
        spec = "npy:x=series_x.npy,n=series_n.npy,label=series_y.npy"
        said = train("run", model, spec + ",test=0", "-e", "2", "--normalize", way, "--device", device)
        case = f"{model} on {device}, {way}, {padding} behind the lengths"
        check(f"train {case}", said.returncode == 0, said.stderr)
        if said.returncode:
            continue
        about = json.load(open("run/latest/index.json"))["data"]
        want = (mean, deviation) if way == "standard" else (0, 1)
        check(f"statistics of {case}", near([about["mean"][0], about["deviation"][0]], want, 1e-4), (about["mean"], about["deviation"], want))
        said, got = answers("run", spec, "--split", "all")
        first = first or got
        check(f"answers of {case}", got and got == first, said.stderr or (got[:4], first[:4]))

def served(folder, asked):
    """The answers of a server to each of the requests {name: (datatype, shape, numbers)}."""
    server = subprocess.Popen([weft, "serve", "-t", "1", f"m={folder}", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = next((p.group(1) for p in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout) if p), None)
    found = {}
    for name, (kind, shape, numbers) in asked.items():
        body = {"inputs": [{"name": "x", "datatype": kind, "shape": shape, "data": numbers}]}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/infer", json.dumps(body).encode())
        try:
            found[name] = json.load(urllib.request.urlopen(request, timeout=60))["outputs"][0]["data"]
        except urllib.error.HTTPError as e:
            found[name] = e.read()
    server.terminate()
    server.communicate(timeout=60)
    return found


# Pixels and fractions of one picture are one picture, of each type and shape.
chance = random.Random(8)
for shape in (3, 9, 8), (8, 9), (2, 4, 4, 4):
    rows, size = 24, math.prod(shape)
    kinds = [i % 3 for i in range(rows)]
    pixels = [min(255, max(0, int(chance.gauss(90, 30) + 60 * (j % 3 == k)))) for k in kinds for j in range(size)]
    pixels[0], pixels[-1] = 0, 255
    layout = {3: "chw", 2: "hw", 4: "cdhw"}[len(shape)]
    forms = {"u1": pixels, "i4": pixels, "f4": pixels, "f8": pixels, "fractions": [single(p / 255) for p in pixels]}
    for name, numbers in forms.items():
        npy(name + ".npy", "<f4" if name == "fractions" else "<u1" if name == "u1" else "<" + name, (rows, *shape), numbers)
    npy("ones.npy", "<f4", (rows, *shape), [float(p > 100) for p in pixels])
    npy("y.npy", "<i4", (rows,), kinds)
    for trained in forms:
        said = train("run", "mlp", f"npy:{trained}.npy,y.npy,layout={layout},test=0", "-e", "2")
        check(f"train on {trained}", said.returncode == 0, said.stderr)
        said, want = answers("run", f"npy:{trained}.npy,layout={layout}")
        check(f"{trained} needs no note", "255" not in said.stderr, said.stderr)
        for later in forms:
            said, got = answers("run", f"npy:{later}.npy,layout={layout}")
            check(f"{later} to a model of {trained}", near(got, want), said.stderr or (got[:4], want[:4]))
            check(f"a note of {later}, {trained}", ("by 255" in said.stderr) == ((later == "fractions") != (trained == "fractions")), said.stderr)
        if trained in ("u1", "fractions") and len(shape) == 3:
            kinds_of = {"u1": "UINT8", "i4": "INT32", "f4": "FP32", "f8": "FP64", "fractions": "FP32"}
            for later, got in served("run", {n: (kinds_of[n], [rows, *shape], forms[n]) for n in forms}).items():
                check(f"{later} served by a model of {trained}", near(got, want), (got[:4], want[:4]))
        if trained != "fractions":
            said, got = answers("run", f"npy:ones.npy,layout={layout}")
            check(f"0 and 1 to a model of {trained}", said.returncode == 2 and "cannot be told whether 1 is a fraction" in said.stderr, said.stderr)

# Half floats are numbers; a structured array is named; labels are classes, of each position or one-hot.
numbers = [struct.unpack("e", struct.pack("e", chance.gauss(0, 2)))[0] for _ in range(60)]
numbers[:6] = [0.0, -0.0, 6e-8, -65504.0, 1.0, -0.0001]
numbers = [struct.unpack("e", struct.pack("e", x))[0] for x in numbers]
kinds = [i % 4 for i in range(20)]
for kind in "f2", "f4":
    npy(kind + ".npy", "<" + kind, (20, 3), numbers)
npy("y.npy", "<i8", (20,), kinds)
npy("hot.npy", "<f4", (20, 4), [float(c == k) for k in kinds for c in range(4)])
check("train on half floats", train("run", "mlp", "npy:f2.npy,y.npy").returncode == 0)
check("half floats are those numbers", near(answers("run", "npy:f2.npy")[1], answers("run", "npy:f4.npy")[1], 0))
npy("bad.npy", "<f2", (20, 3), [math.inf] + numbers[1:])
said = train("run", "mlp", "npy:bad.npy,y.npy")
check("half floats that are no numbers", "and not a finite number" in said.stderr, said.stderr)
check("train on classes", train("run", "mlp", "npy:f4.npy,y.npy", "-e", "3").returncode == 0)
said = train("hot", "mlp", "npy:f4.npy,hot.npy", "-e", "3")
check("train on one-hot labels", said.returncode == 0, said.stderr)
check("one-hot labels are classes", near(answers("run", "npy:f4.npy")[1], answers("hot", "npy:f4.npy")[1], 0))
with open("fields.npy", "wb") as f:
    head = "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (20,), }"
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(160))
said = train("run", "mlp", "npy:fields.npy,y.npy")
check("a structured array", "the array is structured" in said.stderr, said.stderr)
npy("tokens.npy", "<i4", (30, 5), [i * 37 % 140 for i in range(150)])
with open("tokens.yaml", "w") as f:
    f.write("layers:\n  - {type: embedding, units: 3}\n  - {type: linear, units: outputs}\n")
said = train("run", "tokens.yaml", "npy:x=tokens.npy,label=tokens.npy")
check("many classes of positions", said.returncode == 0, said.stderr)

# Several inputs share one normalisation; no input is left out of it without a word.
npy("q.npy", "<u1", (20, 3), [i * 41 % 256 for i in range(60)])
npy("r.npy", "<u1", (20, 3), [i * 59 % 256 for i in range(60)])
npy("f8.npy", "<f8", (20, 3), numbers)
with open("two.yaml", "w") as f:
    f.write("layers:\n  - {type: add, from: \"x, q\"}\n  - {type: linear, units: outputs}\n")
for x, q, how, told in (
    ("f4", "q", "auto", "divide the bytes by 255"), ("q", "f8", "unit", "divide the bytes by 255"),
    ("f4", "q", "standard", "computes one mean"), ("f4", "f8", "standard", "computes one mean"), ("q", "r", "standard", "computes one mean"),
    ("f4", "q", "none", None), ("q", "r", "auto", None), ("q", "r", "unit", None), ("f4", "f8", "auto", None)):
    said = train("run", "two.yaml", f"npy:x={x}.npy,q={q}.npy,label=y.npy", "--normalize", how)
    check(f"inputs {x} and {q}, {how}", (told in said.stderr and said.returncode == 2) if told else said.returncode == 0, said.stderr)

print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
