#!/usr/bin/env python3
"""Servers that are several processes, while these are killed: tests/serve/serve_processes.py PATH/TO/weft

No request hangs and none is answered wrongly; those that fail get an error, and only while a process dies. What dies is started
again; what cannot begin ends all; nobody outlives the supervisor.
"""
import json
import os
import re
import signal
import socket
import sys
import time

from serve_harness import INFER, Client, Crowd, Server, check, is_right, main, one, run, train, wait_until, whole


def is_there(pid):
    return os.path.exists(f"/proc/{pid}")


def counted(server):
    """Requests that were answered, as each process has counted them."""
    texts = [server.ask("/metrics", port=port)[1].decode() for port in server.metrics]
    return [int(re.search(r'nv_inference_request_success\{[^}]*\} (\d+)', text).group(1)) for text in texts]


def shares(server, rows, right):
    """Connections are shared out, each process has its cores and its counters, and the sum is all."""
    asked = 60
    for i in range(asked):
        code, text, _ = server.ask(INFER, json.dumps(one(rows[i % 8])))
        check("an answer", code == 200 and is_right(text, right[i % 8:i % 8 + 1]), (code, text))
    wait_until(lambda: sum(counted(server)) == asked)  # an answer is on its way before it is counted
    found = counted(server)
    check("all processes answer, and count what they do", len(found) == 2 and sum(found) == asked and min(found) > 0, found)
    cores = [os.sched_getaffinity(pid) for pid in server.children()]
    mine = os.sched_getaffinity(0)
    check("cores are shared out", len(cores) == 2 and (len(mine) < 2 or (not cores[0] & cores[1] and cores[0] | cores[1] == mine)), cores)


def break_one(server, crowd, pid, number, told):
    """Ends a process, and waits until another one serves in its place."""
    start = len(server.errors.lines)
    with crowd:
        os.kill(pid, number)
        check(f"process {pid} ends", wait_until(lambda: not is_there(pid)))
    check(told, server.errors.wait_for(told, start=start), server.errors.lines[start:])
    check("it serves again", server.errors.wait_for(r"process \d serves again \(2 of 2\)", start=start), server.errors.lines[start:])


def killed_under_load(rows, right):
    server = Server("--processes", "2")
    shares(server, rows, right)
    crowd = Crowd(server.port, rows, right)
    for i in range(8):
        pids = server.children()
        check("there are two processes", len(pids) == 2, pids)
        time.sleep(0.2)
        number, told = ((signal.SIGKILL, r"died of signal 9 \(Killed\); it is started again in"), (signal.SIGTERM, "was stopped by a signal; it is started again"),
                        (signal.SIGKILL, "died of signal 9"), (signal.SIGSEGV, "started again"))[i % 4]
        break_one(server, crowd, pids[i % 2], number, told)

    def each_counts():  # connections are shared out, so each process is asked before long
        server.ask(INFER, json.dumps(one(rows[0])))
        return min(counted(server)) > 0
    check("they keep their ports", wait_until(each_counts), counted(server))
    start = len(server.errors.lines)
    with crowd:  # all at once: then nobody is there
        for pid in server.children():
            os.kill(pid, signal.SIGKILL)
        for slot in (0, 1):
            check("both serve again", server.errors.wait_for(f"process {slot} serves again", start=start), server.errors.lines[start:])
    before = sum(crowd.counts.values())
    check("and are asked", wait_until(lambda: sum(crowd.counts.values()) > before + 50), crowd.counts)
    pids = server.children()
    with crowd:
        server.end()
        check("nobody is left", not any(map(is_there, pids)))
        counts = crowd.end()
    check("most are answered", counts[200] > 100, counts)
    check("nobody is refused but at the end", counts[503] < 50, counts)
    print("under load:", dict(counts))


def listeners(port):
    """Sockets that listen on a port."""
    with open("/proc/net/tcp") as f:
        return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in f.readlines()[1:])


