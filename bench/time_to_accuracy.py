#!/usr/bin/env python3
"""The strategy that weft plan --target chooses by successive halving, beside all of them run alone: time_to_accuracy.py WEFT [PAIR...]

A pair is a model with its data and a cluster, as mlp,four-1gbit. Each strategy runs alone, with the learning rate and the warm-up that the search gave
it, to the target or for as long as the choice takes, since a slower one is not the best. All times are virtual, so they do not depend on this machine.
Exits with 1 if the choice takes more than 1.1 times as long as the best one in more than a sixth of the pairs.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CLUSTERS = HERE.parent / "examples" / "clusters"
SHARED = pathlib.Path(os.environ.get("WEFT_DATA", HERE.parent.parent / "shared" / "data"))
MNIST, TEXT = f"mnist:{SHARED / 'mnist15k'}", f"text:{SHARED / 'tinyshakespeare' / 'input.txt'},unit=char,context=16,test=0.002"
# The model, its data, and the target, which is met within the first epoch or two.
MODELS = {
    "mlp": ["--model", "mlp", "--data", MNIST, "--batch", "50", "--epochs", "3", "--evaluate-every", "5", "--target", "loss=0.5"],
    "lenet": ["--model", "lenet", "--data", MNIST, "--batch", "50", "--epochs", "3", "--evaluate-every", "5", "--target", "loss=0.6"],
    "char-lstm": ["--model", "char-lstm:layers=1,units=32", "--data", TEXT, "--batch", "32", "--lr", "0.005", "--steps", "400", "--evaluate-every", "10",
                  "--target", "loss=2.9"],
}
STRATEGIES = ["mesh=data=4", "exchange=average", "exchange=average:every=4", "exchange=average:every=16", "exchange=average:every=64",
              "exchange=server:policy=bsp", "exchange=server:policy=async", "exchange=server:policy=async compress=topk", "exchange=easgd:every=16",
              "exchange=gossip", "ranks=1"]
PAIRS = [f"{model} {cluster}" for cluster in ("four-1gbit", "two-fast-two-slow") for model in MODELS]
CLOSE = 1.1


def plan(weft, pair, *words):
    model, cluster = pair.split()
    command = [weft, "plan", *MODELS[model], "--cluster", str(CLUSTERS / f"{cluster}.yaml"), "-n", "4", "-t", "1", "--json", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def alone(weft, pair, row, *words):
    """Seconds to the target of one strategy; None: it does not reach it."""
    ran = plan(weft, pair, "--strategies", f"{row['strategy']} lr={row['lr']:.9g} warmup={row['warmup']:.0f}", *words)[0]
    return ran["seconds"] if ran.get("reached") else None


def main(weft, pairs):
    close = 0
    print(f"{'pair':28}  {'ran':>4}  {'chosen':>9}  {'best':>9}  {'ratio':>5}  chosen, and the best if it is another one", flush=True)
    for pair in pairs:
        rows = [r for r in plan(weft, pair, "--strategies", "; ".join(STRATEGIES)) if "lr" in r]
        chosen = rows[0]["strategy"]
        times = {chosen: alone(weft, pair, rows[0])}
        until = ["--budget", f"{times[chosen]:.9g}"] if times[chosen] else []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            others = pool.map(lambda row: (row["strategy"], alone(weft, pair, row, *until)), rows[1:])
            times.update(others)
        reached = {name: seconds for name, seconds in times.items() if seconds is not None}
        best = min(reached, key=reached.get, default=None)
        if best is None:
            print(f"{pair:28}  {len(rows):4}  none reaches the target", flush=True)
            continue
        ratio = reached[chosen] / reached[best] if chosen in reached else float("inf")
        close += ratio <= CLOSE
        other = "" if ratio == 1 else f"; {best}"
        print(f"{pair:28}  {len(rows):4}  {reached.get(chosen, float('inf')):8.4g}s  {reached[best]:8.4g}s  {ratio:5.2f}  {chosen}{other}", flush=True)
        for name, seconds in times.items():
            if seconds is not None:
                print(f"    {seconds:10.4g} s  {name}", flush=True)
    print(f"the choice takes at most {CLOSE} times as long as the best in {close} of {len(pairs)} pairs")
    return close * 6 < len(pairs) * 5


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], [p.replace(",", " ") for p in sys.argv[2:]] or PAIRS))
