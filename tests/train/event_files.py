#!/usr/bin/env python3
"""Metrics as TensorBoard's event files: tests/train/event_files.py PATH/TO/weft

The scalars equal the lines of the same run, the graph is whole, histograms equal the exported weights, pictures of samples those
of weft inspect, and a run that resumes begins a session from which readers drop what it repeats. TensorBoard's own reader agrees where it is installed.
"""
import base64
import glob
import json
import pathlib
import re
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import checks  # noqa: E402
import event_file  # noqa: E402
import torch_compare  # noqa: E402

weft, check = checks.weft, checks.check


checks.scratch()
RUN = "--model mlp --data glyphs:size=8,train=60,test=20 --batch 20 -q -t 1".split()


def run(*options, command="train"):
    return subprocess.run([weft, command, *RUN, *options], stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def events(folder):
    return [list(event_file.read(path)) for path in sorted(glob.glob(f"{folder}/events.out.tfevents.*"))]


def scalars(files):
    """What a reader has in the end: a session's start drops that step and later ones of earlier files."""
    out = {}
    for file in files:
        for event in file:
            if event["session"] is not None:
                out = {key: value for key, value in out.items() if key[1] < event["step"]}
            for tag, value in event["scalars"].items():
                out[tag, event["step"]] = value
    return out


def lines(path):
    out = {}
    for line in map(json.loads, open(path)):
        if line["event"] == "step":
            out["train/loss", line["step"]] = line["loss"]
            out["train/lr", line["step"]] = line["lr"]
        if line["event"] == "eval":
            out.update({(f"test/{key}", line["step"]): line[key] for key in ("loss", "accuracy", "f1_macro")})
    return out


def near(a, b):
    return abs(a - b) <= 1e-6 * max(1, abs(b))


for i, options in enumerate((["-n", "1"], ["-n", "2", "--zero", "3"], ["-n", "2", "--mesh", "tensor=2"], ["-n", "2", "--exchange", "average"],
                             ["--device", "distant"], ["--dtype", "bf16", "--weights", "bf16"])):
    done = run("--epochs", "2", *options, "--metrics", f"all{i}.jsonl,tensorboard+histograms:all{i}", "--checkpoint", f"run{i}")
    check(f"train {options}", done.returncode == 0, done.stderr)
    want, files = lines(f"all{i}.jsonl"), events(f"all{i}")
    have = scalars(files)
    check(f"{options}: scalars", want and all(key in have and near(have[key], value) for key, value in want.items()), have)
    check(f"{options}: version", files[0][0]["version"] == b"brain.Event:2", files[0][0])
    # The distributions of the last evaluation are those of the weights that the checkpoint has.
    checks.run("export", f"run{i}", "-q", "-o", f"w{i}.safetensors")
    weights = torch_compare.read_safetensors(f"w{i}.safetensors")
    last = {tag: h for file in files for event in file for tag, h in event["histograms"].items()}
    check(f"{options}: names", weights and set(weights) == set(last), (sorted(last), sorted(weights)))
    for name, (_, numbers) in weights.items():
        h = last[name]
        below = sum(x < h["limits"][9] for x in numbers)
        check(f"{options}: histogram of {name}", h["count"] == len(numbers) == sum(h["bins"]) and near(h["sum"], sum(numbers))
              and h["least"] == min(numbers) and h["most"] == max(numbers) and near(h["squares"], sum(x * x for x in numbers))
              and (h["least"] == h["most"] or abs(sum(h["bins"][:10]) - below) <= 1), h)
    # Every input of a node is a node.
    graph = next(event["graph"] for event in files[0] if event["graph"])
    names = [node[1][0] for node in graph]
    check(f"{options}: graph", len(names) == len(set(names)) and all(text.split(b":")[0] in names for node in graph for text in node.get(3, [])), names)

# A run that was cut off and resumed has the scalars of one that was not.
parts = [run("--epochs", "1", "--metrics", "tensorboard:part", "--checkpoint", "part.run"),
         run("--epochs", "2", "--metrics", "tensorboard:part", "--checkpoint", "part.run", "--resume")]
check("a run in two parts", all(done.returncode == 0 for done in parts), [done.stderr for done in parts])
whole = {key: value for key, value in scalars(events("all0")).items() if key[0].split("/")[0] in ("train", "test")}
check("the scalars of a run in two parts", len(events("part")) == 2
      and whole == {key: value for key, value in scalars(events("part")).items() if key in whole}, scalars(events("part")))
# The steps that a killed run has behind its checkpoint are dropped.
run("--steps", "5", "--metrics", "tensorboard:cut", "--checkpoint", "cut.run", "--checkpoint-every", "2")
subprocess.run("rm -r cut.run/step-5 cut.run/latest && ln -s step-4 cut.run/latest", shell=True, check=True)
done = run("--steps", "6", "--metrics", "tensorboard:cut", "--checkpoint", "cut.run", "--resume")
starts = [event["step"] for file in events("cut") for event in file if event["session"] is not None]
check("a session begins behind the checkpoint", starts == [0, 5], (starts, done.stderr))
# A simulation writes them as well.
done = run("-n", "2", "--exchange", "server:policy=async", "--metrics", "tensorboard+histograms:sim", command="simulate")
check("simulate", done.returncode == 0 and any(event["histograms"] for file in events("sim") for event in file), done.stderr)

def decode(png):
    """The rows of a PNG of 8 bits, grey or in colours."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and depth == 8 and colours in (0, 2)
    each = 3 if colours else 1
    width *= each
    raw, rows, before = zlib.decompress(data), [], bytes(width)
    for y in range(height):
        kind, row = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            left, up, corner = row[x - each] if x >= each else 0, before[x], before[x - each] if x >= each else 0
            guess = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row[x] = row[x] + (0, left, up, (left + up) // 2, guess)[kind] & 255
        rows.append(bytes(row))
        before = row
    return rows


# The picture of the confusion matrix has that of weft eval.
done = run("--epochs", "4", "--lr", "0.01", "--metrics", "tensorboard+confusion:drawn", "--checkpoint", "drawn.run")
matrix = json.loads(checks.run("eval", "drawn.run", "--json", "--confusion").stdout)["confusion"]
pictures = [event["pictures"]["test/confusion"] for event in events("drawn")[0] if event["pictures"]]
rows = decode(pictures[-1])
cell = len(rows) // len(matrix)
check("a picture for each evaluation", done.returncode == 0 and len(pictures) == 4 and scalars(events("drawn")), done.stderr)
check("the confusion matrix", len(rows) == len(rows[0]) == cell * len(matrix) and cell > 1 and all(
    rows[y][x] == int(255.5 - 255 * (matrix[y // cell][x // cell] / max(sum(matrix[y // cell]), 1)))
    for y in range(len(rows)) for x in range(len(rows))), matrix)

# Pictures of samples are those of weft inspect, grey and in colours, as they are augmented.
for data, augment, each in (("glyphs:size=8,train=60,test=20", "crop:pad=2", 1), ("npy:colours.npy,classes.npy,layout=chw", "flip", 3)):
    if each == 3:
        def npy(path, kind, shape, body):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
            head += b" " * (-(len(head) + 11) % 64) + b"\n"
            pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body)
        npy("colours.npy", "|u1", (20, 3, 7, 9), bytes((i * 37 + i // 11) % 256 for i in range(20 * 3 * 7 * 9)))
        npy("classes.npy", "|u1", (20,), bytes(i % 3 for i in range(20)))
    options = ["--data", data, "--augment", augment, "--seed", "3"]
    done = checks.run("train", "--model", "mlp", *options, "--batch", "5", "--epochs", "1", "-q", "-t", "1", "--metrics", f"tensorboard+pictures:pictures{each}")
    drawn = {tag: png for event in events(f"pictures{each}")[0] for tag, png in event["pictures"].items() if tag.startswith("samples/")}
    checks.run("inspect", *options, "--plot", "sheet.svg")
    first = re.search(r'href="data:image/png;base64,([^"]*)"', pathlib.Path("sheet.svg").read_text()).group(1)
    want, have = decode(base64.b64decode(first)), decode(drawn["samples/0"]) if drawn else []
    if each == 1:
        have = [bytes(x for x in row for _ in range(3)) for row in have]
    check(f"{data}: pictures of samples", done.returncode == 0 and len(drawn) == 16 and have == want and len(set(drawn.values())) > 8, done.stderr)
pathlib.Path("table.csv").write_text("a,b,y\n" + "1,2,0\n2,3,1\n" * 20)
done = checks.run("train", "--model", "mlp", "--data", "csv:table.csv,label=y", "--steps", "1", "--batch", "4", "--metrics", "tensorboard+pictures:none", code=2)
check("samples that are no pictures", "are no pictures" in done.stderr, done.stderr)

done = run("--epochs", "1", "--metrics", "tensorboard:deep/er/runs")
check("a folder with its parents", done.returncode == 0 and scalars(events("deep/er/runs")), done.stderr)
done = run("--epochs", "1", "--metrics", "one.jsonl,two.jsonl")
check("two files of lines", done.returncode == 0 and lines("one.jsonl") == lines("two.jsonl") != {}, done.stderr)
for spec, words in (("tensorboard:", "a path is empty"), ("tensorboard", "this format needs a path; give tensorboard:FOLDER, or ./tensorboard"), ("a,trackio", "give trackio:FOLDER/RUN"), ("a.jsonl,", "a path is empty"), ("a,tensorbord:x", "no format is named 'tensorbord'"), ("tensorboard:x,tensorboard:x", "are the same file"), ("a,tensorboard:a", "are the same file"),
                    ("tensorboard:all0.jsonl", "is a file, a folder is needed here"), ("tensorboard:/proc/x", "make the folder")):
    done = run("--metrics", spec)
    check(spec, done.returncode in (1, 2) and words in done.stderr, done.stderr)

# TensorBoard's own reader.
python = pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "torch" / "bin" / "python"
READS = ("from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
         "e = E('cut', size_guidance={'scalars': 0}); e.Reload(); print([s.step for s in e.Scalars('train/loss')])\n"
         "e = E('pictures3'); e.Reload(); print(len(e.Tags()['images']), (e.Images('samples/0')[0].width, e.Images('samples/0')[0].height), len(e.Graph().node) > 9)")
own = subprocess.run([python, "-c", READS], capture_output=True, text=True, check=False) if python.exists() else None
if own and own.returncode == 0:
    check("TensorBoard's own reader", own.stdout.split("\n")[:2] == ["[1, 2, 3, 4, 5, 6]", "17 (9, 7) True"], own.stdout)
else:
    print("skipped: TensorBoard is not installed beside PyTorch (make torch)")
sys.exit(checks.end())
