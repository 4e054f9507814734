#!/usr/bin/env python3
"""Compares each number of docs/limits.md with the constant in the file that its row names, or with the largest value that
the command accepts for its option; and each limit of the public headers with the page: limits.py WEFT ROOT"""
import pathlib
import re
import subprocess
import sys

weft, root = sys.argv[1], pathlib.Path(sys.argv[2])
page = (root / "docs/limits.md").read_text()
constants = re.findall(r"^\| .* \| (\d+) \| `(\w+)` \| `(\S+)` \|$", page, re.M)
options = re.findall(r"^\| .* \| (\d+) \| `weft (\w+) --([\w-]+)` \|$", page, re.M)
problems = []


def value(name, text):
    """The number that an enumeration or macro gives to a name; None: it gives none."""
    found = re.search(rf"(?:^#define\s+{name}\s+|\b{name} = )(\(?\d[\d\s<()]*?\)?)(?=,|\s*\}}|\s*/\*|$)", text, re.M)
    return eval(found[1], {"__builtins__": {}}) if found else None


for number, name, file in constants:
    there = value(name, (root / file).read_text())
    if there != int(number):
        problems.append(f"{name} of {file} is {there}, the page has {number}")
for number, command, option in options:
    said = subprocess.run([weft, command, f"--{option}={'9' * 17}"], capture_output=True, text=True, check=False).stderr
    found = re.search(r"must be a whole number from \d+ to (\d+)$", said, re.M)
    if not found or found[1] != number:
        problems.append(f"weft {command} --{option} accepts {found[1] if found else said!r}, the page has {number}")
# A limit that the headers of programs have belongs on the page.
named = {name for _, name, _ in constants} | {
    # of records: how many figures they hold, not what a user may give
    "WEFT_MOST_MEASURES", "WEFT_MAX_PORTS"}
for path in sorted((root / "include/weft").glob("*.h")):
    for name in re.findall(r"\bWEFT_M(?:AX|OST)_\w+(?= =|\s+\(?\d)", path.read_text()):
        if name not in named:
            problems.append(f"docs/limits.md lacks {name} of {path.name}")
rows = len([line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| limit ")])
if rows != len(constants) + len(options):
    problems.append(f"{rows} rows, of which {len(constants) + len(options)} can be read")
print("\n".join(problems) if problems else f"{len(constants)} constants and {len(options)} options are as the page has them")
sys.exit(bool(problems))
