#!/usr/bin/env python3
"""Models of sequences against PyTorch: samples/s and peak memory of training in float32, in rounds that take turns.

usage: sequences.py WEFT [ROUNDS [PART...]]    (make bench-sequences installs PyTorch)

PyTorch runs as it stands and compiled, with its fused attention and LSTM; the better of both is the peer. A step is forward,
backward and Adam, on as many threads as the machine has cores. A part is a model, or `floor`, how much of a step are its
products alone, by oneDNN, and the pass of Adam, or `length`, the memory of attention over 1,024 to 8,192 positions.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
THREADS = len(os.sched_getaffinity(0))
# name: (model of weft, data of weft, samples a step, steps, bound of the ratio)
CASES = {
    "gpt": ("gpt:layers=6,heads=6,width=384", "text:{text},unit=char,context=256", 8, 8, 1.2),
    "char-lstm": ("char-lstm:layers=2,units=256", "text:{text},unit=char,context=128", 32, 20, 1.5),
    "twin-lstm": ("twin-lstm:units=64", "pairs:{text},train=4000,test=200", 50, 20, 1.5),
}


def own_memory():
    """The peak memory of this process without mapped files, as peak_rss_bytes of a run."""
    with open("/proc/self/status") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f if line.endswith("kB\n")}
    return 1024 * max(kib["RssAnon"], kib["VmHWM"] - kib["RssFile"] - kib["RssShmem"])


def of_weft(weft, name, text):
    model, data, batch, steps, _ = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        metrics = f"{folder}/metrics"
        subprocess.run([weft, "train", "-q", "--model", model, "--data", data.format(text=text), "--batch", str(batch), "--steps", str(steps),
                        "--threads", str(THREADS), "--metrics", metrics], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in open(metrics)]
    rates = [row["samples_per_second"] for row in rows if row["event"] == "step"][steps // 4:]
    return statistics.median(rates), next(row["peak_rss_bytes"] for row in rows if row["event"] == "summary")


# --- PyTorch ---


def build(name, torch, tokens):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, width = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self, layers=6, heads=6, width=384, context=256):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(tokens, width), nn.Parameter(torch.zeros(context, width))
            self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.tokens(x) + self.positions)))

    class Chars(nn.Module):
        def __init__(self, units=256):
            super().__init__()
            self.tokens, self.head = nn.Embedding(tokens, units), nn.Linear(units, tokens)
            self.lstm = nn.LSTM(units, units, num_layers=2, batch_first=True)

        def forward(self, x):
            return self.head(self.lstm(self.tokens(x))[0])

    class Twins(nn.Module):
        def __init__(self, units=64):
            super().__init__()
            self.lstm, self.head = nn.LSTM(256, units, batch_first=True), nn.Linear(2 * units, 2)

        def forward(self, pair):
            return self.head(torch.cat([self.lstm(x)[1][0][0] for x in pair], 1))
    return {"gpt": Gpt, "char-lstm": Chars, "twin-lstm": Twins}[name]()


def of_torch(name, mode):
    """Runs in a process of its own, and prints samples/s and peak memory."""
    import torch
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    _, _, batch, steps, _ = CASES[name]
    tokens, context = 65, 128 if name == "char-lstm" else 256
    model = build(name, torch, tokens)
    if name == "twin-lstm":
        x = torch.zeros(2, batch, 140, 256).scatter_(3, torch.randint(0, 256, (2, batch, 140, 1)), 1)
        y = torch.randint(0, 2, (batch,))
    else:
        x, y = torch.randint(0, tokens, (batch, context)), torch.randint(0, tokens, (batch * context,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loss_of = torch.nn.CrossEntropyLoss()
    run = torch.compile(model) if mode == "compiled" else model
    times = []
    for _ in range(steps + 3):
        begun = time.perf_counter()
        optimizer.zero_grad()
        logits = run(x)
        loss_of(logits.reshape(-1, logits.shape[-1]), y).backward()
        optimizer.step()
        times.append(time.perf_counter() - begun)
    print("RESULT", batch / statistics.median(times[3:]), own_memory())


def peer(name, mode):
    done = subprocess.run([sys.executable, __file__, "--torch", name, mode], capture_output=True, text=True)
    words = [line.split() for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not words:
        print(f"  PyTorch {mode} of {name} does not run: {(done.stderr.strip().splitlines() or ['no output'])[-1][:120]}")
        return None
    return float(words[0][1]), float(words[0][2])


# --- floor and length ---


def floor(weft, rounds, missed):
    bench = pathlib.Path(weft).parent / "bench" / "weft_bench"
    for name, (model, data, batch, steps, _) in CASES.items():
        said = subprocess.run([bench, model, data.format(text=TEXT), str(batch), str(steps), str(rounds)], check=True, capture_output=True, text=True)
        line = said.stdout.splitlines()[0]
        good = float(line.split("share of the floor")[1].split("%")[0]) >= 80
        print(f"{line} (asked 80 %{'' if good else '; MISSED'})", flush=True)
        if not good:
            missed.append(f"floor of {name}")


def length(weft, rounds, missed):
    print("gpt:layers=2,heads=4,width=128, one sample a step: positions, tokens/s, peak memory, MB more for each 1,024 positions more")
    before = None
    for positions in (1024, 2048, 4096, 8192):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([weft, "train", "-q", "--model", "gpt:layers=2,heads=4,width=128", "--data", f"text:{TEXT},unit=char,context={positions}",
                            "--batch", "1", "--steps", "3", "--threads", str(THREADS), "--metrics", f"{folder}/m"], check=True, stdout=subprocess.DEVNULL)
            rows = [json.loads(line) for line in open(f"{folder}/m")]
        rate = statistics.median(row["samples_per_second"] for row in rows if row["event"] == "step") * positions
        peak = next(row["peak_rss_bytes"] for row in rows if row["event"] == "summary") / 1e6
        more = (peak - before[1]) / (positions - before[0]) * 1024 if before else 0
        print(f"{positions:6} {rate:10.0f} {peak:10.0f} MB" + (f"{more:10.1f}" if before else ""), flush=True)
        slope, before = (before and before[2]), (positions, peak, more)
    if more > 1.25 * slope:  # were memory quadratic, it would grow twice as fast in the last step
        missed.append("memory linear in the length")


PARTS = {"floor": floor, "length": length}


def main():
    weft, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    names = sys.argv[3:] or [*CASES, *PARTS]
    if not TEXT.exists():
        sys.exit(f"skipped: {TEXT} is not there")
    # PyTorch is not imported here: a child's peak memory counts that of the process that has begun it.
    version = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    print(f"{processor}, {THREADS} threads; PyTorch {version}; float32, Adam")
    missed = []
    for name in names:
        if name in PARTS:
            PARTS[name](weft, rounds, missed)
            continue
        ours, others = [], {"eager": [], "compiled": []}
        for _ in range(rounds):
            ours.append(of_weft(weft, name, TEXT))
            for mode in list(others):
                value = peer(name, mode)
                others[mode].append(value) if value else others.pop(mode)
        best = max(others, key=lambda mode: statistics.median(rate for rate, _ in others[mode]))
        ratios = sorted(a[0] / b[0] for a, b in zip(ours, others[best]))
        memory = statistics.median(a[1] for a in ours), statistics.median(b[1] for b in others[best])
        bound, ratio = CASES[name][4], statistics.median(ratios)
        print(f"{name}: weft {statistics.median(a[0] for a in ours):.1f} samples/s; PyTorch "
              + ", ".join(f"{mode} {statistics.median(b[0] for b in values):.1f}" for mode, values in others.items())
              + f"; ratio to {best} {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {rounds} rounds; asked {bound}{'' if ratio >= bound else '; MISSED'})")
        print(f"{'':{len(name)}}  peak memory {memory[0] / 1e6:.0f} MB, PyTorch {memory[1] / 1e6:.0f} MB")
        if ratio < bound or memory[0] >= memory[1]:
            missed.append(name)
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if sys.argv[1] == "--torch":
    of_torch(*sys.argv[2:4])
else:
    main()
