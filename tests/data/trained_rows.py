#!/usr/bin/env python3
"""Rows on which a model was trained, and what is told of a table: tests/data/trained_rows.py PATH/TO/weft

A checkpoint knows its table by all rows, so a resumed run refuses any change, and an evaluation tells how many rows of the training
are among other data, in any order of rows and columns. Columns that may not be meant as they are read cause a warning, others none.
"""
import csv
import os
import random
import re
import shutil
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, run, scratch

scratch()
HEADER = ["n", "city", "y"]


def draw(chance, count):
    """Rows of which no two are equal, since the first number is another one in each."""
    return [[f"{chance.uniform(0, 100):.6f}", chance.choice(["Rom", "Ulm", "Bern"]), chance.choice("pq")] for _ in range(count)]


def write(name, rows, order=None, separator=","):
    order = order or range(len(rows[0]))
    with open(name, "w", newline="") as f:
        csv.writer(f, delimiter=separator, lineterminator="\n").writerows([row[i] for i in order] for row in rows)


def train(folder, data, *more, code=0):
    return run("train", "-q", "-t", 1, "-m", "mlp", "-d", data, "-b", 8, "-c", folder, *more, code=code)


def shared(folder, rows, *how):
    """Of the rows of the training, how many an evaluation finds among these, and whether it says 'about'."""
    write("later.csv", [HEADER, *rows], *how)
    said = run("eval", folder, "-d", "csv:later.csv,label=y").stderr
    found = re.search(r"have rows on which .* was trained, (about )?(\d+) of its (\d+), so", said)
    return (int(found[2]), bool(found[1])) if found else (0, False)


chance = random.Random(5)
write("test.csv", [HEADER, *draw(chance, 20)])
for count in 40, 300:
    trained, others = draw(chance, count), draw(chance, 60)
    write("train.csv", [HEADER, *trained])
    folder = f"run{count}"
    train(folder, "csv:train.csv,test=test.csv,label=y", "-e", 1)
    for part in 0, 1, count // 2, count - 1:
        for how in (), ([2, 0, 1], ";"):
            rows = trained[:part] + others
            chance.shuffle(rows)
            found, about = shared(folder, rows, *how)
            near = found == part if count == 40 else abs(found - part) <= 4 * (part * (1 - part / count) * count / 64) ** 0.5 + 8
            check(f"{part} of {count} rows {how}", near and about == (count > 64 and found > 0), (found, about))
    # A run that resumes finds any change, wherever it is.
    for change in range(6):
        rows = [list(row) for row in trained]
        at = chance.randrange(count - 1)
        if change < 3:
            rows[at][change] = ["7.25", "Ulm" if rows[at][1] == "Rom" else "Rom", "p" if rows[at][2] == "q" else "q"][change]
        elif change == 3:
            rows[at], rows[at + 1] = rows[at + 1], rows[at]
        elif change == 4:
            rows[at] = list(others[0])
        write("train.csv", [HEADER, *rows])
        said = train(folder, "csv:train.csv,test=test.csv,label=y", "-e", 2, "--resume", code=0 if change == 5 else 2)
        check(f"change {change} in row {at} of {count}", change == 5 or "the training part has other samples" in said.stderr, said.stderr)
# The rows of a table with weights are the same where weights are not read.
weighted = [["n", "w", "y"], *([row[0], "2", row[2]] for row in trained)]
write("weights.csv", weighted)
train("weights", "csv:weights.csv,weight=w,label=y", "-e", 1)
check("predictions of a table with weights", run("predict", "weights").stderr == "")

