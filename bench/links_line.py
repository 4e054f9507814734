#!/usr/bin/env python3
"""What a line between two network namespaces is like: links_line.py FROM TO, which has the address 10.77.0.2."""
import os
import socket
import sys
import time

PORT, BYTES = 2223, 16 << 20


def enter(name):
    space = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if hasattr(os, "setns"):
        os.setns(space, 0)
    else:
        import ctypes
        if ctypes.CDLL(None, use_errno=True).setns(space, 0) != 0:
            sys.exit(f"the network of {name} cannot be entered")


enter(sys.argv[2])
door = socket.create_server(("10.77.0.2", PORT))
if os.fork() == 0:
    link, _ = door.accept()
    got = 0
    while data := link.recv(1 << 16):
        got += len(data)
        if got == BYTES:
            link.sendall(b"!")
    os._exit(0)
door.close()
enter(sys.argv[1])
socket.create_connection(("10.77.0.2", 2222), 10).close()
began = time.time()
link = socket.create_connection(("10.77.0.2", PORT), 10)
there = time.time()
link.sendall(bytes(BYTES))
link.recv(1)
seconds = time.time() - there
print(f"there and back it takes {1e3 * (there - began):.1f} ms, and one connection carries {8e-6 * BYTES / seconds:.0f} Mbit/s")
