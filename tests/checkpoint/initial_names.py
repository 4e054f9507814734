#!/usr/bin/env python3
"""Weights of --init follow the names of features, classes, targets and tokens: tests/checkpoint/initial_names.py PATH/TO/weft [-v] [PART...]

A run that begins with a checkpoint of the same data in another order has the same weights at other places, bit for bit, and gives the
same predictions; a step whose learning rate is too small to change a number leaves what it began with.
"""
import json
import os
import random
import shutil
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write
from torch_compare import read_safetensors

STILL = ["-t", "1", "--batch", "20", "--steps", "1", "-o", "sgd", "--lr", "1e-30"]
MLP = ["-m", "mlp:hidden=9"]
FEATURES = ["age", "height", "city=bern", "city=oslo", "city=rome", "pay"]

def table(path, columns, change=None):
    draw = random.Random(5)
    with open(path, "w") as file:
        file.write(",".join(columns) + "\n")
        for _ in range(120):
            age, height, pay = round(draw.gauss(40, 10), 2), round(draw.gauss(170, 8), 2), round(draw.gauss(3, 1), 3)
            row = {"age": age, "height": height, "city": draw.choice(["rome", "oslo", "bern"]), "pay": pay}
            score = (age - 40) / 10 + 2 * (row["city"] == "rome") - pay + 3
            row |= {"label": "low" if score < 0 else "mid" if score < 1.5 else "high", "rent": draw.choice([7, 8, 9])}
            row |= change(row) if change else {}
            file.write(",".join(str(row[c]) for c in columns) + "\n")


def first():
    table("a.csv", ["age", "height", "city", "pay", "label"])
    table("b.csv", ["pay", "label", "city", "age", "height"])
    table("c.csv", ["rent", "city", "age", "label", "height"])
    table("d.csv", ["age", "height", "city", "pay", "label"], lambda row: {"label": {"low": "worst", "mid": "mid", "high": "best"}[row["label"]]})
    table("e.csv", ["age", "height", "city", "pay", "label"], lambda row: {"label": {"low": "x", "mid": "y", "high": "z"}[row["label"]]})
    table("f.csv", ["age", "height", "city", "pay", "label"], lambda row: {"age": 12 * row["age"]})
    table("g.csv", ["age", "height", "city", "pay", "label"], lambda row: {"label": {"low": "z low", "mid": "mid", "high": "high"}[row["label"]]})
    run("train", *MLP, "--data", "csv:a.csv,label=label,test=0.5", "-t", "1", "--epochs", "9", "--batch", "20", "--checkpoint", "given")
    run("export", "given", "-q", "-f", "exported")
    run("export", "given", "-q", "-o", "given.st")


def left(model, data, source, *ways, told=None):
    """What a run began with, and its note."""
    shutil.rmtree("left", ignore_errors=True)
    done = run("train", *model, "--data", data, *STILL, *(["--init", source] if source else []), "--checkpoint", "left", *ways)
    run("export", "left", "-q", "-o", "left.st")
    note = ([line for line in done.stderr.splitlines() if "begin with its" in line] or [""])[0]
    for words in told or ():
        check(f"{data} from {source}: {words}", words in note, note)
    return read_safetensors("left.st"), note


def rows(tensor):
    shape, values = tensor
    width = shape[1] if len(shape) > 1 else 1
    return [values[i * width:(i + 1) * width] for i in range(shape[0])]


def columns(tensor):
    matrix = rows(tensor)
    return [list(column) for column in zip(*matrix)] if len(tensor[0]) > 1 else matrix


def by_name(found, names):
    return dict(zip(names, found))


def loss(folder, data):
    return json.loads(run("eval", "-c", folder, "--data", data, "--json", "-t", "1").stdout)["loss"]


WAYS = ["", "-n 2", "-n 2 --mesh tensor=2 --shard fc1/weight:out=tensor", "-n 2 --zero 3", "-n 2 --exchange average", "--dtype f64"]


