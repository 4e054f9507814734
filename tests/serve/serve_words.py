#!/usr/bin/env python3
"""What the server reads and says, word by word: tests/serve/serve_words.py PATH/TO/weft

Requests for inference in every form, each refusal with the words that say what was wrong; metadata, statistics, the
repository and metrics.
"""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time

from serve_harness import INFER, SIDE, SIZE, Page, Server, check, main, one, run, wait_until
from torch_compare import single


def same_in_every_form(s, row):
    """Forms of the same question have the same answer to the last digit, and the digits are those of a float."""
    path = INFER
    code, told = s.told(path, json.dumps(one(row)))
    right = told["outputs"][0]
    check("an answer", code == 200 and right["shape"] == [1, 10] and right["datatype"] == "FP32", told)
    check("its digits are those of floats", all(float(repr(v)) == v and len(repr(v).strip("0.").split("e")[0]) <= 10 for v in right["data"]), right)
    code, text, headers = s.ask(path, json.dumps(one(row, parameters={"binary_data_output": True})))
    end = int(headers.get("Inference-Header-Content-Length"))
    check("binary is what JSON says", [single(v) for v in right["data"]] == list(struct.unpack("<10f", text[end:])), text)
    nested = [[[row[SIDE * i:SIDE * i + SIDE] for i in range(SIDE)]]]
    tail = '"outputs":[{"name":"prediction"}]'
    data = json.dumps(row)
    forms = [json.dumps(one(nested, [1, 1, SIDE, SIDE])), json.dumps(one([row])), json.dumps(one(row), indent=3),
             json.dumps(one([f"@{v}@" for v in row])).replace('"@', " ").replace('@"', ".000e+0"),
             # in any order, with parts that mean something to others
             '{%s,"zebra":[{"a":[null,"\\u00e4"]}],"inputs":[{"data":%s,"datatype":"FP32","x":{},"shape":[1,%d],"name":"\\u0078"}]}' % (tail, data, SIZE),
             '{"inputs":[{"shape":[1,%d],"name":"x","data":%s,"parameters":{"other":1},"datatype":"FP64"}],"parameters":{"own":"a"}}' % (SIZE, data),
             json.dumps(one(row, datatype="UINT8")), json.dumps(one(row, datatype="INT64")), json.dumps(one(row, datatype="UINT16", outputs=[]))]
    for form in forms:
        code, told = s.told(path, form)
        check(f"the form {form[:70]}", code == 200 and told["outputs"][0]["data"] == right["data"], told)
    bits = [v % 2 for v in row]
    raw = {"raw": True}  # else 1 may be a fraction or a pixel
    flags = s.told(path, json.dumps(one([bool(b) for b in bits], datatype="BOOL", parameters=raw)))[1]["outputs"][0]["data"]
    check("true and false", flags == s.told(path, json.dumps(one(bits, parameters=raw)))[1]["outputs"][0]["data"] ==
          s.told(path, json.dumps(one(bits, datatype="BOOL", parameters=raw)))[1]["outputs"][0]["data"])
    for datatype, pack in (("BF16", lambda v: struct.pack("<f", v)[2:]), ("BOOL", lambda v: bytes([int(v)])), ("FP16", lambda v: struct.pack("<e", v))):
        tensor = b"".join(pack(float(b)) for b in bits)
        head = json.dumps({"parameters": raw, "inputs": [{"name": "x", "shape": [1, SIZE], "datatype": datatype, "parameters": {"binary_data_size": len(tensor)}}]}).encode()
        code, told = s.told(path, head + tensor, headers={"Inference-Header-Content-Length": str(len(head))})
        check(f"{datatype} as bytes", code == 200 and told["outputs"][0]["data"] == flags, told)
    code, told = s.told(path, json.dumps(one(row, outputs=[{"name": "prediction", "parameters": {"binary_data": False}}], parameters={"binary_data_output": True})))
    check("an output's own wish comes first", code == 200 and told["outputs"][0]["data"] == right["data"], told)
    for name in ("a\"b\\c\n\u00e4\u20ac\U0001F600", "", "x" * 5000):
        code, told = s.told(path, json.dumps(one(row, id=name)))
        check("an id", told.get("id") == name, told)
    code, told = s.told(path, json.dumps(one(row, outputs=[{"name": "prediction", "parameters": {"classification": 99}}])))
    words = told["outputs"][0]["data"]
    check("all classes", code == 200 and sorted(int(w.split(":")[1]) for w in words) == list(range(10)) and
          [w.split(":")[0] for w in words] == sorted((w.split(":")[0] for w in words), key=float, reverse=True), told)


