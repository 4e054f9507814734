#!/usr/bin/env python3
"""Anchors, aliases and merge keys of YAML: tests/models/yaml_aliases.py PATH/TO/weft

A file with them is the file in which they are written out: the same graph, and runs that go on with the other file. Messages name
the line where a key stands. A file whose aliases stand for too much is refused at once.
"""
import os
import re
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, write

WRITTEN = """name: twice
loss: cross_entropy
layers:
  - {type: conv, name: first, filters: 4, kernel: [3, 5], padding: [1, 2], bias: false, init: he}
  - {type: batch_norm, epsilon: 0.01}
  - {type: relu}
  - {type: conv, name: second, filters: 6, kernel: 3, padding: [1, 2], bias: false, init: he}
  - {type: batch_norm, epsilon: 0.01}
  - {type: relu}
  - {type: conv, name: third, filters: 4, kernel: 1, padding: 0, bias: false, init: he}
  - {type: relu}
  - {type: global_avgpool}
  - {type: dense, units: outputs}
"""
ALIASES = """name: &name twice
loss: cross_entropy
layers:
  - &conv
    type: conv
    name: first
    filters: &few 4
    kernel: [3, 5]
    padding: &pad [1, 2]
    bias: false
    init: he
  - &norm {type: batch_norm, epsilon: 0.01}
  - &active {type: relu}
  - {name: second, <<: *conv, "filters": 6, kernel: 3, padding: *pad}
  - *norm
  - *active
  - {<<: [{name: third, kernel: 1, padding: 0, filters: *few}, *conv]}
  - *active
  - {type: global_avgpool}
  - {type: dense, units: outputs}
"""
SMALL = ["--data", "glyphs:size=8,train=20,test=5", "--batch", "10", "-q", "-t", "1"]


def same():
    write("written.yaml", WRITTEN)
    write("aliases.yaml", ALIASES)
    graphs = [run("inspect", "--graph", "--model", name, *SMALL).stdout for name in ("written.yaml", "aliases.yaml")]
    check("the graph of the file written out", graphs[0] == graphs[1] and "third" in graphs[0], graphs[1])
    for first, second in (("written", "aliases"), ("aliases", "written")):
        run("train", "--model", first + ".yaml", *SMALL, "-c", first)
        run("train", "--model", second + ".yaml", *SMALL, "-c", first, "--resume", "--epochs", "2")
        run("eval", "-c", first, "-q", "-t", "1")
    weights = [run("export", name, "-o", f"{name}.safetensors") and open(f"{name}.safetensors", "rb").read() for name in ("written", "aliases")]
    check("the weights of the file written out", weights[0] == weights[1])


def gone():
    """A run whose file is gone goes on with the copy of its checkpoint, and names the file."""
    write("gone.yaml", WRITTEN)
    run("train", "--model", "gone.yaml", *SMALL, "-c", "gone", "--keep", "1")
    os.remove("gone.yaml")
    for epochs in 2, 3:
        run("train", "-c", "gone", "--resume", "--epochs", str(epochs), "-q")
    shown = run("inspect", "gone").stdout
    check("the name of the file", re.search(r"\bmodel +gone\.yaml", shown) and "/model.yaml" not in shown, shown)
    run("eval", "-c", "gone", "-t", "1")


def run_files():
    write("run.yaml", "model: &model mlp\ndata: 'glyphs:size=8,train=20,test=5'\nthreads: &one 1\nbatch: *one\nepochs: *one\nquiet: true\n")
    run("train", "run.yaml")
    write("quoted.yaml", WRITTEN.replace("twice", "\"\\u00e4 \\\"*few\\\\\" ").replace("loss:", "description: &d 'no <<: *alias'\nloss:"))
    run("inspect", "--model", "quoted.yaml", *SMALL)
    write("quoted.yaml", ALIASES.replace("&name twice", "\"\\u00e4 \\\"*few\\\\\"").replace("loss:", "description: 'no <<: *alias'\nloss:"))
    run("inspect", "--model", "quoted.yaml", *SMALL)


def refused():
    nine = "".join(f"  - &{b} {{<<: [{', '.join(['*' + a] * 9)}]}}\n" for a, b in zip("abcdefghijkl", "bcdefghijklm"))
    deep = "".join(f"  - &{b} {{name: *{a}}}\n" for a, b in zip("abcdefghijklmnopq", "bcdefghijklmnopqr"))
    lists = "".join(f"  - &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij"))
    for text, said in (
            ("layers:\n  - {type: *kind}\n", ":2: *kind has no anchor '&kind' before it"),
            ("layers: &all\n  - {type: relu}\n  - *all\n", ":3: *all stands within what '&all' names, so it would never end"),
            ("layers:\n  - &a {type: relu}\n  - &a {type: tanh}\n  - *a\n", ":3: the anchor '&a' is given twice"),
            ("layers:\n  - &a relu\n  - {*a : 3}\n", ":3: *a is a key; write a name here"),
            ("layers:\n  - &a {type: dense, units: 3}\n  - {<<: *a, units: 4, units: 5}\n", ":3: the key 'units' is given twice"),
            ("layers:\n  - {type: &a relu}\n  - {<<: *a}\n", ":3: '<<' must have a mapping"),
            ("layers:\n  - &a {type: dense,\n      units: outputs}\n\n  - {<<: *a,\n     filtres: 3}\n", ":6: no key is named 'filtres'; did you mean 'filters'?"),
            ("layers:\n  - &a {type: conv,\n      filters: 0}\n  - {<<: *a, type: dense}\n", ":3: option 'filters' is '0'"),
            ("layers:\n  - &a {type: relu}\n  - *a\n  -\n    <<: *a\n    rate: 0.5\n", ":6: a relu layer has no key 'rate'"),
            ("layers:\n  - &a {type: relu}\n  - &b [*a, *a]\n", ":3: item 2 of 'layers' must be a mapping"),
            ("layers:\n  - &a {type: relu}\n" + nine, "aliases stand for more than 4194304 values or bytes"),
            ("layers:\n  - &a [" + ", ".join(["x" * 99] * 99) + "]\n" + lists, "aliases stand for more than 4194304 values or bytes"),
            ("layers:\n  - &a {type: relu}\n" + deep, "is nested deeper than 15, with its aliases")):
        write("bad.yaml", text)
        began = time.monotonic()
        done = run("inspect", "--model", "bad.yaml", *SMALL, code=2 if "'0'" in said or "no key 'rate'" in said else 1)
        check(said, "bad.yaml" + said in done.stderr or (said[0] != ":" and said in done.stderr), done.stderr)
        check("a refusal that takes no time", time.monotonic() - began < 60)


if __name__ == "__main__":
    sys.exit(main(same, gone, run_files, refused))
