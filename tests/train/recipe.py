#!/usr/bin/env python3
"""The command of the guide that learns Fashion-MNIST, on a few drawn digits: tests/train/recipe.py PATH/TO/weft

With --virtual-workers it leaves the same bits on 1, 2 and 4 ranks, and after SIGKILL and --resume.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../support"))
from checks import check, main, run, weft

with open(os.path.join(HERE, "../../docs/guide/models.md")) as guide:
    text = guide.read()
words = shlex.split(re.search(r"    weft (train --model examples/fashion.yaml .*)\n", text).group(1))
INSTEAD = {"--model": os.path.join(HERE, "../../examples/fashion.yaml"), "--data": "glyphs:size=28,train=150,test=20", "--epochs": "2", "--batch": "16"}
command = words[:1] + [INSTEAD.get(before, word) for before, word in zip(words, words[1:])] + ["--virtual-workers", "4", "-t", "1", "-q"]


def weights(folder):
    run("export", f"{folder}/latest", "-o", "weights.safetensors")
    with open("weights.safetensors", "rb") as file:
        return file.read()


def ranks():
    run(*command, "--checkpoint", "alone")
    for n in (2, 4):
        run(*command, "--checkpoint", f"ranks{n}", "-n", n)
        check(f"the same bits on {n} ranks", weights(f"ranks{n}") == weights("alone"))


def killed():
    for n in (1, 2):
        shutil.rmtree("killed", ignore_errors=True)
        child = subprocess.Popen([weft, *command, "--checkpoint", "killed", "--checkpoint-every", "1", "-n", str(n)])
        while not os.path.exists("killed/latest") and child.poll() is None:
            time.sleep(0.01)
        child.kill()
        child.wait()
        run(*command, "--checkpoint", "killed", "--resume", "-n", 3 - n)
        check(f"the same bits after SIGKILL on {n} ranks and --resume on {3 - n}", weights("killed") == weights("alone"))


if __name__ == "__main__":
    sys.exit(main(ranks, killed))
