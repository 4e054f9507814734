#!/usr/bin/env python3
"""Names of classes, and confusion matrices of any width: tests/cli/confusion.py PATH/TO/weft

What `weft eval` and `weft predict --json` print is computed here again from the CSV of `weft predict`; a matrix that
fits the width is printed whole, a wider one as the list of the classes most confused.
"""
import csv, json, math, os, re, shutil, sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import checks
from checks import check, end, scratch


def run(*words, columns=80):
    return checks.run(*words, env=dict(os.environ, COLUMNS=str(columns))).stdout


def matrix_in(text, names):
    """The numbers of a printed matrix, whose columns and rows must have these names; None: there is none."""
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines) if line.startswith("confusion in samples")), None)
    if at is None:
        return None
    head, rows = lines[at + 1], lines[at + 2:at + 2 + len(names)]
    width = len(head) // (len(names) + 1)
    cut = [[line[k:k + width] for k in range(0, len(line), width)] for line in [head] + rows]
    check("columns of a matrix", all(len(line) == width * (len(names) + 1) for line in [head] + rows), text)
    check("columns are apart", all(c[0] == " " for line in cut for c in line), text)
    check("names over a matrix", [c.strip() for c in cut[0]] == [""] + names, cut[0])
    check("names beside a matrix", [line[0].strip() for line in cut[1:]] == names, cut)
    return [[int(c) for c in line[1:]] for line in cut[1:]]


def confused_in(text):
    return [(t, p, int(n), float(share)) for t, p, n, share in re.findall(r"^(\S.*?)  +(\S.*?)  +(\d+)  +([\d.]+) %$", text, re.M)]


def area(own, others):
    """The share of the pairs in which the first one is greater; equal ones count half."""
    return sum((a > b) + (a == b) / 2 for a in own for b in others) / (len(own) * len(others))


def check_metrics(where, names, labels, shown):
    """Each metric of classes, and the metrics by class, from the probabilities that weft predict prints."""
    said = [json.loads(line) for line in run("predict", *where, "--json").splitlines()]
    p = [list(s["probabilities"].values()) if isinstance(s["probabilities"], dict) else s["probabilities"] for s in said]
    guess = [names.index(str(s["predicted"])) for s in said]
    every = range(len(names))
    hits = [sum(g == c == t for g, t in zip(guess, labels)) for c in every]
    told, true = [guess.count(c) for c in every], [labels.count(c) for c in every]
    precision = [h / n if n else 0 for h, n in zip(hits, told)]
    recall = [h / n if n else 0 for h, n in zip(hits, true)]
    f1 = [2 * h / (n + t) if n + t else 0 for h, n, t in zip(hits, told, true)]
    unions = [h / (n + t - h) if n + t else 0 for h, n, t in zip(hits, told, true)]
    present = sum(n + t > 0 for n, t in zip(told, true))
    areas = [area([q[c] for q, t in zip(p, labels) if t == c], [q[c] for q, t in zip(p, labels) if t != c])
             for c in every if 0 < true[c] < len(labels)]
    five = sum(sum(x > q[t] or (x == q[t] and c < t) for c, x in enumerate(q)) < 5 for q, t in zip(p, labels))
    loss = json.loads(run("eval", *where, "--json"))["loss"]
    entropy = sum(-math.log(q[t]) for q, t in zip(p, labels)) / len(labels)
    want = {"loss": loss, "accuracy": sum(hits) / len(labels), "f1_macro": sum(f1) / present, "precision_macro": sum(precision) / present,
            "recall_macro": sum(recall) / present, "iou_macro": sum(unions) / present, "top5": five / len(labels), "auc": sum(areas) / len(areas), "perplexity": math.exp(entropy)}
    words = ("eval", *where, "--by-class", "--metric", ",".join(want))
    found = json.loads(run(*words, "--json"))
    numbers, labels_alone = ("r2", "mae", "rmse"), ("f1_micro", "subset_accuracy")  # the latter: tests/data/several_labels.py
    listed = re.findall(r"^  (\w+)$", run("help", "metrics"), re.M)
    check("a reference for each metric", sorted(listed) == sorted([*want, *numbers, *labels_alone]), listed)
    for name, value in want.items():
        check(f"metric {name}", abs(found[name] - value) < 2e-6 * max(1, abs(value)), (found[name], value))
    for c, row in enumerate(found["by_class"]):
        check("metrics of a class", all(abs(row[k] - v) < 1e-8 for k, v in zip(("precision", "recall", "f1", "support"),
              (precision[c], recall[c], f1[c], true[c]))), (c, row))
    lines = run(*words).split("\n")
    check("the table by class", [line[:len(line) - 44].strip() for line in lines[3:3 + len(names)]] == shown, lines)