def features():
    given = read_safetensors("given.st")
    old = by_name(rows(given["fc1/weight"]), FEATURES)
    for source in ("given", "exported", "given.st"):
        _, note = left(MLP, "csv:a.csv,label=label,test=0.5", source)
        check("no names where nothing moves", "known by name" not in note and "normalised" not in note, note)
        for way in WAYS if source == "given" else WAYS[:1]:
            found, _ = left(MLP, "csv:b.csv,label=label,test=0.5", source, *way.split(), told=["6 of 6 features are known by name", "in fc1/weight"])
            new = by_name(rows(found["fc1/weight"]), ["pay", "city=bern", "city=oslo", "city=rome", "age", "height"])
            check(f"rows move, {source} {way}", new == old, (new, old))
            check("all else stays", all(found[k] == given[k] for k in given if k != "fc1/weight"))
    check("the same predictions", abs(loss("left", "csv:b.csv,label=label,test=0.5") - loss("given", "csv:a.csv,label=label,test=0.5")) < 1e-6)
    # A new column begins with the numbers that it has without --init, in every way to run; one that is lost is told.
    names = ["rent", "city=bern", "city=oslo", "city=rome", "age", "height"]
    fresh = by_name(rows(left(MLP, "csv:c.csv,label=label,test=0.5", None)[0]["fc1/weight"]), names)
    for way in WAYS[:-1]:
        found, _ = left(MLP, "csv:c.csv,label=label,test=0.5", "given", *way.split(),
                        told=["5 of 6 features", "new ones begin anew (1): 'rent'", "not here are left out (1): 'pay'"])
        new = by_name(rows(found["fc1/weight"]), names)
        check(f"known columns, {way}", all(new[k] == old[k] for k in names[1:]), (new, old))
        check(f"a new column, {way}", new["rent"] == fresh["rent"], (new, fresh))
    left(MLP, "csv:f.csv,label=label,test=0.5", "given", told=["normalised otherwise than those the weights were trained with: 'age' by mean 4"])


def embeddings():
    """Vectors of categories move with their columns and categories, and the layer behind them with both."""
    spec = "label=label,test=0.5,embedding=city:2+town:3"
    more = lambda names: lambda row: {"town": names[len(row["city"]) * 7 % len(names) if row["pay"] < 3 else int(row["age"]) % len(names)]}
    table("old.csv", ["age", "city", "town", "pay", "label"], more(["east", "north", "west"]))
    table("new.csv", ["town", "label", "pay", "city", "height"], more(["east", "south", "west", "far"]))
    run("train", *MLP, "--data", f"csv:old.csv,{spec}", "-t", "1", "--steps", "3", "--batch", "20", "--checkpoint", "vectors")
    run("export", "vectors", "-q", "-o", "vectors.st")
    given = read_safetensors("vectors.st")
    for way in ("", "-n 2 --mesh tensor=2 --shard fc1/weight:out=tensor", "-n 2 --zero 3"):
        found, note = left(MLP, f"csv:new.csv,{spec}", "vectors", *way.split(),
                           told=["6 of 7 features are known by name", "(1): 'height'", "(1): 'age'", "2 of 4 categories of town", "6 of 6 param"])
        check("all tensors are used", "stand for nothing" not in note, note)
        check("cities", found["column2/weight"] == given["column1/weight"], note)
        old, new = by_name(rows(given["column2/weight"]), "enw"), by_name(rows(found["column0/weight"]), "efsw")
        check("towns", old["e"] == new["e"] and old["w"] == new["w"], (old, new))
        old = by_name(rows(given["fc1/weight"]), ["age", "c0", "c1", "t0", "t1", "t2", "pay"])
        new = by_name(rows(found["fc1/weight"]), ["t0", "t1", "t2", "pay", "c0", "c1", "height"])
        check("the layer behind", all(old[k] == new[k] for k in old if k != "age"), (old, new))
    # A column that was not embedded there begins anew.
    found, note = left(MLP, "csv:new.csv,label=label,test=0.5,embedding=city:2+town:3", "given", told=["categories of town have other names"])
    check("new vectors", "column0/weight" in note and "column2/weight" in note, note)


