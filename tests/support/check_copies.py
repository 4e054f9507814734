"""The trace of a device with a clock: python3 check_copies.py TRACE BYTES_IN BYTES_OUT [GRADIENTS]

Each step copies BYTES_IN bytes to the device and BYTES_OUT to the host, besides GRADIENTS bytes of gradients; kernels lie on the
device's track, and the host waits for the device a few times, not after every instruction.
"""
import json
import sys
from collections import Counter, defaultdict

import check_trace

events = json.load(open(sys.argv[1]))["traceEvents"]
expected = [int(word) for word in sys.argv[2:4]]
gradients = int(sys.argv[4]) if len(sys.argv) > 4 else 0
bars = [e for e in events if e["ph"] == "X"]
check_trace.check(events, len({e["pid"] for e in bars}))
tracks = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
for pid in {e["pid"] for e in bars}:
    mine = [e for e in bars if e["pid"] == pid]
    device = [e for e in mine if tracks[e["tid"]] == "device"]
    steps = sorted((e for e in device if e["cat"] == "step"), key=lambda e: e["ts"])
    assert len(steps) > 1, "the device has no steps"
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.001 for a, b in zip(steps, steps[1:])), "steps of the device overlap"
    assert not any(e["cat"] == "kernel" and tracks[e["tid"]] == "kernels" for e in mine), "a kernel on the host's track"
    kinds = Counter(e["cat"] for e in mine)
    assert kinds["kernel"] > 5 * len(steps), kinds
    assert kinds["kernel"] + sum(e["cat"] in ("copy", "reorder") for e in device) == kinds["queue"], kinds
    waits = sum(e["cat"] == "wait" and e["name"] == "wait for the device" for e in mine)
    assert 0 < waits < kinds["queue"] / 4 or gradients, f"the host waits {waits} times for {kinds['queue']} instructions"
    moved = defaultdict(lambda: [0, 0, 0])
    for e in mine:
        if e["cat"] == "copy":
            step = next(s["name"] for s in steps if s["ts"] <= e["ts"] + 0.001 and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 0.001)
            landed = tracks[e["tid"]] == "gradients to the host"
            moved[step][2 if landed else e["args"]["kernel"] == "to the host"] += e["args"]["bytes"]
    for step in steps:
        assert moved[step["name"]] == [*expected, gradients], f"{step['name']} copies {moved[step['name']]}, not {[*expected, gradients]}"
