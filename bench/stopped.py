#!/usr/bin/env python3
"""Steps per second of two learners, alone and with a third that is stopped for 98 % of the time
(SIGSTOP, SIGCONT): of what they take alone a slow neighbour should leave all. Turns, medians.

usage: stopped.py WEFT [SECONDS [ROUNDS]]
"""
import os
import re
import signal
import statistics
import subprocess
import sys
import time

WEFT = os.path.abspath(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 15
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
DATA = ["--data", "glyphs:size=16,train=2000,test=200"]
AWAKE, PERIOD = 0.02, 1.0
WAYS = [
    ("gossip", []),
    ("gossip --compress topk:ratio=0.01", ["--compress", "topk:ratio=0.01"]),
    ("gossip:topology=ring", []),
    ("gossip:mode=average", []),
    ("server:policy=async", ["--servers", "1"]),
]


def start(*words):
    return subprocess.Popen([WEFT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def clocks(address):
    """The steps of each learner, by its number."""
    out = subprocess.run([WEFT, "status", address, "--timeout", "20"], capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: int(row[3]) for row in rows if len(row) > 3 and row[1] == "learner"}


def wait_for_steps(address, learners, least):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        now = clocks(address)
        if len(now) == learners and min(now.values()) >= least:
            return now
        time.sleep(0.1)
    sys.exit(f"{learners} learners did not take {least} steps within 60 s")


def doze(process, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        process.send_signal(signal.SIGSTOP)
        time.sleep(PERIOD * (1 - AWAKE))
        process.send_signal(signal.SIGCONT)
        time.sleep(PERIOD * AWAKE)


def rate(exchange, options, third):
    """Steps per second of the slower one of the two that are not stopped."""
    words = exchange.split()[0]
    coordinator = start("coordinator", "--listen", "tcp://127.0.0.1:*", *DATA, "--batch", "40", "-t", "1", "-n", "2",
                        "--exchange", words, "--epochs", "100000", "--failure-timeout", "60", *options)
    processes = [coordinator]
    try:
        address = re.sub("^coordinator at ", "", coordinator.stdout.readline().strip())
        if "--servers" in options:
            processes.append(start("server", address, "-t", "1"))
        for _ in range(2 + third):
            processes.append(start("join", address, *DATA, "-t", "1", "-q"))
        before = wait_for_steps(address, 2 + third, 20)
        began = time.monotonic()
        if third:
            doze(processes[-1], SECONDS)
        else:
            time.sleep(SECONDS)
        seconds = time.monotonic() - began
        after = clocks(address)
        return sorted((after[k] - before[k]) / seconds for k in before)[-2]
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def main():
    for exchange, options in WAYS:
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(rate(exchange, options, False))
            beside.append(rate(exchange, options, True))
        share = 100 * statistics.median(b / a for a, b in zip(alone, beside))
        print(f"  {exchange:36} {statistics.median(alone):6.0f} steps/s, beside one that is awake "
              f"{100 * AWAKE:g} % of the time {statistics.median(beside):6.0f}: {share:.0f} %", flush=True)


main()
