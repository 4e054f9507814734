#!/usr/bin/env python3
"""Data that are read otherwise than they were trained on: tests/data/later_data.py PATH/TO/weft

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
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft
from npy import write_npy
from torch_compare import single

scratch()


def run(*words):
    return subprocess.run([weft, *words, "-t", "1"], capture_output=True, text=True, timeout=120)


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
    write_npy(name + "_x.npy", "<f4", (rows, positions, width), [v if j < n * width else padding for r, n in zip(x, lengths) for j, v in enumerate(r)])
    write_npy(name + "_n.npy", "<i8", (rows,), lengths)
    write_npy(name + "_y.npy", "<i8", (rows,), [int(sum(r[:n * width]) > 5 * n * width) for r, n in zip(x, lengths)])
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
    """The answers of a server to each of the requests {name: (datatype, shape, numbers)}; a datatype of None: numbers is a table for
    .../predict. shape None: the metadata."""
    server = subprocess.Popen([weft, "serve", "-t", "1", f"m={folder}", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = next((p.group(1) for p in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout) if p), None)
    found = {}
    for name, (kind, shape, numbers) in asked.items():
        body = json.dumps({"inputs": [{"name": "x", "datatype": kind, "shape": shape, "data": numbers}]}) if kind else numbers
        path = "" if shape is None else "/infer" if kind else "/predict"
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m{path}", body.encode() if path else None)
        try:
            reply = json.load(urllib.request.urlopen(request, timeout=60))
            found[name] = reply["outputs"][0]["data"] if kind else reply
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
        write_npy(name + ".npy", "<f4" if name == "fractions" else "<u1" if name == "u1" else "<" + name, (rows, *shape), numbers)
    write_npy("y.npy", "<i4", (rows,), kinds)
    for trained in forms:
        said = train("run", "mlp", f"npy:{trained}.npy,y.npy,layout={layout},test=0", "-e", "2")
        check(f"train on {trained}", said.returncode == 0, said.stderr)
        said, want = answers("run", f"npy:{trained}.npy,layout={layout}")
        check(f"{trained} needs no note", "255" not in said.stderr, said.stderr)
        for later in forms:
            said, got = answers("run", f"npy:{later}.npy,layout={layout}")
            check(f"{later} to a model of {trained}", near(got, want), said.stderr or (got[:4], want[:4]))
            check(f"a note of {later}, {trained}", ("by 255" in said.stderr) == ((later == "fractions") != (trained == "fractions")), said.stderr)
        # 0 and 1 may be fractions or pixels, and a fraction in one sample may be a dark pixel: both commands refuse both.
        zeros_and_ones = [int(p > 100) for p in pixels]
        mixed = [p / 255 for p in pixels[:size]] + pixels[size:]
        doubtful = {f"0 and 1 as {kind}": (kind, zeros_and_ones) for kind in ("u1", "i4", "f4", "f8", "b1")}
        doubtful["a sample of fractions"] = "f8", mixed
        refused = {}
        for name, (kind, numbers) in doubtful.items():
            write_npy("doubt.npy", "|b1" if kind == "b1" else "<" + kind, (rows, *shape), numbers)
            said, got = answers("run", f"npy:doubt.npy,layout={layout}")
            refused[name] = said.returncode != 0
            told = "it cannot be told in which unit" if name == "a sample of fractions" else "it cannot be told whether 1 is a"
            fraction = name == "a sample of fractions" or (kind in ("f4", "f8", "b1")) == (trained != "fractions")
            check(f"{name} to a model of {trained}", refused[name] == fraction and (told in said.stderr or not fraction), said.stderr)
        if trained in ("u1", "fractions") and len(shape) == 3:
            kinds_of = {"u1": "UINT8", "i4": "INT32", "f4": "FP32", "f8": "FP64", "fractions": "FP32", "b1": "BOOL"}
            for later, got in served("run", {n: (kinds_of[n], [rows, *shape], forms[n]) for n in forms}).items():
                check(f"{later} served by a model of {trained}", near(got, want), (got[:4], want[:4]))
            for later, got in served("run", {n: (kinds_of[kind], [rows, *shape], [bool(v) for v in numbers] if kind == "b1" else numbers)
                                             for n, (kind, numbers) in doubtful.items()}).items():
                check(f"{later} served by a model of {trained}", (type(got) is bytes and b"it cannot be told" in got) == refused[later], got[:300])

# A server takes samples in the layout of the training's file, also flat ones, and says it; else in that of the network.
for layout, shape in ("hwc", (9, 8, 3)), ("wc", (7, 5)), ("wc", (5, 5)), ("dhwc", (3, 4, 5, 2)), ("chw", (3, 9, 8)), ("cw", (5, 7)), ("hw", (8, 9)):
    rows, size = 12, math.prod(shape)
    x = [single(chance.gauss(0, 2)) for _ in range(rows * size)]
    write_npy("x.npy", "<f4", (rows, *shape), x)
    write_npy("y.npy", "<i4", (rows,), [i % 3 for i in range(rows)])
    said = train("run", "mlp", f"npy:x.npy,y.npy,layout={layout},test=0", "-e", "2")
    check(f"train on {layout}", said.returncode == 0, said.stderr)
    said, want = answers("run", "npy:x.npy")
    order, here = list(range(size)), list(shape)
    if layout.endswith("c"):
        pixels, here = size // shape[-1], [shape[-1], *shape[:-1]]
        order = [j % pixels * shape[-1] + j // pixels for j in range(size)]
    moved = [x[row * size + j] for row in range(rows) for j in order]
    asked = {"flat": ("FP32", [rows, size], x), "as in the file": ("FP64", [rows, *shape], x), "metadata": (None, None, ""),
             "a table": (None, [], "".join(",".join(map(repr, x[row * size:row * size + size])) + "\n" for row in range(rows)))}
    if here != list(shape):
        asked["as in the network"] = "FP32", [rows, *here], moved
    if layout == "hw":
        asked["as in the network"] = "FP32", [rows, 1, *shape], x
    for name, got in served("run", asked).items():
        if name == "metadata":
            check(f"metadata of {layout}", got["inputs"][0]["shape"] == [-1, *([1] if layout == "hw" else []), *shape], got)
        elif name == "a table":
            best = [max(want[i:i + 3]) for i in range(0, len(want), 3)]
            check(f"a table of {layout}", type(got) is dict and near([p["probability"] for p in got["predictions"]], best, 1e-4), got)
        else:
            check(f"{name}, {layout}", near(got, want), (got[:40], want[:4]))

# A number that single precision cannot hold after normalisation is refused by both commands; tanh would make 1 of it.
with open("tanh.yaml", "w") as f:
    f.write("layers:\n  - {type: dense, units: 4}\n  - {type: tanh}\n  - {type: dense, units: outputs}\n")
with open("t.csv", "w") as f:
    f.write("a,b,y\n" + "".join(f"{i % 7},{i % 5 * 1e-3},{i % 3}\n" for i in range(40)))
check("train with tanh", train("run", "tanh.yaml", "csv:t.csv,label=y", "-e", "1").returncode == 0)
for number, good in (1, True), (1e30, True), (1e37, False), (1e300, False), (-1e300, False):
    with open("later.csv", "w") as f:
        f.write(f"a,b\n1,2e-3\n3,{number}\n")
    said = run("predict", "run", "-d", "csv:later.csv")
    check(f"predict {number}", (said.returncode == 0) == good and ("not a finite number in single" in said.stderr) == (not good), said.stderr)
    table = f"a,b\n1,2e-3\n3,{number}\n"
    for name, got in served("run", {"FP64": ("FP64", [2, 2], [1, 2e-3, 3, number]), "a table": (None, [], table)}).items():
        check(f"{name} with {number}", type(got) is not bytes if good else b"number 2 of row 2 is " in got and b"not a finite number" in got, got)

# Half floats are numbers; a structured array is named; labels are classes, of each position or one-hot.
numbers = [struct.unpack("e", struct.pack("e", chance.gauss(0, 2)))[0] for _ in range(60)]
numbers[:6] = [0.0, -0.0, 6e-8, -65504.0, 1.0, -0.0001]
numbers = [struct.unpack("e", struct.pack("e", x))[0] for x in numbers]
kinds = [i % 4 for i in range(20)]
for kind in "f2", "f4":
    write_npy(kind + ".npy", "<" + kind, (20, 3), numbers)
write_npy("y.npy", "<i8", (20,), kinds)
write_npy("hot.npy", "<f4", (20, 4), [float(c == k) for k in kinds for c in range(4)])
check("train on half floats", train("run", "mlp", "npy:f2.npy,y.npy").returncode == 0)
check("half floats are those numbers", near(answers("run", "npy:f2.npy")[1], answers("run", "npy:f4.npy")[1], 0))
write_npy("bad.npy", "<f2", (20, 3), [math.inf] + numbers[1:])
said = train("run", "mlp", "npy:bad.npy,y.npy")
check("half floats that are no numbers", "and not a finite number" in said.stderr, said.stderr)
check("train on classes", train("run", "mlp", "npy:f4.npy,y.npy", "-e", "3").returncode == 0)
said = train("hot", "mlp", "npy:f4.npy,hot.npy", "-e", "3")
check("train on one-hot labels", said.returncode == 0, said.stderr)
check("one-hot labels are classes", near(answers("run", "npy:f4.npy")[1], answers("hot", "npy:f4.npy")[1], 0))
write_npy("side.npy", "<f4", (20, 4, 5), [chance.gauss(0, 2) for _ in range(400)])
said = run("train", "-m", "mlp", "-d", "npy:side.npy,hot.npy,layout=cw", "-b", "8")
check("labels that may be those of positions", "hot.npy: each row has a single 1 among 4 numbers, but samples have a side of 4, too" in said.stderr, said.stderr)
with open("fields.npy", "wb") as f:
    head = "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (20,), }"
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(160))
said = train("run", "mlp", "npy:fields.npy,y.npy")
check("a structured array", "the array is structured" in said.stderr, said.stderr)
write_npy("tokens.npy", "<i4", (30, 5), [i * 37 % 140 for i in range(150)])
with open("tokens.yaml", "w") as f:
    f.write("layers:\n  - {type: embedding, units: 3}\n  - {type: linear, units: outputs}\n")
said = train("run", "tokens.yaml", "npy:x=tokens.npy,label=tokens.npy")
check("many classes of positions", said.returncode == 0, said.stderr)

# Masks have a class for each pixel, and so may weights; rows of pixels are cut among ranks.
image = [chance.gauss(0, 2) for _ in range(960)]
write_npy("image.npy", "<f4", (20, 6, 8), image)
table2 = [[single(chance.gauss(5, 2)), single(chance.gauss(100, 9))] for _ in range(30)]
with open("later2.csv", "w") as f:
    f.write("a,b,kind\n" + "".join(f"{a},{b},{i % 3}\n" for i, (a, b) in enumerate(table2)))
mask, share = [chance.randrange(2) for _ in range(960)], [single(chance.random()) for _ in range(960)]
for name, shape in ("mask", (20, 6, 8)), ("mask4", (20, 1, 6, 8)), ("flat", (20, 48)):
    write_npy(name + ".npy", "|b1" if name == "mask" else "<i4", shape, mask)
    write_npy("w" + name + ".npy", "<f4", shape, share)
with open("masks.yaml", "w") as f:
    f.write("layers:\n  - {type: conv, filters: 4, padding: 1}\n  - {type: relu}\n  - {type: conv, filters: 2, kernel: 1}\n  - {type: channels_last}\n")
found = []
for name, more in ("flat", ()), ("mask", ()), ("mask4", ()), ("mask", ("-n", "3", "--mesh", "domain=3")):
    said = train("run", "masks.yaml", f"npy:image.npy,{name}.npy,weight=w{name}.npy,layout=hw", *more)
    check(f"train on {name} {more}", said.returncode == 0, said.stderr)
    found.append(answers("run", "npy:image.npy,layout=hw")[1])
check("masks are labels of pixels", all(near(each, found[0], 1e-5 if i == 3 else 0) for i, each in enumerate(found)))
said = train("run", "unet:depth=1,width=2", "npy:image.npy,mask.npy,layout=hw", "--augment", "flip")
check("augmented masks", said.returncode == 0, said.stderr)
for model, data, words in (("unet:depth=2", "image.npy,mask.npy", "sides are multiples of 4, or a smaller depth"), ("unet:depth=1", "image.npy,y.npy", "each of the 6 by 8 pixels")):
    said = train("run", model, f"npy:{data},layout=hw")
    check(f"{model} on {data}", words in said.stderr, said.stderr)

# Data whose target is their features are those whose target is another array of them, with or without labels.
write_npy("again.npy", "<f4", (20, 48), [single(x) for x in image])
found = []
for data in "npy:image.npy,target=again.npy,layout=hw", "reconstruct:npy:image.npy,layout=hw", "reconstruct:npy:image.npy,mask.npy,layout=hw":
    said = train("run", "autoencoder:code=3,width=9", data, "--normalize", "none", "-e", "3")
    check(f"train on {data}", said.returncode == 0, said.stderr)
    told = json.loads(run("eval", "run", "--json").stdout)
    found.append([told[figure] for figure in ("samples", "loss", "mae", "rmse")])
check("reconstructions", found[1:] == found[:2] and found[0][0] == 4, found)
check("a plain input is made again", [len(answers("run", "reconstruct:npy:image.npy,layout=hw", *more)[1]) for more in ((), ("--split", "all"))] == [4 * 48, 20 * 48])
said = train("run", "mlp", "reconstruct:csv:later2.csv", "--validation", "0.3")
rows = [json.loads(line) for line in run("predict", "run", "--json").stdout.splitlines()]
told, mean = json.loads(run("eval", "run", "--json").stdout), [sum(t) / 30 for t in zip(*table2)]
spread = [math.sqrt(sum((x - m) ** 2 for x in t) / 30) for t, m in zip(zip(*table2), mean)]
check("reconstruct a table", said.returncode == 0 and len(rows) == 6 and all(near(r["target"], table2[r["sample"]], 1e-4) for r in rows), (said.stderr, rows))
loss = sum(((x - y) / d) ** 2 for r in rows for x, y, d in zip(r["target"], r["predicted"], spread)) / sum(len(r["target"]) for r in rows)
check("the loss of a reconstruction", abs(loss - told["loss"]) < 0.5 * told["loss"], (loss, told))
for inner in "glyphs:train=9,test=3", "npy:image.npy,layout=hw", "csv:later2.csv":
    for data in f"reconstruct:reconstruct:{inner}", f"reconstruct:reconstruct:reconstruct:{inner}":
        for name, *words in ("train", "-m", "mlp"), ("inspect", "-m", "mlp"), ("plan", "-m", "mlp"), ("eval", "-c", "run"), ("predict", "-c", "run"):
            said = run(name, *words, "--data", data)
            check(f"{name} {data}", said.returncode == 2 and "write reconstruct: once" in said.stderr, said)
for model, data, words in (("autoencoder", "npy:f4.npy,y.npy", "the 3 numbers of a sample, and the data have classes"), ("mlp", "reconstruct:npy:x=tokens.npy", "one input of at most"),
                           ("mlp", "reconstruct:", "needs other data, as in reconstruct:glyphs")):
    said = train("run", model, data)
    check(f"{model} on {data}", words in said.stderr, said.stderr)

# Several inputs share one normalisation; no input is left out of it without a word.
write_npy("q.npy", "<u1", (20, 3), [i * 41 % 256 for i in range(60)])
write_npy("r.npy", "<u1", (20, 3), [i * 59 % 256 for i in range(60)])
write_npy("f8.npy", "<f8", (20, 3), numbers)
with open("two.yaml", "w") as f:
    f.write("layers:\n  - {type: add, from: \"x, q\"}\n  - {type: linear, units: outputs}\n")
for x, q, how, told in (
    ("f4", "q", "auto", "divide the bytes by 255"), ("q", "f8", "unit", "divide the bytes by 255"),
    ("f4", "q", "standard", "computes one mean"), ("f4", "f8", "standard", "computes one mean"), ("q", "r", "standard", "computes one mean"),
    ("f4", "q", "none", None), ("q", "r", "auto", None), ("q", "r", "unit", None), ("f4", "f8", "auto", None)):
    said = train("run", "two.yaml", f"npy:x={x}.npy,q={q}.npy,label=y.npy", "--normalize", how)
    check(f"inputs {x} and {q}, {how}", (told in said.stderr and said.returncode == 2) if told else said.returncode == 0, said.stderr)

sys.exit(end())
