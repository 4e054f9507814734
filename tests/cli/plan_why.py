#!/usr/bin/env python3
"""The parts of the difference between two estimated steps have its sum (weft plan --why): plan_why.py PATH/TO/weft"""
import json
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, write

SMALL = "--model lenet --data glyphs:size=28,train=200,test=10 --batch 24 -n 4".split()
STRATEGIES = ["mesh=data=4", "mesh=data=2,tensor=2", "mesh=domain=2,data=2 zero=1", "mesh=pipeline=4 microbatches=4",
              "mesh=pipeline=2,data=2 microbatches=2 schedule=gpipe", "exchange=average:every=3", "mesh=data=4 batch=48"]
MACHINES = {"near": "  - {count: 1, cores: 4}\n", "far": "  - {count: 4, cores: 1}\n", "unlike": "  - {count: 3, cores: 1}\n  - {count: 1, cores: 1, speed: 0.5}\n",
            "random": "  - {count: 4, cores: 1, jitter: 0.5, slow: 0.1}\n"}


def files():
    version = run("--version").stdout.split()[1]
    lines = ["weft-times\t1", f"version\t{version}", "processor\tone", "time\t1\t1\t1\t1e10\t0\tx\t", "time\t1\t1\t1\t0\t2e10\ty\t",
             "time\t1\t1\t1e-3\t10\t10\tstep\t", "time\t1\t2\t4e-5\t0\t1e4\tall-reduce threads\t", "end\t4"]
    write("one.times", "\n".join(lines) + "\n")
    for name, machines in MACHINES.items():
        write(f"{name}.yaml", f"times: one.times\nbandwidth: 2e7\nmachines:\n{machines}")


def why(cluster, two, *words):
    return run("plan", *SMALL, "--cluster", f"{cluster}.yaml", "--why", two, *words)


def near(a, b, scale):
    return abs(a - b) <= 1e-8 * scale  # numbers have nine digits


def conservation():
    for cluster in MACHINES:
        rows = json.loads(run("plan", *SMALL, "--cluster", f"{cluster}.yaml", "--strategies", "; ".join(STRATEGIES), "--json").stdout)
        steps = {r["strategy"]: r for r in rows}
        for i, first in enumerate(STRATEGIES):
            second = STRATEGIES[(i + 1) % len(STRATEGIES)]
            told = json.loads(why(cluster, f"{first}; {second}", "--json").stdout)
            scale = max(told["seconds"])
            for k, name in enumerate((first, second)):
                r = steps[name]
                check(f"{cluster} {name}: the step", near(told["seconds"][k], r["step_seconds"], scale), (told["seconds"], r))
                check(f"{cluster} {name}: parts", near(sum(p["seconds"][k] for p in told["parts"]), r["step_seconds"], 4 * scale), told)
                causes = {cause: part["seconds"][k] for cause, part in told["causes"].items()}
                for cause, keys in (("kernels", ["kernel_seconds"]), ("transfers", ["transfer_seconds"]), ("rest", ["rest_seconds"])):
                    # With jitter the rest and passes over memory take longer, too, and are counted among the kernels.
                    if cluster != "random":
                        check(f"{cluster} {name}: {cause}", near(causes[cause], sum(r[key] for key in keys), 4 * scale), (causes, r))
                check(f"{cluster} {name}: no part is below 0", min(p["seconds"][k] for p in told["parts"]) >= -1e-12, told)
                if cluster == "near":
                    check(f"{name}: one machine has no links", causes["links"] == 0 and not told["links"], causes)
            check(f"{cluster}: differences", near(sum(p["difference"] for p in told["parts"]), told["difference"], 8 * scale), told)
            sums = {cause: sum(p["difference"] for p in told["parts"] if p["cause"] == cause) for cause in told["causes"]}
            for cause, part in told["causes"].items():
                check(f"{cluster}: {cause}", near(sums[cause], part["difference"], 8 * scale), (sums, part))


