#!/usr/bin/env python3
"""The server, from outside: tests/serve/serve.py PATH/TO/weft

Its answers are those of `weft predict`, however they are asked for; whatever else comes is refused with a sentence, and hurts
nobody; models are loaded anew, and the server ends, while others ask.
"""
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from serve_harness import BODY, INFER, SIDE, SIZE, Client, Crowd, Server, check, main, near, one, run, train, weft, whole, wait_until


def answers(port, rows, right):
    c, path = Client(port), INFER
    for n in (1, 2, 3, 7, 16):
        flat = [v for r in rows[:n] for v in r]
        wanted = [p for r in right[:n] for p in r]
        nested = [[[r[SIDE * i:SIDE * i + SIDE] for i in range(SIDE)]] for r in rows[:n]]
        for data, shape in ((flat, [n, 1, SIDE, SIDE]), (nested, [n, 1, SIDE, SIDE]), (flat, [n, SIZE])):
            code, told = c.told(path, json.dumps(one(data, shape, id="a\"b\u00e4")))
            out = told["outputs"][0] if code == 200 else None
            check(f"{n} rows as JSON", code == 200 and out["shape"] == [n, 10] and near(out["data"], wanted), told)
            check("the id", told.get("id") == "a\"b\u00e4", told)
        for datatype, form in (("FP32", "f"), ("FP64", "d"), ("UINT8", "B"), ("INT16", "h"), ("UINT16", "H"), ("INT32", "i"),
                               ("UINT32", "I"), ("INT64", "q"), ("UINT64", "Q"), ("FP16", "e")):
            tensor = struct.pack(f"<{len(flat)}{form}", *flat)
            head = json.dumps({"inputs": [{"name": "x", "shape": [n, SIZE], "datatype": datatype,
                                           "parameters": {"binary_data_size": len(tensor)}}],
                               "parameters": {"binary_data_output": True}}).encode()
            code, text, headers = c.ask(path, head + tensor, headers={"Inference-Header-Content-Length": str(len(head))})
            end = int(headers.get("Inference-Header-Content-Length") or 0)
            said = struct.unpack(f"<{10 * n}f", text[end:]) if code == 200 and end else ()
            check(f"{n} rows of {datatype}", near(said, wanted), text[:200])
    code, told = c.told(path, json.dumps(one(rows[0], [1, SIZE], outputs=[{"name": "prediction", "parameters": {"classification": 2}}])))
    order = sorted(range(10), key=lambda k: -right[0][k])
    check("classification", [int(t.split(":")[1]) for t in told["outputs"][0]["data"]] == order[:2], told)
    def counted():
        return c.told("/v2/models/m/stats")[1]["model_stats"][0]["inference_count"]
    check("what it has counted", wait_until(lambda: counted() == 29 * 13 + 1), counted())  # an answer is on its way before it is counted
    c.close()


def endpoints(server):
    c = Client(server.port)
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready"):
        check(path, c.ask(path)[0] == 200)
    check("metadata", c.told("/v2/models/m")[1]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 1, SIDE, SIDE]}])
    check("metrics", b'nv_inference_request_success{model="m",version="1"}' in c.ask("/metrics")[1])
    other = Client(server.metrics[0])
    text = other.ask("/metrics")[1].decode()
    check("metrics at their own port", other.ask("/v2")[0] == 404 and "weft_latency_seconds_bucket" in text)
    for line in text.splitlines():
        check("a metric", re.match(r'# (HELP|TYPE) |[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+0-9.e]+$', line), line)
    for path, method, code in (("/nothing", "GET", 404), ("/", "POST", 405), ("/v2/models/n", "GET", 404), ("/v2/models/m/versions/2", "GET", 404),
                               ("/v2/models/m/versions/x", "GET", 404), ("/v2/models/m/nothing", "GET", 404), ("/v2", "POST", 405),
                               ("/v2/models/m/infer", "GET", 405), ("/v2/repository/index", "GET", 405), ("/v2/a/b/c/d/e/f/g/h", "GET", 404)):
        got, told = c.told(path, "" if method == "POST" else None, method=method)
        check(f"{method} {path}", got == code and len(told["error"]) > 10, (got, told))
    check("loading is not allowed", c.told("/v2/repository/models/m/load", "")[0] == 403)
    c.close()


