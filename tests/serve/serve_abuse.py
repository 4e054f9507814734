#!/usr/bin/env python3
"""Connections that are bad, cut off, slow or far too many: tests/serve/serve_abuse.py PATH/TO/weft

Each is answered with 4xx and a sentence, with 503 and Retry-After, or closed where HTTP has no answer for it; memory does not
grow when all of it comes again; and clients who ask as they should are answered rightly all the time.
"""
import concurrent.futures
import json
import os
import random
import resource
import socket
import struct
import sys
import threading
import time

from serve_harness import INFER, SANITIZED, SIZE, Client, Crowd, Server, check, is_right, main, one, train, wait_until

MANY = 1000 if SANITIZED else 10000
rng = random.Random(5)


def head(length, *more, method=b"POST", path=INFER.encode(), version=b"1.1"):
    lines = [method + b" " + path + b" HTTP/" + version, b"Host: a", *more]
    if length is not None:
        lines.append(b"Content-Length: " + (length if isinstance(length, bytes) else b"%d" % length))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def talk(port, data, cut=True, reads=True, seconds=30, gap=0):
    """Sends bytes, or pieces of them with so many seconds between; what comes back until the other side closes. `cut`: says that no
    more comes. None: the other side is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as s:
        got = b""
        try:
            for i, piece in enumerate([data] if isinstance(data, bytes) else data):
                if i and gap:
                    time.sleep(gap)
                s.sendall(piece)
            if cut:
                s.shutdown(socket.SHUT_WR)
            while reads and (part := s.recv(1 << 16)):
                got += part
        except TimeoutError:
            return None
        except OSError:
            pass
        return got


def replies(got):
    """Codes, headers and bodies of a stream of answers; behind one that closes the connection there is none."""
    found = []
    while got:
        top, _, rest = got.partition(b"\r\n\r\n")
        first, *lines = top.split(b"\r\n")
        words = first.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            return found + [(0, {}, got)]
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines)}
        last = headers.get(b"connection") == b"close"
        size = 0 if words[1] == b"100" else len(rest) if last else int(headers.get(b"content-length", len(rest)))
        found.append((int(words[1]), headers, rest[:size]))
        got = rest[size:]
    return found


def refused(what, got, closed=False, good=False, silent=False):
    """Whether an answer is one that a bad request may get; `good`: it may be harmless as well; `closed`: the connection may end
    without one, as for the beginning of a request whose client sends no more."""
    if got is None:
        return check(f"{what}: no silence", silent)
    found = replies(got)
    if not found:
        return check(f"{what}: an answer", closed)
    holds = True
    for code, headers, body in found:
        fine = (400 <= code < 500 or code in (501, 505)) and len(body) > 10 or code == 503 and b"retry-after" in headers or code == 100
        holds = check(what, fine or (good and code == 200), (code, headers, body)) and holds
    return holds


def side_by_side(work, items):
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return list(pool.map(work, items))


def talk_all(port, items, seconds=30):
    """As talk, of all at once: a server may wait for a while for those who do not say that no more comes."""
    lines, found = [], []
    for data in items:
        s = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        lines.append(s)
    for s in lines:
        got = b""
        try:
            while part := s.recv(1 << 16):
                got += part
        except TimeoutError:
            got = None
        except OSError:
            pass
        found.append(got)
        s.close()
    return found


class Bodies:
    def __init__(self, row, right):
        self.right = [right]
        self.json = json.dumps(one(row, [1, SIZE])).encode()
        top = {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "UINT8", "parameters": {"binary_data_size": SIZE}}]}
        self.top = json.dumps(top).encode()
        self.binary, self.mark = self.top + bytes(row), b"Inference-Header-Content-Length: %d" % len(self.top)

    def good(self, got, count=1):
        found = replies(got or b"")
        return len(found) == count and all(code == 200 and is_right(body, self.right) for code, _, body in found)


def cuts(port, b):
    """Each beginning of a request, whose head tells the truth about it or not."""
    for body, more in ((b.json, ()), (b.binary, (b.mark,))):
        whole = head(len(body), *more) + body
        check("a whole request", b.good(talk(port, head(len(body), b"Connection: close", *more) + body, cut=False)))
        for cut, got in enumerate(talk_all(port, [whole[:cut] for cut in range(len(whole))])):
            refused(f"cut at byte {cut} of {len(whole)}", got, closed=True)
        c = Client(port)
        headers = dict([tuple(m.decode().split(": ")) for m in more])
        for cut in range(len(body)):
            code, text, _ = c.ask(INFER, body[:cut], headers=headers)
            check(f"a body of {cut} bytes instead of {len(body)}", code == 400 and len(json.loads(text)["error"]) > 10, (code, text))
        c.close()


def lengths(port, b):
    size = len(b.json)
    short = (0, 1, size // 2, size - 1)  # what is left is no request
    for length, got in zip(short, talk_all(port, [head(length) + b.json for length in short])):
        refused(f"a length of {length}, too short", got)
    wrong = []
    longer = [b"%d" % (size + more) for more in (1, 1000, 1000000, 3000000, 2 ** 63 - size)]
    for length, got in zip(longer, talk_all(port, [head(length) + b.json for length in longer])):
        refused(f"a length of {length}, too long", got, closed=True)
    for length in (b"-1", b"-9223372036854775808", b"18446744073709551616", b"1" * 40, b"0x10",
                   b"1e3", b"ten", b"1 2", b"+5", b"", b"5,5"):
        wrong.append((f"a length of {length}", head(length) + b.json))
    for words in ((b"Content-Length: 1", b"Content-Length: 2"), (b"Content-Length: %d" % size, b"Transfer-Encoding: chunked"),
                  (b"Transfer-Encoding: gzip",), (b"Transfer-Encoding: chunked, chunked",), (b"Transfer-Encoding: x",)):
        wrong.append((str(words), head(None, *words) + b.json))
    for (what, _), got in zip(wrong, talk_all(port, [data for _, data in wrong])):
        refused(what, got)


def chunk(data, size=None):
    return b"%x\r\n%s\r\n" % (len(data) if size is None else size, data)


def chunks(port, b):
    top = head(None, b"Transfer-Encoding: chunked", b"Connection: close")
    parts = [b.json[i:i + 37] for i in range(0, len(b.json), 37)]
    whole = b"".join(map(chunk, parts)) + b"0\r\n\r\n"
    check("chunks", b.good(talk(port, top + whole, cut=False)))
    check("chunks of a byte", b.good(talk(port, top + b"".join(chunk(b.json[i:i + 1]) for i in range(len(b.json))) + b"0\r\n\r\n", cut=False)))
    check("chunks one by one", b.good(talk(port, [top, *map(chunk, parts), b"0\r\n\r\n"], cut=False, gap=0.002)))
    check("chunks with a trailer", b.good(talk(port, top + whole[:-2] + b"X-Sum: 3\r\n\r\n", cut=False)))
    bad = [b"x\r\n", b"-5\r\nhello\r\n", b"g\r\n", b"\r\n\r\n", b"1" * 100 + b"\r\n", b"5\r\nhelloworld\r\n", b"5 5\r\nhello\r\n",
           b"\x00\r\n", b"0\r\n\r\n", b";" * 40000 + b"\r\n"]
    part = [whole[:cut] for cut in range(0, len(whole), 7)] + [whole[:-5], whole[:-2], b"7fffffff\r\nhello\r\n", b"ffffffffffffffff\r\n"]
    for data, got in zip(bad + part, talk_all(port, [top + data for data in bad + part])):
        refused(f"chunks such as {data[:30]} .. {data[-30:]}", got, closed=data in part)


def endless(port, start, piece, most=1 << 30):
    """Sends a beginning and then a piece over and over until somebody objects: how much was sent, and what came."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        sent, got = 0, b""
        try:
            s.sendall(start)
            while sent < most:
                sent += s.send(piece)
        except OSError:
            pass
        try:
            while part := s.recv(1 << 16):
                got += part
        except OSError:
            pass
    return sent, got


