"""The best run that weft compare names, and the evaluations by which it is found: compare_best.py PATH/TO/weft"""
import json
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run

DATA = "--data glyphs:size=9,train=300,test=60 --model mlp -b 20 --epochs 12 -t 1 --seed 3 -q".split()
RATES = ("lr=0.003", "lr=0.03", "lr=0.0003")


def evaluations(rate, *words):
    """The evaluations of weft train, of the data by which runs choose."""
    run("train", *DATA, *words, "--" + rate.split("=")[0], rate.split("=")[1], "--metrics", "one.jsonl")
    lines = [json.loads(line) for line in open("one.jsonl")]
    os.remove("one.jsonl")
    part = next(e["split"] for e in lines if e["event"] == "eval")
    return [e for e in lines if e["event"] == "eval" and e["split"] == part]


def compare(runs, *words):
    done = run("compare", *DATA, *words, "--strategies", "; ".join(runs))
    return done.stdout, re.search(r"^lowest (.*) loss: (.*), of (.*)$", done.stdout, re.M)


def named():
    """The run with the least loss of its last evaluation is named, wherever it stands, and a run that diverges is none."""
    for part, words in (("test", []), ("validation", ["--validation", "0.2"])):
        last = {rate: evaluations(rate, *words)[-1]["loss"] for rate in RATES}
        best = min(last, key=last.get)
        for runs in (RATES, RATES[::-1], ("optimizer=sgd lr=1e6", *RATES)):
            out, line = compare(runs, *words)
            check(f"best of {runs} on {part}", line and line.groups() == (part, f"{last[best]:.4f}", best), (last, out))


def not_named():
    """Without evaluations no run is named."""
    with open("t.csv", "w") as f:
        f.write("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)))
    done = run("compare", "--data", "csv:t.csv,test=0", "--model", "mlp", "-b", "10", "--strategies", "lr=0.1; lr=0.01", "-q")
    check("no evaluation", "lowest" not in done.stdout and "lr=0.01" in done.stdout, done.stdout)


def kept():
    """--keep-best needs no checkpoint here: the best evaluation counts, and the run goes on to its end as without it."""
    words = ["--validation", "0.2"]
    plain = json.loads(run("compare", *DATA, *words, "--json", "--strategies", "; ".join(RATES)).stdout)
    for metric, best in (("loss", min), ("accuracy", max)):
        rows = json.loads(run("compare", *DATA, *words, "--json", "--keep-best", metric, "--strategies", "; ".join(RATES)).stdout)
        for row, other in zip(rows, plain):
            all_of = evaluations(row["strategy"], *words)
            want = best(all_of, key=lambda e: e[metric])
            check(f"{row['strategy']} by {metric}", abs(row["loss"] - want["loss"]) < 1e-8 and row["accuracy"] == want["accuracy"], (row, want))
            check(f"{row['strategy']} by {metric} ends", row["train_loss"] == other["train_loss"], (row, other))
        out, line = compare(RATES, *words, "--keep-best", metric)
        least = min(rows, key=lambda row: row["loss"])
        check(f"named by {metric}", line and line[3] == least["strategy"] and line[2] == f"{least['loss']:.4f}", out)
    check("the last evaluation is not the best", any(abs(r["loss"] - p["loss"]) > 1e-3 for r, p in zip(rows, plain)), (rows, plain))
    refused = run("train", *DATA, *words, "--keep-best", "loss", code=2)
    check("weft train needs a checkpoint", "--checkpoint DIR" in refused.stderr, refused.stderr)


sys.exit(main(named, not_named, kept))
