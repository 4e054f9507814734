#!/usr/bin/env python3
"""Who is let in by the server, and how far: TLS, tokens, limits, and files that do not fit: tests/serve/serve_front.py PATH/TO/weft"""
import gzip
import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
import warnings

from serve_harness import BODY, CERTIFICATE, INFER, KEY, OTHER_CERTIFICATE, OTHER_KEY, SIZE, Client, Server, check, main, one, read_all, run, train, wait_until, weft, \
    whole, write

warnings.simplefilter("ignore", DeprecationWarning)  # old versions of TLS are used on purpose


def trusting():
    """Trusts our certificate, which has less in it than newer versions of Python want of those that sign others."""
    context = ssl.create_default_context(cadata=CERTIFICATE)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def tls():
    write("cert.pem", CERTIFICATE, 0o644)
    write("key.pem", KEY)
    trust = trusting()
    with Server("--certificate", "cert.pem", "--key", "key.pem", "--timeout", "1", "--receive", "1", secure=trust) as s:
        check("it says https", s.scheme == "https")
        check("a request over TLS", s.code(INFER, BODY) == 200)
        check("metrics over TLS", s.code("/metrics", port=s.metrics[0]) == 200)
        with s.client() as c:
            for i in range(20):
                code, told = c.told(INFER, BODY)
                check("of many over one connection", code == 200 and told["model_name"] == "m")
            code, told = c.told(INFER, json.dumps(one([i / 7 for i in range(64 * SIZE)], [64, SIZE], "FP64")))
            check("a large one", code == 200 and len(told["outputs"][0]["data"]) == 640, code)
        with s.plain() as plain:
            plain.sendall(whole())
            check("what is no TLS gets no answer", b"200" not in read_all(plain)[0])
        with s.plain() as silent:
            got = read_all(silent)
            check("who begins no handshake is cut off", got[1] and len(got[0]) < 20, got)  # an alert of TLS at the most
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            only = trusting()
            only.minimum_version = only.maximum_version = version
            s.secure = only
            check(f"as {version.name}", s.code() == 200)
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):  # RFC 8996
            only = trusting()
            only.set_ciphers("ALL:@SECLEVEL=0")
            only.minimum_version = only.maximum_version = version
            s.secure = only
            try:
                check(f"not as {version.name}", s.code() is None)
            except (ssl.SSLError, ConnectionError) as e:
                check(f"{version.name} is refused in the handshake", "ALERT" in str(e) or "EOF" in str(e) or isinstance(e, ConnectionError), e)
        s.secure = trust
        done = run("load", f"https://localhost:{s.port}", "--ca", "cert.pem", "--closed", 2, "-n", 20, "--json")
        check("weft load over TLS", json.loads(done.stdout)["rates"][0]["ok"] == 20, done)


