#!/usr/bin/env python3
"""Strategies against each other in one run: rounds that take turns, medians, ratios.

usage: parallel.py WEFT [ROUNDS [WORD]]

With WORD only those comparisons whose title has it.
"""
import os
import pathlib
import statistics
import subprocess
import sys

import runs

WEFT = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
WORD = sys.argv[3] if len(sys.argv) > 3 else ""
HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "data" / "mnist15k"
DATA = f"idx:{SHARED}" if SHARED.exists() else "glyphs"


def rate(arguments, steps):
    """Median samples/s of the later steps, and the last metrics line of a step. Where learners do not go
    in lock step, the first one's times their number."""
    rows, _ = runs.train(WEFT, "--steps", steps, *arguments)
    return runs.rate(rows), rows[-1]


def torch_ddp():
    out = subprocess.run([sys.executable, str(HERE / "torch_ddp.py")], capture_output=True, text=True)
    return float(out.stdout.split()[-1]) if out.returncode == 0 and out.stdout else None


def compare(title, configurations, steps, goals={}):
    """Runs the configurations in turns and prints medians with their share of the first."""
    if WORD not in title:
        return
    rates = {name: [] for name, _ in configurations}
    last = {}
    for _ in range(ROUNDS):
        for name, arguments in configurations:
            value, last[name] = (torch_ddp(), {}) if arguments is None else rate(arguments, steps)
            if value:
                rates[name].append(value)
    print(f"\n{title}")
    for name, _ in configurations:
        if not rates[name]:
            print(f"  {name:44} not installed")
            continue
        median = statistics.median(rates[name])
        ratios = sorted(a / b for a, b in zip(rates[name], rates[configurations[0][0]]))
        print(f"  {name:44} {median:8.0f} samples/s  {100 * statistics.median(ratios):6.1f} % "
              f"(rounds {100 * ratios[0]:.1f} to {100 * ratios[-1]:.1f})  "
              f"waits {100 * last[name].get('bubble_fraction', 0):.0f} %"
              + (f"  (goal: {goals[name]} %)" if name in goals else ""))


lenet = ["--data", DATA, "--batch", "100"]
compare("lenet, batch 100: two ranks of one thread against one rank of two", [
    ("1 rank x 2 threads", lenet + ["-t", "2"]),
    ("threads: data=2, 1 thread each", lenet + ["-n", "2", "-t", "1"]),
    ("threads: the same, 2 virtual workers", lenet + ["-n", "2", "-t", "1", "--virtual-workers", "2"]),
    ("threads: data=2, zero 1", lenet + ["-n", "2", "-t", "1", "--zero", "1"]),
    ("threads: data=2, zero 3", lenet + ["-n", "2", "-t", "1", "--zero", "3"]),
    ("threads: tensor=2", lenet + ["-n", "2", "-t", "1", "--mesh", "tensor=2"]),
    ("threads: domain=2", lenet + ["-n", "2", "-t", "1", "--mesh", "domain=2"]),
    ("threads: average every 10 (two batches a step)", lenet + ["-n", "2", "-t", "1", "--exchange",
                                                               "average:every=10"]),
    ("mpi: data=2, 1 thread each", lenet + ["-n", "2", "-t", "1", "--engine", "mpi"]),
    ("PyTorch DistributedDataParallel, Gloo, 2 x 1", None),
], 120)
mixed = lenet + ["--dtype", "bf16"]
compare("lenet in bf16, batch 100: two ranks of one thread against one rank of two", [
    ("1 rank x 2 threads", mixed + ["-t", "2"]),
    ("threads: data=2, 1 thread each", mixed + ["-n", "2", "-t", "1"]),
    ("threads: data=2, sums in bf16", mixed + ["-n", "2", "-t", "1", "--sum-dtype", "bf16"]),
    ("threads: data=2, zero 1", mixed + ["-n", "2", "-t", "1", "--zero", "1"]),
    ("threads: data=2, zero 3", mixed + ["-n", "2", "-t", "1", "--zero", "3"]),
    ("mpi: data=2, 1 thread each", mixed + ["-n", "2", "-t", "1", "--engine", "mpi"]),
], 120)
compare("lenet, batch 100: 8 virtual workers on two ranks against as many micro-batches", [
    ("data=2, 4 micro-batches", lenet + ["-n", "2", "-t", "1", "--microbatches", "4"]),
    ("data=2, 8 virtual workers", lenet + ["-n", "2", "-t", "1", "--virtual-workers", "8"]),
], 120)
alone = lenet[:2] + ["-n", "2", "-t", "1", "--batch", "100", "--exchange"]
compare("lenet, 100 samples a rank: two learners that wait for nobody against two ranks in step", [
    ("data=2", lenet[:2] + ["-n", "2", "-t", "1", "--batch", "200"]),
    ("hogwild", alone + ["hogwild"]),
    ("hogwild, all blocks looked at", alone + ["hogwild:sample=1"]),
    ("easgd every 10", alone + ["easgd:every=10"]),
    ("server, async", alone + ["server:policy=async"]),
    ("server, async, push 5, fetch 5", alone + ["server:policy=async,push=5,fetch=5"]),
], 120, {"hogwild": 100, "server, async": 90})
vgg = ["--model", "vgg11", "--data", "glyphs:size=32,train=400,test=10", "--batch", "64"]
compare("vgg11 on 32x32, batch 64: a pipeline of two stages, 8 micro-batches", [
    ("1 rank x 2 threads", vgg + ["-t", "2", "--microbatches", "8"]),
    ("pipeline=2, 1f1b", vgg + ["-n", "2", "-t", "1", "--mesh", "pipeline=2", "--microbatches", "8"]),
    ("pipeline=2, gpipe", vgg + ["-n", "2", "-t", "1", "--mesh", "pipeline=2", "--microbatches", "8",
                                 "--schedule", "gpipe"]),
], 8)
branches = "mix*/b3*=cpu:1,mix*/b4*=cpu:1,mix*/b1*=cpu:0,mix*/b2*=cpu:0,mix*/join=cpu:0,*=cpu:0"
inception = ["--model", "inception", "--data", DATA, "--batch", "8"]
compare("inception, batch 8: two branches on each core against both cores on one", [
    ("1 rank x 2 threads", inception + ["-t", "2"]),
    ("branches on cpu:0 and cpu:1", inception + ["-n", "2", "-t", "1", "--place", branches]),
    ("data=2", inception + ["-n", "2", "-t", "1"]),
], 100)
