#!/usr/bin/env python3
"""Lets calls fail in turn, under runs of the command: tests/checking/failures.py PATH/TO/weft PATH/TO/fail.so MPI(ON|OFF)

Every allocation of Weft's own code (from each place that it is called from), every call on files, and under
MPI every call that sends or receives. Each run must end by itself with a sentence and a code above 0, or with
0 and the right result; what lay on disk before must still load. Every seventh is taken, from one that the clock
chooses; WEFT_STRIDE=1 takes all.
"""
import gzip
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

weft, shim, mpi = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3] == "ON"
stride = int(os.environ.get("WEFT_STRIDE", "7"))
first = int(time.time()) % stride
LIMIT = 60
failed = passed = 0

NET = """layers:
  - {type: conv, filters: 3, kernel: 3}
  - {type: batch_norm}
  - {type: relu}
  - {type: dropout, rate: 0.2}
  - {type: dense, units: classes}
"""
DATA = "--data glyphs:size=12,train=40,test=10 --batch 20 -t 1 -q"
TRAIN = f"train --model net.yaml {DATA}"


def run(words, limits=(), **variables):
    """Exit code, output and errors; a code of None where it has not ended. limits: (resource, value)."""
    def bind():
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if variables:
        environment.update(variables, LD_PRELOAD=shim)
    try:
        done = subprocess.run([weft] + words.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT,
                              env=environment, text=True, errors="replace", preexec_fn=bind)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return None, "", f"still running after {LIMIT} s"


def fresh(*names):
    for name in names:
        if os.path.isdir(name):
            shutil.rmtree(name)
        elif os.path.exists(name):
            os.remove(name)


def flunk(what, code, error):
    global failed
    failed += 1
    print(f"FAILED: {what}: exit {code}: {error.strip()[-300:]}", flush=True)


def loads(folder):
    """What a run left must be whole: every checkpoint that can be seen, and the newest is found."""
    return not os.path.exists(folder) or not any(n.startswith("step-") and not n.endswith(".old") for n in os.listdir(folder)) or \
        run(f"eval --checkpoint {folder} --json")[0] == 0


class Case:
    """A command; `prepare` lays out what it works on, `whole` says whether what is there afterwards is whole."""

    def __init__(self, words, prepare=lambda: None, whole=lambda code, output: True):
        self.words, self.prepare, self.whole = words, prepare, whole

    def check(self, what, limits=(), **variables):
        global passed
        self.prepare()
        code, output, error = run(self.words, limits, **variables)
        what = f"{what}: weft {self.words}"
        if code is None or code < 0 or code >= 124:
            flunk(what, code, error)
        elif code > 0 and "weft: " not in error:
            flunk(what + " ends without a sentence", code, error)
        elif not self.whole(code, output):
            flunk(what + " leaves something damaged", code, error)
        else:
            passed += 1

    def places(self):
        fresh("list")
        self.prepare()
        code, _, error = run(self.words, FAIL_CALL="memory", FAIL_LIST="list")
        if code:
            flunk(f"weft {self.words}", code, error)
        with open("list") as f:
            return [line.split() for line in f]

    def allocations(self, rarer=1):
        places = self.places()
        if len(places) < 20:
            flunk(f"weft {self.words}: the shim sees only {len(places)} allocations", 0, "")
        for place, call in places[first::stride if stride == 1 else stride * rarer]:
            self.check(f"{call} fails at {place}", FAIL_CALL="memory", FAIL_PLACE=place)

    def calls(self, kind, most):
        """Every call in turn, until a run meets no more of them."""
        for turn in range(1, most + 1):
            if stride > 1 and turn % 3:
                continue
            self.check(f"number {turn} of {kind} fails", FAIL_CALL=kind, FAIL_AT=str(turn))


def limits():
    """Too little memory for all of it, where also oneDNN and threads are refused; files that may not grow."""
    for n, model in ((1, "lenet"), (4, "lenet"), (3, "mlp")):
        words = f"train --model {model} -n {n} -t 1 -q --data glyphs:size=28,train=200,test=50 --batch 100 --steps 2"
        for size in range(80, 520, 10 * stride):
            Case(words).check(f"{size} MB", [(resource.RLIMIT_AS, size << 20)])
    # Where the reserve is just there, three threads must not take it from one another.
    for size in range(262, 302):
        Case(words).check(f"{size} MB", [(resource.RLIMIT_AS, size << 20)])
    for size in (0, 1, 100, 1000, 4000, 10000, 50000):
        for case in (begin, on, out, others[0]):
            case.check(f"files of {size} bytes", [(resource.RLIMIT_FSIZE, size)])


