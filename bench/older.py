#!/usr/bin/env python3
"""Training steps beside those of an older command, in rounds that take turns: a model below 0.9 of its speed is an error.

usage: older.py WEFT OLDER [ROUNDS [MODEL...]]    (make bench-gate builds both)

Both run on one thread and are compared by processor time, so that other work on the machine changes little. A model or a type
that the older command refuses (exit status 2) is skipped.
"""
import os
import statistics
import subprocess
import sys
import tempfile

import runs

LEAST = 0.9
# name: (words of a run, steps that take about a second)
CASES = {
    "lenet": ("--model lenet --data glyphs:train=4000,test=10 --batch 100", 40),
    "vgg11": ("--model vgg11 --data glyphs:size=32,train=500,test=10 --batch 50", 4),
    "gpt": ("--model gpt:layers=4,heads=4,width=128 --data text:{text},unit=char,context=128 --batch 8", 10),
    "char-lstm": ("--model char-lstm:layers=2,units=256 --data text:{text},unit=char,context=64 --batch 32", 6),
    "mlp": ("--model mlp --data glyphs:train=4000,test=10 --batch 100", 600),
}
TYPES = ("f32", "bf16")


def times(weft, older, words, steps):
    """Milliseconds of a step of both, or what `compare` returns about the one that fails."""
    pair = []
    for which, command in (("this", weft), ("the older", older)):
        try:
            pair.append(1e3 * runs.step(command, words, steps))
        except subprocess.CalledProcessError as failed:
            said = (failed.stderr.strip().splitlines() or ["no message"])[0]
            if which != "this" and failed.returncode == 2:
                return None, (f"skipped, {which} command refuses it: {said}", None)
            return None, (f"{which} command failed with {failed.returncode}: {said}", False)
    return pair, None


def compare(weft, older, words, steps, rounds):
    """The sentence about a case, and whether it is good, bad (False), or was not compared (None)."""
    pairs, ratio = [], 0
    while not pairs or ratio < LEAST and len(pairs) == rounds:  # what is slow is looked at again
        for _ in range(rounds):
            pair, failed = times(weft, older, words, steps)
            if failed:
                return failed
            pairs.append(pair)
        ratios = sorted(b / a for a, b in pairs)
        ratio = statistics.median(ratios)
    now, before = (statistics.median(column) for column in zip(*pairs))
    return (f"a step takes {now:.2f} ms of a processor, that of the older command {before:.2f}; speed {ratio:.2f} of it "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {len(pairs)} rounds; at least {LEAST}{'' if ratio >= LEAST else '; SLOWER'})"), ratio >= LEAST


def main():
    weft, older = map(os.path.abspath, sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    bad, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        with open(text, "w") as out:
            out.write("the cat sat. a dog ran. we see it. " * 4000)
        for name in sys.argv[4:] or CASES:
            for dtype in TYPES:
                words, steps = CASES[name]
                said, good = compare(weft, older, [*words.format(text=text).split(), "--dtype", dtype], steps, rounds)
                said = f"{name} in {dtype}: {said}"
                print(said, flush=True)
                compared += good is not None
                if good is False:
                    bad.append(said)
    if not compared:
        bad.append("the older command takes no case, so nothing was compared")
    sys.exit("\n".join(["The gate fails:", *bad]) if bad else 0)


if __name__ == "__main__":
    main()