def outputs():
    given = read_safetensors("given.st")
    heads = {leaf: by_name(columns(given[leaf]), ["high", "low", "mid"]) for leaf in ("fc2/weight", "fc2/bias")}
    fresh = left(MLP, "csv:d.csv,label=label,test=0.5", None)[0]
    for way in WAYS[:-1]:
        found, _ = left(MLP, "csv:d.csv,label=label,test=0.5", "given", *way.split(), told=["1 of 3 classes", "(2): 'best', 'worst'", "(2): 'high', 'low'"])
        for leaf, old in heads.items():
            new, anew = (by_name(columns(t[leaf]), ["best", "mid", "worst"]) for t in (found, fresh))
            check(f"{leaf} of a known class {way}", new["mid"] == old["mid"], (new, old))
            check(f"{leaf} of new classes {way}", [new["best"], new["worst"]] == [anew["best"], anew["worst"]], (new, anew))
    found, note = left(MLP, "csv:e.csv,label=label,test=0.5", "given", told=["2 of 4 parameters", "all classes have other names", "begin anew: fc2/weight, fc2/bias"])
    check("PyTorch did not write it", "torch" not in note, note)
    check("a new head", found["fc2/weight"] == fresh["fc2/weight"] and found["fc1/weight"] == given["fc1/weight"])
    found, _ = left(MLP, "csv:g.csv,label=label,test=0.5", "given", told=["2 of 3 classes"])
    new = by_name(columns(found["fc2/weight"]), ["high", "mid", "z low"])
    check("classes in another order", all(new[k] == heads["fc2/weight"][k] for k in ("high", "mid")), new)
    # Targets by name; the features that an autoencoder makes again.
    run("train", *MLP, "--data", "csv:a.csv,target=age+pay", "-t", "1", "--steps", "2", "--batch", "20", "--checkpoint", "two")
    found, _ = left(MLP, "csv:a.csv,target=pay+age", "two", told=["2 of 2 targets"])
    run("export", "two", "-q", "-o", "two.st")
    check("targets", columns(found["fc2/weight"]) == columns(read_safetensors("two.st")["fc2/weight"])[::-1])
    run("train", "-m", "autoencoder", "--data", "reconstruct:csv:a.csv,label=label", "-t", "1", "--steps", "2", "--batch", "20", "--checkpoint", "again")
    run("export", "again", "-q", "-o", "again.st")
    found, note = left(["-m", "autoencoder"], "reconstruct:csv:b.csv,label=label", "again", told=["6 of 6 features"])
    last = max(k for k, (shape, _) in found.items() if len(shape) == 2 and shape[1] == 6)
    new = by_name(columns(found[last]), ["pay", "city=bern", "city=oslo", "city=rome", "age", "height"])
    check(f"{last} of an autoencoder", new == by_name(columns(read_safetensors("again.st")[last]), FEATURES), note)


def tokens():
    draw = random.Random(2)
    old, new = " abcdefgh", " bcdefghij"
    for name, letters in (("old", old), ("new", new)):
        write(f"{name}.txt", "".join(draw.choice(letters) for _ in range(3000)))
    for model in ("gpt:layers=1,heads=2,width=8", "char-lstm"):
        shutil.rmtree("letters", ignore_errors=True)
        run("train", "-m", model, "--data", "text:old.txt,unit=char,context=16", "-t", "1", "--steps", "2", "--batch", "8", "--checkpoint", "letters")
        run("export", "letters", "-q", "-o", "letters.st")
        given = read_safetensors("letters.st")
        for way in ("", "-n 2 --zero 3", "--dtype bf16"):
            found, note = left(["-m", model], "text:new.txt,unit=char,context=16", "letters", *way.split(),
                               told=["8 of 10 tokens are known by name", "(2): 'i', 'j'", "(1): 'a'"])
            moved = 0
            for leaf, (shape, _) in given.items():
                for d, take in ((0, rows), (1, columns)):
                    if len(shape) <= d or shape[d] != len(old) or found[leaf][0][d] != len(new):
                        continue
                    a, b = by_name(take(given[leaf]), old), by_name(take(found[leaf]), new)
                    check(f"{leaf} of {model} {way}", all(a[c] == b[c] for c in old if c in new), note)
                    moved += 1
            check(f"{model} has tokens before and behind", moved >= 2 and f"{len(given)} of {len(given)} parameters" in note, note)


sys.exit(main(features, embeddings, outputs, tokens, first=first))
