"""The command `weft serve` on the device cuda, over the double of its driver (tests/device/fake_cuda): two instances with queues of their own
answer many clients at the same time as `weft predict` on the cpu does, and leave nothing on the card."""
import os
import subprocess
import sys
import time

from serve_harness import Crowd, Server, check, main, train, weft


def everything():
    os.environ["FAKE_CUDA_LEFT"] = os.path.abspath("left")
    rows, right = train()
    predicted = subprocess.run([weft, "predict", "-c", "c", "--device", "cuda", "--data", "npy:x.npy"], capture_output=True, text=True, timeout=300)
    if "there is no driver here" in predicted.stderr:
        print("SKIPPED: the double of CUDA's driver is not here")
        return
    check("weft predict on the device cuda", predicted.returncode == 0, predicted.stderr)
    with Server("--device", "cuda", "--instances", "2", "--measure", "0") as server:
        crowd = Crowd(server.port, rows, right)
        time.sleep(3)
        counts = crowd.end()
        check("all are answered", counts[200] > 10 and len(counts) == 1, counts)
    with open("left") as file:
        lines = file.readlines()
    check("nothing is left", len(lines) == 2 and all(line == "0 contexts, 0 streams, 0 events, 0 modules, 0 allocations, 0 graphs\n" for line in lines), lines)


sys.exit(main(everything))
