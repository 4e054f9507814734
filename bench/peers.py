#!/usr/bin/env python3
"""Training beside PyTorch: samples/s and peak memory in float32 and in bfloat16, in rounds that take turns.

usage: peers.py WEFT [ROUNDS [PART...]]    (make bench-peers installs PyTorch)

PyTorch runs in several ways, and the best is the peer: as it stands and compiled, images in both memory formats, with fused
Adam, attention and LSTM, in bfloat16 by autocast. A step is forward, backward and Adam, on as many threads as the machine has
cores. A part is a model in both types, MODEL:f32 or MODEL:bf16, `floor`, how much of a step are its products alone, by
oneDNN, and the pass of Adam, `peak`, the share of a core's peak that a step reaches, `length`, the memory of attention over
1,024 to 8,192 positions, `types`, how much faster bf16 is than f32 for each built-in model, or `row`, a lone row of vgg11
beside ONNX Runtime. `peak`, `types` and `row` take turns on one thread and take processor time, so that other work on the
machine changes little.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import runs

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
THREADS = len(os.sched_getaffinity(0))
# name: (model of weft, data of weft, samples a step, steps, bounds of the ratio in f32 and in bf16)
CASES = {
    "lenet": ("lenet", "glyphs:train=20000,test=100", 100, 60, (1.4, 1.4)),
    "vgg11": ("vgg11", "glyphs:size=32,train=2000,test=100", 100, 8, (1.4, 1.25)),
    "resnet18": ("resnet:depth=18", "glyphs:size=64,train=640,test=50", 32, 8, (1.4, 1.25)),
    "gpt": ("gpt:layers=6,heads=6,width=384", "text:{text},unit=char,context=256", 8, 8, (1.1, 1.25)),
    "char-lstm": ("char-lstm:layers=2,units=256", "text:{text},unit=char,context=128", 32, 20, (1.25, 1.25)),
    "twin-lstm": ("twin-lstm:units=64", "pairs:{text},train=4000,test=200", 50, 20, (2, 2)),
}
TYPES = ("f32", "bf16")
SIDES = {"lenet": 28, "vgg11": 32, "resnet18": 64}  # of pictures with one channel


def ways(name):
    formats = ("", ",channels_last") if name in SIDES else ("",)
    return [f"{run}{form}" for run in ("eager", "compiled") for form in formats]


def own_memory():
    """The peak memory of this process without mapped files, as peak_rss_bytes of a run."""
    with open("/proc/self/status") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f if line.endswith("kB\n")}
    return 1024 * max(kib["RssAnon"], kib["VmHWM"] - kib["RssFile"] - kib["RssShmem"])


def of_weft(weft, name, dtype):
    model, data, batch, steps, _ = CASES[name]
    rows, summary = runs.train(weft, "--model", model, "--data", data.format(text=TEXT), "--batch", batch, "--steps", steps,
                               "--threads", THREADS, "--dtype", dtype)
    return runs.rate(rows), summary["peak_rss_bytes"]


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
    def lenet():
        return nn.Sequential(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))

    def vgg11():
        layers, channels = [], 1
        for filters, pooled in zip((64, 128, 256, 256, 512, 512, 512, 512), (1, 1, 0, 1, 0, 1, 0, 1)):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()] + ([nn.MaxPool2d(2)] if pooled else [])
            channels = filters
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10))

    class Residual(nn.Module):
        def __init__(self, channels, filters, stride):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(),
                                      nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
            same = stride == 1 and channels == filters
            self.side = nn.Identity() if same else nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

        def forward(self, x):
            return F.relu(self.body(x) + self.side(x))

    def resnet18():
        layers, channels = [nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for filters in (64, 128, 256, 512):
            layers += [Residual(channels, filters, 1 if filters == 64 else 2), Residual(filters, filters, 1)]
            channels = filters
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return {"lenet": lenet, "vgg11": vgg11, "resnet18": resnet18, "gpt": Gpt, "char-lstm": Chars, "twin-lstm": Twins}[name]()


def of_torch(name, dtype, way):
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
    elif name in SIDES:
        x, y = torch.rand(batch, 1, SIDES[name], SIDES[name]), torch.randint(0, 10, (batch,))
    else:
        x, y = torch.randint(0, tokens, (batch, context)), torch.randint(0, tokens, (batch * context,))
    if "channels_last" in way:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loss_of = torch.nn.CrossEntropyLoss()
    run = torch.compile(model) if "compiled" in way else model
    times = []
    for _ in range(steps + 3):
        begun = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            logits = run(x)
            loss = loss_of(logits.reshape(-1, logits.shape[-1]), y)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begun)
    print("RESULT", batch / statistics.median(times[3:]), own_memory())


def peer(name, dtype, way):
    done = subprocess.run([sys.executable, __file__, "--torch", name, dtype, way], capture_output=True, text=True)
    words = [line.split() for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not words:
        print(f"  PyTorch {way} of {name} in {dtype} does not run: {(done.stderr.strip().splitlines() or ['no output'])[-1][:120]}")
        return None
    return float(words[0][1]), float(words[0][2])


# --- floor and length ---


def floor(weft, rounds, missed):
    bench = pathlib.Path(weft).parent / "bench" / "weft_bench"
    for name, (model, data, batch, steps, _) in CASES.items():
        if name in SIDES:
            continue  # `make bench` has lenet and vgg11
        said = subprocess.run([bench, model, data.format(text=TEXT), str(batch), str(steps), str(rounds)], check=True, capture_output=True, text=True)
        line = said.stdout.splitlines()[0]
        good = float(line.split("share of the floor")[1].split("%")[0]) >= 80
        print(f"{line} (asked 80 %{'' if good else '; MISSED'})", flush=True)
        if not good:
            missed.append(f"floor of {name}")


def peak(weft, rounds, _):
    """FLOPs are those of `weft plan`, where a convolution is a sum over whole windows. Winograd's transform multiplies up to four
    times less, and kernels leave out windows' parts in the padding, so a share may be above 100 %."""
    bench = pathlib.Path(weft).parent / "bench" / "weft_peak"
    taken, most = {}, {dtype: [] for dtype in TYPES}
    for _ in range(rounds):
        said = subprocess.run([bench], check=True, capture_output=True, text=True).stdout
        for _, dtype, rate in (line.split() for line in said.splitlines() if line.startswith("RESULT")):
            most[dtype].append(float(rate))
        for name in ("lenet", "vgg11", "gpt", "char-lstm"):
            model, data, batch, steps, _ = CASES[name]
            words = ["--model", model, "--data", data.format(text=TEXT), "--batch", batch, "--dtype"]
            for dtype in TYPES:
                taken.setdefault((name, dtype), []).append(runs.step(weft, [*words, dtype], steps))
    top = {dtype: statistics.median(rates) for dtype, rates in most.items()}
    print(f"peak of a core: {top['f32']:.1f} GFLOP/s in f32, {top['bf16']:.1f} in bf16; GFLOP of a step are those of `weft plan`: of "
          "convolutions as sums over whole windows, also in the padding and under Winograd's transform, which need less; so a share may be "
          "above 100 %", flush=True)
    for (name, dtype), times in taken.items():
        model, data, batch, _, _ = CASES[name]
        plan = subprocess.run([weft, "plan", "--model", model, "--data", data.format(text=TEXT), "--batch", str(batch), "-t", "1", "--dtype", dtype],
                              check=True, capture_output=True, text=True).stdout
        work = float(next(line for line in plan.splitlines() if line.split()[:2] == ["0", "all"]).split()[-4])
        print(f"{name} {dtype}: {work:.2f} GFLOP in {1e3 * statistics.median(times):.1f} ms of a processor, "
              f"{100 * work / statistics.median(times) / top[dtype]:.0f} % of the peak", flush=True)