def bomb():
    """A small gzip file that inflates to more than half of the memory is refused with a sentence, in every kind of data that may be gzip."""
    global passed
    with gzip.open("bomb.gz", "wb", 9) as f:
        for _ in range(300):
            f.write(b"0,0\n" * (1 << 18))
    os.makedirs("idx", exist_ok=True)
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        shutil.copy("bomb.gz", "idx/" + name)
    for data in ("csv:bomb.gz", "npy:bomb.gz,bomb.gz", "idx:idx", "text:bomb.gz", "pairs:bomb.gz"):
        done = subprocess.run([weft, "train", "-m", "mlp", "--data", data, "--steps", "1", "-t", "1", "-q"], capture_output=True, text=True, timeout=LIMIT,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20)))
        if done.returncode in (1, 2) and "inflates to more than 262144000 bytes" in done.stderr:
            passed += 1
        else:
            flunk(f"a decompression bomb as {data}", done.returncode, done.stderr)


def copy_run():
    fresh("again")
    shutil.copytree("run", "again", symlinks=True)


def same_export(code, output):
    if code != 0:
        return not os.path.exists("w")
    with open("w", "rb") as a, open("reference", "rb") as b:
        return a.read() == b.read()


work = tempfile.mkdtemp()
try:
    os.chdir(work)
    with open("net.yaml", "w") as f:
        f.write(NET)
    assert run(f"{TRAIN} --epochs 1 --checkpoint run")[0] == 0
    assert run("export run/latest -o reference -q")[0] == 0
    evaluated = run("eval --checkpoint run --json")[1]
    begin = Case(f"{TRAIN} --epochs 1 --checkpoint new --metrics m", lambda: fresh("new", "m"), lambda c, o: loads("new"))
    on = Case(f"{TRAIN} --epochs 2 --checkpoint again --resume --keep 1", copy_run, lambda c, o: loads("again"))
    ranks = Case(f"{TRAIN} --epochs 1 -n 2 --checkpoint new --device reference", lambda: fresh("new"), lambda c, o: loads("new"))
    out = Case("export run/latest -o w -q", lambda: fresh("w"), same_export)
    judged = Case("eval --checkpoint run --json", whole=lambda c, o: c != 0 or o == evaluated)
    numbers = "train --model mlp --data csv:numbers.csv,target=y --batch 20 -t 1 -q"
    with open("numbers.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{i % 7},{i * i % 11},{i * 3.25}\n" for i in range(50)))
    run(f"{numbers} --checkpoint fit")
    fits = [Case(f"{numbers} --epochs 1 --checkpoint new", lambda: fresh("new"), lambda c, o: loads("new")),
            Case("predict --checkpoint fit --json", whole=lambda c, o: c != 0 or o.count("target") == 10)]
    others = [Case("predict --checkpoint run -o p", lambda: fresh("p"),
                   lambda c, o: c == 0 or not os.path.exists("p")),
              Case("inspect run"), Case(f"plan -n 2 --model net.yaml {DATA}"), *fits]
    short = f"--model net.yaml {DATA} --epochs 1"
    between = [Case(f"train {short} -n 2 --exchange {how} --checkpoint new", lambda: fresh("new"), lambda c, o: loads("new"))
               for how in ("server:policy=bsp --servers 2 --replicas 1 --compress dgc", "gossip --compress topk:ratio=0.1", "hogwild")]
    between += [Case(f"simulate {short} -n 3 --exchange server:policy=ssp,bound=1 --servers 2 --compress threshold"),
                Case(f"compare {short} -n 2 --plot p.svg --strategies exchange=gossip;exchange=average")]
    for case in (begin, on, ranks, out, judged, *others):
        case.allocations()
    for case in between:
        case.allocations(rarer=3)
    limits()
    bomb()
    begin.calls("files", 60)
    on.calls("files", 80)
    out.calls("files", 20)
    others[0].calls("files", 12)
    if mpi:
        for turn in (1, 2, 3, 5, 8, 13, 21, 34, 55):
            Case(f"{TRAIN} --epochs 1 -n 2 --engine mpi --timeout 5 --checkpoint again --resume --epochs 3", copy_run,
                 lambda c, o: loads("again")).check(f"message {turn} fails", FAIL_CALL="MPI", FAIL_AT=str(turn))
finally:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
