"""Comparison of models that weft and PyTorch train: files that both read, runs of weft, tolerances, stored figures."""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

from npy import write_npy  # noqa: F401 (of the tests)


def single(value):
    """A number as float32 has it: features are float32 in weft."""
    return struct.unpack("f", struct.pack("f", value))[0]


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, about in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        data = raw[begin:end]
        if about["dtype"] == "BF16":
            data = b"".join(bytes(2) + data[i:i + 2] for i in range(0, len(data), 2))
        code, width = {"F64": ("d", 8), "F32": ("f", 4), "BF16": ("f", 4), "I64": ("q", 8)}[about["dtype"]]
        found[name] = (about["shape"], list(struct.unpack(f"<{len(data) // width}{code}", data)))
    return found


FORMS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q"}


def write_safetensors(path, tensors):
    """tensors: name to (type, shape, numbers); BF16 takes the upper half of an F32."""
    header, data = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        if dtype == "BF16":
            raw = b"".join(struct.pack("<f", x)[2:] for x in numbers)
        else:
            raw = struct.pack(f"<{len(numbers)}{FORMS[dtype]}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def train(weft, case, device, dtype, *options):
    """Trains, and returns the losses of the steps and the weights after the last one."""
    command = [weft, "train", "-q", "--model", case.model, "--data", case.data, "--normalize", "none", "--dtype", dtype, "--device",
               device, "-t", "1", "--batch", str(case.samples), "--metrics", "metrics", "--checkpoint", "run", *case.options, *options]
    subprocess.run(["rm", "-rf", "run", "metrics", "weights"], check=True)
    for words in (command, [weft, "export", "run", "-o", "weights"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{case.name}: {' '.join(words)}: {done.stderr or done.stdout}")
    with open("metrics") as lines:
        losses = [row["loss"] for row in map(json.loads, lines) if row["event"] == "step"]
    return losses, read_safetensors("weights")


def prediction(weft):
    """The loss of a prediction with the last weights; `eval` prints nine digits of it."""
    done = subprocess.run([weft, "eval", "run", "--split", "train", "--json", "-t", "1"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["loss"]


def of_weft(weft, case, device, dtype):
    """The initial weights, and the figures of a case. Gradients come from one step of SGD with a learning rate that is a power of two."""
    rate = 1 if dtype == "f64" else 1024
    start = train(weft, case, device, dtype, "-o", "sgd", "--lr", "1e-30", "--steps", "1")[1]
    moved = train(weft, case, device, dtype, "-o", "sgd", "--lr", str(rate), "--steps", "1")[1]
    gradients = {key: [(a - b) / rate for a, b in zip(start[key][1], moved[key][1])] for key in start}
    losses, last = train(weft, case, device, dtype, *case.optimizer, "--steps", str(case.steps))
    more = {"prediction": prediction(weft)} if getattr(case, "evaluates", False) else {}
    return start, {**more, "losses": losses, "gradients": gradients, "weights": {key: values for key, (_, values) in last.items()}}


def digest(figures):
    """The losses and, for each tensor, its norm and three of its elements."""
    def short(values):
        some = [math.sqrt(math.fsum(x * x for x in values))] + [values[k * 7919 % len(values)] for k in range(3)]
        return [float(f"{x:.13g}") for x in some]
    return {**{what: figures[what] for what in ("losses", "prediction", "shapes") if what in figures},
            **{what: {key: short(values) for key, values in figures[what].items()} for what in ("gradients", "weights")}}


def differ(ours, theirs):
    if len(ours) != len(theirs):
        return math.inf
    apart = [abs(a - b) / max(1, abs(b)) for a, b in zip(ours, theirs)]
    return max(apart, default=0) if all(map(math.isfinite, apart)) else math.inf


def compare(case, device, tolerance, ours, theirs):
    worst = {"loss": differ(ours["losses"], theirs["losses"])}
    for what in ("gradients", "weights"):
        keys = set(ours[what]) | set(theirs[what])
        worst[what] = max(differ(ours[what].get(key, []), theirs[what].get(key, [0])) for key in keys)
    if "prediction" in theirs:
        worst["prediction"] = differ([ours["prediction"]], [theirs["prediction"]]) / 100
    far = [what for what, value in worst.items() if not value <= tolerance]
    print(f"{case.name:18} {device:9} " + "  ".join(f"{what} {value:.1e}" for what, value in worst.items()) + ("  FAILED" if far else ""), flush=True)
    return not far


def main(cases, runs, extra=lambda parser: None):
    """cases: from the parsed options to an iterable of cases, each made in the working folder. A case has name, samples, steps, what is
    given to weft (model, data, options, optimizer), and of_torch(start), its figures by PyTorch. runs: (device, dtype, tolerance)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--golden", help="figures that --write has saved, which take PyTorch's place")
    parser.add_argument("--write", metavar="FILE", help="save PyTorch's figures")
    extra(parser)
    given = parser.parse_args()
    weft = os.path.abspath(given.weft)
    golden = json.load(open(given.golden)) if given.golden else None
    target = given.write and os.path.abspath(given.write)
    saved, failed = {}, []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for case in cases(given):
            theirs = golden and golden[case.name]
            for device, dtype, tolerance in runs:
                start, ours = of_weft(weft, case, device, dtype)
                case.figures = ours  # from which a case may find the order of its samples
                if hasattr(case, "check_export") and not case.check_export(weft):
                    failed.append(case.name)
                if theirs is None:
                    theirs = digest(case.of_torch(start)) if target else case.of_torch(start)
                if golden or target:
                    ours = digest(ours)
                if not compare(case, f"{device} {dtype}", tolerance * getattr(case, "slack", 1), ours, theirs):
                    failed.append(case.name)
            saved[case.name] = theirs
        os.chdir("/")
    if target:
        with open(target, "w") as out:
            out.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in saved.items()) + "}\n")
    print("FAILED, not as PyTorch: " + ", ".join(dict.fromkeys(failed)) if failed else f"all {len(saved)} as PyTorch")
    sys.exit(1 if failed else 0)
