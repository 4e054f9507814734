"""Which tests execute which lines, measured once for a tree, and again for a test whose own files have changed.

The tree is built a second time, by clang with counters that lie in mapped files. So a process that is
killed, a child that never returns and a rank on another host leave what they executed up to then as well.
A test that runs out of time while it is measured is taken to execute everything.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from checking.job import CORES, MEMORY

from .processes import ROOM, TREE, alive, run

BUILD = os.path.join(TREE, "build", "coverage")
FLAGS = "-fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation"
# These look at the tree and not at what it does: nothing of a fault in a function's body is to be seen there.
LEFT_OUT = ("check_runner", "headers", "install")
# Stages that run their tests in full, where the stage `test` takes a part of the products of meshes and models.
FULL = {"meshes", "processes", "hosts", "serving", "faults", "documents"}


def tool(name):
    """The one of clang's own version: profiles of other versions cannot be read."""
    found = subprocess.run(["clang", f"-print-prog-name={name}"], capture_output=True, text=True).stdout.strip()
    return shutil.which(found) or sys.exit(f"scripts/mutate: clang's {name} is missing; the package is llvm")


def tests_of(build):
    """Names with what each needs built: files of the build that its command names, and the command itself; and names
    with the labels of each."""
    _, output = run(["ctest", "--test-dir", build, "--show-only=json-v1"])
    skipped = LEFT_OUT + tuple(os.environ.get("MUTATE_SKIP", "").split())
    needs, labels = {}, {}
    for test in json.loads(output)["tests"]:
        if test["name"] not in skipped:
            files = [w for w in test["command"] if os.path.isfile(w) and w.startswith(build + "/")]
            needs[test["name"]] = sorted({os.path.relpath(w, build) for w in files} | {"weft"})
            labels[test["name"]] = {v for p in test["properties"] if p["name"] == "LABELS" for v in p["value"]}
    return needs, labels


def own_sources(name):
    """A hash of the files that are a test's own: those called by its name."""
    stem, hashed = re.sub(r"_mpi(_\d+)?$", "", name), hashlib.sha256()
    for folder, _, names in sorted(os.walk(os.path.join(TREE, "tests"))):
        for file in sorted(names):
            if os.path.splitext(file)[0] in (stem, f"test_{stem}") or os.path.basename(folder) == stem:
                with open(os.path.join(folder, file), "rb") as f:
                    hashed.update(f.read())
    return hashed.hexdigest()[:16]


def lines_of(text):
    """{path: [lines executed, lines there are]} of what llvm-cov writes as lcov."""
    lines, path = {}, None
    for line in text.splitlines():
        if line.startswith("SF:"):
            path = os.path.relpath(line[3:], TREE)
        elif line.startswith("DA:") and path.startswith("src/"):
            number, count = line[3:].split(",")[:2]
            executed, there = lines.setdefault(path, [set(), set()])
            there.add(int(number))
            if int(count):
                executed.add(int(number))
    return {path: [sorted(executed), sorted(there)] for path, (executed, there) in lines.items()}


def measure(name, needs, full, counters):
    """Runs a test with counters: seconds, its lines (None: everything) and its exit code."""
    start = time.monotonic()
    code, _ = run(["ctest", "--test-dir", BUILD, "-R", f"^{name}$"], 3600, full,
                  LLVM_PROFILE_FILE=os.path.join(counters, "%c%m.profraw"))
    seconds = time.monotonic() - start
    files = [os.path.join(counters, f) for f in os.listdir(counters)] if os.path.isdir(counters) else []
    if code is None or not files:
        return seconds, None, code
    merged, objects = os.path.join(counters, "all"), [os.path.join(BUILD, n) for n in needs if not n.endswith(".so")]
    run([tool("llvm-profdata"), "merge", "-sparse", "-o", merged] + files)
    more = [word for name in objects[1:] for word in ("-object", name)]
    found = subprocess.run([tool("llvm-cov"), "export", "-format=lcov", f"-instr-profile={merged}", objects[0]] + more,
                           capture_output=True, text=True)
    shutil.rmtree(counters, ignore_errors=True)
    return seconds, lines_of(found.stdout) or None, code


def must(words, what):
    code, output = run(words)
    if code:
        sys.exit(f"{output}\nscripts/mutate: {what}")


def build():
    must(["cmake", "-S", TREE, "-B", BUILD, "--preset", "clang", "-DWEFT_WERROR=OFF", "-DWEFT_BENCH=OFF",
          f"-DCMAKE_C_FLAGS={FLAGS}"], "cannot configure with counters")
    must(["cmake", "--build", BUILD, "-j", str(os.cpu_count())], "does not build with counters")


class Reach:
    """Seconds that tests take, and which of them execute a line."""

    def __init__(self, tree):
        self.kept = os.path.join(ROOM, f"reach-{tree}.json")
        self.tests = {}
        if os.path.exists(self.kept):
            with open(self.kept) as f:
                self.tests = json.load(f)
        self.needs, self.labels = tests_of(os.path.join(TREE, "build", "release"))
        self.own = {name: own_sources(name) for name in self.needs}
        self.require(False)

    def require(self, full):
        """Measures the tests of `make test`, or those of all stages, where that was not done before."""
        missing = [n for n in self.needs if (full or self.in_stages(n, False)) and
                   self.tests.get(n, {}).get("own") != self.own[n]]
        if missing:
            self.measure_all(missing)
        self.tests = {n: t for n, t in self.tests.items() if t["own"] == self.own.get(n)}
        self.there = {}
        for test in self.tests.values():
            for path, (_, there) in (test["lines"] or {}).items():
                self.there.setdefault(path, set()).update(there)

    def measure_all(self, names):
        """As many tests at a time as there are cores; each is kept as soon as it has ended."""
        build()
        counters = os.path.join(MEMORY, f"weft-counters-{os.getuid()}-{os.getpid()}")

        def one(name):
            with alive():
                return measure(name, self.needs[name], not self.in_stages(name, False), os.path.join(counters, name))

        with ThreadPoolExecutor(CORES) as pool:
            for name, (seconds, lines, code) in zip(names, pool.map(one, names)):
                said = "" if code == 0 else f", fails there ({code})"
                print(f"{name}: {seconds:.1f} s with counters{said}{'' if lines else ', taken to execute everything'}", flush=True)
                self.tests[name] = {"own": self.own[name], "seconds": seconds, "lines": lines}
                with open(self.kept + ".new", "w") as f:
                    json.dump(self.tests, f)
                os.replace(self.kept + ".new", self.kept)
        shutil.rmtree(counters, ignore_errors=True)

    def in_stages(self, name, full):
        """Whether a test runs in `make test`; full: in the stages that run their tests in full."""
        return bool(self.labels[name] & (FULL if full else {"test"}))

    def seconds(self, name):
        return self.tests[name]["seconds"]

    def executes(self, name, path, number):
        """A line outside of functions (a table, a constant) is executed by whoever executes anything of its file,
        and where a file is nothing but tables, by all."""
        lines = self.tests[name]["lines"]
        if lines is None or not self.there.get(path):
            return True
        executed = lines.get(path, [[]])[0]
        return number in executed if number in self.there[path] else bool(executed)

    def of(self, path, number, full):
        """Names of the tests of `make test`, or of the full stages, that execute a line, the fastest first."""
        names = [n for n in self.tests if self.in_stages(n, full) and self.executes(n, path, number)]
        return sorted(names, key=self.seconds)