def what_differs():
    """A slower link is a difference of links, layers that are cut are ones of kernels, and a pipeline waits."""
    told = json.loads(why("far", "mesh=data=4; mesh=data=4 sum-dtype=bf16", "--json").stdout)
    check("bf16 halves what links carry", told["causes"]["links"]["difference"] < 0, told["causes"])
    busy = [link["seconds"] for link in told["links"]]
    check("links send half", len(busy) == 4 and all(abs(b[1] / b[0] - 0.5) < 0.02 for b in busy), busy)
    told = json.loads(why("near", "mesh=data=4; mesh=pipeline=4 microbatches=1", "--json").stdout)
    greatest = max(told["causes"], key=lambda cause: told["causes"][cause]["difference"])
    check("one micro-batch waits", greatest == "waiting", told["causes"])


def messages_cost():
    """Messages that cost their processors more make steps of servers and peers longer, and those of a mesh not."""
    lines = open("one.times").read().splitlines()
    lines[-1:] = ["time\t1\t1\t1\t0\t1e8\tpass message\t", f"end\t{int(lines[-1].split()[1]) + 1}"]
    write("dear.times", "\n".join(lines) + "\n")
    write("dear.yaml", open("far.yaml").read().replace("one.times", "dear.times"))
    steps = []
    for cluster in ("far", "dear"):
        told = json.loads(run("plan", *SMALL, "--cluster", f"{cluster}.yaml", "--strategies", "mesh=data=4; exchange=server; exchange=gossip:mode=average", "--json").stdout)
        steps.append({r["strategy"]: r["step_seconds"] for r in told})
    for strategy, step in steps[0].items():
        longer = steps[1][strategy] / step
        check(f"{strategy} where messages cost more", longer == 1 if "mesh" in strategy else longer > 1.02, longer)


def table():
    text = why("far", "mesh=data=4; mesh=tensor=4").stdout
    rows = {m[1]: [float(x) for x in m[0].split()[-3:]] for m in re.finditer(r"^(kernels|transfers|links|waiting|rest|all) +[\d.]+ +[\d.]+ +[-+][\d.]+$", text, re.M)}
    check("a row for each cause", len(rows) == 6, text)
    check("rows add up", abs(sum(r[2] for n, r in rows.items() if n != "all") - rows["all"][2]) < 6e-4, rows)
    check("links are told", "how long links send:" in text and "link of machine 3" in text, text)


def actors():
    """Links of learners that push to servers send, no longer than the busiest sends of a step."""
    steps = json.loads(run("plan", *SMALL, "--cluster", "far.yaml", "--strategies", "exchange=server; exchange=gossip", "--json").stdout)
    told = json.loads(why("far", "exchange=server; exchange=gossip", "--json").stdout)
    for k, name in enumerate(("exchange=server", "exchange=gossip")):
        step = next(r for r in steps if r["strategy"] == name)
        busy = [link["seconds"][k] for link in told["links"]]
        check(f"{name}: each link sends", len(busy) == 4 and min(busy) > 0, told["links"])
        check(f"{name}: no longer than the step", max(busy) <= told["seconds"][k] * 1.001, (busy, told["seconds"]))
        check(f"{name}: what crosses takes the time of its bytes", abs(sum(busy) * 2e7 / step["bytes_between_machines"] - 1) < 0.05, (busy, step))


def refusals():
    for words, code, message in ((["--why", "mesh=data=4"], 2, "give two strategies"), (["--why", "a=1; b=2"], 2, "'a'"),
                                 (["--why", "mesh=data=4; mesh=data=4 device=reference"], 1, "those of the device cpu")):
        done = run("plan", *SMALL, "--cluster", "near.yaml", *words, code=code)
        check(f"{words}", message in done.stderr and not done.stdout, done.stderr)
    done = run("plan", *SMALL, "--why", "mesh=data=4; mesh=tensor=4", code=2)
    check("without a cluster", "which need --cluster FILE" in done.stderr, done.stderr)


sys.exit(main(conservation, what_differs, messages_cost, table, actors, refusals, first=files))
