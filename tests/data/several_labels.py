#!/usr/bin/env python3
"""Several labels and targets of a table: tests/data/several_labels.py PATH/TO/weft [PART...]"""
import csv
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../support"))
from checks import check, main, run, weft
from npy import write_npy

NAMES = ["hot", "dry, old", "7"]


def write_rows(name, rows):
    with open(name, "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows(rows)


def draw(seed, rows, weights=False, plain=False):
    """A header and rows: two numbers, a text, three labels of 0 and 1 in changing spellings, a weight."""
    chance = random.Random(seed)
    header, table = ["a", "b", "city", *NAMES, "w"], []
    for _ in range(rows):
        a, b = chance.gauss(0, 1), chance.gauss(0, 1)
        labels = [a + chance.gauss(0, 0.5) > 0, b > 0.8, a * b + chance.gauss(0, 1) > 0]
        table.append([f"{a:.3f}", f"{b:.3f}", chance.choice(("Rom", "Bern")), *("01"[v] if plain else chance.choice((("0", "1"), ("False", "TRUE"), ("0.0", "1.0")))[v] for v in labels),
                      chance.choice((0, 1, 2)) if weights else 1])
    return header, table


def train(folder, data, *more, code=0):
    shutil.rmtree(folder, ignore_errors=True)
    return run("train", "-q", "-t", 1, "-m", "mlp", "-d", data, "-c", folder, "-b", 8, *more, code=code)


def predictions(folder, *more):
    said = run("predict", folder, "-t", 1, "--json", *more)
    return [json.loads(line) for line in said.stdout.splitlines()]


def area(scored):
    """The share of the pairs of a one and a zero in which the one has the greater score, by weight."""
    pairs = [(w * v, (p > q) + (p == q) / 2) for p, y, w in scored if y for q, z, v in scored if not z]
    return sum(w * x for w, x in pairs) / sum(w for w, _ in pairs)


def metrics():
    """The metrics, computed again from the predictions, without and with weights."""
    for weighted in False, True:
        header, table = draw(3, 90, weighted)
        write_rows("t.csv", [header] + table)
        spec = "csv:t.csv,label=3+4+5," + ("weight=w" if weighted else "drop=w")
        train("m", spec, "-e", 6)
        told = json.loads(run("eval", "m", "-t", 1, "--json", "--metric", "auc").stdout)
        got = predictions("m")
        weight = [table[r["sample"]][6] if weighted else 1 for r in got]
        truth = [[float(v in ("1", "1.0", "TRUE")) for v in table[r["sample"]][3:6]] for r in got]
        said = [list(r["probabilities"].values()) for r in got]
        check("names", list(got[0]["probabilities"]) == NAMES == [f["name"] for f in told["labels"]], got[0])
        check("true labels", all(r["labels"] == [n for n, v in zip(NAMES, t) if v] for r, t in zip(got, truth)), got[:3])
        check("predicted labels", all(r["predicted"] == [n for n, p in zip(NAMES, s) if p >= 0.5] for r, s in zip(got, said)), got[:3])
        total, right, f1, hits, marked = sum(weight), 0, [], 0, 0
        for j in range(3):
            ones = [(p[j] >= 0.5, t[j] > 0, w) for p, t, w in zip(said, truth, weight)]
            hit, sure, own = (sum(w for p, t, w in ones if keep(p, t)) for keep in (lambda p, t: p and t, lambda p, t: p, lambda p, t: t))
            want = {"accuracy": sum(w for p, t, w in ones if p == t) / total, "support": own, "precision": hit / sure if sure else 0, "recall": hit / own,
                    "f1": 2 * hit / (sure + own), "auc": area([(p[j], t[j], w) for p, t, w in zip(said, truth, weight)])}
            check(f"label {j}, {weighted}", all(abs(told["labels"][j][k] - v) < 1e-6 for k, v in want.items()), (told["labels"][j], want))
            right, hits, marked = right + want["accuracy"] / 3, hits + hit, marked + sure + own
            f1.append(want["f1"])
        loss = sum(w * sum(-math.log(p if y else 1 - p) for p, y in zip(s, t)) / 3 for s, t, w in zip(said, truth, weight)) / total
        want = {"loss": loss, "accuracy": right, "f1_macro": sum(f1) / 3, "f1_micro": 2 * hits / marked, "auc": sum(f["auc"] for f in told["labels"]) / 3,
                "subset_accuracy": sum(w for s, t, w in zip(said, truth, weight) if all((p >= 0.5) == (y > 0) for p, y in zip(s, t))) / total}
        check(f"metrics, {weighted}", all(abs(told[k] - v) < 1e-5 for k, v in want.items()), (told, want))
        text = run("eval", "m", "-t", 1, "--by-class", "--metric", "auc").stdout
        check("by label", re.search(r"label +precision +recall +f1 +support +accuracy +AUC\nhot ", text), text)
        best = train("best", spec, "-e", 2, "--validation", "0.2", "--keep-best", "f1_micro").stderr
        check("a best checkpoint", os.path.isdir("best/best"), best)


def later():
    header, table = draw(5, 60)
    write_rows("t.csv", [header] + table)
    write_rows("bare.csv", table)
    spec = "csv:t.csv,label=3+4+5,drop=w"
    train("m", spec, "-e", 2)
    train("bare", "csv:bare.csv,label=3+4+5,drop=6", "-e", 2)
    want = [r["probabilities"] for r in predictions("m", "-d", "csv:t.csv,test=1")]
    check("without names", [list(r["probabilities"].values()) for r in predictions("bare", "-d", "csv:bare.csv,label=3+4+5,test=1")] == [list(w.values()) for w in want])
    for keep in [5, 2, 1, 0, 4, 3], [2, 0, 1], [1, 0, 2, 4], [0, 1, 2, 6]:
        write_rows("new.csv", [[r[i] for i in keep] for r in [header] + table])
        got = predictions("m", "-d", "csv:new.csv,test=1")
        check(f"columns {keep}", [r["probabilities"] for r in got] == want, got[:1])
        check(f"labels of {keep}", (got[0]["labels"] is None) == (len(keep) < 6), got[0])
        out = list(csv.reader(run("predict", "m", "-t", 1, "-d", "csv:new.csv,test=1", "--join").stdout.splitlines()))
        check(f"joined {keep}", out[0] == [header[i] for i in keep] + [f"{what}_{n}" for what in ("predicted", "probability") for n in NAMES] and
              [float(x) for x in out[1][-3:]] == list(want[0].values()), out[:2])
    head = run("predict", "m", "-t", 1).stdout.splitlines()[0]
    check("columns", head == "sample," + ",".join(f'"{w}_{n}"' if "," in n else f"{w}_{n}" for w in ("label", "predicted", "probability") for n in NAMES), head)
    write_rows("new.csv", [["x", "y", "z", *header[:3]]] + [r[3:6] + r[:3] for r in table])
    check("labels of other names", predictions("m", "-d", "csv:new.csv,label=x+y+z,test=1")[0]["probabilities"] == want[0])
    write_rows("plain.csv", [["a", "b", "p", "q"]] + [[*r[:2], i % 2, i % 3 % 2] for i, r in enumerate(table)])
    train("plain", "csv:plain.csv,label=p+q", "-e", 1)
    write_rows("new.csv", [["a", "b"]] + [r[:2] for r in table])
    check("the label of the training is given, and missing", predictions("plain", "-d", "csv:new.csv,label=p+q") == predictions("plain", "-d", "csv:new.csv"))
    # A column whose name has a + is one.
    write_rows("plus.csv", [["a", "R+D", "D", "R"]] + [[r[0], "uv"[i % 2], i, i] for i, r in enumerate(table)])
    train("plus", "csv:plus.csv,label=R+D", "-e", 1)
    check("one column", list(predictions("plus")[0]["probabilities"]) == ["u", "v"])
    # Several numbers.
    write_rows("numbers.csv", [["x", "price", "z", "size"]] + [[r[0], 2 * float(r[0]), r[1], 3 - float(r[1])] for r in table])
    train("n", "csv:numbers.csv,target=price+size", "-e", 40)
    lines = run("predict", "n", "-t", 1).stdout.splitlines()
    check("columns of numbers", lines[0] == "sample,target_price,target_size,predicted_price,predicted_size", lines[0])
    told = json.loads(run("eval", "n", "-t", 1, "--json").stdout)
    check("names of numbers", [t["name"] for t in told["targets"]] == ["price", "size"], told)
    shown = run("eval", "n", "-t", 1).stdout
    check("names in lines", re.search(r"^  price: R2 .*\n  size: R2 ", shown, re.M), shown)
    check("each number is learned", all(t["r2"] > 0.9 for t in told["targets"]), told)


def sentences():
    header, table = draw(7, 40, plain=True)
    for row, column, value, words in (4, 3, "2", "t.csv:6: column 3 (hot), one of the labels, holds '2'; 0 or 1 (also false or true) must stand in every row"), (0, 4, "yes", "holds 'yes'"), \
            (9, 5, "", "t.csv:11: column 5 (7), one of the labels, is empty"), (3, 4, "0.5", "holds '0.5'"), (3, 4, "nan", "holds 'nan'"):
        broken = [list(r) for r in table]
        broken[row][column] = value
        write_rows("t.csv", [header] + broken)
        said = train("bad", "csv:t.csv,label=3+4+5", "-e", 1, code=1)
        check(f"{value!r}", words in said.stderr, said.stderr)
    write_rows("t.csv", [header] + table)
    train("m", "csv:t.csv,label=hot+5", "-e", 1)
    train("c", "csv:t.csv,label=city", "-e", 1)
    for words, sentence in (
            (["label=hot+hto"], "t.csv: label: no column is named 'hto'; did you mean 'hot'?"), (["label=hot+hot"], "t.csv: label has column 'hot' twice"),
            (["label=hot+9"], "no column is named '9'"), (["label=hot+5,drop=5"], "label=hot+5 gives a column that drop=5 leaves out"),
            (["label=hot+5,weight=5"], "column 5 is given as the weight, and is one of label=hot+5"), (["label=hot+5,id=hot"], "column 3 is given as the id"),
            (["label=hot+5", "--loss", "mse"], "loss 'mse' is not of labels of 0 and 1"), (["label=city", "--loss", "bce"], "loss 'bce' needs several labels, each 0 or 1"),
            (["target=a+b", "--loss", "bce"], "loss 'bce' needs several labels"), (["label=hot+5", "--metric", "r2"], "must be of the metrics of labels: loss, accuracy, f1_macro, f1_micro")):
        said = train("bad", "csv:t.csv,drop=w," + words[0] if "drop" not in words[0] else "csv:t.csv," + words[0], "-e", 1, *words[1:], code=2)
        check(f"{words}", sentence in said.stderr, said.stderr)
    write_rows("none.csv", table)
    said = train("bad", "csv:none.csv,label=hot+dry", "-e", 1, code=2).stderr
    check("no header", "none.csv: label: no column is named 'hot', and row 1 has numbers; if it is no header, give the numbers of the columns, counted from 0, as in label=3+4" in said, said)
    said = run("eval", "m", "-d", "csv:none.csv", code=2).stderr
    check("no header later", "none.csv: has no header and 7 columns, and training had 5 features and 2 labels; give these by their numbers, counted from 0, as in label=3+4" in said, said)
    for folder, words, sentence in (("m", ["eval", "m", "-d", "csv:t.csv,target=hot+5"], "target=hot+5 asks for numbers, the training data had labels of 0 and 1"),
                                    ("m", ["eval", "m", "--confusion"], "confusion counts classes, and"), ("m", ["eval", "m", "-d", "csv:t.csv,label=hot"], "have 1 target a sample, the training data had 2"),
                                    ("c", ["eval", "c", "-d", "csv:t.csv,label=hot+5"], "")):
        said = run(*words, code=2)
        check(f"{words}", sentence in said.stderr, said.stderr)
    write_rows("less.csv", [r[:5] for r in [header] + table])
    said = run("eval", "m", "-d", "csv:less.csv", code=2).stderr
    check("a label is missing", "less.csv: has no column '7', which was one of the labels in training" in said, said)


def served():
    header, table = draw(9, 40)
    write_rows("t.csv", [header] + table)
    train("m", "csv:t.csv,label=3+4+5,drop=w", "-e", 2)
    want = predictions("m", "-d", "csv:t.csv,test=1")
    server = subprocess.Popen([weft, "serve", "-t", "1", "m=m", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = next((p.group(1) for p in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout) if p), None)

    def ask(body, **headers):
        return urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/predict", body, headers), timeout=60).read().decode()
    rows = json.dumps([{"a": float(r[0]), "b": float(r[1]), "city": r[2]} for r in table]).encode()
    got = json.loads(ask(rows))["predictions"]
    check("rows of JSON", all(g["labels"] == w["predicted"] and all(abs(g["probabilities"][n] - w["probabilities"][n]) < 1e-6 for n in NAMES) for g, w in zip(got, want)), got[:2])
    lines = list(csv.reader(ask(open("t.csv", "rb").read(), **{"Content-Type": "text/csv", "Accept": "text/csv"}).splitlines()))
    check("CSV with the labels", lines[0] == NAMES and len(lines) == 41 and abs(float(lines[1][1]) - want[0]["probabilities"][NAMES[1]]) < 1e-6, lines[:2])
    server.terminate()
    server.communicate(timeout=60)


def arrays():
    """Labels of arrays are those of a table with the same numbers."""
    header, table = draw(11, 64, plain=True)
    write_rows("t.csv", [["a", "b", "p", "q", "r"]] + [[r[0], r[1], *r[3:6]] for r in table])
    write_npy("x.npy", "f8", (64, 2), [float(v) for r in table for v in r[:2]])
    write_npy("y.npy", "u1", (64, 3), [int(v) for r in table for v in r[3:6]])
    write_npy("y2.npy", "u1", (64, 3), [2 if i == 100 else 1 for i in range(192)])
    write_npy("c.npy", "u1", (64,), [i % 2 for i in range(64)])
    train("t", "csv:t.csv,label=p+q+r", "-e", 2)
    train("n", "npy:x.npy,y.npy,binary", "-e", 2, "--normalize", "standard")
    one, two = (json.loads(run("eval", f, "-t", 1, "--json").stdout) for f in "tn")
    check("the same metrics", all(abs(one[k] - two[k]) < 1e-6 for k in ("loss", "accuracy", "f1_micro")), (one, two))
    got = [list(r["probabilities"].values()) for r in predictions("n", "-d", "npy:x.npy,test=1")]
    check("the same predictions", got == [list(r["probabilities"].values()) for r in predictions("n", "-d", "npy:x.npy,label=y.npy,test=1")] and len(got) == 64, got[:2])
    train("c", "npy:x.npy,c.npy", "-e", 1)
    for words, code, sentence in ((["train", "-m", "mlp", "-d", "npy:x.npy,y2.npy,binary"], 1, "y2.npy: label 1 of sample 33 is 2, and each of several labels (binary) must be 0 or 1"),
                                  (["train", "-m", "mlp", "-d", "npy:x.npy,target=y.npy,binary"], 2, "binary has labels of 0 and 1, and target=y.npy numbers"),
                                  (["eval", "c", "-d", "npy:x.npy,y.npy,binary"], 2, "binary has several labels of 0 and 1, and the training data had classes")):
        said = run(*words, code=code)
        check(f"{words}", sentence in said.stderr, said.stderr)


sys.exit(main(metrics, later, sentences, served, arrays))
