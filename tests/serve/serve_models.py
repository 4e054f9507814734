#!/usr/bin/env python3
"""Models that the command serves: tests/serve/serve_models.py PATH/TO/weft

Folders of models of which versions come, go, are copied in slowly and are damaged while others ask; what was named wrongly.
Answers are those of `weft predict`.
"""
import json
import os
import re
import shutil
import sys
import threading
import time
import zlib

from serve_harness import Server, check, main, near, one, run, wait_until

SIDE, ROWS = 7, 12
SIZE = SIDE * SIDE


def serve(*words):
    return Server("--measure", "0.05", *words, models=(), ports=(0, -1))


def index(server):
    return {(m["name"], int(m["version"])): m for m in server.told("/v2/repository/index", "")[1]}


def answer(server, path, row):
    code, told = server.told(f"/v2/models/{path}/infer", json.dumps(one(row, [1, SIZE])))
    return told["outputs"][0]["data"] if code == 200 else (code, told)


def soon(what, holds, seconds=30):
    check(what, wait_until(holds, seconds), "it does not come")


def train(folder, name, seed):
    """A checkpoint, and what is said with it of each row."""
    path = f"{folder}/{name}"
    run("train", "--model", "mlp", "--data", f"csv:{folder}/data.csv,test=0.5", "--epochs", "2", "--batch", "4", "--seed", str(seed),
        "--normalize", "none", "--checkpoint", path, "-q", "-t", "1")
    said = run("predict", "--checkpoint", path, "--data", f"csv:{folder}/data.csv,test=1", "--json", "-t", "1").stdout
    return os.path.realpath(f"{path}/latest"), [list(json.loads(line)["probabilities"].values()) for line in said.splitlines()]


def make_data(path):
    rows = [[((i * 31 + j * 17) % 11) - 5 for j in range(SIZE)] for i in range(ROWS)]
    with open(path, "w") as f:
        f.write(",".join(f"f{j}" for j in range(SIZE)) + ",kind\n")
        for i, row in enumerate(rows):
            f.write(",".join(map(str, row)) + ",kind" + "ab"[i % 2] + "\n")
    return rows


def right(server, path, rows, said):
    return all(near(answer(server, path, row), p) for row, p in zip(rows, said))


def another_format(folder):
    """The index of a checkpoint that a newer weft would have written."""
    path = f"{folder}/index.json"
    text = open(path).read()
    head = re.sub(r'"format": \d+', '"format": 99', text[:text.rindex(',\n "crc32"')])
    open(path, "w").write(head + ',\n "crc32": "%08x"\n}' % zlib.crc32(head.encode()))


