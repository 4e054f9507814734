#!/usr/bin/env python3
"""Tables of several files: tests/data/several_files.py PATH/TO/weft [PART...]"""
import csv
import gzip
import json
import os
import random
import shutil
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../support"))
from checks import check, main, run


def write_file(name, header, rows, order=None, separator=",", end="\n", mark=""):
    """A file of a table whose columns have this order."""
    with (gzip.open if name.endswith(".gz") else open)(name, "wt", newline="", encoding="utf-8") as f:
        f.write(mark)
        writer = csv.writer(f, delimiter=separator, lineterminator=end)
        if header[0] is not None:
            writer.writerow([header[i] for i in order] if order else header)
        writer.writerows([row[i] for i in order] if order else row for row in rows)


def train(folder, data, *more, code=0):
    if "--resume" not in more:
        shutil.rmtree(folder, ignore_errors=True)
    return run("train", "-q", "-t", 1, "-m", "mlp", "-d", data, "-c", folder, "-b", 8, *more, code=code)


def predictions(folder, *more):
    return [json.loads(line) for line in run("predict", folder, "-t", 1, "--json", *more).stdout.splitlines()]


def draw(chance, rows, named):
    header = ["n", "city, old", "m", "kind", "y"] if named else [None] * 5
    return header, [[f"{chance.gauss(0, 3):.2f}", chance.choice(("Rom", "B\"ern", "Oslo")), chance.choice(("", "3", "4")), chance.choice("abc"), chance.choice(("no", "yes"))]
                    for _ in range(rows)]


# --- an oracle: the same rows in one file ---

def oracle():
    for seed in range(30 if not os.environ.get("WEFT_FAST") else 3):
        chance = random.Random(seed)
        named, rows = seed % 3 != 1, chance.randrange(70, 100)
        header, table = draw(chance, rows, named)
        parts = chance.randrange(2, 5)
        edges = [0, *sorted(chance.sample(range(30, rows), parts - 1)), rows]
        shutil.rmtree("d", ignore_errors=True)
        os.mkdir("d")
        names = [f"d/{'part' if seed % 2 else 'p'}-{k}.csv" + chance.choice(("", ".gz")) for k in range(parts)]
        for k, name in enumerate(names):
            order = list(range(5))
            if named and k > 0:
                chance.shuffle(order)
            write_file(name, header, table[edges[k]:edges[k + 1]], order, chance.choice(",;\t"), chance.choice(("\n", "\r\n", "\r")), chance.choice(("", "\ufeff")))
        write_file("one.csv", header, table)
        several = "d/p*.csv*" if chance.random() < 0.5 else "+".join(chance.sample(names, parts))
        keys = "," + ("label=y" if named else "label=4") + ",missing=median+flag"
        case = f"seed {seed}, {several}{keys}"
        train("one", "csv:one.csv" + keys, "-e", 1)
        train("all", "csv:" + several + keys, "-e", 1)
        want, got = predictions("one"), predictions("all")
        def file_of(row):
            k = max(k for k in range(parts) if edges[k] <= row)
            return os.path.abspath(names[k]), row - edges[k]
        check(f"predictions, {case}", [r["probabilities"] for r in want] == [r["probabilities"] for r in got], (want[:1], got[:1]))
        check(f"rows, {case}", [file_of(r["sample"]) for r in want] == [(os.path.abspath(r["file"]), r["sample"]) for r in got], got[:3])
        joined = [run("predict", "one", "-t", 1, "--join", "-d", "csv:" + of + ",test=1").stdout for of in ("one.csv", several)]
        check(f"joined, {case}", joined[0] == joined[1], joined)
        # The test part in files of its own.
        cut = chance.randrange(1, parts)
        train("cut", f"csv:{'+'.join(names[:cut])}{keys},test={'+'.join(names[cut:])}", "-e", 1)
        said = json.loads(run("eval", "cut", "-t", 1, "--json").stdout)
        check(f"the test part, {case}", said["samples"] == rows - edges[cut], said)
        for change, same in (None, True), (1, False):
            if change:
                with (gzip.open if names[-1].endswith(".gz") else open)(names[-1], "wt", newline="") as f:
                    csv.writer(f).writerows([header] * named + [["9.5", "Rom", "3", "a", "no"]] + table[edges[-2] + 1:])
            said = train("all", "csv:" + several + keys, "-e", 2, "--resume", code=0 if same else 2)
            check(f"resumed, {case}", same or "other samples" in said.stderr, said.stderr)


