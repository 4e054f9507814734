#!/usr/bin/env python3
"""Pictures that are normalised by the mean and deviation of ImageNet's channels: tests/data/channel_normalization.py PATH/TO/weft

They train, evaluate and predict as arrays that are normalised by hand, whatever their type and unit.
"""
import json
import os
import random
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft
from npy import write_npy

scratch()
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ROWS, SIDE = 24, 9
chance = random.Random(1)
pixels = [chance.randrange(256) for _ in range(ROWS * 3 * SIDE * SIDE)]
channel = [j // SIDE ** 2 % 3 for j in range(len(pixels))]
write_npy("bytes.npy", "|u1", (ROWS, 3, SIDE, SIDE), pixels)
write_npy("shares.npy", "<f4", (ROWS, 3, SIDE, SIDE), [p / 255 for p in pixels])
write_npy("large.npy", "<f4", (ROWS, 3, SIDE, SIDE), pixels)
write_npy("by_hand.npy", "<f4", (ROWS, 3, SIDE, SIDE), [(p / 255 - MEAN[c]) / DEVIATION[c] for p, c in zip(pixels, channel)])
write_npy("grey.npy", "|u1", (ROWS, 1, SIDE, SIDE), pixels[:ROWS * SIDE * SIDE])
write_npy("y.npy", "<i8", (ROWS,), [chance.randrange(3) for _ in range(ROWS)])


def run(*words):
    return subprocess.run([weft, *words, "-t", "1"], capture_output=True, text=True, timeout=120)


def losses(name, normalize):
    done = run("train", "-q", "-m", "mlp", "-d", f"npy:{name}.npy,y.npy", "-b", "6", "--steps", "9", "--normalize", normalize, "-c", name,
               "--metrics", f"{name}.jsonl")
    check(f"train {name}: {done.stderr}", done.returncode == 0 and not done.stderr)
    return [e["loss"] for e in map(json.loads, open(f"{name}.jsonl")) if e["event"] in ("step", "eval")]


def probabilities(folder, data):
    done = run("predict", folder, "-d", f"npy:{data}.npy", "--json")
    check(f"predict {folder} {data}: {done.stderr}", done.returncode == 0)
    return [p for row in map(json.loads, done.stdout.splitlines()) for p in row["probabilities"]]


def near(a, b):
    return len(a) == len(b) > 0 and all(abs(x - y) < 1e-4 for x, y in zip(a, b))


wanted = losses("by_hand", "none")
answers = probabilities("by_hand", "by_hand")
for name in ("bytes", "shares", "large"):
    check(f"the losses of {name}", near(losses(name, "imagenet"), wanted))
    for data in ("bytes", "shares"):
        check(f"{name} predicts {data}", near(probabilities(name, data), answers))

# Pictures are drawn with their own colours; data without such channels are refused.
drawn = run("inspect", "--data", "npy:bytes.npy,y.npy", "--normalize", "imagenet", "--plot", "sheet.svg")
plain = run("inspect", "--data", "npy:bytes.npy,y.npy", "--normalize", "unit", "--plot", "plain.svg")
check(f"the sheet: {drawn.stderr}", drawn.returncode == plain.returncode == 0 and open("sheet.svg", "rb").read() == open("plain.svg", "rb").read())
done = run("train", "-q", "-m", "mlp", "-d", "npy:by_hand.npy,y.npy", "-b", "6", "--steps", "1", "--normalize", "imagenet")
check(f"normalised twice: {done.stderr}", done.returncode == 2 and "takes pixels from 0 to 255, or as shares from 0 to 1, and the numbers" in done.stderr)
for data in ("npy:grey.npy,y.npy", "glyphs:size=8,train=60,test=20"):
    done = run("train", "-q", "-m", "mlp", "-d", data, "-b", "6", "--steps", "1", "--normalize", "imagenet")
    check(f"{data}: {done.stderr}", done.returncode == 2 and "--normalize imagenet is for pictures of three channels" in done.stderr)
end()
