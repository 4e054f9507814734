"""The predicted step as a trace, a picture and lines (weft plan --predicted, --plot, --timeline): plan_timeline.py PATH/TO/weft"""
import collections
import json
import math
import os
import re
import sys
import xml.etree.ElementTree as tree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, write

SMALL = "--data glyphs:size=16,train=80,test=20 --batch 16 --model mlp -t 1".split()
KINDS = {"kernel": "kernels", "transfer": "transfers", "wait": "waiting", "rest": "the rest"}


def cluster(name, keys, machines):
    """A machine of 1e9 operations and 1e9 bytes a second, whose host works a millisecond for a step."""
    version = run("--version").stdout.split()[1]
    write("one.times", f"weft-times\t1\nversion\t{version}\nprocessor\tone\n" + "".join(
        f"time\t1\t1\t{line}\t\n" for line in ("1\t1e9\t0\tx", "1\t0\t2e9\ty", "1e-3\t10\t10\tstep")) + "end\t3\n")
    link = "" if "bandwidth" in keys + machines else "bandwidth: 125e6\n"
    return write(name, f"times: one.times\n{link}{keys}\nmachines:\n  - {{{machines}}}\n")


def bars(file):
    events = [e for e in json.load(open(file))["traceEvents"] if e["ph"] == "X" and e["cat"] != "step"]
    return [(e["pid"], e["cat"], e["ts"], e["ts"] + e["dur"], e["name"]) for e in events]


def conserved():
    """The bars of a rank follow each other without a gap to the end of the step, and their sums are the parts of the estimate."""
    cluster("two.yaml", "bandwidth: 1e6\nlatency: 1e-4", "count: 4, cores: 1")
    for n, ways in ((2, "--mesh data=2"), (2, "--mesh tensor=2"), (4, "--mesh pipeline=2,data=2 --microbatches 4"), (2, "--exchange average:every=1")):
        text = run("plan", *SMALL, "-n", n, *ways.split(), "--cluster", "two.yaml", "--predicted", "step.json").stdout
        step = float(re.search(r"a step takes ([0-9.e+-]+) ms", text)[1])
        parts = dict(zip(("kernels", "transfers", "waiting", "the rest"), re.search(r"of it ([0-9.e+-]+) ms of kernels, ([0-9.e+-]+) of transfers, ([0-9.e+-]+) of waiting, ([0-9.e+-]+) of", text).groups()))
        have, ranks = collections.defaultdict(float), collections.defaultdict(list)
        for pid, kind, start, end, _ in bars("step.json"):
            if kind in KINDS:
                have[KINDS[kind]] += (end - start) / 1e3 / n
                ranks[pid].append((start, end))
        check(f"{ways}: ranks", len(ranks) == n, ranks.keys())
        for pid, spans in ranks.items():
            ends = [0] + [end for _, end in spans]
            check(f"{ways}: no gap in rank {pid - 1}", all(abs(start - end) < 0.01 for (start, _), end in zip(spans, ends)) and math.isclose(ends[-1], 1e3 * step, rel_tol=1e-3), spans[-3:])
        for part, value in parts.items():
            check(f"{ways}: {part}", math.isclose(have[part], float(value), rel_tol=2e-3, abs_tol=2e-3), (have, parts))


def links():
    """A link is busy for its bytes over its bandwidth, in bars that do not overlap."""
    cluster("slow.yaml", "bandwidth: 1e6\nlatency: 0", "count: 2, cores: 1")
    text = run("plan", *SMALL, "-n", 2, "--mesh", "data=2", "--cluster", "slow.yaml", "--predicted", "step.json").stdout
    sent = float(re.search(r"between machines: (\d+) bytes", text)[1])
    out = [b for b in bars("step.json") if b[1] == "send"]
    check("bytes", math.isclose(sum(end - start for _, _, start, end, _ in out), sent, rel_tol=1e-3), (sent, out))  # a byte a microsecond
    for pid in {b[0] for b in out}:
        own = sorted(b[2:4] for b in out if b[0] == pid)
        check("one message at a time", all(b[0] >= a[1] - 0.01 for a, b in zip(own, own[1:])), own)


