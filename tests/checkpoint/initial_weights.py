#!/usr/bin/env python3
"""Runs that begin with given weights (--init): tests/checkpoint/initial_weights.py PATH/TO/weft [-v] [PART...]

A step whose learning rate is too small to change a number leaves what a run began with: in each way to run that must be what the
file holds, of every type, transposed or not.
"""
import os
import random
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write
from torch_compare import read_safetensors, write_safetensors

fast = os.environ.get("WEFT_FAST")
DATA = ["--data", "glyphs:size=16,train=48,test=12", "-t", "1"]
STILL = [*DATA, "--batch", "12", "--steps", "1", "-o", "sgd", "--lr", "1e-30"]
LENET = ["-m", "lenet", *STILL]
MIXED = """layers:
  - {type: conv, name: first.conv, filters: 3, kernel: 3, padding: 1, bias: false}
  - {type: batch_norm, name: first/norm}
  - {type: relu}
  - {type: maxpool}
  - {type: dense, name: wide, units: 192}
  - {type: dense, name: head, units: classes}
"""


def left(*words, told=None):
    """What a run began with, and its notes."""
    shutil.rmtree("left", ignore_errors=True)
    done = run("train", *words, "--checkpoint", "left")
    run("export", "left", "-q", "-o", "left.st")
    if told:
        check(f"{' '.join(words)} says {told}", told in done.stderr, done.stderr)
    return read_safetensors("left.st")


def first():
    run("train", "-m", "lenet", *DATA, "--batch", "12", "--steps", "2", "--seed", "7", "--checkpoint", "given")
    run("export", "given", "-q", "-o", "given.st")
    run("export", "given", "-q", "-f", "exported")
    write("mixed.yaml", MIXED)


def everywhere():
    """The same bytes in every way to run."""
    given = read_safetensors("given.st")
    ways = ["", "-n 2", "-n 2 --mesh tensor=2 --shard fc1/weight:out=tensor", "-n 2 --mesh domain=2", "-n 2 --mesh pipeline=2",
            "-n 2 --zero 1", "-n 2 --zero 3", "-n 4 --mesh tensor=2,data=2 --zero 2 --shard fc1/weight:out=tensor", "--virtual-workers 3", "--home cpu",
            "--device reference", "--dtype f64", "--dtype bf16", "-n 2 --exchange average", "-n 2 --exchange oneshot", "-n 2 --exchange hogwild",
            "-n 2 --exchange server:policy=bsp", "-n 2 --exchange easgd", "-n 2 --exchange gossip", "--device distant:of=cpu"]
    for source in ("given", "given/latest", "exported", "given.st"):
        check(f"{source} as it is", left(*LENET, "--init", source, told="8 of 8 parameters") == given)
    for way in ways:
        check(f"the weights with '{way}'", left(*LENET, "--init", "given.st", *way.split()) == given)
    if run("inspect", "--list").stdout.find("\n  mpi ") >= 0:
        check("of processes", left(*LENET, "--init", "given.st", "-n", "2", "--engine", "mpi") == given)
    check("of learners that are processes", left(*LENET, "--init", "given.st", "-n", "2", "--engine", "processes", "--exchange", "server:policy=bsp") == given)
    run("simulate", *LENET, "--init", "given", "-n", "2", "--exchange", "gossip", "--checkpoint", "simulated")
    run("export", "simulated", "-q", "-o", "left.st")
    check("of a simulation", read_safetensors("left.st") == given)
    narrow = left(*LENET, "--init", "given.st", "--dtype", "bf16", "--weights", "bf16")
    check("weights in bf16", all(abs(a - b) <= abs(b) / 256 for key in given for a, b in zip(narrow[key][1], given[key][1])))
    shutil.rmtree("left")
    run("train", *LENET, "--init", "given", "--checkpoint", "left")
    done = run("train", *LENET, "--steps", "2", "--init", "nowhere", "--checkpoint", "left", "--resume")
    check("a run that resumes has its own weights", not done.stderr.count("begin with"), done.stderr)


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-20 for x, y in zip(a, b))


def turned(values, rows, columns):
    return [values[r * columns + c] for c in range(columns) for r in range(rows)]


