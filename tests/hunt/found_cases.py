#!/usr/bin/env python3
"""Runs again what hunts have found: tests/hunt/found_cases.py PATH/TO/weft FOLDER

Each folder in FOLDER is a case: its files, and a file `case` with these lines:

    wrong:  what was wrong
    status: mended, or known, which is listed and not run
    run:    the command, or several with && between them; each must end by itself, with exit code 0
    same:   simpler commands whose weights must be the same to 1e-9 (may be left out)
    bits:   simpler commands whose weights must be the same bits (may be left out)
"""
import array
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

weft, cases = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FORMATS = {"F64": "d", "F32": "f", "I32": "i", "I64": "q"}
passed = failed = 0


def weights(path):
    """{name: numbers} of a safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = array.array(FORMATS[entry["dtype"]], data[8 + size + begin:8 + size + end])
    return found


def trained(commands):
    """Runs them in the folder of the case; returns their weights, or a sentence."""
    shutil.rmtree("out", ignore_errors=True)
    for command in commands.split(" && "):
        wrong = ended_wrong(command)
        if wrong:
            return wrong
    if not os.path.exists("out"):
        return {}
    subprocess.run([weft, "export", "out/latest", "-o", "weights", "-q"], check=True)
    return weights("weights")


def ended_wrong(command):
    words = command.split()
    try:
        done = subprocess.run([weft, *words[1:]], capture_output=True, text=True, errors="replace", timeout=600)
    except subprocess.TimeoutExpired:
        return "it does not end"
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip()[-400:]}"
    return None


def differ(a, b, share=1e-9):
    if isinstance(a, str) or isinstance(b, str):
        return next(x for x in (a, b) if isinstance(x, str))
    if a.keys() != b.keys():
        return f"other tensors: {sorted(a)} and {sorted(b)}"
    for name, numbers in a.items():
        most = max([1e-3, *map(abs, numbers)])
        off = max(abs(x - y) for x, y in zip(numbers, b[name], strict=True))
        if not off <= share * most:
            return f"{name} is off by {off}"
    return None


for name in sorted(os.listdir(cases)):
    with open(os.path.join(cases, name, "case")) as f:
        case = {key.strip(): value.strip() for key, value in (line.split(":", 1) for line in f if line.strip())}
    if case["status"] == "known":
        print(f"SKIPPED {name}, which is known: {case['wrong']}")
        continue
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copytree(os.path.join(cases, name), ".", dirs_exist_ok=True)
        run = trained(case["run"])
        wrong = run if isinstance(run, str) else None
        for key, share in ("same", 1e-9), ("bits", 0):
            if not wrong and key in case:
                wrong = differ(run, trained(case[key]), share)
        os.chdir("/")
    if wrong:
        failed += 1
        print(f"FAILED: {name}: {wrong}\n    {case['run']}")
    else:
        passed += 1
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0 or passed == 0)
