#!/usr/bin/env python3
"""weft load, against a server whose behaviour is known: tests/load/load.py PATH/TO/weft

What is counted must be what the server has done; of latencies only lower bounds are checked, so that a slow machine does not
matter.
"""
import json
import math
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../serve"))
import serve_harness
from serve_harness import CERTIFICATE, KEY, OTHER_CERTIFICATE, check, main, weft, write

OUTPUTS = [{"name": "prediction", "datatype": "FP32", "shape": [1, 2], "data": [0.25, 0.75]}]
GOOD = json.dumps({"model_name": "m", "outputs": OUTPUTS}).encode()
SIZES = {"BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "FP16": 2, "BF16": 2,
         "FP32": 4, "FP64": 8}


def answer(body=GOOD, status=200, headers=()):
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def metadata(*inputs):
    return {"name": "m", "versions": ["1"], "platform": "test", "inputs": list(inputs) or [tensor("x", "FP32", [-1, 5])], "outputs": []}


def tensor(name, datatype, shape):
    return {"name": name, "datatype": datatype, "shape": shape}


class FakeServer:
    """Stands for a server of models: behave(n, server) is what becomes of the infer request n, of which 0 is the one that is asked before the load: bytes that are
    sent, in one piece or in a list of several, or None: the connection is closed."""

    def __init__(self, behave=lambda n, server: answer(), model=None, host="127.0.0.1", delay=0.0, index=None, lingers=False, secure=None):
        self.behave, self.index, self.lingers, self.secure = behave, index, lingers, secure
        self.model = answer(json.dumps(metadata()).encode()) if model is None else model if isinstance(model, bytes) \
            else answer(json.dumps(model).encode())
        self.asked, self.bodies, self.heads, self.all = 0, [], [], []
        self.lock, self.gate, self.over = threading.Lock(), threading.Lock(), False
        self.listener = socket.create_server((host, 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self.port}/v2/models/m"
        threading.Thread(target=self.accept, args=(delay,), daemon=True).start()

    def accept(self, delay):
        time.sleep(delay)
        while not self.over:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.all.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            if self.secure:
                connection = self.secure.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while self.one(connection, stream):
                    pass
        except (OSError, ValueError):
            pass

    def one(self, connection, stream):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return False
            head += line
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = stream.read(int(length.group(1)) if length else 0)
        said = self.reply(head, body)
        if said is None:
            return False
        pieces = said if isinstance(said, list) else [said]
        for piece in pieces:
            if piece is None:
                return False
            connection.sendall(piece)
        closes = any(re.search(rb"onnection:[^\r]*close", piece) for piece in pieces)
        return self.lingers or not closes

    def reply(self, head, body):
        if head.startswith(b"GET /v2/models/m HTTP/1.1\r\n"):
            self.heads.append(head)
            return self.model
        if head.startswith(b"POST /v2/repository/index "):
            return self.index or answer(b'{"error":"no such endpoint"}', 404)
        if not re.match(rb"POST (/v2/models/m/infer|/any/path) ", head):
            return answer(b'{"error":"there is no model of that name"}', 404)
        with self.lock:
            n, self.asked = self.asked, self.asked + 1
            self.bodies.append(body)
            self.heads.append(head)
        return self.behave(n, self)

    def kill(self):
        self.over = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for connection in self.all:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def run(*words, code=0):
    return serve_harness.run("load", *words, code=code)


def load(server, *words, code=0):
    """The rows of figures, of which in each sent = ok + failed."""
    done = run(server if isinstance(server, str) else server.url, "--json", *words, code=code)
    try:
        rows = json.loads(done.stdout)["rates"]
    except ValueError:
        check("JSON is printed", False, done)
        return [{"sent": 0, "ok": 0, "failed": 0, "failures": [], "latency": {"min": 0, "p50": 0}, "histogram": []}]
    for row in rows:
        check("sent is ok and failed", row["sent"] == row["ok"] + row["failed"], row)
        check("failures are those of all kinds", row["failed"] == sum(f["count"] for f in row["failures"]), row["failures"])
        check("each answer has a latency", row["ok"] == row["latency"]["count"] == sum(n for _, n in row["histogram"]), row)
    return rows


def failures(row):
    return {f["status"] or f["what"]: f["count"] for f in row["failures"]}


def at_least(row, seconds):
    """Requests that took so long at the least: a cell's lower end."""
    return sum(n for cell, n in row["histogram"] if 1e-6 * 1.01 ** cell >= seconds)


FAST = ("--rate", 2000, "--requests")


def counts():
    server = FakeServer()
    row = load(server, *FAST, 300)[0]
    check("all are answered", (row["sent"], row["ok"]) == (300, 300), row)
    check("the server has seen as many, and one before", server.asked == 301, server.asked)
    rows = load(server, "--rate", "500..1500:500", "-n", 40)
    check("a range of rates", [r["rate"] for r in rows] == [500, 1000, 1500] and all(r["ok"] == 40 for r in rows), rows)
    rows = load(server, "--closed", "1,3", "-n", 50)
    check("closed loops", [(r["closed"], r["ok"]) for r in rows] == [(1, 50), (3, 50)], rows)
    check("a closed loop of one has one connection", rows[0]["opened"] == 1, rows[0]["opened"])
    ways = [json.loads(run(server.url, "--json", "-n", 5, *words).stdout)["arrivals"] for words in (["--closed", 1], [], ["-a", "steady"])]
    check("arrivals are those of rates", ways == [None, "poisson", "steady"], ways)
    row = load(server, "--rate", 200, "-s", 0.5, "-a", "steady")[0]
    check("steady requests", 98 <= row["sent"] <= 101 and row["seconds"] >= 0.5, row)
    rows = load(server, "--rate", "100@0.3,400@0.2", "-a", "steady", "--no-pause")
    check("steps", [round(r["sent"], -1) for r in rows] == [30, 80], [r["sent"] for r in rows])
    sent = [load(server, "--rate", 400, "-s", 0.3, "--seed", seed)[0]["sent"] for seed in (1, 1, 2, 3)]
    check("a seed is a load", sent[0] == sent[1] and len(set(sent)) > 1, sent)
    before = server.asked
    row = load(server, "--rate", 200, "-a", "steady", "-n", 20, "--warmup", 0.2)[0]
    check("warming up does not count", row["sent"] == 20 and server.asked - before >= 21 + 15, server.asked - before)
    before = server.asked
    row = load(server, "--rate", 200, "-a", "steady", "-n", 10, "--warmup", 0.3)[0]
    check("--requests does not cut the warm-up short", row["sent"] == 10 and server.asked - before >= 1 + 10 + 55, server.asked - before)
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "t.csv")
        load(server, "--rate", 200, "-a", "steady", "-n", 10, "--warmup", 0.1, "-c", 1, "--trace-out", table)
        with open(table) as lines:
            due = [float(line.split(",")[0]) for line in lines.read().splitlines()[1:]]
        check("a trace begins after the warm-up", len(due) == 10 and all(0 <= at < 0.06 for at in due), due)
        row = load(server, "-a", f"trace:{table}", "-n", 20)[0]
        check("a trace that was written can be repeated", row["ok"] == 20, row)
    row = load(server, *FAST, 60, "-a", "bursts:size=20")[0]
    check("bursts", row["ok"] == 60 and row["opened"] >= 2, row)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as times:
        times.write("".join(f"{t / 100:.2f}\n" for t in range(30)))
        times.flush()
        row = load(server, "-a", f"trace:{times.name}", "-s", 0.5)[0]
        check("a trace as it was recorded", 48 <= row["sent"] <= 51 and row["rate"] == 0, row)
        row = load(server, "-a", f"trace:{times.name}", "-s", 0.5, "--rate", 200)[0]
        check("a trace at another rate", 97 <= row["sent"] <= 101, row)
    a, b = FakeServer(), FakeServer()
    row = load(a.url, b.url, *FAST, 100)[0]
    check("targets in turn", (row["ok"], a.asked, b.asked) == (100, 51, 51), (a.asked, b.asked))
    server = FakeServer()
    row = load(f"http://localhost:{server.port}/v2/models/m", *FAST, 20)[0]
    check("the address of a name that answers", row["ok"] == 20, row)
    row = load(f"localhost:{server.port}/v2/models/m/infer/", *FAST, 20)[0]
    check("a target without http://", row["ok"] == 20, row)