def length(weft, rounds, missed):
    print("gpt:layers=2,heads=4,width=128, one sample a step: positions, tokens/s, peak memory, MB more for each 1,024 positions more")
    before = None
    for positions in (1024, 2048, 4096, 8192):
        rows, summary = runs.train(weft, "--model", "gpt:layers=2,heads=4,width=128", "--data", f"text:{TEXT},unit=char,context={positions}",
                                   "--batch", 1, "--steps", 3, "--threads", THREADS)
        rate, peak = runs.rate(rows) * positions, summary["peak_rss_bytes"] / 1e6
        more = (peak - before[1]) / (positions - before[0]) * 1024 if before else 0
        print(f"{positions:6} {rate:10.0f} {peak:10.0f} MB" + (f"{more:10.1f}" if before else ""), flush=True)
        slope, before = (before and before[2]), (positions, peak, more)
    if more > 1.25 * slope:  # were memory quadratic, it would grow twice as fast in the last step
        missed.append("memory linear in the length")


# --- types and row ---

# Data of each built-in model, and the steps of which a run has more.
SMALL = {
    "lenet": ("glyphs:train=2000,test=10", 30),
    "mlp": ("glyphs:train=2000,test=10", 1000),
    "vgg11": ("glyphs:size=32,train=500,test=10", 6),
    "inception": ("glyphs:train=500,test=10", 20),
    "vgg": ("glyphs:size=64,train=100,test=10", 4),
    "resnet": ("glyphs:size=64,train=200,test=10", 4),
    "mobilenet": ("glyphs:size=64,train=200,test=10", 4),
    "googlenet": ("glyphs:size=64,train=200,test=10", 4),
    "vit": ("glyphs:size=32,train=500,test=10", 6),
    "unet": None,  # masks, of which no built-in data have any
    "autoencoder": ("reconstruct:glyphs:train=2000,test=10", 100),
    "densenet": ("glyphs:size=64,train=200,test=10", 2),
    "gpt": ("text:{text},unit=char,context=64", 2),
    "transformer": ("text:{text},unit=char,context=64", 20),
    "char-lstm": ("text:{text},unit=char,context=64", 20),
    "twin-lstm": ("pairs:{text},train=400,test=10", 20),
}


