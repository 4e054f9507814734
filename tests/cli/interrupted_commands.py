"""Commands that compute for long end at a signal, say what they have so far, and leave nothing behind: interrupted_commands.py PATH/TO/weft

A signal is sent once the command catches it. Each command would go on for minutes otherwise, so that one that does not look at
its requests to stop is still there after the time that a process may take to end."""
import contextlib
import glob
import os
import random
import re
import signal
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write
from waiting import wait_until

SMALL = "--data glyphs:size=16,train=2000,test=20 --batch 20 -t 1".split()
LARGE = "--data glyphs:size=32,train=4000,test=4000 --batch 400 --model vgg11 -t 1".split()
AN_END = 60  # seconds


def processor():
    """That of this machine, as a message tells it."""
    times("another")
    return re.search(r"this processor is '(.*?)'", run("plan", *SMALL, "--model", "mlp", "--verify", "--cluster", "one.yaml", code=2).stderr).group(1)


def times(name):
    version = run("--version").stdout.split()[1]
    write("one.times", f"weft-times\t1\nversion\t{version}\nprocessor\t{name}\ntime\t1\t1\t1\t1e10\t0\tx\t\n"
          "time\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n")
    write("one.yaml", "times: one.times\nmachines:\n  - {count: 1, cores: 2}\n")
    write("four.yaml", "times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 4, cores: 1}\n")


def catches(pid):
    """Whether it has all handlers, of which this is the last; from its begin on it has others, which end it at once."""
    mask = re.search(r"SigCgt:\s*(\w+)", open(f"/proc/{pid}/status").read())
    return int(mask.group(1), 16) >> (signal.SIGXCPU - 1) & 1


def children(pid):
    """Of all threads that are still there."""
    found = []
    for file in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(file) as f:
            found += [int(c) for c in f.read().split()]
    return found


def below(pid):
    own = children(pid)
    return own + [p for c in own for p in below(c)]


def interrupted(*words, begun=lambda job, out: True, number=signal.SIGINT):
    """Standard output and error of a command that gets the signal once it has begun."""
    before = set(os.listdir("."))
    what = " ".join(map(str, words))
    with open("../out", "w+") as out, open("../err", "w+") as err:
        job = subprocess.Popen([weft, *map(str, words)], stdout=out, stderr=err)
        wait_until(lambda: job.poll() is not None or (catches(job.pid) and begun(job, open("../out").read())))
        check(f"{what}: goes on until the signal", job.poll() is None, open("../err").read())
        others = below(job.pid) if job.poll() is None else []
        job.send_signal(number)
        try:
            code = job.wait(AN_END)
        except subprocess.TimeoutExpired:
            job.kill()
            code = job.wait()
        text = open("../out").read(), open("../err").read()
    check(f"{what}: the exit code is that of the signal", code == 128 + number, (code, text))
    wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in others))
    check(f"{what}: no process is left", not any(os.path.exists(f"/proc/{p}") for p in others), others)
    check(f"{what}: no file is left", set(os.listdir(".")) == before, set(os.listdir(".")) - before)
    return text


def measure():
    """At once, whatever is measured then; also if ranks of MPI measure, whose files are in the folder meanwhile."""
    for number in (signal.SIGINT, signal.SIGTERM):
        _, err = interrupted("measure", "-o", "here.yaml", "--seconds", 1000, number=number)
        check("measure: a message", err == "weft: stopped while this machine was measured; here.yaml is not written\n", err)


def simulate():
    """Within a step, and with a summary of the steps that were."""
    stepped = lambda job, out: re.search("^step [1-9]", out, re.M)
    for way in (["--exchange", "server:policy=async"], ["--exchange", "average:every=2", "--cluster", "four.yaml"], ["--mesh", "data=2", "--cluster", "four.yaml"]):
        words = ["simulate", *SMALL, "--model", "mlp", "-n", 2, *way, "--epochs", 10 ** 6, "--evaluate-every", 1]
        out, err = interrupted(*words, begun=stepped)
        step = re.search("stopped after step ([0-9]+) of the simulation, which saves nothing before its end\n", err)
        check(f"{way}: the summary has the steps of the message", step and re.search(f"^{step.group(1)} steps? of [12] learners? in ", out, re.M), (out[-600:], err))
        _, err = interrupted("simulate", *LARGE, "-n", 2, *way)
        check(f"{way}: before the end of a step", re.search("stopped (after step [0-9]+ of|before) ", err), err)


def compare():
    _, err = interrupted("compare", *SMALL, "--model", "mlp", "--epochs", 10 ** 6, "-n", 2, "--cluster", "four.yaml", "--strategies", "exchange=gossip; mesh=data=2", "--plot", "none.svg")
    check("compare: what there is", "weft: stopped in run 1 of 2, so there is nothing to compare" in err, err)


