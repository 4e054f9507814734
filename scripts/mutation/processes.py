"""What is run while faults are planted, and that nothing of it is left."""
import os
import shutil
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOM = os.path.join(ROOT, "build", "mutate")
TREE = os.path.join(ROOM, "tree")
# Where tests put their files: in memory where that can be had, since they sync what they write.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else ROOM
FILES = os.path.join(FAST, f"weft-mutate-{os.getuid()}-{os.getpid()}")


def children():
    """All processes below this one, youngest first."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                parents[int(entry)] = int(f.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            pass
    below, queue = [], [os.getpid()]
    while queue:
        parent = queue.pop()
        found = [p for p, q in parents.items() if q == parent]
        below += found
        queue += found
    return below[::-1]


def end_children():
    """Asks what is left to end, then ends it. Orphans come to this process, so it knows them all."""
    for number, wait in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        for pid in children():
            try:
                os.kill(pid, number)
            except OSError:
                pass
        until = time.monotonic() + wait
        while children() and time.monotonic() < until:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.05)


def run(words, limit=None, **more):
    """Exit code and output; a code of None where the limit has passed. `more` goes into the environment."""
    environment = dict(os.environ, WEFT_FAST="1", TMPDIR=FILES, **more)
    data = os.path.join(os.path.dirname(ROOT), "shared", "data")
    if os.path.isdir(data):
        environment.setdefault("WEFT_DATA", data)
    os.makedirs(FILES, exist_ok=True)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=environment, preexec_fn=lambda: os.nice(int(os.environ.get("MUTATE_NICE", "10"))))
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output, code = "", None
    end_children()
    for name in os.listdir(FILES):
        shutil.rmtree(os.path.join(FILES, name), ignore_errors=True)
    return code, output