def sentences():
    head, rows = ["a", "b", "y"], [[i, i * i, "pq"[i % 2]] for i in range(20)]
    write_file("a.csv", head, rows)
    write_file("a+b.csv", head, rows[:10])
    train("m", "csv:a+b.csv", "-e", 1)
    train("m", "csv:a.csv,test=a+b.csv", "-e", 1)
    write_file("none.csv", head, [])
    train("m", "csv:a.csv+none.csv", "-e", 1)
    open("empty.csv", "w").close()
    later = [[r[0] + 0.5, r[1], r[2]] for r in rows]
    for name, header, body, words in (
            ("more", [*head, "c"], [[1, 2, "p", 4]], "more.csv:1: has a column 'c', which a.csv has not; the files of one table have the same columns, in any order"),
            ("less", head[:2], [[1, 2]], "less.csv:1: has no column 'y', which a.csv has"),
            ("other", ["a", "B", "y"], later, "other.csv:1: has a column 'B', which a.csv has not"),
            ("twice", ["a", "y", "a", "b"], later, "twice.csv: columns 0 and 2 are both named 'a'"),
            ("bare", [None] * 3, later, "bare.csv:1: has a column '0.5', which a.csv has not"),
            ("word", ["y", "a", "b"], [["p", 1, 2], ["q", 3, "x"]], "word.csv:3: column 2 (b) holds 'x', a finite number must stand there"),
            ("gap", ["y", "a", "b"], [["p", 1, 2], ["", 3, 4]], "gap.csv:3: column 0 (y): the label is empty"),
            ("short", head, [[1, 2, "p"], [3, 4]], "short.csv:3: has 2 columns, the rows before have 3")):
        write_file(name + ".csv", header, body)
        said = train("bad", f"csv:a.csv+{name}.csv", "-e", 1, code=1)
        check(name, words in said.stderr, said.stderr)
    for spec, words, code in (("a.csv+empty.csv", "empty.csv: is empty", 1), ("a.csv+[a].csv", "a.csv: is given twice", 2), ("a.csv+no.csv", "no.csv: cannot open", 1), ("q*.csv", "q*.csv: cannot open", 1),
                        ("none.csv", "none.csv: has a header but no rows", 1), ("a.csv,test=1.5", "test is '1.5', must be a share from 0 to 1, or files", 2)):
        said = train("bad", "csv:" + spec, "-e", 1, code=code)
        check(spec, words in said.stderr, said.stderr)
    said = run("predict", "m", "-d", "csv:a.csv+empty.csv", "-o", "empty.csv", code=2).stderr
    check("a file of the data is not overwritten", "--output empty.csv is a file of the data" in said, said)


