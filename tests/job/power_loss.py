#!/usr/bin/env python3
"""What a power cut leaves of a folder of checkpoints: power_loss.py WEFT DIR LOG [START]

LOG is what power_loss.c noted of a run on DIR, START how the folder was before. After each call the power is cut:
files keep what was synced last, nothing else; of the names that were made, moved or removed since their
folder was synced, none, all, the first few or any may have come through. Of each state the command must load a
checkpoint at least as new as the newest that the run had done with, or, as long as there was none, say in one
sentence that there is none. What looks like a checkpoint, and DIR/latest, must be a whole one."""
import json
import os
import random
import re
import shutil
import subprocess
import sys

weft, top, log = sys.argv[1:4]
start = sys.argv[4] if len(sys.argv) > 4 else None
random.seed(1)
folders = {}  # number: {name: number, or ("link", target)}
contents = {}  # number of a file: [(index of the call, what is on the disk from then on)]
count = 0


def new(is_folder):
    global count
    count += 1
    if is_folder:
        folders[count] = {}
    else:
        contents[count] = []
    return count


def read_tree(path):
    number = new(True)
    for name in os.listdir(path):
        whole = os.path.join(path, name)
        if os.path.islink(whole):
            folders[number][name] = ("link", os.readlink(whole))
        elif os.path.isdir(whole):
            folders[number][name] = read_tree(whole)
        else:
            file = folders[number][name] = new(False)
            contents[file].append((-1, open(whole, "rb").read()))
    return number


above = new(True)  # DIR stands in it under ""
if start:
    folders[above][""] = read_tree(start)
before = {number: dict(names) for number, names in folders.items()}


def find(path):
    """The folder's number and the name of a path of the log."""
    parts = [""] + [p for p in path[len(top):].split("/") if p]
    at = above
    for part in parts[:-1]:
        at = folders[at][part]
    return at, parts[-1]


def apply(tree, call):
    kind, folder, name, *more = call
    names = tree.setdefault(folder, {})
    if kind == "add":
        names[name] = more[0]
    elif kind == "remove":
        names.pop(name, None)
    elif kind == "rename" and name in names:
        names[more[0]] = names.pop(name)
    elif kind == "exchange" and name in names and more[0] in names:
        names[name], names[more[0]] = names[more[0]], names[name]


calls = []  # (kind, folder, name...), and ("syncdir", folder)
for line in open(log).read().splitlines():
    kind, *words = line.split("\t")
    folder, name = find(words[0])
    call = ("nothing",)
    if kind in ("create", "mkdir", "symlink"):
        number = ("link", words[1]) if kind == "symlink" else new(kind == "mkdir")
        if kind == "mkdir":
            before[number] = {}
        call = ("add", folder, name, number)
    elif kind in ("unlink", "rmdir"):
        call = ("remove", folder, name)
    elif kind in ("rename", "exchange"):
        call = (kind, folder, name, find(words[1])[1])
    elif kind == "syncdir":
        call = ("syncdir", folders[folder][name])
    elif kind == "sync":
        contents[folders[folder][name]].append((len(calls), open(f"{log}.{words[1]}", "rb").read()))
    if call[0] not in ("nothing", "syncdir"):
        apply(folders, call)
    calls.append(call)

# A name is there for good when its folder was synced after it was made. DIR itself is made for good by whoever
# made it; power_loss.c does not see the folder above.
synced = [None] * len(calls)
for k, call in enumerate(calls):
    if call[0] == "syncdir":
        for i in range(k):
            if len(calls[i]) > 2 and calls[i][1] == call[1] and synced[i] is None:
                synced[i] = k
for i, call in enumerate(calls):
    if len(call) > 2 and call[1] == above:
        synced[i] = i


def saved():
    """(call, step): from when on a checkpoint is promised: the run has gone on to the next one, or ended."""
    step, out = None, []
    if start:
        out = [(-1, json.load(open(os.path.join(start, "latest", "index.json")))["step"])]
    for i, call in enumerate(calls):
        if call[0] == "add" and call[2] == ".latest.tmp":
            step = int(call[3][1].split("-")[1])
        elif call[0] == "add" and call[2].startswith(".step-") and step is not None:
            out.append((i, step))
    return out + [(len(calls) - 1, step)]


promises = saved()


def promised(cut):
    return max([step for at, step in promises if at <= cut], default=None)


def write(tree, number, path, cut):
    os.mkdir(path)
    for name, what in sorted(tree.get(number, {}).items(), key=lambda entry: entry[0]):
        whole = os.path.join(path, name)
        if isinstance(what, tuple):
            os.symlink(what[1], whole)
        elif what in folders:
            write(tree, what, whole, cut)
        else:
            data = [text for at, text in contents[what] if at <= cut]
            with open(whole, "wb") as file:
                file.write(data[-1] if data else b"")


def picture(tree, number, cut):
    return tuple(sorted((name, picture(tree, what, cut) if what in folders else
                         (what, sum(at <= cut for at, _ in contents[what])) if what in contents else what)
                        for name, what in tree.get(number, {}).items()))


seen, failed, loaded = set(), 0, 0
for cut in range(len(calls)):
    loose = [i for i in range(cut + 1) if len(calls[i]) > 2 and not (synced[i] is not None and synced[i] <= cut)]
    choices = [set(), set(loose)] + [set(loose[:k]) for k in range(1, len(loose))]
    choices += [{i for i in loose if random.random() < 0.5} for _ in range(12)]
    for chosen in choices:
        tree = {number: dict(names) for number, names in before.items()}
        for i in range(cut + 1):
            if i in chosen or (synced[i] is not None and synced[i] <= cut):
                if len(calls[i]) > 2:
                    apply(tree, calls[i])
        root = tree[above].get("")
        if root is None or (picture(tree, root, cut), promised(cut)) in seen:
            continue
        seen.add((picture(tree, root, cut), promised(cut)))
        shutil.rmtree("state", ignore_errors=True)
        write(tree, root, "state", cut)
        ran = subprocess.run([weft, "inspect", "state"], capture_output=True, text=True, timeout=60)
        want, said = promised(cut), ran.stderr.strip().splitlines()
        step = int(re.search(r"step (\d+)", ran.stdout)[1]) if ran.returncode == 0 else None
        good = step is not None and step >= (want or 0)
        if want is None and ran.returncode == 1 and len(said) == 1 and "holds no checkpoint" in said[0]:
            good = True
        for name in os.listdir("state"):
            if name == "latest" or name.startswith("step-") and os.path.exists(f"state/{name}/index.json"):
                one = subprocess.run([weft, "inspect", f"state/{name}"], capture_output=True, text=True, timeout=60)
                good = good and one.returncode == 0
                said += one.stderr.strip().splitlines()
        loaded += step is not None
        if not good:
            failed += 1
            print(f"cut after call {cut} {calls[cut]}: wanted step {want}, got {step}: {said}")
            print("    ", sorted(os.listdir("state")))
print(f"{len(calls)} calls, {len(seen)} states, {loaded} of them with a checkpoint, {failed} failed")
sys.exit(failed > 0 or loaded == 0)
