#!/usr/bin/env python3
"""Every option that takes a file or a folder, with something else in its place: tests/cli/file_options.py PATH/TO/weft

The options are those that the help of each command has with the argument FILE or DIR, and the data kinds with FILE in their form.
Each is given a link, a link to nothing, a pipe, a folder, a socket, a device and a file that may not be read. The command must end by
itself, with code 1 or 2 and a sentence that names the path, and may write through a link only where the user names an output. The
files that a command itself makes in a folder are found by a run, and each of them is then planted before another run.
"""
import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../serve"))
from serve_harness import CERTIFICATE, KEY, Server, check, main, weft, write

PRECIOUS = "precious\n"
SMALL = ["--model", "mlp", "--data", "glyphs:size=8,train=60,test=20", "--batch", "20", "--steps", "2", "-q", "-t", "1"]
NOBODY = "tcp://127.0.0.1:1"
# What a command needs besides the option; {t} is the folder of the prepared files, {url} a server.
COMMANDS = {
    "train": SMALL, "simulate": [*SMALL, "--exchange", "gossip", "-n", "2"], "plan": SMALL,
    "compare": [*SMALL, "-n", "2", "--strategies", "exchange=average; exchange=gossip"], "eval": ["{t}/run"], "predict": ["{t}/run"], "export": ["{t}/run", "-q"],
    "generate": ["--checkpoint", "{t}/text", "--tokens", "3"], "serve": ["m={t}/run", "--port", "0", "--metrics-port", "-1"], "load": ["{url}", "--seconds", "1"],
    "status": [NOBODY], "coordinator": [*SMALL, "--listen", "tcp://127.0.0.1:*", "--exchange", "server:policy=async"],
    "server": [NOBODY], "join": [NOBODY, "--data", "glyphs:size=8,train=60,test=20"], "leave": [NOBODY, "learner:0"]}
# What it needs instead.
INSTEAD = {("eval", "checkpoint"): [], ("predict", "checkpoint"): [], ("generate", "checkpoint"): ["--tokens", "3"], ("load", "ca"): ["https://127.0.0.1:1"],
           ("serve", "certificate"): [*COMMANDS["serve"], "--key", "{t}/key.pem"], ("serve", "key"): [*COMMANDS["serve"], "--certificate", "{t}/cert.pem"],
           ("coordinator", "allow"): [*COMMANDS["coordinator"], "--key", "{t}/member"],
           ("coordinator", "checkpoint"): [*COMMANDS["coordinator"], "--resume"],
           ("plan", "plot"): [*SMALL, "--cluster", "{t}/one.yaml"], ("plan", "predicted"): [*SMALL, "--cluster", "{t}/one.yaml"], ("plan", "measured"): [*SMALL, "--cluster", "{t}/one.yaml", "--timeline"],
           ("train", "rechoose"): [*SMALL, "--noise-scale", "1", "--microbatches", "2", "--checkpoint", "{t}/chosen"], ("plan", "output"): [*SMALL, "--cluster", "{t}/one.yaml", "--auto", "--one-learner"]}
# What follows the path in the value of an option.
BEHIND = {"rechoose": ": exchange=average"}
# Options that name a thing of their own in each command; others are tried in the first command that has them. A learner that joins
# opens its folder as `train` does, when a coordinator has answered.
OWN = {(command, option) for command in COMMANDS for option in ("output", "checkpoint", "key")} - {("join", "checkpoint")}
# Outputs that are read in place of being written where there is a file.
READ_IF_THERE = {"tune"}
# Outputs that are written over nothing, nor over what a link names.
NEW_ALONE = {("plan", "output")}
LIMIT = 60  # seconds, also on a busy machine; an output waits ten for the reader of its pipe


