"""weft inspect --summary against counts on paper, and against hooks of PyTorch: layer_summary.py PATH/TO/weft

A hook on each module of torchvision's networks counts as torchinfo does: a convolution and a dense layer have a multiplication and an
addition for each weight and position, and an addition for each bias. Where PyTorch is missing, its totals are those recorded here.
"""
import json
import math
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, write

# Parameters, operations of convolutions and dense layers, and their output elements, as the hooks have counted them.
RECORDED = {"vgg:depth=11": (132863336, 15225615336, 7435240), "resnet": (11689512, 3628147688, 2484712)}


def summary(*words, **more):
    return json.loads(run("inspect", "--summary", "--json", *words, **more).stdout)


def conv(i, o, k, height, width, bias=True):
    return i * o * k * k + bias * o, (2 * i * k * k + bias) * o * height * width, o * height * width


def dense(i, o):
    return i * o + o, 2 * i * o + o, o


def lenet():
    """Layers whose figures are formulas."""
    have = summary("--model", "lenet", "--input", "1x28x28", "--classes", "10")
    want = {"conv1": (*conv(1, 32, 5, 24, 24), [32, 24, 24]), "conv2": (*conv(32, 64, 5, 8, 8), [64, 8, 8]),
            "fc1": (*dense(1024, 1024), [1024]), "fc2": (*dense(1024, 10), [10])}
    rows = {row["name"]: row for row in have["layers"]}
    for name, (parameters, flops, elements, shape) in want.items():
        row = rows.get(name, {})
        check(f"lenet {name}", (row.get("parameters"), row.get("flops"), row.get("activation_bytes"), row.get("output")) == (parameters, flops, 4 * elements, shape), row)
    check("order", [row["name"] for row in have["layers"]] == ["conv1", "pool1", "conv2", "pool2", "flatten", "fc1", "relu1", "fc2"], have)
    for key in ("parameters", "flops", "activation_bytes", "frozen"):
        check(f"the sum of {key}", math.isclose(have[key], sum(row[key] for row in have["layers"])), have)
    f64 = summary("--model", "lenet", "--input", "1x28x28", "--classes", "10", "--dtype", "f64")
    check("f64", f64["activation_bytes"] == 2 * have["activation_bytes"] and f64["flops"] == have["flops"], f64)
    frozen = summary("--model", "lenet", "--input", "1x28x28", "--classes", "10", "--freeze", "conv*")
    check("frozen", frozen["frozen"] == want["conv1"][0] + want["conv2"][0] and frozen["parameters"] == have["parameters"], frozen)


def recurrences():
    """The kind and output of a recurrence, whose first node projects its input and which has several outputs."""
    layers = "layers:\n  - {type: KIND, name: first, units: 6}\n  - {type: KIND, name: second, units: 4, last: true}\n  - {type: dense, units: outputs}\n"
    for kind in "gru", "lstm":
        write("two.yaml", layers.replace("KIND", kind))
        rows = {row["name"]: row for row in summary("--model", "two.yaml", "--input", "9x5", "--classes", "3")["layers"]}
        check(kind, [(rows[n]["kind"], rows[n]["output"]) for n in ("first", "second")] == [(kind, [9, 6]), (kind, [4])], rows)


def hooked(name):
    """The same counts of a network of torchvision, by hooks; None: there is no PyTorch."""
    try:
        import torch
        import torchvision
    except ImportError:
        return None
    net, sums = getattr(torchvision.models, name)().eval(), [0, 0]

    def hook(module, _, out):
        weights = sum(p.numel() for p in module.parameters(recurse=False))
        bias = module.bias is not None
        positions = out[0, 0].numel() if out.dim() > 2 else 1
        filters = out.shape[1]
        sums[0] += positions * (2 * (weights - bias * filters) + bias * filters)
        sums[1] += out.numel()

    for module in net.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(hook)
    with torch.no_grad():
        net(torch.zeros(1, 3, 224, 224))
    return sum(p.numel() for p in net.parameters()), sums[0], sums[1]


def torchvision():
    for model, name in (("vgg:depth=11", "vgg11"), ("resnet", "resnet18")):
        if not (want := hooked(name)):
            print(f"{name}: skipped the hooks, since there is no PyTorch; the recorded counts are used")
            want = RECORDED[model]
        check(f"{name}: recorded counts", want == RECORDED[model], want)
        have = summary("--model", model, "--input", "3x224x224")
        products = [row for row in have["layers"] if row["parameters"] and len(row["output"]) in (1, 3) and row["flops"] > 4 * math.prod(row["output"])]
        got = (have["parameters"], sum(row["flops"] for row in products), sum(row["activation_bytes"] for row in products) / 4)
        check(f"{name}: parameters, operations and outputs", got == want, (got, want))


def sources():
    """The same model from data, a YAML file and a checkpoint."""
    words = "--model mlp --data glyphs:size=16,train=60,test=20 --batch 20 -t 1".split()
    have = summary(*words)
    check("data give the shape", have["layers"][-1]["output"] == [10], have)
    run("train", *words, "-q", "--steps", "1", "-c", "kept", "--freeze", "fc1/*")
    kept = summary("kept")
    check("a checkpoint has its layers, and what was frozen", kept["flops"] == have["flops"] and kept["parameters"] == have["parameters"] and kept["frozen"] > 0, kept)
    write("net.yaml", "layers:\n  - {type: dense, units: 8, name: one}\n  - {type: relu}\n  - {type: dense, units: outputs, name: two}\n")
    rows = summary("--model", "net.yaml", "--input", "5", "--classes", "3")["layers"]
    check("a YAML file", [(row["name"], row["parameters"]) for row in rows if row["parameters"]] == [("one", 48), ("two", 27)], rows)
    text = run("inspect", "--summary", "--model", "net.yaml", "--input", "5", "--classes", "3").stdout
    check("a table", text.startswith("layer ") and "75 parameters are trained and 0 frozen" in text, text)
    for model in ("gpt", "char-lstm"):
        write("text.txt", "to be or not to be, that is the question\n" * 40)
        rows = summary("--model", model, "--data", "text:text.txt,context=8", "--batch", "4")
        check(f"{model}: every parameter belongs to a layer", rows["parameters"] > 0 and all(row["kind"] for row in rows["layers"]), rows)


def refused():
    for words, code, said in ((["--summary", "--input", "3xx2", "--model", "lenet"], 2, "is no shape of a sample"),
                              (["--summary", "--input", "0x2"], 2, "is no shape of a sample"),
                              (["--summary", "--graph"], 2, "--summary stands alone"), (["--json"], 2, "--json is an option of --summary"),
                              (["--input", "3x4"], 2, "--input is an option of --summary"), (["--summary", "--input", "2x2", "--model", "lenet"], 2, "lenet"),
                              (["--summary", "nowhere"], 1, "nowhere"), (["--summary", "--input", "3", "--classes", "1", "--model", "mlp"], 2, "class")):
        done = run("inspect", *words, code=code)
        check(said, said in done.stderr and not done.stdout, done.stderr)


sys.exit(main(lenet, recurrences, torchvision, sources, refused))
