#!/usr/bin/env python3
"""Where a request ends, as RFC 9112 says it: tests/serve/serve_framing.py PATH/TO/weft

Whatever a proxy and the server could read in two ways is refused, and the connection closed, so that what follows never runs as a
request of its own (request smuggling). tests/fuzz/fuzz_http.c compares every head and body with the grammar.
"""
import json
import re
import sys

from serve_harness import BODY, INFER, Server, check, main, read_all, train

HIDDEN = b"POST /v2/repository/models/m/unload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
FIRST, HOST = b"POST /v2/models/m/infer HTTP/1.1", b"Host: a"
CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(BODY)


def whole(*lines, first=FIRST, host=(HOST,), body=BODY.encode()):
    return b"\r\n".join([first, *host, *lines]) + b"\r\n\r\n" + body


def chunk(data, size=None, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(data) if size is None else size, extension, data)


def talk(s, data, pieces=1):
    """All that comes back until the server closes the connection."""
    with s.plain() as c:
        try:
            step = -(-len(data) // pieces)
            for i in range(0, len(data), step):
                c.sendall(data[i:i + step])
        except OSError:
            pass
        return read_all(c)[0]


def refused(s, what, data, code=b"400"):
    """The answer is one refusal, in JSON, and the connection is closed; the hidden request never ran."""
    for pieces in (1, 9):
        got = talk(s, data, pieces)
        head, _, body = got.partition(b"\r\n\r\n")
        holds = got.startswith(b"HTTP/1.1 " + code) and len(re.findall(rb"HTTP/1.1 \d", got)) == 1 and b"Connection: close" in head
        check(f"{what} is refused", holds and json.loads(body)["error"], got[:300])
    check(f"{what}: nothing hidden ran", s.code("/v2/models/m/ready") == 200)
    if s.code("/v2/models/m/ready") != 200:
        s.code("/v2/repository/models/m/load", "")


def answered(s, what, data, codes=(b"200",)):
    got = talk(s, data)
    found = re.findall(rb"HTTP/1.1 (\d+) ", got)
    check(f"{what} is answered", found == list(codes), got[:400])


def lengths(s):
    two = [b"Content-Length: 4", LENGTH], [LENGTH, b"Content-Length: 4"], [LENGTH, LENGTH], [b"Content-Length: 4, 4"], [b"Content-Length: +4"], \
        [b"Content-Length: 0x4"], [b"Content-Length:"], [b"Content-Length: 4 4"], [b"Content-Length: -1"], [b"Content-Length : 4"], [b"Content-Length\t: 4"], \
        [b" Content-Length: 4"], [b"Content-Length: \x0b4"], [b"Content-Length: 4\0"]
    for lines in two:
        refused(s, str(lines), whole(*lines, body=b"{}  " + HIDDEN))
    refused(s, "a length without end", whole(b"Content-Length: 99999999999999999999", body=HIDDEN), code=b"413")
    answered(s, "a length", whole(LENGTH, b"Connection: close"))
    answered(s, "a length with zeros", whole(b"Content-Length: 000%d" % len(BODY), b"Connection: close"))


def codings(s):
    body = chunk(b"{}") + chunk(b"")
    for lines in ([CHUNKED, b"Content-Length: 4"], [b"Content-Length: 4", CHUNKED], [CHUNKED, b"Content-Length: %d" % (len(body) + len(HIDDEN))],
                  [b"Transfer-Encoding: chunked, chunked"], [CHUNKED, CHUNKED], [b"Transfer-Encoding: chunked, gzip"], [b"Transfer-Encoding: gzip"],
                  [b"Transfer-Encoding: xchunked"], [b"Transfer-Encoding: chunked; a=b"], [b"Transfer-Encoding: \x0bchunked"], [b"Transfer-Encoding:"],
                  [b"Transfer-Encoding : chunked"], [b"Transfer-Encoding\r\n : chunked"], [b"X: a\nTransfer-Encoding: chunked"],
                  [b"X: a\rTransfer-Encoding: chunked"], [b"Transfer-Encoding: identity"], [b"Transfer-Encoding: 'chunked'"]):
        refused(s, str(lines), whole(*lines, body=body + HIDDEN))
    refused(s, "gzip, chunked", whole(b"Transfer-Encoding: gzip, chunked", body=body + HIDDEN), code=b"501")
    refused(s, "chunks in HTTP/1.0", whole(CHUNKED, first=FIRST.replace(b"1.1", b"1.0"), body=body + HIDDEN))
    refused(s, "chunks in HTTP/1.0 that goes on", whole(CHUNKED, b"Connection: keep-alive", first=FIRST.replace(b"1.1", b"1.0"), body=body + HIDDEN))
    parts = [BODY.encode()[i:i + 37] for i in range(0, len(BODY), 37)]
    good = b"".join(chunk(p, extension=b";a=b" if i % 3 else b"") for i, p in enumerate(parts)) + b"000\r\nX-Sum: 1\r\nContent-Length: 4\r\n\r\n"
    answered(s, "chunks", whole(b"Transfer-Encoding:\t CHUNKED ,", body=good + whole(LENGTH, b"Connection: close")), codes=(b"200", b"200"))
    for bad in (b"3\n{} \r\n0\r\n\r\n", b"3 \r\n{} \r\n0\r\n\r\n", b"0x3\r\n{} \r\n0\r\n\r\n", b"+3\r\n{} \r\n0\r\n\r\n", b"3\r\n{} X\r\n0\r\n\r\n", b"3\r\n{} \n0\r\n\r\n",
                b"3\r{} \r\n0\r\n\r\n", b"3;\n\r\n{} \r\n0\r\n\r\n", b"3;a\0\r\n{} \r\n0\r\n\r\n", b"\r\n", b"10000000000000003\r\n{} \r\n0\r\n\r\n", b"0\r\n a: b\r\n\r\n", b"0\r\na\r\n\r\n",
                b"0\r\na : b\r\n\r\n", b"0\r\na: b\n\r\n", b"0\r\n\n", b"g\r\n"):
        refused(s, f"chunks {bad}", whole(CHUNKED, body=bad + HIDDEN))
    for long in (b"3;" + b"a" * 20000 + b"\r\n{} \r\n0\r\n\r\n", b"0\r\n" + b"a: b\r\n" * 4000 + b"\r\n", b"0" * 20000 + b"\r\n\r\n"):
        refused(s, f"{len(long)} bytes around chunks", whole(CHUNKED, body=long + HIDDEN), code=b"431")


def hosts(s):
    for host in ((), (HOST, HOST), (HOST, b"host: b"), (b"Host: a b",), (b"Host: a/b",), (b"Host: a@b",), (b"Host: a:b",), (b"Host: :80",), (b"Host : a",)):
        refused(s, f"the hosts {host}", whole(LENGTH, host=host, body=BODY.encode() + HIDDEN))
    for host in ((b"Host: a.b-c:8000",), (b"Host: [::1]:80",), (b"Host:",), (b"host: 127.0.0.1",)):
        answered(s, f"the host {host}", whole(LENGTH, b"Connection: close", host=host))
    answered(s, "HTTP/1.0 without a host", whole(LENGTH, first=FIRST.replace(b"1.1", b"1.0"), host=()))
    for target in (b"http://other:80/v2/models/m/infer", b"HTTPS://a/v2/models/m/infer?x=1"):
        answered(s, f"the target {target}", whole(LENGTH, b"Connection: close", first=b"POST %s HTTP/1.1" % target))
    for target in (b"ftp://a/v2", b"http:///v2", b"http://u@a/v2", b"v2", b"*", b"/\xff", b"/#a", b"/a\\b", b"/%4", b"/%00"):
        refused(s, f"the target {target}", whole(LENGTH, first=b"POST %s HTTP/1.1" % target, body=BODY.encode() + HIDDEN))
    answered(s, "OPTIONS *", whole(b"Connection: close", first=b"OPTIONS * HTTP/1.1", body=b""), codes=(b"204",))
    # What a proxy takes for another path is another path here, too.
    for path in ("//v2/repository/models/m/unload", "/v2//repository/models/m/unload", "/x/../v2/repository/models/m/unload", "/v2/repository%2fmodels%2fm%2funload"):
        check(f"the path {path} leads nowhere", s.code(path, "") == 404)


def tokens(s):
    for other in (b"Authorization: Bearer b", b"authorization: Bearer a", b"AUTHORIZATION:"):
        refused(s, f"a second token, {other}", whole(b"Authorization: Bearer a", other, LENGTH, body=BODY.encode() + HIDDEN))
    for field in (b"Origin: http://localhost", b"Content-Type: application/json", b"Inference-Header-Content-Length: %d" % len(BODY),
                  b"Content-Encoding: identity", b"X-Request-ID: a"):
        refused(s, f"a second field, {field}", whole(field, field, LENGTH, body=BODY.encode() + HIDDEN))
        answered(s, f"one field, {field}", whole(field, LENGTH, b"Connection: close"), (b"403" if b"Origin" in field else b"200",))
    answered(s, "one token", whole(b"Authorization: Bearer a", LENGTH, b"Connection: close"))


def lines(s):
    for line in (b"X: a\rb", b"X: a\nb", b"X: a\n b", b"X: a\0b", b"X\0: a", b"X: a\r\n b", b"X: a\r\n\tb", b"X: a\x01", b"X: a\x7f", b"X", b": a", b"X y: a", b"X(: a", b"X : a", b"\tX: a",
                 b"X: a\r\r\nY: b"):
        refused(s, f"the line {line}", whole(line, LENGTH, body=BODY.encode() + HIDDEN))
    for first in (b"POST  /v2 HTTP/1.1", b"POST /v2  HTTP/1.1", b"POST\t/v2 HTTP/1.1", b"POST /v2 HTTP/1.1 ", b" POST /v2 HTTP/1.1", b"POST /v2", b"POST /v2 HTTP/1.10", b"POST /v2 http/1.1",
                  b"P(ST /v2 HTTP/1.1", b"POST /v2 HTTP/1,1", b"\r\n\r\nPOST /v2 HTTP/1.1"):
        refused(s, f"the line {first}", whole(LENGTH, first=first, body=BODY.encode() + HIDDEN))
    refused(s, "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN, code=b"505")
    refused(s, "CONNECT", whole(first=b"CONNECT a:80 HTTP/1.1", body=HIDDEN), code=b"501")
    refused(s, "an expectation", whole(LENGTH, b"Expect: 200-ok", body=BODY.encode() + HIDDEN), code=b"417")
    refused(s, "many fields", whole(*[b"A: b"] * 200, body=HIDDEN), code=b"431")
    answered(s, "an empty line before it", b"\r\n" + whole(LENGTH, body=BODY.encode() + b"\r\n" + whole(LENGTH, b"Connection: close")), codes=(b"200", b"200"))
    answered(s, "bytes above ASCII", whole(LENGTH, b"X: \xe4\xff\tb", b"Connection: close"))


def framing():
    with Server("--control", "--timeout", "2", "--receive", "2") as s:
        for part in (lengths, codings, hosts, tokens, lines):
            part(s)
        check("and it serves", s.code(INFER, BODY) == 200)
        with s.plain() as c:
            c.sendall(b"GET / HTTP/1.1\r\n")
            got = read_all(c)[0]
            check("who sends half a head is told", got.startswith(b"HTTP/1.1 408"), got)


sys.exit(main(framing, first=train))
