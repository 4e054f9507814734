#!/usr/bin/env python3
"""Served answers against those of weft predict, over HTTP: tests/serve/serve_answers.py PATH/TO/weft

Every built-in model, a model of YAML with batch normalization and one that predicts numbers, in single and double precision, and models
of sequences, with several inputs and outputs, tokens, lengths and an answer for each position, are served by one instance, two instances, two instances on a device with memory and queues of its own, with batches into which larger requests are cut, two processes and each mesh of two ranks, and asked with JSON and with binary tensors. A request of one
row that is alone is answered with the bits of `weft predict --batch 1`, by each of them and with data=2, where a rank has the whole model;
all other answers are the same to 1e-6, predicted numbers in units of their standard deviation. What was found is printed for each way and
model.
"""
import concurrent.futures
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys

from serve_harness import Client, Server, check, main, run, write_npy
from torch_compare import single

FAST = "WEFT_FAST" in os.environ
SIDE, ROWS, COLUMNS, MOST = 17, 9, 5, 1e-6
POSITIONS, WIDTH, TOKENS = 7, 3, 6
SIZES = (3, 5, 7)
BF16 = 2.0 ** 16  # by how many bits f32 is finer
UNITS = {}  # of predicted numbers: their standard deviation in the training data
NETWORK = """layers:
  - {type: conv, filters: 6, kernel: 3, padding: 1}
  - {type: batch_norm}
  - {type: relu}
  - {type: maxpool}
  - {type: dense, units: outputs}
"""
# Models of several outputs: those that the loss reads, and further ones of other shapes, which other layers read, too, or none.
SEVERAL = {"several.yaml": (("head", "map", "inner", "side", "hundreds", "signs", "levels"), """outputs: head, map, inner, side, hundreds, signs, levels
layers:
  - {type: conv, name: map, filters: 3, kernel: 3, padding: 1}
  - {type: batch_norm}
  - {type: relu, name: top}
  - {type: maxpool}
  - {type: dense, name: inner, units: 5}
  - {type: dropout, rate: 0.3}
  - {type: dense, name: head, units: outputs}
  - {type: dense, name: side, from: inner, units: 1}
  - {type: cast, name: hundreds, from: map, dtype: i64}
  - {type: cast, name: signs, from: top, dtype: bool}
  - {type: cast, name: levels, from: inner, dtype: u8}
"""), "price.yaml": (("price", "hidden"), """outputs: hidden, price
loss_from: price
layers:
  - {type: dense, name: hidden, units: 7}
  - {type: tanh}
  - {type: dense, name: price, units: outputs}
"""), "tags.yaml": (("tags", "deep", "mean"), """outputs: tags, deep, mean
layers:
  - {type: embedding, name: words, units: 6}
  - {type: linear, name: deep, units: 5}
  - {type: sequence_mean, name: mean, lengths: lengths}
  - {type: linear, name: tags, from: deep, units: outputs}
""")}
# Kind of data: what they are trained on, what weft predict is given, and the inputs of a request with their datatypes.
KINDS = {
    "pictures": (f"glyphs:size={SIDE},train=40,test=10", "npy:x.npy", {"x": "FP32"}),
    "table": ("csv:table.csv,target=price,test=0.2", "csv:x.csv,target=price,test=1", {"x": "FP64"}),
    "twins": ("npy:a=a.npy,a_lengths=a_lengths.npy,b=b.npy,b_lengths=b_lengths.npy,label=label.npy,test=0",
              "npy:a=a.npy,a_lengths=a_lengths.npy,b=b.npy,b_lengths=b_lengths.npy",
              {"a": "FP32", "a_lengths": "INT32", "b": "FP32", "b_lengths": "INT64"}),
    "series": ("npy:x=a.npy,lengths=a_lengths.npy,label=label.npy,test=0", "npy:x=a.npy,lengths=a_lengths.npy", {"x": "FP32", "lengths": "UINT8"}),
    "tokens": ("npy:x=tokens.npy,label=tags.npy,test=0", "npy:x=tokens.npy", {"x": "INT32"}),
    "tagged": ("npy:x=tokens.npy,lengths=a_lengths.npy,label=tags.npy,test=0", "npy:x=tokens.npy,lengths=a_lengths.npy",
               {"x": "UINT16", "lengths": "INT64"}),
}
FORMS = {"FP32": "f", "FP64": "d", "INT32": "i", "INT64": "q", "UINT8": "B", "UINT16": "H", "BOOL": "?"}
# Name: model, number type, kind of data.
MODELS = {"mlp": ("mlp", "f32", "pictures"), "lenet": ("lenet", "f32", "pictures"), "vgg11": ("vgg11", "f32", "pictures"),
          "inception": ("inception", "f32", "pictures"), "norm": ("norm.yaml", "f32", "pictures"), "norm64": ("norm.yaml", "f64", "pictures"),
          "mlp64": ("mlp", "f64", "pictures"), "numbers": ("mlp", "f32", "table"), "numbers64": ("mlp", "f64", "table"),
          "twin-lstm": ("twin-lstm:units=6", "f32", "twins"), "twin-lstm64": ("twin-lstm:units=6", "f64", "twins"),
          "transformer": ("transformer:layers=1,heads=2,width=8", "f32", "series"), "gpt": ("gpt:layers=1,heads=2,width=8", "f32", "tokens"),
          "tags": ("transformer:layers=1,heads=2,width=8", "f64", "tagged"),
          "several": ("several.yaml", "f32", "pictures"), "several64": ("several.yaml", "f64", "pictures"), "several-numbers": ("price.yaml", "f32", "table"),
          "several-tags": ("tags.yaml", "f32", "tagged"), "lenet16": ("lenet", "bf16", "pictures"), "numbers16": ("mlp", "bf16", "table"),
          "tags16": ("transformer:layers=1,heads=2,width=8", "bf16", "tagged")}
