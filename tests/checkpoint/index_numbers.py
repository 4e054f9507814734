#!/usr/bin/env python3
"""Each integer of a checkpoint's index at its extremes, with right checksums: tests/checkpoint/index_numbers.py PATH/TO/weft

Every command that opens a checkpoint ends by itself, with its result or with a sentence and code 1 or 2; numbers that are too large
for anything, or far below zero, are refused by all of them, with the name of the checkpoint.
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, weft

fast = os.environ.get("WEFT_FAST")
TOO_FAR = [-2**63, 2**62, 2**63 - 1]  # for anything that an index counts
EXTREMES = TOO_FAR + ([2**31] if fast else [-1, 0, 2**31 - 1, 2**31, 2**53])
COMMANDS = {"train": ["train", "--resume", "--epochs", "3", "--checkpoint", "run", "-t", "1"], "eval": ["eval", "run"], "predict": ["predict", "run"],
            "inspect": ["inspect", "run"], "export": ["export", "run", "-q", "-o", "-"]}
LIMIT = 120


def rewrite(folder, path, value):
    """Sets one number of the index, and its checksum."""
    name = os.path.join(folder, "latest", "index.json")
    with open(name) as f:
        index = json.load(f)
    at = index
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    del index["crc32"]
    text = json.dumps(index, indent=1)[:-2]
    with open(name, "w") as f:
        f.write(f'{text},\n "crc32": "{zlib.crc32(text.encode()):08x}"\n}}')


def integers(node, path=()):
    """Where the index has integers; of a list only the first and the last."""
    items = node.items() if isinstance(node, dict) else [(i, node[i]) for i in sorted({0, len(node) - 1})] if isinstance(node, list) and node else []
    if isinstance(node, int) and not isinstance(node, bool):
        yield path
    for key, value in items:
        yield from integers(value, (*path, key))


def run(words, home):
    try:
        done = subprocess.run([weft, *words], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, "", ""
    return done.returncode, done.stdout[-2000:].decode(errors="replace"), done.stderr.decode(errors="replace")


def try_number(top, model, options, path, value):
    """In each command that opens checkpoints; in the short form in two of them."""
    results = []
    for command in ("train", "eval") if fast else COMMANDS:
        with tempfile.TemporaryDirectory(dir=top) as home:
            shutil.copytree(os.path.join(top, model), os.path.join(home, "run"), symlinks=True)
            rewrite(os.path.join(home, "run"), path, value)
            code, out, err = run([*COMMANDS[command], *(options if command == "train" else [])], home)
            refused = code in (1, 2) and "weft: " in err
            good = code == 1 and refused and "step-4" in err if value in TOO_FAR else code == 0 or refused
            results.append((f"{model}: {command} with {'.'.join(map(str, path))} = {value}", good, (code, err[-300:], out[-200:])))
    return results


def everything():
    top = os.getcwd()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with open(f"{top}/letters.txt", "w") as f:
            f.write("a few words to learn, and a few more\n" * 40)
        with open(f"{top}/rows.csv", "w") as f:
            f.write("a,b,kind\n" + "".join(f"{i % 7},{i % 5},{'xyz'[i % 3]}\n" for i in range(60)))
        models = {"table": ["--model", "mlp", "--data", f"csv:{top}/rows.csv", "--batch", "10"],
                  "tokens": ["--model", "char-lstm", "--data", f"text:{top}/letters.txt,unit=char,context=8", "--batch", "8"],
                  "learners": ["--model", "mlp", "--data", f"csv:{top}/rows.csv", "--batch", "5", "-n", "2", "--exchange", "average:every=3"]}
        tries = []
        for model, options in models.items():
            code, out, err = run(["train", *options, "--steps", "4", "-q", "-t", "1", "--checkpoint", model], top)
            assert code == 0, (options, err)
            with open(f"{top}/{model}/latest/index.json") as f:
                index = json.load(f)
            if "inputs" in index["data"]:
                del index["data"]["shape"]  # is not read then
            places = [*integers(index), ("files",)]
            tries += [(top, model, options, path, value) for path in places for value in EXTREMES]
        for results in pool.map(lambda t: try_number(*t), tries):
            for what, good, told in results:
                check(what, good, told)


sys.exit(main(everything))
