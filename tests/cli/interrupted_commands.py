"""Commands that compute for long end at a signal, say what they have so far, and leave nothing behind: interrupted_commands.py PATH/TO/weft

A signal is sent once the command catches it. Each command would go on for minutes otherwise, so that one that does not look at
its requests to stop is still there after the time that a process may take to end."""
import contextlib
import glob
import os
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
    write("four.yaml", "times: one.times\nmachines:\n  - {count: 4, cores: 1}\n")


def catches(pid):
    mask = re.search(r"SigCgt:\s*(\w+)", open(f"/proc/{pid}/status").read())
    return int(mask.group(1), 16) >> (signal.SIGINT - 1) & 1


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


def first():
    os.mkdir("room")
    os.chdir("room")
    times("one")


sys.exit(main(measure, simulate, compare, plan, verify, first=first))
