#!/usr/bin/env python3
"""What the server does with clients who dawdle or leave, and what it writes down of all: tests/serve/serve_clients.py PATH/TO/weft"""
import datetime
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from serve_harness import BODY, INFER, SANITIZED, SIZE, Client, Server, check, main, one, read_all, run, train, wait_until, weft, whole, write


def slow():
    """Everyone who dawdles is cut off, whatever he does; who is only idle may be so for --timeout seconds."""
    with Server("--timeout", "1", "--receive", "2") as s:
        ways = {"silent": b"", "half a head": b"POST /v2/models/m/in", "half a body": whole()[:-20]}
        drips = {"a head": b"GET /v2 HTTP/1.1\r\nX: " + b"x" * 500, "a line": b"GET /" + b"x" * 500, "a body": whole(body=BODY + " " * 500)[:-500] + b" " * 400}
        silent = {way: s.plain() for way in ways}
        dripping = {way: s.plain() for way in drips}
        began, ended = time.monotonic(), {}
        for way, c in silent.items():
            c.sendall(ways[way])
        dripping["a body"].sendall(drips["a body"][:-400])
        at = {"a head": 0, "a line": 0, "a body": len(drips["a body"]) - 400}
        while time.monotonic() - began < 10 and len(ended) < 6:
            for way, c in dripping.items():
                if way in ended:
                    continue
                try:
                    c.sendall(drips[way][at[way]:at[way] + 1])
                    at[way] += 1
                except OSError:
                    ended[way] = time.monotonic() - began
            for way, c in {**silent, **dripping}.items():
                c.setblocking(False)
                try:
                    if way not in ended and c.recv(1000) == b"":
                        ended[way] = time.monotonic() - began
                except BlockingIOError:
                    pass
                except OSError:
                    ended[way] = time.monotonic() - began
                c.setblocking(True)
            time.sleep(0.1)
        for way in (*ways, *drips):
            check(f"{way} ends", 0.7 < ended.get(way, 99) < 8, ended)
        check("and others are answered", s.code(INFER, BODY) == 200)
        for c in (*silent.values(), *dripping.values()):
            c.close()


def gone():
    """A question waits for others that do not come, and is not computed if its client has gone."""
    with Server("--policy", "fixed:wait=1500000,max=50", "--connections", "50") as s:
        for way in ("close", "reset", "both ways"):
            cancelled = s.count('failure{model="m",version="1",reason="CANCELED"')
            c = s.plain()
            c.sendall(whole())
            time.sleep(0.3)
            if way == "reset":
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if way == "both ways":
                c.shutdown(socket.SHUT_RDWR)
            c.close()
            given_up = lambda: s.count('failure{model="m",version="1",reason="CANCELED"')
            wait_until(lambda: given_up() > cancelled)
            check(f"{way}: it is given up", given_up() == cancelled + 1, (given_up(), cancelled))
        time.sleep(1.6)
        check("and not computed", s.count("success") == 0, s.count("success"))
        for more, shut in (("", True), ("", False), ("Connection: close\r\n", True)):
            with s.plain() as c:
                c.sendall(whole(more=more))
                time.sleep(0.2)
                if shut:
                    c.shutdown(socket.SHUT_WR)
                reply = http.client.HTTPResponse(c)
                try:
                    reply.begin()
                    check("who only has no more to say is answered", reply.status == 200 and b"prediction" in reply.read(), reply.status)
                except (OSError, http.client.HTTPException) as e:
                    check("who only has no more to say is answered", False, e)
        check("each of them once", wait_until(lambda: s.count("success") == 3), s.count("success"))  # an answer is on its way before it is counted
        many = [s.plain() for _ in range(40)]
        for c in many:
            c.sendall(whole())
        time.sleep(0.2)
        for c in many[::2]:
            c.close()
        for c in many[1::2]:
            check("among others who leave", c.recv(65536).startswith(b"HTTP/1.1 200"))
            c.close()
        wide = json.dumps(one([9] * SIZE * 74, [74, SIZE]))
        check("and none of those", wait_until(lambda: s.count("success") == 23), s.count("success"))
        for cut in (False, True):  # a batch of it is computed at once, the rest waits for more
            with s.plain() as c:
                c.sendall(whole(body=wide))
                if not cut:
                    check("a request of two batches", c.recv(65536).startswith(b"HTTP/1.1 200"))
                else:
                    time.sleep(0.3)
        check("of one whose client leaves nothing is left", wait_until(lambda: s.metric("weft_queue_rows") == 0))
        check("and its last part is not computed", wait_until(lambda: s.count("success") == 26), s.count("success"))
        rest = s.plain()
        rest.sendall(whole())
        time.sleep(0.1)
    check("who waits when the server ends is answered", rest.recv(65536).startswith(b"HTTP/1.1 200"))
    rest.close()


