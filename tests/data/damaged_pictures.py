#!/usr/bin/env python3
"""Folders and archives of pictures with damaged ones among them: tests/data/damaged_pictures.py PATH/TO/weft

Each damaged picture is named in one warning, another one takes its place, and two ranks train to the same bits as one; more of them
than the share end the run with a sentence. An archive that is cut off or changed anywhere is read or refused with a sentence.
"""
import io
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tarfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft
from png import png

FAST = "WEFT_FAST" in os.environ
SIDE = 8


def good(draw):
    return png(SIDE, SIDE, draw.randbytes(3 * SIDE * SIDE), 2)


def write(path, data):
    with open(path, "wb") as out:
        out.write(data)


def flipped(draw):
    data = bytearray(good(draw))
    data[draw.randrange(50, len(data) - 16)] ^= 1 << draw.randrange(8)
    return bytes(data)


def huge(path, _):
    write(path, b"")
    os.truncate(path, 1 << 41)


def bind(path, _):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)


DAMAGES = {
    "empty": lambda path, draw: write(path, b""),
    "cut off": lambda path, draw: write(path, (data := good(draw))[:draw.randrange(1, len(data))]),
    "noise": lambda path, draw: write(path, draw.randbytes(draw.randrange(1, 3000))),
    "a text": lambda path, draw: write(path, b"<html>not found</html>"),
    "a GIF": lambda path, draw: write(path, b"GIF89a" + draw.randbytes(99)),
    "a byte changed": lambda path, draw: write(path, flipped(draw)),
    "too many pixels": lambda path, draw: write(path, png(50000, 50000, bytes(50000 * 2))),
    "noise behind the head of a JPEG": lambda path, draw: write(path, b"\xff\xd8\xff\xe0" + draw.randbytes(200)),
    "WebP without an end": lambda path, draw: write(path, b"RIFF\x20\0\0\0WEBPVP8 " + draw.randbytes(12)),
    "a link to nothing": lambda path, draw: os.symlink("nothing", path),
    "a link to itself": lambda path, draw: os.symlink(os.path.basename(path), path),
    "a pipe": lambda path, draw: os.mkfifo(path),
    "a socket": bind,
    "too many bytes": huge,
}


def make_folder(draw, name, damages):
    """A folder with parts; the damaged pictures of each part. Each class keeps at least two good ones."""
    damaged, count = {"train": [], "test": []}, {}
    for part in damaged:
        for label in "abc":
            os.makedirs(f"{name}/{part}/{label}")
            for i in range(draw.randrange(2, 6)):
                write(f"{name}/{part}/{label}/{i}.png", good(draw))
        for i in range(damages):
            path = f"{name}/{part}/{draw.choice('abc')}/{draw.choice('09')}x{i}.png"
            DAMAGES[draw.choice(list(DAMAGES))](path, draw)
            damaged[part].append(path)
        count[part] = sum(len(files) for _, _, files in os.walk(f"{name}/{part}"))
    return damaged, count


def train(name, broken, *more, code=0, kind="images"):
    shutil.rmtree("run", ignore_errors=True)
    return run("train", "--data", f"{kind}:{name},size={SIDE},broken={broken}", "--model", "mlp", "--epochs", 1, "--batch", 4, "--virtual-workers",
               2, "-t", 1, "--checkpoint", "run", *more, code=code)


def weights():
    run("export", "run/latest", "-o", "weights.safetensors")
    with open("weights.safetensors", "rb") as file:
        return file.read()


def folders():
    for seed in range(10 if FAST else 100):
        draw = random.Random(seed)
        name = f"f{seed}"
        damaged, count = make_folder(draw, name, draw.randrange(1, 5))
        told = train(name, 0.7).stderr
        for path in sum(damaged.values(), []):
            warnings = [line for line in told.splitlines() if line.startswith(f"weft: {path}: ") and "takes its place" in line]
            check(f"seed {seed}: {path} is named once", len(warnings) == 1, told)
        alone = weights()
        train(name, 0.7, "-n", 2)
        check(f"seed {seed}: two ranks train to the same bits", weights() == alone)
        share = draw.choice([0, 0.01, (len(damaged["train"]) - 0.5) / count["train"]])
        allowed = max(1, int(share * count["train"])) if share else 0
        if len(damaged["train"]) > allowed:
            last = train(name, share, code=1).stderr.strip().splitlines()[-1]
            wanted = rf"weft: .*; {allowed + 1} of {count['train']} pictures of the training part cannot be read, and broken={share:g} allows {allowed}; .*"
            check(f"seed {seed}: too many are refused", re.fullmatch(wanted, last) and any(path in last for path in damaged["train"]), last)


def reconstructed():
    for seed in range(4 if FAST else 40):
        draw = random.Random(seed)
        name = f"r{seed}"
        damaged, _ = make_folder(draw, name, draw.randrange(1, 5))
        told = train(name, 0.7, kind="reconstruct:images").stderr
        for path in sum(damaged.values(), []):
            warnings = [line for line in told.splitlines() if line.startswith(f"weft: {path}: ") and "; another picture takes its place" in line]
            check(f"seed {seed}: {path} of a reconstruction is named once", len(warnings) == 1, told)
        run("eval", "-c", "run")
        done = subprocess.run([weft, "predict", "-c", "run"], capture_output=True, text=True, timeout=120)
        check(f"seed {seed}: a prediction ends", done.returncode in (1, 2), done)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        check(f"seed {seed}: none stands for one that is to be predicted", any(path in last for path in damaged["test"]), last)


