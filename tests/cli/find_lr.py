"""The learning rates that weft find-lr prints are those of a run of weft train with the same rising rate, by the
definitions in the guide: find_lr.py PATH/TO/weft"""
import json
import math
import os
import subprocess
import sys
import xml.dom.minidom

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft

scratch()
SMALL = "--model mlp --data glyphs:size=9,train=200,test=8 --batch 20 -t 1 --validation 0.2 --seed 5".split()


def run(*words):
    done = subprocess.run([weft, *words], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def slope(losses, rates, i, half):
    half = min(half, i, len(losses) - 1 - i)
    x = [math.log(r) for r in rates[i - half:i + half + 1]]
    y, middle = losses[i - half:i + half + 1], sum(x) / len(x)
    return sum((a - middle) * b for a, b in zip(x, y)) / sum((a - middle) ** 2 for a in x)


def suggested(rows, tries):
    """Steepest fall, rates, and the step of the minimum."""
    mean, rates, losses, lowest = 0, [], [], 0
    for row in rows:
        mean = 0.98 * mean + 0.02 * row["loss"]
        rates.append(row["lr"])
        losses.append(mean / (1 - 0.98 ** len(rates)))
        if len(losses) <= 10 or losses[-1] < losses[lowest]:
            lowest = len(losses) - 1
        if len(losses) > 10 and losses[-1] > 4 * losses[lowest]:
            break
    top = max(losses[9:max(lowest, 10)])
    first = max([i for i in range(10, lowest) if losses[i] >= top - 0.1 * (top - losses[lowest])], default=9) + 1
    slopes = {i: slope(losses, rates, i, max(tries // 20, 1)) for i in range(first, lowest)}
    falls = slopes and min(slopes.values()) < 0 and losses[lowest] <= 0.99 * losses[9]
    return (min(slopes, key=slopes.get) if falls else None), rates, lowest


def oracle(words, low, high, tries):
    code, _, err = run("train", *words, "-q", "--lr-schedule", "range-test", "--lr", str(high), "--lr-floor", str(low),
                       "--steps", str(tries), "--metrics", "m.jsonl")
    rows = [row for row in map(json.loads, open("m.jsonl")) if row["event"] == "step"]
    check(f"train {words}: {err}", code in (0, 1) and rows)
    return suggested(rows, tries)


# Options that a test has of its own count nowhere in a run file, and are refused on the command line.
with open("run.yaml", "w") as f:
    f.write("warmup: 7\nlr-schedule: step\ngamma: 0.3\nepochs: 3\ncheckpoint: none\n")
for more, low, high, tries in (([], 1e-7, 10, 100), (["-o", "sgd", "--momentum", "0.9"], 1e-4, 1, 60),
                               ("-n 2 --mesh data=2 --zero 1 -o lion".split(), 1e-6, 0.1, 50),
                               ("-n 2 --exchange average".split(), 1e-5, 1, 50),
                               ("--batch 2".split(), 1e-7, 1, 120), ("--batch 3 --seed 8 -o sgd".split(), 1e-7, 10, 100)):
    words = [*SMALL, *more]
    steep, rates, lowest = oracle(words, low, high, tries)
    if "-n" in words:
        words = ["run.yaml", *words]
    code, out, err = run("find-lr", *words, "-q", "--from", str(low), "--to", str(high), "--tries", str(tries))
    check(f"find-lr {more}: {code} {err}", code == 0 and not err)
    if steep is None:
        check(f"{more}: {out}", "the loss has not fallen" in out)
    else:
        check(f"{more}: wanted {rates[steep]:.3g} and {rates[lowest] / 10:.3g}\n{out}", f"--lr {rates[steep]:.3g}\n" in out and f"--lr {rates[lowest] / 10:.3g}  (" in out)

# The rates rise by one factor from step to step.
_, rates, _ = oracle(SMALL, 1e-6, 1e-2, 40)
check("factors", all(abs(b / a / (1e4 ** (1 / 39)) - 1) < 1e-5 for a, b in zip(rates, rates[1:])) and len(rates) == 40)
check(f"the ends of the rates: {rates[0]} {rates[-1]}", abs(rates[0] / 1e-6 - 1) < 1e-6 and abs(rates[-1] / 1e-2 - 1) < 1e-6)
# A test that the loss does not end takes both ends, and those that its options allow.
for low, high, tries in (("1e-9", "1e-3", 13), ("1e-12", "1e4", 10)):
    code, out, err = run("find-lr", *SMALL, "-o", "sgd", "--from", low, "--to", high, "--tries", str(tries), "--plot", "ends.svg")
    check(f"the ends: {code} {out}{err}", code == 0 and (float(high) > 1 or f"{float(low):.3g} to {float(high):.3g}" in out))

# Nothing is written but the picture, and a test from a checkpoint begins with its weights.
run("train", *SMALL, "-q", "--epochs", "3", "-c", "run", "--ema", "0.5", "--keep-best", "loss", "--metrics", "run.jsonl")
before = {f: os.stat(os.path.join(at, f)).st_mtime_ns for at, _, files in os.walk(".") for f in files}
code, out, err = run("find-lr", "-c", "run", "--resume", "-q", "--tries", "20", "--plot", "rates.svg")
check(f"from a checkpoint: {err}", code == 0 and not err)
after = {f: os.stat(os.path.join(at, f)).st_mtime_ns for at, _, files in os.walk(".") for f in files}
check("files that a test changed", xml.dom.minidom.parse("rates.svg") and after.pop("rates.svg") and after == before)
steep, rates, lowest = oracle([*SMALL, "--init", "run"], 1e-7, 10, 20)
check(f"from a checkpoint: {out}", ("has not fallen" if steep is None else f"--lr {rates[steep]:.3g}\n") in out)
code, out, err = run("find-lr", *SMALL, "--tries", "30")
check(f"the chart: {out}{err}", code == 0 and out.count("#") > 40 and "      rate        loss\n" in out)

for words, said in ((["--from", "1", "--to", "0.1"], "the first rate must be below the last one"),
                    (["--engine", "mpi", "-n", "2"], "find-lr runs all ranks as threads"),
                    (["--tries", "3"], "tries"), (["--plot", "x.png"], "SVG"),
                    (["--lr", "0.1"], "--lr has no effect in weft find-lr"), (["-e", "3"], "--epochs has no effect"),
                    (["--warmup", "3"], "--warmup has no effect"), (["--metrics", "x.jsonl"], "--metrics has no effect"),
                    (["-c", "none"], "--checkpoint has no effect in weft find-lr: a test keeps no weights; add --resume")):
    code, _, err = run("find-lr", *SMALL, *words)
    check(f"{words}: {code} {err}", code == 2 and said in err)
sys.exit(end())