def tokens():
    write("tokens", "# who may ask\nm secret-of-m\nn\tsecret-of-n  # the other\n\n* secret-of-all\n")
    with Server("--tokens", "tokens", "--control", models=("m=c", "n=c")) as s:
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready"):
            check(f"{path} needs none", s.code(path) == 200)
        for given in (None, "", "Bearer", "Bearer ", "Bearer x", "Bearer secret-of-", "Bearer secret-of-mm", "Bearer secret-of-m x", "Basic secret-of-m",
                      "Bearer " + "x" * 1000, "secret-of-m", "Bearer secret-of-M"):
            for path, body in ((INFER, BODY), ("/v2", None), ("/v2/models/m", None), ("/v2/repository/index", ""), ("/metrics", None), ("/x", None)):
                headers = {} if given is None else {"Authorization": given}
                code, text, told = s.ask(path, body, **headers)
                check(f"{path} with {given}", code == 401 and told["WWW-Authenticate"].startswith("Bearer") and len(json.loads(text)["error"]) > 10, code)
        rights = (("/v2", None, 200, 200, 200), (INFER, BODY, 200, 403, 200), ("//v2//models/m/infer", BODY, 403, 403, 404),
                  ("/v2/models/%6d", None, 200, 403, 200), ("/v2/models/n/infer", BODY, 403, 200, 200), ("/v2/models/m/versions/1", None, 200, 403, 200),
                  ("/v2/models/m/stats", None, 200, 403, 200), ("/v2/models/stats", None, 403, 403, 200), ("/metrics", None, 403, 403, 200),
                  ("/v2/repository/index", "", 403, 403, 200), ("/v2/repository/models/m/load", "", 403, 403, 200), ("/v2/nothing", None, 403, 403, 404))
        for path, body, *codes in rights:
            for token, wanted in zip(("secret-of-m", "secret-of-n", "secret-of-all"), codes):
                got = s.code(path, body, Authorization="Bearer " + token)
                check(f"{path} with {token}", got == wanted, got)
        check("metrics at their own port, too", s.code("/metrics", port=s.metrics[0]) == 401)
        check("the scheme in any case", s.code("/v2", Authorization="bEARER secret-of-m") == 200)
        code = s.code(INFER, " " * (1 << 20), Authorization="Bearer x")
        check("with a body of a megabyte", code == 401, code)
        with s.plain() as c:
            c.sendall(b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
            got = c.recv(1000)
            check("who asks first need not send it", got.startswith(b"HTTP/1.1 401"), got)


def renewals():
    """A certificate with its key, and tokens, are read again when their files have changed; files that are not valid are not used."""
    write("cert.pem", CERTIFICATE, 0o644)
    write("key.pem", KEY)
    write("tokens", "m first\n")
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # which of the two is shown is compared below

    def shown(s):
        with trust.wrap_socket(s.plain(), server_hostname="localhost") as c:
            return ssl.DER_cert_to_PEM_cert(c.getpeercert(binary_form=True))

    def told(s, words):
        check(f"it says '{words}'", s.errors.wait_for(re.escape(words)), s.errors)
    with Server("--certificate", "cert.pem", "--key", "key.pem", "--tokens", "tokens", secure=trust) as s:
        check("the first certificate", shown(s) == CERTIFICATE)
        kept = s.client()
        check("a connection with it", kept.ask(Authorization="Bearer first")[1] is not None)
        write("key.pem", OTHER_KEY)
        told(s, "key.pem: is not the key of the certificate cert.pem")
        check("half of a pair is not used", shown(s) == CERTIFICATE and s.code("/v2", Authorization="Bearer first") == 200)
        write("new.pem", OTHER_CERTIFICATE, 0o644)
        os.replace("new.pem", "cert.pem")
        check("the second certificate", wait_until(lambda: shown(s) == OTHER_CERTIFICATE))
        check("the connection with the first one remains", kept.code(Authorization="Bearer first") == 200)
        kept.close()
        write("tokens", "m second\nall of it\n")
        told(s, "tokens:2: a line is MODEL TOKEN")
        check("bad tokens are not used", s.code("/v2", Authorization="Bearer first") == 200 and s.code("/v2", Authorization="Bearer second") == 401)
        write("tokens", "m second\n")
        check("a new token", wait_until(lambda: s.code("/v2", Authorization="Bearer second") == 200))
        check("the old one has ended", s.code("/v2", Authorization="Bearer first") == 401)
        os.chmod("tokens", 0o644)
        told(s, "other users can access this, a file of tokens")
        os.unlink("tokens")
        told(s, "No such file")
        check("and the last ones stay in use", s.code("/v2", Authorization="Bearer second") == 200)
        for name in ("tokens", "key.pem"):  # nobody writes into the pipe
            if os.path.exists(name):
                os.unlink(name)
            os.mkfifo(name, 0o600)
            told(s, f"{name}: is not a regular file")
            check(f"a pipe in the place of {name}", s.code("/v2", Authorization="Bearer second") == 200)
            os.unlink(name)


def addresses():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        return
    with Server("--host", "::1") as s:
        with Client(s.port, host="::1") as c:
            check("over IPv6", c.code(INFER, BODY) == 200)


# --- how far ---

def limits():
    with Server("--headers", "8", "--body", "1") as s:
        with s.plain() as c:
            sent = 0
            try:
                c.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: ")
                while sent < 1 << 30:
                    sent += c.send(b"x" * (1 << 16))
            except OSError:
                pass
            check("a gigabyte of headers is not taken", sent < 64 << 20, sent)
        for size in (4000, 9000):
            with s.plain() as c:
                c.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: " + b"x" * size + b"\r\n\r\n")
                got = read_all(c)[0]
                check(f"{size} bytes of headers", re.match(rb"HTTP/1.1 200" if size == 4000 else rb"HTTP/1.1 4(31|13)", got), got[:80])
        for size in (1 << 20, (1 << 20) + 1, 5 << 20):
            code, text, _ = s.ask(INFER, " " * size)
            check(f"a body of {size} bytes", code == (400 if size == 1 << 20 else 413) and "error" in json.loads(text), code)
        with s.plain() as c:
            c.sendall(b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000000\r\n\r\n")
            check("one of 100 GB is refused at once", c.recv(1000).startswith(b"HTTP/1.1 413"))
        with s.plain() as c:
            sent = 0
            try:
                c.sendall(b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                while sent < 1 << 30:
                    c.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
                    sent += 65536
            except OSError:
                pass
            check("one without end is cut off", sent < 64 << 20, sent)
        check("and others are answered", s.code(INFER, BODY) == 200)


def packed():
    """Bodies of gzip data are read as what they inflate to, and that has the limits of any body."""
    with Server("--body", "1") as s:
        for path, body, kind in ((INFER, BODY.encode(), "application/json"), ("/v2/models/m/predict", (",".join(["9"] * SIZE) + "\n").encode(), "text/csv"),
                                 ("/v2/models/m/predict", (",".join(["9"] * SIZE) + "\n").encode(), ""), ("/v2/repository/index", b'{"ready":true}', "")):
            more = {"Content_Type": kind} if kind else {}
            plain = s.ask(path, body, **more)
            for coding in ("gzip", "x-gzip", "GZIP"):
                code, text, _ = s.ask(path, gzip.compress(body), Content_Encoding=coding, **more)
                check(f"{path} with {coding}", code == 200 and text == plain[1] and plain[0] == 200, (code, text, plain))
        bomb = gzip.compress(b" " * (1 << 30), 9)  # 1 MB
        for path in (INFER, "/v2/models/m/predict", "/v2/repository/index"):
            code, text, _ = s.ask(path, gzip.compress(b" " * ((1 << 20) + 1)), Content_Encoding="gzip")
            check(f"{path}: too large when it is inflated", code == 413 and b"inflates to more than" in text, (code, text))
            code, text, _ = s.ask(path, bomb[:1 << 20], Content_Encoding="gzip")
            check(f"{path}: a bomb", code == 413, (code, text))
        check("and takes no memory", s.status("VmHWM") < 400, s.status("VmHWM"))
        for body in (BODY.encode(), gzip.compress(BODY.encode())[:-3], b"", gzip.compress(BODY.encode()) + b"x"):
            code, text, _ = s.ask(INFER, body, Content_Encoding="gzip")
            check("what is no gzip data", code == 400 and b"gzip" in text, (code, text))
        check("another coding", s.code(INFER, BODY, Content_Encoding="br") == 415)
        check("and it serves", s.code(INFER, BODY) == 200)


def foreign_pages():
    """A page may send a plain POST without being asked, also under a name that it had resolved to this server: it is refused."""
    paths = ("/v2/models/m", None), (INFER, BODY), ("/v2/repository/index", ""), ("/v2/repository/models/m/load", "{}"), ("/v2/repository/models/m/unload", "{}")
    for words in ("--control",), ("--control", "--cors", "https://a.example"):
        with Server(*words) as s:
            here = f"127.0.0.1:{s.port}"
            for origin, host in (("https://evil.example", here), (f"http://evil.example:{s.port}", f"evil.example:{s.port}"), ("null", here), ("", here), ("*", here),
                                 (f"http://127.0.0.1:{s.port + 1}", here), (f"http://localhost.evil:{s.port}", f"localhost.evil:{s.port}"),
                                 ("https://a.example.evil", here), (f"http://[evil]:{s.port}", f"[evil]:{s.port}")):
                for path, body in paths:
                    code, text, told = s.ask(path, body, Origin=origin, Host=host, Content_Type="text/plain")
                    check(f"{path} of {origin} at {host}", code == 403 and b"--cors" in text and "Access-Control-Allow-Origin" not in told, (code, text))
            for origin, host in (("https://a.example", here), ("https://a.example", "any.proxy")):
                check(f"{origin} at {host}", s.code(INFER, BODY, Origin=origin, Host=host) == (200 if "--cors" in words else 403))
            for host in here, f"localhost:{s.port}", f"x.localhost:{s.port}", f"[::1]:{s.port}", f"{socket.gethostname()}:{s.port}":
                check(f"its own page at {host}", s.code(INFER, BODY, Origin=f"http://{host}", Host=host) == 200)
            check("no page, of any name", s.code(INFER, BODY, Host="any.proxy") == 200)
            check("unload of its own page", s.code("/v2/repository/models/m/unload", "{}", Origin=f"http://{here}") == 200)
            check("ready without those that clients have unloaded", s.code("/v2/health/ready") == 200)
            for verb in "load", "unload":
                check(f"{verb} of a model that nobody knows", s.code(f"/v2/repository/models/n/{verb}", "{}") == 404)
    write("tokens", "* secret\n")
    for words, right in ((("--host", "0.0.0.0", "--control"), "tokens"), (("--host", "::", "--control"), "tokens"), (("--port", "18999", "--metrics-port", "18999"), "metrics-port")):
        done = run("serve", "m=c", *words, code=2)
        check(f"serve {words}", right in done.stderr, done)
    for words, warns in ((), True), (("--tokens", "tokens", "--control"), False):
        told = Server("--host", "0.0.0.0", *words, ports=(0, -1)).end()
        check(f"a warning of {words} at all addresses", ("without a token" in told) == warns, told)


def browsers():
    """Pages of the origins that are named may ask; a browser asks first, without a token."""
    write("tokens", "* secret\n")
    with Server("--cors", "https://a.example,http://b:80", "--tokens", "tokens") as s:
        for origin in ("https://a.example", "http://b:80"):
            code, text, told = s.ask(INFER, method="OPTIONS", Origin=origin, Access_Control_Request_Method="POST", Access_Control_Request_Headers="content-type")
            check(f"{origin} may ask", code == 204 and told["Access-Control-Allow-Origin"] == origin and "POST" in told["Access-Control-Allow-Methods"]
                  and "Authorization" in told["Access-Control-Allow-Headers"] and text == b"" and told["Vary"] == "Origin", told)
            code, _, told = s.ask(INFER, BODY, Origin=origin, Authorization="Bearer secret")
            check("and reads the answer", code == 200 and told["Access-Control-Allow-Origin"] == origin, told)
            code, _, told = s.ask(INFER, BODY, Origin=origin)
            check("and why it has none", code == 401 and told["Access-Control-Allow-Origin"] == origin, told)
        for origin in ("https://a.example:1", "http://a.example", "https://b.a.example", "null", "*"):
            code, _, told = s.ask(INFER, method="OPTIONS", Origin=origin, Access_Control_Request_Method="POST")
            check(f"{origin} may not", code == 401 and "Access-Control-Allow-Origin" not in told, (code, told))
    with Server("--cors", "*") as s:
        check("all may", s.ask(INFER, BODY, Origin="https://x")[2]["Access-Control-Allow-Origin"] == "https://x")
        check("who is no page is told nothing", "Access-Control-Allow-Origin" not in s.ask(INFER, BODY)[2])
    with Server() as s:
        code, _, told = s.ask(INFER, method="OPTIONS", Origin="https://x", Access_Control_Request_Method="POST")
        check("nobody may unless it is said", code == 204 and "Access-Control-Allow-Origin" not in told and "Vary" not in told, told)
    foreign_pages()
    for cors in ("a.example", "https://*.example", "https://a.example/", "https://", "https://a,", "ftp://a"):
        done = run("serve", "m=c", "--cors", cors, "--port", 0, "--metrics-port", -1, code=2)
        check(f"the origins {cors} are refused", "cors" in done.stderr, done)


def rates():
    with Server("--rate-limit", "4") as s:
        c, codes = s.client(), []
        for _ in range(12):
            code, _, told = c.ask(INFER, BODY)
            codes.append(code)
            if code == 429:
                check("it says when", int(told["Retry-After"]) >= 1)
        check("a second's worth, then no more", codes[:4] == [200] * 4 and codes.count(429) >= 6, codes)
        check("another connection is no way around it", s.code() == 429)
        with s.client(source_address=("127.0.0.2", 0)) as other:
            check("another address is another one", other.code() == 200)
        check("metrics at their own port do not count", all(s.code("/metrics", port=s.metrics[0]) == 200 for _ in range(10)))
        time.sleep(1.1)
        codes = [s.code() for _ in range(8)]
        check("and again", codes[:3] == [200] * 3 and 429 in codes, codes)
        c.close()


def connections():
    with Server("--connections", "5") as s:
        kept = [s.client() for _ in range(5)]
        for c in kept:
            check("one of those that may be", c.ask()[1])
        code, _, told = s.ask(INFER, BODY)
        check("one more", code == 503 and told["Retry-After"] and told["Connection"] == "close", code)
        many = [s.plain() for _ in range(200)]
        time.sleep(0.3)
        for c in kept:
            check("hurts no other", c.code(INFER, BODY) == 200)
            c.close()
        for c in many:
            c.close()
        check("and in their place another", wait_until(lambda: s.code(INFER, BODY) == 200))


def refusals():
    """What a model refuses after it was asked, between answers on the same connection."""
    def body(rows, **parameters):
        return json.dumps(one([9] * SIZE * rows, [rows, SIZE], parameters=parameters))
    # Two rows are a batch. One waits for another that does not come, three are more than may wait.
    with Server("--policy", "fixed:wait=30000000,max=2", "--waiting", "2") as s:
        c = s.client()
        for turn in range(3):
            for what, asked, code, words in (("an answer", body(2), 200, "prediction"), ("too late", body(1, timeout=1), 503, "its deadline"),
                                             ("too many beside one that waits", body(2), 503, "may have 2; try again later"),
                                             ("too many alone", body(3), 400, "(--waiting)")):
                if "waits" in what:
                    held = s.plain()
                    held.sendall(whole(body=body(1)))
                    wait_until(lambda: s.metric("weft_queue_rows") == 1)
                got, text, told = c.ask(INFER, asked)
                check(f"{what}, turn {turn}", got == code and words in text.decode() and ("error" in json.loads(text)) == (code != 200), (got, text))
                check(f"{what}: when to come again", told["Retry-After"] == ("1" if code == 503 else None), told)
                check(f"{what}: the connection stays", told["Connection"] != "close", told)
                if "waits" in what:
                    check("and the one that waits is answered", held.recv(100).startswith(b"HTTP/1.1 200"))
                    held.close()
        check("an answer at the end", c.ask(INFER, body(2))[1])  # who is refused hurries those who wait until the next batch
        check("they are counted", s.count("success") == 7, s.count("success"))
        c.close()


def few_files():
    """A server that is started with a low limit on open files raises it for its connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
    try:
        s = Server("--connections", "400")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with s:
        clients = [s.client() for _ in range(300)]
        for c in clients:
            c.connection.connect()
        check("the last of 300 connections is answered", clients[-1].code("/v2/health/live") == 200)
        for c in clients:
            c.close()


def drains():
    """While the last are answered, others hear that it ends; and those that they may go."""
    with Server("--policy", "fixed:wait=30000000,max=2") as s:
        ready = ("/v2/health/ready", "/v2/models/m/ready")
        check("it is ready", [s.code(path) for path in ready] == [200, 200])
        last, idle = s.plain(), [s.client() for _ in range(20)]
        for c in idle:
            c.connection.connect()
        last.sendall(whole(body=BODY[:-1] + ', "parameters": {"timeout": 700000}}'))
        while not re.search(rb"pending_request_count\{[^\n]* 1\n", s.ask("/metrics")[1]) and not select.select([last], [], [], 0.01)[0]:
            pass
        s.terminate()
        codes = []
        for c in idle:  # the first ones may be before the signal
            try:
                codes.append(c.code(ready[len(codes) % 2]))
            except (http.client.HTTPException, OSError):  # a slow machine: the last request has run into its time limit meanwhile
                check("the others are cut off after the last reply", select.select([last], [], [], 0)[0])
                break
            time.sleep(0.01)
        waits = not select.select([last], [], [], 0)[0]  # not so where the machine is very slow
        check("neither the server nor its model is ready any more", not waits or codes[-2:] == [503, 503], codes)
        reply = http.client.HTTPResponse(last)
        reply.begin()
        check("who waits is answered", reply.status == 503, reply.status)
        check("and told to go", not waits or reply.headers["Connection"] == "close", reply.headers)
        last.close()


def ends_while_loading():
    """A signal while batch times are written leaves no file that is half done."""
    for i in range(4):
        times = f"times{i}"
        os.mkdir(times)
        process = subprocess.Popen([weft, "serve", "-t", "1", "m=c", "n=c", "--measure", "0.05", "--times", times, "--port", "0", "--metrics-port", "-1", "-q"],
                                   stdout=subprocess.DEVNULL)
        while process.poll() is None and not os.listdir(times):
            pass
        process.send_signal(signal.SIGTERM)
        check("a signal while it loads ends it", process.wait(60) == 0, process.returncode)
        left = [name for name in os.listdir(times) if name not in ("m.json", "n.json")]
        check("no temporary file is left", not left, left)


def bad_starts():
    write("loose", "m secret\n", 0o640)
    write("cert.pem", CERTIFICATE, 0o644)
    write("key.pem", KEY)
    write("other.pem", OTHER_KEY)
    write("open.pem", KEY, 0o644)
    write("text", "nothing of this kind\n")
    write("empty", "# nobody\n")
    write("three", "m secret and more\n")
    write("long", "m " + "x" * 300 + "\n")
    key = ["--certificate", "cert.pem", "--key"]
    for words, code, told in ((["--tokens", "loose"], 2, "other users can access"), (["--tokens", "none"], 1, "No such file"), (["--tokens", "."], 1, "regular file"),
                              (["--tokens", "empty"], 1, "no token"), (["--tokens", "three"], 1, "three:1"), (["--tokens", "long"], 1, "256"),
                              (["--certificate", "cert.pem"], 2, "--key"), (["--key", "key.pem"], 2, "certificate"), ([*key, "none"], 1, "No such file"),
                              (["--certificate", "none", "--key", "key.pem"], 1, "No such file"), ([*key, "other.pem"], 1, "is not the key of"),
                              ([*key, "open.pem"], 2, "other users can access"), ([*key, "text"], 1, "no private key"),
                              (["--certificate", "text", "--key", "key.pem"], 1, "no certificate"), (["--log", "none/log"], 1, "No such file"),
                              (["--log", "."], 1, "directory"), (["--headers", "0"], 2, "headers"), (["--connections", "0"], 2, "connections"),
                              (["--rate-limit", "-1"], 2, "rate-limit"), (["--receive", "0"], 2, "receive"), (["--host", "::g"], 2, "::g")):
        done = run("serve", "m=c", *words, "--port", 0, "--metrics-port", -1, code=code)
        check(f"weft serve {words}", told in done.stderr and "listening" not in done.stdout, done)


sys.exit(main(tls, tokens, renewals, addresses, limits, packed, browsers, rates, connections, refusals, drains, few_files, ends_while_loading, bad_starts, first=train))
