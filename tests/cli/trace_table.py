"""The tables that weft train --trace prints are the sums of the events of its trace: trace_table.py PATH/TO/weft"""
import collections
import json
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft

scratch()
DATA = "--data glyphs:size=16,train=200,test=10 --batch 20 -t 1".split()


def tables(text):
    """Rows by table: name, milliseconds a step, share, runs, floor."""
    out, rows = {}, None
    for line in text.splitlines():
        if re.match(r"(operators|layers) +ms a step +share +runs +floor$", line):
            rows = out.setdefault(line.split()[0], [])
        elif rows is not None and (found := re.match(r"(\S.*?)  +([\d.]+) +([\d.]+)% +([\d.]+)(?: +(\d+)%)?$", line)):
            rows.append((found[1], *(float(found[k]) for k in (2, 3, 4)), found[5]))
    return out


def wanted(rank):
    """Milliseconds and runs a step by operator and by layer, of the events of one rank."""
    events = [e for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X" and e["pid"] == rank + 1]
    steps = sum(e["cat"] == "step" for e in events)
    sums = {"operators": collections.defaultdict(lambda: [0, 0]), "layers": collections.defaultdict(lambda: [0, 0])}
    for e in events:
        if e["cat"] == "step":
            continue
        ops, _, node = e["name"].partition(" ")
        kind = {"wait": "waits", "reorder": "reorders"}.get(e["cat"], ops.split("+")[0])
        layer = "reorders" if e["cat"] == "reorder" else node.split("/")[0]
        for table, name in (("operators", kind), ("layers", layer)):
            sums[table][name][0] += e["dur"] / 1e3 / steps
            sums[table][name][1] += 1 / steps
    return sums


for ways in ("--model lenet", "--model mlp -n 2 --mesh data=2 --zero 1", "--model mlp --microbatches 2 -o lion --ema 0.9"):
    done = subprocess.run([weft, "train", *DATA, *ways.split(), "--trace", "trace.json"], capture_output=True, text=True, timeout=200)
    have, want = tables(done.stdout), wanted(0)
    check(f"{ways}: {done.stdout}{done.stderr}", done.returncode == 0 and set(have) == set(want))
    for name, rows in have.items():
        whole = sum(ms for ms, _ in want[name].values())
        check(f"{ways}: shares of {name}", abs(sum(row[2] for row in rows) - 100) < 1)
        check(f"{ways}: order of {name}", [row[1] for row in rows[:10]] == sorted((row[1] for row in rows[:10]), reverse=True))
        named = [row for row in rows if row[0] != "others"]
        check(f"{ways}: rows of {name}", len(named) == min(10, len(want[name])))
        for row in named:
            ms, runs = want[name].get(row[0], (0, 0))
            check(f"{ways}: {name}: {row}, wanted {ms:.4f} ms, {runs} runs", abs(row[1] - ms) <= 1e-3 * ms + 2e-3 and abs(row[3] - runs) < 0.06 and abs(row[2] - 100 * ms / whole) < 0.2)
check("a layer has its name", any(row[0].startswith("fc1") for row in have["layers"]))

# The trace of a run with two phases is that of its first steps.
phases = subprocess.run([weft, "train", *DATA, "--model", "mlp", "--freeze", "fc1/*", "--unfreeze", "2", "--epochs", "2", "-c", "phases",
                         "--trace", "trace.json"], capture_output=True, text=True, timeout=200)
first = [e["name"] for e in json.load(open("trace.json"))["traceEvents"] if e.get("cat") == "step"]
check(f"two phases: {first}\n{phases.stdout}{phases.stderr}", phases.returncode == 0 and first[:1] == ["step 1"] and len(tables(phases.stdout)) == 2 and phases.stdout.count("ms a step") == 2)

quiet = subprocess.run([weft, "train", *DATA, "--model", "mlp", "-q", "--trace", "trace.json"], capture_output=True, text=True)
check("quiet", quiet.stdout == "" and quiet.stderr == "")
piped = subprocess.run([weft, "train", *DATA, "--model", "mlp", "-q", "--trace", "-"], capture_output=True, text=True)
check("the trace on standard output is alone", "traceEvents" in json.loads(piped.stdout))
sys.exit(end())
