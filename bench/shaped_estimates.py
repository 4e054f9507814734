#!/usr/bin/env python3
"""Estimated steps of several machines beside measured ones: shaped_estimates.py WEFT FOLDER [measure | PAIR... | table]

Machines are network namespaces whose lines are shaped as a cluster file says (bench/shaped_network.c), each with one core, in turn of
those that there are. `measure` writes the times of their kernels to FOLDER (weft measure --hosts). A PAIR is a cluster with a model: the file
of the cluster is what weft plan estimates from and what is shaped, the times are the measured ones. Its row for each strategy goes to FOLDER, where those that are there
are kept, and `table` prints those of the pairs before it, or all; without a word all is done. The pairs `guide-...` are clusters of docs/guide/choosing.md
with a tenth of their cores: a machine has a share of a core, and pauses as its file says. TURN in the environment ends a pair after so many, and the
same words go on where it ended. A step is timed in the middle of a run, over whole periods of its exchange, and bytes are those of
the devices, of whatever is sent, headers included.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
# name: (model, data, batch of a learner)
MODELS = {
    "mlp": ("mlp", "glyphs:size=28,train=4000,test=10", 64),
    "lenet": ("lenet", "glyphs:size=28,train=4000,test=10", 32),
    "char-lstm": ("char-lstm:layers=2,units=128", f"text:{TEXT},unit=char,context=32", 8),
    "vgg11-16": ("vgg11", "glyphs:size=32,train=800,test=10", 16),
    "vgg11": ("vgg11", "glyphs:size=32,train=400,test=10", 8),
}
# name: (machines with their lines, threads of all of them that compute at once share the cores)
CLUSTERS = {
    "2x100mbit": ["latency: 0.001\nbandwidth: 12.5e6", "{count: 2}"],
    "2x1gbit": ["latency: 0.0002\nbandwidth: 125e6", "{count: 2}"],
    "2x20ms": ["latency: 0.02\nbandwidth: 12.5e6", "{count: 2}"],
    "2-unlike": ["latency: 0.001\nbandwidth: 12.5e6", "{count: 1}", "{count: 1, bandwidth: 5e6, latency: 0.005}"],
    "3x100mbit": ["latency: 0.001\nbandwidth: 12.5e6", "{count: 3, speed: SHARE}"],
    "guide-four": ["latency: 0.0001\nbandwidth: 62.5e6", "{count: 4, speed: 0.4}"],
    "guide-two-slow": ["latency: 0.02\nbandwidth: 12.5e6", "{count: 2, speed: 0.6}", "{count: 2, speed: 0.3}"],
    "guide-pausing": ["latency: 0.001\nbandwidth: 12.5e6", "{count: 8, speed: 0.2, awake: 0.8, period: 1}"],
    "4-one-slow": ["latency: 0.001\nbandwidth: 12.5e6", "{count: 3, speed: SHARE}", "{count: 1, speed: SHARE, bandwidth: 4e6}"],
}
PAIRS = ["2x100mbit/lenet", "2x100mbit/char-lstm", "2x1gbit/mlp", "2x1gbit/vgg11", "2x20ms/char-lstm", "2-unlike/lenet", "3x100mbit/mlp", "4-one-slow/mlp"]
STRATEGIES = ["mesh=data=N", "mesh=pipeline=N microbatches=4", "exchange=average:every=8", "exchange=server", "exchange=server compress=topk:ratio=0.01",
              "exchange=gossip", "exchange=gossip:mode=average"]
# Pairs with strategies of their own, which are those of the guide.
GUIDE = {
    "guide-four/vgg11-16": ["ranks=1", "mesh=data=N", "mesh=data=N zero=1", "mesh=pipeline=N microbatches=8", "exchange=average:every=8", "exchange=server", "exchange=gossip"],
    "guide-two-slow/lenet": ["ranks=1", "mesh=data=N", "exchange=average:every=8", "exchange=average:every=64", "exchange=server", "exchange=gossip:mode=average"],
    "guide-pausing/mlp": ["ranks=1", "mesh=data=N", "exchange=average:every=64", "exchange=server:policy=async", "exchange=gossip:mode=average"],
}
PAIRS += GUIDE
SECONDS, LEAST, MOST = 3, 12, 2000  # of the middle of a run; steps


def period(strategy):
    """What learners do repeats itself after so many steps."""
    return int(re.search(r"every=(\d+)|$", strategy)[1] or 4)


class Bench:
    def __init__(self, weft, folder):
        self.weft, self.folder = os.path.abspath(weft), pathlib.Path(folder).resolve()
        self.shaped = pathlib.Path(self.weft).parent / "bench" / "weft_shaped_network"
        self.folder.mkdir(exist_ok=True)

    def run(self, *words):
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=self.folder)

    def cluster(self, name):
        links, *groups = CLUSTERS[name]
        count = sum(int(g.split("count: ")[1].split(",")[0].rstrip("}")) for g in groups)
        share = min(1, len(os.sched_getaffinity(0)) / count)
        path = self.folder / f"{name}.yaml"
        machines = "\n".join(f"  - {g}" for g in groups).replace("SHARE", f"{share:.3f}")
        path.write_text(f"times: rates.yaml.times\n{links}\nmachines:\n{machines}\n")
        return path, count

    def measure(self):
        shape = self.folder / "shape.yaml"
        shape.write_text("machines:\n  - {count: 2}\n")
        done = self.run(self.shaped, shape, self.weft, "measure", "--hosts", "m0,m1", "--overwrite", "--seconds", 40, "-o", "rates.yaml")
        print(done.stdout + done.stderr, end="", flush=True)

    def words(self, model, count, strategy):
        name, data, batch = MODELS[model]
        words = ["--model", name, "--data", data, "--batch", batch, "-n", count, "--engine", "mpi", "-t", 1]
        for part in strategy.split() if strategy != "ranks=1" else []:
            option, _, value = part.partition("=")
            words += [f"--{option}"] + ([value] if value else [])
        return words

    def estimates(self, path, model, count, strategies):
        done = self.run(self.weft, "plan", "--cluster", path, "--json", *self.words(model, count, ""), "--strategies", "; ".join(strategies))
        if done.returncode:
            sys.exit(done.stderr)
        return {row["strategy"]: row for row in json.loads(done.stdout)}

    def measured(self, path, model, count, strategy, steps):
        """Seconds of a step, and bytes that each machine sends in one."""
        machines, count = count, 1 if strategy == "ranks=1" else count
        hosts = ",".join(f"m{i}:1" for i in range(count))
        train = " ".join(f"'{w}'" for w in [self.weft, "train", "-q", *self.words(model, count, strategy), "--hosts", hosts, "--no-bind", "--steps", steps,
                                            "--metrics", "metrics.jsonl", "--lr", 1e-4])
        counters = "; ".join(f"{self.shaped} --on m{i} cat /sys/class/net/eth0/statistics/tx_bytes" for i in range(machines))
        (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        script = f"mount -t sysfs none /sys 2>/dev/null; {train} || exit; {counters}"
        done = self.run("timeout", 100, self.shaped, path, "sh", "-c", script)
        try:
            times = [row["seconds"] for row in map(json.loads, open(self.folder / "metrics.jsonl")) if row["event"] == "step"]
            sent = [int(line) for line in done.stdout.split()[-machines:]]
        except (OSError, ValueError):
            return None, None if done.returncode == 124 else done.stderr[-300:]
        if len(times) < steps:
            return None, "it did not end within 100 s"
        each = period(strategy)
        begin, end = max(each, steps // 3 // each * each), steps // each * each
        return (times[end - 1] - times[begin - 1]) / (end - begin), [s / steps for s in sent]

    def rows(self, name):
        return self.folder / f"{name.replace('/', '-')}.json"

    def predicted(self, name):
        """The estimates of a pair, by strategies, with the cluster's file and its machines."""
        cluster, model = name.split("/")
        path, count = self.cluster(cluster)
        strategies = [s.replace("N", str(count)) for s in GUIDE.get(name, STRATEGIES)]
        rows = self.estimates(path, model, count, strategies)
        return path, count, {s: rows.get(s) or rows[s.removeprefix("exchange=")] for s in strategies}

    def pair(self, name):
        path, count, predicted = self.predicted(name)
        rows = json.loads(self.rows(name).read_text()) if self.rows(name).exists() else {}
        until = time.monotonic() + float(os.environ.get("TURN", "inf"))
        for strategy, told in predicted.items():
            if "reason" in told or "seconds" in rows.get(strategy, {}) or time.monotonic() > until:
                continue
            each = period(strategy)
            seconds = 3.5 * SECONDS if "awake" in path.read_text() else SECONDS  # pauses begin when a job has
            steps = max(2, min(max(LEAST, int(1.5 * seconds / told["step_seconds"])), MOST) // each) * each
            seconds, sent = self.measured(path, name.split("/")[1], count, strategy, steps)
            rows[strategy] = {"reason": sent or "it did not end within 100 s"} if seconds is None else {"seconds": seconds, "sent": max(sent)}
            print(name, strategy, rows[strategy], flush=True)
            self.rows(name).write_text(json.dumps(rows))

    def table(self, names):
        """All rows of pairs, the fastest estimate of a pair first; speeds are samples a second, so that learners count with all of theirs."""
        errors, first, pairs = [], 0, 0
        print(f"{'cluster/model, strategy':48} {'ms, estimated':>13} {'measured':>10} {'error':>8} {'MB a step':>10} {'measured':>10}")
        for name in filter(lambda p: self.rows(p).exists(), names or PAIRS):
            rows, predicted = json.loads(self.rows(name).read_text()), self.predicted(name)[2]
            speed = lambda strategy, seconds: seconds / (1 if "mesh" in strategy or strategy == "ranks=1" else predicted[strategy]["learners"])  # noqa: E731
            print(name)
            for strategy in sorted(predicted, key=lambda s: speed(s, predicted[s]["step_seconds"]) if "reason" not in predicted[s] else 0):
                told, got = predicted[strategy], rows.get(strategy, {"reason": "not measured"})
                if reason := told.get("reason") or got.get("reason"):
                    print(f"    {strategy:44} {reason.strip()[:80]}")
                    continue
                error = told["step_seconds"] / got["seconds"] - 1
                errors.append(abs(error))
                print(f"    {strategy:44} {1e3 * told['step_seconds']:13.2f} {1e3 * got['seconds']:10.2f} {100 * error:+7.1f}% "
                      f"{told['bytes_of_busiest_link'] / 1e6:10.3f} {got['sent'] / 1e6:10.3f}")
            good = [s for s in predicted if "reason" not in predicted[s] and "seconds" in rows.get(s, {})]
            fastest = sorted(good, key=lambda s: speed(s, rows[s]["seconds"]))[:2]
            if not good:
                continue
            pairs, first = pairs + 1, first + (min(good, key=lambda s: speed(s, predicted[s]["step_seconds"])) in fastest)
        if errors:
            print(f"{len(errors)} runs: error {100 * statistics.median(errors):.1f} % in the median, {sum(e <= 0.1 for e in errors)} within 10 %; "
                  f"the first estimate of {first} of {pairs} pairs is among the two fastest")


def main():
    bench = Bench(sys.argv[1], sys.argv[2])
    words = sys.argv[3:] or ["measure", *PAIRS, "table"]
    for word in words:
        if word in PAIRS:
            bench.pair(word)
        elif word == "measure":
            bench.measure()
        elif word == "table":
            bench.table([w for w in words if w in PAIRS])
        else:
            sys.exit(f"{word} is no pair; there are measure, table, {', '.join(PAIRS)}")


main()