def too_large(port):
    """A gigabyte is offered of what is small; it is refused long before."""
    block = b"y" * (1 << 16)
    for what, start, piece in (("of a header", b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: ", block), ("of headers", b"GET /v2 HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n" * 5000),
                               ("of a path", b"GET /", block), ("of a method", b"", block), ("of empty lines", b"", b"\r\n" * 30000),
                               ("of a body", head(1 << 30), block), ("in chunks", head(None, b"Transfer-Encoding: chunked"), chunk(block)),
                               ("of a trailer", head(None, b"Transfer-Encoding: chunked") + b"0\r\nX: ", block)):
        sent, got = endless(port, start, piece)
        check(f"a gigabyte {what} is not taken", sent < 1 << 27 or "lines" in what or "body" in what or "chunks" in what, sent)
        refused(f"a gigabyte {what}", got, closed=True)  # an answer is lost if more is sent to a closed connection


def mixed_up(port, b):
    """Random bytes, and requests with a few bytes that are others; many are harmless."""
    whole = head(len(b.json)) + b.json
    noise = [rng.randbytes(rng.randrange(1, 400)) for _ in range(100)] + [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200), b"\r\n" * 50, b"\0" * 500]
    for _ in range(300):
        mixed = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5, 20))):
            mixed[rng.randrange(rng.choice((60, len(mixed))))] = rng.randrange(256)
        noise.append(bytes(mixed))
    answers = talk_all(port, noise)
    for data, got in zip(noise, answers):
        refused(f"bytes {data[:200]}", got, closed=True, good=True)
    check("most of it is answered", sum(map(bool, answers)) > len(noise) / 2, sum(map(bool, answers)))