def folder_of_models(folder, a, b, rows):
    models = f"{folder}/models"
    os.makedirs(f"{models}/digits")
    shutil.copytree(a[0], f"{models}/digits/1")
    run("export", b[0], "--folder", f"{models}/digits/2", "-q")
    os.makedirs(f"{models}/digits/notes")
    os.makedirs(f"{models}/empty")
    os.makedirs(f"{models}/.hidden/1")
    os.makedirs(f"{models}/my model/1")
    os.makedirs(f"{models}/lost+found", 0o000)
    os.makedirs(f"{models}/broken/3")
    shutil.copytree(a[0], f"{models}/newer/4")
    another_format(f"{models}/newer/4")
    open(f"{models}/README", "w").write("what this is\n")
    server = serve("--models", models, "--control")
    known = index(server)
    check("the newest version", known["digits", 2]["state"] == "READY" and ("digits", 1) not in known, known)
    check("what is broken says why", known["broken", 3]["state"] == "UNAVAILABLE" and "no checkpoint" in known["broken", 3]["reason"], known)
    check("another format", "format is not 1 to" in known["newer", 4]["reason"], known)
    check("and that is all", len(known) == 3, known)
    check("answers of version 2", right(server, "digits", rows, b[1]))
    check("version 1 is not there", server.told("/v2/models/digits/versions/1")[0] == 404)
    check("nothing new", server.told("/v2/repository/models/digits/load", "")[0] == 200 and ("digits", 2) in index(server))
    code, told = server.told("/v2/repository/models/broken/load", "")
    check("loading what is broken", code >= 400 and "no checkpoint" in told["error"], told)
    code, told = server.told("/v2/repository/models/nothing/load", "")
    check("loading what is not there", code == 400 and "no model is named 'nothing'" in told["error"], told)
    code, told = server.told("/v2/repository/models/..%2Fmodels/load", "")
    check("a name that leads elsewhere", code in (400, 404), told)
    shutil.copytree(a[0], f"{models}/digits/10")
    check("loading finds a new version", server.told("/v2/repository/models/digits/load", "")[0] == 200)
    check("which takes over", right(server, "digits", rows, a[1]) and ("digits", 2) not in index(server), index(server))
    shutil.rmtree(f"{models}/digits/10")
    shutil.copytree(b[0], f"{models}/digits/10")
    check("a version that has changed is loaded anew",
          server.told("/v2/repository/models/digits/load", "")[0] == 200 and right(server, "digits/versions/10", rows, b[1]))
    # A version that serves is overwritten by one that is cut off: each load fails until it is whole again.
    weights = f"{models}/digits/10/{sorted(os.listdir(b[0]))[-1]}"
    shutil.copy(weights, f"{folder}/weights")
    os.truncate(weights, 100)
    for _ in range(2):
        code, told = server.told("/v2/repository/models/digits/load", "")
        check("loading what was cut off", code >= 400 and os.path.basename(weights) in told["error"], told)
        check("leaves what serves", right(server, "digits", rows, b[1]))
    shutil.copy(f"{folder}/weights", weights)
    check("and what is whole again", server.told("/v2/repository/models/digits/load", "")[0] == 200 and right(server, "digits", rows, b[1]))
    # The folder of the version that serves goes, and another one comes that cannot be loaded.
    os.rename(f"{models}/digits/10", f"{folder}/10")
    os.makedirs(f"{models}/digits/11")
    code, told = server.told("/v2/repository/models/digits/load", "")
    check("a replacement that cannot be loaded", code >= 400 and "no checkpoint" in told["error"], told)
    check("leaves the version without a folder", right(server, "digits", rows, b[1]))
    os.rmdir(f"{models}/digits/11")
    os.rename(f"{folder}/10", f"{models}/digits/10")
    check("which is back", server.told("/v2/repository/models/digits/load", "")[0] == 200 and ("digits", 11) not in index(server), index(server))
    # Two models are broken: the server is not ready, although digits is.
    check("a server with broken models is not ready", (server.told("/v2/health/ready")[0], server.told("/v2/models/digits/ready")[0]) == (400, 200))
    check("unloading", server.told("/v2/repository/models/digits/unload", "")[0] == 200)
    for path, body in (("", None), ("/config", None), ("/versions/10", None), ("/infer", "{}")):
        code, told = server.told("/v2/models/digits" + path, body)
        check(f"digits{path} says that it was unloaded", code == 503 and "digits" in told["error"] and "taken out of service" in told["error"], (code, told))
    check("a version that never was", server.told("/v2/models/digits/versions/77")[0] == 404)
    page = server.ask("/")[1].decode()
    check("the page counts what could not be loaded, not what was unloaded", "<b>0</b> of 2 models ready" in page and page.count(">unloaded</span>") == 1
          and page.count(">not available</span>") == 2, page[-2000:])
    code, told = server.told("/v2/models/broken/infer", "{}")
    check("what could not be loaded says why", code == 503 and "no checkpoint" in told["error"], (code, told))
    check("a name that nothing has", server.told("/v2/models/nothing/infer", "{}")[0] == 404)
    check("leaves nothing", index(server)["digits", 10]["state"] == "UNAVAILABLE")
    check("and back", server.told("/v2/repository/models/digits/load", "")[0] == 200 and right(server, "digits", rows, b[1]))
    errors = server.end()
    check("the log says it, too", "broken/3 is not served" in errors and "empty has no versions" in errors, errors)
    check("and of each folder that is no model", "my model is not served: 'my model' is no name of a model" in errors
          and (os.access(f"{models}/lost+found", os.R_OK) or "lost+found" in errors), errors)
    shutil.rmtree(f"{models}/digits/10")
    return models


