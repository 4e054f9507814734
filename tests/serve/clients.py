#!/usr/bin/env python3
"""A client that nobody here wrote, against the server: tests/serve/clients.py PATH/TO/weft (make clients installs it)

Every call that tritonclient has for the endpoints there are, with JSON and binary tensors, in turn and at once, by threads
and by asyncio. Answers are compared with those of `weft predict`.
"""
import asyncio
import json
import sys

import numpy
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from serve_harness import Server, check, main, run

DATA = "glyphs:size=11,train=300,test=60"


def refused(what, status, call):
    try:
        check(what, False, call())
    except InferenceServerException as e:
        check(what, str(status) in (e.status() or "") and len(e.message()) > 10, (e.status(), e.message()))


def samples():
    """The test part, as `weft predict` sees it before anything is normalised, and what it says of it."""
    told = [json.loads(line) for line in run("predict", "-c", "c", "--json", "--data", "npy:x.npy").stdout.splitlines()]
    return numpy.array([t["probabilities"] for t in told], dtype=numpy.float32)


def near(a, b):
    return a.shape == b.shape and float(numpy.max(numpy.abs(a - b))) < 2e-6


def asked(x, binary):
    wanted = triton.InferInput("x", list(x.shape), "FP32")
    wanted.set_data_from_numpy(x, binary_data=binary)
    return wanted


def infer_all(client, x, right):
    for binary_in in (True, False):
        for binary_out in (True, False):
            how = f"binary in {binary_in}, out {binary_out}"
            out = [triton.InferRequestedOutput("prediction", binary_data=binary_out)]
            answer = client.infer("glyph", [asked(x[:5], binary_in)], outputs=out, request_id="seven")
            check(f"infer, {how}", near(answer.as_numpy("prediction"), right[:5]), answer.get_response())
            check(f"its id, {how}", answer.get_response()["id"] == "seven", answer.get_response())
            for n in (1, 3):
                top = [triton.InferRequestedOutput("prediction", binary_data=binary_out, class_count=n)]
                classes = client.infer("glyph", [asked(x[:2], binary_in)], outputs=top).as_numpy("prediction")
                words = [w.decode() if isinstance(w, bytes) else w for w in classes[0]]
                check(f"classification of {n}, {how}", classes.shape == (2, n)
                      and int(words[0].split(":")[1]) == int(numpy.argmax(right[0])), classes)
    answer = client.infer("glyph", [asked(x[:1], True)], model_version="1", priority=3, timeout=10_000_000)
    check("a version, a priority, a time", near(answer.as_numpy("prediction"), right[:1]))
    waiting = [client.async_infer("glyph", [asked(x[i:i + 3], i % 2 == 0)]) for i in range(40)]
    check("forty at once", all(near(w.get_result().as_numpy("prediction"), right[i:i + 3]) for i, w in enumerate(waiting)))
    refused("a name that is not there", 404, lambda: client.infer("nobody", [asked(x[:1], True)]))
    refused("a shape that does not fit", 400, lambda: client.infer("glyph", [asked(x[:1, :, :3], True)]))


def sequences(client, tokens, lengths, right):
    """Two inputs, of tokens and of lengths, and an answer for each position."""
    about = client.get_model_metadata("tagged")
    check("metadata of two inputs", [(i["name"], i["datatype"], i["shape"]) for i in about["inputs"]] == [("x", "INT32", [-1, 7]), ("lengths", "INT32", [-1])]
          and about["outputs"][0]["shape"] == [-1, 7, 4], about)
    for kind, binary in (("INT32", True), ("INT64", True), ("INT32", False), ("UINT8", True)):
        inputs = []
        for name, values in (("lengths", lengths[:5]), ("x", tokens[:5])):
            array = values.astype({"INT32": numpy.int32, "INT64": numpy.int64, "UINT8": numpy.uint8}[kind])
            inputs.append(triton.InferInput(name, list(array.shape), kind))
            inputs[-1].set_data_from_numpy(array, binary_data=binary)
        answer = client.infer("tagged", inputs).as_numpy("prediction")
        check(f"two inputs, {kind}, binary {binary}", near(answer, right[:5]), answer.shape)
        top = [triton.InferRequestedOutput("prediction", class_count=1)]
        classes = client.infer("tagged", inputs, outputs=top).as_numpy("prediction")
        check("a class for each position", classes.shape == (5, 7, 1) and int(classes[0, 0, 0].split(b":")[1]) == int(numpy.argmax(right[0, 0])), classes)
    refused("a missing input", 400, lambda: client.infer("tagged", inputs[:1]))


