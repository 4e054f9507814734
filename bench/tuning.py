#!/usr/bin/env python3
"""Steps with kernels chosen by the rule and by a table of measurements, in turns: bench/tuning.py WEFT [ROUNDS]"""
import os
import subprocess
import sys
import tempfile

import runs

weft, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
IMAGES = "glyphs:size=16,train=2000,test=100"
RUNS = [("lenet", IMAGES, 100, 60, "cpu"), ("vgg11", "glyphs:size=32,train=1000,test=100", 100, 6, "cpu"),
        ("inception", IMAGES, 100, 12, "cpu"), ("lenet", IMAGES, 100, 6, "opencl")]


def step(batch, words):
    """The median milliseconds of a step."""
    return 1e3 * batch / runs.rate(runs.train(weft, *words)[0])


with tempfile.TemporaryDirectory() as folder:
    table = os.path.join(folder, "table")
    for model, data, batch, steps, device in RUNS:
        words = ["--model", model, "--data", data, "--batch", str(batch), "--steps", str(steps), "--device", device]
        made = subprocess.run([weft, "train", "-q", *words[:-4], "--steps", "1", "--device", device, "--tune", table], stderr=subprocess.PIPE, text=True)
        if made.returncode:
            print(f"{model:10} {device}: {made.stderr.strip()}")
            continue
        with open(table) as lines:
            measured = sum(line.startswith("measured") for line in lines)
        rule, tuned = zip(*[(step(batch, words), step(batch, [*words, "--tune", table])) for _ in range(rounds)])
        print(f"{model:10} batch {batch} on {device}: by the rule {min(rule):.2f} ms a step, by a table of {measured} measurements {min(tuned):.2f} ms; "
              f"tuned/rule {min(tuned) / min(rule):.2f} (rounds: {', '.join(f'{b / a:.2f}' for a, b in zip(rule, tuned))})", flush=True)
        os.remove(table)
