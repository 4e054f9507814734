"""Child processes: starting them in the background of a script, and leaving none behind."""
import ctypes
import os
import signal
import subprocess
import threading
import time

started = set()
starting = threading.Lock()  # held from the start of a child until it is in `started`
ending = threading.Event()  # a signal has come: nothing is started any more


def adopt_orphans():
    """Orphans of children become children of this process, so that end_children finds all of them. A thread reaps those
    that have ended, since tests wait until a process whose parent they killed is gone."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    threading.Thread(target=reap_orphans, daemon=True).start()


def reap_orphans():
    """An orphan belongs to a session that `start` made, but is not the process that `start` returned."""
    own = os.getsid(0)
    while True:
        for pid, (parent, state, session) in stats().items():
            if parent == os.getpid() and state == "Z" and session != own:
                reap_orphan(pid)
        time.sleep(0.1)


def reap_orphan(pid):
    """Leaves the children of `start` to it: a child whose exit status is lost would count as passed."""
    with starting:
        if pid in started:
            return
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


def end_on_signals():
    """SIGINT, SIGTERM and SIGHUP end all children and raise SystemExit, so `finally` blocks run. The children end first,
    since threads that wait for them would keep their pool, and with it this process."""
    def end(number, _):
        ending.set()
        end_children()
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def stats():
    """{pid: (parent, state, session)} of all processes."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                state, parent, _, session = f.read().rsplit(")", 1)[1].split()[:4]
            found[int(entry)] = int(parent), state, int(session)
        except (OSError, ValueError):
            pass
    return found


def children():
    """All descendants of this process, the youngest first."""
    parents = {pid: parent for pid, (parent, _, _) in stats().items()}
    below, queue = [], [os.getpid()]
    while queue:
        parent = queue.pop()
        found = [p for p, q in parents.items() if q == parent]
        below += found
        queue += found
    return below[::-1]


def end_children():
    """Sends SIGTERM to all descendants, and SIGKILL to those that are left after two seconds."""
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


def start(argv, environment=None, **more):
    """A child in a process group of its own: a terminal's Ctrl-C reaches this script alone, which then ends its children."""
    with starting:
        if ending.is_set():
            raise SystemExit("a signal has ended this run")
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=environment, start_new_session=True, **more)
        started.add(process.pid)
    return process


def end_group(process):
    """Kills a child of `start` with its process group, and reaps it."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]
