#!/usr/bin/env python3
"""Mapped files that are too large to be read before a run: tests/data/large_data.py PATH/TO/weft

A run maps no more pages than its samples need, finds a bad element when its sample is read, names it, and stops before the
update. The files are sparse, so that they take no room until they are read.
"""
import json
import os
import struct
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft
from npy import npy_head

folder = scratch()
SIZE, MOST = 1 << 30, 300 << 20  # bytes of the large files, and of resident memory for a few samples
SIDE, ROWS = 256, 4096


def sparse(name, head, size, values=()):
    """A file of `size` bytes behind its head; values: pairs of a place behind the head and bytes."""
    with open(name, "wb") as f:
        f.write(head)
        f.truncate(len(head) + size)
        for at, data in values:
            f.seek(len(head) + at)
            f.write(data)


def run(words, most=MOST):
    """Runs a command; its output, and whether its resident memory, with the pages of mapped files, stays below `most`."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.execv(weft, [weft, *words.split(), "-t", "1"])
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), said, usage.ru_maxrss * 1024


def small(what, words):
    code, said, peak = run(words)
    check(what, code == 0 and peak < MOST, (code, said, peak))


def refused(what, words, message, code=1):
    got, said, peak = run(words)
    check(what, got == code and message in said and peak < MOST, (got, said, peak))


def floats(x):
    return struct.pack("<f", x)


labels = bytes(i % 2 for i in range(ROWS))
image, data = SIDE * SIDE * 4, "npy:x.npy,y.npy,test=0.001"
with open("own.yaml", "w") as f:
    f.write("layers:\n  - {type: flatten}\n  - {type: dense, units: outputs}\n")
with open("next.yaml", "w") as f:
    f.write("layers:\n  - {type: embedding, units: 4}\n  - {type: linear, units: outputs}\n")
sparse("y.npy", npy_head("|u1", [ROWS]), ROWS, [(0, labels)])
sparse("x.npy", npy_head("<f4", [ROWS, SIDE, SIDE]), SIZE)
train = "train -q -m own.yaml -b 4 --steps 2 --metrics m.jsonl -d "
small("train", train + data + " --checkpoint run")
small("plan", f"plan -m own.yaml -b 4 -d {data}")
small("resume", train.replace("--steps 2", "--steps 4") + data + " --checkpoint run --resume")
small("evaluate", f"eval run -d {data}")
small("predict", "predict run -d npy:x.npy,test=0.001 -o p.csv")
small("two ranks", train + data + " -n 2")
small("two processes of MPI", train + data + " -n 2 --engine mpi")

# A number that is not finite, in each sample of which the row is odd: a batch of 4 has one soon.
sparse("bad.npy", npy_head("<f4", [ROWS, SIDE, SIDE]), SIZE,
       [(row * image + 777 * 4, floats(float("nan"))) for row in range(1, ROWS, 2)])
for ways in "", " -n 2", " -n 2 --exchange gossip", " -n 2 --engine mpi":
    code, said, peak = run(train.replace("2 --metrics", "40 --metrics") + "npy:bad.npy,y.npy,test=0.001" + ways)
    place = said[said.find("bad.npy: number"):].split()
    check("a number that is not finite" + ways, code == 1 and place[1:5] == ["number", "777", "of", "sample"] and
          int(place[5]) % 2 == 1 and place[6:8] == ["is", "nan,"] and peak < MOST, (code, said, peak))
    losses = [event["loss"] for event in map(json.loads, open("m.jsonl")) if event["event"] == "step"]
    check("no step has it" + ways, all(isinstance(loss, float) for loss in losses), losses)
refused("evaluate it", "eval run -d npy:bad.npy,y.npy,test=0.01", "bad.npy: number 777 of sample ")
refused("predict it", "predict run -d npy:bad.npy,test=0.01", "bad.npy: number 777 of sample ")

# Tokens, and one-hot labels of which a late row is none.
sparse("t.bin", b"", SIZE, [(SIZE // 2 + i * 4096, struct.pack("<H", 300)) for i in range(1, 20000)])
tokens = "tokens:t.bin,values=%d,context=4096,test=0.00005"
small("train on tokens", "train -q -m next.yaml -b 4 --steps 2 --checkpoint words -d " + tokens % 301)
code, said, peak = run("train -q -m next.yaml -b 4 --steps 40 -d " + tokens % 300)
place = said[said.find("t.bin: token"):].split()
at = int(place[2]) if len(place) > 2 and place[2].isdigit() else -1
check("a token out of range", code == 1 and at % 2048 == 0 and f"t.bin: token {at} (byte {2 * at}) is 300, must be from 0 to 299" in said
      and peak < MOST, (code, said, peak))
sparse("wide.npy", npy_head("|u1", [80 << 10, 1024]), 80 << 20, [(1024 * row + row % 8, b"\1") for row in range(64)])
sparse("few.npy", npy_head("|u1", [80 << 10, 2]), 160 << 10)
refused("labels that are no longer one-hot", "train -q -m own.yaml -b 64 --steps 9 --normalize none -d npy:few.npy,wide.npy", "wide.npy: the numbers of sample ")

# IDX files of floats, big-endian
os.mkdir("idx")
for part, rows in ("train", ROWS), ("t10k", 4):
    sparse(f"idx/{part}-images-idx3-ubyte", b"\0\0\x0d\3" + struct.pack(">3I", rows, SIDE, SIDE), rows * image,
           [(row * image + 5 * 4, struct.pack(">f", float("inf"))) for row in range(1, rows, 2)] if part == "train" else ())
    sparse(f"idx/{part}-labels-idx1-ubyte", b"\0\0\x08\1" + struct.pack(">I", rows), rows, [(0, labels[:rows])])
refused("IDX", "train -q -m own.yaml -b 4 --steps 40 -d idx:idx", ": element 5 is inf, and not a finite number")
small("evaluate IDX", "eval run -d idx:idx")

# Small files are checked before the run.
sparse("s.npy", npy_head("<f4", [20, 3]), 240, [(4 * 34, floats(float("nan")))] + [(4 * i, floats(i)) for i in range(34)])
sparse("sy.npy", npy_head("|u1", [20]), 20, [(0, labels[:20])])
for normalize in "none", "standard":
    refused(f"a small file, {normalize}", f"train -q -m mlp -b 4 --steps 1 --normalize {normalize} -d npy:s.npy,sy.npy", "s.npy: number 1 of sample 11 is nan, and not a finite")

# A mapped file that is cut off while it is read ends each command with a sentence that names it.
many = 1 << 21
sparse("ly.npy", npy_head("|u1", [many]), many, [(0, labels)])


def mapped(name):
    """Whether a process has mapped the file."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps") as f:
                if os.path.join(folder, name) in f.read():
                    return True
        except OSError:
            pass
    return False


