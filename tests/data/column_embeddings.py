#!/usr/bin/env python3
"""Columns of categories that are embedded: tests/data/column_embeddings.py PATH/TO/weft [PART...]"""
import csv
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, "../support"))
from checks import check, main, run, weft

CITIES = [f"city {k}" for k in range(12)]


def write_rows(name, rows):
    with open(name, "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows(rows)


def draw(seed, rows=120):
    chance = random.Random(seed)
    worth = [chance.gauss(0, 1) for _ in CITIES]
    table = []
    for i in range(rows):
        city, code, a = (i if i < 48 else chance.randrange(48)) % 12, chance.randrange(3), chance.gauss(0, 1)
        table.append([f"{a:.3f}", "" if i % 17 == 0 else CITIES[city], str(chance.randrange(9)), ("x", "y", "z")[code], "pq"[worth[city] + a * code > 0]])
    return ["a", "city", "b", "code", "y"], table


def train(folder, data, *more, code=0, model="net.yaml"):
    shutil.rmtree(folder, ignore_errors=True)
    return run("train", "-q", "-m", model, "-d", data, "-c", folder, "-b", 8, *more, code=code)


def predictions(folder, *more):
    return [list(json.loads(line)["probabilities"].values()) for line in run("predict", folder, "-t", 1, "--json", *more).stdout.splitlines()]


def parameters(folder, step="latest"):
    """Name: (shape, numbers) of a checkpoint in float64."""
    data = open(f"{folder}/{step}/parameters.safetensors", "rb").read()
    head = struct.unpack("<Q", data[:8])[0]
    about = {k: v for k, v in json.loads(data[8:8 + head]).items() if k != "__metadata__"}
    return {k: (v["shape"], struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 8}d", data[8 + head + v["data_offsets"][0]:8 + head + v["data_offsets"][1]])) for k, v in about.items()}


def begin():
    header, table = draw(1)
    write_rows("t.csv", [header] + table)
    with open("net.yaml", "w") as f:
        f.write("layers:\n  - {type: dense, units: outputs}\n")
    return header, table


def oracle():
    """A linear model of embeddings, computed by hand from its parameters; unknown and missing categories, too."""
    header, table = begin()
    spec = "csv:t.csv,missing=mean,embedding=city+code:2,test=0.5"
    train("m", spec, "-t", 1, "-e", 3, "--dtype", "f64", "--normalize", "none")
    found, about = parameters("m"), json.load(open("m/latest/index.json"))["data"]
    columns = about["table"]["columns"]
    sizes = [c.get("embedding", 0) for c in columns]
    n = len(columns[1]["categories"]) + columns[1].get("other", False) + columns[1]["missing"]
    check("sizes", sizes == [0, round(1.6 * n ** 0.56), 0, 2], sizes)
    check("shapes", found["column1/weight"][0] == [n, sizes[1]] and found["column3/weight"][0] == [3, 2], {k: v[0] for k, v in found.items()})
    (width, _), dense = next(v for k, v in found.items() if k.endswith("weight") and not k.startswith("column"))
    bias = next(v[1] for k, v in found.items() if k.endswith("bias"))
    check("width", width == 2 + sum(sizes), width)
    rows = table + [["0.5", "Atlantis", "3", "x", "p"], ["0.5", "", "3", "z", "p"]]
    write_rows("new.csv", [header] + rows)
    for row, got in zip(rows, predictions("m", "-d", "csv:new.csv,test=1")):
        x = []
        for j, c in enumerate(columns):
            if "categories" not in c:
                x.append(float(row[j]))
                continue
            names = c["categories"] + ["other"] * c.get("other", False) + [""] * c.get("missing", False)
            at = names.index(row[j]) if row[j] in names else names.index("other") if "other" in names else -1
            size, e = sizes[j], found[f"column{j}/weight"][1]
            x += [0] * size if at < 0 else e[at * size:(at + 1) * size]
        z = [sum(v * dense[i * 2 + k] for i, v in enumerate(x)) + bias[k] for k in range(2)]
        p = 1 / (1 + math.exp(z[1] - z[0]))
        if not check(f"prediction of {row}", abs(p - got[0]) < 1e-6, (p, got)):
            break


def meshes():
    begin()
    spec = "csv:t.csv,missing=mean,embedding=all"
    want = None
    for model in "net.yaml", "mlp":
        losses = []
        for ways in ([], ["--device", "reference"], ["-n", 2, "--mesh", "data=2"], ["-n", 2, "--mesh", "tensor=2"], ["-n", 2, "--mesh", "pipeline=2"], ["-n", 4, "--mesh", "data=2,tensor=2"],
                     ["-n", 2, "--zero", 3], ["--microbatches", 2]):
            if model == "net.yaml" and "pipeline=2" in ways:
                continue
            train("m", spec, "-t", 1, "--steps", 4, "--dtype", "f64", "--metrics", "m.jsonl", *ways, model=model)
            losses.append([json.loads(line)["loss"] for line in open("m.jsonl") if '"step"' in line])
            check(f"{model} {ways}", len(losses[-1]) > 3 and all(abs(a - b) < 1e-9 for a, b in zip(losses[0], losses[-1])), losses)
    train("m", spec, "-t", 1, "--steps", 4, "-n", 2, "--exchange", "server", model="mlp")
    check("servers", len(predictions("m")) == 24)
    train("m", spec, "-t", 1, "--steps", 4, model="mlp")
    want = predictions("m", "-d", "csv:t.csv,test=1")
    train("m", spec, "-t", 1, "--steps", 2, model="mlp")
    run("train", "-q", "-t", 1, "-m", "mlp", "-d", spec, "-c", "m", "-b", 8, "--steps", 4, "--resume")
    check("resumed", predictions("m", "-d", "csv:t.csv,test=1") == want)
    shutil.rmtree("exported", ignore_errors=True)
    run("export", "m", "-f", "exported")
    check("exported", predictions("exported", "-d", "csv:t.csv,test=1") == want)
    served(want)


def served(want):
    header, table = draw(1)
    server = subprocess.Popen([weft, "serve", "-t", "1", "m=m", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = next((p.group(1) for p in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout) if p), None)
    body = [{"a": float(r[0]), "b": float(r[2]), "code": r[3], **({"city": r[1]} if r[1] else {})} for r in table]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/predict", json.dumps(body).encode())
    got = [{q["class"]: q["probability"] for q in (p, *p["others"])} for p in json.load(urllib.request.urlopen(request, timeout=60))["predictions"]]
    check("served", all(abs(g["p"] - w[0]) < 1e-6 for g, w in zip(got, want)) and len(got) == len(want), got[:2])
    server.terminate()
    server.communicate(timeout=60)


def sentences():
    begin()
    for spec, words in (("embedding=a", "t.csv: embedding=a is the name or number of no column of categories; give COLUMN, COLUMN:SIZE, all or all:SIZE"), ("embedding=cty", "embedding=cty is"),
                        ("embedding=y", "embedding=y is"), ("embedding=city:0", "embedding=city:0: the size must be from 1 to 4096"), ("embedding=city+code:x", "embedding=code:x: the size"),
                        ("embedding=all:5000", "embedding=all:5000: the size"),
                        ("embedding=city:5+city:4", "embedding=city:4: entries before it have what it names; leave one of them out"),
                        ("embedding=all+city:4", "embedding=city:4: entries before it have"), ("embedding=all+all:3", "embedding=all:3: entries before it have")):
        said = train("bad", "csv:t.csv,missing=mean," + spec, "-e", 1, code=2)
        check(spec, words in said.stderr, said.stderr)
    chance = random.Random(2)
    write_rows("many.csv", [["user", "y"]] + [[f"u{k % 700}", "pq"[k % 7 > 3]] for k in range(4200)])
    said = train("bad", "csv:many.csv", "-e", 1, code=2, model="mlp")
    check("too many", "column user has " in said.stderr and " categories, of which at most 256 become features; embedding=user takes up to 4096, rare=N" in said.stderr, said.stderr)
    train("m", "csv:many.csv,embedding=user", "-e", 4, "--lr", "0.01", model="mlp")
    told = json.loads(run("eval", "m", "-t", 1, "--json").stdout)
    check("each user is learned", told["accuracy"] > 0.95, told)


def against_torch():
    """Ten steps of mlp on embedded columns and several labels are those of PyTorch: nn.Embedding, BCEWithLogitsLoss, SGD."""
    try:
        import torch
    except ImportError:
        print("against_torch: skipped, there is no PyTorch")
        return
    header, table = draw(3, 40)
    write_rows("t.csv", [header[:4] + ["p", "q", "r"]] + [[*r[:4], i % 2, i % 3 % 2, i % 5 // 3] for i, r in enumerate(table)])
    train("m", "csv:t.csv,label=p+q+r,missing=category,rare=1,embedding=city+code:2,test=0", "-t", 1, "-b", 40, "--steps", 11, "--checkpoint-every", 1, "--keep", 11, "--dtype", "f64",
          "--normalize", "none", "-o", "sgd", "--lr", 0.1, "--metrics", "m.jsonl", model="mlp")
    said = [json.loads(line) for line in open("m.jsonl")]
    said = [e["loss"] for e in said if e["event"] == "step"]
    columns = json.load(open("m/latest/index.json"))["data"]["table"]["columns"]
    p = {k: torch.tensor(v, dtype=torch.float64).reshape(shape).requires_grad_() for k, (shape, v) in parameters("m", "step-1").items()}
    words = [c["categories"] + [""] * c.get("missing", False) if "categories" in c else None for c in columns]
    city, code = (torch.tensor([words[j].index(r[j]) for r in table]) for j in (1, 3))
    a, b = (torch.tensor([[float(r[j])] for r in table], dtype=torch.float64) for j in (0, 2))
    truth = torch.tensor([[i % 2, i % 3 % 2, i % 5 // 3] for i in range(40)], dtype=torch.float64)
    optimizer = torch.optim.SGD(p.values(), lr=0.1)
    for step in range(1, 11):
        x = torch.cat([a, torch.nn.functional.embedding(city, p["column1/weight"]), b, torch.nn.functional.embedding(code, p["column3/weight"])], 1)
        for layer in "fc1", "fc2", "fc3":
            x = x @ p[layer + "/weight"] + p[layer + "/bias"]
            x = torch.relu(x) if layer != "fc3" else x
        loss = torch.nn.BCEWithLogitsLoss()(x, truth)
        check(f"loss of step {step + 1}", abs(loss.item() - said[step]) < 1e-9, (loss.item(), said))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


sys.exit(main(oracle, meshes, sentences, against_torch))