def requests():
    server = FakeServer()
    load(server, *FAST, 40, "--rows", 3, "--token", "abc.def")
    for head, body in zip(server.heads[1:], server.bodies):
        size = int(re.search(rb"Inference-Header-Content-Length: (\d+)\r\n", head).group(1))
        said = json.loads(body[:size])
        check("inputs are described", said["inputs"] == [{"name": "x", "shape": [3, 5], "datatype": "FP32", "parameters": {"binary_data_size": 60}}]
              and said["parameters"] == {"binary_data_output": True}, said)
        check("inputs are numbers", len(body) == size + 60 and all(0 <= v < 1 for v in struct.unpack("<15f", body[size:])), body)
        check("the token goes along", b"\r\nAuthorization: Bearer abc.def\r\n" in head and b"\r\nHost: 127.0.0.1:" in head, head)
    for mode, text, words in ((0o600, "\n abc.def\r\n", None), (0o640, "abc.def\n", "other users can access"), (0o600, "a b\n", "a token cannot have"),
                              (0o600, " \n", "has no token"), (0o600, "abc", "exclude each other")):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(text)
            f.flush()
            os.chmod(f.name, mode)
            if words:
                refused(words, server.url, "--token-file", f.name, *(["--token", "a"] if "exclude" in words else []), code=2)
            else:
                other = FakeServer()
                load(other, *FAST, 5, "--token-file", f.name)
                check("the token of a file goes along", all(b"\r\nAuthorization: Bearer abc.def\r\n" in head for head in other.heads), other.heads[:1])
    check("requests differ", len(set(server.bodies)) == 16, len(set(server.bodies)))
    again = FakeServer()
    load(again, *FAST, 40, "--rows", 3)
    check("a seed is the same requests", set(again.bodies) == set(server.bodies))
    server = FakeServer(model=metadata(*[tensor(name, name, [-1, 3]) for name in SIZES], tensor("fixed", "INT8", [2, 2])))
    load(server, *FAST, 5, "--rows", 2)
    for head, body in zip(server.heads[1:], server.bodies):
        size = int(re.search(rb"Content-Length: (\d+)\r\n", head).group(1))
        check("all types", len(body) == size + 6 * sum(SIZES.values()) + 4, len(body) - size)
    server = FakeServer(model=metadata(tensor("a", "FP64", [-1, 2]), tensor("b", "INT64", [-1]), tensor("c", "BOOL", [1, 2])))
    load(server, *FAST, 5, "--json-tensors")
    for head, body in zip(server.heads[1:], server.bodies):
        data = [one["data"] for one in json.loads(body)["inputs"]]
        check("JSON tensors", [len(d) for d in data] == [2, 1, 2] and b"Inference-Header" not in head and
              b"Content-Type: application/json\r\n" in head and all(isinstance(v, bool) for v in data[2]), body)
    with tempfile.TemporaryDirectory() as folder:
        plain, binary, picture = (os.path.join(folder, name) for name in ("a.json", "b.bin", "c.png"))
        contents = {plain: b'{"inputs":[]}\n', binary: b'{"inputs":[1]}\x01\x02\x03', picture: b"\x89PNG\x00"}
        for path, content in contents.items():
            with open(path, "wb") as out:
                out.write(content)
            server = FakeServer()
            load(server, *FAST, 5, "--body", path)
            check("a body as it is", set(server.bodies) == {content} and server.asked == 6, server.bodies[:1])
            length = re.search(rb"Inference-Header-Content-Length: (\d+)\r\n", server.heads[0])
            check("JSON before binary", (length and length.group(1)) == (b"14" if path == binary else None), server.heads[0])
        row = load(f"http://127.0.0.1:{server.port}/any/path", *FAST, 5, "--body", picture)[0]
        check("a body to any path", row["ok"] == 5, row)


