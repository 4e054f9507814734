"""weft compare of metrics files, its JSON and its pictures: compare_files.py PATH/TO/weft"""
import json
import math
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write

DATA = "--data glyphs:size=16,train=200,test=40 --batch 20 --model mlp -t 1".split()


def train(name, *words):
    os.makedirs(f"runs/{name}", exist_ok=True)
    run("train", *DATA, "-q", "--metrics", f"runs/{name}/metrics.jsonl", *words)
    return [json.loads(line) for line in open(f"runs/{name}/metrics.jsonl")]


def smoothed(losses):
    window = len(losses) // 40 + 1
    return [sum(losses[max(0, i + 1 - window):i + 1]) / len(losses[max(0, i + 1 - window):i + 1]) for i in range(len(losses))]


def texts(file):
    return [e.text or "" for e in tree.parse(file).getroot().iter() if e.tag.endswith("text")]


def same_figures():
    """A run from its file has the figures that the file has."""
    lines = {name: train(name, *words.split()) for name, words in (("slow", "--lr 1e-4 --epochs 3"), ("fast", "--lr 1e-3 --epochs 3 -n 2 --mesh data=2"))}
    done = run("compare", "runs/slow/metrics.jsonl", "runs/fast/metrics.jsonl", "--json", "--plot", "both.svg")
    rows = json.loads(done.stdout)
    check("order and labels", [row["strategy"] for row in rows] == ["slow", "fast"], rows)
    last = {}
    for row in rows:
        steps, evals, end = ([e for e in lines[row["strategy"]] if e["event"] == kind] for kind in ("step", "eval", "summary"))
        losses = smoothed([e["loss"] for e in steps])
        last[row["strategy"]] = min(losses)
        want = {"seconds": end[0]["seconds"], "samples_per_second": end[0]["samples_per_second"], "train_loss": losses[-1], "loss": evals[-1]["loss"],
                "accuracy": evals[-1]["accuracy"], "bytes_sent": sum(e.get("comm_bytes", 0) for e in steps) * end[0]["learners"]}
        for key, value in want.items():
            check(f"{row['strategy']}: {key}", math.isclose(row[key], value, rel_tol=1e-8, abs_tol=1e-12), (row, value))
        reached = [e["seconds"] for e, loss in zip(steps, losses) if loss <= row["target_loss"] * (1 + 1e-9)]
        check("time to the target", math.isclose(row["seconds_to_target"], reached[0], rel_tol=1e-8), (row, reached))
    check("the target is the lowest loss that both reach", math.isclose(rows[0]["target_loss"], max(last.values()), rel_tol=1e-8), (rows, last))
    words = texts("both.svg")
    for said in ("slow", "fast", "training loss, smoothed", "test loss", "test accuracy", "steps", "time, seconds", "2 runs, 1 learner, from their files of metrics"):
        check(f"the picture says {said}", any(said in word for word in words), words)
    table = run("compare", "--target", "0.5", "runs/slow/metrics.jsonl", "runs/fast/metrics.jsonl").stdout.splitlines()
    check("table", re.match(r"strategy +s to loss 0.5 +samples/s +train loss +test loss +accuracy +sent +staleness$", table[0]) and
          [line.split()[0] for line in table[1:3]] == ["slow", "fast"] and
          re.match(r"lowest test loss: [0-9.]+, of (slow|fast)$", table[-1]), table)
    one = run("compare", "runs/slow/metrics.jsonl").stdout.splitlines()
    check("one file", len(one) == 2, one)


def kept_target():
    """A target is reached where the loss stays below twice of it: not by a lucky batch of a run that diverges later."""
    courses = {"lucky": [3, 0.2, 0.2, 5, 4, 3], "late": [3, 0.2, 5, 0.6, 0.3, 0.7], "soon": [3, 0.2, 0.9, 0.3, 0.7, 0.9]}
    for name, losses in courses.items():
        os.makedirs(f"runs/{name}", exist_ok=True)
        write(f"runs/{name}/metrics.jsonl", "".join(json.dumps({"event": "step", "step": i + 1, "seconds": i + 1, "loss": x}) + "\n" for i, x in enumerate(losses)))
    rows = json.loads(run("compare", *(f"runs/{name}/metrics.jsonl" for name in courses), "--target", "0.5", "--json").stdout)
    check("kept targets", [row.get("seconds_to_target") for row in rows] == [None, 5, 2], rows)


