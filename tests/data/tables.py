#!/usr/bin/env python3
"""Tables with texts, missing values and dates: tests/data/tables.py PATH/TO/weft [PART...]"""
import csv
import datetime
import json
import os
import random
import re
import shutil
import re
import subprocess
import sys
import urllib.error
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../support"))
from checks import check, main, run, weft

MARKS = ["", "NA", "n/a", "nan", "null", "?"]


def write_rows(name, rows, separator=","):
    with open(name, "w", newline="") as f:
        csv.writer(f, delimiter=separator, lineterminator="\n").writerows(rows)


def train(folder, data, *more, code=0, model="mlp"):
    shutil.rmtree(folder, ignore_errors=True)
    return run("train", "-q", "-t", 1, "-m", model, "-d", data, "-c", folder, *more, code=code)


def predictions(folder, data=None, *more):
    said = run("predict", folder, "-t", 1, "--json", *(["-d", data] if data else []), *more)
    return [json.loads(line) for line in said.stdout.splitlines()], said.stderr


def numbers(rows):
    return [r.get("probabilities") or r["predicted"] for r in rows]


# --- the drawn tables: one command each ---

def usual():
    for kind, data, metric, least, more in (
            ("passengers", "csv:passengers.csv,id=id,drop=name+cabin,missing=median+flag", "accuracy", 0.89, ("-e", 20)),
            ("incomes", "csv:incomes.csv,missing=category", "accuracy", 0.87, ("-e", 5)),
            ("incomes", "csv:incomes.csv,missing=category,embedding=all", "accuracy", 0.87, ("-e", 5)),
            ("houses", "csv:houses.csv,target=price,missing=mean+flag,dates=sold", "r2", 0.94, ("-e", 30)),
            ("machines", "csv:machines*.csv,label=overheat+leak+wear,missing=mean", "f1_micro", 0.82, ("-e", 10))):
        maker = [sys.executable, os.path.join(here, "make_table.py"), kind]
        if "*" in data:
            subprocess.run(maker + ["3000", kind, "3"], check=True)
        else:
            with open(kind + ".csv", "w") as f:
                subprocess.run(maker, stdout=f, check=True)
        train(kind, data, *more)
        told = json.loads(run("eval", kind, "-t", 1, "--json").stdout)
        check(f"{metric} of {kind}", told[metric] >= least, told)


# --- an oracle: a table that is made of numbers by hand gives the same model ---

def word_order(word):
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0, word


def clock(t):
    """A time as 6:05 PM."""
    return f"{(t.hour + 11) % 12 + 1}:{t.minute:02d} {'AP'[t.hour > 11]}M"


# Forms of dates beside ISO's, as they may be written, with a time and without one.
WRITTEN = {"dmy": lambda t, sign: f"{t.day}{sign}{t.month:02d}{sign}{t.year}" + (f" {t.hour}:{t.minute:02d}" if t.minute else f"T{t.hour:02d}:00:00.0Z"),
           "mdy": lambda t, sign: f"{t.month:02d}{sign}{t.day}{sign}{t.year} {clock(t)}",
           "epoch": lambda t, sign: str(int((t - datetime.datetime(1970, 1, 1)).total_seconds()))}
READ = {"dmy": "%d %m %Y %H:%M", "mdy": "%m %d %Y %I:%M %p"}


def draw(chance, kind):
    """A value of a column, as text; None: missing."""
    if kind == "dates":
        return (datetime.date(1960, 1, 1) + datetime.timedelta(chance.randrange(30000))).isoformat()
    if kind == "times":
        moment = datetime.datetime(2001, 3, 4) + datetime.timedelta(hours=6 * chance.randrange(9999))
        return moment.isoformat() + chance.choice(("", "Z", "+00:00"))
    if kind in WRITTEN:
        moment = datetime.datetime(1999, 3, 4) + datetime.timedelta(minutes=chance.choice((1440, 7)) * chance.randrange(9999))
        return WRITTEN[kind](moment, chance.choice("./-"))
    if kind == "numbers":
        return str(chance.randrange(-40, 40) / 4)
    if kind == "codes":
        return chance.choices(("3", "10", "7", "21"), (9, 9, 9, 1))[0]
    return chance.choices(("red", "green, dark", 'the "blue"', "ocker", "grau ü"), (30, 30, 30, 2, 1))[0]