# Name: words of the command, whether a request that is alone gets the bits of one rank, kinds that cannot be served so.
WAYS = {"one instance": ([], True, ()), "batches of 2": (["--instances", "2", "--limit", "2"], True, ()), "--instances 2": (["--instances", "2"], True, ()), "--processes 2": (["--processes", "2"], True, ()),
        "--device distant": (["--device", "distant", "--instances", "2"], False, ()), "--device opencl": (["--device", "opencl", "--instances", "2"], False, ()),
        "data=2": (["--mesh", "data=2"], True, ()), "pipeline=2": (["--mesh", "pipeline=2"], False, ()),
        "tensor=2": (["--mesh", "tensor=2"], False, ()), "domain=2": (["--mesh", "domain=2"], False, ("table", "twins", "series"))}
if subprocess.run([sys.argv[1], "plan", "--model", "mlp", "--data", "glyphs", "--device", "opencl"], capture_output=True, check=False).returncode:
    print("skipped: --device opencl, of which there is none here (Debian: pocl-opencl-icd)")
    del WAYS["--device opencl"]


def price(row):
    return 1e3 + sum(row)


def write_sequences(rng):
    """Arrays of sequences, and for each kind rows that have a list of numbers for each input."""
    arrays = {}

    def add(name, kind, shape, make):
        size = math.prod(shape)
        arrays[name] = [[make() for _ in range(size)] for _ in range(ROWS)]
        arrays[name][-1][-1] = 1.0 if kind == "f4" else {"tokens": TOKENS, "tags": 4, "label": 3, "a_lengths": POSITIONS + 1, "b_lengths": POSITIONS + 1}[name] - 1
        write_npy(f"{name}.npy", kind, (ROWS, *shape), [value for row in arrays[name] for value in row])
    for name in "ab":
        add(name, "f4", (POSITIONS, WIDTH), lambda: single(rng.uniform(-1, 1)))
        add(f"{name}_lengths", "i4", (), lambda: rng.randint(1, POSITIONS))
    add("tokens", "i4", (POSITIONS,), lambda: rng.randrange(TOKENS))
    add("tags", "i4", (POSITIONS,), lambda: rng.randrange(4))
    add("label", "i4", (), lambda: rng.randrange(3))
    files = {"twins": ("a", "a_lengths", "b", "b_lengths"), "series": ("a", "a_lengths"), "tokens": ("tokens",), "tagged": ("tokens", "a_lengths")}
    return {kind: list(zip(*(arrays[name] for name in names))) for kind, names in files.items()}


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