def maps():
    """Names and layouts of PyTorch, and of a map; a square matrix shows whether it is turned."""
    draw = random.Random(3)
    number = lambda bits: round(draw.uniform(-1, 1) * 2**bits) / 2**bits
    make = lambda dtype, *shape: (dtype, list(shape), [number(6) for _ in range(eval("*".join(map(str, shape))))])
    theirs = {"first.conv.weight": make("F16", 3, 1, 3, 3), "first.norm.weight": make("BF16", 3), "first.norm.bias": make("F64", 3),
              "first.norm.running_mean": make("F32", 3), "first.norm.running_var": ("F32", [3], [1.5, 2.25, 0.75]),
              "first.norm.num_batches_tracked": ("I64", [], [5]), "wide.weight": make("F32", 192, 192), "wide.bias": make("F32", 192),
              "head.weight": make("F16", 7, 192), "head.bias": make("F32", 7)}
    write_safetensors("theirs.st", theirs)
    model = ["-m", "mixed.yaml", *STILL]
    told = "7 of 9 parameters and statistics begin with its numbers; begin anew, of another shape or type there (2): head/weight (F16[192, 7] there, " \
           "[192, 10] here), head/bias (F32[7] there, [10] here)"
    found = left(*model, "--init", "theirs.st:torch", told=told)
    left(*model, "--init", "theirs.st", told="give theirs.st:torch, with which 7 do, if PyTorch wrote it")
    check("a convolution", near(found["first.conv/weight"][1], theirs["first.conv.weight"][2]), found["first.conv/weight"])
    check("a dense layer is turned", near(found["wide/weight"][1], turned(theirs["wide.weight"][2], 192, 192)))
    for ours, name in (("first/norm/gamma", "first.norm.weight"), ("first/norm/beta", "first.norm.bias"), ("wide/bias", "wide.bias")):
        check(ours, near(found[ours][1], theirs[name][2]), found[ours])
    # A running mean has taken a tenth of the batch's.
    fresh = left(*model)
    old, new = fresh["first/norm/variance"][1], found["first/norm/variance"][1]
    check("statistics", all(b > 0.9 * x for b, x in zip(new, theirs["first.norm.running_var"][2])) and old != new, (old, new))
    check("on a mesh", left(*model, "--init", "theirs.st:torch", "-n", "2", "--zero", "3") == left(*model, "-n", "2", "--init", "theirs.st:torch"))
    write("map", "# a comment\nfirst.*.weight -> first/*/weight\n\nwide.weight [a, b] -> wide/weight[a,b]  # as it is\n")
    found = left(*model, "--init", "theirs.st:map", told="3 of 9")
    check("all rules apply", "never" not in run("train", *model, "--init", "theirs.st:map").stderr)
    check("a map", near(found["wide/weight"][1], theirs["wide.weight"][2]))
    write("map", "head.* -> -\nfirst.norm.* -> -\nw*e.weight [k, i] -> head/weight [i, k]\n")
    left(*model, "--init", "theirs.st:map", told="of another shape or type there (1): head/weight (F32[192, 192] there")
    # Rules of one's own that never apply are told: of another name, another rank, for nothing here, or behind one that takes all.
    idle = ["wiide.weight -> wide/weight", "wide.weight [a] -> wide/weight [a]", "wide.weight -> wide/wait", "wide.* -> wide/*"]
    write("map", "\n".join(idle[:3] + ["wide.weight [a, b] -> wide/weight [b, a]", "*.bias -> */bias"] + idle[3:] + [""]))
    told = ", ".join(rule.split(" [")[0] + " -> wide/weight" if "[" in rule else rule for rule in idle)
    left(*model, "--init", "theirs.st:map", told="; rules of the map that never apply: " + told + "\n")
    # Several leaves are parts of one tensor; a dimension that does not divide is no part.
    parts = {"two": make("F32", 192, 384), "norms": ("F32", [9], [number(6) for _ in range(9)])}
    write_safetensors("parts.st", parts)
    write("map", "two [a, b 2/2] -> wide/weight [a, b]\n" + "".join(f"norms [n {k}/3] -> {leaf}[n]\n" for k, leaf in
                 ((1, "first/norm/beta"), (2, "first/norm/gamma"), (3, "first.conv/bias"))))
    told = "3 of 9 parameters and statistics begin with its numbers; begin anew, missing there (6): "
    found = left(*model, "--init", "parts.st:map", told=told)
    check("halves of columns", near(found["wide/weight"][1], [x for row in range(192) for x in parts["two"][2][row * 384 + 192:row * 384 + 384]]))
    check("thirds", all(near(found[leaf][1], parts["norms"][2][3 * k:3 * k + 3]) for k, leaf in ((0, "first/norm/beta"), (1, "first/norm/gamma"))))
    write("map", "two [a, b 2/5] -> wide/weight [a, b]\nnorms [n 1/3] -> first/norm/beta [n]\n")
    left(*model, "--init", "parts.st:map", told="of another shape or type there (1): wide/weight (F32[192, 384] there")
    vit = ["-m", "vit:patch=4,layers=1,heads=2,width=4", *STILL]
    old = {f"encoder.layers.encoder_layer_0.mlp.linear_{i}.{leaf}": make("F32", *shape) for i, leaf, shape in
           ((1, "weight", (16, 4)), (1, "bias", (16,)), (2, "weight", (4, 16)), (2, "bias", (4,)))}
    write_safetensors("old.st", old)
    found = left(*vit, "--init", "old.st:torch", told="4 of ")
    check("old names of a transformer", near(found["encoder/layers/encoder_layer_0/mlp/3/weight"][1], turned(old["encoder.layers.encoder_layer_0.mlp.linear_2.weight"][2], 4, 16)))
    # However long a name is, a rule of four stars is tried soon; each star takes as little as a match allows.
    write_safetensors("long.st", {"a" * 20000: make("F32", 7), "wide.x.x.bias.bias": make("F32", 192)})
    write("map", "*a*a*a*b -> head/bias\n*.x*.bias -> */bias\n")
    left(*model, "--init", "long.st:map", told="1 of 9 parameters")


