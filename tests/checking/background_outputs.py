#!/usr/bin/env python3
"""Tests in the shell begin what runs beside them by `background` of tests/support/check.sh: a file that the process itself opens
has the lines of an earlier one until the process runs, and a wait may take these for its own. The rule is tried on examples first."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("tests", "scripts", "bench")
# Scripts that do without check.sh, and why they may.
OTHERS = {"tests/job/launcher_words/record": "reads its files when the process has ended", "tests/support/check.sh": "has `background`"}
# A lone & after a redirection into a file, in one simple command.
BACKGROUND = re.compile(r">>?\s*(?!/dev/)[\w\"'$./{][^&|;\n]*(?<!&)&(?![&>])")


def commands(text):
    """(line, command) of a script; lines that go on are one, and copies of descriptors are left out."""
    line = 1
    for part in re.split(r"(?<!\\)\n", text):
        yield line, re.sub(r"\d?>&[\d-]|^\s*#.*", "", part.replace("\\\n", " "))
        line += part.count("\n") + 1


def found(text):
    return [line for line, command in commands(text) if BACKGROUND.search(command)]


BAD = ('"$weft" serve m=c >out 2>err &', "run >out &", "run 2>err &", 'run >"$name.out" 2>&1 &', "run >>out & job=$!", "run a \\\n  >out &", "(cd a && run >out 2>err </dev/null 9>&- &)")
GOOD = ("background out err run", "run >out 2>err && pass", "run &", "run >/dev/null 2>&1 &", "# run >out &", "run >out || { grep a err && pass; }", "run >out; sleep 3 &")
wrong = [f"{text!r} is not found" for text in BAD if not found(text)] + [f"{text!r} is found" for text in GOOD if found(text)]
files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and path.suffix in ("", ".sh")]
scripts = {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in files}
scripts = {name: text for name, text in scripts.items() if name.endswith(".sh") or re.match(r"#!.*\bbash\b|#!/bin/sh\b|# ", text)}
for name, text in scripts.items():
    if name not in OTHERS:
        wrong += [f"{name}:{line}: a process in the background with a file for its output; write: background OUT ERR COMMAND..." for line in found(text)]
wrong += [f"{name}: needs no exception" for name in OTHERS if not found(scripts.get(name, ""))]
if not any(name == "tests/job/hosts-up" for name in scripts) or len(scripts) < 50:
    wrong.append(f"only {len(scripts)} scripts were read")
print("\n".join(wrong) or f"{len(scripts)} scripts begin their processes by `background`")
sys.exit(bool(wrong))