def shown():
    """A measured step is beside the predicted one, with the same names."""
    cluster("two.yaml", "bandwidth: 1e8\nlatency: 0", "count: 2, cores: 1")
    ways = [*SMALL, "-n", 2, "--mesh", "data=2"]
    run("train", *ways, "-q", "--trace", "real.json")
    text = run("plan", *ways, "--cluster", "two.yaml", "--timeline", "--plot", "step.svg", "--predicted", "step.json", "--measured", "real.json").stdout
    steps = [e for e in json.load(open("real.json"))["traceEvents"] if e.get("cat") == "step" and e["pid"] == 1]
    lengths = sorted(e["dur"] for e in steps[1:])
    name = next(e["name"] for e in steps[1:] if e["dur"] == lengths[len(lengths) // 2])
    check("the step of median length", f"measured, {name} of real.json" in text, text)
    rows = re.findall(r"^(rank \d|machine \d (?:in|out)) +([FBU=.> -]+)$", text, re.M)
    check("lines of ranks and links", [row[0] for row in rows] == ["rank 0", "rank 1", "machine 0 out", "machine 0 in", "machine 1 out", "machine 1 in", "rank 0", "rank 1"], text)
    check("forward, backward and update in order", all(re.search("-*F.*B.*U", row[1]) for row in rows[:2]), rows)
    names = lambda file: {name for _, kind, _, _, name in bars(file) if kind == "kernel"}
    check("kernels have the names of a trace", names("step.json") <= {b[4] for b in bars("real.json")}, names("step.json") ^ names("real.json"))
    shapes = list(tree.parse("step.svg").getroot().iter())
    check("two frames with bars", sum(e.get("class") == "frame" for e in shapes) == 2 and sum(e.get("class") == "bar" for e in shapes) > 10)
    words = " ".join(e.text or "" for e in shapes)
    check("what is drawn", all(said in words for said in ("rank 0", "machine 1 in", "predicted for two.yaml", "measured, step", "waiting for other ranks")), words[:500])
    check("where it was measured", re.search(r"^measured, step \d+ of real.json, on \S.*: ", text, re.M), text)
    other = run("plan", *SMALL, "--cluster", "two.yaml", "--timeline", "--measured", "real.json", code=2).stderr
    check("another number of ranks", "real.json: a trace of 2 ranks, and the step that is predicted has 1" in other, other)
    other = run("plan", *ways, "--model", "lenet", "--cluster", "two.yaml", "--timeline", "--measured", "real.json").stderr
    check("another model", "real.json: a trace of the model mlp, and the step that is predicted is of lenet" in other, other)
    again = run("plan", *ways, "--cluster", "two.yaml", "--timeline", "--measured", "step.json").stdout
    check("a predicted trace is read as a measured one", "measured, step 1 of step.json" in again, again)


def many():
    """A picture and lines of many ranks and links say which they have."""
    cluster("many.yaml", "bandwidth: 1e8\nlatency: 0", "count: 40, cores: 1")
    done = run("plan", *SMALL, "--batch", 40, "-n", 40, "--mesh", "data=40", "--cluster", "many.yaml", "--timeline", "--plot", "step.svg")
    part = "ranks 0 to 23 of 40 and links of machines 0 to 7 of 40 are shown"
    check("the command tells", f"weft: step.svg: {part}; --predicted FILE writes all\n" in done.stderr, done.stderr)
    check("the picture tells", f"ms; {part}" in "".join(e.text or "" for e in tree.parse("step.svg").getroot().iter()))
    check("lines tell", "\nand 8 further ranks\n" in done.stdout and "\nand 24 further machines\n" in done.stdout, done.stdout)
    check("the key fits", max(map(len, done.stdout[done.stdout.index("F forward"):].split("\n"))) <= 80, done.stdout)


def refused():
    cluster("two.yaml", "", "count: 2, cores: 1")
    write("bad.json", "{")
    write("none.json", '{"traceEvents":[]}')
    for words, code, said in ((["--timeline"], 2, "give --cluster FILE"), (["--cluster", "two.yaml", "--timeline", "--strategies", "mesh=data=2"], 2, "leave one of them out"),
                              (["--cluster", "two.yaml", "--measured", "x.json"], 2, "--measured is shown by"),
                              (["--cluster", "two.yaml", "--timeline", "--measured", "bad.json"], 1, "bad.json: has no step"),
                              (["--cluster", "two.yaml", "--timeline", "--measured", "none.json"], 1, "none.json: has no step"),
                              (["--cluster", "two.yaml", "--timeline", "--measured", "gone.json"], 1, "gone.json: cannot read it"),
                              (["--cluster", "two.yaml", "--predicted", "none.json", "--timeline", "--measured", "none.json"], 2, "is the file of --measured"),
                              (["--cluster", "two.yaml", "--timeline", "-n", "2", "--exchange", "gossip"], 1, "do not wait for each other"),
                              (["--cluster", "two.yaml", "--plot", "x.png"], 2, "SVG")):
        done = run("plan", *SMALL, *words, code=code)
        check(said, said in done.stderr and not done.stdout, done.stderr)
    check("files stay", open("none.json").read() == '{"traceEvents":[]}')


sys.exit(main(conserved, links, shown, many, refused))
