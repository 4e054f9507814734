#!/usr/bin/env python3
"""What types of numbers cost in accuracy: each model over three seeds in f32, in mixed precision, and without f32 masters.

usage: precision.py WEFT [NAME...]

The table has the mean over the seeds of the last evaluation, with the least and the most, and the distance from f32: points of
accuracy for pictures (at most 0.3, without masters 0.5), nats of loss for texts (at most 0.01, and 0.03). Exit code 1: a mean is
further off. NAME: only models with it in their names. SEEDS: 3; THREADS: of each run, one after the other, 1.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

WEFT = os.path.abspath(sys.argv[1])
WANTED = sys.argv[2:]
SHARED = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SEEDS = int(os.environ.get("SEEDS", "3"))
MNIST = f"idx:{SHARED / 'mnist15k'}"
TEXT = f"text:{SHARED / 'tinyshakespeare' / 'input.txt'},unit=char,context=64"
TYPES = [("f32", []), ("bf16", ["--dtype", "bf16"]), ("bf16 weights", ["--dtype", "bf16", "--weights", "bf16"])]
POINTS, NATS = {"bf16": 0.3, "bf16 weights": 0.5}, {"bf16": 0.01, "bf16 weights": 0.03}
MODELS = [
    ("lenet", MNIST, "--batch 50 --epochs 3"),
    ("vgg11", "glyphs:size=32,train=4000,test=1000", "--batch 50 --epochs 5 --lr 0.0005 --lr-schedule cosine --warmup 40"),
    ("gpt:layers=2,heads=4,width=64", f"{TEXT},stride=32", "--batch 16 --steps 400 --lr 0.002"),
    ("char-lstm:layers=1,units=128", f"{TEXT},stride=32", "--batch 16 --steps 400 --lr 0.003"),
]


def last(model, data, options, seed):
    """The last evaluation of a run."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        subprocess.run([WEFT, "train", "-q", "-t", os.environ.get("THREADS", "1"), "--model", model, "--data", data, "--seed", str(seed),
                        "--metrics", metrics, *options], check=True)
        with open(metrics, encoding="utf-8") as lines:
            return [event for event in map(json.loads, lines) if event["event"] == "eval"][-1]


def main():
    off = False
    print("| model | numbers | result (least to most) | from f32 |\n|---|---|---|---|", flush=True)
    for model, data, options in MODELS:
        if WANTED and not any(name in model for name in WANTED):
            continue
        if str(SHARED) in data and not SHARED.exists():
            print(f"{model} is skipped: there is no {SHARED}", file=sys.stderr)
            continue
        text, base = data.startswith("text:"), None
        for name, more in TYPES:
            runs = [last(model, data, options.split() + more, seed + 1) for seed in range(SEEDS)]
            values = [run["loss"] if text else 100 * run["accuracy"] for run in runs]
            mean = statistics.mean(values)
            base = mean if base is None else base
            worse = (mean - base if text else base - mean) if name != "f32" else 0
            allowed = (NATS if text else POINTS).get(name, 0)
            off = off or worse > allowed
            unit = "nats" if text else "points"
            form = "{:.4f}" if text else "{:.2f}"
            print(f"| {model} | {name} | {form.format(mean)} {unit} ({form.format(min(values))} to {form.format(max(values))}) | "
                  f"{form.format(mean - base) if name != 'f32' else ''}{' TOO FAR' if worse > allowed else ''} |", flush=True)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