def unread():
    """Who does not read replies keeps no model in service."""
    with Server("--control") as s:
        check("a question", s.code(INFER, BODY) == 200)
        large = whole(body=BODY[:-1] + ', "id": "' + "x" * 16000 + '"}')
        c, left, quiet = s.plain(), b"", 0
        c.setblocking(False)
        while quiet < 10:  # until the server has read nothing for a second, since its replies wait
            left = left or large
            try:
                left = left[c.send(left):]
                quiet = 0
            except BlockingIOError:
                quiet += 1
                time.sleep(0.1)
        try:
            check("unload", s.code("/v2/repository/models/m/unload", "") == 200)
            check("load", s.code("/v2/repository/models/m/load", "") == 200)
            check("load anew", s.code("/v2/repository/models/m/load", "") == 200 and s.code(INFER, BODY) == 200)
        except OSError as e:
            check("unload and load", False, repr(e))
        c.close()


def half_at_the_end():
    """A request under way when the server is told to end is answered, one that begins later is refused, and told so."""
    with Server() as s:
        early, c = whole(), s.plain()
        c.sendall(early[:-50])
        check("its head has arrived", s.code() == 200)
        s.terminate()
        rejected = 'failure{model="m",version="1",reason="REJECTED"'
        try:
            wait_until(lambda: s.code("/v2/health/ready") == 503)
            before = s.count(rejected)
            code, text, headers = s.ask(INFER, BODY)
            check("a later one is refused", code == 503 and headers["Retry-After"] and headers["Connection"] == "close" and b"about to end" in text, (code, text))
            check("and counted", s.count(rejected) == before + 1, before)
        except OSError as e:
            check("the server waits for the request under way", False, repr(e))
        try:
            c.sendall(early[-50:])
            got, _ = read_all(c)
        except OSError as e:
            got = repr(e).encode()
        check("the early one is answered", got.startswith(b"HTTP/1.1 200") and b"prediction" in got and b"Connection: close" in got, got)
        c.close()


def patience():
    """A request may have less patience than the server, not more; both ports count clients alike."""
    with Server("--policy", "fixed:wait=8000000,max=50", "--patience", "1") as s:
        for more in ("", ', "parameters": {"timeout": 60000000}', ', "parameters": {"timeout": 1000}'):
            code, text, headers = s.ask(INFER, BODY[:-1] + more + "}")
            check(f"no more patience than the server{more}", code == 503 and headers["Retry-After"], (code, text))
        idle = [s.plain() for _ in range(20)]
        for port in (s.port, *s.metrics):  # connections are counted from their acceptance until the server has seen their end
            open_now = lambda: int(s.ask("/metrics", port=port)[1].decode().split("\nweft_open_connections ")[1].split()[0])
            check("open connections", wait_until(lambda: 20 <= open_now() <= 21), open_now())
        for c in idle:
            c.close()


def memory():
    """Bodies that are sent and not ended take a bounded part of memory, and small requests are answered."""
    with Server("--body", "4", "--timeout", "3600", "--receive", "3600") as s:  # however long all of them take
        large = whole(body=BODY + " " * ((4 << 20) - len(BODY)))
        check("a large body", s.code(INFER, large.partition(b"\r\n\r\n")[2]) == 200)
        before, many = s.status("VmRSS"), [s.plain() for _ in range(60)]
        for c in many:
            c.sendall(large[:-1000])
        for _ in range(100):
            check("small requests beside them", s.code(INFER, BODY) == 200)
        check("memory for 16 of them", SANITIZED or s.status("VmRSS") - before < 64 + 32, (s.status("VmRSS"), before))
        found = []
        for c in many:
            c.sendall(large[-1000:])
            reply = http.client.HTTPResponse(c)
            reply.begin()
            found.append(reply.status)
            text = reply.read()
            check("a refusal", reply.status == 200 or (reply.getheader("Retry-After") and b"memory" in text), (reply.status, text[:200]))
            c.close()
        check("some are answered, others refused", set(found) == {200, 503} and found.count(200) >= 8, found)
        check("and all afterwards", [s.code(INFER, large.partition(b"\r\n\r\n")[2]) for _ in range(30)] == [200] * 30)


