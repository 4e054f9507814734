"""Runs of `weft train`: the rows that they write (--metrics), and the processor time that they take."""
import json
import os
import statistics
import subprocess
import tempfile


def train(weft, *words):
    """The rows of the steps of a run, and that of its summary."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        subprocess.run([weft, "train", "-q", *map(str, words), "--metrics", metrics], check=True, stdout=subprocess.DEVNULL)
        with open(metrics) as lines:
            rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["event"] == "step"], next(row for row in rows if row["event"] == "summary")


def rate(rows):
    """The median samples/s of steps, of which the first quarter warms up."""
    return statistics.median(row["samples_per_second"] for row in rows[len(rows) // 4:])


def processor(*words):
    """The seconds that a command computes, which other work on the machine changes little."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, child.args, stderr=said.read())
    return used.ru_utime


def step(weft, words, steps):
    """The seconds of processor time of a step, on one thread: by runs of 1 and of `steps` more."""
    run = [weft, "train", "-q", "-t", 1, *words, "--steps"]
    return (processor(*run, steps + 1) - processor(*run, 1)) / steps