def prepare():
    """Trains the models; rows of each kind, and what weft predict says of these one by one."""
    rng = random.Random(5)
    pictures = [[rng.randrange(256) for _ in range(SIDE * SIDE)] for _ in range(ROWS)]
    table = [[round(rng.uniform(-1, 1) * 10 ** j, 4) for j in range(COLUMNS)] for _ in range(40)]
    write_npy("x.npy", "u1", (ROWS, 1, SIDE, SIDE), sum(pictures, []))
    for name, text in [("norm.yaml", NETWORK), *((name, of[1]) for name, of in SEVERAL.items())]:
        with open(name, "w") as f:
            f.write(text)
    with open("table.csv", "w") as f:
        f.write(",".join(f"f{j}" for j in range(COLUMNS)) + ",price\n")
        f.writelines(",".join(map(str, row + [price(row)])) + "\n" for row in table)
    UNITS.update(dict.fromkeys((name for name, of in MODELS.items() if of[2] == "table"), statistics.pstdev(map(price, table))))
    with open("table.csv") as f, open("x.csv", "w") as few:
        few.writelines(f.readlines()[:ROWS + 1])
    rows = {"pictures": [(row,) for row in pictures], "table": [(row,) for row in table[:ROWS]], **write_sequences(rng)}
    said = {}
    for name, (model, dtype, kind) in MODELS.items():
        training, data, _ = KINDS[kind]
        run("train", "-m", model, "--data", training, "--dtype", dtype, "--steps", "3", "--batch", "9", "-c", name, "-q", "-t", "1", timeout=600)
        out = run("predict", "-t", "1", "--batch", "1", "-c", name, "--json", "--data", data, timeout=600).stdout
        said[name], more = [[] for _ in range(ROWS)], [[] for _ in range(ROWS)]
        for line in map(json.loads, out.splitlines()):
            said[name][line["sample"]] += line["predicted"] if kind == "table" else line["probabilities"]
            for output in SEVERAL.get(model, [()])[0][1:] if line.get("position", 0) == 0 else ():
                more[line["sample"]] += map(single if dtype == "f32" else float, flat(line["outputs"][output]))
        said[name] = [first + others for first, others in zip(said[name], more)]
        check(f"{name}: weft predict answers each row", all(said[name]), out)
    return rows, said


