#!/usr/bin/env python3
"""What serving costs, and what the wait that is chosen by measurement is worth.

usage: serving.py WEFT BARE_HTTP [PART...]     (make bench-serve PARTS="speed lone")

  speed   requests/s of a saturated mlp against an HTTP server with no model, one process against one thread and then as many as
          there are cores; vgg11's rows/s against those of weft predict
  lone    latency of a request that is alone, against the model's own time and the server with no model
  wait    adaptive against fixed waits and limits and greedy, at 20, 50, 80 and 95 % of what the server can do
  day     the same over a load that goes up and down as in a day, each setting for all of it
  peer    ONNX Runtime behind a Python server, with the same weights
  long    ten minutes at 80 %: memory and latency each half minute

SECONDS (5) of a measurement, ROUNDS (5) of each; of wait and day, which try nine settings, 2.5 and 3, so that wait takes
some five minutes of a model. MODELS (mlp,vgg11); MINUTES (10) of long. What is compared is measured in
turn after a warm-up, round after round, and what is judged is the median over the rounds of the ratios within a round. Latencies are
of requests that are sent when they are due, whatever the earlier answers, and count from then. A figure that misses what it should be is
marked, and the code is 1 then; less than 3 SECONDS are too few to judge, and so is a load that was itself too slow.
"""
import array
import json
import math
import os
import pathlib
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

WEFT, BARE = map(os.path.abspath, sys.argv[1:3])
PARTS = ["speed", "lone", "wait", "day", "peer", "long"]
SECONDS, ROUNDS = float(os.environ.get("SECONDS") or 5), int(os.environ.get("ROUNDS") or 5)
SWEEP_SECONDS, SWEEP_ROUNDS = float(os.environ.get("SECONDS") or 2.5), int(os.environ.get("ROUNDS") or 3)
MODELS = (os.environ.get("MODELS") or "mlp,vgg11").split(",")
MINUTES = float(os.environ.get("MINUTES") or 10)
HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE.parent / "build" / "serving"
SHAPES = {"mlp": [1, 28, 28], "vgg11": [3, 32, 32]}
LAYOUT = ",layout=chw"  # of images, whose numbers are FP32 in a request as they are for the server with no model
AT_ONCE = {"mlp": 32, "vgg11": 128}
ROWS = {"mlp": 50000, "vgg11": 1500}  # that weft predict is given
missed = []


def call(*words):
    done = subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"weft {' '.join(map(str, words))}\nended with {done.returncode}: {done.stderr}")
    return done.stdout


def judge(what, values, bound, at_least):
    """The median of a figure over the rounds, with what it should be."""
    value = statistics.median(values)
    good = value >= bound if at_least else value <= bound
    if not good and SECONDS >= 3:
        missed.append(what)
    print(f"{what}: {value:.3f}, {min(values):.3f} to {max(values):.3f} in {len(values)} rounds (should be at {'least' if at_least else 'most'} "
          f"{bound:g}{'' if good else '; MISSED'})", flush=True)


def machine():
    """The processor, its cores, and how busy others keep them."""
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0))
    return f"{names[0] if names else platform.machine()}, {cores} cores, load {os.getloadavg()[0]:.1f} at the begin; {call('--version').strip()}"


def quantile(rows, which):
    """Of a latency, in us; '-' where fewer than ten requests lie beyond it."""
    of = [row["latency"] for row in rows]
    beyond = (1 - int(which[1:]) / 100) * sum(o["count"] for o in of)
    return f"{1e6 * statistics.median(o[which] for o in of):.0f}" if beyond >= 10 else "-"


# --- models ---

def write_npy(path, kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data)


