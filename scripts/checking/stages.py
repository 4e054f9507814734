"""The stages of checking, one row each, in the order in which they run.

A test belongs to stages by the columns of its row in tests/list.cmake. The stage `test` runs all tests that have its label with
WEFT_FAST=1, which takes a part of the products of meshes and models; the other stages run theirs in full.
"""
import glob
import os
import subprocess
import tempfile
from collections import namedtuple

from .job import CORES, ROOT, Result

Stage = namedtuple("Stage", "name says packages reads run")
CODE = ("src/", "include/", "cmake/", "CMake", "tests/", "examples/", "scripts/", "bench/", ".ci/", "Makefile")
FAST = {"WEFT_FAST": "1"}
# Leaks in libraries below are theirs; ours are found, since every test frees all it makes.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1",
              "LSAN_OPTIONS": f"suppressions={ROOT}/tests/support/leaks.supp:print_suppressions=0"}


def suite(label, preset="release", environment=None):
    """Tests that have a label, under a preset. A label that no test has is a failure. The programs of `sanitize` are a target,
    since that stage runs no scripts."""
    def run(job):
        if job.build(preset, ["tests_sanitize"] if label == "sanitize" else ()) and not job.suite(preset, label, environment):
            job.add(Result(label, "failed", 0, f"no test has the label {label}"))
    return run


# --- lint ---


def sources(*folders):
    return sorted(f for folder in folders for suffix in ("c", "h", "cpp")
                  for f in glob.glob(f"{ROOT}/{folder}/**/*.{suffix}", recursive=True))


def tidy(job, together, *more):
    """Commands of clang-tidy on all sources, so many files a process, with the commands of the clang preset."""
    if not job.build("clang", ["weft_proto"]):
        return []
    files = [f for f in sources("src") if f.endswith(".c")]
    groups = [files[i:i + together] for i in range(0, len(files), together)]
    return [(f"clang-tidy {os.path.relpath(g[0], ROOT)}" + (f" and {len(g) - 1} more" if g[1:] else ""),
             ["clang-tidy", "--quiet", "-p", "build/clang", "--warnings-as-errors=*", *more, *g]) for g in groups]


def lint(job):
    commands = [(name, [f"scripts/check-{name}"]) for name in ("layers", "words", "names")]
    if subprocess.run(["which", "clang-format-14"], capture_output=True).returncode == 0:
        commands.append(("format", ["clang-format-14", "--dry-run", "-Werror", *sources("src", "include", "tests", "bench", "examples")]))
    else:
        job.add(Result("format", "skipped", 0, "clang-format-14 is not in this release"))
    # The analyzer takes 97 % of the time of clang-tidy.
    job.run_all(commands + tidy(job, 30, "--checks=-clang-analyzer-*"))


def tidy_all(job):
    job.run_all(tidy(job, 4))


# --- sanitizers ---


# Tests of what has threads; the simulator has one thread, so nothing that runs in it alone.
TSAN = "abort comm_failures rewrite bit_equivalence comm comm_sizes comm_tree_sums plans instances fake_remote exchange_hooks exchange_contract net ps_training hogwild batcher batch_dispatch service batch_times".split()
# Tests whose steps are computed on the reference device (see `command_under_valgrind`).
VALGRIND = "program ops base graph formats csv data".split()
SMALL = "--data glyphs:size=16,train=80,test=20 --device reference -n 4 -t 1 --steps 6".split()


def tsan(job):
    """Ranks as threads, each with one, on the reference device: the OpenMP runtime and oneDNN are not built for this
    sanitizer, which would take their locks for races."""
    if not job.build("tsan", ["weft_command", "hunt", *(f"test_{t}" for t in TSAN)]):
        return
    environment = dict(FAST, OMP_NUM_THREADS="1", TSAN_OPTIONS=f"halt_on_error=1:suppressions={ROOT}/tests/support/tsan.supp")
    train = ["build/tsan/weft", "train", *SMALL]
    meshes = ("data=4", "data=2,tensor=2", "domain=2,pipeline=2 --microbatches 2", "data=4 --zero 3",
              "data=2,pipeline=2 --virtual-workers 4")
    commands = [(t, [f"build/tsan/tests/test_{t}"], environment) for t in TSAN]
    commands += [(f"train --mesh {m}", train + f"--batch 20 --mesh {m}".split(), environment) for m in meshes]
    commands += [("train --exchange", train + "--batch 10 --exchange average:every=2,outer=nesterov --mesh tensor=2".split(), environment),
                 ("hunt", ["build/tsan/tests/hunt/hunt", "--seed", "1", "--seconds", "15"], environment)]
    job.run_all(commands, once=True)
    if not job.suite("tsan", "http", environment):
        job.add(Result("http", "failed", 0, "no test has the label http"))


def command_under_valgrind(folder):
    """The whole command on the reference device: oneDNN's generated code reads past the end of its own buffers where it
    may, and valgrind cannot tell that from a fault."""
    data = "--device reference --data glyphs:size=16,train=20,test=10 --batch 10".split()
    a = os.path.join(folder, "a")
    return [("train", ["train", *data, "--checkpoint", a, "--metrics", f"{folder}/m", "--trace", f"{folder}/t", "--microbatches", "2",
                       "--clip-norm", "1"]),
            ("resume", ["train", *data, "--checkpoint", a, "--epochs", "2", "--resume", "--microbatches", "2"]),
            ("eval", ["eval", "--device", "reference", "--checkpoint", a, "--json"]),
            ("predict", ["predict", "--device", "reference", "--checkpoint", a, "--output", f"{folder}/p.csv"]),
            ("export", ["export", f"{a}/latest", "-o", f"{folder}/w"]), ("inspect", ["inspect", a])]