def tests_of_their_own():
    """Texts and classes that only the files of the test part have are what they are in a file of --validation."""
    head, rows = ["a", "city", "y"], [[i, ("Rom", "Bern")[i % 2], "pq"[i // 2 % 2]] for i in range(20)]
    strange = [[1, "Oslo", "p"], [2, "Rom", "q"], [3, "Oslo", "q"], [4, "Kiel", "p"]]
    write_file("own.csv", head, rows)
    write_file("own_1.csv", head, strange)
    write_file("own_2.csv", head, [[5, "Bern", "p"], [6, "Ulm", "q"]])
    for test, count in ("own_1.csv", 3), ("own_1.csv+own_2.csv", 4), ("own_2.csv", 1):
        words = f"texts that are no categories of the training, in {count} row{'s' * (count > 1)}, such as '{'Oslo' if count > 1 else 'Ulm'}'"
        for more in ["csv:own.csv,test=" + test], ["csv:own.csv,test=0.2", "--validation", "csv:" + test], ["reconstruct:csv:own.csv,test=" + test]:
            told = run("train", "-t", 1, "-m", "mlp", "-d", more[0], "-b", 8, "-e", 1, *more[1:]).stderr
            check(f"{more} is told", told.count(words) == 1 and "own_" in told, told)
    write_file("own_3.csv", head, [[5, "", "p"], [6, "Rom", "q"]])
    for more in ["csv:own.csv,missing=category,test=own_3.csv"], ["csv:own.csv,missing=category,test=0.2", "--validation", "csv:own_3.csv"]:
        told = run("train", "-t", 1, "-m", "mlp", "-d", more[0], "-b", 8, "-e", 1, *more[1:]).stderr
        check(f"{more} is told", told.count("own_3.csv: column city has no value in 1 row, and had one in each row of the training") == 1, told)
    for form, strange_class in (str, "r"), (lambda c: "012"["pqr".index(c)], "2"):
        write_file("own.csv", head, [[*row[:2], form(row[2])] for row in rows])
        write_file("own_1.csv", head, [[*row[:2], form(row[2])] for row in strange])
        write_file("own_2.csv", head, [[7, "Rom", form("r")]])
        run("train", "-q", "-t", 1, "-m", "mlp", "-d", "csv:own.csv,test=own_1.csv", "-b", 8, "-e", 1)
        said = run("train", "-q", "-t", 1, "-m", "mlp", "-d", "csv:own.csv,test=own_1.csv+own_2.csv", "-b", 8, "-e", 1, code=1).stderr
        check(f"the class {strange_class}", f"own_1.csv+own_2.csv: no file of the training has the class '{strange_class}'" in said, said)
        run("train", "-q", "-t", 1, "-m", "mlp", "-d", "reconstruct:csv:own.csv,test=own_1.csv+own_2.csv", "-b", 8, "-e", 1)


def repeated():
    """Rows that are trained on and tested on are counted; so are files of the training that are given again as other data."""
    chance = random.Random(4)
    head = ["a", "city", "day", "y"]
    rows = [[f"{chance.gauss(0, 9):.3f}", chance.choice(("Rom", "Bern")), f"2024-02-{chance.randrange(10, 29)}", chance.choice("pq")] for _ in range(30)]
    other = [[f"{chance.gauss(0, 9):.3f}", *row[1:]] for row in rows[:4]]
    relabelled = [[*row[:3], "q" if row[3] == "p" else "p"] for row in rows[:3]]
    write_file("seen.csv", head, rows)
    keys = "dates=day,rare=1"
    for name, test, count in ("some", [rows[3], *other, rows[9], rows[3]], 3), ("none", other + relabelled, 0), ("all", rows, 30), ("moved", [[row[3], *row[:3]] for row in rows[5:9]], 4):
        write_file("again.csv", [head[3], *head[:3]] if name == "moved" else head, test)
        for part, more in ("test", [f"csv:seen.csv,{keys},test=again.csv"]), ("test", [f"csv:seen.csv,target=a,{keys},test=again.csv"]), (
                "validation", [f"csv:seen.csv,{keys},test=0", "--validation", "csv:again.csv"]):
            numeric = "target" in more[0]
            told = run("train", "-t", 1, "-m", "mlp", "-d", more[0], "-b", 8, "-e", 1, *more[1:]).stderr
            words = f"{count} of the {len(test)} rows of the {part} part are also rows of the training part"
            check(f"{name} {more}", told.count(words) == (count > 0) and told.count("also rows of") == (count > 0), told) if not numeric or name != "none" else None
    write_file("again.csv", head, other)
    train("m", f"csv:seen.csv,{keys},test=again.csv", "-e", 1)
    for data, trained in ("seen.csv", True), ("again.csv", False), ("./seen.csv", True):
        told = run("eval", "m", "-t", 1, "-d", "csv:" + data).stderr
        check(f"{data} given again", ("the model was trained on them" in told) == trained, told)


def share():
    """Texts that the test part of one file alone has are told."""
    chance = random.Random(5)
    rows = [[f"{chance.gauss(0, 9):.3f}", chance.choice(("Rom", "Bern")), chance.choice("pq")] for _ in range(40)]
    write_file("one.csv", ["a", "city", "y"], rows)
    train("m", "csv:one.csv,test=0.3", "-e", 1)
    tested = {row["sample"] for row in predictions("m")}
    check("a part", len(tested) == 12, tested)
    for strange in [3], [7, 9], sorted(tested)[:1], sorted(tested)[1:4], [*sorted(tested)[:1], *(i for i in range(40) if i not in tested)][:2]:
        write_file("one.csv", ["a", "city", "y"], [[row[0], "Oslo" if i in strange else row[1], row[2]] for i, row in enumerate(rows)])
        told = run("train", "-t", 1, "-m", "mlp", "-d", "csv:one.csv,test=0.3", "-b", 8, "-e", 1).stderr
        count = len(strange) if set(strange) <= tested else 0
        words = f"column city has texts that are no categories of the training, in {count} row{'s' * (count > 1)}, such as 'Oslo'"
        check(f"texts of rows {strange}", told.count(words) == (count > 0) and told.count("no categories") == (count > 0), told)


sys.exit(main(oracle, sentences, tests_of_their_own, repeated, share))