def types(weft, rounds, missed):
    listed = subprocess.run([weft, "inspect", "--list"], check=True, capture_output=True, text=True).stdout
    section = listed.split("models:\n")[1].split("\n\n")[0]
    for name in [line.split()[0].split("[")[0] for line in section.splitlines() if line[2:3].strip()]:
        if name not in SMALL:
            missed.append(f"types of {name}, which has no data here")
            continue
        if not SMALL[name]:
            continue
        data, steps = SMALL[name]
        words = ["--model", name, "--data", data.format(text=TEXT), "--batch", 20, "--dtype"]
        taken = {dtype: [] for dtype in TYPES}
        for _ in range(rounds):
            for dtype in TYPES:
                taken[dtype].append(1e3 * runs.step(weft, [*words, dtype], steps))
        f32, bf16 = (min(taken[dtype]) for dtype in TYPES)
        print(f"{name}: a step {f32:.2f} ms in f32, {bf16:.2f} in bf16; ratio {f32 / bf16:.2f} (asked 1{'' if f32 >= bf16 else '; MISSED'})", flush=True)
        if f32 < bf16:
            missed.append(f"types of {name}")


def row(weft, rounds, missed):
    if subprocess.run([sys.executable, "-c", "import onnx, onnxruntime"], capture_output=True).returncode:
        print("row: skipped, ONNX Runtime is not installed (pip install onnxruntime onnx)")
        return
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = {dtype: [] for dtype in TYPES}, []
        for dtype in TYPES:
            subprocess.run([weft, "train", "-q", "--model", "vgg11", "--data", "glyphs:size=32,train=100,test=10", "--steps", "1", "--batch", "10", "--dtype", dtype,
                            "-c", f"{folder}/{dtype}"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([weft, "export", "-q", f"{folder}/f32", "-o", f"{folder}/w.safetensors"], check=True)
        for _ in range(rounds):
            for dtype in TYPES:
                few, many = (runs.processor(weft, "eval", "-q", "-t", "1", "-b", "1", "-c", f"{folder}/{dtype}", "-d", f"glyphs:size=32,train=100,test={n}") for n in (100, 600))
                ours[dtype].append((many - few) / 500 * 1e3)
            said = subprocess.run([sys.executable, HERE / "onnx_server.py", f"{folder}/w.safetensors", "vgg11", "1,32,32", "500"], check=True, capture_output=True, text=True)
            theirs.append(float(said.stdout))
    other = statistics.median(theirs)
    for dtype, bound in zip(TYPES, (1.0, 1.2)):
        one = statistics.median(ours[dtype])
        good = other / one >= bound
        print(f"a lone row of vgg11: {one:.2f} ms in {dtype}, ONNX Runtime {other:.2f} in f32; ratio {other / one:.2f} (asked {bound}{'' if good else '; MISSED'})", flush=True)
        if not good:
            missed.append(f"row in {dtype}")


PARTS = {"floor": floor, "peak": peak, "length": length, "types": types, "row": row}


def compare(weft, name, dtype, rounds, missed):
    ours, others = [], {way: [] for way in ways(name)}
    for _ in range(rounds):
        ours.append(of_weft(weft, name, dtype))
        for way in list(others):
            value = peer(name, dtype, way)
            others[way].append(value) if value else others.pop(way)
    if not others:
        missed.append(f"{name} {dtype}, which PyTorch does not run")
        return statistics.median(rate for rate, _ in ours)
    best = max(others, key=lambda way: statistics.median(rate for rate, _ in others[way]))
    ratios = sorted(a[0] / b[0] for a, b in zip(ours, others[best]))
    memory = statistics.median(a[1] for a in ours), statistics.median(b[1] for b in others[best])
    rate, bound, ratio = statistics.median(a[0] for a in ours), CASES[name][4][TYPES.index(dtype)], statistics.median(ratios)
    print(f"{name} {dtype}: weft {rate:.1f} samples/s; PyTorch "
          + ", ".join(f"{way} {statistics.median(b[0] for b in values):.1f}" for way, values in others.items())
          + f"; ratio to {best} {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {rounds} rounds; asked {bound}{'' if ratio >= bound else '; MISSED'})")
    print(f"  peak memory {memory[0] / 1e6:.0f} MB, PyTorch {memory[1] / 1e6:.0f} MB", flush=True)
    if ratio < bound or memory[0] >= memory[1]:
        missed.append(f"{name} {dtype}")
    return rate


def main():
    weft, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    names = sys.argv[3:] or [*CASES, *PARTS]
    if not TEXT.exists():
        sys.exit(f"skipped: {TEXT} is not there")
    # PyTorch is not imported here: a child's peak memory counts that of the process that has begun it.
    version = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    cpu = dict(line.split(":", 1) for line in open("/proc/cpuinfo").read().split("\n\n")[0].replace("\t", "").splitlines() if ":" in line)
    sets = [s for s in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if s in cpu.get("flags", "").split()]
    print(f"{cpu.get('model name', 'unknown').strip()} (family {cpu.get('cpu family', '?').strip()}, {(sets or ['no AVX2'])[0]}), {THREADS} threads; PyTorch {version}; Adam")
    missed = []
    for name in names:
        if name in PARTS:
            PARTS[name](weft, rounds, missed)
            continue
        model, *types = name.split(":")
        rates = {dtype: compare(weft, model, dtype, rounds, missed) for dtype in types or TYPES}
        if len(rates) == 2:
            print(f"  weft in bf16 beside f32: {rates['bf16'] / rates['f32']:.2f}")
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if sys.argv[1] == "--torch":
    of_torch(*sys.argv[2:5])
else:
    main()
