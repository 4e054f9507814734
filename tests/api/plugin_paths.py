"""No data loads a plug-in: plugin_paths.py WEFT PLUGINS.

The path of a plug-in in each option of a checkpoint and of an exported model, and in a YAML model. The plug-in writes a file as soon as it is loaded; this file must not appear. Then the user names
the same plug-in, and the file appears.
"""
import json
import os
import shutil
import subprocess
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, end, scratch, weft as WEFT

PLUGIN = os.path.join(os.path.abspath(sys.argv[2]), "libgood.so")
DATA = "glyphs:size=12,train=90,test=30"


def weft(*words, plugins=None, timeout=60):
    """The output of a command, and whether it has loaded the plug-in."""
    environment = {**os.environ, "PLUGIN_LOADED": "LOADED", "OMP_NUM_THREADS": "1"}
    environment.pop("WEFT_PLUGINS", None)
    if plugins:
        environment["WEFT_PLUGINS"] = plugins
    if os.path.exists("LOADED"):
        os.remove("LOADED")
    try:
        done = subprocess.run([WEFT, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout, check=False)
        text = done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
    return text, os.path.exists("LOADED")


def write(path, record):
    """Writes the JSON of a checkpoint or of a model with its checksum."""
    record = {key: value for key, value in record.items() if key != "crc32"}
    text = json.dumps(record, indent=1)[:-2]
    with open(path, "w") as file:
        file.write(f'{text},\n "crc32": "{zlib.crc32(text.encode()):08x}"\n}}')


def hostile_records(source, file, commands):
    """Plants the path in each option of a copy of a folder, and runs the commands in turn, all of them for the model."""
    with open(os.path.join(source, file)) as opened:
        record = json.load(opened)
    turn = 0
    for option in [name for name, value in record["options"].items() if isinstance(value, str)]:
        shutil.rmtree("copy", ignore_errors=True)
        shutil.copytree(source, "copy", symlinks=True)
        os.makedirs("resumed", exist_ok=True)
        if not os.path.lexists("resumed/latest"):
            os.symlink("../copy", "resumed/step-3")
            os.symlink("step-3", "resumed/latest")
        write(os.path.join("copy", file), {**record, "options": {**record["options"], option: PLUGIN}})
        turn += 1
        ending = [command for command in commands if command[0] != "serve"]
        for command in commands if option == "model" else [ending[turn % len(ending)]]:
            text, loaded = weft(*command)
            check(f"{command[0]} of {source} loads no plug-in that its option {option} names", not loaded, text)
            if option == "model" and command[0] not in ("inspect", "train"):
                check(f"{command[0]} says how a plug-in is loaded", "WEFT_PLUGINS" in text, text)


def main():
    scratch()
    run = ("--model", "mlp", "--data", DATA, "--batch", "18", "-q")
    weft("train", *run, "--steps", "3", "--checkpoint", "run")
    weft("export", "run/latest", "--folder", "model")
    hostile_records(os.path.realpath("run/latest"), "index.json",
                    [("eval", "copy"), ("predict", "copy"), ("inspect", "copy"), ("export", "copy", "--output", "w.safetensors"),
                     ("serve", "m=copy", "--port", "0", "--metrics-port", "-1"),
                     ("train", *run, "--checkpoint", "resumed", "--resume")])
    hostile_records("model", "model.json",
                    [("eval", "copy", "--data", DATA), ("predict", "copy", "--data", DATA), ("inspect", "copy"),
                     ("serve", "m=copy", "--port", "0", "--metrics-port", "-1")])
    # A record names the plug-in that had an entry: for the message, which no hostile text makes long, and nothing is loaded.
    with open("model/model.json") as opened:
        record = json.load(opened)
    for names, named in ((f"model=own={PLUGIN}", True), (f"loss=x=/a:model=own={PLUGIN}:model=own=/b", True),
                         (f"model=own={PLUGIN}\n", False), (f"model=own=\x1b{PLUGIN}", False),
                         (f"model=own={PLUGIN}:" + "x" * 100000, False), ("=:::==", False), ("", False)):
        shutil.rmtree("copy", ignore_errors=True)
        shutil.copytree("model", "copy", symlinks=True)
        write("copy/model.json", {**record, "options": {**record["options"], "model": "own", "plugins": names}})
        text, loaded = weft("eval", "copy", "--data", DATA)
        check("a record of plug-ins loads none", not loaded, text)
        check(f"the message has the plug-in of {names[:60]!r}: {named}", (f"; plug-in {PLUGIN} had it" in text) == named, text)
        check("a message is short", "no model is named 'own'" in text and len(text) < 1000, text)
    for layer, loss in ((PLUGIN, None), ("dense", PLUGIN)):
        with open("net.yaml", "w") as file:
            file.write(f"layers:\n  - {{type: {layer}, units: outputs}}\n" + (f"loss: {loss}\n" if loss else ""))
        text, loaded = weft("plan", "--model", "net.yaml", "--data", DATA)
        check(f"a YAML model with {layer}, {loss} loads no plug-in", not loaded, text)

    # The user's own words load it.
    with open("run.yaml", "w") as file:
        file.write(f"device: {PLUGIN}\n")
    for command in (("train", *run, "--device", PLUGIN), ("train", "run.yaml", *run), ("plan", "run.yaml"),
                    ("simulate", "--device", PLUGIN), ("inspect", "--graph", "--model", PLUGIN), ("compare", "--strategies", f"exchange=average;device={PLUGIN}"),
                    ("eval", "run/latest", "--device", PLUGIN), ("predict", "run/latest", "--device", PLUGIN),
                    ("generate", "run/latest", "--prompt", "a", "--device", PLUGIN),
                    ("serve", "m=run/latest", "--device", PLUGIN, "--port", "0", "--metrics-port", "-1"),
                    ("join", "tcp://127.0.0.1:1", "--device", PLUGIN, "--timeout", "1"), ("server", "tcp://127.0.0.1:1", "--device",
                    PLUGIN, "--timeout", "1"), ("coordinator", "--exchange", PLUGIN),
                    ("load", "http://127.0.0.1:1", "--arrivals", PLUGIN)):
        text, loaded = weft(*command, timeout=3 if command[0] in ("join", "server", "coordinator", "load") else 60)
        check(f"weft {' '.join(command)} loads the plug-in", loaded, text)
    check("WEFT_PLUGINS loads a plug-in", weft("inspect", "--list", plugins=f"{PLUGIN}:{PLUGIN}")[1])
    text = weft("eval", "run/latest", plugins="./missing.so")[0]
    check("a missing plug-in is named", "./missing.so: cannot open" in text, text)
    return end()


sys.exit(main())