def valgrind(job):
    if not job.build("valgrind", ["weft_command", *(f"test_{t}" for t in VALGRIND)]):
        return
    under = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite",
             "--suppressions=tests/support/valgrind.supp"]
    environment = {"OMP_NUM_THREADS": "2", "WEFT_VALGRIND": "1"}
    job.run_all([(t, under + [f"build/valgrind/tests/test_{t}"], environment) for t in VALGRIND], once=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in command_under_valgrind(folder):
            job.run(f"weft {name}", under + ["build/valgrind/weft", *words], environment)


# --- what draws new cases ---


def hunt(job):
    """Random networks, data and ways to run, with a seed of the moment that is printed."""
    if job.build("release", ["hunt", "weft_command"]):
        seconds = str(60 * int(os.environ.get("MINUTES") or "5"))
        seed = ["--seed", os.environ["SEED"]] if os.environ.get("SEED") else []
        job.run("hunt", ["build/release/tests/hunt/hunt", "--seconds", seconds, *seed, "--keep", "build/hunt"])


# Tests of the simulator that draw as many runs as WEFT_CHAOS says.
CHAOS = "ps_chaos gossip_chaos".split()


def chaos(job):
    if job.build("release", [f"test_{t}" for t in CHAOS]):
        environment = {"WEFT_CHAOS": os.environ.get("RUNS") or "10000"}
        job.run_all([(t, [f"build/release/tests/test_{t}"], environment) for t in CHAOS])


def fuzz(job):
    """Each parser for some seconds from its corpus, with a seed of the moment."""
    if not job.build("fuzz"):
        return
    seconds = os.environ.get("FUZZ_SECONDS") or "30"
    targets = sorted(t for t in glob.glob(f"{ROOT}/build/fuzz/tests/fuzz/fuzz_*") if os.access(t, os.X_OK) and os.path.isfile(t))
    commands = []
    for target in targets:
        name = os.path.basename(target).removeprefix("fuzz_")
        new = f"build/fuzz/corpus/{name}"
        os.makedirs(os.path.join(ROOT, new), exist_ok=True)
        commands.append((name, [target, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0",
                                f"-artifact_prefix=build/fuzz/crash-{name}-", new, f"tests/fuzz/corpus/{name}"], SANITIZERS))
    job.run_all(commands)


# --- other releases ---


def debian13(job):
    """The compilers, oneDNN, MPI and Python of another release. Where it cannot be had the stage is skipped, with the reason."""
    can = subprocess.run(["scripts/in-debian", "--check", "13"], cwd=ROOT, capture_output=True, text=True)
    if can.returncode:
        job.add(Result("debian13", "skipped", 0, can.stderr.strip() or "scripts/in-debian --check 13 does not say why"))
        return
    inner = "make demo && scripts/deps test && CHECK_FOLDER=/weft/tree/build/check scripts/check --again release"
    job.run("debian13", ["scripts/in-debian", "13", "sh", "-c", inner], own_counts=True)


STAGES = (
    Stage("lint", "format, layers, words, names, clang-tidy without its analyzer", "build lint", CODE + (".clang",), lint),
    Stage("test", "built with gcc: most tests in their short form", "test", CODE + ("README.md", "docs/"),
          suite("test", environment=FAST)),
    Stage("sanitizers", "unit tests under the address and undefined sanitizers; each parser over its fuzz corpus", "test", CODE,
          suite("sanitize", "asan", dict(SANITIZERS, WEFT_FAST="2"))),
    Stage("asan", "all unit and HTTP tests under the address and undefined sanitizers", "test", CODE, suite("unit", "asan", dict(SANITIZERS, **FAST))),
    Stage("tidy", "clang-tidy with its analyzer", "build lint", ("src/", "include/", "cmake/", "CMake", "scripts/", ".clang"), tidy_all),
    Stage("clang", "built with clang: unit tests", "test lint", CODE, suite("unit", "clang", FAST)),
    Stage("meshes", "every mesh with every model, every codec and exchange", "test", CODE, suite("meshes")),
    Stage("processes", "ranks, learners and servers as processes that are stopped and killed", "test", CODE, suite("processes")),
    Stage("hosts", "hosts in network namespaces, lines that are cut", "test", CODE, suite("hosts")),
    Stage("serving", "servers, load and their clients", "test", CODE, suite("serving")),
    Stage("faults", "every call on memory, files and messages fails once", "test", CODE, suite("faults", environment={"WEFT_STRIDE": "1"})),
    Stage("documents", "every command of the documents; headers and the installed library", "test",
          CODE + ("README.md", "docs/"), suite("documents")),
    Stage("tsan", "the thread sanitizer: what has threads, and the HTTP tests", "test", CODE, tsan),
    Stage("valgrind", "valgrind", "test", CODE, valgrind),
    Stage("fuzz", "each parser for FUZZ_SECONDS (30) with new seeds", "build lint", CODE, fuzz),
    Stage("hunt", "random networks, data and ways to run for MINUTES (5), with a new SEED", "test", CODE, hunt),
    Stage("chaos", "RUNS (10000) simulated runs with random faults, servers and peers", "test", CODE, chaos),
    Stage("debian13", "the tests of the stage release under Debian 13", "", CODE, debian13),
    # What depends on the system's compilers, oneDNN, MPI and sockets. `debian13` runs it in the other release.
    Stage("release", "tests that depend on the release of the system", "test", CODE, suite("release", environment=FAST)),
)
GROUPS = {"gate": ["lint", "test", "sanitizers"],
          "all": [stage.name for stage in STAGES if stage.name != "release"]}