def check_classes(names, shown, as_numbers, loss):
    """names: of the classes, in order; shown: as they are printed; loss: of the training."""
    classes, rows = len(names), 4 * len(names) + 5
    labels = [i * i % classes for i in range(rows)]
    with open("t.csv", "w", newline="") as f:
        table = csv.writer(f)
        table.writerow(["a", "b", "kind"])
        # Each class occurs in the training part, so that classes are known in this order.
        table.writerows([i % 7, i * 3 % 11, names[c]] for i, c in enumerate(list(range(classes)) * 2 + labels))
    run("train", "-q", "-m", "mlp", "-d", "csv:t.csv,label=kind,test=0", "--steps", "2", "--batch", "5", "-t", "1", "-c", "run", "--loss", loss)
    with open("t.csv") as f, open("new.csv", "w") as new:
        lines = f.readlines()
        new.writelines([lines[0]] + lines[-rows:])
    where = ("run", "-d", "csv:new.csv,label=kind,test=1", "-t", "1")
    told = list(csv.DictReader(run("predict", *where).splitlines()))
    check("labels of the samples", [row["label"] for row in told] == [names[c] for c in labels], told)
    for row, line in zip(told, run("predict", *where, "--json").splitlines()):
        said = json.loads(line)
        check("names in JSON", str(said["label"]) == row["label"] and str(said["predicted"]) == row["predicted"], line)
        p = said["probabilities"]
        check("probabilities by name", (len(p) == classes) if as_numbers else list(p) == names, line)
        best = max(range(classes), key=p.__getitem__) if as_numbers else max(p, key=p.get)
        check("the most probable class", str(best) == row["predicted"], line)
    want = [[0] * classes for _ in names]
    for row, label in zip(told, labels):
        want[label][names.index(row["predicted"])] += 1
    said = json.loads(run("eval", *where, "--json"))
    check("the matrix as JSON", said["confusion"] == want, said)
    check("names of the matrix", said["class_names"] == (None if as_numbers else names), said)
    text = run("eval", *where, "--confusion", columns=100000)
    check("the printed matrix", matrix_in(text, shown) == want, text)
    wide = max(map(len, text.split("\n")[2:]))
    check("a matrix that just fits", matrix_in(run("eval", *where, "--confusion", columns=max(wide, len(text.split("\n")[2]))), shown) == want)
    text = run("eval", *where, "--confusion", columns=max(2, len(text.split("\n")[3]) - 1))
    pairs = sorted(((t, p) for t in range(classes) for p in range(classes) if t != p and want[t][p]),
                   key=lambda at: (-want[at[0]][at[1]], sum(want[at[0]]), at))
    expected = [(shown[t], shown[p], want[t][p], round(100 * want[t][p] / sum(want[t]), 1)) for t, p in pairs[:20]]
    found = confused_in(text)
    check("the classes most confused", [f[:3] for f in found] == [e[:3] for e in expected] and
          all(abs(f[3] - e[3]) < 0.11 for f, e in zip(found, expected)), (text, expected))
    check("the pairs that are left out", len(pairs) <= 20 or f"and {len(pairs) - 20} more pair" in text, text)
    check("no matrix beside the list", matrix_in(text, shown) is None and f"of {classes} (" in text, text)
    check_metrics(where, names, labels, shown)
    text = run("inspect", "run")
    check("classes of a checkpoint", re.findall(r"^  \d+ +(.*)$", text.split("\nclasses:\n")[1].split("\n\n")[0], re.M) == shown, text)


scratch()
for loss, names in zip(("cross_entropy", "focal") * 3, (["0", "1", "2"], ["3", "20", "111"], ["no", "yes"], ["B\u00e4r", 'a "b", c', "back\\slash", "two words"],
              [f"letter {i:02}" for i in range(62)], [f"{i}" for i in range(25)])):
    names = sorted(names, key=lambda n: (0, int(n), "") if n.isdigit() else (1, 0, n.encode()))
    shutil.rmtree("run", ignore_errors=True)
    check_classes(names, names, names == [str(i) for i in range(len(names))], loss)
where = ("eval", "run", "-d", "csv:new.csv,label=kind,test=1", "--metric")
for metrics, why in (("auc,auc", "metric 'auc,auc': auc is given twice"), ("top5,", "metric: 'top5,' has an empty piece"),
                     (",top5", "metric: ',top5' has an empty piece")):
    done = checks.run(*where, metrics, code=2)
    check(f"--metric '{metrics}'", why in done.stderr, done.stderr)
sys.exit(end())
