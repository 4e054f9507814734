#!/usr/bin/env python3
"""What the command tells, against the same computed here: tests/cli/cli_oracle.py PATH/TO/weft

Predictions, figures and the confusion matrix follow from the exported weights of one dense layer over a table
in which sample i has feature i alone; what a plan dumps must be the rank that was asked for.
"""
import base64
import itertools
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import checks
from checks import check, main, weft
from npy import write_npy

ROWS, CLASSES = 23, 4
NAMES = ["ash", "birch", "cedar", "fir, silver"]  # sorted, as classes are numbered


def run(*words):
    return checks.run(*words).stdout


def label_of(i):
    return (7 * i + i // 5) % CLASSES


def tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            yield name, struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])


def softmax(w):
    e = [math.exp(x) for x in w]
    return [x / sum(e) for x in e]


def csv_fields(line):
    return [a or b for a, b in re.findall(r'(?:^|,)(?:"([^"]*)"|([^",]*))', line)]


def predictions():
    with open("rows.csv", "w") as f:
        for i in range(ROWS):
            name = NAMES[label_of(i)]
            name = f'"{name}"' if "," in name else name
            print(",".join("1" if j == i else "0" for j in range(ROWS)) + "," + name, file=f)
    with open("net.yaml", "w") as f:
        print("layers:\n  - {type: dense, name: fc, units: classes, bias: false}", file=f)
    run("train", "-q", "--model", "net.yaml", "--data", "csv:rows.csv,test=0.3", "--normalize", "none", "--batch", "4",
        "--steps", "6", "--optimizer", "sgd", "--lr", "2", "--checkpoint", "run", "--metrics", "m.jsonl")
    run("export", "run/latest", "-o", "w", "-q")
    w = dict(tensors("w"))["fc/weight"]
    p = [softmax(w[CLASSES * i:CLASSES * i + CLASSES]) for i in range(ROWS)]
    all_rows = ["--data", "csv:rows.csv,test=1"]
    lines = run("predict", "--checkpoint", "run", *all_rows).splitlines()
    check("the head of predictions", lines[0] == "sample,label,predicted,probability" and len(lines) == ROWS + 1, lines)
    wrong = 0
    for i, line in enumerate(lines[1:]):
        sample, label, predicted, probability = csv_fields(line)
        best = p[i].index(max(p[i]))
        wrong += best != label_of(i)
        check("a prediction", int(sample) == i and label == NAMES[label_of(i)] and predicted == NAMES[best] and
              abs(float(probability) - p[i][best]) < 2e-6, (line, p[i]))
    check("predictions that are wrong are among them", 3 < wrong < ROWS - 3, wrong)
    for i, line in enumerate(run("predict", "--checkpoint", "run", "--json", *all_rows).splitlines()):
        o = json.loads(line)
        check("a prediction as JSON", o["sample"] == i and o["label"] == NAMES[label_of(i)] and
              o["predicted"] == NAMES[p[i].index(max(p[i]))] and list(o["probabilities"]) == NAMES and
              all(abs(a - b) < 2e-6 for a, b in zip(o["probabilities"].values(), p[i])), line)
    confusion = [[0] * CLASSES for _ in range(CLASSES)]
    for i in range(ROWS):
        confusion[label_of(i)][p[i].index(max(p[i]))] += 1
    check("a confusion matrix that is not its mirror", confusion != [list(r) for r in zip(*confusion)], confusion)
    right = sum(confusion[c][c] for c in range(CLASSES))
    loss = sum(-math.log(p[i][label_of(i)]) for i in range(ROWS)) / ROWS
    told = json.loads(run("eval", "--checkpoint", "run", "--json", *all_rows))
    check("figures as JSON", told["confusion"] == confusion and told["samples"] == ROWS and
          abs(told["accuracy"] - right / ROWS) < 1e-6 and abs(told["loss"] - loss) < 1e-5, told)
    text = run("eval", "--checkpoint", "run", "--confusion", *all_rows)
    table = [[int(x) for x in line.split()[-CLASSES:]] for line in text.splitlines() if re.match(r"\s+\S.*?(\s+\d+){4}$", line)]
    check("the printed confusion matrix", table == confusion, text)
    check("the printed figures", f"{ROWS} samples, loss {loss:.4f}, accuracy {right / ROWS:.4f}" in text, text)
    tested = {int(x) for x in re.findall(r"^(\d+),", run("predict", "--checkpoint", "run"), re.M)}
    check("the test part", len(tested) == round(0.3 * ROWS), tested)
    with open("m.jsonl") as f:
        kinds = [json.loads(line) for line in f]
    each = -(-(ROWS - round(0.3 * ROWS)) // 4)  # steps of an epoch; the run ends within its second one
    check("epochs in the metrics, from 1", each < 6 < 2 * each and {k["event"] for k in kinds} >= {"step", "eval"} and
          all(k["epoch"] == -(-k["step"] // each) for k in kinds if k["event"] != "summary"), kinds)
    check("steps in the metrics", [k["step"] for k in kinds if k["event"] == "step"] == list(range(1, 7)), kinds)


def traces():
    """What an instruction computes and moves, on the reference device, where nothing is padded and all rows of the
    table are trained on."""
    batch = 4
    run("train", "-q", "--device", "reference", "--model", "net.yaml", "--data", "csv:rows.csv,test=0.3", "--batch",
        str(batch), "--steps", "2", "--optimizer", "sgd", "--trace", "t.json")
    x, w, y = batch * ROWS, ROWS * CLASSES, batch * CLASSES
    wanted = {
        "dense fc": (2 * batch * ROWS * CLASSES, 4 * (x + w + y)),
        "dense_dw fc/dw": (2 * batch * ROWS * CLASSES, 4 * (x + y + w)),
        "softmax_xent loss": (None, 4 * (y + batch + batch + 1 + y)),  # logits, labels, weights; loss, probabilities
        "sgd fc/weight/update": (None, 4 * (w + w + 1 + w)),
        "counter step/next": (None, 4 * 2),
    }
    with open("t.json") as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    for name, (flops, moved) in wanted.items():
        told = [(e["args"]["flops"], e["args"]["bytes"]) for e in events if e["name"] == name]
        check(f"work and bytes of {name}", len(told) == 2 and all(b == moved and flops in (None, a) for a, b in told), told)


def manuals():
    """A page of the manual has every option that the help has, with its letter, its argument and its text."""
    for command in re.findall(r"^  ([a-z-]+)  +[a-z]", run("help"), re.M):
        text, page = run("help", command), run("help", "--man", command)
        entries = re.findall(r"^  (?:-(\w), )?--([\w-]+(?:\[=\w+\])?)(?: (\S+))?(?: {2,}| *\n {6,})(\S.*(?:\n {6,}\S.*)*)", text, re.M)
        page = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\\\", "\\")
        for letter, name, argument, said in entries:
            head = (f"-{letter}, " if letter else "") + f"--{name}" + (f" {argument}" if argument else "")
            found = re.search(rf"^\.TP\n{re.escape(head)}\n(.*)", page, re.M)
            check(f"the manual of {command}: {head}", found and
                  re.sub(r"\s", "", found.group(1)) == re.sub(r"\s", "", said), (found and found.group(1), said))
        check(f"options of {command} in the manual", len(entries) == len(re.findall(r"^\.TP\n-", page, re.M)),
              (len(entries), page[-300:]))


def plans():
    layers = 6
    with open("deep.yaml", "w") as f:
        print("layers:", file=f)
        for i in range(layers):  # nearly all the work is in the first one
            print(f"  - {{type: dense, name: d{i}, units: {2000 if i == 0 else 'classes' if i == layers - 1 else 3}}}", file=f)
    data = ["--data", "glyphs:size=12,train=40,test=10", "--batch", "20", "--model", "deep.yaml"]
    nodes = [f"d{i}{part}" for i in range(layers) for part in ("", "/add_bias")] + ["loss"]
    for stages in (2, 3, layers):
        mine = []
        for rank in range(stages):
            text = run("plan", "-n", str(stages), "--mesh", f"pipeline={stages}", "--microbatches", "2",
                       f"--dump={rank}", *data)
            check("the rank of a dump", f"Graph of rank {rank}:" in text and
                  not any(f"Graph of rank {r}:" in text for r in range(stages) if r != rank), text[-500:])
            mine.append(re.findall(r"^%.*# (d\d(?:/add_bias)?|loss) ", text, re.M))
        check("no stage is empty", all(mine), mine)
        check("stages are neighbours in order, each node in one", [x for m in mine for x in m] == nodes, mine)
    for mesh in ("data=2", "tensor=2", "pipeline=2"):
        text = run("plan", "-n", "2", "--mesh", mesh, "--microbatches", "2", *data)
        counted = {int(r): int(n) for r, n in re.findall(r"^ *(\d+)  \S.* (-?\d+)$", text.split("On the wire")[0], re.M)}
        lists = {int(l.split(",")[0]): re.findall(r"^  \w+ +(\d+)  \w+ .* (\d+)  \S", l, re.M)
                 for l in text.split("Transfers of rank ")[1:]}
        check(f"a plan of {mesh} has two ranks", len(counted) == 2 and lists, text)
        check(f"the transfers of {mesh} are those of the list", all(counted[r] == len(l) for r, l in lists.items()), text)
        sent = sum(int(times) * int(size) for r in range(2) for times, size in lists.get(r, lists[0]))
        check(f"the bytes of {mesh} are those of the list", f" ({sent} bytes)" in text, (sent, text))
    text = run("plan", "-n", "2", "--mesh", "data=2", "--zero", "1", "--recompute", "--passes=1", *data)
    passes = dict(re.findall(r"^# after ([^:]*): \d+ nodes\n(.*?)\n\n", text, re.M | re.S))
    check("the passes of a run", list(passes) == ["building the model", "differentiation", "adding the optimizer",
                                                  "recomputation", "the rewrite for the rank", "inference"], list(passes))
    mine = run("plan", "-n", "2", "--mesh", "data=2", "--zero", "1", "--recompute", "--dump=1", *data)
    check("the last pass gives the graph that is dumped", f"Graph of rank 1:\n{passes['the rewrite for the rank']}\n" in mine, text)
    check("each pass adds its part", all((word in passes[name]) == (i >= first) for word, first in (("softmax_xent_grad", 1), ("adam(", 2), ("reduce_scatter", 4))
                                         for i, name in enumerate(list(passes)[:5])), text)
    check("a plan without a dump has none", "Graph of rank" not in run("plan", "-n", "2", *data))


def losses(*words):
    run("train", "-q", "--data", "glyphs:size=12,train=40,test=10", "--batch", "20", "--steps", "4", "--dtype", "f64",
        "--device", "reference", "-t", "1", "--model", "conv.yaml", "--metrics", "l.jsonl", *words)
    with open("l.jsonl") as f:
        return [e["loss"] for e in map(json.loads, f) if e["event"] == "step"]


def pins():
    """Weights stored in any part, also along dimensions that an operator needs whole."""
    with open("conv.yaml", "w") as f:
        print("layers:\n  - {type: conv, name: c, filters: 4, kernel: 3}\n  - {type: relu}\n  - {type: conv, name: g, "
              "filters: 4, kernel: 2, groups: 2}\n  - {type: maxpool}\n  - {type: dense, name: d, units: classes}", file=f)
    want = losses()
    for pin in ("c/weight:0", "c/weight:2", "c/weight:3", "g/weight:0", "g/weight:1", "g/weight:2", "g/weight:3",
                "d/weight:0", "d/weight:1", "c/bias:0", "d/bias:0"):
        told = losses("-n", "2", "--mesh", "tensor=2", "--shard", pin + "=tensor")
        check(f"losses with {pin} in two parts", len(told) == 4 and all(abs(a - b) < 1e-8 for a, b in zip(told, want)),
              (told, want))


FEATURES = ["w", "h", "2"]  # a number may be a name
PLACE = 1  # of the label in training


def table_rows():
    return [(((i * 5) % 7) / 2, ((i * 3) % 11) - 4.5, 100 + i % 5, NAMES[(i * i + i // 3) % 3]) for i in range(18)]


def write_table(order, header=True, name="t.csv"):
    """order: of the columns, 0 to 2 are features, 3 is the label, others are no number of training's."""
    def cells(row):
        return ",".join(str(row[k]) if k < 4 else "7" for k in order)
    with open(name, "w") as f:
        if header:
            print(cells([*FEATURES, "kind"]).replace("7", "id"), file=f)
        for row in table_rows():
            print(cells(row), file=f)


def usual(label=PLACE):
    order = [0, 1, 2]
    order.insert(label, 3)
    return order


def says(words, *command):
    done = subprocess.run([weft, *command], capture_output=True, text=True, timeout=120)
    check(f"{words}: weft {' '.join(command)}", done.returncode in (1, 2) and words in done.stderr and
          done.stderr.count("weft:") == 1, done.stderr + done.stdout)


def predicted(data, labelled, p):
    lines = run("predict", "--checkpoint", "tables", "--data", data).splitlines()[1:]
    told = [csv_fields(line) for line in lines]
    want = [[row[3] if labelled else "", NAMES[p[i].index(max(p[i]))]] for i, row in enumerate(table_rows())]
    check(f"predictions of {data}", [t[1:3] for t in told] == want and
          all(abs(float(t[3]) - max(q)) < 2e-6 for t, q in zip(told, p)), told)


def tables():
    """Columns mean what their names mean, whatever their order."""
    with open("net.yaml", "w") as f:
        print("layers:\n  - {type: dense, name: fc, units: classes, bias: false}", file=f)
    train = ["train", "-q", "--model", "net.yaml", "--data", "csv:t.csv,label=kind,test=0", "--batch", "6", "--lr", "0.3"]
    write_table(usual())
    run(*train, "--epochs", "7", "--checkpoint", "tables")
    run("export", "tables", "-o", "w", "-q")
    w = dict(tensors("w"))["fc/weight"]
    rows = table_rows()
    mean = [sum(r[k] for r in rows) / len(rows) for k in range(3)]
    deviation = [math.sqrt(sum((r[k] - mean[k]) ** 2 for r in rows) / len(rows)) for k in range(3)]
    p = [softmax([sum((r[k] - mean[k]) / deviation[k] * w[3 * k + c] for k in range(3)) for c in range(3)]) for r in rows]
    check("predictions differ", len({q.index(max(q)) for q in p}) == 3, p)
    loss = sum(-math.log(q[NAMES.index(r[3])]) for q, r in zip(p, rows)) / len(rows)
    for order in itertools.permutations(range(4)):
        write_table(order)
        for label in ("", ",label=kind", f",label={order.index(3)}"):
            predicted(f"csv:t.csv{label},test=1", True, p)
        told = json.loads(run("eval", "--checkpoint", "tables", "--json", "--data", "csv:t.csv,test=1"))
        check("the loss of another order", abs(told["loss"] - loss) < 1e-5, (order, told))
    for order in itertools.permutations(range(3)):
        write_table(order)
        for label in ("", ",label=kind", ",test=1"):
            predicted(f"csv:t.csv{label}", False, p)
        says("has the 3 columns of the features alone, so none is the label '0'", "predict", "--checkpoint", "tables",
             "--data", "csv:t.csv,label=0")
    first = json.loads(run("predict", "--checkpoint", "tables", "--data", "csv:t.csv", "--json").splitlines()[0])
    check("no label as JSON", first["label"] is None and first["predicted"] == NAMES[p[0].index(max(p[0]))], first)
    says("t.csv: has no column 'kind'", "eval", "--checkpoint", "tables", "--data", "csv:t.csv")
    for command in ("eval", "predict"):
        asks = [command, "--checkpoint", "tables", "--data"]
        write_table([0, 2, 3])
        says("t.csv: has no column 'h', which the model was trained with", *asks, "csv:t.csv,test=1")
        write_table([2, 3, 4, 1, 0])
        predicted("csv:t.csv,test=1", True, p)
        write_table([2, 3, 4, 0])
        says("t.csv: has no column 'h', which the model was trained with, but one named 'id'", *asks, "csv:t.csv,test=1")
        write_table([0, 1, 2, 3, 1])
        says("t.csv:1: columns 1 and 4 are both named 'h'", *asks, "csv:t.csv,test=1")
        write_table(usual())
        says("no column is named 'sort'", *asks, "csv:t.csv,label=sort,test=1")
        write_table(usual(), header=False)
        predicted("csv:t.csv,test=1", True, p)
        predicted("csv:t.csv,label=kind,test=1", True, p)
        write_table(usual(3), header=False)
        predicted("csv:t.csv,label=3,test=1", True, p)
        write_table([0, 3], header=False)
        says("t.csv: has 2 columns, training had 3 features and the label", *asks, "csv:t.csv,test=1")
        write_table([0, 3, 1, 2, 4], header=False)
        says("t.csv: has 5 columns, training had 3 features and the label", *asks, "csv:t.csv,test=1")
    write_table([0, 1, 2], header=False)
    predicted("csv:t.csv", False, p)
    says("t.csv: has 3 columns, training had 3 features and the label", "eval", "--checkpoint", "tables", "--data", "csv:t.csv")
    with open("t.csv") as f:
        text = f.read()
    with open("t.csv", "w", encoding="utf-8-sig") as f:  # with the mark of byte order that some programs write
        f.write(text)
    predicted("csv:t.csv", False, p)
    # A run that goes on reads the columns by their names, too.
    for order in (usual(), [2, 0, 3, 1]):
        write_table(usual())
        shutil.rmtree("half", ignore_errors=True)
        run(*train, "--epochs", "3", "--checkpoint", "half")
        write_table(order)
        run(*train, "--epochs", "7", "--checkpoint", "half", "--resume")
        run("export", "half", "-o", "v", "-q")
        check(f"a run that goes on with columns {order}", dict(tensors("v"))["fc/weight"] == w, order)
    write_table([0, 1, 3])
    says("has no column '2'", *train, "--epochs", "9", "--checkpoint", "half", "--resume")
    # Checkpoints from before columns were kept: order counts.
    path = os.path.join("tables", "latest", "index.json")
    with open(path) as f:
        index = json.load(f)
    check("names of columns in the index", index["data"]["column_names"] == FEATURES and
          index["data"]["label_name"] == "kind" and index["data"]["label_column"] == PLACE + 1, index["data"])
    for key in ("column_names", "label_name", "label_column"):
        del index["data"][key]
    del index["crc32"]
    index["format"] = 1
    with open(path, "w") as f:
        json.dump(index, f)
    write_table(usual(3))
    predicted("csv:t.csv,test=1", True, p)
    write_table([0, 1, 2])
    predicted("csv:t.csv", False, p)


def pixels(png):
    """The pixels of a PNG of 8 bits and RGB, whose checks must be right."""
    at, parts = 8, {}
    while at < len(png):
        size, = struct.unpack(">I", png[at:at + 4])
        body, told = png[at + 4:at + 8 + size], struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
        check("the check of a chunk", zlib.crc32(body) == told, body[:4])
        parts[body[:4]] = body[4:]
        at += 12 + size
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    raw = zlib.decompress(parts[b"IDAT"])
    return [[tuple(raw[y * (3 * width + 1) + 1 + 3 * x:][:3]) for x in range(width)] for y in range(height)]


def sheets():
    """Samples as weft inspect --plot draws them: as they are, mirrored, and grey."""
    side, count = 9, 12
    for channels in 3, 1:
        values = [(7 * i + i * i // 5) % 256 for i in range(count * channels * side * side)]
        write_npy("p.npy", "u1", [count, channels, side, side], values)
        write_npy("k.npy", "u1", [count], [i % 3 for i in range(count)])
        for mirrored in False, True:
            text = run("inspect", "--data", "npy:p.npy,k.npy,layout=chw,test=0", "--plot", "s.svg",  # too small for the usual model and batch
                       *(["--augment", "flip=1"] if mirrored else []))
            check("samples of each class", [line.split() for line in text.splitlines()[1:4]] == [[str(c), "4", "0"] for c in range(3)], text)
            with open("s.svg") as f:
                svg = f.read()
            shown = [pixels(base64.b64decode(b)) for b in re.findall(r'base64,([^"]*)"', svg)]
            for i, rows in enumerate(shown):
                want = [[tuple(values[((i * channels + c) * side + y) * side + (side - 1 - x if mirrored else x)]
                               for c in (range(3) if channels == 3 else (0, 0, 0))) for x in range(side)] for y in range(side)]
                check(f"sample {i} of the sheet", rows == want, (rows[0], want[0]))
            check("labels of the sheet", re.findall(r">(\d+)</text>", svg) == [str(i % 3) for i in range(count)] and len(shown) == count, svg[:300])
    done = checks.run("inspect", "--data", "npy:p.npy,k.npy,layout=chw,test=0", "--plot", "-", "--augment", "flip=1")
    check("a sheet on standard output has nothing else", done.stdout == svg, done.stdout[-200:])
    check("the classes are on standard error", [line.split() for line in done.stderr.splitlines()[-3:]] == [[str(c), "4", "0"] for c in range(3)], done.stderr)
    write_npy("t.npy", "f4", [count, 4], list(range(4 * count)))
    done = checks.run("inspect", "--data", "npy:t.npy,k.npy,test=0", "--plot", "s.svg", code=2)
    check("a table is no picture", "are no pictures" in done.stderr, done.stderr)


sys.exit(main(predictions, traces, manuals, plans, pins, tables, sheets))
