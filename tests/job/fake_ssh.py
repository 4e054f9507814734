#!/usr/bin/env python3
"""A stand-in for ssh between the hosts of tests/job/hosts.sh: "fake_ssh.py serve" waits on a host and runs what comes;
"fake_ssh.py [-OPTIONS] HOST WORDS..." has WORDS run there by a shell, as ssh does, so that nothing on a host comes
from a process of another one."""
import socket
import subprocess
import sys
import threading

PORT = 2222


def answer(link):
    words = link.makefile("rb").readline().decode().rstrip("\n")
    child = subprocess.Popen(["sh", "-c", words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        while data := child.stdout.read1(65536):
            link.sendall(data)
        link.sendall(b"\0%d" % child.wait())
    except OSError:
        child.wait()  # the session is gone, what it began goes on
    link.close()


def serve():
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("", PORT))
    door.listen()
    print("ready", flush=True)
    while True:
        threading.Thread(target=answer, args=(door.accept()[0],), daemon=True).start()


def run(words):
    while words[0].startswith("-"):
        del words[:2 if words[0] == "-o" else 1]
    try:
        link = socket.create_connection((words[0], PORT), timeout=5)
    except OSError as why:
        sys.exit(f"ssh: connect to host {words[0]} port 22: {why.strerror or why}")
    link.settimeout(None)
    link.sendall(" ".join(words[1:]).encode() + b"\n")
    last = b""
    while data := link.recv(65536):
        sys.stdout.buffer.write(last)
        sys.stdout.flush()
        last = data
    text, end, code = last.partition(b"\0")
    sys.stdout.buffer.write(text)
    sys.exit(int(code) if end else 255)


serve() if sys.argv[1] == "serve" else run(sys.argv[1:])