def prepare(name):
    """A checkpoint of a few steps: what it says does not matter, how long it takes does."""
    folder = WORK / name
    if not (folder / "run").exists():
        folder.mkdir(parents=True, exist_ok=True)
        size = math.prod(SHAPES[name])
        some = array.array("f", (random.Random(1).random() for _ in range(256 * size))).tobytes()
        rows = ROWS[name]
        for file, count in (("small", rows // 5), ("big", rows), ("train", 256)):
            data = (some * (count // 256 + 1))[:4 * size * count]
            write_npy(folder / f"{file}.npy", "<f4", [count, *SHAPES[name]], data)
        write_npy(folder / "labels.npy", "<i4", [256], array.array("i", (i % 10 for i in range(256))).tobytes())
        call("train", "--model", name, "--data", f"npy:{folder}/train.npy,{folder}/labels.npy{LAYOUT}", "--normalize", "none",
             "--steps", 4, "--batch", 16, "--checkpoint", folder / "run", "-q")
    return folder


# --- servers ---

class Server:
    def __init__(self, words):
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = None
        for line in self.process.stdout:
            found = re.search(r"listening on (?:http://127\.0\.0\.1:)?(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if not self.port:
            sys.exit(f"{' '.join(map(str, words))}\ndoes not listen")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)

    def load(self, model, *words):
        words = list(map(str, words))
        if "-s" not in words:
            words += ["-s", str(SECONDS)]
        out = subprocess.run([WEFT, "load", f"http://127.0.0.1:{self.port}/v2/models/{model}", "--json", *words],
                             capture_output=True, text=True)
        if not out.stdout:
            sys.exit(f"weft load {' '.join(words)}: {out.stderr}")
        return json.loads(out.stdout)["rates"]

    def stats(self, model):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/models/{model}/stats") as reply:
            return json.load(reply)["model_stats"][0]["inference_stats"]["compute_infer"]


def serve(name, policy="adaptive", processes=1):
    return Server([WEFT, "serve", f"{name}={prepare(name) / 'run'}", "--port", 0, "--metrics-port", -1, "--policy", policy,
                   "--processes", processes])


def bare(name, threads=1):
    return Server([BARE, 0, math.prod(SHAPES[name]), 10, threads])


def saturated(server, model, name):
    server.load(model, "--closed", AT_ONCE[name], "-s", min(SECONDS, 1))
    row = server.load(model, "--closed", AT_ONCE[name], "--timeout", 60)[0]
    if row["busy"] > 0.95:
        print(f"the load is busy for {100 * row['busy']:.0f} % of the time: {model} may answer more than {row['achieved']:.0f} requests/s")
    return row["ok"] / row["seconds"]


def alone(server, model, own=True):
    """A load of requests each of which is alone: they come evenly, four times as far apart as one takes."""
    one = server.load(model, "--closed", 1, "-s", min(SECONDS, 1))[0]["latency"]["mean"]
    before = server.stats(model) if own else None
    row = server.load(model, "--rate", f"{0.25 / one:.2f}", "--arrivals", "steady")[0]
    # The load sends a request a little after it was due, which is no matter of the server.
    row["mean"] = row["latency"]["mean"] - row["late"]["mean"]
    if own:
        after = server.stats(model)
        row["own"] = (after["ns"] - before["ns"]) / max(after["count"] - before["count"], 1) * 1e-9
    return row


def predicted(name):
    """Rows/s of weft predict, without what it takes to begin."""
    took = {}
    for file in ("small", "big"):
        begun = time.monotonic()
        call("predict", "--checkpoint", prepare(name) / "run", "--data", f"npy:{prepare(name)}/{file}.npy{LAYOUT}", "-b", 64, "-o",
             "/dev/null")
        took[file] = time.monotonic() - begun
    return (ROWS[name] - ROWS[name] // 5) / max(took["big"] - took["small"], 1e-9)


# --- parts ---

def speed():
    cores = len(os.sched_getaffinity(0))
    cases = [(name, count) for name in MODELS for count in ((1, cores) if name == "mlp" and cores > 1 else (1,))]
    figures = {case: [] for case in cases}
    for _ in range(ROUNDS):
        for name, count in cases:
            with serve(name, processes=count) as server:
                ours = saturated(server, name, name)
            if name == "mlp":
                with bare(name, count) as server:
                    other = saturated(server, "bare", name)
            else:
                other = predicted(name)
            figures[name, count].append((ours, other))
    for name, count in cases:
        ours, other = (statistics.median(f[i] for f in figures[name, count]) for i in (0, 1))
        what = f"{name}, {count} process{'es' if count > 1 else ''}"
        print(f"{what} saturated: {ours:.0f} rows/s, {'HTTP with no model' if name == 'mlp' else 'weft predict'} {other:.0f}")
        judge(f"{what}, ratio", [a / b for a, b in figures[name, count]], 0.80 if name == "mlp" else 0.95, True)


def lone():
    for name in MODELS:
        ours, others = [], []
        for _ in range(ROUNDS):
            with serve(name) as server:
                ours.append(alone(server, name))
            with bare(name) as server:
                others.append(alone(server, "bare", False))
        mean, own, other = (1e6 * statistics.median(values) for values in ([r["mean"] for r in ours], [r["own"] for r in ours], [r["mean"] for r in others]))
        print(f"{name} alone: mean {mean:.0f} us, p50 {quantile(ours, 'p50')}, p99 {quantile(ours, 'p99')} (of {min(r['ok'] for r in ours)} requests a "
              f"round; both with the {1e6 * statistics.median(r['late']['mean'] for r in ours):.0f} us by which the load was late); the model's own time "
              f"{own:.0f}; HTTP with no model {other:.0f}")
        judge(f"{name}, us over the model's own time", [1e6 * (r["mean"] - r["own"]) for r in ours], 100, False)


# Waits in us: none, about what a few rows take, and far more.
WAITS = {"mlp": (0, 100, 1000), "vgg11": (0, 2000, 8000)}


def fixed_ones(name):
    return ["fixed:wait=0,max=1"] + [f"fixed:wait={wait},max={most}" for most in (8, 64) for wait in WAITS[name]]


TIMEOUT = 3


def mean_of(rows):
    """Of all requests, of which one without an answer took TIMEOUT; a setting that leaves more than 1 % of them without is none."""
    sent, ok = sum(r["sent"] for r in rows), sum(r["ok"] for r in rows)
    if ok < 0.99 * sent or not ok:
        return math.inf
    return (sum(r["latency"]["mean"] * r["ok"] for r in rows) + TIMEOUT * (sent - ok)) / sent


def capacity(name):
    def one():
        with serve(name) as server:
            return saturated(server, name, name)
    return statistics.median(one() for _ in range(SWEEP_ROUNDS))


def sweep(name, words, warm, score):
    """Of each setting a list of rounds, each a list of scores. The settings of a round have the same arrivals, and come in another order in
    the next one."""
    settings = ["adaptive", "greedy", *fixed_ones(name)]
    scores = {setting: [] for setting in settings}
    for i in range(SWEEP_ROUNDS):
        for setting in random.Random(i).sample(settings, len(settings)):
            with serve(name, setting) as server:
                server.load(name, "--closed", AT_ONCE[name], "-s", min(SWEEP_SECONDS, 1))
                rows = server.load(name, *words, "--warmup", warm, "--seed", i + 1, "--timeout", TIMEOUT)
                scores[setting].append(score(rows))
    return scores


def table(name, heads, scores):
    """Medians over the rounds, each with its ratio to the best fixed setting of its column; that setting, and adaptive's ratios to it."""
    middle = {setting: [statistics.median(column) for column in zip(*rounds)] for setting, rounds in scores.items()}
    best = [min(fixed_ones(name), key=lambda setting: middle[setting][i]) for i in range(len(heads))]

    def ratios(setting, i):
        return [mine[i] / other[i] if math.isfinite(other[i]) else 0.0 for mine, other in zip(scores[setting], scores[best[i]])]
    print(f"{'median of means, ms':26}" + "".join(f"{head:>18}" for head in heads))
    for setting, values in middle.items():
        print(f"{setting:26}" + "".join(
            f"{1e3 * v:10.3f} {statistics.median(ratios(setting, i)):6.2f}x" if math.isfinite(v) else f"{'-':>18}" for i, v in enumerate(values)))
    return [(best[i][6:], ratios("adaptive", i)) for i in range(len(heads))]


def wait():
    shares = (0.2, 0.5, 0.8, 0.95)
    for name in MODELS:
        most = capacity(name)
        print(f"{name}: {most:.0f} requests/s at the most")
        rates = ",".join(f"{share * most:.1f}" for share in shares)
        scores = sweep(name, ["--rate", rates, "-s", SWEEP_SECONDS], min(SWEEP_SECONDS, 1), lambda rows: [mean_of([row]) for row in rows])
        for share, (best, ratios) in zip(shares, table(name, [f"{100 * share:.0f} %" for share in shares], scores)):
            judge(f"{name} at {100 * share:.0f} %, adaptive to the best fixed one ({best})", ratios, 1.1, False)


def day():
    pieces, seconds = 24, SWEEP_SECONDS / 2.5
    for name in MODELS:
        most = capacity(name)
        rates = [most * (0.5 - 0.42 * math.cos(2 * math.pi * (i + 0.5) / pieces)) for i in range(pieces)]
        words = ["--rate", ",".join(f"{rate:.1f}@{seconds:g}" for rate in rates), "--no-pause"]
        scores = sweep(name, words, min(SWEEP_SECONDS, 1), lambda rows: [mean_of(rows)])
        print(f"{name}: a day of {pieces * seconds:.0f} s between {rates[0]:.0f} and {max(rates):.0f} requests/s")
        best, ratios = table(name, ["all day"], scores)[0]
        judge(f"{name}, adaptive to the best single setting of a day ({best})", ratios, 1.0, False)


def peer():
    python = WORK.parent / "peer" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "onnxruntime", "onnx", "numpy", "aiohttp"], check=True)
    for name in MODELS:
        weights, shape = prepare(name) / "weights.safetensors", ",".join(map(str, SHAPES[name]))
        call("export", prepare(name) / "run", "-o", weights, "-q")
        figures, apart = [], 0
        for _ in range(ROUNDS):
            with serve(name) as server:
                ours = [alone(server, name)["mean"], saturated(server, name, name)]
                answers = ask(server.port, name)
            with Server([python, HERE / "onnx_server.py", weights, name, shape]) as server:
                other = [alone(server, name, False)["mean"], saturated(server, name, name)]
                apart = max(apart, *(abs(a - b) for a, b in zip(answers, ask(server.port, name))))
            if apart > 1e-5:
                sys.exit(f"{name}: answers of the peer are apart by {apart}")
            figures.append((*ours, *other))
        lone_us, most, other_us, other_most = (statistics.median(f[i] for f in figures) for i in range(4))
        print(f"{name}: alone {1e6 * lone_us:.0f} us, ONNX Runtime {1e6 * other_us:.0f} us; saturated {most:.0f} rows/s, ONNX Runtime {other_most:.0f}")
        print(f"{name}, ratios to ONNX Runtime behind Python: latency alone {statistics.median(f[0] / f[2] for f in figures):.3f}, rows/s "
              f"{statistics.median(f[1] / f[3] for f in figures):.3f}; answers are the same to {apart:.1g}", flush=True)


def ask(port, name):
    size = math.prod(SHAPES[name])
    data = [((i * 7919) % 1000) / 1000 for i in range(size)]
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, *SHAPES[name]], "data": data}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/{name}/infer", body)) as reply:
        outputs = json.load(reply)["outputs"]
    return next(o["data"] for o in outputs if o["name"] == "prediction")


def memory(process):
    with open(f"/proc/{process.pid}/status") as lines:
        return int(re.search(r"VmRSS:\s+(\d+)", lines.read()).group(1)) / 1024


def long():
    window = min(30.0, 60 * MINUTES / 4)
    count = int(60 * MINUTES / window)
    for name in MODELS:
        with serve(name) as server:
            rate = 0.8 * saturated(server, name, name)
            resident, over = [], threading.Event()

            def watch():
                while not over.wait(window):
                    resident.append(memory(server.process))
            watcher = threading.Thread(target=watch)
            watcher.start()
            rows = server.load(name, "--rate", ",".join([f"{rate:.1f}@{window:g}"] * count), "--no-pause")
            over.set()
            watcher.join()
            resident += [memory(server.process)] * (count - len(resident))
        print(f"{name} at {rate:.0f} requests/s for {MINUTES:g} minutes\n{'s':>6} {'MiB':>9} {'failed':>7} {'mean ms':>9} {'p99 ms':>9}")
        for i, row in enumerate(rows):
            print(f"{(i + 1) * window:6.0f} {resident[i]:9.1f} {row['failed']:7} {1e3 * row['latency']['mean']:9.3f} {1e3 * row['latency']['p99']:9.3f}")
        third = max(count // 3, 1)
        means = [row["latency"]["mean"] for row in rows]
        judge(f"{name}, memory at the end to that after {window:g} s", [resident[-1] / resident[0]], 1.05, False)
        judge(f"{name}, mean latency of the last third to the first", [statistics.median(means[-third:]) / statistics.median(means[:third])], 1.5, False)


def main():
    wanted = sys.argv[3:] or PARTS
    unknown = [part for part in wanted if part not in PARTS] + [name for name in MODELS if name not in SHAPES]
    if unknown:
        sys.exit(f"there is no {unknown[0]}; parts are {', '.join(PARTS)}, models {', '.join(SHAPES)}")
    print(machine(), flush=True)
    for part in wanted:
        print(f"--- {part}", flush=True)
        globals()[part]()
    if missed:
        sys.exit("missed: " + "; ".join(missed))


main()