def frozen():
    """weft plan counts what runs: of frozen layers the prediction, and of those above also gradients."""
    def gflop(*words):
        line = run("plan", "-m", "lenet", "--data", "glyphs:train=300,test=10", "-t", "1", "--batch", "240", *words).stdout.splitlines()[3]
        return float(line.split()[-4])

    whole, upper, none = gflop(), gflop("--lr-multiplier", "conv*=0"), gflop("--lr-multiplier", "*=0")
    check("operations of frozen layers", 0 < none < 0.4 * whole and none < upper < 0.6 * whole, (whole, upper, none))


def refusals():
    model = ["train", *LENET]
    for text, words in (("a -> \n", "map:1: 'a ->' is no rule"), ("\n* -> *\nx\n", "map:3: 'x' is no rule"), ("a -> *\n", "map:1: the right side has a *"),
                        ("a [x, y] -> b [x, z]\n", "map:1: the right side has other dimensions"), ("a [x] -> b [x, x]\n", "other dimensions"),
                        ("a [x, y -> b\n", "is no rule"), ("a [x 3/2] -> b [x]", "is no rule"),
                        ("a [x 1/2, y 1/2] -> b [x, y]", "is no rule"), ("a [x] -> b [x 1/2]", "other dimensions"), ("a [x 1/] -> b [x]", "is no rule"), ("* -> fc1/bias", "both 'conv1/weight' and 'conv1/bias' are for 'fc1/bias'"),
                        ("a] -> b\n*********** -> b", "map:2: "), ("# none\n\n", "map: has no rule"), ("", "map: has no rule")):
        write("map", text)
        done = subprocess.run([weft, *model, "--init", "given.st:map"], capture_output=True, text=True)
        check(f"the map {text!r}", done.returncode in (1, 2) and words in done.stderr, done.stderr)
    with open("given.st", "rb") as file:
        raw = file.read()
    nan = {name: ("F32", shape, [*values[:-1], float("nan")]) for name, (shape, values) in read_safetensors("given.st").items()}
    write_safetensors("nan.st", nan)
    write_safetensors("large.st", {"fc1/bias": ("F64", [1024], [1e300] * 1024)})
    write_safetensors("text.st", {"fc1/bias": ("I64", [1024], [1] * 1024)})
    files = {"cut.st": raw[:-5], "short.st": raw[:20], "empty.st": b"", "m.pt": b"PK\3\4" + bytes(40), "m.bin": b"\x80\x02}q\x00.", "zip.st": b"PK\3\4"}
    for name, data in files.items():
        with open(name, "wb") as out:
            out.write(data)
    for name, words in (("cut.st", "cut.st: "), ("short.st", "short.st: "), ("empty.st", "empty.st: is empty"), ("m.pt", "import torch, safetensors.torch as s"),
                        ("m.bin", "s.save_file(torch.load('m.bin', weights_only=True)"), ("zip.st", "pickled objects"), ("nan.st", "a number that is not finite"),
                        ("large.st", "not finite in the type of this run"), ("text.st", "none of its tensors fits"), ("given.st:toch", "there is no map 'toch'"),
                        ("given.st:", "there is no map ''"), ("nowhere", "nowhere: "), ("nowhere:torch", "nowhere: "), ("mixed.yaml", "mixed.yaml: ")):
        done = subprocess.run([weft, *model, "--init", name], capture_output=True, text=True)
        check(f"--init {name}", done.returncode in (1, 2) and words in done.stderr and done.stderr.count("weft: ") == 1, (done.returncode, done.stderr))
    done = subprocess.run([weft, *model, "--init", "given.st", "--metrics", "given.st"], capture_output=True, text=True)
    with open("given.st", "rb") as file:
        check("an input is kept", "is a file of --init given.st, which would be lost" in done.stderr and file.read() == raw, done.stderr)


def ranks():
    """Processes that see other files are refused."""
    if run("inspect", "--list").stdout.find("\n  mpi ") < 0:
        return
    write("other.sh", f"#!/bin/sh\ncd \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" && exec {weft} \"$@\"\n", 0o700)
    for rank in "01":
        os.mkdir(rank)
        write_safetensors(f"{rank}/w.st", {"fc1/bias": ("F32", [1024], [int(rank)] * 1024)})
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", "./other.sh", "train", *LENET, "--engine", "mpi", "--init", "w.st"],
                          capture_output=True, text=True, env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    check("ranks with other weights", done.returncode != 0 and "or other weights of --init" in done.stderr, done.stderr)


sys.exit(main(everywhere, maps, frozen, refusals, ranks, first=first))
