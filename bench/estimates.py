#!/usr/bin/env python3
"""Estimated steps beside measured ones: estimates.py WEFT [FOLDER [PIECE...]]

FOLDER keeps what pieces have measured (build/estimates). The piece `measure` measures this machine (weft measure); MODEL/threads and
MODEL/processes have weft plan --verify estimate and make the runs of each strategy with a model, whose ranks are threads or processes;
`table` prints what FOLDER has. MODEL alone is both, and without pieces all are made. A piece takes less than two minutes. The models
`fashion` and `transformer` are not among the networks that are measured.
"""
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
# name: (model, data, batch of a learner, whether a mesh may have the axis domain)
MODELS = {
    "lenet": ("lenet", "glyphs:size=28,train=4000,test=10", 100, True),
    "vgg11": ("vgg11", "glyphs:size=32,train=800,test=10", 48, True),
    "gpt": ("gpt:layers=2,heads=4,width=128", f"text:{TEXT},unit=char,context=128", 8, False),
    "char-lstm": ("char-lstm:layers=2,units=128", f"text:{TEXT},unit=char,context=64", 16, False),
    "fashion": (str(ROOT / "examples/fashion.yaml"), "glyphs:size=28,train=800,test=10", 32, True),
    "transformer": ("gpt:layers=3,heads=2,width=96", f"text:{TEXT},unit=char,context=96", 12, False),
}
STRATEGIES = {
    "threads": [
        "ranks=1 threads=2", "ranks=1 threads=2 microbatches=4", "ranks=1 threads=2 recompute", "mesh=data=2",
        "mesh=data=2 zero=1", "mesh=data=2 zero=3", "mesh=data=2 microbatches=2", "mesh=data=2 sum-dtype=bf16",
        "mesh=tensor=2", "mesh=domain=2", "mesh=pipeline=2 microbatches=4", "mesh=pipeline=2 microbatches=4 schedule=gpipe",
        "mesh=pipeline=2 microbatches=2", "exchange=average", "exchange=average:every=4", "exchange=oneshot",
        "exchange=server", "exchange=server:policy=async", "exchange=easgd", "exchange=gossip", "exchange=hogwild",
    ],
    "processes": [
        "engine=mpi mesh=data=2", "engine=mpi mesh=data=2 zero=2", "engine=mpi mesh=tensor=2", "engine=mpi mesh=pipeline=2 microbatches=4",
        "engine=mpi exchange=average:every=4", "engine=mpi exchange=server", "engine=processes exchange=server", "engine=processes exchange=gossip",
    ],
}


def measure(weft, folder):
    words = [weft, "measure", "--overwrite", "-o", str(folder / "here.yaml")]
    print(subprocess.run(words, capture_output=True, text=True, check=True).stdout, end="", flush=True)


def verify(weft, folder, name, engine):
    model, data, batch, domain = MODELS[name]
    strategies = "; ".join(s for s in STRATEGIES[engine] if domain or "domain" not in s)
    words = [weft, "plan", "--verify", "--quick", "--cluster", str(folder / "here.yaml"), "--strategies", strategies, "--json",
             "--model", model, "--data", data, "--batch", str(batch), "-n", "2"]
    told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    (folder / f"{name}-{engine}.json").write_text(told)


def ranks(numbers):
    return [sum((other < n) + (other == n) / 2 for other in numbers) for n in numbers]


def correlation(first, second):
    a, b = ranks(first), ranks(second)
    square = sum((x - len(a) / 2) ** 2 for x in a) * sum((y - len(b) / 2) ** 2 for y in b)
    return sum((x - len(a) / 2) * (y - len(b) / 2) for x, y in zip(a, b)) / math.sqrt(square) if square else float("nan")


def error(estimated, measured):
    return abs(estimated / measured - 1) if measured else 0.0 if estimated == measured else 1.0


def summary(name, rows):
    errors = [error(r["step_seconds"], r["measured_seconds"]) for r in rows]
    memory = [error(r["estimated_process_bytes"], r["process_bytes"]) for r in rows]
    sent = max(error(r["sent_bytes"], r["measured_sent_bytes"]) for r in rows if r["measured_sent_bytes"] > 0 and not r["sent_by_chance"])
    tau = correlation([r["step_seconds"] for r in rows], [r["measured_seconds"] for r in rows])
    apart = [r["runs_apart"] for r in rows]
    print(f"{name:12} {len(rows):3} runs: step {100 * statistics.median(errors):4.1f} % in the median, {100 * max(errors):5.1f} % at most; rank correlation "
          f"{tau:.2f}; memory of a process {100 * statistics.median(memory):.1f} and {100 * max(memory):.1f} %; bytes sent at most {100 * sent:.1f} %; "
          f"a run beside the same again {100 * statistics.median(apart):.1f} and {100 * max(apart):.1f} %", flush=True)


def table(folder):
    all_rows = {}
    for name in MODELS:
        rows = []
        for engine in STRATEGIES:
            file = folder / f"{name}-{engine}.json"
            rows += json.loads(file.read_text())["runs"] if file.exists() else []
        for r in rows:
            if "reason" in r:
                print(f"{name:12} {r['strategy']:48} {r['reason']}")
                continue
            print(f"{name:12} {r['strategy']:48} estimated {1e3 * r['step_seconds']:8.2f} ms, measured {1e3 * r['measured_seconds']:8.2f}, "
                  f"{100 * (r['step_seconds'] / r['measured_seconds'] - 1):+6.1f} %" + (f", others took {100 * r['others_share']:.0f} %" if r["others_share"] > 0.05 else "")
                  + (f", its shortest two runs differ by {100 * r['runs_apart']:.0f} %" if r["runs_apart"] > 0.1 else ""))
        all_rows[name] = [r for r in rows if "reason" not in r]
    for name, rows in all_rows.items():
        if rows:
            summary(name, rows)
    rows = sum(all_rows.values(), [])
    if rows:
        summary("all", rows)


def main():
    weft, folder = sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build/estimates")
    folder.mkdir(parents=True, exist_ok=True)
    for piece in sys.argv[3:] or ["measure", *MODELS, "table"]:
        name, _, engine = piece.partition("/")
        if name == "measure":
            measure(weft, folder)
        elif name == "table":
            table(folder)
        else:
            for e in [engine] if engine else STRATEGIES:
                verify(weft, folder, name, e)


main()
