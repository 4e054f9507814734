"""What the tests of a server of models have in common: a small model, servers, those who ask them, and the page that they read."""
import collections
import html.parser
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write  # noqa: F401 (some are for the tests)
from npy import write_npy
from waiting import wait_until  # noqa: F401

with open(weft, "rb") as f:
    program = f.read()
SANITIZED = any(word in program for word in (b"__asan_init", b"__tsan_init"))  # then freed memory stays resident
SIDE, ROWS = 11, 40
SIZE = SIDE * SIDE
INFER = "/v2/models/m/infer"
# Of localhost, signed by itself, until 2119; and a key of something else.
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBZjCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjExOTAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABN34sQvt4tJnz3yf
iAsHA/72s1BP2nPpFdsvPWbGxHchdvhX6G28CBBPduDOlr47fRMExFIu8ZdadFCf
UuMWY86jTjBMMA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0
hwR/AAABMB0GA1UdDgQWBBSx/JIJMMqnjlyIn/2+XUjJmqeSbjAKBggqhkjOPQQD
AgNHADBEAiAzjOOLxWP4ld2aldj87H+1sTdesg+L6Uq7i4Q5/Bwt3AIgCRbg68l3
X++LF0yA47qpMDNxwVMDc0oUZLpN6aMOIDc=
-----END CERTIFICATE-----
"""
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgLSpqHzBi+eByYPcx
f4gLTfI6TMO3P13RlU8JsrtcvCmhRANCAATd+LEL7eLSZ898n4gLBwP+9rNQT9pz
6RXbLz1mxsR3IXb4V+htvAgQT3bgzpa+O30TBMRSLvGXWnRQn1LjFmPO
-----END PRIVATE KEY-----
"""
OTHER_KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgT4KizkHhv81oasPf
OVWN9F3sofsUD2Ymu6I3S81kdkWhRANCAASeXOOFr0grtFbph835g4zIHWeqL6eg
SkUkdyCR/ng5Kz2M+HPnko72OAfNkI2W77vBFLO8+fSHXDQQr4KGYtaw
-----END PRIVATE KEY-----
"""
# The certificate of OTHER_KEY.
OTHER_CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBZzCCAQ2gAwIBAgIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjExOTAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJ5c44WvSCu0VumH
zfmDjMgdZ6ovp6BKRSR3IJH+eDkrPYz4c+eSjvY4B82QjZbvu8EUs7z59IdcNBCv
goZi1rCjTjBMMA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0
hwR/AAABMB0GA1UdDgQWBBS+xxKMMGOB2LNBwxsA5IMaGPRFrzAKBggqhkjOPQQD
AgNIADBFAiBlYewi/PQDtmwVAZNX5KDFHHfxIBPshqROx/eiYpBn4AIhAPsOb+/B
2uqpoiSRXbGc89nKfGFTNB5mve/1Mlj/1c7r
-----END CERTIFICATE-----
"""


def train():
    """Leaves a checkpoint, c; rows to ask of it, and what weft predict answers."""
    rows = [[random.Random(i).randrange(256) for _ in range(SIZE)] for i in range(ROWS)]
    write_npy("x.npy", "u1", (ROWS, 1, SIDE, SIDE), sum(rows, []))
    run("train", "-m", "mlp", "--data", f"glyphs:size={SIDE},train=200,test=40", "-e", 1, "-c", "c", "-q", "-t", 1, timeout=300)
    said = run("predict", "-t", 1, "-c", "c", "--json", "--data", "npy:x.npy", timeout=300).stdout
    return rows, [json.loads(line)["probabilities"] for line in said.splitlines()]


def one(data, shape=None, datatype="FP32", **more):
    return {"inputs": [{"name": "x", "shape": [1, SIZE] if shape is None else shape, "datatype": datatype, "data": data}], **more}


BODY = json.dumps(one([9] * SIZE))


def whole(path=INFER, body=BODY, more=""):
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def near(a, b):
    return isinstance(a, (list, tuple)) and len(a) == len(b) and all(abs(x - y) < 2e-6 for x, y in zip(a, b))


