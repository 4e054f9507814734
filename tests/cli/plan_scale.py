"""Steps on more and more machines (weft plan --scale): plan_scale.py PATH/TO/weft"""
import json
import math
import os
import sys
import xml.etree.ElementTree as tree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, write

SMALL = "--data glyphs:size=16,train=60,test=20 --batch 16 --model mlp".split()


def cluster(name, keys, machines):
    """A machine of 1e10 operations and 1e10 bytes a second, whose host works a millisecond for a step."""
    version = run("--version").stdout.split()[1]
    write("one.times", f"weft-times\t1\nversion\t{version}\nprocessor\tone\n" + "".join(
        f"time\t1\t1\t{line}\t\n" for line in ("1\t1e10\t0\tx", "1\t0\t2e10\ty", "1e-3\t10\t10\tstep")) + "end\t3\n")
    link = "" if "bandwidth" in keys + machines else "bandwidth: 125e6\n"
    return write(name, f"times: one.times\n{link}{keys}\nmachines:\n  - {{{machines}}}\n")


def rows():
    """Each estimate is that of so many ranks, and efficiency is a share of the fastest on one machine."""
    cluster("slow.yaml", "bandwidth: 1e6\nlatency: 1e-4", "count: 8, cores: 1")
    strategies = "mesh=data=N; exchange=average:every=N; mesh=data=N/2,tensor=2"
    have = json.loads(run("plan", *SMALL, "--cluster", "slow.yaml", "--strategies", strategies, "--scale", "1..6", "--json", "--plot", "scale.svg").stdout)
    check("sizes", [row["machines"] for row in have] == [1, 2, 4, 6] * 3, have)
    best = max(row["samples_per_second"] for row in have if row["machines"] == 1 and "reason" not in row)
    for row in have:
        n = row["machines"]
        if n == 1 and "tensor" in row["strategy"]:
            check("no half of a machine", "is not whole" in row["reason"], row)
            continue
        words = row["strategy"].replace("N/2", str(n // 2)).replace("=N", f"={n}")
        alone = json.loads(run("plan", *SMALL, "--cluster", "slow.yaml", "-n", n, "--strategies", words, "--json").stdout)[0]
        check(f"{words}", {key: row.get(key) for key in ("step_seconds", "samples_per_second", "reason")} == {key: alone.get(key) for key in ("step_seconds", "samples_per_second", "reason")}, (row, alone))
        if "reason" not in row:
            check(f"efficiency of {words}", math.isclose(row["efficiency"], row["samples_per_second"] / n / best, rel_tol=1e-6), row)
    shapes = list(tree.parse("scale.svg").getroot().iter())
    check("two panels of curves", sum(e.get("class") == "curve" for e in shapes) == 6 and sum(e.get("class") == "frame" for e in shapes) == 2)
    text = run("plan", *SMALL, "--cluster", "slow.yaml", "--strategies", strategies, "--scale", "1..6").stdout
    check("a table", text.count("\n") == 4 + 12 + 1 and "mesh=data=N/2,tensor=2 on 1 machine: a part of 1 machine, as N/2, is not whole\n" in text and "fastest\non 1 machine, times the machines" in text, text)


def free():
    """Learners that never wait for a link are as many times as fast as there are machines."""
    cluster("free.yaml", "bandwidth: 1e15\nlatency: 0", "count: 32, cores: 1")
    have = json.loads(run("plan", *SMALL, "--cluster", "free.yaml", "--strategies", "exchange=average:every=1000000", "--scale", "1..32", "--json").stdout)
    check("efficiency", all(abs(row["efficiency"] - 1) < 1e-3 for row in have) and len(have) == 6, have)


def refused():
    cluster("four.yaml", "", "count: 4, cores: 1")
    for words, said in ((["--scale", "1..4"], "--scale is of --strategies"), (["--scale", "4..1", "--strategies", "a"], "give two numbers of machines"),
                        (["--scale", "1..5", "--strategies", "mesh=data=N"], "four.yaml has 4 machines, and --scale goes to 5"),
                        (["--plot", "x.svg", "--strategies", "mesh=data=1"], "or draw --scale"),
                        (["--scale", "1..4", "--strategies", "mesh=data=N", "--plot", "x.png"], "SVG")):
        done = run("plan", *SMALL, "--cluster", "four.yaml", *words, code=2)
        check(said, said in done.stderr and not done.stdout, done.stderr)


sys.exit(main(rows, free, refused))