def refusals(s, row):
    path = INFER
    x = one(row)["inputs"][0]

    def inputs(*change, **more):
        return {"inputs": [{**{k: v for k, v in x.items() if k not in change}, **more}]}
    deep = [[[row[SIDE * i:SIDE * i + SIDE] for i in range(SIDE)]]]
    short = [[deep[0][0][:10] + [[0] * 10]]]
    cases = [
        ("", "it ends after 0 bytes"), ("[1,", "ends after 3 bytes"), ("[1]", "the body must be an object, not an array"), ("{\"inputs\":[}", "byte 12 is '}', where"), ("{\"a\":1,}", "byte 8"), ("\xef\xbb\xbf{}", "value"),
        ("3", "the body must be an object, not a number"), ("{}", "no inputs"), ({"inputs": {}}, "inputs must be an array, not an object"),
        ({"inputs": []}, "inputs is empty"), ({"inputs": [3]}, "an input must be an object"), ({"inputs": [x, x]}, "has 'x' twice"),
        (json.dumps(one(row))[:-1] + ',"inputs":[]}', "the body has inputs twice"), (inputs(name="y"), "no input is named 'y'; it is 'x'"),
        (inputs("name"), "no input is named ''"), (inputs(name=3), "the name of an input must be a string, not a number"),
        (inputs(datatype="FP8"), "datatype is 'FP8', must be FP32"), (inputs("datatype"), "datatype is ''"), (inputs(datatype=32), "datatype must be a string"),
        (inputs(datatype="BYTES"), "datatype is 'BYTES'"), (inputs("shape"), "no shape, such as [1, 121]"), (inputs(shape=[]), "shape is empty"),
        (inputs(shape="1"), "shape must be an array, not a string"), (inputs(shape=[1, 2, 3, 4, 5, 6, 7]), "more than 6 numbers"),
        (inputs(shape=[0, SIZE]), "number 1 of the shape is 0, must be a whole number from 1 on"), (inputs(shape=[1, 121.5]), "number 2 of the shape is 121.5"),
        (inputs(shape=[1, 2 ** 70]), "2^63 - 1 is the most"), (inputs(shape=[2 ** 40, SIZE]), "is the most"), (inputs(shape=[1, 120]), "has shape [1, 120], must be [1, 1, 11, 11]"),
        (inputs(shape=[65, SIZE]), "65 rows of 121 numbers, more than the"), (inputs("data"), "has no data"), (inputs(data=3), "data must be an array, not a number"),
        (inputs(data=row[1:]), "end after number 120, and the shape says 121"), (inputs(data=row + [1]), "more than the 121 numbers"),
        (inputs(data=row[:5] + ["a"] + row[6:]), "number 6 of the data is a string, must be a number"), (inputs(data=row[:5] + [None] + row[6:]), "number 6 of the data is null"),
        (inputs(data=row[:5] + [True] + row[6:]), "is true or false, must be a number"), (inputs(data=row[:7] + [[1]] + row[8:]), "an array stands where number 8"),
        (inputs(data=row[:5] + [1e39] + row[6:]), "number 6 of the data is 1e+39, beyond"), (inputs(data=[300] * SIZE, datatype="UINT8"), "is 300, and UINT8 holds whole numbers from 0 to 255"),
        (inputs(data=[-129] * SIZE, datatype="INT8"), "from -128 to 127"), (inputs(data=[1.5] * SIZE, datatype="INT32"), "is 1.5, and INT32"),
        (inputs(data=[2] * SIZE, datatype="BOOL"), "BOOL holds whole numbers from 0 to 1"), (inputs(datatype="FP16"), "FP16 has no form in JSON"), (inputs(datatype="BF16"), "BF16 has no form"),
        (inputs(shape=[1, 1, SIDE, SIDE], data=short), "end after number 120"), (inputs(shape=[1, 1, SIDE, SIDE], data=[[deep[0][0][:9]]]), "level 3 of the data has only 9 items, and the shape says 11"),
        (inputs(shape=[1, 1, SIDE, SIDE], data=deep + deep), "level 1 of the data has more than 1 items"), (inputs(shape=[1, 1, SIDE, SIDE], data=[[deep[0][0][:10] + [3]]]), "what follows number 110 of the data must be an array"),
        (inputs(parameters=[]), "parameters must be an object"), (inputs(parameters={"binary_data_size": 484}), "it must have one of them"),
        (inputs("data", parameters={"binary_data_size": 484}), "0 bytes follow the JSON"), (inputs("data", parameters={"binary_data_size": 483}), "binary_data_size is 483, and its shape and datatype say 484"),
        (inputs("data", parameters={"binary_data_size": "a"}), "binary_data_size must be a number"), (one(row, id=3), "id must be a string"), (one(row, id="x" * 16385), "id has 16385 bytes, and 16384 are the most"),
        (one(row, parameters={"raw": 1}), "parameter raw must be true or false, not a number"), (one(row, parameters={"timeout": -1}), "microseconds"),
        (one(row, parameters={"priority": 1.5}), "parameter priority is 1.5"), (one(row, outputs=3), "outputs must be an array"), (one(row, outputs=[{}]), "no output is named ''"),
        (one(row, outputs=[{"name": "loss"}]), "no output is named 'loss'"), (one(row, outputs=[{"name": "prediction"}] * 2), "outputs has 'prediction' twice"),
        (one(row, outputs=[{"name": "prediction", "parameters": {"classification": 0}}]), "classification is 0"), (one(row, outputs=[{"name": "prediction", "parameters": {"binary_data": 0}}]), "binary_data must be true or false")]
    for body, words in cases:
        text = body if isinstance(body, str) else json.dumps(body)
        code, told = s.told(path, text.encode("latin-1" if text.startswith("\xef") else "utf-8"))
        check(f"refuses {text[:100]} with '{words}'", code == 400 and words in told["error"], (code, told))
    code, told = s.told(path, json.dumps(inputs("data", parameters={"shared_memory_region": "a"})))
    check("shared memory is not supported", code == 501 and "shared memory" in told["error"], (code, told))
    code, told = s.told(path, json.dumps({"inputs": [x]}) + "four")
    check("what follows", code == 400 and "nothing must stand" in told["error"], told)