def run(words, home, limit=LIMIT):
    """(code, standard error) of a command; code None: it has not ended. A server is told to end when it listens."""
    with subprocess.Popen([weft, *words], cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        late = threading.Timer(limit, process.kill)
        late.start()
        for line in process.stdout:
            if words[0] == "serve" and line.startswith("listening"):
                process.terminate()
        told = process.stderr.read()
        process.wait()
        late.cancel()
        return None if process.returncode == -signal.SIGKILL else process.returncode, told


def bind(path):
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(os.path.dirname(path))  # the name of a socket is short
        s.bind(os.path.basename(path))


# kind: how it is put at a path, of which `victim` and `missing` are neighbours.
KINDS = {
    "a link": lambda path, victim, missing: os.symlink(victim, path),
    "a link to nothing": lambda path, victim, missing: os.symlink(missing, path),
    "a pipe": lambda path, victim, missing: os.mkfifo(path, 0o600),
    "a folder": lambda path, victim, missing: os.mkdir(path),
    "a socket": lambda path, victim, missing: bind(path),
    "a device": lambda path, victim, missing: os.symlink("/dev/zero", path),
    "a terminal": lambda path, victim, missing: os.symlink("/dev/ptmx", path),
}
if os.geteuid() != 0:
    KINDS["a file that may not be read"] = lambda path, victim, missing: write(path, PRECIOUS, 0)


class Planted:
    """A folder of its own with one of these things in it."""

    def __init__(self, kind, name="planted"):
        self.home = tempfile.mkdtemp(dir=top)
        self.path, self.missing = os.path.join(self.home, name), os.path.join(self.home, "missing")
        self.victim = write(os.path.join(self.home, "victim"), PRECIOUS)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        if kind:
            KINDS[kind](self.path, self.victim, self.missing)

    def untouched(self):
        with open(self.victim, "rb") as f:
            return f.read() == PRECIOUS.encode() and not os.path.lexists(self.missing)


def options():
    """(command, option, argument) of the help, each option of a name only in the first command that has it with this argument."""
    seen = set()
    for command in COMMANDS:
        text = subprocess.run([weft, "help", command], capture_output=True, text=True, check=True).stdout
        for name, argument in re.findall(r"^ +(?:-\w, )?--([\w-]+) (\S*(?:FILE|DIR)\S*)", text, re.M):
            if (command, name) in OWN or name not in seen:
                seen.add(name)
                yield command, name, argument


def data_kinds():
    """Forms of --data with each of their files at the place of {}."""
    text = subprocess.run([weft, "inspect", "--list"], capture_output=True, text=True, check=True).stdout
    for form in re.findall(r"^  (\w+:\S*(?:FILE|DIR|SAMPLES)\S*)", text, re.M):
        first = re.sub(r"\[.*", "", form.replace("|target=FILE", "")).replace("values=N", "values=9").replace("SAMPLES,LABELS", "{},{}")
        yield form, re.sub(r"FILE|DIR", "{}", first)


def bad_end(result, path):
    code, told = result
    return code in (1, 2) and "weft: " in told and os.path.basename(path) in told


def words_for(command, option, path):
    words = INSTEAD.get((command, option), COMMANDS[command])
    return [command, *(w.format(t=top, url=url) for w in words), f"--{option}", path + BEHIND.get(option, "")]


def try_option(command, option):
    """One option with each kind of thing; an output is one where a file appears."""
    free = Planted(None)
    run(words_for(command, option, free.path), free.home, 3 if command in ("coordinator", "server", "join", "leave", "status") else LIMIT)
    output = os.path.isfile(free.path)
    for kind in KINDS:
        if output and kind == "a terminal":
            continue  # nobody reads it
        p = Planted(kind)
        result = run(words_for(command, option, p.path), p.home)
        if (command, option) in NEW_ALONE and kind == "a link":
            good = p.untouched() and (bad_end(result, p.path) or result[0] == 0)
        elif option in READ_IF_THERE and kind == "a link":
            good = bad_end(result, p.path) and p.untouched()
        elif output and kind in ("a link", "a link to nothing"):  # the user has named the file at its end
            good = result[0] == 0 and os.path.islink(p.path) and os.path.isfile(p.victim if kind == "a link" else p.missing)
        elif output and kind == "a device":
            good = result[0] is not None and os.path.islink(p.path) and p.untouched()
        elif kind == "a link":
            good = result[0] in (0, 1, 2) and p.untouched()
        else:
            good = bad_end(result, p.path) and p.untouched()
        yield f"{command} --{option} {kind}", good, result


def try_folder(command, option):
    """A folder that is written or read: something else in its place, and each file that the command makes in it planted."""
    free = Planted(None)
    first = run(words_for(command, option, free.path), free.home, 3 if command == "coordinator" else LIMIT)
    made = [n for _, folders, names in os.walk(free.path) for n in [*names, *folders] if not n.startswith("step-")]
    for kind in KINDS:
        p = Planted(kind)
        result = run(words_for(command, option, p.path), p.home)
        # It may be as the user wants it, or the command looks at it only, or does without.
        good = bad_end(result, p.path) or (result[0] == 0 and (first[0] == 0 or kind == "a folder"))
        yield f"{command} --{option} {kind}", good and p.untouched(), result
    if made and option == "checkpoint":
        made += ["step-2", ".step-2.tmp", ".step-2.gone", ".step-2.old", ".latest.tmp", "step-2/index.json"]
    for name in made:
        for kind in KINDS:
            p = Planted(kind, os.path.join("in", name))
            result = run(words_for(command, option, os.path.join(p.home, "in")), p.home)
            yield f"{command} --{option} DIR with {kind} as {name}", result[0] in (0, 1, 2) and p.untouched(), result


def try_data(form, spec):
    for kind in KINDS:
        p = Planted(kind)
        result = run(["train", "--model", "mlp", "--data", spec.replace("{}", p.path), "--steps", "1", "-q", "-t", "1"], p.home)
        yield f"train --data {form} {kind}", result[0] in (1, 2) and "weft: " in result[1] and p.untouched(), result


def prepare():
    write(f"{top}/cert.pem", CERTIFICATE)
    write(f"{top}/key.pem", KEY)
    version = subprocess.run([weft, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    write(f"{top}/one.times", f"weft-times\t1\nversion\t{version}\nprocessor\tone\ntime\t1\t1\t1\t1e10\t0\tx\t\n"
          "time\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n")
    write(f"{top}/one.yaml", f"times: {top}/one.times\nmachines:\n  - {{count: 1, cores: 2}}\n")
    write(f"{top}/letters.txt", "a few words to learn, and a few more\n" * 40)
    for words in (["train", *SMALL, "--checkpoint", f"{top}/run"], ["keygen", f"{top}/member"],
                  ["train", "--model", "char-lstm", "--data", f"text:{top}/letters.txt,unit=char,context=8", "--batch", "8", "--steps", "1", "-q", "--checkpoint", f"{top}/text"]):
        code, told = run(words, top)
        assert code == 0, (words, told)


def try_all():
    tries = [(try_folder if "DIR" in argument else try_option, command, option) for command, option, argument in options()]
    tries += [(try_data, form, spec) for form, spec in data_kinds()]
    check("options are found", len(tries) > 30, tries)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for results in pool.map(lambda one: list(one[0](*one[1:])), tries):
            for what, good, told in results:
                check(what, good, told)


def everything():
    global top, url
    top = os.getcwd()
    prepare()
    with Server("--times", "none", models=[f"m={top}/run"], ports=(0, -1)) as server:
        url = f"http://127.0.0.1:{server.port}"
        try_all()


sys.exit(main(everything))