def tell_all(client):
    check("live, ready", client.is_server_live() and client.is_server_ready() and client.is_model_ready("glyph"))
    check("a model that is not there is not ready", not client.is_model_ready("nobody"))
    check("server metadata", client.get_server_metadata()["name"] == "weft", client.get_server_metadata())
    about = client.get_model_metadata("glyph")
    check("model metadata", about["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 1, 11, 11]}, about)
    config = client.get_model_config("glyph")
    check("config", config["max_batch_size"] >= 1 and config["input"][0]["data_type"] == "TYPE_FP32", config)
    index = client.get_model_repository_index()
    check("index", [(m["name"], m["state"]) for m in index] == [("glyph", "READY"), ("tagged", "READY")], index)
    stats = client.get_inference_statistics("glyph")["model_stats"][0]
    check("statistics", stats["inference_stats"]["success"]["count"] > 40, stats)
    check("statistics of all", len(client.get_inference_statistics()["model_stats"]) == 2)


def repository(client, x, right):
    client.unload_model("glyph")
    check("unloaded", not client.is_model_ready("glyph"))
    refused("a model that is gone", 503, lambda: client.infer("glyph", [asked(x[:1], True)]))
    client.load_model("glyph")
    check("loaded", client.is_model_ready("glyph"))
    check("and answers", near(client.infer("glyph", [asked(x[:2], True)]).as_numpy("prediction"), right[:2]))
    refused("a model that nobody knows", 404, lambda: client.load_model("nobody"))


async def by_asyncio(url, x, right):
    client = triton_aio.InferenceServerClient(url)
    check("asyncio: ready", await client.is_server_ready())
    answers = await asyncio.gather(*[client.infer("glyph", [asked(x[i:i + 2], i % 2 == 0)]) for i in range(30)])
    check("asyncio: thirty at once", all(near(a.as_numpy("prediction"), right[i:i + 2]) for i, a in enumerate(answers)))
    await client.close()


def everything():
    rng = numpy.random.default_rng(1)
    x = rng.integers(0, 256, (60, 1, 11, 11)).astype(numpy.uint8)
    numpy.save("x.npy", x)
    run("train", "-m", "mlp", "--data", DATA, "-e", "1", "-c", "c", "-q")
    right = samples()
    tokens, lengths = rng.integers(0, 9, (12, 7)).astype(numpy.int32), rng.integers(1, 8, 12).astype(numpy.int32)
    tokens[0, 0], lengths[0] = 8, 7
    for name, array in (("tokens", tokens), ("lengths", lengths), ("tags", rng.integers(0, 4, (12, 7)))):
        array.flat[1] = {"tokens": 8, "lengths": 7, "tags": 3}[name]
        numpy.save(f"{name}.npy", array)
    run("train", "-m", "transformer:layers=1,heads=2,width=8", "--data", "npy:x=tokens.npy,lengths=lengths.npy,label=tags.npy,test=0", "--steps", "3",
        "--batch", "12", "-c", "t", "-q")
    told = map(json.loads, run("predict", "-c", "t", "--json", "--data", "npy:x=tokens.npy,lengths=lengths.npy").stdout.splitlines())
    tags = numpy.array([t["probabilities"] for t in told], dtype=numpy.float32).reshape(12, 7, 4)
    with Server("--control", models=("glyph=c", "tagged=t")) as server:
        url = f"127.0.0.1:{server.port}"
        client = triton.InferenceServerClient(url, concurrency=8)
        values = x.astype(numpy.float32)
        infer_all(client, values, right)
        sequences(client, tokens, lengths, tags)
        tell_all(client)
        asyncio.run(by_asyncio(url, values, right))
        repository(client, values, right)
        client.close()


sys.exit(main(everything))
