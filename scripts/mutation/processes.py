"""What is run while faults are planted, and that nothing of it is left."""
import os
import shutil
import subprocess

from checking.job import FILES, ROOT
from checking.processes import end_children, start

ROOM = os.path.join(ROOT, "build", "mutate")
TREE = os.path.join(ROOM, "tree")


def run(words, limit=None, **more):
    """Exit code and output; a code of None where the limit has passed. `more` goes into the environment."""
    environment = dict(os.environ, WEFT_FAST="1", TMPDIR=FILES, **more)
    data = os.path.join(os.path.dirname(ROOT), "shared", "data")
    if os.path.isdir(data):
        environment.setdefault("WEFT_DATA", data)
    os.makedirs(FILES, exist_ok=True)
    process = start(words, environment, preexec_fn=lambda: os.nice(int(os.environ.get("MUTATE_NICE", "10"))))
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output, code = "", None
    end_children()
    for name in os.listdir(FILES):
        shutil.rmtree(os.path.join(FILES, name), ignore_errors=True)
    return code, output