def slow():
    def wait(n, server):
        time.sleep(0.03)
        return answer()
    row = load(FakeServer(wait), "--rate", 200, "-n", 40)[0]
    check("the load waits for a server that is slow", row["busy"] < 0.9, row["busy"])
    check("latency is that of the server at least", row["latency"]["min"] >= 0.03 and row["latency"]["p50"] >= 0.0297, row["latency"])

    def stall(n, server):
        with server.gate:
            if n == 50:
                time.sleep(0.3)
        return answer()
    for connections in (1, 200):
        row = load(FakeServer(stall), "--rate", 200, "-a", "steady", "-n", 150, "-c", connections)[0]
        # Due while it stood still, 60 of them, and late by what was left of that.
        check("a stall is seen by all that were due", row["ok"] == 150 and at_least(row, 0.1) >= 35 and at_least(row, 0.2) >= 16,
              (connections, at_least(row, 0.1), at_least(row, 0.2)))
    check("those that wait for a connection are told", load(FakeServer(wait), *FAST, 30, "-c", 1)[0]["waited"] >= 20)
    row = load(FakeServer(delay=0.7), *FAST, 10)[0]
    check("a server that starts slowly is waited for", row["ok"] == 10, row)


def errors():
    def refuse(n, server):
        if n and n % 3 == 0:
            return answer(b'{"error":"the queue is \\"full\\""}', 503, ["Retry-After: 1"])
        return answer(b"bad \x01 words", 400) if n and n % 5 == 0 else answer()
    for way in (FAST, ("--closed", 4, "-n")):
        row = load(FakeServer(refuse), *way, 150)[0]
        check("errors are counted by status", failures(row) == {503: 50, 400: 20} and row["ok"] == 80, row["failures"])
        examples = {f["status"]: f["example"] for f in row["failures"]}
        check("examples are what the server said", examples == {503: 'the queue is "full"', 400: "bad \\x01 words"}, examples)
    told = run(FakeServer(refuse).url, *FAST, 30).stdout
    check("errors are told", re.search(r'at 2000: 10 requests failed: status 503, such as: the queue is "full"', told), told)
    done = run(FakeServer(lambda n, s: answer(b'{"error":"away"}', 503)).url, *FAST, 20, code=1)
    check("nothing but errors", "none of 20 requests was answered with status 200; the first: away" in done.stderr, done.stderr)

    silent = FakeServer(lambda n, s: time.sleep(1) if n and n % 5 == 0 else answer())
    begun = time.monotonic()
    row = load(silent, *FAST, 50, "--timeout", 0.5)[0]
    check("what is not answered in time has failed", failures(row) == {"timeout": 10} and time.monotonic() - begun < 30, row["failures"])
    row = load(FakeServer(lambda n, s: answer() if n == 0 else time.sleep(1)), *FAST, 10, "--timeout", 0.4, "-c", 2, "-a", "bursts:size=10",
               code=1)[0]
    check("so has what found no connection", failures(row) == {"timeout": 2, "no connection": 8}, row["failures"])

    def die(n, server):
        if n == 60:
            server.kill()
            return None
        return answer()
    for way in (("--rate", 400, "-a", "steady", "-n"), ("--closed", 3, "-n")):
        row = load(FakeServer(die), *way, 120, "--timeout", 5)[0]
        kinds = set(failures(row))
        check("a server that dies", row["sent"] == 120 and 40 <= row["ok"] <= 90 and "connect" in kinds and kinds <= {"connect", "closed"},
              (row["ok"], row["failures"]))


