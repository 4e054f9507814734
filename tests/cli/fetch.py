#!/usr/bin/env python3
"""weft fetch against a server of its own, which breaks connections, has no ranges, and sends other files: tests/cli/fetch.py PATH/TO/weft"""
import ctypes.util
import fcntl
import gzip
import hashlib
import http.server
import io
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading

weft = os.path.abspath(sys.argv[1])
if not (ctypes.util.find_library("curl") or ctypes.util.find_library("curl-gnutls")):
    print("SKIPPED: libcurl is not here")
    sys.exit(0)
NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]


def noise(count, seed):
    return b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(count // 32 + 1))[:count]


def idx(shape, seed):
    count = 1
    for n in shape:
        count *= n
    data = noise(count, seed) if len(shape) > 1 else bytes(i % 10 for i in range(count))
    return gzip.compress(struct.pack(">I", 0x800 + len(shape)) + struct.pack(f">{len(shape)}I", *shape) + data)


def cifar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for seed, name in enumerate([f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]):
            data = b"".join(bytes([i % 10]) + noise(3072, 100 * seed + i) for i in range(20))
            info = tarfile.TarInfo("cifar-10-batches-bin/" + name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


FILES = {NAMES[0]: idx((200, 12, 12), 1), NAMES[1]: idx((200,), 2), NAMES[2]: idx((50, 12, 12), 3), NAMES[3]: idx((50,), 4),
         "cifar-10-binary.tar.gz": cifar()}
log = []  # (path, Range) of requests


class Server(http.server.BaseHTTPRequestHandler):
    """/plain/, /broken/: each answer ends after 7000 bytes; /whole/: without ranges; /other/: other bytes; /moved/: elsewhere."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        _, way, name = self.path.split("/", 2)
        wanted = self.headers.get("Range")
        log.append((self.path, wanted))
        data = FILES.get(name)
        if way == "moved":
            self.send_response(302)
            self.send_header("Location", "/plain/" + name)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if data is None:
            return self.send_error(404)
        begin = 0
        if wanted and way != "whole":
            begin = int(wanted.split("=")[1].split("-")[0])
            if begin >= len(data):
                return self.send_error(416)
        if way == "other":
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:begin + 7000] if way == "broken" else data[begin:])
        self.close_connection = way == "broken"

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
checked = failed = 0


def check(what, fine, shown=""):
    global checked, failed
    checked += 1
    if not fine:
        failed += 1
        print(f"FAILED: {what}\n{shown}")


def fetch(words, code, says, stdout=False):
    done = subprocess.run([weft, "fetch", *words], capture_output=True, text=True, env={**os.environ, "XDG_DATA_HOME": top + "/home"}, timeout=60)
    text = done.stdout if stdout else done.stderr
    check(f"weft fetch {' '.join(words)}", done.returncode == code and says in text, f"{done.returncode}: {done.stdout}{done.stderr}")


with tempfile.TemporaryDirectory() as top:
    sums = pathlib.Path(top, "SHA256SUMS")
    sums.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in FILES.items()))
    to = pathlib.Path(top, "a/b")
    mnist = ["mnist", "--to", str(to), "--sums", str(sums)]
    # What is whole is named and left alone; breaks are gone on from, on the same part, as is what an earlier run has left.
    part = to / (NAMES[0] + ".part")
    to.mkdir(parents=True)
    part.write_bytes(FILES[NAMES[0]][:5000])
    fetch([*mnist, "--from", base + "/broken/"], 0, f"weft train --data mnist:{to}", True)
    check("the first request goes on", log[0] == (f"/broken/{NAMES[0]}", "bytes=5000-"), str(log[:3]))
    check("breaks", sum(path.endswith(NAMES[0]) for path, _ in log) > 3 and all((to / n).read_bytes() == FILES[n] for n in NAMES), str(log))
    check("no part is left", not list(to.glob("*.part")))
    log.clear()
    fetch([*mnist, "--from", base + "/broken"], 0, "is here", True)
    check("nothing is fetched twice", not log, str(log))
    # A server without ranges, and a part that is longer than the file: it begins again.
    for way, left in ("whole", FILES[NAMES[2]][:99]), ("plain", b"x" * 99999), ("moved", b""):
        (to / NAMES[2]).unlink()
        (to / (NAMES[2] + ".part")).write_bytes(left)
        fetch([*mnist, "--from", f"{base}/{way}"], 0, NAMES[2], True)
        check(way, (to / NAMES[2]).read_bytes() == FILES[NAMES[2]])
    # Another file, none, and no server.
    (to / NAMES[1]).unlink()
    fetch([*mnist, "--from", base + "/other"], 1, "it is another file, and was removed")
    check("a wrong file is not kept", not (to / NAMES[1]).exists() and not list(to.glob("*.part")))
    fetch([*mnist, "--from", base + "/plain/no"], 1, "the server answers 404")
    # Only bytes that are there are gone on from, and one fetch alone writes a part.
    part = to / (NAMES[1] + ".part")
    for kept in b"", FILES[NAMES[1]][:3]:
        part.write_bytes(kept)
        done = subprocess.run([weft, "fetch", *mnist, "--from", "http://127.0.0.1:9"], capture_output=True, text=True)
        says = "goes on behind 3 bytes" in done.stderr if kept else "behind" not in done.stderr
        check("no server", done.returncode == 1 and says, done.stderr)
    with part.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fetch([*mnist, "--from", base + "/plain"], 1, f"another weft fetch writes {part}; fetch again when it has ended")
    check("the part of another fetch", part.read_bytes() == FILES[NAMES[1]][:3])
    fetch(["mnist", "--to", str(to), "--from", base + "/plain"], 1, "must have 440fcabf")
    fetch(["mnist", "--to", str(to), "--sums", str(to / NAMES[0]), "--from", base + "/plain"], 1, "has no line with the SHA-256")
    fetch(["emnist"], 2, "no data set is named 'emnist'; there are mnist, fashion-mnist and cifar10")
    fetch([], 2, "no data set is given")
    # --data finds what was fetched.
    run = [weft, "train", "--model", "mlp", "--steps", "2", "--batch", "10"]
    for name in "mnist", "cifar10":
        fetch([name, "--sums", str(sums), "--from", base + "/plain"], 0, f"weft train --data {name}", True)
        done = subprocess.run([*run, "--data", name], capture_output=True, text=True, env={**os.environ, "XDG_DATA_HOME": top + "/home"})
        check(f"--data {name}", done.returncode == 0 and "accuracy" in done.stdout, done.stderr)
    # The archive is the same data as its files; one that is cut off and the Python version are refused.
    home = pathlib.Path(top, "home/weft/cifar10")
    with tarfile.open(home / "cifar-10-binary.tar.gz") as tar:
        tar.extractall(top + "/files", filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(top + "/files")
    weights = []
    for folder in home, pathlib.Path(top, "files"):
        subprocess.run([*run, "--data", f"cifar10:{folder}", "--checkpoint", folder / "run", "--quiet"], check=True)
        subprocess.run([weft, "export", folder / "run/latest", "--quiet", "-o", folder / "w.safetensors"], check=True)
        weights.append((folder / "w.safetensors").read_bytes())
    check("the archive has the files", weights[0] == weights[1])
    pathlib.Path(top, "cut").mkdir()
    raw = gzip.decompress(FILES["cifar-10-binary.tar.gz"])
    for data, says in (raw[:70000], "the tar archive is cut off at byte 70000, within 'cifar-10-batches-bin/data_batch_2.bin'"), (b"x" * 2000, "is no tar archive, or damaged, at byte 0"):
        pathlib.Path(top, "cut/cifar-10-binary.tar").write_bytes(data)
        done = subprocess.run([*run, "--data", f"cifar10:{top}/cut"], capture_output=True, text=True)
        check(says, done.returncode == 1 and says in done.stderr, done.stderr)
    pathlib.Path(top, "python").mkdir()
    pathlib.Path(top, "python/data_batch_1").write_bytes(b"pickle")
    done = subprocess.run([*run, "--data", f"cifar10:{top}/python"], capture_output=True, text=True)
    check("the Python version", "get the binary version (weft fetch cifar10)" in done.stderr, done.stderr)
print(f"{checked - failed} passed, {failed} failed")
sys.exit(failed > 0)