def renewed(rows, right):
    """A process that is renewed answers its requests, and leaves new connections to the other one at once."""
    server = Server("--processes", "2")
    body = json.dumps(one(rows[0]))
    data = whole(body=body)
    half = [server.plain() for _ in range(24)]
    for s in half:  # both processes have requests under way, since the kernel shares out connections
        s.sendall(data[:-20])
    check("both listen", listeners(server.port) == 2)
    time.sleep(1)
    pid = server.children()[0]
    os.kill(pid, signal.SIGTERM)
    check("one leaves the port", wait_until(lambda: listeners(server.port) == 1) and is_there(pid), listeners(server.port))
    for _ in range(100):
        try:
            code, text, _ = server.ask(INFER, body)
        except OSError as e:
            code, text = 0, repr(e)
        check("a new connection is served", code == 200 and is_right(text, right[:1]), (code, text))
    check("the other waits for its requests", is_there(pid))
    closed = 0
    for s in half:
        try:
            s.sendall(data[-20:])
            got = s.recv(1 << 16)
        except OSError as e:
            got = repr(e).encode()
        check("a request under way is answered", got.startswith(b"HTTP/1.1 200") and is_right(got.partition(b"\r\n\r\n")[2], right[:1]), got)
        closed += b"Connection: close" in got
        s.close()
    check("those of one process were closed", 0 < closed < 24, closed)
    check("it serves again", server.errors.wait_for(r"process 0 serves again \(2 of 2\)"), server.errors)
    server.end()


def checkpoint_goes(rows, right):
    """What cannot be started again is tried again; the others serve meanwhile."""
    server = Server("--processes", "2", ports=(0, -1))
    check("there are no ports of metrics", server.metrics == [], server.metrics)
    os.rename("c", "away")
    os.kill(server.children()[1], signal.SIGKILL)
    check("it is said why", server.errors.wait_for(r"ended with code 1: model 'm'.*holds no checkpoint.*again in 1 s \(1 of 2"), server.errors)
    c = Client(server.port)
    code, text, _ = c.ask(INFER, json.dumps(one(rows[0])))
    check("the other one serves", code == 200 and is_right(text, right[:1]), (code, text))
    os.rename("away", "c")
    check("when it is there again, so is the process", server.errors.wait_for("serves again"), server.errors)
    # Nobody hears one that is stopped, but the supervisor sees it.
    os.kill(server.children()[0], signal.SIGSTOP)
    check("one that is stopped is ended", server.errors.wait_for(r"process \d was stopped for 10 s, and has been ended; it is started again"),
          server.errors)
    c.close()
    check("and comes again", wait_until(lambda: len(server.children()) == 2 and str(server.errors).count("serves again") == 2), server.errors)
    server.end(signal.SIGINT)


def supervisor_is_killed():
    server = Server("--processes", "2")
    pids = server.children()
    idle = server.plain()
    server.process.kill()
    server.process.wait()
    check("nobody outlives the supervisor", wait_until(lambda: not any(map(is_there, pids))), pids)
    with socket.socket() as s:
        check("nobody listens", s.connect_ex(("127.0.0.1", server.port)) != 0)
    idle.close()
    again = Server("--processes", "2", ports=(server.port, 0))
    check("the port can be had again", again.port == server.port, again.errors)
    other = run("serve", "m=c", "--processes", "2", "--port", server.port, code=1)
    check("but by one at a time", "Address already in use" in other.stderr, other)
    again.end()


def bad_starts():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = str(s.getsockname()[1])
        for words, code, told in ((["m=c", "--port", taken], 1, "Address already in use"), (["m=c", "--port", "0", "--metrics-port", taken], 1, "already in use"),
                                  (["m=nothing", "--port", "0"], 1, "weft: model 'm': nothing: holds no checkpoint"),
                                  (["m=c", "--port", "0", "--policy", "greedyy"], 2, "greedy"), (["m=c", "--host", "nowhere"], 2, "'nowhere' is no address"),
                                  (["m=c", "--port", "0", "--metrics-port", "65535"], 2, "no port for the last"),
                                  (["m=c", "--control"], 2, "control and 2 processes contradict"), (["m=c", "--processes", "0"], 2, "processes"), ([], 2, "no model")):
            errors = run("serve", "--processes", "2", *words, code=code).stderr
            check(f"weft serve --processes 2 {words}", told in errors, errors)
            check("it is said once", errors.count("weft: ") == 1 or code == 2, errors)


def everything():
    rows, right = train()
    bad_starts()
    killed_under_load(rows, right)
    renewed(rows, right)
    checkpoint_goes(rows, right)
    supervisor_is_killed()


sys.exit(main(everything))
