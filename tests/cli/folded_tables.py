#!/usr/bin/env python3
"""Tables on terminals that are narrower than they are: folded_tables.py PATH/TO/weft

Each table has the same words, in the same order, on a terminal of any width as without one, and its lines fit where every single
column does.
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

weft = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp())
TASK = ["--model", "mlp", "--data", "glyphs:size=16,train=60,test=20", "--batch", "24"]
passed = failed = 0


def check(holds, what):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print("failed:", what)


def on_terminal(columns, words):
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execv(words[0], words)
    text = b""
    while True:
        try:
            some = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not some:
            break
        text += some
    os.waitpid(pid, 0)
    os.close(terminal)
    # A terminal has what is said on standard error, too.
    return re.sub(r"^weft: .*\n", "", text.decode().replace("\r\n", "\n"), flags=re.M)


def tables(text, heading):
    """The paragraphs that begin with a heading."""
    return [p for p in re.split(r":?\n\s*\n|:\n", text) if p.startswith(heading)]


version = subprocess.run([weft, "--version"], capture_output=True, text=True).stdout.split()[1]
with open("one.times", "w") as out:
    rows = ["1\t1\t1e10\t0\tx\t", "1\t1\t0\t2e10\ty\t", "1\t1e-3\t10\t10\tstep\t"]
    out.write(f"weft-times\t1\nversion\t{version}\nprocessor\tone\n" + "".join(f"time\t1\t{r}\n" for r in rows) + "end\t3\n")
with open("two.yaml", "w") as out:
    out.write("times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 2, cores: 2}\n")
LONG = "exchange=average:every=4 momentum=0.5 optimizer=sgd lr=0.001 ema=0.99"
CASES = [
    ("rank", ["-n", "4", "--mesh", "data=2,tensor=2"], 34),
    ("strategy", ["-n", "2", "--cluster", "two.yaml", "--strategies", "mesh=data=2; mesh=data=2 zero=1; exchange=average:every=4"], 26),
    ("strategy", ["-n", "2", "--cluster", "two.yaml", "--auto", "--mesh", "data=2"], 38),
    ("strategy", ["--cluster", "two.yaml", "--scale", "1..2", "--strategies", f"mesh=data=N; {LONG}"], 68),
    ("ms a step", ["-n", "2", "--cluster", "two.yaml", "--why", "mesh=data=2; mesh=pipeline=2 microbatches=2"], 28),
    ("strategy", ["-n", "2", "--cluster", "two.yaml", "--target", "train_loss=2.5", "--steps", "2", "--strategies", f"mesh=data=2; {LONG}"], 68),
]
for heading, words, widest in CASES:
    command = [weft, "plan", *TASK, *words]
    whole = tables(subprocess.run(command, capture_output=True, text=True).stdout, heading)
    check(whole and max(map(len, whole[0].split("\n"))) > (60 if "--why" in words else 80), f"{words} without a terminal: {whole}")
    for columns in (40, 80, 100, 300):
        folded = tables(on_terminal(columns, command), heading)
        check(len(folded) == len(whole), f"{words} at {columns}: {folded}")
        for a, b in zip(whole, folded):
            # Numbers of bytes that are resident differ by a little from run to run.
            lines = a.split("\n")[: len([line for line in a.split("\n") if not line.startswith(("The fastest", "1 process"))])]
            kinds = [re.sub(r"[0-9.]+", "#", t).split() for t in (a, b)]
            check(kinds[0] == kinds[1], f"{words} at {columns}:\n{a}\n{b}")
            rows = [line for line in b.split("\n") if not re.match(r"[0-9.]+ (parameters|process|MB on)", line)]
            check(max(map(len, rows)) <= max(columns, widest) and len(lines) > 1, f"{words} at {columns}:\n{b}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
