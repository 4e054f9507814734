"""What tests of the server from outside have in common: a small model, a server, clients."""
import collections
import http.client
import json
import random
import re
import signal
import struct
import subprocess
import threading
import time

SIDE, ROWS = 11, 40
SIZE = SIDE * SIDE
failed = passed = 0
lock = threading.Lock()


def check(what, holds, told=""):
    global failed, passed
    with lock:
        passed, failed = passed + bool(holds), failed + (not holds)
        if not holds:
            print(f"FAILED: {what}: {str(told)[:600]}", flush=True)
    return holds


def end():
    print(f"{passed} passed, {failed} failed")
    return failed > 0


def npy(path, rows, side=SIDE):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(rows)}, 1, {side}, {side}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(v for r in rows for v in r))


def train(weft, name="c", seed=1):
    """Leaves a checkpoint; rows to ask of it, and what weft predict answers."""
    rows = [[random.Random(i).randrange(256) for _ in range(SIZE)] for i in range(ROWS)]
    npy("x.npy", rows)
    subprocess.run([weft, "train", "-m", "mlp", "--data", f"glyphs:size={SIDE},train=200,test=40", "-e", "1", "-c", name, "--seed", str(seed), "-q", "-t",
                    "1"], check=True, timeout=300)
    told = subprocess.run([weft, "predict", "-t", "1", "-c", name, "--json", "--data", "npy:x.npy"], check=True, timeout=300, capture_output=True, text=True)
    return rows, [json.loads(line)["probabilities"] for line in told.stdout.splitlines()]


def one(data, shape, datatype="FP32", **more):
    return {"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data}], **more}


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) < 2e-6 for x, y in zip(a, b))


def is_right(reply, right):
    """Whether a body is the answer to the rows whose probabilities these are."""
    try:
        return near(json.loads(reply)["outputs"][0]["data"], [p for r in right for p in r])
    except (ValueError, KeyError, IndexError, TypeError):
        return False


class Server:
    """A server of the checkpoint c. What it says is read by threads, so that it never waits for us."""

    def __init__(self, weft, *words, ports=("--port", "0", "--metrics-port", "0"), wait=120):
        self.process = subprocess.Popen([weft, "serve", *words, *ports], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.out, self.errors, self.news = [], [], threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.errors))]
        for t in self.readers:
            t.start()
        line = self.wait_for(self.out, r"listening on", wait)
        ports = [int(p) for p in re.findall(r"https?://127\.0\.0\.1:(\d+)", line or "")]
        check("the server listens", ports, (self.out, self.errors))
        self.port, self.metrics = ports[0] if ports else 0, ports[1:]

    def read(self, stream, lines):
        for line in stream:
            with self.news:
                lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            lines.append(None)  # it has ended
            self.news.notify_all()

    def wait_for(self, lines, pattern, seconds=60, start=0):
        """The first line from `start` on that has the pattern; None: there was none in that time."""
        def find():
            return next((line for line in lines[start:] if line is None or re.search(pattern, line)), False)
        with self.news:
            return self.news.wait_for(lambda: find() is not False, seconds) and find() or None

    def children(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
                return [int(p) for p in f.read().split()]
        except OSError:
            return []

    def end(self, number=signal.SIGTERM, code=0, seconds=60):
        self.process.send_signal(number)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for t in self.readers:
            t.join(seconds)
        check(f"the server ends with {code}", self.process.returncode == code, (self.process.returncode, self.errors))


class Client:
    def __init__(self, port, timeout=60):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, path, body=None, method=None, headers={}):
        self.connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
        reply = self.connection.getresponse()
        return reply.status, reply.read(), reply

    def told(self, path, body=None, **more):
        """Code and what the JSON of the reply says."""
        code, text, _ = self.ask(path, body, **more)
        return code, json.loads(text) if text else None

    def close(self):
        self.connection.close()


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