def ask(client, name, rows, binary):
    """The answer to rows, one list of numbers for each."""
    request, headers, tensors = {"inputs": []}, {}, b""
    wanted = SEVERAL.get(MODELS[name][0], [()])[0] or ("prediction",)
    for i, (key, datatype) in enumerate(KINDS[MODELS[name][2]][2].items()):
        values = [v for row in rows for v in row[i]]
        one = {"name": key, "shape": [len(rows), len(rows[0][i])], "datatype": datatype}
        request["inputs"].append(one)
        if binary:
            tensor = struct.pack(f"<{len(values)}{FORMS[datatype]}", *values)
            one["parameters"] = {"binary_data_size": len(tensor)}
            tensors += tensor
        else:
            one["data"] = values
    if binary:
        request["parameters"] = {"binary_data_output": True}
    else:  # in any order
        request["inputs"].reverse()
    if binary and len(wanted) > 1:  # by name, in any order, some in the JSON
        request["outputs"] = [{"name": key, "parameters": {"binary_data": False} if k % 3 == 1 else {}} for k, key in enumerate(reversed(wanted))]
    head = json.dumps(request).encode()
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(head))
    code, text, headers = client.ask(f"/v2/models/{name}/infer", head + tensors, headers=headers)
    if not check(f"{name} answers", code == 200, (code, text)):
        return []
    length = int(headers.get("Inference-Header-Content-Length") or len(text))
    outputs, answer = {}, [[] for _ in rows]
    for output in json.loads(text[:length])["outputs"]:
        numbers, size = output.get("data"), output.get("parameters", {}).get("binary_data_size", 0)
        if size:
            numbers = struct.unpack(f"<{math.prod(output['shape'])}{FORMS[output['datatype']]}", text[length:length + size])
        length += size
        outputs[output["name"]] = output["shape"], numbers
        if output["name"] == wanted[0]:
            right = "FP64" if MODELS[name][1] == "f64" or MODELS[name][2] == "table" else "FP32"
            check(f"{name}: the answer is {right}", output["datatype"] == right, output["datatype"])
    check(f"{name}: outputs in their order", list(outputs) == list(wanted if not binary else reversed(wanted)) and length == len(text), list(outputs))
    for key in wanted:
        shape, numbers = outputs[key]
        across = math.prod(shape[1:])
        for i in range(len(rows)):
            answer[i] += map(single if key != wanted[0] and MODELS[name][1] == "f32" else float, numbers[across * i:across * (i + 1)])
    return answer


def shown(name, x):
    """A number as weft predict prints it: probabilities are rounded to single precision."""
    return x if MODELS[name][2] == "table" else single(x)


def apart(name, rows, right):
    """Whether all bits are the same, and the largest difference."""
    if [len(row) for row in rows] != [len(row) for row in right]:
        return False, math.inf
    pairs = [(shown(name, a), shown(name, b)) for row, other in zip(rows, right) for a, b in zip(row, other)]
    return all(a == b for a, b in pairs), max(abs(a - b) for a, b in pairs) / UNITS.get(name, 1) / (BF16 if MODELS[name][1] == "bf16" else 1)


def compare(way, port, name, rows, right):
    """Each row alone, then requests of several rows, then many requests at the same time, which share batches."""
    client, exact = Client(port), WAYS[way][1]
    same, alone, worst = True, 0.0, 0.0
    for i in range(ROWS):
        for binary in (False, True):
            bits, far = apart(name, ask(client, name, rows[i:i + 1], binary), right[i:i + 1])
            same, alone = same and bits, max(alone, far)
            check(f"{name}, {way}: row {i} alone, {'binary' if binary else 'JSON'}", bits if exact else far <= MOST, far)
    for n in SIZES:
        for binary in (False, True):
            worst = max(worst, apart(name, ask(client, name, rows[:n], binary), right[:n])[1])
    client.close()

    def some(i):
        own, k, n = Client(port), i % 5, 1 + i % 4
        far = apart(name, ask(own, name, rows[k:k + n], i % 2 > 0), right[k:k + n])[1]
        own.close()
        return far
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        worst = max(worst, *pool.map(some, range(24)))
    check(f"{name}, {way}: in batches", worst <= MOST, worst)
    print(f"{way:14} {name:10} alone {'the same bits' if same else f'{alone:.1e}':14} in batches {f'{worst:.1e}' if worst else 'the same bits'}", flush=True)


def everything():
    rows, said = prepare()
    for k, (way, (words, _, unfit)) in enumerate(WAYS.items()):
        names = [name for i, (name, (_, _, kind)) in enumerate(MODELS.items()) if kind not in unfit and not (FAST and k and (i + k) % 3)]
        limit = [] if "--limit" in words else ["--limit", "9"]
        with Server(*words, *limit, "--measure", "0", "--times", "none", models=[f"{name}={name}" for name in names], wait=600) as server:
            for name in names:
                compare(way, server.port, name, rows[MODELS[name][2]], said[name])


sys.exit(main(everything))
