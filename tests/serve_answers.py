#!/usr/bin/env python3
"""Served answers against those of weft predict, over HTTP: tests/serve_answers.py PATH/TO/weft

Every built-in model, a model of YAML with batch normalization and one that predicts numbers, in single and double precision, are served
by one instance, two instances, two processes and each mesh of two ranks, and asked with JSON and with binary tensors. A request of one
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
import tempfile

from served import Client, Server, check, end, npy

weft = os.path.abspath(sys.argv[1])
FAST = "WEFT_FAST" in os.environ
SIDE, ROWS, COLUMNS, MOST = 17, 9, 5, 1e-6
SIZES = (3, 5, 7)
UNITS = {}  # of predicted numbers: their standard deviation in the training data
NETWORK = """layers:
  - {type: conv, filters: 6, kernel: 3, padding: 1}
  - {type: batch_norm}
  - {type: relu}
  - {type: maxpool}
  - {type: dense, units: outputs}
"""
# Name: model, number type, whether it is one of pictures.
MODELS = {"mlp": ("mlp", "f32", True), "lenet": ("lenet", "f32", True), "vgg11": ("vgg11", "f32", True), "inception": ("inception", "f32", True),
          "norm": ("norm.yaml", "f32", True), "norm64": ("norm.yaml", "f64", True), "mlp64": ("mlp", "f64", True),
          "numbers": ("mlp", "f32", False), "numbers64": ("mlp", "f64", False)}
# Name: words of the command, whether a request that is alone gets the bits of one rank, whether tables can be served so.
WAYS = {"one instance": ([], True, True), "--instances 2": (["--instances", "2"], True, True), "--processes 2": (["--processes", "2"], True, True),
        "data=2": (["--mesh", "data=2"], True, True), "pipeline=2": (["--mesh", "pipeline=2"], False, True),
        "tensor=2": (["--mesh", "tensor=2"], False, True), "domain=2": (["--mesh", "domain=2"], False, False)}


def run(*words):
    return subprocess.run([weft, *words], check=True, timeout=600, capture_output=True, text=True).stdout


def price(row):
    return 1e3 + sum(row)


def prepare():
    """Trains the models; rows of each, and what weft predict says of these one by one."""
    rng = random.Random(5)
    pictures = [[rng.randrange(256) for _ in range(SIDE * SIDE)] for _ in range(ROWS)]
    table = [[round(rng.uniform(-1, 1) * 10 ** j, 4) for j in range(COLUMNS)] for _ in range(40)]
    npy("x.npy", pictures, SIDE)
    with open("norm.yaml", "w") as f:
        f.write(NETWORK)
    with open("table.csv", "w") as f:
        f.write(",".join(f"f{j}" for j in range(COLUMNS)) + ",price\n")
        f.writelines(",".join(map(str, row + [price(row)])) + "\n" for row in table)
    UNITS.update(dict.fromkeys((name for name, of in MODELS.items() if not of[2]), statistics.pstdev(map(price, table))))
    with open("table.csv") as f, open("x.csv", "w") as few:
        few.writelines(f.readlines()[:ROWS + 1])
    said = {}
    for name, (model, dtype, images) in MODELS.items():
        data = f"glyphs:size={SIDE},train=40,test=10" if images else "csv:table.csv,target=price,test=0.2"
        run("train", "-m", model, "--data", data, "--dtype", dtype, "--steps", "3", "--batch", "10", "-c", name, "-q", "-t", "1")
        out = run("predict", "-t", "1", "--batch", "1", "-c", name, "--json", "--data", "npy:x.npy" if images else "csv:x.csv,target=price,test=1")
        lines = [json.loads(line) for line in out.splitlines()]
        said[name] = [line["probabilities"] if images else line["predicted"] for line in lines]
        check(f"{name}: weft predict answers each row", len(said[name]) == ROWS, out)
    return pictures, table[:ROWS], said


def ask(client, name, rows, binary):
    """The answer to rows, one list of numbers for each; pictures are sent as FP32, tables as FP64."""
    flat, form = [v for row in rows for v in row], "f" if MODELS[name][2] else "d"
    one = {"name": "x", "shape": [len(rows), len(rows[0])], "datatype": "FP32" if form == "f" else "FP64"}
    request, headers, tensor = {"inputs": [one]}, {}, b""
    if binary:
        tensor = struct.pack(f"<{len(flat)}{form}", *flat)
        one["parameters"], request["parameters"] = {"binary_data_size": len(tensor)}, {"binary_data_output": True}
    else:
        one["data"] = flat
    head = json.dumps(request).encode()
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(head))
    code, text, reply = client.ask(f"/v2/models/{name}/infer", head + tensor, headers=headers)
    if not check(f"{name} answers", code == 200, (code, text)):
        return []
    length = int(reply.getheader("Inference-Header-Content-Length") or len(text))
    output = json.loads(text[:length])["outputs"][0]
    numbers = output.get("data")
    if binary:
        numbers = struct.unpack(f"<{math.prod(output['shape'])}{'f' if output['datatype'] == 'FP32' else 'd'}", text[length:])
    across = output["shape"][1]
    return [numbers[across * i:across * (i + 1)] for i in range(output["shape"][0])]


def shown(name, x):
    """A number as weft predict prints it: probabilities are rounded to single precision."""
    return struct.unpack("<f", struct.pack("<f", x))[0] if MODELS[name][2] else x


def apart(name, rows, right):
    """Whether all bits are the same, and the largest difference."""
    if [len(row) for row in rows] != [len(row) for row in right]:
        return False, math.inf
    pairs = [(shown(name, a), shown(name, b)) for row, other in zip(rows, right) for a, b in zip(row, other)]
    return all(a == b for a, b in pairs), max(abs(a - b) for a, b in pairs) / UNITS.get(name, 1)


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


def main():
    pictures, table, said = prepare()
    for k, (way, (words, _, tables)) in enumerate(WAYS.items()):
        names = [name for i, (name, (_, _, images)) in enumerate(MODELS.items()) if (images or tables) and not (FAST and k and (i + k) % 3)]
        server = Server(weft, "-t", "1", *words, "--limit", "9", "--measure", "0", "--times", "none", *(f"{name}={name}" for name in names), wait=600)
        for name in names:
            compare(way, server.port, name, pictures if MODELS[name][2] else table, said[name])
        server.end()
    return end()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    sys.exit(main())