def cut_off(words):
    sparse("l.npy", npy_head("|u1", [many, 64, 64]), many << 12)
    child = subprocess.Popen([weft, *words.split(), "-t", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not mapped("l.npy"):
        time.sleep(0.05)
    time.sleep(0.3)
    os.truncate("l.npy", 5000)
    try:
        said = child.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        said = "still running"
    check(f"a file is cut off: {words}", child.returncode == 1 and "l.npy: was cut off while it was read" in said, (child.returncode, said))


many_data = "npy:l.npy,ly.npy"
sparse("l.npy", npy_head("|u1", [many, 64, 64]), many << 12)
small("train on many", f"train -q -m own.yaml -b 4 --steps 2 --checkpoint many -d {many_data},test=0.00001")
for words in (f"train -q -m own.yaml -b 64 -d {many_data}", f"train -q -m own.yaml -b 64 -n 2 -d {many_data}", f"train -q -m own.yaml -b 64 -n 2 --engine mpi -d {many_data}",
              f"eval many -d {many_data},test=1", "predict many -d npy:l.npy", f"simulate -q -n 2 -m own.yaml -b 64 --exchange gossip -d {many_data}"):
    cut_off(words)

# The peak memory of a run does not count the pages of mapped files.
sparse("u.npy", npy_head("|u1", [ROWS, SIDE, SIDE]), ROWS * SIDE * SIDE)
code, said, peak = run("train -q -m own.yaml -b 64 --steps 32 --metrics m.jsonl -d npy:u.npy,y.npy", 1 << 40)
own = json.loads(open("m.jsonl").readlines()[-1])["peak_rss_bytes"]
check("peak memory", code == 0 and own > 1 << 20 and peak - own > 100 << 20, (code, said, peak, own))

sys.exit(end())
