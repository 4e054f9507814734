#!/usr/bin/env python3
"""A peer: ONNX Runtime behind an HTTP server in Python, as people write them.

usage: onnx_server.py WEIGHTS.safetensors mlp|vgg11 SHAPE [ROWS]

It makes an ONNX model of weights that `weft export` has written, and answers in the Open Inference Protocol v2, with JSON and with
binary tensors, one request at a time as it comes. With ROWS it serves nothing, and prints the milliseconds of processor time that a
lone row takes on one thread, as a mean of so many.
"""
import asyncio
import json
import signal
import socket
import struct
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

VGG11 = [(64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False), (512, True)]


def read_weights(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        head, data = json.loads(file.read(size)), file.read()
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], numpy.float32).reshape(entry["shape"])
            for name, entry in head.items() if name != "__metadata__" and entry["dtype"] == "F32"}


class Network:
    def __init__(self, weights):
        self.weights, self.nodes, self.value, self.used = weights, [], "x", set()

    def add(self, kind, *names, **attributes):
        self.used.update(names)
        out = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.value, *names], [out], **attributes))
        self.value = out

    def dense(self, *layers):
        self.add("Flatten")
        for i, layer in enumerate(layers):
            self.add("Gemm", f"{layer}/weight", f"{layer}/bias")
            if i + 1 < len(layers):
                self.add("Relu")

    def model(self, shape, outputs):
        self.add("Softmax", axis=1)
        self.nodes[-1].output[0] = "prediction"
        graph = helper.make_graph(self.nodes, "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
                                  [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, ["n", outputs])],
                                  [numpy_helper.from_array(self.weights[name], name) for name in sorted(self.used)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model.SerializeToString()


def build(path, name, shape):
    net = Network(read_weights(path))
    if name == "mlp":
        net.dense("fc1", "fc2", "fc3")
        return net.model(shape, 10)
    extent = shape[-1]
    for i, (_, pooled) in enumerate(VGG11, 1):
        net.add("Conv", f"conv{i}/weight", f"conv{i}/bias", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        net.add("Relu")
        if pooled and extent > 1:
            net.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
            extent //= 2
    net.dense("fc1", "fc2")
    return net.model(shape, 10)


def lone(model, shape, rows):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = numpy.random.rand(1, *shape).astype(numpy.float32)
    for i in range(rows + rows // 4):
        if i == rows // 4:
            begun = time.process_time()
        session.run(None, {"x": x})
    print((time.process_time() - begun) / rows * 1e3)


def main():
    path, name, shape = sys.argv[1], sys.argv[2], [int(extent) for extent in sys.argv[3].split(",")]
    if len(sys.argv) > 4:
        return lone(build(path, name, shape), shape, int(sys.argv[4]))
    from aiohttp import web
    session = onnxruntime.InferenceSession(build(path, name, shape), providers=["CPUExecutionProvider"])

    async def about(request):
        return web.json_response({"name": name, "versions": ["1"], "platform": "onnxruntime",
                                  "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, *shape]}],
                                  "outputs": [{"name": "prediction", "datatype": "FP32", "shape": [-1, 10]}]})

    async def infer(request):
        body, size = await request.read(), request.headers.get("Inference-Header-Content-Length")
        head = json.loads(body[:int(size)] if size else body)
        one = head["inputs"][0]
        x = numpy.frombuffer(body[int(size):], numpy.float32) if size else numpy.array(one["data"], numpy.float32)
        y = session.run(None, {"x": x.reshape(one["shape"])})[0]
        said = {"name": "prediction", "datatype": "FP32", "shape": list(y.shape)}
        answer = {"model_name": name, "model_version": "1", "outputs": [said]}
        if not size:
            said["data"] = y.ravel().tolist()
            return web.json_response(answer)
        said["parameters"] = {"binary_data_size": y.nbytes}
        text = json.dumps(answer).encode()
        return web.Response(body=text + y.tobytes(), content_type="application/octet-stream",
                            headers={"Inference-Header-Content-Length": str(len(text))})

    application = web.Application(client_max_size=1 << 26)
    application.add_routes([web.get(f"/v2/models/{name}", about), web.post(f"/v2/models/{name}/infer", infer)])

    async def run():
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        await web.SockSite(runner, listener).start()
        print(f"listening on {listener.getsockname()[1]}", flush=True)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await runner.cleanup()
    asyncio.run(run())


main()