def refusals(port, rows):
    c, path = Client(port), "/v2/models/m/infer"
    good = one(rows[0], [1, SIZE])
    bad = ["", "{", "[]", "null", "3", "{}", "\x00", "[" * 5000, '{"inputs":[],"inputs":[]}', json.dumps(good) + "x", '{"inputs":[{}]}',
           one(rows[0], [1, SIZE + 1]), one(rows[0], [0, SIZE]), one(rows[0], [-1, SIZE]), one(rows[0], [1.5, SIZE]), one(rows[0], []),
           one(rows[0], [2 ** 62, SIZE]), one(rows[0], [65, SIZE]), one(rows[0], "1"), one(rows[0][:-1], [1, SIZE]), one(rows[0] + [1], [1, SIZE]),
           one("x", [1, SIZE]), one(["x"] * SIZE, [1, SIZE]), one([None] * SIZE, [1, SIZE]), one(rows[0], [1, SIZE], "BYTES"),
           one(rows[0], [1, SIZE], "FP31"), one(rows[0], [1, SIZE], id=3), one(rows[0], [1, SIZE], parameters=[1]),
           one(rows[0], [1, SIZE], parameters={"raw": 1}), one(rows[0], [1, SIZE], parameters={"timeout": -1}),
           one(rows[0], [1, SIZE], outputs=[{"name": "loss"}]), one(rows[0], [1, SIZE], outputs=[{"name": "prediction", "parameters": {"classification": 0}}]),
           {"inputs": [dict(good["inputs"][0], name="y")]}, {"inputs": good["inputs"] * 2}]
    for body in bad:
        text = body if isinstance(body, str) else json.dumps(body)
        code, told = c.told(path, text)
        check(f"refuses {text[:90]}", code == 400 and len(told["error"]) > 10, (code, told))
    tensor, head = b"\0" * 4 * SIZE, {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "parameters": {"binary_data_size": 4 * SIZE}}]}
    text = json.dumps(head).encode()
    for body, length in ((text + tensor[:-1], len(text)), (text + tensor + b"x", len(text)), (text + tensor, len(text) - 1), (text + tensor, 10 ** 9),
                         (text + tensor, -1), (text + tensor, "x"), (text, len(text))):
        code, told = c.told(path, body, headers={"Inference-Header-Content-Length": str(length)})
        check(f"refuses a length of {length}", code == 400 and len(told["error"]) > 10, (code, told))
    c.close()
    big = Client(port)
    try:
        code = big.ask(path, b" " * (3 << 20))[0]
    except OSError:
        code = 413  # it has hung up on us
    check("a body that is too large", code == 413, code)
    big.close()


def raw(port, data, hang=False):
    """Sends bytes, and what comes back until the other side closes the connection or is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        got = b""
        try:
            s.sendall(data)
            s.settimeout(5)
            while not hang and (part := s.recv(65536)):
                got += part
        except OSError:
            pass
        return got


def cut_everywhere(port, good):
    """Connections that each send a beginning of a request and wait, all at once."""
    open_ones = []
    for cut in range(len(good)):
        s = socket.create_connection(("127.0.0.1", port), timeout=60)
        s.sendall(good[:cut])
        open_ones.append(s)
    time.sleep(0.3)
    for cut, s in enumerate(open_ones):
        s.setblocking(False)
        try:
            got = s.recv(1000)
        except BlockingIOError:
            got = b""
        check(f"cut at byte {cut}", got == b"", got[:100])
        s.close()


def hostile(port, rows):
    body, good, last = BODY.encode(), whole(), whole(more="Connection: close\r\n")
    cut_everywhere(port, good)
    check("and whole", raw(port, last).startswith(b"HTTP/1.1 200"))
    random.seed(4)
    for i in range(60):
        mixed = bytearray(good)
        for _ in range(1 + i % 5):
            mixed[random.randrange(len(mixed))] = random.randrange(256)
        raw(port, bytes(mixed), hang=True)
        raw(port, bytes(random.randrange(256) for _ in range(200)), hang=True)
        raw(port, good, hang=True)
    got = raw(port, b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (1 << 20) + b"\r\nConnection: close\r\n\r\n")
    check("a header of a megabyte", not got.startswith(b"HTTP/1.1 2"), got[:100])
    got = raw(port, good * 4 + last)
    check("five in one go", got.count(b"HTTP/1.1 200") == 5, got[:100])
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 50]), body[i:i + 50]) for i in range(0, len(body), 50))
    got = raw(port, b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    check("in chunks", got.startswith(b"HTTP/1.1 200"), got[:100])


def under_load(rows, right):
    server = Server("--control", "--body", "2", "--instances", "2", "--connections", "1000")
    crowd = Crowd(server.port, rows, right)
    hostile(server.port, rows)
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    for s in idle[::2]:
        s.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Le")
    c = Client(server.port)
    for version in (2, 3):
        check("loaded anew", c.told("/v2/repository/models/m/load", "{}")[0] == 200)
        check("its version", c.told("/v2/models/m")[1]["versions"] == [str(version)])
    os.rename("c", "away")
    check("what cannot be loaded", c.told("/v2/repository/models/m/load", "{}")[0] in (400, 500))
    os.rename("away", "c")
    check("leaves what served before", c.told("/v2/models/m")[1]["versions"] == ["3"])
    check("a model that nobody knows", c.told("/v2/repository/models/n/load", "{}")[0] == 404)
    check("and is asked meanwhile", crowd.counts[200] > 20, crowd.counts)
    with crowd:
        server.end()
        crowd.end()
    for s in idle:
        s.close()


def masked(pid, number, mask="SigBlk"):
    """Whether a signal is in a process's mask: SigBlk, blocked, so that it is waited for; SigIgn, ignored."""
    with open(f"/proc/{pid}/status") as f:
        return any(line.startswith(mask) and int(line.split()[1], 16) >> (number - 1) & 1 for line in f)


