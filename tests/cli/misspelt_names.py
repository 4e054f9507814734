#!/usr/bin/env python3
"""Every name and key of every registry, and every value of a key that is a name, misspelt: tests/cli/misspelt_names.py PATH/TO/weft

The lists are those of `weft inspect --list`. A name with another letter in it is refused with a sentence that suggests the name,
on whichever way the command reads it. WEFT_FAST: every third case, and the first one of each list.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

weft = os.path.abspath(sys.argv[1])
SMALL = ["train", "--steps", "1", "--data", "glyphs:size=8,train=20,test=10", "--batch", "10"]  # some messages come after the data are read
RUN = [*SMALL, "--model", "mlp"]
SHARED = [*RUN, "-n", "2", "--exchange"]
# How a command is given an entry X of each list; {x}.
WAYS = {
    "models": [*SMALL, "--model", "{x}"], "layers of a YAML model": None, "losses": None, "data": ["train", "--steps", "1", "--model", "mlp", "--data", "{x}"],
    "normalizations of data": [*RUN, "--normalize", "{x}"], "metrics of evaluations": [*RUN, "--metric", "{x}"], "optimizers": [*RUN, "--optimizer", "{x}"],
    "learning rate schedules": [*RUN, "--lr-schedule", "{x}"], "devices": [*RUN, "--device", "{x}"], "engines": [*RUN, "--engine", "{x}"],
    "pipeline schedules": [*RUN, "-n", "2", "--mesh", "pipeline=2", "--schedule", "{x}"], "exchanges between learners": [*SHARED, "{x}"],
    "codecs of updates": [*SHARED, "server", "--compress", "{x}"], "server policies": [*SHARED, "server:policy={x}"],
    "augmentations of pictures": [*RUN, "--augment", "{x}"],
    "batching policies": ["serve", "m=none", "--policy", "{x}"], "arrival processes": ["load", "http://localhost:1", "--arrivals", "{x}"],
    "operators": None,  # graphs of C alone have these
    "homes of weights": [*RUN, "--home", "{x}"], "options": ["train", "--{x}", "1"], "commands": ["{x}"]}
# Options of devices, which are read before a driver is looked for, and what is near by its meaning, not by its letters.
FURTHER = [*(("options", name, option) for name, option in (
               ("batch-size", "batch"), ("batch_size", "batch"), ("learning-rate", "lr"), ("learning_rate", "lr"), ("lr-scale", "lr-multiplier"), ("checkpoint-dir", "checkpoint"),
               ("max-epochs", "epochs"), ("epoch", "epochs"), ("optim", "optimizer"), ("early-stopping", "patience"), ("num-workers", "threads"), ("weight", "weights"),
               ("pretrained", "init"), ("gpus", "device"), ("scheduler", "lr-schedule"))),
           ("metrics of evaluations", "acc", "accuracy"), ("losses", "ce", "cross_entropy"), ("models", "resnet18", "resnet"), ("models", "mobilenet_v2", "mobilenet"),
           ("commands", "evaluate", "eval"), ("commands", "test", "eval"), ("commands", "sweep", "compare"), ("commands", "predictions", "predict"),
           ("homes of weights", "gpu", "device"), ("homes of weights", "devicqe", "device"), ("devices", "gpu", "cuda"),
           *(("devices", f"{device}:{misspelt}", key) for device in ("cuda", "cuda:0", "opencl", "opencl:0.0")
             if os.path.exists(os.path.join(os.path.dirname(os.path.realpath(weft)), f"libweft-{device.partition(':')[0]}.so"))
             for misspelt, key in (("librares=none", "libraries"), ("libraries=none:tf23=on", "tf32")))]
YAML = {"layers of a YAML model": "layers:\n  - {{type: {x}}}\n", "losses": "loss: {x}\nlayers:\n  - {{type: dense, units: classes}}\n"}


def misspelt(name):
    return name[:-1] + "q" + name[-1]


def cases():
    """Pairs of what a way is given, and of the name that the message must suggest."""
    text = subprocess.run([weft, "inspect", "--list"], capture_output=True, text=True, check=True).stdout
    lists = re.split(r"(?m)^(\w[\w ]*):\n", text)[1:]
    for title, body in zip(lists[::2], lists[1::2]):
        for form in re.findall(r"(?m)^  (\S+)", body):
            name = re.match(r"[\w.-]+", form)[0]
            yield title, misspelt(name), name
            if title in YAML or name == "npy":
                continue  # the keys of npy may also be names of inputs
            for key, values in re.findall(r"[:,\[|]([a-z]\w*)=([^,\[\]]*)", form):
                first = ":FILE," if re.match(r"[\w-]+:(FILE|DIR|SAMPLES)", form) else ":"
                head = name + (first if title != "server policies" else ",")
                yield title, f"{head}{misspelt(key)}=1", key
                for value in values.split("|") if re.search(r"^[a-z]+\d*\|", values) else ():
                    if re.fullmatch(r"[a-z][a-z0-9]+(-[a-z]+)?", value):
                        yield title, f"{head}{key}={misspelt(value)}", value


def check(case):
    title, given, name = case
    way = WAYS[title]
    with tempfile.TemporaryDirectory() as folder:
        if title in YAML:
            way = [*SMALL, "--model", "m.yaml"]
            with open(folder + "/m.yaml", "w") as file:
                file.write(YAML[title].format(x=given))
        for file in ("FILE", "SAMPLES"):
            with open(f"{folder}/{file}", "w") as out:
                out.write("a,b\n" + "1,2\n" * 300)
        if way is None:
            return None
        run = subprocess.run([weft, *(word.format(x=given) for word in way)], capture_output=True, text=True, cwd=folder, timeout=60)
    if run.returncode != 2 or f"did you mean '{name}'?" not in run.stderr:
        return f"{given}, a {title}: no word of '{name}' in (exit {run.returncode}) {run.stderr[:300]}"
    return ""


with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
    all_cases = [*cases(), *FURTHER]
    if os.environ.get("WEFT_FAST"):
        firsts = [next(i for i, case in enumerate(all_cases) if case[0] == title) for title in WAYS]
        all_cases = [case for i, case in enumerate(all_cases) if i % 3 == 0 or i in firsts]
    results = list(pool.map(check, all_cases))
missing = [title for title in WAYS if not any(case[0] == title for case in all_cases)]
unknown = sorted({case[0] for case in all_cases} - set(WAYS))
for fault in filter(None, results):
    print("FAILED:", fault)
for title in missing + unknown:
    print(f"FAILED: the list of {title}")
print(f"{results.count('')} passed, {len([r for r in results if r]) + len(missing + unknown)} failed")
sys.exit(any(results) or bool(missing) or bool(unknown) or results.count("") < 60)
