#!/usr/bin/env python3
"""The runner of checks, over stages of its own in a small tree: tests/checking/check_runner.py SOURCE

Records: what has passed is not run again until a file that it reads changes. Failures: the first one is shown, and the exit code
says it. Whatever ends a run, what was done stays done and no process is left.
"""
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from waiting import wait_until

source = os.path.abspath(sys.argv[1])
passed = failed = 0

STAGES = '''
import glob
import os
from collections import namedtuple
from .job import Result
Stage = namedtuple("Stage", "name says packages reads run")

def good(job):
    job.run("one", ["sh", "-c", "echo ran >>runs; echo SKIPPED half of it"])
    job.run_all([(f"number {k}", ["true"], None) for k in range(5)])

def bad(job):
    job.run("first", ["sh", "-c", "echo FAILED: the reason; exit 3"])
    job.run("second", ["false"])
    job.run("counts", ["sh", "-c", "echo 7 passed, 2 failed; exit 1"], own_counts=True)

def skips(job):
    job.run("none", ["sh", "-c", "echo SKIPPED: no such machine; exit 77"])

def orphan(job):
    job.run("orphan", ["sh", "-c", "(sh -c 'sleep 0.2' & echo $! >pid; exec sleep 0.1) & sleep 0.8; "
                       "if [ -e /proc/$(cat pid) ]; then echo FAILED: a zombie; exit 1; fi"])

def long(job):
    job.run("long", ["sh", "-c", "setsid sleep 1000 & echo $! >pid; sleep 1000"])

def several(job):
    job.run_all([(f"long {k}", ["sh", "-c", "echo $$ >>pids; echo $$ >pid; exec sleep 1000"], None) for k in range(9)], jobs=2)

def once(job):
    for name in ("a", "b"):
        job.run_once(name, ["build/p/" + name], {"WORD": os.environ.get("WORD", "")})
    job.run_once("script", ["tests/run.sh", "build/p/a"])
    job.run_once("tree", ["build/p/a", "build/p"])

STAGES = (Stage("good", "passes", "", ("src/",), good), Stage("bad", "fails", "", ("src/",), bad),
          Stage("skips", "is skipped", "", ("src/",), skips), Stage("orphan", "leaves an orphan", "", ("src/",), orphan),
          Stage("needs", "needs packages", "rare", ("src/",), good), Stage("long", "never ends", "", ("src/",), long),
          Stage("several", "never end", "", ("src/",), several),
          Stage("once", "keeps what has passed", "", ("src/", "tests/"), once),
          Stage("empty", "runs nothing", "", ("src/",), lambda job: None))
GROUPS = {"all": ["good", "bad"], "few": ["good", "skips"]}
'''


def check(what, right, got=""):
    global passed, failed
    if right:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}: {got}", flush=True)


def run(*words, code=0, **more):
    done = subprocess.run(["scripts/check", *words], capture_output=True, text=True, timeout=300, **more)
    check(f"exit of {words}", done.returncode == code, (done.returncode, done.stdout[-1500:], done.stderr[-800:]))
    return done.stdout + done.stderr


def runs():
    return open("runs").read().count("ran") if os.path.exists("runs") else 0


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def records():
    last = run("good").strip().splitlines()[-1]
    check("the last line is the sum", last == "6 passed, 0 failed, 0 skipped" and runs() == 1, last)
    check("not run again", "has passed for these files" in run("good") and runs() == 1)
    open("notes", "w").close()
    check("a file that it does not read", "not run again" in run("few") and runs() == 1)
    with open("src/a.c", "a") as f:
        f.write("int x;\n")
    run("good")
    check("a file that it reads", runs() == 2)
    run("good", "--again")
    check("--again", runs() == 3)
    text = run("--status", "good", "long")
    check("the table of the last runs", re.search(r"good +\d+ +6 +0 +0", text) and "has not ended" in text, text)


