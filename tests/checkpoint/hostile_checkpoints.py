"""What export refuses of checkpoints whose checksums are right: hostile_checkpoints.py WEFT.

Each tensor that the model has is made NaN, infinite, of another shape, or left out, and one that it has not is added.
"""
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, weft as WEFT


def weft(*words):
    done = subprocess.run([WEFT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def read_tensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        head = json.loads(file.read(size))
        data = file.read()
    about = head.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in head.items()}, about


def write_tensors(path, tensors, about):
    head, data = {"__metadata__": about} if about else {}, b""
    for name, (dtype, shape, own) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_index(folder, name, changed):
    """Writes the index with the checksums of changed files and its own."""
    with open(os.path.join(folder, name)) as file:
        index = json.load(file)
    index.pop("crc32", None)
    for part in changed:
        with open(os.path.join(folder, part), "rb") as file:
            data = file.read()
        index["files"][part] = {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}
    text = json.dumps(index, indent=1)[:-2]
    with open(os.path.join(folder, name), "w") as file:
        file.write(f'{text},\n "crc32": "{zlib.crc32(text.encode()):08x}"\n}}')


def faults(tensors):
    """Each fault, with the words of its message."""
    number = {"F32": "<f", "F64": "<d"}
    for name, (dtype, shape, data) in tensors.items():
        if dtype in number:
            size = struct.calcsize(number[dtype])
            for wrong in (float("nan"), float("inf")):
                yield {**tensors, name: (dtype, shape, data[:-size] + struct.pack(number[dtype], wrong))}, f"'{name}' holds a number"
        yield {**tensors, name: (dtype, [1, *shape], data)}, f"'{name}' is"
        yield {other: t for other, t in tensors.items() if other != name}, f"'{name}', which this model"
    yield {}, "which this model"
    yield {**tensors, "another": ("F32", [1], b"\0" * 4)}, "'another', which this model has not"


def everything():
    run = ("--data", "glyphs:size=8,train=40,test=20", "--batch", "20", "-t", "1", "-q", "--model", "mlp")
    check("a run", weft("train", *run, "--steps", "2", "--checkpoint", "run")[0] == 0)
    check("an export", weft("export", "run/latest", "--folder", "model")[0] == 0)
    for source, file, index in ((os.path.realpath("run/latest"), "parameters.safetensors", "index.json"),
                                ("model", "weights.safetensors", "model.json")):
        tensors, about = read_tensors(os.path.join(source, file))
        for wrong, words in faults(tensors):
            shutil.rmtree("copy", ignore_errors=True)
            shutil.copytree(source, "copy")
            write_tensors(os.path.join("copy", file), wrong, about)
            write_index("copy", index, [file])
            for to in (("--output", "out.safetensors"), ("--folder", "out")):
                code, text = weft("export", "copy", *to)
                check(f"export {to[0]} of {source}", code in (1, 2) and words in text, (code, text))
                check("a refused export writes nothing", not os.path.exists(to[1]), to[1])
    os.mkdir("empty")
    for folder in ("full", "empty"):  # where no byte can be written
        done = subprocess.run([WEFT, "export", "run/latest", "--folder", folder], stderr=subprocess.PIPE, timeout=60, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        check(folder, done.returncode == 1 and os.path.exists(folder) == (folder == "empty"), done)


sys.exit(main(everything))
