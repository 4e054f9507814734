"""One stage under way: it builds presets, runs tests and commands, and collects one result for each."""
import json
import os
import re
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from .processes import end_group, start

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORES = len(os.sched_getaffinity(0))
WAITING = 3  # tests at a time of those that mostly wait, besides one a core
# The last line of a suite, of a script or of an inner run of scripts/check.
COUNTS = re.compile(r"^(?:\S+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
# Tests put their files into memory where that can be had, since they sync what they write.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else os.path.join(ROOT, "build")
FILES = os.path.join(MEMORY, f"weft-check-{os.getuid()}-{os.getpid()}")
# OpenMP's threads block instead of spinning: several tests share the cores, each with as many threads as there are cores.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "TMPDIR": FILES}


class Result:
    """state: passed, failed or skipped. passed, failed, skipped: how many checks it stands for, where it counted them itself."""

    def __init__(self, name, state, seconds, output="", counts=None):
        self.name, self.state, self.seconds, self.output = name, state, seconds, output
        self.passed, self.failed, self.skipped = counts or [int(state == s) for s in ("passed", "failed", "skipped")]
        if state == "failed" and not self.failed:
            self.failed = 1


class Job:
    def __init__(self, log, passed=None):
        """log: an open file that gets all output. Progress and failures go to standard output as well. passed: the checks
        that have passed before (see passed.py), or None."""
        self.log, self.passed, self.results, self.builds = log, passed, [], []
        self.kept = self.kept_seconds = 0  # checks that were not run again, and what they took
        self.terminal = sys.stdout.isatty()

    # --- what a person sees ---

    def progress(self, text):
        if self.terminal:
            print(f"\r\033[K  {text}"[:110], end="", flush=True)

    def say(self, line):
        print(("\r\033[K" if self.terminal else "") + line, flush=True)

    def write(self, text):
        self.log.write(text)
        self.log.flush()

    def add(self, result):
        self.results.append(result)
        if result.state == "failed":
            self.say(f"  FAILED   {result.name}  {result.seconds:.1f} s")
        elif result.state == "skipped":
            self.say(f"  skipped  {result.name}: {reason(result.output)}")
        elif result.seconds >= 10 and not self.terminal:
            self.say(f"  passed   {result.name}  {result.seconds:.1f} s")

    # --- commands ---

    def run_once(self, name, argv, environment=None, **more):
        """As run, for a check whose result depends on its programs and files alone: what has passed is not run again."""
        key = self.passed and self.passed.key(argv, environment)
        before = self.passed and self.passed.find(name, key)
        if before:
            self.kept += 1
            self.kept_seconds += before["seconds"]
            self.write(f"\n--- {name}: has passed before\n")
            result = Result(name, "passed", 0, "\n".join(before["skipped"]), before["counts"])
            self.add(result)
        else:
            result = self.run(name, argv, environment, **more)
        skipped = sorted(set(re.findall(r"^SKIPPED.*$", result.output, re.M)))
        if self.passed and not before:
            self.passed.add(name, key, result, skipped)
        # A check that passed may have left a part out, and says so.
        for line in skipped if result.state == "passed" else ():
            self.add(Result(name, "skipped", 0, line))
        return result

    def run(self, name, argv, environment=None, limit=None, own_counts=False, skip_code=77, skip_words=(), **more):
        """Runs one command, adds its result and returns it. own_counts: its last line of counts is added up instead of 1."""
        began = time.monotonic()
        process = start(argv, dict(os.environ, **ENVIRONMENT, **(environment or {})), cwd=ROOT, **more)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            output = end_group(process) + f"\nended after {limit} s"
        seconds = time.monotonic() - began
        self.write(f"\n--- {name} ({seconds:.1f} s, exit {process.returncode})\n{output}")
        state = {0: "passed", skip_code: "skipped"}.get(process.returncode, "failed")
        if any(re.search(words, output, re.M) for words in skip_words):
            state = "skipped"
        counts = None
        if own_counts and state != "skipped":
            found = [m for m in map(COUNTS.match, output.splitlines()) if m]
            counts = [int(n or 0) for n in found[-1].groups()] if found else None
        result = Result(name, state, seconds, output, counts)
        self.add(result)
        return result

    def run_all(self, commands, jobs=CORES, once=False):
        """commands: (name, argv, environment), as many at a time as `jobs`. once: by run_once."""
        done = 0
        with ThreadPoolExecutor(jobs) as pool:
            pending = [pool.submit(self.run_once if once else self.run, *c) for c in commands]
            for (name, *_), future in zip(commands, pending):
                self.progress(f"{done} of {len(commands)}  {name}")
                future.result()
                done += 1

    # --- builds and suites ---

    def build(self, preset, targets=()):
        """Configures and builds a preset; a build that fails is a failed check and ends the stage."""
        began, folder = time.monotonic(), os.path.join("build", preset)
        os.makedirs(os.path.join(ROOT, folder), exist_ok=True)
        lines = deque(maxlen=400)
        steps = [["cmake", "--preset", preset], ["cmake", "--build", folder, "-j", str(CORES)]]
        if targets:
            steps[1] += ["--target", *targets]
        for argv in steps:
            process = start(argv, cwd=ROOT)
            for line in process.stdout:
                lines.append(line)
                self.log.write(line)
                if line.startswith("["):
                    self.progress(f"building {preset}  {line.split(']')[0]}]")
            if process.wait():
                output = "".join(lines)
                at = output.find("FAILED: ")
                self.add(Result(f"build {preset}", "failed", time.monotonic() - began, output[max(at, 0):]))
                return False
        self.builds.append((preset, time.monotonic() - began))
        return True

    def suite(self, preset, label, environment=None):
        """Runs the tests of a preset that have a label, the longest first. Each computes on a core of its own, so that tests
        beside each other do not share one; those labelled `cores` may use all. WAITING more at a time are among those that
        mostly wait for processes. False: no test has the label."""
        listed = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"], cwd=ROOT, capture_output=True,
                                text=True, check=True)
        tests = [Test(t) for t in json.loads(listed.stdout)["tests"]]
        tests = sorted((t for t in tests if label in t.labels), key=lambda t: -t.cost)
        queues = {"waits": deque(t for t in tests if "waits" in t.labels), "computes": deque(t for t in tests if "waits" not in t.labels)}
        cores, total, done = sorted(os.sched_getaffinity(0)), len(tests), []

        def work(core, order):
            for kind in order:
                while queues[kind]:
                    try:
                        test = queues[kind].popleft()
                    except IndexError:
                        break
                    done.append(test)
                    self.progress(f"{len(done)} of {total} tests  {test.name}")
                    self.run_test(test, environment, core)

        with ThreadPoolExecutor(len(cores) + WAITING) as pool:
            pending = [pool.submit(work, None, ["waits"]) for _ in range(WAITING)]
            pending += [pool.submit(work, core, ["computes", "waits"]) for core in cores]
            for future in pending:
                future.result()
        return total > 0

    def run_test(self, test, environment, core):
        more = {**(environment or {}), **test.environment}

        def prepare():
            if "waits" in test.labels:
                os.nice(5)  # runs that it only waits for do not take the cores from tests that compute
            elif core is not None and "cores" not in test.labels:
                os.sched_setaffinity(0, {core})

        self.run_once(test.name, test.command, more, limit=test.limit, skip_code=test.skip_code, skip_words=test.skip_words,
                      preexec_fn=prepare)


class Test:
    """A test as CTest lists it."""

    def __init__(self, listed):
        properties = {p["name"]: p["value"] for p in listed.get("properties", [])}
        # CTest knows no command where the program or script is not there.
        self.name, self.command = listed["name"], listed.get("command") or ["sh", "-c", "echo its program is missing; exit 1"]
        self.labels, self.cost = set(properties.get("LABELS", [])), float(properties.get("COST", 0))
        self.limit = float(properties.get("TIMEOUT", 900))
        self.environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        self.skip_code = int(properties.get("SKIP_RETURN_CODE", 77))
        self.skip_words = properties.get("SKIP_REGULAR_EXPRESSION", [])


def reason(output):
    """The line of an output that says why something was skipped."""
    lines = [line for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("SKIPPED")]
    return (marked or lines or ["it does not say why"])[-1 if not marked else 0].removeprefix("SKIPPED").lstrip(" :")
