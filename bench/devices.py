#!/usr/bin/env python3
"""Devices with memory of their own beside the cpu, and what devices cost a command that uses none.

usage: devices.py WEFT [ROUNDS [OLDER_WEFT]]

Rows for lenet, mlp and a small gpt: milliseconds of a step on the cpu, on OpenCL's first device, their ratio, and the peak memory of
both processes; then the median start of the command and its size and that of its library, beside those of an older command.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import runs

WEFT = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
OLDER = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
CASES = {
    "mlp": "--model mlp --data glyphs:size=28,train=2000,test=10 --batch 100",
    "lenet": "--model lenet --data glyphs:size=28,train=2000,test=10 --batch 100",
    "gpt": "--model gpt:layers=2,heads=2,width=64 --data text:{text},unit=char,context=64 --batch 8",
}


def train(device, words, steps):
    """Median seconds of a step, and the peak memory of the process in MB."""
    rows, summary = runs.train(WEFT, "--steps", steps, "--device", device, *words.split())
    ends = [row["seconds"] for row in rows]
    return statistics.median(b - a for a, b in zip(ends[2:], ends[3:])), summary["peak_rss_bytes"] / 1e6


def milliseconds(weft, words):
    times = []
    for _ in range(5 * ROUNDS):
        start = time.monotonic()
        subprocess.run([weft] + words.split(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(1e3 * (time.monotonic() - start))
    return statistics.median(times)


def sizes(weft):
    folder = pathlib.Path(weft).resolve().parent
    libraries = [path.stat().st_size for path in folder.glob("libweft.so*") if not path.is_symlink()]
    return pathlib.Path(weft).stat().st_size / 1e6, max(libraries, default=0) / 1e6


def steps(folder):
    text = pathlib.Path(folder) / "text"
    text.write_text("the cat sat. a dog ran. we see it. " * 4000)
    for name, words in CASES.items():
        words = words.format(text=text)
        try:
            train("opencl", words, 4)  # kernels are compiled once and kept
        except subprocess.CalledProcessError:
            print("  no OpenCL device")
            return
        pairs = [(train("cpu", words, 20), train("opencl", words, 20)) for _ in range(ROUNDS)]
        cpu, other = (statistics.median(pair[i][0] for pair in pairs) for i in (0, 1))
        ratio = statistics.median(pair[1][0] / pair[0][0] for pair in pairs)
        print(f"  {name:<8} step: cpu {1e3 * cpu:8.2f} ms, opencl {1e3 * other:8.2f} ms, ratio {ratio:6.1f};"
              f" memory: {pairs[-1][0][1]:5.0f} MB and {pairs[-1][1][1]:5.0f} MB", flush=True)


with tempfile.TemporaryDirectory() as folder:
    steps(folder)
    small = "train -q --data glyphs:size=16,train=40,test=20 --model mlp --batch 20 --steps 1"
    for weft in filter(None, (OLDER, WEFT)):
        command, library = sizes(weft)
        print(f"  {'older' if weft == OLDER else 'this':<8} weft --version {milliseconds(weft, '--version'):6.1f} ms, train --steps 1"
              f" {milliseconds(weft, small):6.1f} ms; command {command:.2f} MB, library {library:.2f} MB", flush=True)
