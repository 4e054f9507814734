#!/usr/bin/env python3
"""The gate of bench/older.py decides by times of steps, which are given here, and by commands that fail: older_gate.py ROOT"""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "bench"))
import older  # noqa: E402
import runs  # noqa: E402

# Seconds of a step by the name of a command, and words of runs that it refuses or is slow in.
SECONDS = {"near": 0.11, "slow": 0.112}
SLOW, REFUSES = {"slow_in_bf16": "bf16", "slow_twice": ""}, {"before_bf16": "bf16", "before_mlp": "mlp", "refuses": "train"}
# this command, the older one, exit status, words that stand there
CASES = [
    ("even", "even", 0, ["lenet in f32: a step takes 100.00 ms", "mlp in bf16", "speed 1.00 of it (1.00 to 1.00 in 3 rounds"]),
    ("near", "even", 0, ["speed 0.91"]),
    ("slow", "even", 1, ["The gate fails:\nlenet in f32", "mlp in bf16: a step takes 112.00 ms", "speed 0.89", "in 6 rounds", "SLOWER"]),
    ("even", "slow", 0, ["speed 1.12"]),
    ("slow_in_bf16", "even", 1, ["The gate fails:\nlenet in bf16", "speed 0.33"]),
    ("slow_twice", "even", 0, ["speed 1.00 of it (0.33 to 1.00 in 6 rounds"]),
    ("even", "before_bf16", 0, ["lenet in bf16: skipped, the older command refuses it: weft: no 'bf16' here"]),
    ("slow", "before_bf16", 1, ["The gate fails:\nlenet in f32"]),
    ("even", "before_mlp", 0, ["mlp in f32: skipped", "lenet in bf16: a step takes"]),
    ("before_mlp", "even", 1, ["The gate fails:\nmlp in f32: this command failed with 2: weft: no 'mlp' here"]),
    ("broken", "even", 1, ["lenet in f32: this command failed with 1: weft: out of luck"]),
    ("even", "broken", 1, ["mlp in bf16: the older command failed with 1: weft: out of luck"]),
    ("even", "refuses", 1, ["nothing was compared"]),
]
problems, asked, of_a_process = [], {}, runs.step


def step(command, words, steps):
    name, words = os.path.basename(command), ["train", *words]
    if name == "broken":
        return of_a_process(command, words, steps)
    if name in REFUSES and REFUSES[name] in words:
        raise subprocess.CalledProcessError(2, command, stderr=f"weft: no '{REFUSES[name]}' here\nmore\n")
    asked[name, *words] = asked.get((name, *words), 0) + 1
    slow = name in SLOW and (SLOW[name] in words or name == "slow_twice" and asked[name, *words] <= 2)
    return 0.3 if slow else SECONDS.get(name, 0.1)


def gate(*words):
    out, sys.argv = io.StringIO(), ["older.py", *words]
    with contextlib.redirect_stdout(out):
        try:
            older.main()
            status = 0
        except SystemExit as end:
            status = int(bool(end.code))
            out.write(str(end.code))
    return status, out.getvalue()


def check(what, status, said, wanted, words):
    if status != wanted or any(word not in said for word in words):
        problems.append(f"{what}: exit {status}, wanted {wanted} and {words}:\n{said}")


runs.step = step
with tempfile.TemporaryDirectory() as folder:
    broken = pathlib.Path(folder) / "broken"
    broken.write_text("#!/bin/sh\necho 'weft: out of luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    for this, other, wanted, words in CASES:
        check(f"{this} beside {other}", *gate(f"{folder}/{this}", f"{folder}/{other}", "3", "lenet", "mlp"), wanted, words)
    # The command to compare with: a program as it is, or a commit, of which one that is not there is told.
    for name, wanted, word in ((str(broken), 0, os.path.realpath(broken)), ("no-such-commit", 2, "'no-such-commit' is neither a program nor")):
        done = subprocess.run([root / "scripts/older", name], capture_output=True, text=True, check=False)
        check(f"scripts/older {name}", done.returncode, done.stdout + done.stderr, wanted, [word])
print("\n".join(problems) or f"{len(CASES) + 2} passed")
sys.exit(bool(problems))
