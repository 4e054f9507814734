"""Commands that run while faults are planted, several at a time, and that nothing of them is left."""
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading

from checking.job import FILES, ROOT
from checking.processes import end_children, end_group, start

ROOM = os.path.join(ROOT, "build", "mutate")
TREE = os.path.join(ROOM, "tree")
running, counting = 0, threading.Lock()


def run(words, limit=None, full=False, **more):
    """Exit code and output; a code of None where the limit has passed. full: tests take whole products of meshes and
    models. `more` goes into the environment."""
    with alive():
        return run_alive(words, limit, full, more)


@contextlib.contextmanager
def alive():
    """While a thread is in here, no child of this process is ended. When the last one leaves, all are: a process that a
    command left behind in another group is only then known not to be of another command."""
    global running
    with counting:
        running += 1
    try:
        yield
    finally:
        with counting:
            running -= 1
            if not running:
                end_children()


def run_alive(words, limit, full, more):
    os.makedirs(FILES, exist_ok=True)
    files = tempfile.mkdtemp(dir=FILES)
    environment = dict(os.environ, TMPDIR=files, **more)
    environment.pop("WEFT_FAST", None)
    if not full:
        environment["WEFT_FAST"] = "1"
    data = os.path.join(os.path.dirname(ROOT), "shared", "data")
    if os.path.isdir(data):
        environment.setdefault("WEFT_DATA", data)
    process = start(words, environment, preexec_fn=lambda: os.nice(int(os.environ.get("MUTATE_NICE", "10"))))
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output, code = "", None
        end_group(process)
    shutil.rmtree(files, ignore_errors=True)
    return code, output