def same_as_run():
    """A comparison that runs, and the files of the same runs, have the same losses."""
    ran = json.loads(run("compare", *DATA, "--epochs", "2", "--strategies", "lr=1e-3; lr=1e-4 validation=0.2", "--json").stdout)
    train("a", "--lr", "1e-3", "--epochs", "2")
    train("b", "--lr", "1e-4", "--epochs", "2", "--validation", "0.2")
    read = json.loads(run("compare", "runs/a/metrics.jsonl", "runs/b/metrics.jsonl", "--json").stdout)
    for have, want in zip(read, ran):
        for key in ("train_loss", "loss", "accuracy", "target_loss", "bytes_sent", "split"):
            same = have[key] == want[key] if isinstance(have[key], str) else math.isclose(have[key], want[key], rel_tol=1e-8)
            check(f"{key} of {want['strategy']}", same, (have, want))
    check("the JSON is alone on standard output", ran[0]["run"] == "mlp on glyphs:size=16,train=200,test=40" and not ran[0]["diverged"], ran)


def chosen():
    """A run file of weft train is swept, though it has outputs. The table has the validation part, by which one chooses, not the test part; the
    metrics that are asked for; and, with --keep-best or --patience, the best evaluation in place of the last one."""
    chance = random.Random(3)
    rows = [[chance.gauss(0, 1) for _ in range(3)] for _ in range(200)]
    write("rare.csv", "a,b,c,y\n" + "".join(f"{a:.3f},{b:.3f},{c:.3f},{'yes' if a + b + chance.gauss(0, 1) > 2 else 'no'}\n" for a, b, c in rows))
    write("run.yaml", "model: mlp\ndata: csv:rare.csv,label=y\nvalidation: 0.3\nbatch: 20\nepochs: 5\nthreads: 1\nlr: 0.03\n"
          "metric: precision_macro,auc\nkeep-best: auc\ncheckpoint: swept\nkeep: 2\nmetrics: run.jsonl\n")
    run("train", "run.yaml", "-q")
    evals = [e for e in map(json.loads, open("run.jsonl")) if e["event"] == "eval" and e["split"] == "validation"]
    best, last = [e for e in evals if e.get("best")][-1], evals[-1]
    check("the best evaluation is not the last one", best["step"] < last["step"] and best["auc"] > last["auc"], evals)
    before = sorted(os.listdir("swept")), open("run.jsonl").read()
    done = run("compare", "run.yaml", "--sweep", "lr=0.01..0.03:linear:2", "--json", "--plot", "chosen.svg")
    row = json.loads(done.stdout)[1]
    check("the best by the metric of --keep-best", row["split"] == "validation" and row["auc"] == best["auc"] and math.isclose(row["loss"], best["loss"], rel_tol=1e-8), (row, best))
    check("the outputs of the run file are left alone", (sorted(os.listdir("swept")), open("run.jsonl").read()) == before)
    check("the first metric has the curve", any(re.search("validation .*precision", word) for word in texts("chosen.svg")), texts("chosen.svg"))
    table = run("compare", "run.yaml", "-q", "--sweep", "lr=0.01..0.03:linear:2", "--metric", "f1_macro,auc").stdout.splitlines()
    check("columns", re.match(r"strategy +s to loss [0-9.]+ +samples/s +train loss +validation loss +macro F1 +AUC +sent", table[0]), table)
    file = run("compare", "run.jsonl", "--metric", "auc,f1_macro", "--json")
    row = json.loads(file.stdout)[0]
    check("the best of a file", row["split"] == "validation" and row["auc"] == best["auc"] and row["f1_macro"] == best["f1_macro"], (row, best))
    refused = run("compare", "run.jsonl", "--metric", "rmse", code=1).stderr
    check("a metric that a file has not", "run.jsonl: has no evaluation with the metric 'rmse'" in refused, refused)
    for more, words in (("--checkpoint new", "all begin anew"), ("--metrics new.jsonl", "would write it in turn"), ("--metric aoc", "no metric is named 'aoc'"),
                        ("--keep-best rmse", "must be of the metrics of classes")):
        refused = run("compare", "run.yaml", "--sweep", "lr=0.01..0.03:linear:2", *more.split(), code=2).stderr
        check(words, words in refused, refused)