def cut(s, row):
    """A request of more rows than a batch is cut into batches, and has one answer."""
    path, rows = INFER, [[(v + i) % 256 for v in row] for i in range(143)]
    each = [s.told(path, json.dumps(one(r)))[1]["outputs"][0]["data"] for r in rows]
    code, told = s.told(path, json.dumps(one(sum(rows, []), [143, SIZE])))
    check("143 rows of batches of 64", code == 200 and told["outputs"][0]["shape"] == [143, 10], told)
    found = told["outputs"][0]["data"]
    check("are answered as one by one", all(abs(found[10 * i + k] - each[i][k]) < 2e-6 for i in range(143) for k in range(10)))
    code, told = s.told(path, json.dumps(one(sum(rows, []), [143, SIZE], outputs=[{"name": "prediction", "parameters": {"classification": 1}}])))
    check("their best classes", code == 200 and [int(w.split(":")[1]) for w in told["outputs"][0]["data"]] == [max(range(10), key=lambda k: e[k]) for e in each], told)
    table = "".join(",".join(map(str, r)) + "\n" for r in rows)
    code, told = s.told("/v2/models/m/predict", table, headers={"Content-Type": "text/csv"})
    check("a table of 143 rows", code == 200 and len(told["predictions"]) == 143, told)
    code, told = s.told(path, json.dumps(one([0] * SIZE * 4097, [4097, SIZE])))
    check("more rows than may wait", code == 400 and "4097 rows, and 4096 are the most of a request" in told["error"], told)
    code, told = s.told(path, json.dumps(one(sum(rows, []), [143, SIZE], parameters={"timeout": 1})))
    check("late as a whole", code == 503 and "error" in told, (code, told))


def late(s, row):
    """The timeout of a request counts from its arrival: one that is over when a large body has been read is not computed."""
    before = s.told("/v2/models/t/stats")[1]["model_stats"][0]["execution_count"]
    text = json.dumps(one(row, parameters={"timeout": 1000})).replace('"data"', " " * (48 << 20) + '"data"')
    code, told = s.told("/v2/models/t/infer", text)
    check("late when its body is read", code == 503 and "its deadline" in told["error"], (code, told))
    check("so it is not computed", s.told("/v2/models/t/stats")[1]["model_stats"][0]["execution_count"] == before)
    code, told = s.told("/v2/models/t/infer", text.replace("1000", str(10 ** 9)))
    check("with more time it is", code == 200, (code, told))


# --- what is said of models ---