def plan():
    """The table has what was estimated."""
    count = 250
    words = "; ".join(f"batch={128 + 4 * i}" for i in range(count))
    run_of = ["--data", "glyphs:size=32,train=2000,test=20", "--model", "densenet", "-n", 4, "--mesh", "data=4", "--cluster", "four.yaml"]
    out, err = interrupted("plan", *run_of, "--strategies", words)
    seen = re.fullmatch(f"weft: stopped; the table has ([0-9]+) of {count} strategies\n", err)
    check("plan: the rows of the table", seen and len(re.findall("^batch=", out, re.M)) == int(seen.group(1)), (out, err))
    _, err = interrupted("plan", *run_of, "--epochs", 1000, "--target", "train_loss=-1", "--strategies", "lr=0.1; lr=0.01", "--plot", "none.svg")
    check("plan --target: a message", "weft: stopped before" in err, err)


def verify():
    """The run of the moment is ended, too."""
    times(processor())
    out, _ = interrupted("plan", *LARGE, "--verify", "--cluster", "one.yaml", "--strategies", "lr=0.1; lr=0.01", begun=lambda job, out: children(job.pid))
    check("plan --verify: the head of the table", "Estimated steps beside measured ones" in out, out)


def scale():
    """The rows that were estimated; none is left for the others."""
    words = ["plan", *LARGE, "--model", "densenet", "--cluster", "four.yaml", "--scale", "1..4", "--strategies", "; ".join(f"batch={4 * i}" for i in range(1, 30)), "--plot", "none.svg"]
    for more in ([], ["--json"]):
        out, err = interrupted(*words, *more)
        seen = re.fullmatch("weft: stopped; the table has ([0-9]+) of 87 estimates\n", err)
        rows = len(re.findall('"machines"' if more else "^batch=|^ +[124] ", out, re.M))
        check("plan --scale: the rows of the table", seen and rows == int(seen.group(1)), (out, err))


def moment(pid):
    """Reads how much processor time a process has used, in ticks; 0: it has ended."""
    with contextlib.suppress(OSError):
        return sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    return 0


def at_any_time():
    """Whatever a command writes is there as a whole or not at all, and nothing beside it, when two signals come at random: after so
    many ticks of its processor time, so that the speed of the machine does not matter."""
    draw = random.Random(1)
    run("train", *SMALL, "--model", "mlp", "--metrics", "m.jsonl", "--checkpoint", "kept", "-q")
    once = ["--cluster", "four.yaml", *SMALL, "--model", "mlp"]
    commands = {
        "plan": ["plan", *once, "-n", 2, "--mesh", "data=2", "--plot", "new.svg", "--predicted", "new.json"],
        "plan --scale": ["plan", *once, "--scale", "1..4", "--strategies", "mesh=data=N", "--plot", "new.svg"],
        "plan --auto": ["plan", *once, "-n", 2, "--auto", "--seconds", 2, "--output", "new.yaml"],
        "compare": ["compare", *once, "-n", 2, "--strategies", "exchange=gossip; exchange=average", "--plot", "new.svg"],
        "compare FILES": ["compare", "m.jsonl", "m.jsonl", "--plot", "new.svg"],
        "find-lr": ["find-lr", *SMALL, "--model", "mlp", "--plot", "new.svg"],
        "train": ["train", *SMALL, "--model", "mlp", "--metrics", "new.jsonl", "--trace", "new.json", "-q"],
        "export": ["export", "kept/latest", "-o", "new.safetensors"],
        "predict": ["predict", "--checkpoint", "kept/latest", *SMALL[:2], "-o", "new.csv"],
        "measure": ["measure", "-o", "new", "--seconds", 2],
    }
    whole = {".svg": b"</svg>\n", ".json": b"}\n", ".yaml": b"\n", "": b"\n"}
    before = set(os.listdir("."))
    for name, words in commands.items():
        for _ in range(4 if os.environ.get("WEFT_FAST") else 20):
            ticks, numbers = draw.randint(0, 60), [draw.choice((signal.SIGINT, signal.SIGTERM)) for _ in range(2)]
            job = subprocess.Popen([weft, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=os.getcwd()))
            wait_until(lambda: job.poll() is not None or moment(job.pid) >= ticks)
            for number in numbers:
                job.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(AN_END)
            check(f"{name} at tick {ticks}: it ends", job.returncode is not None, numbers)
            there = sorted(set(os.listdir(".")) - before)
            check(f"{name} at tick {ticks} by {numbers}: whole files or none", all(
                file.startswith("new") and "tmp" not in file and open(file, "rb").read().endswith(whole.get(file[3:], b"")) for file in there), there)
            for file in there:
                os.remove(file)


def first():
    os.mkdir("room")
    os.chdir("room")
    times("one")


sys.exit(main(measure, simulate, compare, plan, scale, verify, at_any_time, first=first))