def is_right(reply, right):
    """Whether a body is the answer to the rows whose probabilities these are."""
    try:
        return near(json.loads(reply)["outputs"][0]["data"], [p for r in right for p in r])
    except (ValueError, KeyError, IndexError, TypeError):
        return False


class Asker:
    """What can be asked, by ask(path, body=None, method=None, headers={}, **fields): the code, the body and the headers of the reply."""

    def told(self, path, body=None, **more):
        """Code and what the JSON of the reply says."""
        code, text, _ = self.ask(path, body, **more)
        return code, json.loads(text) if text else None

    def code(self, *words, **more):
        return self.ask(*words, **more)[0]


class Client(Asker):
    """A connection that is kept from request to request; a field of the head may be written as Content_Type=..."""

    def __init__(self, port, timeout=60, secure=None, host="127.0.0.1", **more):
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self.port, self.connection = port, kind(host, port, timeout=timeout, **({"context": secure} if secure else {}), **more)
        self.close = self.connection.close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, path="/v2", body=None, method=None, headers={}, **fields):
        self.connection.request(method or ("GET" if body is None else "POST"), path, body, {**headers, **{k.replace("_", "-"): v for k, v in fields.items()}})
        reply = self.connection.getresponse()
        return reply.status, reply.read(), reply.headers


class Output:
    """The lines of a stream, read by a thread, so that whoever writes it never waits for us, but behind one that has the pattern `pause`,
    until `hears` is set."""

    def __init__(self, stream, pause=None):
        self.lines, self.news, self.over, self.pause, self.hears = [], threading.Condition(), False, pause, threading.Event()
        self.thread = threading.Thread(target=self.read, args=(stream,), daemon=True)
        self.thread.start()

    def __str__(self):
        return "".join(self.lines)

    __repr__ = __str__

    def read(self, stream):
        for line in stream:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()
            if self.pause and re.search(self.pause, line):
                self.hears.wait()
        with self.news:
            self.over = True
            self.news.notify_all()

    def wait_for(self, pattern, seconds=60, start=0):
        """The first line from `start` on that has the pattern; None: there was none in that time, or before the end."""
        def find():
            return next((line for line in self.lines[start:] if re.search(pattern, line)), None)
        with self.news:
            self.news.wait_for(lambda: self.over or find(), seconds)
            return find()