def chunked(body, size, ends=b"0\r\n\r\n"):
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x;a=b\r\n%s\r\n" % (len(p), p) for p in pieces) + ends


BLANKS = ("", " ", "\t", " \t", "\t ")


def answers():
    big = GOOD + b" " * 200000
    good = {
        "chunked": lambda n, s: chunked(GOOD, 7),
        "chunked with a trailer": lambda n, s: chunked(GOOD, 1000, b"0\r\nX-Sum: 1\r\n\r\n"),
        "large chunks": lambda n, s: chunked(big, 65537),
        "large": lambda n, s: answer(big),
        "byte by byte": lambda n, s: [bytes([b]) for b in answer(GOOD)],
        "chunked, byte by byte": lambda n, s: [bytes([b]) for b in chunked(GOOD, 11)],
        "continue": lambda n, s: b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
        "closing": lambda n, s: answer(headers=["Connection: close"]),
        "until it closes": lambda n, s: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + GOOD,
        # Blanks and tabs around a value are no part of it, none, one or several.
        **{f"with {before!r} before values and {after!r} after": lambda n, s, b=before, a=after: answer(
            GOOD, 200, [f"X-Any:{b}x{a}", f"connection:{b}x{a},{b}close{a},{b}y"]).replace(
                f"Content-Length: {len(GOOD)}".encode(), f"Content-Length:{b}{len(GOOD)}{a}".encode())
           for before in BLANKS for after in BLANKS},
        **{f"chunked, with {before!r} before values and {after!r} after": lambda n, s, b=before, a=after: chunked(GOOD, 9).replace(
            b": chunked", f":{b}chunked{a}".encode()) for before in BLANKS for after in BLANKS},
        "of HTTP/1.0": lambda n, s: answer(headers=["connection: close"]).replace(b"HTTP/1.1", b"HTTP/1.0"),
    }
    for name, behave in good.items():
        row = load(FakeServer(behave), *FAST, 20)[0]
        check(f"answers that are {name}", row["ok"] == 20, row["failures"])
        if name.startswith(("closing", "with", "of HTTP")):  # whether the other side closes it at once or not
            row = load(FakeServer(behave, lingers=True), "--closed", 1, "-n", 20)[0]
            check(f"what closes is opened again, {name}", (row["opened"], row["again"]) == (20, 0), row)

    def close_quietly(n, server):
        return None if n % 7 == 3 else answer()
    row = load(FakeServer(close_quietly), "--closed", 1, "-n", 50)[0]
    check("what a server closes between answers is sent again", row["ok"] == 50 and row["again"] == 8 and row["opened"] == 9, row)

    # Closed after the answer, without notice, while nothing is asked of the only connection there is.
    close_idle = FakeServer(lambda n, s: [answer(), None])
    row = load(close_idle, "--rate", 25, "-a", "steady", "-n", 8, "-c", 1, "--timeout", 5)[0]
    check("a connection that is closed while it is idle can be opened again", (row["ok"], row["sent"]) == (8, 8), row)

    wrong = {
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n" + GOOD: ("closed", "within its answer"),
        b"HTTP/1.1 200 OK\r\nContent-Le": ("timeout", "in time"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + GOOD: ("protocol", "bytes follow its end"),
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + GOOD: ("protocol", "no number of bytes"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + GOOD: ("protocol", "two values"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": ("protocol", "chunked, too"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n": ("protocol", "not chunked"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n": ("protocol", "its size"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n": ("protocol", "longer than it says"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n": ("protocol", "too large"),
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n": ("protocol", "no name and colon"),
        b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n": ("protocol", "space in it"),
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n": ("protocol", "CR LF"),
        b"HTTP/1.1 2x0 OK\r\n\r\n": ("protocol", "status is no number"),
        b"HTTP/2 200\r\n\r\n": ("protocol", "status line"),
        b"hello, this is no HTTP at all\r\n": ("protocol", "status line"),
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 9000 + b"\r\n\r\n": ("protocol", "8 KiB"),
        b"HTTP/1.1 200 OK\r\n" + b"X: abcdefgh\r\n" * 9000 + b"\r\n": ("protocol", "64 KiB"),
    }
    for said, (what, words) in wrong.items():
        row = load(FakeServer(lambda n, s: said if n % 2 else answer(headers=["Connection: close"])),
                   "--closed", 1, "-n", 8, "--timeout", 0.25 if what == "timeout" else 10)[0]
        check("an answer that is wrong", failures(row) == {what: 4} and row["ok"] == 4 and words in row["failures"][0]["example"],
              (said[:90], row["ok"], row["failures"]))


def ticks(picture, which):
    """Labels below the frame number `which` of a picture, with how far along it their lines are, from 0 to 1."""
    elements = [(e.get("class"), e.text, {k: float(v) for k, v in e.items() if re.fullmatch(r"-?[0-9.]+", v)})
                for e in xml.etree.ElementTree.parse(picture).iter()]
    f = sorted((e for kind, _, e in elements if kind == "frame"), key=lambda f: f["x"])[which]
    near = lambda x: f["x"] - 1 <= x <= f["x"] + f["width"] + 1
    lines = sorted((e["x1"] - f["x"]) / f["width"] for kind, _, e in elements if kind == "grid" and e["x1"] == e["x2"] and near(e["x1"]))
    labels = sorted((e["x"], text) for kind, text, e in elements if kind == "tick" and e["y"] > f["y"] + f["height"] and near(e["x"]))
    check("each line has its label", len(lines) == len(labels), (lines, labels))
    return {text: line for (_, text), line in zip(labels, lines)}


def pictures():
    """A percentile stands where as many nines of all requests took no longer; a rate in proportion."""
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "a.svg")
        for closed, count, shares in (("1,2", 9, (50, 90)), ("1,2", 120, (50, 90, 99)), ("4", 1200, (50, 90, 99, 99.9))):
            rows = load(FakeServer(), "--closed", closed, "-n", count, "--svg", picture)
            nines = lambda share: -math.log10(1 - share / 100)
            tail = max(math.log10(max(row["ok"] for row in rows)), 1)
            wanted = {f"{share} %": (nines(share) - nines(50)) / (tail - nines(50)) for share in shares}
            found = ticks(picture, -1)
            check(f"percentiles of {count} requests", set(found) == set(wanted) and all(abs(found[k] - wanted[k]) < 0.01 for k in wanted),
                  (found, wanted))
        rates = ticks(picture, 0) if load(FakeServer(), "--closed", "1,3,5", "-n", 20, "--svg", picture) else {}
        check("requests under way", all(abs(at - float(text) / 5) < 0.01 for text, at in rates.items()) and len(rates) >= 3, rates)


def output():
    server = FakeServer(lambda n, s: answer(b'{"error":"<&>"}', 503) if n % 4 == 1 else answer())
    with tempfile.TemporaryDirectory() as folder:
        picture, table = os.path.join(folder, "a.svg"), os.path.join(folder, "t.csv")
        for rates in ("500", "500,1000,2000"):
            rows = load(server, "--rate", rates, "-n", 40, "--svg", picture, "--trace-out", table)
            texts = [e.text for e in xml.etree.ElementTree.parse(picture).iter() if e.tag.endswith("text")]
            check("a picture", "90 %" in texts, texts)
            check("its legend", ("p99.9" in texts) == ("," in rates) and all(r in texts for r in rates.split(",")), texts)
            with open(table) as lines:
                fields = [line.split(",") for line in lines.read().splitlines()]
            check("a line for each request", len(fields) == 1 + sum(r["sent"] for r in rows) and
                  fields[0] == ["due", "latency", "status", "failure", "rate", "closed"], fields[:2])
            for row in rows:
                own = [f for f in fields[1:] if float(f[4]) == row["rate"]]
                check("with its status", sum(f[2] == "200" for f in own) == row["ok"] and sum(f[2] == "503" for f in own) == row["failed"])
    done = run(server.url, "--rate", "300,600", "-n", 30)
    check("a table", re.search(r"^requests/s +sent +ok +failed +answered/s +mean +p50 +p95 +p99 +p99\.9 +max$", done.stdout.replace("  requests/s", "requests/s"), re.M)
          and len(re.findall(r"^ +[36]00 +30 +\d+ +\d+ ", done.stdout, re.M)) == 2, done.stdout)
    stopped = subprocess.Popen([weft, "load", server.url, "--rate", "100", "-s", "60", "--json"], stdout=subprocess.PIPE, text=True)
    asked = server.asked
    while server.asked < asked + 10:
        time.sleep(0.02)
    stopped.send_signal(signal.SIGINT)
    row = json.loads(stopped.communicate(timeout=30)[0])["rates"][0]
    check("Ctrl-C shows what was measured", stopped.returncode == 130 and row["sent"] >= 9 and row["sent"] == row["ok"] + row["failed"], row)


class NoTls:
    """What answers a handshake in plain HTTP."""

    def wrap_socket(self, connection, server_side):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        raise OSError


def tls():
    """Over TLS all is as without it; a certificate that is not trusted, or is of another host, is refused."""
    with tempfile.TemporaryDirectory() as folder:
        ours, others = write(f"{folder}/cert.pem", CERTIFICATE), write(f"{folder}/other.pem", OTHER_CERTIFICATE)
        text = write(f"{folder}/text.pem", "nothing of this kind\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ours, write(f"{folder}/key.pem", KEY))
        large = answer(json.dumps({"model_name": "m", "outputs": [{**OUTPUTS[0], "data": [0.25] * 20000, "shape": [1, 20000]}]}).encode())
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.minimum_version = context.maximum_version = version
            server = FakeServer(secure=context)
            row = load(server, "--ca", ours, *FAST, 200)[0]
            check(f"{version.name}: all are answered", (row["sent"], row["ok"], server.asked) == (200, 200, 201), row)
            row = load(FakeServer(lambda n, s: large, secure=context), "--insecure", "--closed", 3, "-n", 30)[0]
            check(f"{version.name}: answers of several records, over few connections", row["ok"] == 30 and row["opened"] == 3, row)
            server = FakeServer(model=metadata(tensor("x", "FP32", [-1, 300000])), secure=context)
            row = load(server, "--ca", ours, "--closed", 2, "-n", 6)[0]
            check(f"{version.name}: large requests", row["ok"] == 6 and all(len(b) > 1200000 for b in server.bodies), row)
            row = load(FakeServer(lambda n, s: answer(headers=["Connection: close"]), secure=context), "--ca", ours, *FAST, 20)[0]
            check(f"{version.name}: a connection for each", row["ok"] == 20 and row["opened"] == 20, row)
            row = load(FakeServer(lambda n, s: None if n % 2 else answer(), secure=context), "--ca", ours, "--closed", 1, "-n", 20)[0]
            check(f"{version.name}: connections that break", row["sent"] == 20 and row["ok"] > 0 and set(failures(row)) <= {"closed"}, row)
        url = server.url
        refused("give --ca FILE", url, code=1)
        refused("give --ca FILE", url, "--ca", others, code=1)
        refused("text.pem: has no certificate", url, "--ca", text, code=1)
        refused("none.pem: cannot open", url, "--ca", f"{folder}/none.pem", code=1)
        away = FakeServer(host="127.0.0.2", secure=context)
        refused("name in the certificate does not match", f"https://127.0.0.2:{away.port}/v2/models/m", "--ca", ours, code=1)
        refused("no TLS connection: ", FakeServer(secure=NoTls()).url, "--ca", ours, code=1)


def refused(words, *arguments, code):
    done = run(*arguments, code=code)
    check(f"a sentence with '{words}'", done.stderr.startswith("weft: ") and words in done.stderr and "\n" not in done.stderr.strip().replace(
        "\nTry 'weft help load'.", ""), done.stderr)


def bad_input():
    server = FakeServer()
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed_port = free.getsockname()[1]
    url = server.url
    refused("no target is given", code=2)
    refused("cannot be reached: Connection refused", f"http://127.0.0.1:{closed_port}/v2/models/m", code=1)
    refused("--ca has no effect", url, "--ca", "x", code=2)
    refused("--insecure has no effect", url, "--insecure", code=2)
    refused("exclude each other", url, "--insecure", "--ca", "x", code=2)
    refused("is no URL of http", "ftp://a/v2/models/m", code=2)
    refused("port must be", "http://localhost:0/v2/models/m", code=2)
    refused("has no host", "http:///v2/models/m", code=2)
    refused("names a user", "http://me@localhost:1/", code=2)
    refused("names no model", f"http://127.0.0.1:{server.port}/v3", code=2)
    refused("cannot be found", "http://no-such-host.invalid/", code=1)
    refused("there is no model of that name", url + "x", code=1)
    refused("does not list its models (404); give one, as in http://127.0.0.1", f"http://127.0.0.1:{server.port}", code=1)
    two = FakeServer(index=answer(b'[{"name":"a"},{"name":"b"}]'))
    refused("several models (a, b)", f"http://127.0.0.1:{two.port}/v2", code=2)
    one = FakeServer(index=answer(b'[{"name":"m","version":"1"},{"name":"m","version":"2"}]'))
    check("the only model there is", load(f"http://127.0.0.1:{one.port}", *FAST, 5)[0]["ok"] == 5)
    for model, words in ((metadata(tensor("x", "BYTES", [-1])), "inputs of BYTES, as 'x' is, cannot be made"),
                         (metadata(tensor("x", "FP32", [-1, 3, -1])), "has a dimension of unknown size besides its rows"),
                         (metadata(tensor("x", "FP32", [-1, 1 << 40])), "more than 2^28"),
                         ({"name": "m"}, "lists no inputs"), ([1], "no JSON object"), (metadata({"name": "x"}), "no name or datatype"),
                         (metadata(tensor("x", "FP32", 3)), "no shape"), (metadata(tensor("x", "FP32", ["a"])), "no whole numbers"),
                         (answer(b"<html>"), "no JSON object"), (b"nonsense\r\n", "not HTTP"),
                         (answer(b'{"error":"who are you"}', 401), "who are you; give --token-file")):
        refused(words, FakeServer(model=model).url, code=1)
    refused("is always 1, not the 4 of --rows", FakeServer(model=metadata(tensor("x", "FP32", [1, 5]))).url, "--rows", 4, code=2)
    refused("it has no outputs", FakeServer(lambda n, s: answer(b"{}")).url, code=1)
    refused("does not begin with a JSON object", FakeServer(lambda n, s: answer(b"ok")).url, code=1)
    refused("a request is answered with 400: a bad shape", FakeServer(lambda n, s: answer(b'{"error":"a bad shape"}', 400)).url, code=1)
    refused("does not answer in time", FakeServer(delay=5).url, "--timeout", 0.3, code=1)
    for words, options in (("is no rate", ["--rate", "a"]), ("is no rate", ["--rate", "1..3"]), ("is no rate", ["--rate", "3..1:1"]),
                           ("is no rate", ["--rate", "5@0"]), ("above 0", ["--rate", "0"]), ("above 0", ["--rate", "-3"]),
                           ("more than 1024", ["--rate", "1..5000:1"]), ("whole number", ["--closed", "1.5"]), ("no number of requests", ["--closed", "x"]),
                           ("exclude each other", ["--closed", "1", "--rate", "1"]), ("for rates", ["--closed", "1", "--no-pause"]),
                           ("--arrivals is for rates", ["--closed", "1", "-a", "steady"]),
                           ("--rows is for random inputs", ["--body", "/dev/null", "--rows", "2"]),
                           ("--json-tensors is for random inputs", ["--body", "/dev/null", "--json-tensors"]),
                           ("need as many --connections", ["--closed", "9", "-c", "8"]), ("poisson", ["-a", "poison"]),
                           ("a token cannot have", ["--token", "a b"])):
        refused(words, url, *options, code=2)
    refused("/nowhere/x", url, "--body", "/nowhere/x", code=1)
    refused("/nowhere/x", url, "--svg", "/nowhere/x", code=1)
    refused("/nowhere/x", url, "--trace-out", "/nowhere/x", code=1)
    check("nothing was sent to a server of which no load was made", server.asked <= 2, server.asked)


sys.exit(main(counts, requests, slow, errors, answers, pictures, output, tls, bad_input))
