#!/usr/bin/env python3
"""How long it takes to build the programs of deep models, and to plan for many ranks.

usage: building.py WEFT [ROUNDS]
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

WEFT = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
DATA = "--data glyphs:size=8,train=4096,test=10 -t 1"


def deep(path, layers):
    """So many dense and tanh layers, taking turns."""
    with open(path, "w") as f:
        f.write("layers:\n")
        for _ in range(layers // 2):
            f.write("  - {type: dense, units: 16}\n  - {type: tanh}\n")
        f.write("  - {type: dense, units: classes}\n")


def show(what, words):
    """Median seconds of the command, and the most memory that one of them took."""
    times = []
    for _ in range(ROUNDS):
        start = time.monotonic()
        process = subprocess.Popen([WEFT] + words.split(), stdout=subprocess.DEVNULL)
        _, code, used = os.wait4(process.pid, 0)
        if code:
            sys.exit(f"failed: weft {words}")
        times.append(time.monotonic() - start)
    print(f"  {what:<58} {statistics.median(times):6.2f} s {used.ru_maxrss / 1024:6.0f} MB")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for layers in (100, 500, 1000, 3000):
        deep(f"{layers}.yaml", layers)
        show(f"{layers:5} layers, from start to the end of one step",
             f"train --model {layers}.yaml {DATA} --batch 10 --steps 1 -q")
    for n, mesh in ((8, "data=8"), (8, "data=4,tensor=2"), (8, "pipeline=8"), (8, "data=8 --zero 3")):
        show(f" 3000 layers, the plan of 8 ranks, {mesh}",
             f"plan --model 3000.yaml {DATA} --batch 64 -n {n} --mesh {mesh}" +
             (" --microbatches 8" if "pipeline" in mesh else ""))
    for mesh in ("data=1024", "data=128,tensor=8", "data=128,pipeline=8 --microbatches 2", "data=1024 --zero 3"):
        show(f"vgg11, the plan of 1,024 ranks, {mesh}",
             f"plan --model vgg11 --data glyphs:size=32,train=4096,test=10 -t 1 --batch 2048 -n 1024 --mesh {mesh}")
