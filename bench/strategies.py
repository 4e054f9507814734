#!/usr/bin/env python3
"""What each strategy needs to learn, and what it sends: four learners train lenet on MNIST.

usage: strategies.py WEFT [EPOCHS] [NAME...]

For each: samples until the test part is 96 % right (looked at once an epoch), the best and the last accuracy, bytes
sent by all learners and servers together (with everything around the numbers), and how many times fewer that is than the same
strategy would send as float32. Those that are held against each other for the hundredfold run over three seeds: the
accuracies are means then, with the least and the most of the last, and samples are those of the slowest.
NAME: only strategies whose options have it in them.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

WEFT = os.path.abspath(sys.argv[1])
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
WANTED = sys.argv[3:]
HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "data" / "mnist15k"
DATA = f"idx:{SHARED}" if SHARED.exists() else "glyphs:size=28,train=10000,test=5000"
LEARNERS, BATCH, TARGET, SEEDS = 4, 25, 0.96, 3
WEIGHTS = 4 * 1111946  # bytes of lenet's, as float32

BSP = "--exchange server:policy=bsp --servers 2"
ASYNC = "--exchange server:policy=async --servers 2 --lr 0.0005"
TOPK = "--compress topk:ratio=0.01,values=bf16"
DGC = "--compress dgc:ratio=0.01,momentum=0.5,warmup=40,values=bf16 --optimizer sgd"
SEVERAL = [
    "--mesh data=4",
    f"--exchange gossip {TOPK}",
    "--exchange gossip --compress threshold:tau=0.002",
    "--exchange gossip --compress threshold:tau=0.002 --lr 0.0005",
    f"--exchange gossip {DGC} --lr 0.02",
    f"{ASYNC} {TOPK}",
    f"{BSP} {TOPK}",
    f"{BSP} --compress threshold:tau=0.001",
]
ONCE = [
    "--exchange average:every=1",
    "--exchange average:every=8",
    "--exchange average:every=20,outer=nesterov",
    "--exchange oneshot",
    "--exchange easgd",
    "--exchange easgd:every=10",
    "--exchange hogwild --lr 0.0005",
    BSP,
    "--exchange server:policy=softsync,c=2 --servers 2",
    "--exchange server:policy=softsync,c=2 --servers 2 --lr 0.0005",
    "--exchange server:policy=ssp,bound=3 --servers 2 --lr 0.0005",
    ASYNC,
    ASYNC.replace("async", "async,scale=inverse"),
    ASYNC.replace("async", "async,push=4,fetch=4"),
    "--exchange gossip",
    *[f"--exchange gossip:topology={topology}" for topology in ("ring", "torus", "random")],
    "--exchange gossip:mode=average",
    *[f"--exchange gossip:mode=average,topology={topology}" for topology in ("ring", "torus", "random")],
    *[f"{BSP} --compress {codec}" for codec in ("bf16", "onebit", "bitmap:tau=0.001")],
    *[f"--exchange gossip --compress {codec}"
      for codec in ("bf16", "onebit", "bitmap:tau=0.002", "threshold:tau=0.002,adaptive",
                    "topk:ratio=0.003,values=bf16")],
]


def run(options, seed):
    batch = BATCH if "--exchange" in options else BATCH * LEARNERS
    with tempfile.TemporaryDirectory() as folder:
        metrics = f"{folder}/m.jsonl"
        subprocess.run([WEFT, "train", "-q", "--data", DATA, "-n", str(LEARNERS), "-t", "1", "--no-bind", "--batch",
                        str(batch), "--epochs", str(EPOCHS), "--seed", str(seed), "--metrics", metrics,
                        *options.split()], check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in open(metrics)]


def dense_bytes(options, steps):
    """What goes in a learner's step without codecs: to servers and back, or to all others."""
    if "gossip" in options and "mode=average" not in options:
        return steps * LEARNERS * (LEARNERS - 1) * WEIGHTS
    return steps * LEARNERS * 2 * WEIGHTS if "server:" in options else None


def figures(options, rows):
    """Samples to the target (inf: not reached), the best and last accuracy, bytes, and times fewer."""
    summary = rows[-1]
    evals = [row for row in rows if row["event"] == "eval"]
    reached = [row["step"] * BATCH * LEARNERS for row in evals if row["accuracy"] >= TARGET]
    # comm_bytes are those of the first learner, exchange_bytes those of all.
    sent = summary.get("exchange_bytes", 0) + summary["learners"] * sum(row.get("comm_bytes", 0) for row in rows)
    dense = dense_bytes(options, summary["steps"])
    return (reached[0] if reached else float("inf"), max(row["accuracy"] for row in evals), evals[-1]["accuracy"],
            sent, dense / sent if dense and sent else 0)


def row(options, seeds):
    try:
        samples, best, last, sent, fewer = zip(*[figures(options, run(options, 1 + seed)) for seed in range(seeds)])
    except subprocess.CalledProcessError as error:
        print(f"{'ended with ' + str(error.returncode):>15} {'':>50}  {options}", flush=True)
        return
    reached = "not" if max(samples) == float("inf") else max(samples)
    spread = f"({min(last):.4f} to {max(last):.4f})" if seeds > 1 else ""
    times = f"{statistics.mean(fewer):6.1f}x" if all(fewer) else ""
    print(f"{reached:>15} {statistics.mean(best):7.4f} {statistics.mean(last):7.4f} {spread:>18} "
          f"{statistics.mean(sent) / 1e6:7.0f} MB {times:>7}  {options}", flush=True)


def main():
    print(f"{'samples to 0.96':>15} {'best':>7} {'last':>7} {f'of {SEEDS} seeds':>18} {'sent':>10} {'fewer':>7}  options",
          flush=True)
    for seeds, several in ((SEEDS, SEVERAL), (1, ONCE)):
        for options in several:
            if not WANTED or any(name in options for name in WANTED):
                row(options, seeds)


main()