def days(text, kind):
    if kind == "epoch":
        return int(text) / 86400
    if kind in READ:
        text = re.sub(r"[./-]", " ", text).replace("T", " ").replace(":00:00 0Z", ":00")
        return (datetime.datetime.strptime(text, READ[kind]) - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    moment = datetime.datetime.fromisoformat(text.replace("Z", "").replace("+00:00", ""))
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds() / 86400


def by_hand(values, kind, weights, how, rare, parts):
    """The features of a column: a list for each row. weights: how often a row counts in the statistics."""
    known = [v for v, w in zip(values, weights) for _ in range(w) if v is not None]
    if kind in ("words", "codes"):
        words = sorted({w for w in known if known.count(w) >= rare}, key=word_order)
        other, gaps = any(known.count(w) < rare for w in known), any(v is None for v, w in zip(values, weights) if w)
        return [[int(v == w) for w in words] + [int(v is not None and v not in words)] * other + [int(v is None)] * gaps for v in values]
    read = float if kind == "numbers" else lambda text: days(text, kind)
    ordered = sorted(map(read, known))
    middle = len(ordered)
    fill = ordered[middle // 2] / 2 + ordered[(middle - 1) // 2] / 2 if "median" in how else sum(ordered) / middle
    flag = "flag" in how and any(v is None for v, w in zip(values, weights) if w)
    out = []
    for v in values:
        x = fill if v is None else read(v)
        day = datetime.date(1970, 1, 1) + datetime.timedelta(int(x // 1))
        out.append([x] + ([day.year, day.month, day.day, day.weekday()] if parts and kind != "numbers" else []) + [int(v is None)] * flag)
    return out


def oracle():
    for seed in range(40 if not os.environ.get("WEFT_FAST") else 5):
        chance = random.Random(seed)
        rows, rare = chance.randrange(60, 90), chance.choice((1, 2, 4))
        parts, how = chance.random() < 0.5, chance.choice(("median", "median+flag", "mean+flag"))
        kinds = [chance.choice(("numbers", "words", "codes", "dates", "times", *WRITTEN)) for _ in range(chance.randrange(1, 5))] + ["words"]
        gaps = [chance.random() < 0.6 for _ in kinds]
        header = chance.random() < 0.7
        table = [[None if gap and chance.random() < 0.15 else draw(chance, kind) for kind, gap in zip(kinds, gaps)] for _ in range(rows)]
        target = [f"{chance.gauss(0, 3):.3f}" for _ in range(rows)]
        weights, weighted = [chance.choice((0, 1, 1, 2, 3)) for _ in range(rows)], chance.random() < 0.5
        names = [f"c{j}" for j in range(len(kinds))]
        separator = chance.choice(",;\t|")
        write_rows("t.csv", [names + ["y", "w"]] * header + [[chance.choice(MARKS) if v is None else v for v in row] + [y, w]
                                                             for row, y, w in zip(table, target, weights)], separator)
        listed = {key: "+".join((names[j] if header else str(j)) + (f":{k}" if k in WRITTEN else "") for j, k in enumerate(kinds) if k in of)
                  for key, of in (("categorical", ("codes",)), ("dates", ("dates", "times", *WRITTEN)))}
        spec = "csv:t.csv,target=%s,%s=%s,missing=%s,rare=%d%s%s" % ("y" if header else len(kinds), "weight" if weighted else "id",
                                                                     "w" if header else len(kinds) + 1, how, rare, ",parts" * parts,
                                                                "".join(f",{key}={of}" for key, of in listed.items() if of))
        case = f"seed {seed}, {spec}, {kinds}"
        train("text", spec, "--normalize", "none", "-e", 2, "-b", 8)
        got, _ = predictions("text", None)
        tested = {r["sample"] for r in got}
        columns = [by_hand([row[j] for row in table], kind, [(weights[i] if weighted else 1) * (i not in tested) for i in range(rows)], how, rare, parts) for j, kind in enumerate(kinds)]
        write_rows("n.csv", [[repr(x) for c in columns for x in c[i]] + [target[i], weights[i]] for i in range(rows)])
        last = sum(len(c[0]) for c in columns)
        train("plain", f"csv:n.csv,target={last},{'weight' if weighted else 'id'}={last + 1}", "--normalize", "none", "-e", 2, "-b", 8)
        want, _ = predictions("plain", None)
        same = len(got) == len(want) > 0 and all(abs(a - b) <= (1e-4 if "mean" in how else 0) * max(1, abs(b))
                                                 for x, y in zip(got, want) for a, b in zip(x["predicted"], y["predicted"]))
        check(f"features of {case}", same, (got[:2], want[:2]))
        # Later tables: the same rows without the target, in another order of the columns, and further columns.
        if header:
            order = list(range(len(kinds)))
            chance.shuffle(order)
            write_rows("later.csv", [["new"] + [names[j] for j in order]] + [["x"] + ["" if row[j] is None else row[j] for j in order] for row in table])
            later, said = predictions("text", "csv:later.csv")
            by_row = {r["sample"]: r["predicted"] for r in later}
            check(f"later rows of {case}", len(later) == rows and all(by_row[r["sample"]] == r["predicted"] for r in got), said)
            check(f"a column that is ignored, {case}", "the column 'new', with which the model was not trained, is ignored" in said, said)
        for r in numbers(got):
            check("finite", all(abs(x) < 1e6 for x in r), r)


# --- later data, and sentences ---

def later():
    rows = [["city", "age", "day", "y"]] + [[("Rom", "Bern", "Oslo")[i % 3], 20 + i, f"2024-0{i % 9 + 1}-11", "ab"[i % 2]] for i in range(40)]
    write_rows("t.csv", rows)
    train("m", "csv:t.csv,dates=day,missing=mean", "-e", 1, "-b", 8)
    write_rows("new.csv", [["day", "city", "age"], ["2024-05-05", "Paris", "30"], ["", "Rom", "NA"], ["2024-05-05", "Nizza", "30"]])
    got, said = predictions("m", "csv:new.csv")
    check("an unknown category is other", "column city has texts that are no categories of the training, in 2 rows, such as 'Paris'" in said, said)
    check("all unknown categories are one", len(got) == 3 and got[0]["probabilities"] == got[2]["probabilities"] != got[1]["probabilities"], got)
    write_rows("gaps.csv", [["day", "city", "age"], ["2024-05-05", "", "30"], ["2024-05-05", "?", "30"], ["2024-05-05", "Rom", "30"]])
    _, said = predictions("m", "csv:gaps.csv")
    check("a category is missing that never was", "column city has no value in 2 rows, and had one in each row of the training; such a row has none of its categories" in said, said)
    # The label by default and by name is the same column; another is refused.
    for first, then, code in (("", ",label=y", 0), (",label=y", "", 0), (",label=3", ",label=y", 0), ("", ",label=city", 2), (",label=city", "", 0)):
        train("s", "csv:t.csv,dates=day" + first, "-e", 1, "-b", 8)
        said = run("train", "-q", "-t", 1, "-m", "mlp", "-d", "csv:t.csv,dates=day" + then, "-c", "s", "-e", 2, "-b", 8, "--resume", code=code)
        check(f"resumed with {then or 'nothing'} after {first or 'nothing'}", code == 0 or "was a feature in training; the label was 'y'" in said.stderr, said.stderr)
    train("r", "csv:t.csv,dates=day", "-e", 1, "-b", 8)
    for folder, header, row, words in (
            ("r", "day,city,age", "2024-05-05,Rom,", "column 2 (age) holds '', a finite number must stand there; the model was trained without missing="),
            ("r", "day,city,age", "2024-05-05,?,3", "column 1 (city) holds '?', a missing value; the model was trained without missing="),
            ("m", "day,city,age", "2024-05-05,Rom,old", "column 2 (age) holds 'old', a finite number must stand there"),
            ("m", "day,city,age", "5.5.2024,Rom,3", "column 0 (day) holds '5.5.2024', a date must stand there, as 2024-02-29"),
            ("m", "day,age", "2024-05-05,3", "has no column 'city', which the model was trained with"),
            ("m", "day,town,age", "2024-05-05,Rom,3", "has no column 'city', which the model was trained with, but one named 'town'")):
        with open("bad.csv", "w") as f:
            f.write(f"{header}\n{row}\n")
        said = run("predict", folder, "-t", 1, "-d", "csv:bad.csv", code=2 if "has no column" in words else 1)
        check(f"{header} {row}", words in said.stderr, said.stderr)


def sentences():
    head, some = "a,b,y\n", "1,u,p\n2,v,q\n3,u,p\n4,v,q\n5,u,p\n6,v,q\n"
    many = "".join(f"{i},{'w%d' % (i // 2)},{'pq'[i % 2]}\n" for i in range(1400))
    for text, options, code, words in (
            (head + some + "7,,p\n", "", 1, "t.csv:8: column 1 (b) holds '', a missing value; missing=category fills such gaps, drop=b leaves"),
            (head + some + "?,u,p\n", "", 1, "t.csv:8: column 0 (a) holds '?', a finite number must stand there; missing=mean fills such gaps, drop=a"),
            (head + some + "?,u,p\n", "missing=category", 1, "t.csv:8: column 0 (a) holds '?'"),
            (head + "?,u,p\n" + some, "missing=category", 2, "t.csv:2: column a has no number; missing=mean"),
            (head + some + "x,u,p\n", "", 1, "t.csv:8: column 0 (a) holds 'x', a finite number must stand there, as in other rows; categorical=a makes"),
            (head + some + "7,8,p\n", "", 1, "t.csv:2: column 1 (b) holds 'u', a finite number must stand there, as in other rows; categorical=b"),
            (some + "7,8,p\n", "", 1, "t.csv:1: column 1 holds 'u', a finite number must stand there, as in other rows; categorical=1 makes all of them "
             "categories, na=u says that this marks a missing value, drop=1 leaves the column out, and if row 1 is a header, give label=NAME"),
            (head + some, "missing=zero", 2, "missing is 'zero', must be refuse, category (texts alone), mean, median, mean+flag or median+flag"),
            (head + some, "drop=c", 2, "t.csv: drop: no column is named 'c'"),
            (head + some, "only=a+z", 2, "t.csv: only: no column is named 'z'"),
            (head + some, "categorical=q", 2, "t.csv: categorical=q is the name or number of no feature"),
            (head + some, "dates=b,categorical=b", 2, "column 1 is given as dates and as categories"),
            *((head + some, f"{given},drop={drop}", 2, f"t.csv: {given.split(',')[0]} gives a column that drop={drop} leaves out")
              for drop in ("a", "0", "b+a") for key in ("label", "target", "weight", "id") for given in (f"{key}=a", f"{key}=0")),
            *((head + some, leaves, 2, "t.csv: no feature remains of 3 columns") for leaves in ("drop=a+b", "drop=0+1,label=y", "only=y", "drop=a,weight=b")),
            (head + "1,2020-01-01,p\n2,,q\n" + some.replace("u", "2020-01-02").replace("v", "2020-01-03"), "dates=b", 1,
             "t.csv:3: column 1 (b) holds '', a missing value; missing=mean fills such gaps"),
            (head + some, "dates=a", 1, "t.csv:2: column 0 (a) holds '1', a date must stand there"),
            ("d,b,y\n2024-05-01,1,p\n13.5.2024,2,q\n", "dates=d", 1, "t.csv:3: column 0 (d) holds '13.5.2024', a date must stand there, as 2024-02-29 or "
             "2024-02-29T18:30:00; dates=d:dmy reads all dates of the column as 29.2.2024, with the day first, and a column that has dates of several forms must be written in one"),
            ("d,b,y\n1/5/2024,1,p\n2/29/2024,2,q\n", "dates=d:dmy", 1, "t.csv:3: column 0 (d) holds '2/29/2024', a date must stand there, as 29.2.2024, with the day first; dates=d:mdy reads"),
            ("d,b,y\n1714521600,1,p\n1714521600000,2,q\n", "dates=d:epoch", 1, "column 0 (d) holds '1714521600000', a date must stand there, as seconds since 1970, up to the year 9999"),
            *((f"d,b,y\n{date},1,p\n", "dates=d:dmy", 1, f"holds '{date}', a date") for date in ("1.5.24", "1.5/2024", "31.4.2024", "1.5.2024 24:00", "1.5.2024 13:00 PM", "1.5.2024x", "1..2024")),
            (head + some, "dates=a:ymd", 2, "t.csv: dates=a:ymd: the form of the dates must be iso, dmy, mdy or epoch"),
            (head + some, "rare=9", 2, "t.csv: column b has no text, such as 'u', that stands in 9 training rows, so it says nothing of a row: drop=b"),
            (head + "".join(f"{i},2024-01-{i:02d},p\n{i},2024-02-{i:02d},q\n" for i in range(1, 20)), "", 2, "its texts are dates, which are read as days by dates=b"),
            (head + many, "rare=1", 2, "categories, of which at most 256 become features; embedding=b takes up to 4096, rare=N takes"),
            (head + "NA,u,p\nNA,v,q\nNA,u,p\nNA,v,q\nNA,u,p\n", "missing=mean", 2, "column a has no value in the training rows; drop=a")):
        with open("t.csv", "w") as f:
            f.write(text)
        said = train("bad", "csv:t.csv" + ("," + options if options else ""), "-e", 1, "-b", 2, code=code)
        check(f"{options} {text[-20:]!r}", words in said.stderr, said.stderr)
    with open("t.csv", "w") as f:
        f.write(head + some)
    train("good", "csv:t.csv", "-e", 1, "-b", 2)
    for news, words in (("c",), "the column 'c', with"), (("c", "d"), "the column 'c' and 1 other, with"), (("c", "d", "e"), "the column 'c' and 2 others, with"):
        write_rows("new.csv", [["a", "b", *news], [1, "u", *news], [2, "v", *news]])
        said = run("predict", "good", "-d", "csv:new.csv")
        check(words, words in said.stderr, said.stderr)
    for coding in "utf-16", "utf-16-le", "utf-16-be":
        with open("t.csv", "wb") as f:
            f.write((head + some).encode(coding))
        said = train("bad", "csv:t.csv", "-e", 1, "-b", 2, code=1)
        check(coding, "t.csv: looks like text in UTF-16, and tables are read in UTF-8" in said.stderr, said.stderr)
    for text, options, features in (
            (head + some, "", 3), (some, "", 3), (head + some, "drop=b", 1), (head + some, "drop=1", 1), (some, "drop=1", 1), (head + some, "only=b", 2),
            (head + some + "x,u,p\n", "na=x+z,missing=mean", 3), (head + some, "categorical=a,rare=1", 7), (head + some + ",u,p\n" * 2, "categorical=0,rare=1,missing=category", 8)):
        with open("t.csv", "w") as f:
            f.write(text)
        train("good", "csv:t.csv" + ("," + options if options else ""), "-e", 1, "-b", 2)
        about = json.load(open("good/latest/index.json"))
        shape = about["data"]["shape"][0]
        check(f"{features} features of {options} {text[:8]!r}", features - 2 * ("categorical" in options) <= shape <= features, shape)
        check(f"rows without what was dropped or with it, {options} {text[:8]!r}", len(predictions("good", "csv:t.csv,test=1")[0]) >= 6)
        check("the oldest format that holds it", (about["format"] == 5) == ("table" in about["data"]), about["format"])


# --- what became of the columns ---

def inspected():
    rows = [["city", "age", "day", "free", "y"]] + [["Rom" if i % 3 else "Bern", "" if i % 5 == 0 else i, "2024-01-0%d" % (i % 9 + 1), f"t{i}", "ab"[i % 4 == 0]] for i in range(40)]
    write_rows("t.csv", rows)
    for spec, words in (("csv:t.csv,drop=free,dates=day,missing=mean+flag", ("city categories 0 2 of 0 and 1 2: Rom 26, Bern 14", "age numbers 8 2, ", "day dates 0 1, ", "left out: free",
                                                                         "label y: 2 classes: a 30, b 10", "40 rows, 5 features")),
                        ("csv:t.csv,only=city,target=age", None), ("csv:t.csv,only=city,rare=20", ("city categories 0 2 of 0 and 1, one for others 1: Rom 26, other 14",)),
                        ("csv:n.csv,target=1", ("0 numbers 0 1 0 to 39, mean 19.5, deviation 11.543", "target 1: 1 to 1, mean 1", "40 rows, 1 feature"))):
        write_rows("n.csv", [[i, 1] for i in range(40)])
        said = run("inspect", "-m", "mlp", "-d", spec, "-b", 8, code=0 if words else 1)
        text = " ".join(said.stdout.split())
        for word in words or ():
            check(f"{spec}: {word}", word in text, said.stdout)
    check("no table", "missing" not in run("inspect", "-m", "lenet").stdout)


def line_breaks():
    """A line break in quotes is a blank of a category or class, however lines end; characters of several bytes take one place in lines of text."""
    names = "Zhang\nLtd", "Zhang\r\nLtd", "Zhang\tLtd", "Zhang Ltd", "Rom"
    rows = [["größe", "n", "kind"]] + [[names[i % 5], str(i), ("a\nb", "c")[i % 5 == 4]] for i in range(40)]
    write_rows("t.csv", rows)
    said = run("inspect", "-m", "mlp", "-d", "csv:t.csv,label=kind", "-b", 8).stdout
    check("a line break is a blank", "2: Zhang Ltd 32, Rom 8\n" in said and "label kind: 2 classes: a b 32, c 8" in said, said)
    check("places of names with umlauts", len({line.index(kind) for line in said.splitlines() for kind in ("type ", "categories ", "numbers ") if kind in line}) == 1, said)
    train("m", "csv:t.csv,label=kind", "-e", 1, "-b", 8)
    got = [r["predicted"] for r in predictions("m", "csv:t.csv,test=1")[0]]
    write_rows("t.csv", [[field.replace("\r\n", " ").replace("\n", " ").replace("\t", " ") for field in row] for row in rows])
    check("predictions with blanks", [r["predicted"] for r in predictions("m", "csv:t.csv,test=1")[0]] == got and len(got) == 40)
    with open("out.csv", "w", newline="") as f:
        csv.writer(f).writerows(rows[:6])
    run("predict", "m", "-t", 1, "--join", "-d", "csv:out.csv,test=1", "-o", "joined.csv")
    with open("joined.csv", newline="") as f:
        check("a column of the file stays as it is", [r[0] for r in csv.reader(f)][1:] == list(names))


def not_tables():
    """Lines before a table are passed over in each file; files of other programs and codings are told."""
    rows = "a,b,y\n" + "".join(f"{i},{i % 7},{'pq'[i % 2]}\n" for i in range(40))
    for name, text in (("plain", rows), ("titled", 'Report "May"\n\n' + rows), ("other", "#,x\r\n\n" + rows)):
        with open(name + ".csv", "w") as f:
            f.write(text)
    got = []
    for spec in "plain.csv", "titled.csv,skip=2":
        train("m", f"csv:{spec},label=y", "-e", 1, "-b", 8)
        got.append(predictions("m", f"csv:{spec},test=1")[0])
    check("the table behind two lines", got[0] == got[1] and len(got[0]) == 40, got[0][:2])
    train("m", "csv:titled.csv+other.csv,skip=2,label=y", "-e", 1, "-b", 8)
    for data, words in ((rows.encode().replace(b"p", b"gr\xfcn"), "t.csv:2: column 2 (y): the label 'gr\\xfcn' is not in UTF-8, but perhaps in Windows-1252 or Latin-1"),
                        (b"Report\n" + rows.encode(), "t.csv:1: needs rows of at least one feature and a label, separated by commas; skip=N passes over lines"),
                        (b"Report,,\n" + rows.encode(), "t.csv:1: columns 1 and 2 are both named ''; each needs a name of its own, and skip=N passes over"),
                        (b"PK\x03\x04\x14\x00", "t.csv: is a zip archive, as workbooks of Excel (.xlsx) are"), (b"PAR1\x15\x04", "t.csv: is a Parquet file"),
                        (b"BZh91", "t.csv: is compressed by bzip2"), (b"[{1", "t.csv: is JSON"), (b"a,b\0", "t.csv: byte 3 is zero, so this is not text")):
        with open("t.csv", "wb") as f:
            f.write(data)
        said = train("bad", "csv:t.csv", "-e", 1, "-b", 2, code=1).stderr
        check(words, words in said, said)
    for skip in 43, 44:
        said = train("bad", f"csv:titled.csv,skip={skip}", "-e", 1, "-b", 2, code=2).stderr
        check("more lines than there are", f"titled.csv: has 43 lines, and skip={skip} passes over all" in said, said)


def new_labels():
    """A sample of a class that the training had not is predicted, and has no label; an evaluation refuses it."""
    write_rows("t.csv", [["a", "y"]] + [[i, "pqr"[i % 3]] for i in range(60)])
    train("m", "csv:t.csv", "-e", 1, "-b", 8)
    write_rows("new.csv", [["a", "y"], [1, "q"], [2, "z"], [3, "p"], [4, "a"]])
    rows, said = predictions("m", "csv:new.csv")
    check("labels of predictions", [r["label"] for r in rows] == ["q", None, "p", None] and len({r["predicted"] for r in rows} - set("pqr")) == 0, rows)
    check("a line tells of the first one", "new.csv: the label 'a' is not among the 3 classes the model was trained on; samples" in said, said)
    said = run("eval", "m", "-d", "csv:new.csv", code=2).stderr
    check("an evaluation", "new.csv: label 'a' is not among the 3 classes" in said, said)


# --- predictions beside the columns of a table ---

def joined():
    for seed, (separator, mark, end) in enumerate(((",", "", "\n"), (";", "\ufeff", "\r\n"), ("\t", "", "\r"))):
        chance = random.Random(seed)
        rows = [["a \"b\"", "word", "n,o", "y"]] + [[str(i), chance.choice(("x", "y, z", 'q"q')), f"say \n{i}", "uv"[i % 2]] for i in range(30)]
        text = end.join(separator.join('"' + v.replace('"', '""') + '"' for v in row) for row in rows)
        with open("t.csv", "w", newline="") as f:
            f.write(mark + text + end * (seed % 2))
        train("m", "csv:t.csv,drop=2", "-e", 1, "-b", 8)
        said = run("predict", "m", "-t", 1, "--join", "-d", "csv:t.csv,test=1", "-o", "out.csv").stderr
        check("a column that training has left out needs no note", said == "", said)
        with open("out.csv", newline="") as f:
            out = list(csv.reader(f))
        want = {r["sample"]: r for r in predictions("m", "csv:t.csv,test=1", "--join")[0]}
        check(f"names of columns, {seed}", out[0] == rows[0] + ["predicted", "probability_u", "probability_v"], out[0])
        check(f"columns of the table, {seed}", [r[:4] for r in out[1:]] == rows[1:], out[1:3])
        check(f"predictions, {seed}", all(want[i]["predicted"] == r[4] and [float(x) for x in r[5:]] == list(want[i]["probabilities"].values())
                                          for i, r in enumerate(out[1:])), out[1:3])
        check(f"rows of JSON, {seed}", all(want[i]["row"] == dict(zip(rows[0], row)) for i, row in enumerate(rows[1:])), want[0])
    # JSON is UTF-8, whatever the texts of a column that is left out are.
    with open("t.csv", "wb") as f:
        f.write(b"a,word,y\n" + b"".join(b"%d,gr\xf6n \xe2\x82\xac\xe2\x82,%s\n" % (i, b"uv"[i % 2:][:1]) for i in range(30)))
    train("m", "csv:t.csv,drop=word", "-e", 1, "-b", 8)
    said = predictions("m", "csv:t.csv,test=1", "--join")[0][0]["row"]["word"]
    check("bytes that are not UTF-8", said == "gr\ufffdn \u20ac\ufffd\ufffd", said)
    # A second column of a name is no table: DataFrame.join refuses it, too.
    for name in "predicted", "probability_v", "Predicted":
        write_rows("t.csv", [["a", name, "y"]] + [[i, i % 7, "uv"[i % 2]] for i in range(30)])
        train("m", "csv:t.csv", "-e", 1, "-b", 8)
        clash = name != "Predicted"
        said = run("predict", "m", "-t", 1, "--join", "-o", f"{name}.csv", code=2 if clash else 0).stderr
        check(f"a column '{name}'", (f"has a column '{name}', and --join would write another" in said and not os.path.exists(f"{name}.csv")) == clash, said)
        check("the object row has a place of its own", name in predictions("m", "csv:t.csv", "--join")[0][0]["row"])
    train("g", "glyphs:train=50,test=20", "-e", 1, "-b", 10, model="lenet")
    said = run("predict", "g", "--join", code=2)
    check("join is for tables", "join is for tables, and data 'glyphs:train=50,test=20' have no columns" in said.stderr, said.stderr)


# --- rows of JSON ---

def served():
    chance = random.Random(5)
    rows = [["city", "age", "day", "code", "y"]] + [[chance.choice(("Rom", 'B"ern', "Tromsø, N")), "" if i % 7 == 0 else str(20 + i % 31), f"2024-0{i % 9 + 1}-11",
                                                     chance.choice("123"), "ab"[i % 2]] for i in range(40)]
    write_rows("t.csv", rows)
    train("m", "csv:t.csv,dates=day,missing=median+flag,categorical=code", "-e", 2, "-b", 8)
    train("n", "csv:t.csv,only=code", "-e", 1, "-b", 8)
    want = [r["probabilities"] for r in predictions("m", "csv:t.csv", "--split", "all")[0]]
    server = subprocess.Popen([weft, "serve", "-t", "1", "m=m", "n=n", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = next((p.group(1) for p in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout) if p), None)

    def ask(path, body=None, **headers):
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/{path}", body if body is None or isinstance(body, bytes) else json.dumps(body).encode(), headers)
            return json.load(urllib.request.urlopen(request, timeout=60))
        except urllib.error.HTTPError as e:
            return json.load(e)

    def row(values):
        asked = {"city": values[0], "age": int(values[1]) if values[1] else None, "day": values[2], "code": values[3] if chance.random() < 0.5 else int(values[3])}
        return {k: v for k, v in asked.items() if v is not None or chance.random() < 0.5}
    body = [row(r) for r in rows[1:]]
    for form in body, {"rows": body}:
        got = [{p["class"]: p["probability"] for p in (r, *r["others"])} for r in ask("m/predict", form)["predictions"]]
        check("rows of JSON are those of the file", len(got) == len(want) and all(abs(g[c] - w[c]) < 1e-6 for g, w in zip(got, want) for c in w), got[:2])
    for form, words in (([], "the body has no rows"), ([3], "row 0 is a number, and must be an object"), ({"x": []}, "it has the key 'x'"), ([{"age": [1]}], "row 0: 'age' is an array"),
                        ([{}, {"aeg": 1}], "row 1: the model has no column 'aeg'; did you mean 'age'?"), ([{"a_name_that_is_long": 1}], "no column 'a_name_that_is_long'"),
                        ([{"ag": 1}], "no column 'ag'; did you mean 'age'?"), ([{"k" * 1000: 1}], "no column '" + "k" * 40), ([{"age": "x"}], "column 1 (age) holds 'x', a finite"), ({"rows": 1}, "must be an array")):
        told = ask("m/predict", form, **{"Content-Type": "application/json"}).get("error", "")
        check(f"{form}: {words}", words in told, told)
    check("a key again behind its null", "row 0: 'age' is given twice" in ask("m/predict", b'[{"age":null,"age":3}]').get("error", ""))
    check("a number of many digits", ask("m/predict", b'[{"age":3' + b"0" * 500 + b"e-500}]") == ask("m/predict", [{"age": 3}]))
    check("a missing value that training had not", "row 1 has no value" in ask("n/predict", [{"code": 1}, {}]).get("error", ""))
    columns = ask("m").get("columns")
    check("metadata", [(c["name"], c["type"]) for c in columns] == [("city", "category"), ("age", "number"), ("day", "date"), ("code", "category")], columns)
    check("categories", columns[3]["categories"] == ["1", "2", "3"] and columns[1]["may_be_missing"] and not ask("n")["columns"][0]["may_be_missing"], columns)
    server.terminate()
    server.communicate(timeout=60)


sys.exit(main(usual, oracle, later, sentences, inspected, line_breaks, not_tables, new_labels, joined, served))