# Columns as they may be meant; of each the words of the only warning, or none.
AS_DATES, LIKE_DATES, SIGNS = "its texts are dates, which are read as days by dates=x", "its texts look like dates, which are read as days", "its texts are numbers with other signs"
DIGITS, LABEL = "column x has whole numbers of 2^53 and more", "the label is the last column, y, and column class is a feature"
for texts, words in (
        ([f"2024-{m:02d}-05" for m in range(1, 10)], AS_DATES), ([f"2024-{m:02d}-05 10:30" for m in range(1, 10)], AS_DATES),
        ([f"{m}/5/2024" for m in range(1, 10)], AS_DATES + ":dmy or :mdy"), ([f"{m:02d}.05.2024 1:30 pm" for m in range(5, 14)], AS_DATES + ":dmy"),
        ([f"5/{m}/2024" for m in range(5, 14)], AS_DATES + ":mdy"), ([f"{m}/5/24 10:30" for m in range(1, 10)], LIKE_DATES),
        ([f"1.{m}.3" for m in range(1, 10)], None), (["2024-01-05", "2024-02-05"], None), (["2024-01-05", "2024-02-05", "never"], None),
        ([f"{m},250" for m in range(1, 10)], SIGNS), ([f"1,{m}00,250.5" for m in range(1, 10)], SIGNS), ([f"{m} %" for m in range(9)], SIGNS), ([f"{m}%" for m in range(9)], SIGNS),
        ([f"${m}.50" for m in range(9)], SIGNS), ([f"{m} 250" for m in range(1, 10)], SIGNS), ([f"{m} €" for m in range(9)], SIGNS),
        ([f"{m},25" for m in range(1, 10)], None), ([f"{m} kg" for m in range(9)], None), ([f"A{m}" for m in range(9)], None), ([f"{m}-{m + 1}" for m in range(9)], None),
        ([str(2**60 + m) for m in range(9)], DIGITS), ([str(2**53 - m) for m in range(1, 9)], None), ([f"{m}e30" for m in range(1, 9)], None), ([str(m) for m in range(9)], None)):
    rows = [["x", "z", "y"], *([texts[i % len(texts)], f"{chance.uniform(0, 1):.4f}", "pq"[i % 2]] for i in range(90))]
    write("forms.csv", rows)
    shutil.rmtree("forms", ignore_errors=True)
    told = [line for line in run("train", "-t", 1, "-m", "mlp", "-d", "csv:forms.csv", "-b", 9, "--steps", 1).stderr.splitlines() if "forms.csv: " in line]
    check(f"{texts[:2]}", len(told) == 1 and words in told[0] if words else not told, told)
for header, options, words in (["class", "z", "y"], "", LABEL), (["class", "z", "y"], ",label=y", None), (["x", "z", "class"], "", None), (["z", "x", "y"], "", None):
    write("forms.csv", [header, *([i % 3, f"{chance.uniform(0, 1):.4f}", "pq"[i % 2]] for i in range(90))])
    said = run("train", "-t", 1, "-m", "mlp", "-d", "csv:forms.csv" + options, "-b", 9, "--steps", 1).stderr
    check(f"{header} {options}", (words in said) if words else "forms.csv: " not in said, said)
write("empty.csv", [["a", "sex", "port"], *([str(i), "fm"[i % 2], "" if i == 5 else "S"] for i in range(9))])
for options, words in (("", "column 2 (port), the last one, since no label= is given: the label is empty; leave the row out, or give label=NAME if another column is the label"),
                       (",label=port", "column 2 (port): the label is empty; leave the row out\n"), (",label=sex", "column 2 (port) holds '', a missing value; missing=category fills")):
    said = run("train", "-m", "mlp", "-d", "csv:empty.csv" + options, "-b", 2, code=1).stderr
    check(f"an empty field {options}", words in said, said)

# The mark at the beginning of a text is no character of it.
for name, mark in ("plain.txt", b""), ("marked.txt", b"\xef\xbb\xbf"):
    with open(name, "wb") as f:
        f.write(mark + "Once upon a time there was \u00fc. ".encode() * 40)
    run("train", "-q", "-t", 1, "-m", "gpt:layers=1,heads=1,width=8", "-d", f"text:{name},unit=char,context=16", "-b", 8, "--steps", 3, "-c", name + ".run")
read = [run("generate", name + ".run", "--prompt", "Once", "--tokens", 30).stdout for name in ("plain.txt", "marked.txt")]
check("a byte order mark", read[0] == read[1] and read[0].startswith("Once"), read)
same = [run("eval", "plain.txt.run", "-d", f"text:{name},test=1").stdout for name in ("plain.txt", "marked.txt")]
check("a later text with a byte order mark", same[0] == same[1], same)
sys.exit(end())
