"""Cluster files with faults: each command that reads one runs, or says in one sentence what is wrong and where, and leaves nothing
behind: bad_cluster_files.py PATH/TO/weft

The files are those of examples/clusters with random changes, the same in each run of the test."""
import glob
import os
import random
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../support"))
from checks import check, main, weft

EXAMPLES = sorted(glob.glob(os.path.join(HERE, "../../examples/clusters/*.yaml")))
VALUES = ("-1 0 1e400 nan -inf 125MB [] {} '' ~ 1e-320 99999999999999999999 -0 0x10 1e3x true [1,2] *a !!int \"8 1e18 1e-18 2000 .. /dev/null").split() + ["1 Gbit", "- 1", "|\n  x"]
KEYS = ["unknown", "Count", "", "times", "step", "rate", "machines", "latency", "?"]
WHOLE = ["", "machines:\n", "machines: []\n", "machines: [{}]\n", "machines:\n  -\n", "\t\n", "---\n", "times: nominal.times\n", "machines: {count: 3}\n"]
RUN = "--model mlp --data glyphs:size=8,train=40,test=10 -b 10".split()
COMMANDS = [
    ["plan", *RUN, "-n", "2", "--mesh", "data=2", "--plot", "out.svg", "--predicted", "out.json"],
    ["plan", *RUN, "-n", "2", "--strategies", "exchange=gossip; mesh=data=2"],
    ["plan", *RUN, "-n", "2", "--auto", "--seconds", "1", "--output", "out.yaml"],
    ["plan", *RUN, "--strategies", "mesh=data=N", "--scale", "1..2", "--plot", "out.svg"],
    ["plan", *RUN, "-n", "2", "--target", "train_loss=9", "--strategies", "exchange=gossip", "--plot", "out.svg"],
    ["simulate", *RUN, "--exchange", "gossip", "--metrics", "out.jsonl"],
    ["compare", *RUN, "--strategies", "exchange=gossip; exchange=server", "--plot", "out.svg", "--quiet"],
]


def replaced(draw, text, pattern, words):
    """One of what the pattern's group matches is replaced by one of the words."""
    found = draw.choice(list(re.finditer(pattern, text)) or [None])
    return text[:found.start(1)] + draw.choice(words) + text[found.end(1):] if found else text


def changed(draw, text):
    lines = text.split("\n")
    i, k = draw.randrange(len(lines)), draw.randrange(len(lines))
    at = draw.randrange(len(text) or 1)
    way = draw.randrange(11)
    if way < 3:
        return replaced(draw, text, r"[\w-]+: ([^,}\n#]+)", VALUES)
    if way == 3:
        return replaced(draw, text, r"([\w-]+):", KEYS)
    if way == 4:
        return draw.choice(WHOLE)
    if way == 5:
        return text[:at] + draw.choice("\0\t\r\x1b\x7f\xff{}[]:,-#&*!|>'\"%@`") + text[at + 1:]
    if way == 6:
        return f"{text}\nx: {'[' * draw.choice((3, 100, 100000))}"
    if way == 7:
        return text[:at]
    if way == 8:
        lines[i] = draw.choice((" ", "  ", "\t")) + lines[i]
    elif way == 9:
        lines[i:i + 1] = draw.choice(([], [lines[i]] * 2))
    else:
        lines[i], lines[k] = lines[k], lines[i]
    return "\n".join(lines)


def faults():
    draw = random.Random(1)
    shutil.copy(os.path.join(os.path.dirname(EXAMPLES[0]), "nominal.times"), ".")
    for number in range(60 if os.environ.get("WEFT_FAST") else 300):
        text = open(draw.choice(EXAMPLES)).read()
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            text = changed(draw, text)
        with open("bad.yaml", "w", encoding="latin1") as f:
            f.write(text)
        words = draw.choice(COMMANDS)
        done = subprocess.run([weft, *words, "--cluster", "bad.yaml"], capture_output=True, timeout=300)
        said = done.stderr.decode("latin1")
        what = f"{words[0]} {words[-4:]} of file {number}"
        check(f"{what}: the exit code", done.returncode in (0, 1, 2), (done.returncode, text[-2000:]))
        if done.returncode:
            told = [line for line in said.split("\n") if line and not line.startswith("Try ")]
            check(f"{what}: one sentence", len(told) == 1 and told[0].startswith("weft: ") and not re.search("[\x00-\x09\x0b-\x1f\x7f]", said), (said, text[-2000:]))
            check(f"{what}: no output", not glob.glob("out.*"), glob.glob("out.*"))
            # What a value is wrong about has a line; a file that lacks something, or fits no run, has none.
            where = re.search("bad.yaml:[0-9]+: |bad.yaml: |bad.yaml has |for bad.yaml; |-n 2", said)
            check(f"{what}: says where", where, (said, text[-2000:]))
        for file in glob.glob("out.*"):
            os.remove(file)


sys.exit(main(faults))