def in_a_row(port, b):
    """Requests that follow each other without waiting are answered in their order, the bad ones as well."""
    ids = [json.dumps(dict(json.loads(b.json), id=str(i))).encode() for i in range(60)]
    wrong = b'{"inputs": 3}'
    data = b"".join(head(len(t)) + t for t in ids)
    found = replies(talk(port, data + head(2, b"Connection: close") + b"{}", cut=False) or b"")
    said = [json.loads(body).get("id") for code, _, body in found if code == 200]
    check("requests in a row", said == [str(i) for i in range(60)] and found[-1][0] == 400, said)
    data = b"".join(head(len(t)) + t for i in range(10) for t in (ids[i], wrong)) + head(len(wrong), b"Connection: close") + wrong
    found = [code for code, _, _ in replies(talk(port, data, cut=False) or b"")]
    check("good and bad ones in a row", found == [200, 400] * 10 + [400], found)


def versions(port, b):
    size = len(b.json)
    check("HTTP/1.0", b.good(talk(port, head(size, version=b"1.0") + b.json, cut=False)))
    for got in (talk(port, head(size, version=b"1.0") + b.json), talk(port, head(size) + b.json)):
        check("who closes its half at once", got == b"" or b.good(got), got)  # it may have gone for all the server knows
    got = replies(talk(port, head(size, b"Expect: 100-continue", b"Connection: close") + b.json, cut=False) or b"")
    check("a client that expects to be told to go on", [code for code, _, _ in got] in ([100, 200], [200]), got)
    odd = [(f"{first}", first + b"\r\nHost: a\r\n\r\n", True) for first in (
        b"GET /v2", b"GET /v2 HTTP/2.0", b"PRI * HTTP/2.0", b"GET /v2 HTTP/1", b"GET /v2 HTTP/x.y", b"GET  /v2  HTTP/1.1", b" GET /v2 HTTP/1.1", b"GET",
        b"GET /v2 HTTP/1.1 more", b"/v2 GET HTTP/1.1", b"GET /v2 http/1.1", b"G\0T /v2 HTTP/1.1", b"GET /v2 HTTP/99999999999.1")]
    odd += [(f"the path {path[:60]}", head(None, method=b"GET", path=path), True) for path in (
        b"/%", b"/%zz", b"/%00", b"/v2/%00", b"/v2/models/%2e%2e/infer", b"/../../etc/passwd", b"//v2", b"/v2/models/m%00/infer", b"*", b"http://a/v2",
        b"/v2?" + b"a=b&" * 500, b"/\xff\xfe", b"/v2/models/" + b"m" * 5000, b"/v2/models/%n%s%d", b"/" * 3000)]
    odd += [(f"the method {method[:20]}", head(None, method=method), False) for method in (
        b"PUT", b"DELETE", b"PATCH", b"TRACE", b"CONNECT", b"WEIRD", b"M" * 3000)]
    odd += [(f"the header {line[:20]}", head(size, line) + b.json, True) for line in (
        b"X", b": y", b"X : y", b" folded", b"X: \0", b"X\0: y", b"Host: b", b"Connection: " + b"close, " * 1000, b"Cookie: " + b"a" * 5000,
        b"Content-Type: x")]
    for (what, _, good), got in zip(odd, talk_all(port, [data for _, data, _ in odd])):
        refused(what, got, closed="GET'" in what, good=good)


