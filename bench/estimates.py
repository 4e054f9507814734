#!/usr/bin/env python3
"""Estimated steps beside measured ones: estimates.py WEFT [STEPS [MODEL...]]

Measures this machine (weft measure), estimates a step of each strategy with each model (weft plan --cluster), and only then runs
them. Prints both times, the relative errors, and the rank correlation of each model. The models `resnet` and `transformer` are not
among the networks that are measured.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
IMAGES, SEQUENCES = ("domain",), ()
# name: (model, data, batch of a step, mesh axes besides data, tensor and pipeline)
MODELS = {
    "lenet": ("lenet", "glyphs:size=28,train=4000,test=10", 100, IMAGES),
    "vgg11": ("vgg11", "glyphs:size=32,train=800,test=10", 48, IMAGES),
    "gpt": ("gpt:layers=2,heads=4,width=128", f"text:{TEXT},unit=char,context=128", 8, SEQUENCES),
    "char-lstm": ("char-lstm:layers=2,units=128", f"text:{TEXT},unit=char,context=64", 16, SEQUENCES),
    "resnet": ("resnet:depth=18,width=16", "glyphs:size=32,train=800,test=10", 32, IMAGES),
    "transformer": ("gpt:layers=3,heads=2,width=96", f"text:{TEXT},unit=char,context=96", 12, SEQUENCES),
}
# Options of two ranks; the batch is that of a learner.
STRATEGIES = [
    "ranks=1 threads=2", "ranks=1 threads=1", "ranks=1 threads=2 microbatches=4", "ranks=1 threads=2 recompute",
    "mesh=data=2", "mesh=data=2 zero=1", "mesh=data=2 zero=2", "mesh=data=2 zero=3", "mesh=data=2 microbatches=2",
    "mesh=data=2 sum-dtype=bf16", "mesh=tensor=2", "mesh=domain=2", "mesh=pipeline=2 microbatches=4",
    "mesh=pipeline=2 microbatches=4 schedule=gpipe", "mesh=pipeline=2 microbatches=2", "exchange=average", "exchange=average:every=4",
    "exchange=oneshot",
]


def command(weft, verb, model, strategy, *more):
    name, data, batch, _ = MODELS[model]
    words = [weft, verb, "--model", name, "--data", data, "--batch", str(batch), "-n", "2"]
    for word in strategy.split():
        key, _, value = word.partition("=")
        words += [f"--{key}"] + ([value] if value else [])
    return words + list(more)


def estimate(weft, cluster, model, strategy):
    done = subprocess.run(command(weft, "plan", model, strategy, "--cluster", cluster), capture_output=True, text=True)
    found = re.search(r"a step takes ([0-9.e+-]+) ms \(([0-9.e+-]+) to ([0-9.e+-]+)\)", done.stdout)
    return [float(x) for x in found.groups()] if found else None


def measure(weft, model, strategy, steps):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run(command(weft, "train", model, strategy, "-q", "--steps", str(steps), "--metrics", out.name), capture_output=True, text=True)
        if done.returncode:
            return None
        rows = [json.loads(line) for line in open(out.name)]
    learners = 2 if "exchange=" in strategy else 1
    seconds = [MODELS[model][2] * learners / row["samples_per_second"] for row in rows if row["event"] == "step"]
    # Learners that meet every four steps take longer for one of these.
    fours = [statistics.mean(seconds[i:i + 4]) for i in range(4, len(seconds) - 3, 4)]
    return 1e3 * statistics.median(fours)


def ranks(numbers):
    order = sorted(range(len(numbers)), key=lambda i: numbers[i])
    return [order.index(i) for i in range(len(numbers))]


def correlation(a, b):
    a, b = ranks(a), ranks(b)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1)) if n > 2 else float("nan")


def main():
    weft, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    models = sys.argv[3:] or list(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        cluster = f"{folder}/here.yaml"
        print(subprocess.run([weft, "measure", "-o", cluster], capture_output=True, text=True, check=True).stdout.replace(folder + "/", ""), end="", flush=True)
        rows = {model: [(s, estimate(weft, cluster, model, s)) for s in STRATEGIES if "domain" not in s or "domain" in MODELS[model][3]]
                for model in models}
    errors = []
    for model in models:
        known = []
        for strategy, e in rows[model]:
            is_ms = measure(weft, model, strategy, steps) if e else None
            if not e or not is_ms:
                print(f"{model:12} {strategy:48} not possible", flush=True)
                continue
            known.append((e[0], is_ms))
            errors.append(abs(e[0] / is_ms - 1))
            print(f"{model:12} {strategy:48} estimated {e[0]:8.2f} ms ({e[1]:.2f} to {e[2]:.2f}), measured {is_ms:8.2f}, {100 * (e[0] / is_ms - 1):+5.1f} %", flush=True)
        if known:
            each = sorted(abs(a / b - 1) for a, b in known)
            print(f"{model}: error {100 * statistics.median(each):.1f} % in the median, {100 * each[-1]:.1f} % at most; rank correlation {correlation(*zip(*known)):.2f}", flush=True)
    errors.sort()
    if errors:
        print(f"all {len(errors)}: error {100 * statistics.median(errors):.1f} % in the median, {100 * errors[len(errors) * 9 // 10]:.1f} % in nine of ten, {100 * errors[-1]:.1f} % at most")


main()