class Server(Asker):
    """One that serves models, and ends with the block. `ports`: its own and that of metrics; `secure`: the TLS of who asks it; `deaf`:
    nobody reads what it prints until it ends. Requests that it is asked itself have connections of their own."""

    def __init__(self, *words, models=("m=c",), ports=(0, 0), secure=None, deaf=False, wait=120):
        words = ["-t", 1, *models, *words, "--port", ports[0], "--metrics-port", ports[1]]
        self.process = subprocess.Popen([weft, "serve", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.out, self.errors = Output(self.process.stdout, "listening on" if deaf else None), Output(self.process.stderr)
        self.secure, self.ending = secure, False
        self.listens = self.out.wait_for("listening on", wait) or ""
        found = re.findall(r"(https?)://[^/ ]*:(\d+)", self.listens)
        check("the server listens", found, (words, self.out, self.errors))
        self.scheme = found[0][0] if found else None
        self.port, *self.metrics = [int(port) for _, port in found] or [0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(None if self.ending else signal.SIGTERM)

    def terminate(self):
        """Tells the server to end; the end of the block waits for that."""
        self.ending = True
        self.process.terminate()

    def end(self, number=signal.SIGTERM, code=0, seconds=60):
        """Ends it by a signal, or None, and returns what it has printed of errors."""
        if number:
            self.process.send_signal(number)
        self.out.hears.set()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for output in (self.out, self.errors):
            output.thread.join(seconds)
        check(f"the server ends with {code}", self.process.returncode == code, (self.process.returncode, self.errors))
        return str(self.errors)

    def printed(self):
        """The lines behind that which says that it listens."""
        return self.out.lines[self.out.lines.index(self.listens) + 1:]

    def client(self, port=None, **more):
        return Client(port or self.port, secure=self.secure, **more)

    def ask(self, *words, port=None, **more):
        with self.client(port) as c:
            return c.ask(*words, **more)

    def plain(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def metric(self, pattern):
        """The first of metrics whose name and labels have the pattern; None: there is none."""
        found = re.search(rf"(?m)^{pattern}\S* (\S+)$", self.ask("/metrics", port=(self.metrics or [None])[0])[1].decode())
        return found and float(found.group(1))

    def count(self, reason):
        return int(self.metric("nv_inference_request_" + reason))

    def status(self, field):
        """What Linux says of its process, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith(field))

    def children(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
                return [int(p) for p in f.read().split()]
        except OSError:
            return []


class Crowd:
    """Clients that ask all the time. Every answer must be right, and come in time; whoever gets none must be able to say why: a request
    fails, or is refused with 503, only where something was being broken (`breaking`) while its connection was open. `right` is what is
    answered to each row, or a function that says it of the version of the model that answered."""

    IN_TIME = 60  # seconds of a request until its answer or error

    def __init__(self, port, rows, right, count=6, calls=20, pause=0, model="m"):
        self.port, self.rows, self.calls, self.pause = port, rows, calls, pause
        self.right = right if callable(right) else lambda version: right
        self.path = f"/v2/models/{model}/infer"
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.breaks, self.open = 0, 0  # so many things have begun to be broken; so many of them still are
        self.counts = collections.Counter()
        self.longest = 0.0
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for t in self.threads:
            t.start()

    def __enter__(self):
        with self.lock:
            self.breaks, self.open = self.breaks + 1, self.open + 1

    def __exit__(self, *_):
        with self.lock:
            self.open -= 1

    def breaking(self):
        """How many things had begun to be broken; of those that still are, one counts as yet to come."""
        with self.lock:
            return self.breaks - (self.open > 0)

    def run(self, seed):
        rng = random.Random(seed)
        while not self.stop.is_set():
            before = self.breaking()
            try:
                self.talk(rng, before)
            except TimeoutError as e:
                self.counts["hung"] += 1
                check("no request hangs", False, repr(e))
            except (OSError, http.client.HTTPException) as e:
                with self.lock:
                    self.counts[f"failed: {type(e).__name__}"] += 1
                check("a connection breaks only where something was broken", self.breaks > before, repr(e))
                self.stop.wait(0.02)  # nobody may be there for the moment
            except Exception as e:
                check("a client understands its answer", False, repr(e))

    def talk(self, rng, before):
        c = Client(self.port, self.IN_TIME)
        try:
            for _ in range(1 + rng.randrange(self.calls)):
                k, n = rng.randrange(ROWS - 4), rng.randrange(1, 4)
                code, text = self.ask(c, json.dumps(one([v for r in self.rows[k:k + n] for v in r], [n, SIZE])))
                with self.lock:
                    self.counts[code] += 1
                if code == 503:
                    check("a request is refused only where something was broken", self.breaks > before, text)
                    self.stop.wait(0.02)
                elif not check("an answer is right", code == 200 and is_right(text, self.right(json.loads(text)["model_version"])[k:k + n]), (code, text)):
                    self.counts["wrong"] += 1
                if self.stop.wait(self.pause):
                    return
        finally:
            c.close()

    def ask(self, client, body):
        began = time.monotonic()
        try:
            return client.ask(self.path, body)[:2]
        finally:
            took = time.monotonic() - began
            with self.lock:
                self.longest = max(self.longest, took)
            check(f"a request ends within {self.IN_TIME} s", took < self.IN_TIME, took)

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join(120)
        check("all clients come to an end", not any(t.is_alive() for t in self.threads))
        return self.counts


def read_all(s):
    """What comes until the other side ends it, and whether it has."""
    got = b""
    try:
        while part := s.recv(65536):
            got += part
        return got, True
    except ConnectionError:
        return got, True
    except OSError:
        return got, False


class Page(html.parser.HTMLParser):
    """Whether tags are closed in the order in which they were opened, and what they are."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.good = [], [], "", True
        self.feed(text)
        self.good &= not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "!doctype"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.good &= bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        self.words += data