def damaged():
    """Damaged lines, a missing summary and unlike metrics are told, and the rest is compared."""
    train("whole", "--epochs", "2")
    lines = open("runs/whole/metrics.jsonl").read().splitlines(keepends=True)
    os.makedirs("runs/cut", exist_ok=True)
    write("runs/cut/metrics.jsonl", "".join(lines[:5]) + lines[5][:20])
    done = run("compare", "runs/whole/metrics.jsonl", "runs/cut/metrics.jsonl", "--json")
    check("a line that is cut off", "runs/cut/metrics.jsonl:6: is cut off or damaged; the other lines are compared" in done.stderr, done.stderr)
    check("no summary", "runs/cut/metrics.jsonl: has no summary, since the run goes on or was broken off" in done.stderr, done.stderr)
    rows = json.loads(done.stdout)
    check("figures of what is there", "bytes_sent" not in rows[1] and math.isclose(rows[1]["train_loss"], json.loads(lines[4])["loss"], rel_tol=1e-8), rows)
    write("numbers.csv", "".join(f"{i},{2 * i}\n" for i in range(100)))
    run("train", "--model", "mlp", "--data", "csv:numbers.csv,target=1", "--batch", "20", "-q", "-t", "1", "--metrics", "runs/numbers.jsonl")
    done = run("compare", "runs/whole/metrics.jsonl", "runs/numbers.jsonl")
    check("unlike metrics", re.search("has the metric accuracy, and .* has r2", done.stderr), done.stderr)
    write("bad.jsonl", "nothing\n")
    for files, words in ((["bad.jsonl"], "bad.jsonl: has no step of a run"), (["gone.jsonl", "bad.jsonl"], "gone.jsonl: cannot read it: No such file"),
                         (["runs/whole", "runs/cut"], "runs/whole: is not a regular file")):
        done = run("compare", *files, code=1)
        check(words, words in done.stderr and done.stderr.count("weft:") == 1 and not done.stdout, done.stderr)
    both = ["runs/whole/metrics.jsonl", "runs/cut/metrics.jsonl"]
    for more, words in ((["--target", "nan"], "option 'target' is 'nan', must be a finite number"), (["--model", "mlp"], "--model has no effect on runs that are files of metrics"), (["--plot", "x.png"], "SVG"),
                        (["--plot", "runs/cut/metrics.jsonl"], "is a file that is compared")):
        done = run("compare", *both, *more, code=2)
        check(words, words in done.stderr, done.stderr)
    check("files that are compared stay", open("runs/cut/metrics.jsonl").read().startswith(lines[0]))
    done = run("compare", *(both * 33), code=2)
    check("too many", "66 files of metrics; at most 64 are compared" in done.stderr, done.stderr)


def out_of_order():
    """Lines of several runs, or in another order, are no run; lines before its begin are damaged ones."""
    train("plain", "--epochs", "2")
    lines = open("runs/plain/metrics.jsonl").read().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"event":"step"' in line)
    os.makedirs("runs/other", exist_ok=True)
    for name, text, place in (("concatenated", lines + lines, len(lines) + first + 1), ("reversed", lines[::-1], None),
                              ("a step twice", lines[:first + 1] + lines[first:], first + 2)):
        write("runs/other/metrics.jsonl", "".join(text))
        done = run("compare", "runs/plain/metrics.jsonl", "runs/other/metrics.jsonl", code=1)
        at = rf"runs/other/metrics.jsonl:{place or '[0-9]+'}: step [0-9]+ comes after step [0-9]+"
        check(name, re.search(at, done.stderr) and not done.stdout, done.stderr)
    negative = [line.replace('"step":3,', '"step":-3,') for line in lines]
    negative[first] = re.sub('"seconds":', '"seconds":-', negative[first])
    write("runs/other/metrics.jsonl", "".join(negative))
    done = run("compare", "runs/other/metrics.jsonl")
    check("numbers below 0", f"metrics.jsonl:{first + 1}: is cut off or damaged, as are further lines" in done.stderr, done.stderr)


def resumed():
    """The seconds of a run that resumes go on."""
    train("first", "--epochs", "2", "-c", "kept")
    subprocess.run([weft, "train", "-q", "-c", "kept", "--resume", "--epochs", "4", "-t", "1", "--metrics", "runs/first/metrics.jsonl"], check=True)
    lines = [json.loads(line) for line in open("runs/first/metrics.jsonl")]
    steps = [e for e in lines if e["event"] == "step"]
    row = json.loads(run("compare", "runs/first/metrics.jsonl", "--json").stdout)[0]
    ends = [e["seconds"] for e in lines if e["event"] == "summary"]
    check("seconds", len(steps) == 40 and row["seconds"] >= sum(sorted(ends)[-1:]) and row["seconds"] > steps[-1]["seconds"], (row, ends))


sys.exit(main(same_figures, kept_target, same_as_run, chosen, damaged, out_of_order, resumed))