def wrong_fields(port, b):
    """Each part of a request in the place of which something else stands. Never a failure of the server, never silence."""
    others = (None, True, False, 0, -1, 1.5, 1e308, 2 ** 31, 2 ** 63 - 1, 2 ** 63, 10 ** 30, "", "x", "\u0000", "x" * 3000, [], [[]], [1], {}, {"a": 1}, [None], [[1], [1, 2]])

    def spots(value, at=()):
        yield at
        if isinstance(value, dict):
            for k, v in value.items():
                yield from spots(v, at + (k,))
        elif isinstance(value, list):
            for i, v in list(enumerate(value))[:2]:
                yield from spots(v, at + (i,))
    base = {"id": "a", "inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "parameters": {"a": 1}, "data": json.loads(b.json)["inputs"][0]["data"]}],
            "outputs": [{"name": "prediction", "parameters": {"classification": 2, "binary_data": False}}],
            "parameters": {"raw": False, "timeout": 10 ** 7, "priority": 1, "binary_data_output": False}}
    bodies = []
    for at in spots(base):
        for other in others:
            changed = json.loads(json.dumps(base))
            spot = changed
            for step in at[:-1]:
                spot = spot[step]
            if at:
                spot[at[-1]] = other
            bodies.append((at, other, json.dumps(changed if at else other)))
    bodies += [("text", t[:60], t) for t in ("", " ", "{", "[", "nul", "NaN", "\x00", "{" * 3000, "[" * 100000, '{"a":' * 5000, '{"inputs":[{}]' * 100, "\ufeff{}", "{}{}", '{"a":1,}',
                                             '{"inputs": 1, "inputs": 2}', '"\\ud800"', b.json.decode().replace("[1, ", "[1e999, ", 1), b.json.decode().replace("x", "\\u0000"),
                                             b.json.decode() + "}", "/* */" + b.json.decode(), b.json.decode().replace('"', "'"))]
    clients = threading.local()

    def ask(item):
        at, other, text = item
        if not hasattr(clients, "c"):
            clients.c = Client(port)
        try:
            return clients.c.ask(INFER, text.encode("utf-8", "surrogatepass"))[:2]
        except OSError as e:
            return 0, repr(e).encode()
    for (at, other, text), (code, body) in zip(bodies, side_by_side(ask, bodies)):
        what = f"{str(other)[:40]} in place of {at}"
        check(what, code in (200, 503) or (code == 400 and len(json.loads(body).get("error", "")) > 10), (code, body))


def heavy(port, b):
    """Large bodies that are refused, so that what is not given back adds up; what leaks by bytes is for the sanitizers."""
    c = Client(port)
    for text in (b"[" + b"1," * 50000, b'{"id": "' + b"x" * 100000, json.dumps(one([1] * 20000, [1, SIZE])).encode()):
        for _ in range(70):
            code, body, _ = c.ask(INFER, text)
            check("a large body", code == 400 and len(json.loads(body)["error"]) > 10, (code, body))
    c.close()


