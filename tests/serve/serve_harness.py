"""What the tests of the server's front have in common: a server, its model, and those who ask it."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

weft = os.path.abspath(sys.argv[1])
with open(weft, "rb") as f:
    program = f.read()
SANITIZED = any(word in program for word in (b"__asan_init", b"__tsan_init"))  # then freed memory stays resident
SIZE = 64
INFER = "/v2/models/m/infer"
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [9] * SIZE}]})
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
failed = passed = 0


def check(what, holds, told=""):
    global failed, passed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what}: {str(told)[:400]}", flush=True)


def write(path, text, mode=0o600):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


class Server:
    """One that serves the model m; what it prints behind its ports is `lines` when it has ended."""

    def __init__(self, *words, models=("m=c",), secure=None):
        self.process = subprocess.Popen([weft, "serve", "-t", "1", *models, *words, "--port", "0", "--metrics-port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.secure = secure
        self.port = None
        self.told = False
        for line in self.process.stdout:
            ports = re.findall(r"(https?)://(?:127\.0\.0\.1|\[::1\]):(\d+)", line)
            if ports:
                self.scheme, self.port, self.metrics = ports[0][0], int(ports[0][1]), int(ports[1][1])
                break

    def __enter__(self):
        return self

    def terminate(self):
        """Tells the server to end, once: a second signal would end it at once."""
        if not self.told:
            self.told = True
            self.process.send_signal(signal.SIGTERM)

    def __exit__(self, *_):
        self.terminate()
        try:
            self.lines, self.errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.lines = self.errors = "it does not end"
        check("the server ends with 0", self.process.returncode == 0, (self.process.returncode, self.errors))

    def client(self, port=None, **more):
        if self.secure:
            return http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=30, context=self.secure)
        return http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30, **more)

    def ask(self, path="/v2", body=None, method=None, port=None, **headers):
        """Code, headers and text of one request over a connection of its own."""
        c = self.client(port)
        try:
            c.request(method or ("GET" if body is None else "POST"), path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            reply = c.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            c.close()

    def code(self, *words, **more):
        return self.ask(*words, **more)[0]

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def count(self, reason):
        text = self.ask("/metrics")[2].decode()
        return int(float(re.search(rf"nv_inference_request_{reason}[^\n]* ([0-9.e+]+)\n", text).group(1)))


def whole(path=INFER, body=BODY, more=""):
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


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


def main(*parts):
    """Runs all of them, or those that are named behind the path of weft."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([weft, "train", "-m", "mlp", "--data", "glyphs:size=8,train=100,test=20", "-e", "1", "-c", "c", "-q", "-t", "1"], check=True)
        for part in parts:
            if len(sys.argv) < 3 or part.__name__ in sys.argv[2:]:
                part()
        os.chdir("/")
    print(f"{passed} passed, {failed} failed")
    return failed > 0