def all_versions(models, a, b, rows):
    server = serve("--models", models, "--all-versions")
    check("both versions", right(server, "digits/versions/1", rows, a[1]) and right(server, "digits/versions/2", rows, b[1]))
    check("the newest without a number", right(server, "digits", rows, b[1]))
    check("versions in the metadata", sorted(server.told("/v2/models/digits")[1]["versions"]) == ["1", "2"])
    stats = server.told("/v2/models/stats")[1]["model_stats"]
    check("statistics of both", sorted(m["version"] for m in stats if m["name"] == "digits") == ["1", "2"], stats)
    text = server.ask("/metrics")[1].decode()
    check("metrics of both", all(f'nv_inference_count{{model="digits",version="{v}"}}' in text for v in (1, 2)), text[:300])
    server.end()


def ask_on(server, rows, allowed, stop, model="digits"):
    k = 0
    while not stop.is_set():
        told = answer(server, model, rows[k % ROWS])
        check("an answer while versions come and go", any(near(told, said[k % ROWS]) for said in allowed), told)
        k += 1


def watch(models, a, b, rows):
    server = serve("--models", models, "--watch", "0.1", "--control")
    stop = threading.Event()
    askers = [threading.Thread(target=ask_on, args=(server, rows, (a[1], b[1]), stop)) for _ in range(2)]
    for t in askers:
        t.start()
    # The index comes first, and the weights in pieces: a folder that is half there must not be served.
    os.makedirs(f"{models}/digits/3")
    names = sorted(os.listdir(a[0]))
    for name in names:
        data = open(f"{a[0]}/{name}", "rb").read()
        with open(f"{models}/digits/3/{name}", "wb") as f:
            for piece in range(4):
                f.write(data[len(data) * piece // 4:len(data) * (piece + 1) // 4])
                f.flush()
                there = index(server).get(("digits", 3))
                check("half a version", name == names[-1] and piece == 3 or not there or there["state"] != "READY", there)
                time.sleep(0.15)
    soon("a version that was copied in", lambda: right(server, "digits", rows, a[1]))
    soon("the old one has ended", lambda: ("digits", 2) not in index(server))
    # What is hidden, or serving keeps there, is no part of a version: it is not loaded anew, which would count from 0.
    counted = lambda: server.told("/v2/models/digits/versions/3/stats")[1]["model_stats"][0]["inference_count"]
    soon("questions to the new one", lambda: counted() >= 50)
    for name in (".hidden", "times.json"):
        before = counted()
        with open(f"{models}/digits/3/{name}", "a") as f:
            f.write("{}")
        time.sleep(0.5)  # some scans
        check(f"{name} changes nothing", (now := counted()) >= before, (before, now))
    # A client that asks for it has the files read, also those that look the same.
    before = counted()
    check("loading what has not changed", server.told("/v2/repository/models/digits/load", "")[0] == 200)
    check("reads it again", (now := counted()) < before, (before, now))
    run("export", b[0], "--folder", f"{models}/.4", "-q")
    os.rename(f"{models}/.4", f"{models}/digits/4")
    soon("a version that was moved in", lambda: right(server, "digits", rows, b[1]))
    os.rename(f"{models}/digits/4", f"{models}/.4")
    soon("a version that is gone", lambda: right(server, "digits", rows, a[1]) and ("digits", 4) not in index(server))
    shutil.copytree(b[0], f"{models}/digits/5")
    os.remove(f"{models}/digits/5/{names[-1]}")
    soon("a version that is broken", lambda: index(server).get(("digits", 5), {}).get("reason", "").find(names[-1]) >= 0)
    check("leaves the one before", right(server, "digits", rows, a[1]))
    shutil.copy(f"{b[0]}/{names[-1]}", f"{models}/digits/5/{names[-1]}")
    soon("until it is mended", lambda: right(server, "digits", rows, b[1]))
    stop.set()
    for t in askers:
        t.join()
    check("unloading", server.told("/v2/repository/models/digits/unload", "")[0] == 200)
    shutil.copytree(a[0], f"{models}/digits/6")
    time.sleep(1)
    check("what was unloaded stays so", server.told("/v2/models/digits")[0] == 503, index(server))
    check("until it is asked for", server.told("/v2/repository/models/digits/load", "")[0] == 200 and right(server, "digits", rows, a[1]))
    shutil.rmtree(f"{models}/digits")
    soon("a model that is gone", lambda: not any(name == "digits" for name, _ in index(server)))
    errors = server.end()
    check("scans warn of a folder once", errors.count("my model is not served") == 1, errors)
    for version, why in (4, "its folder was removed"), (6, "its folder was removed"), (3, "a newer version is"):
        check(f"what ends version {version} is told", f"digits/{version} is no longer served, since {why}" in errors, errors)


def changed(folder, a, b, rows):
    """A version in service whose files become others, in each way in which tools change them: it is loaded beside, and takes over. Files
    that are no model leave the one before."""
    models, kept, n = f"{folder}/changing", f"{folder}/kept", 0
    os.makedirs(kept)
    for name, of in (("a", a), ("b", b)):
        shutil.copytree(of[0], f"{kept}/{name}")

    def link(target, path):
        os.symlink(target, path + ".new")
        os.rename(path + ".new", path)

    def whole_folder(of):  # renamed into its place
        shutil.copytree(f"{kept}/{of}", f"{models}/m/.1")
        if os.path.exists(f"{models}/m/1"):
            os.rename(f"{models}/m/1", f"{models}/m/.old")
        os.rename(f"{models}/m/.1", f"{models}/m/1")
        shutil.rmtree(f"{models}/m/.old", ignore_errors=True)

    def each_file(of):  # as rsync does
        os.makedirs(f"{models}/m/1", exist_ok=True)
        for name in os.listdir(f"{kept}/{of}"):
            shutil.copy(f"{kept}/{of}/{name}", f"{models}/m/1/.{name}")
            os.rename(f"{models}/m/1/.{name}", f"{models}/m/1/{name}")

    def in_place(of):  # as `rsync --inplace -t`: the inodes stay, the times are set, and may be the same
        os.makedirs(f"{models}/m/1", exist_ok=True)
        for name in sorted(os.listdir(f"{kept}/{of}"), key="index.json".__eq__):
            shutil.copyfile(f"{kept}/{of}/{name}", f"{models}/m/1/{name}")
            os.utime(f"{models}/m/1/{name}", (1e9, 1e9))

    def link_of_version(of):  # as git-sync does
        link(f"{kept}/{of}", f"{models}/m/1")

    def links_of_files(of):  # as a ConfigMap is: 1/FILE -> ..data/FILE, ..data -> ..N
        nonlocal n
        n += 1
        os.makedirs(f"{models}/m/1", exist_ok=True)
        shutil.copytree(f"{kept}/{of}", f"{models}/m/1/..{n}")
        link(f"..{n}", f"{models}/m/1/..data")
        for name in os.listdir(f"{kept}/{of}"):
            if not os.path.lexists(f"{models}/m/1/{name}"):
                os.symlink(f"..data/{name}", f"{models}/m/1/{name}")

    def run_of_training(of):  # a version that is a run: its newest step
        nonlocal n
        n += 1
        os.makedirs(f"{models}/m/1", exist_ok=True)
        shutil.copytree(f"{kept}/{of}", f"{models}/m/1/step-{n:09d}")
        link(f"step-{n:09d}", f"{models}/m/1/latest")

    def link_of_all(of):  # a link to the folder of models
        if not os.path.exists(f"{folder}/all-{of}"):
            os.makedirs(f"{folder}/all-{of}/m")
            shutil.copytree(f"{kept}/{of}", f"{folder}/all-{of}/m/1")
        if os.path.isdir(models) and not os.path.islink(models):
            shutil.rmtree(models)
        link(f"{folder}/all-{of}", models)

    for way in (whole_folder, each_file, in_place, link_of_version, links_of_files, run_of_training, link_of_all):
        if way != link_of_all:
            os.makedirs(f"{models}/m")
        way("a")
        server = serve("--models", models, "--watch", "0.05")
        check(f"{way.__name__}: the first", right(server, "m", rows, a[1]), index(server))
        stop = threading.Event()
        asker = threading.Thread(target=ask_on, args=(server, rows, (a[1], b[1]), stop), kwargs={"model": "m"})
        asker.start()
        way("b")
        soon(f"{way.__name__}: the second", lambda: right(server, "m", rows, b[1]))
        way("a")
        soon(f"{way.__name__}: and the first again", lambda: right(server, "m", rows, a[1]))
        if way == each_file:
            shutil.copy(f"{kept}/b/{sorted(os.listdir(kept + '/b'))[-1]}", f"{models}/m/1/")
            soon("what does not fit is said", lambda: index(server)[("m", 1)].get("reason"))
            check("and the one before stays", right(server, "m", rows, a[1]) and index(server)[("m", 1)]["state"] == "READY", index(server))
        stop.set()
        asker.join()
        errors = server.end()
        check(f"{way.__name__}: the log says it", errors.count("m/1 is served again, since its files have changed") >= 1, errors)
        if not os.path.islink(models):
            shutil.rmtree(models)


def meshes(folder, a, rows):
    """The same answers from ranks that share the weights, and what is kept of what batches take."""
    times = f"{folder}/a/times.json"
    server = serve(f"m={folder}/a")
    check("answers of one rank", right(server, "m", rows, a[1]))
    check("nothing is said of what is as it should be", server.end() == "")
    check("times are kept beside the run", os.path.exists(times))
    for words in (["--mesh", "tensor=2"], ["--mesh", "pipeline=2"], ["--mesh", "data=2", "--instances", "2"], ["--instances", "3"]):
        server = serve(f"m={folder}/a", *words)
        check("answers with " + " ".join(words), right(server, "m", rows, a[1]))
        errors = server.end()
        mesh = words[1] if words[0] == "--mesh" else ""
        check("whose times these are", json.load(open(times))["key"]["mesh"] == mesh, open(times).read())
        check("those of others are not used", "is not used: " in errors, errors)
        cores = len(os.sched_getaffinity(0))
        more = int(words[-1]) * (2 if mesh == "data=2" else 1) > cores if len(words) > 2 or not mesh else cores < 2
        check("more threads than cores are warned of", ("core" in errors.replace("cores was", "")) == more, (words, errors))
    server = serve(f"m={folder}/a", "--instances", "3", "--times", "none")
    server.end()
    server = serve(f"m={folder}/a", "--times", folder)
    server.end()
    check("times in a folder", os.path.exists(f"{folder}/m.json"))


def exports(folder, rows):
    """A network from a file, as a folder that needs no run: the same words as from its checkpoint, and each damage is told of."""
    with open(f"{folder}/net.yaml", "w") as f:
        f.write("layers:\n  - {type: dense, units: 9}\n  - {type: layer_norm}\n  - {type: tanh}\n  - {type: dense, units: outputs}\n")
    run("train", "--model", f"{folder}/net.yaml", "--data", f"csv:{folder}/data.csv,test=0.5", "--epochs", "1", "--batch", "4", "--checkpoint",
        f"{folder}/net", "-q")
    plain, data = f"{folder}/plain", f"csv:{folder}/data.csv,test=1"
    run("export", f"{folder}/net", "--folder", plain, "-q")
    check("what an export holds", sorted(os.listdir(plain)) == ["model.json", "model.yaml", "weights.safetensors"], os.listdir(plain))
    said = [run("predict", "--checkpoint", path, "--data", data, "--json").stdout for path in (f"{folder}/net", plain)]
    check("an export predicts what its checkpoint does", said[0] == said[1] and len(said[0].splitlines()) == ROWS, said)
    errors = run("predict", "--checkpoint", plain, code=2).stderr
    check("an export does not know its data", "an exported model does not name its data; give --data SPEC" in errors, errors)
    options = run("inspect", plain).stdout
    check("and has no other options of its run", re.findall(r"(?m)^  (\w\S*) ", options.split("options:")[1].split("parameters:")[0]) == ["model", "seed", "dtype"], options)
    os.remove(f"{folder}/net.yaml")
    about = json.load(open(f"{plain}/model.json"))
    server = serve(f"m={plain}")
    check("and answers it", right(server, "m", rows, [list(json.loads(line)["probabilities"].values()) for line in said[0].splitlines()]))
    code, told = server.told("/v2/models/m/infer", json.dumps({**one(rows[0], [1, SIZE]), "outputs": [{"name": "prediction", "parameters": {"classification": 2}}]}))
    check("with the names of classes", code == 200 and {t.split(":")[2] for t in told["outputs"][0]["data"]} == {"kinda", "kindb"}, told)
    server.end()

    def damage(name, how, sentence):
        bad = f"{folder}/bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(plain, bad)
        how(f"{bad}/{name}")
        errors = run("serve", f"m={bad}", "--port", "0", "--metrics-port", "-1", code=1).stderr
        check(f"{name} is damaged", sentence in errors, errors)

    def flip(path):
        text = bytearray(open(path, "rb").read())
        text[-5] ^= 1
        open(path, "wb").write(text)

    def cut(path):
        os.truncate(path, os.path.getsize(path) // 2)

    def newer(path):
        json.dump({**about, "format": 99}, open(path, "w"))

    for name in about["files"]:
        damage(name, flip, f"{name}: damaged checkpoint: its checksum does not fit")
        damage(name, cut, f"{name}: damaged checkpoint: its size has changed")
    damage("weights.safetensors", os.remove, "weights.safetensors")
    damage("model.yaml", os.remove, "model.yaml: damaged checkpoint: its size has changed")
    damage("model.json", cut, "model.json")
    damage("model.json", newer, "its format is not 1 to")
    # Those of an older weft have no checksums.
    del about["files"]
    json.dump(about, open(f"{plain}/model.json", "w"))
    check("an older export", run("predict", "--checkpoint", plain, "--data", data, "--json").stdout == said[0])


def refusals(folder, a):
    good = a[0]
    os.makedirs(f"{folder}/only/broken/1")
    shutil.copytree(good, f"{folder}/one/digits/1")
    shutil.copytree(good, f"{folder}/newer")
    another_format(f"{folder}/newer")
    for words, code, sentence in (
            ([], 2, "no model is given"), ([f"m={good}", f"m={good}"], 2, "two models are named 'm'"), ([good, good], 2, "two models are named 'model'"),
            ([f"digits={good}", "--models", f"{folder}/one"], 2, "two models are named 'digits'"), ([f"a/b={good}"], 2, "'a/b' is no name of a model"),
            ([f"={good}"], 2, "'' is no name of a model"), ([f"{'n' * 128}={good}"], 2, "is no name of a model"), ([f".m={good}"], 2, "is no name of a model"),
            ([f'a"b={good}'], 2, "is no name of a model"), ([f"m={folder}/newer"], 1, "format is not 1 to"), ([f"m={folder}/nothing"], 1, "holds no checkpoint"),
            (["--models", f"{folder}/nothing"], 1, "cannot be read"), (["--models", f"{folder}/only"], 1, "could be loaded"),
            ([f"m={folder}/nothing", "--models", f"{folder}/one"], 1, "holds no checkpoint"), ([f"m={good}", "--limit", "0"], 2, "limit"),
            ([f"m={good}", "--instances", "0"], 2, "instances"), ([f"m={good}", "--watch", "-1"], 2, "watch"),
            ([f"m={good}", "--watch", "2"], 2, "watch needs --models DIR"), ([f"m={good}", "--all-versions"], 2, "all-versions needs --models DIR"), ([f"m={good}", "--mesh", "tensors=2"], 2, "tensors"),
            ([f"m={good}", "--mesh", "data=2", "--limit", "1"], 2, "give --limit 2 or more"), ([f"m={good}", "--measure", "-1"], 2, "measure")):
        errors = run("serve", "-t", "1", "--port", "0", "--metrics-port", "-1", *words, code=code).stderr
        check("serve " + " ".join(words)[:80], sentence in errors, errors)


def everything():
    folder = os.getcwd()
    rows = make_data(f"{folder}/data.csv")
    a, b = train(folder, "a", 1), train(folder, "b", 2)
    check("the two differ", not near(a[1][0], b[1][0]))
    models = folder_of_models(folder, a, b, rows)
    all_versions(models, a, b, rows)
    watch(models, a, b, rows)
    changed(folder, a, b, rows)
    meshes(folder, a, rows)
    exports(folder, rows)
    refusals(folder, a)


sys.exit(main(everything))
