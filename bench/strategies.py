#!/usr/bin/env python3
"""What each strategy needs to learn, and what it sends: four learners train lenet on MNIST.

usage: strategies.py WEFT [EPOCHS] [NAME...]

For each: samples until the test part is 96 % right (looked at once an epoch), the best and the last accuracy, bytes
sent between learners and servers (with everything around the numbers), and how many times fewer that is than the same
strategy would send as float32. NAME: only strategies whose options have it in them.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WEFT = os.path.abspath(sys.argv[1])
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
WANTED = sys.argv[3:]
HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "data" / "mnist15k"
DATA = f"idx:{SHARED}" if SHARED.exists() else "glyphs:size=28,train=10000,test=5000"
LEARNERS, BATCH, TARGET = 4, 25, 0.96
WEIGHTS = 4 * 1111946  # bytes of lenet's, as float32

ASYNC = "--exchange server:policy=async --servers 2"
STRATEGIES = [
    "--mesh data=4",
    "--exchange average:every=1",
    "--exchange average:every=8",
    "--exchange easgd",
    "--exchange hogwild --lr 0.0005",
    "--exchange server:policy=bsp --servers 2",
    "--exchange server:policy=softsync,c=2 --servers 2",
    "--exchange server:policy=ssp,bound=3 --servers 2 --lr 0.0005",
    ASYNC + " --lr 0.0005",
    "--exchange gossip",
    "--exchange gossip:mode=average",
    *[f"--exchange server:policy=bsp --servers 2 --compress {codec}"
      for codec in ("bf16", "onebit", "threshold:tau=0.001", "topk:ratio=0.01,values=bf16")],
    ASYNC + " --lr 0.0005 --compress topk:ratio=0.01,values=bf16",
    *[f"--exchange gossip --compress {codec}"
      for codec in ("bf16", "onebit", "bitmap:tau=0.002", "threshold:tau=0.002", "topk:ratio=0.01,values=bf16",
                    "topk:ratio=0.003,values=bf16")],
    "--exchange gossip --compress dgc:ratio=0.01,momentum=0.5,warmup=40,values=bf16 --optimizer sgd --lr 0.02",
]


def run(options):
    batch = BATCH if "--exchange" in options else BATCH * LEARNERS
    with tempfile.TemporaryDirectory() as folder:
        metrics = f"{folder}/m.jsonl"
        subprocess.run([WEFT, "train", "-q", "--data", DATA, "-n", str(LEARNERS), "-t", "1", "--no-bind", "--batch",
                        str(batch), "--epochs", str(EPOCHS), "--metrics", metrics, *options.split()],
                       check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in open(metrics)]


def dense_bytes(options, steps):
    """What goes in a learner's step without codecs: to servers and back, or to all others."""
    if "gossip" in options and "mode=average" not in options:
        return steps * LEARNERS * (LEARNERS - 1) * WEIGHTS
    return steps * LEARNERS * 2 * WEIGHTS if "server" in options else None


def main():
    print(f"{'samples to 0.96':>15} {'best':>7} {'last':>7} {'sent':>10} {'fewer':>7}  options")
    for options in STRATEGIES:
        if WANTED and not any(name in options for name in WANTED):
            continue
        try:
            rows = run(options)
        except subprocess.CalledProcessError as error:
            print(f"{'ended with ' + str(error.returncode):>15} {'':>34}  {options}", flush=True)
            continue
        summary = rows[-1]
        evals = [row for row in rows if row["event"] == "eval"]
        per_step = BATCH * LEARNERS
        reached = next((f"{row['step'] * per_step}" for row in evals if row["accuracy"] >= TARGET), "not")
        sent = summary.get("exchange_bytes") or sum(row.get("comm_bytes", 0) for row in rows)
        dense = dense_bytes(options, summary["steps"])
        print(f"{reached:>15} {max(row['accuracy'] for row in evals):7.4f} {evals[-1]['accuracy']:7.4f} "
              f"{sent / 1e6:7.0f} MB {f'{dense / sent:6.1f}x' if dense and sent else '':>7}  {options}", flush=True)


main()
