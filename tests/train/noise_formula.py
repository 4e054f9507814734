#!/usr/bin/env python3
"""The noise scale of a linear regression whose weights hardly move is that of its gradients, computed sample by sample:
tests/train/noise_formula.py PATH/TO/weft"""
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

weft = str(pathlib.Path(sys.argv[1]).resolve())
SAMPLES, FEATURES, BATCH, STEPS = 4096, 3, 16, 1500
here = pathlib.Path(tempfile.mkdtemp())
draw = random.Random(5)
rows = []
for _ in range(SAMPLES):
    x = [draw.gauss(0.5, 1) for _ in range(FEATURES)]
    rows.append((x, 2 * x[0] - x[1] + draw.gauss(0, 1)))
with open(here / "line.csv", "w") as f:
    print(",".join(f"x{i}" for i in range(FEATURES)) + ",y", file=f)
    for x, y in rows:
        print(",".join(repr(v) for v in x) + f",{y!r}", file=f)
(here / "line.yaml").write_text("loss: mse\nlayers:\n  - {type: dense, units: outputs}\n")


def tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            kind = {"F32": "f", "F64": "d"}[t["dtype"]]
            yield name, list(struct.unpack(f"<{(end - begin) // struct.calcsize(kind)}{kind}", data[8 + size + begin:8 + size + end]))


def measured(folder, *more):
    subprocess.run([weft, "train", "--model", "line.yaml", "--data", "csv:line.csv,target=y,test=0", "--normalize", "none", "-t", "1",
                    "--dtype", "f64", "--device", "reference", "--optimizer", "sgd", "--lr", "1e-9", "-b", str(BATCH), "--steps", str(STEPS),
                    "--noise-scale", "1", "--metrics", folder + ".jsonl", "-c", folder, "-q", *more], cwd=here, check=True)
    lines = [json.loads(line) for line in open(here / (folder + ".jsonl"))]
    return [line["noise_scale"] for line in lines if line["event"] == "step" and "noise_scale" in line]


def by_hand(folder):
    """tr(covariance) / |mean|^2 of the gradients of all samples, at the weights of a checkpoint."""
    subprocess.run([weft, "export", folder + "/latest", "-o", folder + ".safetensors"], cwd=here, check=True, stdout=subprocess.DEVNULL)
    values = dict(tensors(here / (folder + ".safetensors")))
    weight, bias = (next(v for v in values.values() if len(v) == n) for n in (FEATURES, 1))
    total, squares = [0.0] * (FEATURES + 1), 0.0
    for x, y in rows:
        residual = sum(a * b for a, b in zip(weight, x)) + bias[0] - y
        gradient = [residual * v for v in x + [1]]
        total = [a + b for a, b in zip(total, gradient)]
        squares += sum(g * g for g in gradient)
    length = sum((t / SAMPLES) ** 2 for t in total)
    return (squares / SAMPLES - length) / length


for number, more in enumerate((["--microbatches", "2"], ["--virtual-workers", "8"])):
    scales = measured(f"run{number}", *more)
    right = by_hand(f"run{number}")
    # Measurements are means over some ten steps; their median over all steps is that of the formula.
    assert len(scales) > STEPS * 0.9, f"{len(scales)} of {STEPS} steps have a noise scale"
    middle = statistics.median(scales[50:])
    assert abs(middle / right - 1) < 0.1, f"{more}: the noise scale is {middle}, by hand {right}"