def about(s, row):
    for n in (1, 1, 2, 5):
        s.ask("/v2/models/m/infer", json.dumps(one(row * n, [n, SIZE])))
    s.ask("/v2/models/m/infer", "{")

    def counted():  # an answer is on its way before it is counted
        code, told = s.told("/v2/models/m/versions/1/stats")
        inference = told["model_stats"][0]["inference_stats"]
        return inference["success"]["count"] == inference["compute_output"]["count"] and (code, told)
    code, told = wait_until(counted)
    stats, inference = told["model_stats"][0], told["model_stats"][0]["inference_stats"]
    check("statistics", code == 200 and stats["name"] == "m" and stats["version"] == "1" and stats["last_inference"] > 1.7e12, told)
    parts = [inference[k] for k in ("queue", "compute_input", "compute_infer", "compute_output")]
    check("each request has all parts of its time", all(p["count"] == inference["success"]["count"] and p["ns"] > 0 for p in parts), inference)
    check("which are what it took", 0.5 < sum(p["ns"] for p in parts) / inference["success"]["ns"] <= 1.001, inference)
    batches = stats["batch_stats"]
    sizes = [b["batch_size"] for b in batches]
    check("batches by their rows", sizes == sorted(set(sizes)) and {1, 2, 5} <= set(sizes) and
          sum(b["compute_infer"]["count"] for b in batches) == stats["execution_count"] and
          sum(b["compute_infer"]["count"] * b["batch_size"] for b in batches) == stats["inference_count"] and
          all(b[k]["ns"] > 0 for b in batches for k in ("compute_input", "compute_infer", "compute_output")), batches)
    check("of all models", [m["name"] for m in s.told("/v2/models/stats")[1]["model_stats"]] == ["m", "t", "r"])
    check("the server", s.told("/v2")[1]["name"] == "weft" and "statistics" in s.told("/v2")[1]["extensions"])
    check("a model", s.told("/v2/models/r")[1] == {"name": "r", "versions": ["1"], "platform": "weft", "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 2]}],
                                                   "outputs": [{"name": "prediction", "datatype": "FP64", "shape": [-1, 1]}],
                                                   "columns": [{"name": n, "type": "number", "may_be_missing": False} for n in "ab"]}, s.told("/v2/models/r"))
    config = s.told("/v2/models/m/config")[1]
    check("a configuration", config["max_batch_size"] == 64 and config["input"][0]["dims"] == [1, SIDE, SIDE] and config["output"][0]["data_type"] == "TYPE_FP32", config)
    for path, allowed in (("/v2", "GET, HEAD, OPTIONS"), ("/v2/models/m/infer", "POST, OPTIONS"), ("/metrics", "GET, HEAD, OPTIONS"), ("/", "GET, HEAD, OPTIONS")):
        code, text, headers = s.ask(path, method="OPTIONS")
        check(f"OPTIONS {path}", code == 204 and headers.get("Allow") == allowed and text == b"", (code, headers.get("Allow")))
        code, told = s.told(path, method="DELETE")
        check(f"DELETE {path}", code == 405 and "DELETE" in told["error"], told)
    code, text, headers = s.ask("/v2/models/m", method="HEAD")
    check("HEAD", code == 200 and text == b"" and int(headers.get("Content-Length")) > 50)


def repository(s):
    index = "/v2/repository/index"
    names = [e["name"] for e in s.told(index, "")[1]]
    check("the repository", names == ["m", "t", "r"] and s.told(index, "{}")[1] == s.told(index, '{"ready":true}')[1], names)
    code, told = s.told("/v2/repository/models/t/load", '{"parameters":{"config":"{}"}}')
    check("another configuration", code == 501 and "config is not supported" in told["error"], told)
    for body, words in (("{", "no JSON"), ("[]", "must be an object"), ('{"parameters":3}', "parameters must be an object")):
        code, told = s.told("/v2/repository/models/t/load", body)
        check(f"refuses to load with {body}", code == 400 and words in told["error"], told)
    check("refuses an index of", "true or false" in s.told(index, '{"ready":1}')[1]["error"])
    check("loads", s.ask("/v2/repository/models/t/load", '{"parameters":{"own":1}}')[0] == 200)
    check("unloads", s.ask("/v2/repository/models/t/unload", '{"parameters":{"unload_dependents":true}}')[0] == 200)
    told = s.told(index, '{"ready":false}')[1]
    check("what is unloaded is said", [(e["name"], e["state"]) for e in told] == [("m", "READY"), ("t", "UNAVAILABLE"), ("r", "READY")] and "out of service" in told[1]["reason"], told)
    check("what is ready", [(e["name"], e["version"]) for e in s.told(index, '{"ready":true}')[1]] == [("m", "1"), ("r", "1")])
    check("the page says so", ">unloaded<" in s.ask("/")[1].decode() and "2 of 2 models ready" in Page(s.ask("/")[1].decode()).words)
    check("loads again", s.ask("/v2/repository/models/t/load", "")[0] == 200 and s.told("/v2/models/t")[1]["versions"] == ["3"])