def none_left():
    draw = random.Random(1)
    for kind, bad, words in (("images", "train/b", "class 'b' in the training part"), ("images", "test/c", "class 'c' in the test part"),
                             ("reconstruct:images", "train", "no picture of the training part"), ("tar", "1", "class '1' in the training part")):
        name = f"{kind}-{bad}".replace("/", "-").replace(":", "-")
        if kind == "tar":
            name += ".tar"
            with tarfile.open(name, "w") as tar:
                for i in range(12):
                    for end, data in ("png", b"" if i % 3 == int(bad) else good(draw)), ("cls", b"%d" % (i % 3)):
                        about = tarfile.TarInfo(f"{i}.{end}")
                        about.size = len(data)
                        tar.addfile(about, io.BytesIO(data))
        else:
            make_folder(draw, name, 0)
            for folder, _, files in os.walk(f"{name}/{bad}"):
                for file in files:
                    write(f"{folder}/{file}", b"")
        last = train(name, 1, code=1, kind=kind).stderr.strip().splitlines()[-1]
        check(f"{kind} without a picture left in {bad}", words in last and last.endswith("can be read"), last)


def archive(draw):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=draw.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])) as tar:
        for i in range(6):
            folder = "f" * draw.choice([3, 130])
            for name, data in ((f"{folder}/{i}.png", good(draw)), (f"{folder}/{i}.cls", b"ab"[i % 2:i % 2 + 1])):
                about = tarfile.TarInfo(name)
                about.size = len(data)
                tar.addfile(about, io.BytesIO(data))
    return out.getvalue()


def archives():
    for seed in range(40 if FAST else 500):
        draw = random.Random(seed)
        data = bytearray(archive(draw))
        at = draw.randrange(len(data))
        if seed % 2:
            del data[at:]
        else:
            data[at] = draw.randrange(256)
        write("a.tar", data)
        done = subprocess.run([weft, "train", "--data", f"tar:a.tar,size={SIDE},broken=0.5", "--model", "mlp", "--steps", "2", "--batch", "2", "-t", "1"],
                              capture_output=True, text=True, timeout=120)
        last = (done.stderr.strip().splitlines() or [""])[-1]
        check(f"archive {seed}, byte {at}", done.returncode == 0 or (done.returncode == 1 and last.startswith("weft: ") and "a.tar" in last), (done.returncode, last))


def put_archive(path, files):
    with tarfile.open(path, "w") as tar:
        for name, data in files:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


def labels():
    """Later archives have the key of labels that the training had; what is there twice is refused."""
    draw = random.Random(2)
    first, later, plain = ([(f"{i}.{end}", data) for i in range(12) for end, data in
                            (("seg.png", good(draw)), ("png", good(draw)), ("cls", b"1"), ("json", b'{"kind": "%s", "x": 1}' % b"pq"[i % 2:i % 2 + 1]))] for _ in range(3))
    put_archive("first.tar", first)
    put_archive("later.tar", later)
    put_archive("plain.tar", [(name, b"pq"[int(name.split(".")[0]) % 2:][:1] if name.endswith(".cls") else data) for name, data in plain if not name.endswith(".json")])
    for more in (), ("--validation", "tar:later.tar"):
        run("train", "--data", f"tar:first.tar,size={SIDE},label=kind", "--model", "mlp", "--steps", "2", "--batch", "4", "-t", "1", "-q", "-c", "labels" + str(len(more)), *more)
    for data in "later.tar", "plain.tar":
        found = [run("eval", "labels0", "-d", f"tar:{data}{key}", "-t", "1", "--json", "-q").stdout for key in ("", ",label=kind")[:1 + (data == "later.tar")]]
        check(f"{data} without the key", found[0] == found[-1] and '"samples":12' in found[0], found)
    alone = [(name, data) for name, data in first if not name.startswith("3.")]
    dots = [(name, data) for name, data in alone if name.count(".") == 1]
    put_archive("dots.tar", dots)
    put_archive("alone.tar", alone)
    found = [run("predict", "labels0", "-d", f"tar:{name}.tar", "-t", "1").stdout.replace(f"{name}.tar/", "") for name in ("alone", "dots")]
    check("the picture is the one with one dot", found[0] == found[1], found)
    for name, files, said in (
            ("again", first + first[4:8], "again.tar: the sample '1' is in it twice"),
            ("parts", first[:4] + first[8:] + [(f"a/{n}", d) for n, d in first[:4]], None),
            ("classes", [*first[:4], ("0.json", b'{"kind": "p"}'), *first[4:]], "classes.tar: the sample '0' has 0.json and 0.json, of which one is too many"),
            ("kinds", [*first[:3], ("0.jpg", good(draw)), *first[3:]], "kinds.tar: the sample '0' has 0.png and 0.jpg, of which one is too many"),
            ("keys", [("0.png", good(draw)), ("0.json", b'{"kind": "p", "x": [1],\n "kind": "q"}'), *first[4:]], "keys.tar: 0.json: an object has the same key twice")):
        put_archive(name + ".tar", files)
        done = run("train", "--data", f"tar:{name}.tar,size={SIDE},label=kind", "--model", "mlp", "--steps", "1", "--batch", "4", "-t", "1", code=1 if said else 0)
        check(f"{name}.tar", not said or said in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(main(folders, reconstructed, none_left, archives, labels))