def told_to_end():
    """Each of the signals ends a server that loads and one that serves, and a request that waits is answered."""
    os.mkdir("times")
    os.mkfifo("times/m.json")  # is not used, and the server says so
    reader, full = os.pipe()  # but nobody reads it, so loading lasts
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(full, True)
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen([weft, "serve", "m=c", "--port", "0", "--metrics-port", "0", "--times", "times"], stdout=subprocess.PIPE, stderr=full, text=True)
        wait_until(lambda: masked(process.pid, number))
        time.sleep(1)
        process.send_signal(number)
        try:
            out, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        check(f"signal {number} while it loads", process.returncode == 0 and "listening" not in out, (process.returncode, out))
        server, found = Server("--policy", "fixed:wait=3000000,max=50"), []
        client = threading.Thread(target=lambda: found.append(Client(server.port).code(INFER, BODY)))
        client.start()
        wait_until(lambda: server.metric("nv_inference_pending_request_count") == 1)
        server.end(number)
        client.join(60)
        check(f"signal {number} while a request waits", found == [200], found)
    server = subprocess.Popen(["nohup", weft, "serve", "m=c", "--port", "0", "--metrics-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = next(line for line in server.stdout if "listening" in line)
    # A library of MPI may have replaced the ignored signal by a handler of its own while it was loaded.
    check("nohup", masked(server.pid, signal.SIGHUP, "SigIgn") and not masked(server.pid, signal.SIGHUP))
    server.send_signal(signal.SIGHUP)
    check("a server under nohup after SIGHUP", Client(int(re.findall(r":(\d+)", line)[0])).ask("/v2")[0] == 200)
    server.terminate()
    check("and it ends", server.wait(60) == 0)


def bad_starts():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = str(s.getsockname()[1])
        for words, code, told in ((["m=c", "--port", taken], 1, "Address already in use"), (["m=nothing"], 1, "nothing"), ([], 2, "no model is given"),
                                  (["m=c", "m=c"], 2, "two models"), (["m=c", "--limit", "0"], 2, "limit"), (["m=c", "--policy", "greedyy"], 2, "greedy"),
                                  (["m=c", "--host", "nowhere"], 2, "nowhere"), (["a/b=c"], 2, "no name"), (["m=c", "--rate", "3"], 2, "rate"),
                                  (["--simulate", "--service", "1=x"], 2, "ROWS=MS"), (["--simulate", "--arrivals", "x"], 2, "arriv"),
                                  (["m=c", "--share", "m=0"], 2, "above 0"), (["m=c", "--share", "n=2"], 2, "'n', which is not served")):
            errors = run("serve", *words, code=code).stderr
            check(f"weft serve {words}", told in errors, errors)
    out = run("serve", "--simulate", "--rate", "300", "--requests", "2000").stdout
    check("a simulation", all(p in out for p in ("adaptive", "greedy", "none", "fixed")), out)
    simulations()


def simulations():
    """Late requests are simulated, and so are the batch times of a model."""
    def line(policy, *words):
        out = run("serve", "--simulate", *words).stdout
        found = re.search(rf"^{policy} +(.*)$", out, re.M)
        check(f"a line of {policy}", found, out)
        return [float(n) for n in re.findall(r"[0-9.]+", found.group(1))] if found else [0] * 9
    figures = line("none", "--service", "1=1000", "--rate", "10", "--patience", "0.5", "--requests", "1000", "--limit", "1")
    check("late requests", figures[3] <= 1500 and 80 < figures[-1] < 95, figures)
    here = ("m=c", "--times", ".", "-t", "1", "--limit", "4", "--measure", "0.05")
    run("serve", "--simulate", *here, "--requests", "100")
    with open("m.json") as f:
        times = json.load(f)
    times["seconds"] = [1.0] * len(times["rows"])
    with open("m.json", "w") as f:
        json.dump(times, f)
    figures = line("none", *here, "--rate", "0.001", "--requests", "1000")
    check("the times of a model", 1000 <= figures[0] < 1100, figures)
    os.remove("m.json")
    for words, told in ((["m=c", "n=c"], "one model"), (["m=c", "--service", "1=1"], "not both"), (["--processes", "2"], "one process")):
        errors = run("serve", "--simulate", *words, code=2).stderr
        check(f"weft serve --simulate {words}", told in errors, errors)


def everything():
    rows, right = train()
    server = Server("--body", "2")
    endpoints(server)
    answers(server.port, rows, right)
    refusals(server.port, rows)
    server.end(signal.SIGINT)
    under_load(rows, right)
    told_to_end()
    bad_starts()


sys.exit(main(everything))