# --- metrics ---

def metrics(s):
    text = s.ask("/metrics")[1].decode()
    values = dict(re.findall(r"^(\S+) (\S+)$", text, re.M))
    stats = s.told("/v2/models/m/stats")[1]["model_stats"][0]
    one_model = '{model="m",version="1"}'
    check("what is counted", float(values["nv_inference_count" + one_model]) == stats["inference_count"] and
          float(values["weft_batch_rows_sum" + one_model]) == stats["inference_count"] and
          float(values["weft_batch_rows_count" + one_model]) == stats["execution_count"], values)
    began = [int(v) for v in re.findall(r'weft_batches_total\{model="m",version="1",reason="[a-z_]+"\} (\S+)', text)]
    check("each batch has a reason", len(began) == 4 and sum(began) == stats["execution_count"], began)
    for name in ("weft_latency_seconds", "weft_batch_rows"):
        cells = [float(v) for v in re.findall(name + r'_bucket\{model="m",version="1",le="[^"]*"\} (\S+)', text)]
        check(f"{name} grows", len(cells) > 5 and cells == sorted(cells) and cells[-1] == float(values[name + "_count" + one_model]), cells)
    for name in ("weft_batch_wait_seconds", "weft_batch_limit_rows", "weft_arrival_rate", "weft_latency_predicted_seconds", "weft_queue_rows", "weft_model_ready",
                 "nv_inference_compute_input_duration_us", "nv_inference_compute_output_duration_us"):
        check(f"there is {name}", name + one_model in values)
    check("the process", float(values["process_resident_memory_bytes"]) > 1e6 and float(values["process_open_fds"]) >= 5 and
          abs(float(values["process_start_time_seconds"]) - time.time()) < 600 and float(values["weft_open_connections"]) >= 1, text[-900:])
    check("the build", re.search(r'^weft_build_info\{version="[0-9.]+",compiler="[^"]+"\} 1$', text, re.M), text[-1500:])
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/grafana/weft.json")) as f:
        panels = json.load(f)["panels"]
    shown = {name for p in panels for t in p["targets"] for name in re.findall(r"\b((?:weft|nv|process)_\w+)", t["expr"])}
    check("the dashboard shows what there is", len(shown) > 15 and all(re.search(rf"^{name}(\{{| )", text, re.M) for name in shown),
          [name for name in shown if not re.search(rf"^{name}(\{{| )", text, re.M)])
    types = re.findall(r"^# TYPE (\S+) ", text, re.M)
    check("each type is said once, with help", len(types) == len(set(types)) and types == re.findall(r"^# HELP (\S+) ", text, re.M), types)
    tool = shutil.which("promtool")
    if not tool:
        print("SKIPPED promtool check metrics: promtool is not installed (Debian: prometheus)")
        return
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    # The names that others use are not what the tool would call them.
    ours = [line for line in (done.stdout + done.stderr).splitlines() if line.strip() and not line.startswith("nv_inference_")]
    check("promtool check metrics", not ours and done.returncode in (0, 3), (done.returncode, ours))


def everything():
    rng = random.Random(1)
    row = [rng.randrange(256) for _ in range(SIZE)]
    run("train", "-m", "mlp", "--data", f"glyphs:size={SIDE},train=200,test=40", "-e", "1", "-c", "m", "-q", "-t", "1")
    with open("r.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{a},{b},{3 * a - 2 * b}\n" for a, b in ((rng.random(), rng.random()) for _ in range(300))))
    run("train", "-m", "mlp", "--data", "csv:r.csv,target=y", "-e", "3", "-c", "r", "-q", "-t", "1")
    with Server("--control", models=("m=m", "t=m", "r=r")) as server, server.client() as s:
        same_in_every_form(s, row)
        refusals(s, row)
        cut(s, row)
        late(s, row)
        about(s, row)
        repository(s)
        metrics(s)


sys.exit(main(everything))
