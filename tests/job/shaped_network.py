#!/usr/bin/env python3
"""Machines whose network bench/shaped_network shapes: what a transfer and a way there and back take is what the cluster file says.
shaped_network.py PATH/TO/weft; `serve` and `ask HOST...` are the two ends, on machines."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

PORT, BYTES, SMALL = 5000, 3 << 20, 20
HERE = os.path.abspath(__file__)


# --- the ends ---

def answer(link):
    """Sends small messages back; of a large one, tells when each part of it came."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (first := link.recv(1)) == b"p":
        link.sendall(first)
    parts = []
    while data := link.recv(1 << 16):
        parts.append((time.monotonic(), len(data)))
    print(json.dumps(parts), flush=True)
    link.close()


def serve(count):
    door = socket.create_server(("", PORT))
    threads = [threading.Thread(target=answer, args=(door.accept()[0],)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(host):
    for _ in range(600):
        try:
            link = socket.create_connection((host, PORT), timeout=60)
            break
        except OSError:
            time.sleep(0.05)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ways = []
    for _ in range(SMALL):
        began = time.monotonic()
        link.sendall(b"p")
        link.recv(1)
        ways.append((time.monotonic() - began) / 2)
    link.sendall(b"d" * BYTES)
    link.shutdown(socket.SHUT_WR)
    link.recv(1)
    print(json.dumps(min(ways)), flush=True)


if sys.argv[1] == "serve":
    sys.exit(serve(int(sys.argv[2])))
if sys.argv[1] == "ask":
    sys.exit(ask(sys.argv[2]))

sys.path.append(os.path.join(os.path.dirname(HERE), "../support"))
from checks import check, main, weft, write  # noqa: E402
from waiting import wait_until  # noqa: E402

SHAPED = os.path.join(os.path.dirname(weft), "bench", "weft_shaped_network")
EQUAL = "latency: 0.02\nbandwidth: 2.5e6\nmachines:\n  - {count: 3}\n"
UNLIKE = "latency: 0.01\nbandwidth: 2.5e6\nmachines:\n  - {count: 2}\n  - {latency: 0.03, bandwidth: 1.25e6}\n"
TRIES = 8  # of a machine that is busy


def shaped(*words, **more):
    return subprocess.run([SHAPED, *words], capture_output=True, text=True, timeout=120, **more)


def parts_of(pairs):
    """The parts that each transfer received, and the shortest way of each, for pairs FROM TO that begin together."""
    lines = []
    for to in sorted({to for _, to in pairs}):
        count = sum(other == to for _, other in pairs)
        lines.append(f"{SHAPED} --on {to} {sys.executable} {HERE} serve {count} &")
    lines += [f"{SHAPED} --on {a} {sys.executable} {HERE} ask {b} &" for a, b in pairs]
    done = shaped("shape.yaml", "sh", "-c", "\n".join(lines) + "\nwait")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    if not check("both ends end", len(told) == 2 * len(pairs), (done.stdout[:200], done.stderr)):
        sys.exit(1)
    return [t for t in told if isinstance(t, list)], [t for t in told if not isinstance(t, list)]


def rate(transfers):
    """Bytes a second while all transfers run, without the first third, in which they become fast."""
    first = max(parts[0][0] for parts in transfers)
    last = min(parts[-1][0] for parts in transfers)
    first += (last - first) / 3
    inside = sorted(part for parts in transfers for part in parts if first <= part[0] <= last)
    return sum(size for _, size in inside[1:]) / (inside[-1][0] - inside[0][0])


def lines_are(text, pairs, seconds, bandwidth):
    """Of some tries the best is near the shape, and no one is better than it."""
    write("shape.yaml", text)
    for _ in range(TRIES):
        transfers, ways = parts_of(pairs)
        got, way = rate(transfers), min(ways)
        check("no packet is early", way >= seconds, (pairs, way, seconds))
        check("no line is faster", got <= 1.02 * bandwidth, (pairs, got, bandwidth))
        if way <= 1.1 * seconds and got >= 0.95 * bandwidth:
            break
    check("the line is as told", way <= 1.1 * seconds and got >= 0.95 * bandwidth, (pairs, way, seconds, got, bandwidth))


def one_pair():
    lines_are(EQUAL, [("m0", "m2")], 0.02, 2.5e6)


def the_worse_end_counts():
    lines_are(UNLIKE, [("m0", "m2")], 0.03, 1.25e6)
    lines_are(UNLIKE, [("m2", "m1")], 0.03, 1.25e6)


def a_port_is_shared():
    lines_are(EQUAL, [("m0", "m2"), ("m1", "m2")], 0.02, 2.5e6)
    lines_are(EQUAL, [("m0", "m1"), ("m0", "m2")], 0.02, 2.5e6)


def both_ways_at_once():
    lines_are(EQUAL, [("m0", "m1"), ("m1", "m0")], 0.02, 5e6)


def measured_lines():
    """weft measure --hosts finds the lines; of some tries the best is near them."""
    if not shutil.which("mpirun"):
        print("SKIPPED: machines are measured by ranks of mpirun, which is not installed")
        return
    for text, want in ((EQUAL, [(3, 0.02, 2.5e6)]), (UNLIKE, [(2, 0.01, 2.5e6), (1, 0.03, 1.25e6)])):
        write("shape.yaml", text)
        for _ in range(TRIES):
            done = shaped("shape.yaml", weft, "measure", "--hosts", "m0,m1,m2", "--seconds", "1", "--overwrite", "-o", "got.yaml")
            if not check("machines are measured", done.returncode == 0 and "3 machines" in done.stdout, (done.returncode, done.stdout, done.stderr)):
                return
            got = [[float(number) for number in row] for row in re.findall(r"count: (\d+).*latency: (\S+), bandwidth: ([0-9.e+]+)", open("got.yaml").read())]
            lines = [row[1:] for row in got for _ in range(int(row[0]))]  # a machine that was busy may be a kind of its own
            told = [row[1:] for row in want for _ in range(row[0])]
            right = len(lines) == 3 and all(abs(a[0] / b[0] - 1) <= 0.1 and abs(a[1] / b[1] - 1) <= 0.05 for a, b in zip(sorted(lines), sorted(told)))
            if right:
                break
        check("the lines are measured as told", right, (lines, told))
    done = shaped("shape.yaml", weft, "measure", "--hosts", "m0,m9", "-o", "none.yaml")
    check("a host that cannot be reached is named", done.returncode not in (0, 77) and "m9" in done.stderr, (done.returncode, done.stderr))
    check("no file is left", not os.path.exists("none.yaml") and not os.path.exists("none.yaml.times"))
    done = shaped("shape.yaml", weft, "measure", "--hosts", "m0:2", "-o", "none.yaml")
    check("one machine has no links", done.returncode == 2 and "machine" in done.stderr, (done.returncode, done.stderr))


def processes_with(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if mark.encode() in words and int(pid) != os.getpid():
            found.append(pid)
    return found


def ends():
    write("shape.yaml", EQUAL)
    spaces = sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []
    check("the code of the command", shaped("shape.yaml", "sh", "-c", "exit 7").returncode == 7)
    mark = f"sleep 12345.{os.getpid()}"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        child = subprocess.Popen([SHAPED, "shape.yaml", "sh", "-c", f"{SHAPED} --on m1 {mark} & {mark} & wait"])
        marked = mark.replace(" ", "\0")
        check("its processes are there", wait_until(lambda: len(processes_with(marked)) >= 2))
        child.send_signal(number)
        child.wait()
        check(f"no process is left after {number.name}", wait_until(lambda: not processes_with(marked)), processes_with(marked))
    left = sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []
    check("no namespace is left", left == spaces, left)


BUSY = "import time; b = time.monotonic(); exec('while time.monotonic() - b < 12: pass'); print(time.process_time() / 12)"


def shares():
    """A machine has no more of a core than its speed, and pauses; a killed network's groups of control are removed by the next one."""
    write("shares.yaml", "machines:\n  - {count: 1, speed: 0.25}\n  - {count: 1, awake: 0.4, period: 0.5}\n")
    for host, most in (("m0", 0.25), ("m1", 0.75)):
        done = shaped("shares.yaml", SHAPED, "--on", host, sys.executable, "-c", f'"{BUSY}"')
        if done.returncode == 77:
            return print(f"SKIPPED: shares of a core: {done.stderr.strip()}")
        share = float(done.stdout or "nan")
        check(f"the share of {host}", 0 < share < most + 0.1, (share, done.stderr))
    groups = lambda: [g for at in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu") if os.path.isdir(at) for g in os.listdir(at) if g.startswith(f"weft-shaped-{child.pid}-")]  # noqa: E731
    child = subprocess.Popen([SHAPED, "shares.yaml", "sleep", "1000"])
    check("groups are there", wait_until(lambda: len(groups()) == 2), groups())
    child.kill()
    child.wait()
    check("the next network removes them", wait_until(lambda: shaped("shares.yaml", "true").returncode == 0 and not groups()), groups())


def refused():
    write("jitter.yaml", EQUAL.replace("latency:", "latency-jitter: 0.1\nlatency:"))
    write("shape.yaml", EQUAL)
    for words, text in (((), "usage"), (("shape.yaml",), "usage"), (("no.yaml", "true"), "no.yaml"), (("jitter.yaml", "true"), "latency-jitter")):
        done = shaped(*words)
        check(f"{words} is refused", done.returncode == 2 and text in done.stderr, (done.returncode, done.stderr))


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(0)


if not os.path.exists(SHAPED):
    skip("bench/shaped_network is not built (WEFT_BENCH)")
probe = os.path.join("/tmp", f"shaped-{os.getpid()}.yaml")
write(probe, EQUAL)
done = shaped(probe, "true")
os.remove(probe)
if done.returncode == 77:
    skip(f"network namespaces and TUN devices need root: {done.stderr.strip()}")
sys.exit(main(one_pair, the_worse_end_counts, a_port_is_shared, both_ways_at_once, measured_lines, ends, shares, refused))
