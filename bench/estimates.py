#!/usr/bin/env python3
"""Estimated steps beside measured ones: estimates.py WEFT [MODEL...]

Measures this machine (weft measure), and has weft plan --verify estimate and make the runs of each strategy with each model. The
models `resnet` and `transformer` are not among the networks that are measured.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
# name: (model, data, batch of a learner, whether a mesh may have the axis domain)
MODELS = {
    "lenet": ("lenet", "glyphs:size=28,train=4000,test=10", 100, True),
    "vgg11": ("vgg11", "glyphs:size=32,train=800,test=10", 48, True),
    "gpt": ("gpt:layers=2,heads=4,width=128", f"text:{TEXT},unit=char,context=128", 8, False),
    "char-lstm": ("char-lstm:layers=2,units=128", f"text:{TEXT},unit=char,context=64", 16, False),
    "resnet": ("resnet:depth=18,width=16", "glyphs:size=32,train=800,test=10", 32, True),
    "transformer": ("gpt:layers=3,heads=2,width=96", f"text:{TEXT},unit=char,context=96", 12, False),
}
STRATEGIES = [
    "ranks=1 threads=2", "ranks=1 threads=1", "ranks=1 threads=2 microbatches=4", "ranks=1 threads=2 recompute",
    "mesh=data=2", "mesh=data=2 zero=1", "mesh=data=2 zero=2", "mesh=data=2 zero=3", "mesh=data=2 microbatches=2",
    "mesh=data=2 sum-dtype=bf16", "mesh=tensor=2", "mesh=domain=2", "mesh=pipeline=2 microbatches=4",
    "mesh=pipeline=2 microbatches=4 schedule=gpipe", "mesh=pipeline=2 microbatches=2", "exchange=average", "exchange=average:every=4",
    "exchange=oneshot", "exchange=server", "exchange=server:policy=async", "exchange=easgd:every=4", "exchange=gossip", "exchange=hogwild",
]


def verify(weft, cluster, name):
    model, data, batch, domain = MODELS[name]
    strategies = "; ".join(s for s in STRATEGIES if domain or "domain" not in s)
    words = [weft, "plan", "--verify", "--cluster", cluster, "--strategies", strategies, "--json",
             "--model", model, "--data", data, "--batch", str(batch), "-n", "2"]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    weft, models = sys.argv[1], sys.argv[2:] or list(MODELS)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = f"{folder}/here.yaml"
        print(subprocess.run([weft, "measure", "-o", cluster], capture_output=True, text=True, check=True).stdout.replace(folder + "/", ""), end="", flush=True)
        for name in models:
            told = verify(weft, cluster, name)
            for r in told["runs"]:
                if "reason" in r:
                    print(f"{name:12} {r['strategy']:48} {r['reason']}")
                    continue
                error = r["step_seconds"] / r["measured_seconds"] - 1
                errors.append(abs(error))
                print(f"{name:12} {r['strategy']:48} estimated {1e3 * r['step_seconds']:8.2f} ms ({1e3 * r['low']:.2f} to {1e3 * r['high']:.2f}), "
                      f"measured {1e3 * r['measured_seconds']:8.2f}, {100 * error:+5.1f} %")
            print(f"{name} on {told['processor']}{', which was busy' if told['busy'] else ''}: error {100 * told['median_error']:.1f} % in the median, "
                  f"{100 * told['greatest_error']:.1f} % at most; rank correlation {told.get('rank_correlation', float('nan')):.2f}", flush=True)
    errors.sort()
    print(f"all {len(errors)}: error {100 * statistics.median(errors):.1f} % in the median, {100 * errors[len(errors) * 9 // 10]:.1f} % in nine of ten, {100 * errors[-1]:.1f} % at most")


main()
