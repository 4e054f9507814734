"""What the tests that ask a server share: servers, checks, pictures."""
import html.parser
import http.client
import json
import os
import re
import struct
import subprocess
import sys
import zlib

weft = os.path.abspath(sys.argv[1])
SIDE = 11
SIZE = SIDE * SIDE
failed = passed = 0


def check(what, holds, told=""):
    global failed, passed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what}: {str(told)[:600]}", flush=True)


def run(*words):
    done = subprocess.run([weft, *words], capture_output=True, text=True, timeout=120)
    check("weft " + " ".join(words), done.returncode == 0, done.stderr)
    return done.stdout


class Server:
    def __init__(self, *words):
        self.process = subprocess.Popen([weft, "serve", "-t", "1", *words, "--port", "0", "--metrics-port", "0"], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            ports = re.findall(r"http://127\.0\.0\.1:(\d+)", line)
            if ports:
                self.port = int(ports[0])
                break
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, path, body=None, method=None, headers={}):
        self.connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
        reply = self.connection.getresponse()
        return reply.status, reply.read(), reply

    def told(self, path, body=None, **more):
        code, text, _ = self.ask(path, body, **more)
        return code, json.loads(text)

    def end(self):
        self.connection.close()
        self.process.terminate()
        check("the server ends with 0", self.process.wait(60) == 0)


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def one(data, shape=None, datatype="FP32", **more):
    return {"inputs": [{"name": "x", "shape": shape or [1, SIZE], "datatype": datatype, "data": data}], **more}


def png(width, height, pixels, colour=0):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    across = len(pixels) // height
    rows = b"".join(b"\0" + bytes(pixels[across * i:across * i + across]) for i in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


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


def told_all():
    """The last line, and whether anything failed."""
    print(f"{passed} passed, {failed} failed")
    return failed > 0
