#!/usr/bin/env python3
"""Predicted memory beside measured: memory.py WEFT [MODEL...]

Runs each model in several ways with an evaluation and a checkpoint, and in some with neither before their end, and compares the peak
of a process (peak_rss_bytes of the metrics) with what `weft plan` has said of it. Prints both, the relative errors, and their median
and greatest one.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
PART = tempfile.NamedTemporaryFile(suffix=".txt")  # its beginning, so that evaluations are short
if TEXT.exists():
    PART.write(TEXT.read_bytes()[:100000])
    PART.flush()
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
# name: (model, data, batch of a step, mesh axis besides data, tensor and pipeline)
MODELS = {
    "lenet": ("lenet", "glyphs:size=28,train=2000,test=500", 100, "domain"),
    "mlp": ("mlp", "glyphs:size=28,train=2000,test=500", 100, None),
    "vgg11": ("vgg11", "glyphs:size=32,train=200,test=50", 48, "domain"),
    "resnet": ("resnet:depth=18,width=32", "glyphs:size=32,train=200,test=50", 48, "domain"),
    "gpt": ("gpt:layers=4,heads=4,width=256", f"text:{PART.name},unit=char,context=128", 8, None),
    "char-lstm": ("char-lstm:layers=2,units=256", f"text:{PART.name},unit=char,context=64", 16, None),
    "fashion": (str(HERE.parent / "examples/fashion.yaml"), "glyphs:size=28,train=800,test=200", 32, "domain"),
    "transformer": ("gpt:layers=3,heads=2,width=96", f"text:{PART.name},unit=char,context=96", 12, None),
}
STRATEGIES = [
    "-n 1", "-n 1 -t 2", "-n 1 --dtype bf16", "-n 1 --recompute", "-n 1 --microbatches 4",
    "-n 2 --mesh data=2", "-n 2 --zero 1", "-n 2 --zero 2", "-n 2 --zero 3", "-n 4 --zero 3", "-n 2 --mesh tensor=2",
    "-n 2 --mesh domain=2", "-n 2 --mesh pipeline=2 --microbatches 4", "-n 4 --mesh data=2,tensor=2",
    "-n 2 --exchange average", "-n 2 --exchange hogwild", "-n 2 --exchange server", "-n 2 --exchange easgd", "-n 2 --exchange gossip",
    "-n 2 --engine mpi", "-n 2 --engine mpi --zero 3", "-n 4 --engine mpi --mesh data=2,tensor=2", "-n 2 --engine mpi --exchange average",
    "-n 2 --engine processes --exchange server", "-n 2 --engine processes --exchange easgd", "-n 2 --engine processes --exchange gossip",
]
BARE = [  # with neither evaluation nor checkpoint before the end, as `weft plan --verify` makes runs
    "-n 1", "-n 2 --exchange server", "-n 2 --exchange hogwild", "-n 2 --engine mpi --exchange server",
    "-n 2 --engine processes --exchange server", "-n 2 --engine processes --exchange easgd", "-n 2 --engine processes --exchange gossip",
]


def options(model, strategy, folder):
    name, data, batch, _ = MODELS[model]
    amid = ["--evaluate-every", "2", "--checkpoint", f"{folder}/run"] if folder else []
    return ["--model", name, "--data", data, "--batch", str(batch), "--steps", "4", *amid, *strategy.split()]


def predict(weft, words):
    done = subprocess.run([weft, "plan", *words], capture_output=True, text=True)
    found = re.search(r"ranks?: ([0-9.e+]+) ([kMGT]?B)", done.stdout)
    return float(found.group(1)) * UNITS[found.group(2)] if found else None


def measure(weft, words):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([weft, "train", "-q", *words, "--metrics", out.name], capture_output=True, text=True)
        rows = [json.loads(line) for line in open(out.name)] if done.returncode == 0 else []
    return next((row["peak_rss_bytes"] for row in rows if row["event"] == "summary"), None)


def main():
    weft = sys.argv[1]
    models = sys.argv[2:] or list(MODELS)
    errors = []
    for model in models:
        of_model = []
        for strategy, bare in [(s, False) for s in STRATEGIES] + [(s, True) for s in BARE]:
            if "domain" in strategy and not MODELS[model][3]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                words = options(model, strategy, "" if bare else folder)
                said, was = predict(weft, words), measure(weft, words)
            strategy += ", bare" if bare else ""
            if not said or not was:
                print(f"{model:10} {strategy:44} not possible", flush=True)
                continue
            of_model.append(said / was - 1)
            print(f"{model:10} {strategy:44} predicted {said / 1e6:8.2f} MB, measured {was / 1e6:8.2f} MB, {100 * of_model[-1]:+5.1f} %", flush=True)
        if of_model:
            sizes = sorted(map(abs, of_model))
            print(f"{model}: error {100 * statistics.median(sizes):.1f} % in the median, {100 * sizes[-1]:.1f} % at most", flush=True)
            errors += sizes
    if errors:
        print(f"all {len(errors)}: error {100 * statistics.median(errors):.1f} % in the median, {100 * max(errors):.1f} % at most")


main()