def ends():
    text = run("bad", code=1)
    check("the first failure comes first", "The first failure is first:\n    FAILED: the reason" in text, text)
    check("own counts are added up", text.strip().endswith("7 passed, 4 failed, 0 skipped"), text)
    check("what failed runs again", "The first failure" in run("bad", code=1))
    text = run("skips")
    check("why it was skipped", "none: no such machine" in text and text.strip().endswith("0 passed, 0 failed, 1 skipped"), text)
    text = run("nothing", code=2)
    check("an unknown stage", "no stage 'nothing'" in text and "good, bad, skips" in text, text)
    run("--nothing", code=2)
    text = run("needs", code=1)
    check("packages that are missing", "apt-get install rare" in text, text)
    text = run("empty", code=1)
    check("a stage that runs nothing has failed", "ran no check" in text, text)
    run("orphan", "--again")
    check("--list", re.search(r"^long +never ends$", run("--list"), re.M))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def checks_are_kept():
    """A check that has passed runs again when its program, a file that it may read, its words or its environment change."""
    def ran(what, expected, *words, code=0, **more):
        before = open("ran").read() if os.path.exists("ran") else ""
        text = run("once", *words, code=code, **more)
        now = open("ran").read()[len(before):]
        check(f"checks that run after {what}", "".join(sorted(now)) == expected, (now, text[-600:]))
        return text

    write("build/p/a", "#!/bin/sh\nprintf a >>ran; echo SKIPPED half\n")
    write("build/p/b", "#!/bin/sh\nprintf b >>ran; exit 1\n")
    write("build/p/libx.so", "1")
    write("tests/run.sh", "#!/bin/sh\nprintf s >>ran\n")
    text = ran("nothing", "aabs", code=1)
    check("counts of checks that run", "3 passed, 1 failed, 2 skipped" in text, text)
    text = ran("a failure", "ab", code=1)  # tree: it gets a folder, so it runs always
    check("counts of checks that are kept", "3 passed, 1 failed, 2 skipped" in text and "2 that took" in text, text)
    write("build/p/b", "#!/bin/sh\nprintf b >>ran\n")
    ran("another program", "abs")  # the script might start it
    with open("src/a.c", "a") as f:
        f.write("\n")
    ran("a source that no program changes for", "a")
    write("tests/run.sh", "#!/bin/sh\nprintf S >>ran\n")
    ran("another script", "Sa")
    write("tests/other.sh", "1")
    ran("a script that no check starts", "a")
    write("tests/run.sh", "#!/bin/sh\n. tests/lib.sh # printf s >>ran\nprintf s >>ran\n")
    write("tests/lib.sh", "#!/bin/sh\nimport data # no import\n")
    ran("a script that reads another one", "as")
    write("tests/lib.sh", "#!/bin/sh\npython3 tests/data.py 2>/dev/null || :\n")
    ran("another script that it reads", "as")
    write("tests/data.py", "import more\n")
    ran("a script that is named further on", "as")
    write("tests/more.py", "\n")
    ran("a module", "as")
    write("tests/table.txt", "1")
    ran("another file of the tests", "aabs")
    write("build/p/libx.so", "2")
    with open("src/a.c", "a") as f:
        f.write("\n")
    ran("another library", "aabs")
    write("tests/test_a.c", "1")
    ran("another word in the environment", "aab", env=dict(os.environ, WORD="x"))
    ran("--again", "aabs", "--again")


def ended_by(number, code, stage):
    for name in ("pid", "pids"):
        if os.path.exists(name):
            os.remove(name)
    with open("src/a.c", "a") as f:
        f.write("\n")
    process = subprocess.Popen(["scripts/check", "good", stage], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: os.path.exists("pid") and open("pid").read(), 120)
    process.send_signal(number)
    text = process.communicate(timeout=120)[0]
    check(f"ended by signal {number}", process.returncode == code and re.search(stage + " +- .*has not ended", text), (process.returncode, text))
    check("its processes have ended", not alive(int(open("pid").read())))
    if stage == "several":
        started = open("pids").read().split()
        check("nothing is started after a signal", len(started) <= 2 and not any(alive(int(pid)) for pid in started), started)
    before = runs()
    run("good")
    check("what was done stays done", runs() == before)


def full_disk():
    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with open("src/a.c", "a") as f:
        f.write("\n")
    text = run("good", code=1, preexec_fn=small)
    check("a full disk is said", re.search(r"scripts/check: .*: (File too large|No space left on device)", text) and "Traceback" not in text, text)
    run("good")


def exit_status_is_kept():
    """A child that ends at once, before `start` has noted it, is no orphan: reaped as one it would seem to have passed."""
    sys.path.insert(0, os.path.join(source, "scripts"))
    from checking import processes
    with processes.starting:
        child = subprocess.Popen(["sh", "-c", "exit 5"])
        reaper = threading.Thread(target=processes.reap_orphan, args=(child.pid,))
        reaper.start()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        reaper.join(0.2)
        processes.started.add(child.pid)
    reaper.join()
    code = child.wait()
    check("the exit status of a child that ends at once is kept", code == 5, code)


def names_exist():
    """A stage or a target of make that names a test by a former name fails only when it runs, which is seldom."""
    sys.path.insert(0, os.path.join(source, "scripts"))
    from checking import stages
    with open(os.path.join(source, "Makefile")) as f:
        named = set(re.findall(r"/tests/test_(\w+)", f.read()))
    for name in sorted(named | {*stages.TSAN, *stages.VALGRIND, *stages.CHAOS}):
        check(f"a stage or the Makefile names the test {name}",
              glob.glob(os.path.join(source, "tests", "*", f"test_{name}.c")), "there is no such file")


work = tempfile.mkdtemp()
os.environ.pop("CHECK_FOLDER", None)  # the records of the run that this test is a part of
try:
    os.chdir(work)
    shutil.copytree(os.path.join(source, "scripts", "checking"), "scripts/checking", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(source, "scripts", "check"), "scripts/check")
    with open("scripts/checking/stages.py", "w") as f:
        f.write(STAGES)
    with open("scripts/deps", "w") as f:
        f.write('#!/bin/sh\n[ "$1" != rare ] || { echo "missing: apt-get install rare" >&2; exit 1; }\n')
    os.chmod("scripts/deps", 0o755)
    os.mkdir("src")
    open("src/a.c", "w").close()
    records()
    ends()
    checks_are_kept()
    ended_by(signal.SIGINT, 130, "long")
    ended_by(signal.SIGTERM, 143, "long")
    ended_by(signal.SIGTERM, 143, "several")
    full_disk()
    names_exist()
    exit_status_is_kept()
finally:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