def gone(port, b):
    """Clients that vanish, with a reset, at any moment; also when their answer is on its way."""
    whole = head(len(b.json)) + b.json
    for i in range(200):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(whole * (1 + i % 5) if i % 2 else whole[:i * len(whole) // 200])
            if i % 4 == 3:
                time.sleep(0.001)
    never = []
    for path in (b"/metrics", b"/v2/models/stats"):  # who asks a lot and never reads
        s = socket.create_connection(("127.0.0.1", port))
        s.setblocking(False)
        try:
            for _ in range(200):
                s.send(head(None, method=b"GET", path=path) * 100)
        except BlockingIOError:
            pass
        never.append(s)
    time.sleep(0.5)
    for s in never:
        s.close()


def memory(server):
    """MiB that it has taken, whether touched or not: what has been given back within the process comes and goes in what is resident."""
    return server.status("VmData")


def many(server, crowd, b):
    """Ten thousand connections that do nothing, or half of something, and others are served meanwhile."""
    for _ in range(3):
        idle, half = [], head(len(b.json)) + b.json
        try:
            for i in range(MANY):
                s = server.plain()
                idle.append(s)
                if i % 3:
                    s.sendall(half[:len(half) * (i % 7) // 8])
            before = crowd.counts[200]
            check("another one is served", b.good(talk(server.port, head(len(b.json), b"Connection: close") + b.json, cut=False)))
            check("and as many as come", wait_until(lambda: crowd.counts[200] > before + 100), crowd.counts)
            for i, s in enumerate(idle[:300]):  # they are connections as others are
                s.settimeout(60)
                s.sendall(half[len(half) * (i % 7) // 8:] if i % 3 else half)
                check("one of them goes on", s.recv(12) == b"HTTP/1.1 200")
        finally:
            for s in idle:
                s.close()
        yield memory(server)


def slow(rows, right, b):
    """Who sends a little from time to time is waited for, who sends nothing is not; more connections than there may be wait."""
    server = Server("--timeout", "1", "--connections", "40")
    whole = head(len(b.json), b"Connection: close") + b.json
    step = len(whole) // 6
    check("a slow client is answered", b.good(talk(server.port, [whole[i:i + step] for i in range(0, len(whole), step)], cut=False, gap=0.4)))
    began = time.monotonic()
    for start in (b"", whole[:20], whole[:-1], whole[:-len(b.json) // 2]):
        refused("a client that says nothing more", talk(server.port, start, cut=False), closed=True)
    check("is not waited for", time.monotonic() - began < 20, time.monotonic() - began)
    idle = [server.plain() for _ in range(100)]
    found = replies(talk(server.port, whole, cut=False, seconds=60) or b"")
    check("one above the limit waits, or is told", not found or found[0][0] in (200, 503), found)
    for s in idle:
        s.close()
    check("then it is served", wait_until(lambda: b.good(talk(server.port, whole, cut=False))))
    server.end()


def served_well(crowd, server):
    counts = crowd.end()
    check("all who asked well were answered", set(counts) == {200} and counts[200] > 200, counts)
    server.end()


def everything():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < MANY + 500:
        print(f"SKIPPED {MANY} connections: 'ulimit -Hn' is {most}")
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + 500 if most == resource.RLIM_INFINITY else most, most))
    rows, right = train()
    b = Bodies(rows[0], right[0])
    server = Server("--body", "2", "--timeout", "1")
    crowd = Crowd(server.port, rows, right, count=2, pause=0.01)
    found = []
    for _ in range(2):
        for part in (cuts, lengths, chunks, mixed_up, in_a_row, versions, wrong_fields, gone):
            began = time.monotonic()
            part(server.port, b)
            if os.environ.get("VERBOSE"):
                print(part.__name__, f"{time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()
        too_large(server.port)
        if os.environ.get("VERBOSE"):
            print("too_large", f"{time.monotonic() - began:.1f} s", flush=True)
        found.append(memory(server))
    for _ in range(6):
        for part in (wrong_fields, heavy, gone):
            part(server.port, b)
    found.append(memory(server))
    check("memory does not grow", SANITIZED or found[2] < found[1] + 10, found)
    check("the server lives", server.process.poll() is None)
    served_well(crowd, server)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= MANY + 500:
        server = Server()
        crowd = Crowd(server.port, rows, right, count=2, pause=0.01)
        found += many(server, crowd, b)
        check("nor with ten thousand", SANITIZED or found[-1] < 1.1 * found[-2], found)
        served_well(crowd, server)
    slow(rows, right, b)
    print("memory after each round, MiB:", [round(m, 1) for m in found])


sys.exit(main(everything))