def replies():
    """Replies that nobody reads take a bounded part of memory, and are gone after --timeout without progress."""
    classes, limit = 1000, 64 << 20
    write("classes.csv", "a,y\n" + "".join(f"{i / classes},c{i}\n" for i in range(classes)) * 2)
    run("train", "-q", "-m", "mlp", "-d", "csv:classes.csv,label=y", "--steps", 1, "-t", 1, "-c", "wide")
    body = json.dumps(one([0.5] * 1000, [1000, 1]))
    large = whole(body=body)
    with Server("--body", "4", "--timeout", "20", "--receive", "3600", models=("m=wide",)) as s:
        code, text, _ = s.ask(INFER, body)
        check("a large reply", code == 200 and len(text) > 6 << 20, (code, len(text), text[:300]))
        found, many = [], []
        while len(many) < 5 + limit // len(text):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.settimeout(30)
            c.connect(("127.0.0.1", s.port))
            c.sendall(large)
            found.append(int(c.recv(12, socket.MSG_PEEK)[9:]))
            many.append(c)
        first = found.index(503) if 503 in found else 0
        check("replies up to the limit, and no more", set(found[:first]) == {200} and set(found[first:]) == {503}, found)
        check("the limit is that of memory", first == limit // len(text), (first, len(text)))
        check("small requests beside them", s.code(INFER, json.dumps(one([1], [1, 1]))) == 200)
        check("those who do not read lose their replies", wait_until(lambda: s.code(INFER, body) == 200))
        for c in many:
            c.close()


def log():
    with Server("--log", "log", "--body", "1") as s:
        s.ask(INFER, BODY)
        s.ask("/v2")
        s.ask("/v2/a%22%5C%00%ff%0a%e4/x?q=%22")
        s.ask("/v2/models/nothing")
        s.ask(INFER, "{")
        s.ask(INFER, " " * (2 << 20))
        with s.client() as c:
            for i in range(200):
                c.ask(f"/v2/models/m?{i}")
        s.ask("/metrics", port=s.metrics[0])
    with open("log", "rb") as f:
        lines = f.read().decode("ascii").splitlines()
    told = []
    for line in lines:
        try:
            told.append(json.loads(line))
        except ValueError:
            check("a line of JSON", False, line)
    check("a line for each request", len(told) == 207, len(told))
    first = told[0]
    check("what it says", first["client"] == "127.0.0.1" and first["method"] == "POST" and first["path"] == INFER and first["status"] == 200 and
          first["model"] == "m" and first["bytes"] > 50 and 0 <= first["seconds"] < 30, first)
    when = datetime.datetime.strptime(first["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc).timestamp()
    check("when", abs(when - time.time()) < 120, first)
    check("the codes", [t["status"] for t in told[1:6]] == [200, 400, 404, 400, 413], told[1:6])
    with Server("--log", "-") as s:
        s.ask("/v2")
    check("to standard output", [json.loads(line)["path"] for line in s.printed()] == ["/v2"], s.out)
    with Server("--log", "log") as s:
        s.ask("/v2")
    with open("log") as f:
        check("it is added to", len(f.readlines()) == 208)
    with Server("--log", "/dev/full") as s:
        with s.client() as c:
            for _ in range(20000):  # more than there is room for
                check("a full disk harms nobody", b"error" in c.ask("/v2/models/none/ready")[1])
    errors = str(s.errors)
    check("and it is said once", errors.count("cannot write the request log") == 1 and "No space left" in errors, errors)
    with Server("--log", "-", deaf=True) as s:
        with s.client() as c:
            for _ in range(3000):
                c.ask("/v2/models/none/ready")
        check("who does not read the log keeps nobody waiting", s.code(INFER, BODY) == 200)
    check("and has whole lines", all(json.loads(line)["status"] for line in s.printed()[:-1]) and len(s.printed()) > 100, s.printed()[-2:])


def logged(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def names():
    """The log names the request, and the client behind trusted proxies; the reply has the request's name, too. Good health checks are no
    requests of the log."""
    chains = (("203.0.113.9", "203.0.113.9"), ("1.2.3.4, 203.0.113.9", "203.0.113.9"), ("1.2.3.4, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
              ("1.2.3.4,\t[2001:db8::7]:443 , 10.255.0.1:80", "2001:db8::7"), ("10.0.0.1, 10.0.0.2", "10.0.0.1"), ("fd00::5", "fd00::5"), ("nobody, 10.0.0.2", "10.0.0.2"),
              ("nobody", "127.0.0.1"), ("", "127.0.0.1"), ("203.0.113.9, " * 100 + "10.0.0.1", "203.0.113.9"), ("1.2.3.4, 11.0.0.1", "11.0.0.1"),
              ("::ffff:203.0.113.7", "203.0.113.7"), ("1.2.3.4, [::ffff:203.0.113.7]:80, ::ffff:10.0.0.1", "203.0.113.7"))
    with Server("--log", "names", "--proxies", "127.0.0.1,10.0.0.0/8,fd00::/9") as s:
        for chain, _ in chains:
            s.ask("/v2", X_Forwarded_For=chain)
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready"):
            check(f"{path}", s.code(path) == 200)
        check("a bad health check", s.code("/v2/models/none/ready") == 400)
        ids = [s.ask("/v2", X_Request_ID=id)[2].get("X-Request-ID") for id in ("a-b/c:1", "x" * 129, "a b", "x" * 128)] + [s.ask("/v2")[2].get("X-Request-ID") for _ in range(3)]
        with s.plain() as c:
            c.sendall(b"GET /v2 HTTP/9.9\r\n\r\n")
            check("what is no HTTP", c.recv(100).startswith(b"HTTP/1.1 505"))
    lines = logged("names")
    check("the clients", [line["client"] for line in lines[:len(chains)]] == [client for _, client in chains], [line["client"] for line in lines[:len(chains)]])
    lines = lines[len(chains):]
    check("the bad health check alone", lines[0]["path"] == "/v2/models/none/ready" and lines[1]["path"] == "/v2", lines[:2])
    check("ids are kept", ids[0] == "a-b/c:1" and ids[3] == "x" * 128, ids)
    check("or made", all(re.fullmatch("[0-9a-f]{32}", id or "") for id in ids[1:3] + ids[4:]) and len(set(ids)) == len(ids), ids)
    check("and logged", [line["id"] for line in lines[1:1 + len(ids)]] == ids, lines)
    check("what is no HTTP has no name", lines[-1]["path"] == "-" and lines[-1]["status"] == 505 and "id" not in lines[-1], lines[-1])
    with Server("--log", "names2") as s:
        s.ask("/v2", X_Forwarded_For="203.0.113.9")
    check("who is no trusted proxy names nobody", logged("names2")[0]["client"] == "127.0.0.1")
    with Server() as s:
        check("without a log only what came is said", s.ask("/v2", X_Request_ID="7")[2]["X-Request-ID"] == "7" and "X-Request-ID" not in s.ask("/v2")[2])
    with Server("--rate-limit", "3", "--proxies", "127.0.0.1") as s:
        codes = [[s.code("/v2", X_Forwarded_For=client) for _ in range(5)] for client in ("203.0.113.1", "203.0.113.2")]
        check("clients behind a proxy have rates of their own", all(found[:3] == [200] * 3 and 429 in found for found in codes), codes)
    for proxies in ("10.0.0.0/33", "nobody", "10.0.0.1,", "::1/129", "10.0.0.0/-1"):
        done = run("serve", "m=c", "--proxies", proxies, "--port", 0, "--metrics-port", -1, code=2)
        check(f"the proxies {proxies} are refused", "proxies" in done.stderr, done)


def hangups():
    """SIGHUP opens the log again, reads secrets and models again, and ends nothing."""
    for words in ([], ["--processes", "2"]):
        write("secrets", "* first\n")
        for name in ("rotated", "rotated.1"):
            if os.path.exists(name):
                os.remove(name)
        with Server("--log", "rotated", "--tokens", "secrets", *words) as s:
            ask = lambda path, token: s.code(path, Authorization="Bearer " + token)
            check("before", ask("/v2/before", "first") == 404)
            check("it is written", wait_until(lambda: os.path.getsize("rotated") > 0))
            os.rename("rotated", "rotated.1")
            write("secrets", "* second\n")
            s.process.send_signal(signal.SIGHUP)
            check("the log is opened again", wait_until(lambda: os.path.exists("rotated")))
            check("the tokens are read again", wait_until(lambda: ask("/v2/after", "second") == 404))
            check("and one request more", wait_until(lambda: ask("/v2/after", "second") == 404 and os.path.getsize("rotated") > 0))
            s.process.send_signal(signal.SIGHUP)
            check("and it serves", ask("/v2", "second") == 200)
        check("each file has its own", {line["path"] for line in logged("rotated.1")} >= {"/v2/before"} and "/v2/after" not in [line["path"] for line in logged("rotated.1")]
              and "/v2/after" in [line["path"] for line in logged("rotated")], (logged("rotated.1"), logged("rotated")))


def pieces():
    """A pipe gets whole lines at a time, which the kernel does not mix with those of another process."""
    r, w = os.pipe2(os.O_DIRECT)  # what one write writes is what one read reads
    process = subprocess.Popen([weft, "serve", "-t", "1", "m=c", "--log", "-", "--port", "0", "--metrics-port", "-1"], stdout=w)
    os.close(w)
    said = b""
    while not (port := re.search(rb"http://127\.0\.0\.1:(\d+)\n", said)):
        said += os.read(r, 1 << 16)
    with Client(int(port[1])) as c:
        for _ in range(300):  # more than the pipe holds, so lines gather
            c.ask("/" + "x" * 700)
    process.send_signal(signal.SIGTERM)
    got = []
    while piece := os.read(r, 1 << 16):
        got.append(piece)
    os.close(r)
    check("pieces are whole lines", all(p.endswith(b"\n") for p in got) and max(map(len, got)) > 1500 and b"".join(got).count(b"\n") == 300, [len(p) for p in got])
    check("the server ends", process.wait(60) == 0)


sys.exit(main(slow, gone, unread, half_at_the_end, patience, memory, replies, log, names, hangups, pieces, first=train))
