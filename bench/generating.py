#!/usr/bin/env python3
"""Tokens a second of weft generate against PyTorch with the same weights: generating.py WEFT [ROUNDS]

Both keep the keys and values of earlier positions, take the most likely token and must give the same text. The time of the
start is left out: it is that of a run with fewer tokens.
"""
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TEXT = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
THREADS = len(os.sched_getaffinity(0))
LAYERS, HEADS, WIDTH, CONTEXT, PROMPT = 6, 6, 384, 256, "ROMEO:"
FEW, MANY = 20, 240


def train(weft, folder):
    subprocess.run([weft, "train", "-q", "--model", f"gpt:layers={LAYERS},heads={HEADS},width={WIDTH}", "--data", f"text:{TEXT},unit=char,context={CONTEXT}",
                    "--batch", "4", "--steps", "20", "--checkpoint", f"{folder}/run"], check=True)
    subprocess.run([weft, "export", f"{folder}/run", "-o", f"{folder}/weights"], check=True, stdout=subprocess.DEVNULL)


def of_weft(weft, folder, tokens):
    begun = time.perf_counter()
    done = subprocess.run([weft, "generate", f"{folder}/run", "--prompt", PROMPT, "--tokens", str(tokens), "--temperature", "0", "--threads", str(THREADS)],
                          check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def of_torch(path, tokens):
    import torch
    from torch.nn import functional as F
    torch.set_num_threads(THREADS)
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    p = {}
    for name, about in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in about["data_offsets"])
            p[name] = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.float32).view(about["shape"])
    p = {name: value.t().contiguous() if name.endswith("/weight") and value.dim() == 2 and name not in ("tokens/weight", "positions/weight") else value
         for name, value in p.items()}
    letters = sorted(set(TEXT.read_text(encoding="utf-8")))
    cache = torch.zeros(LAYERS, 2, HEADS, CONTEXT, WIDTH // HEADS)
    linear = lambda x, layer: F.linear(x, p[f"{layer}/weight"], p.get(f"{layer}/bias"))
    norm = lambda x, layer: F.layer_norm(x, (WIDTH,), p[f"{layer}/gamma"], p[f"{layer}/beta"])

    def step(token, at):
        x = p["tokens/weight"][token] + p["positions/weight"][at]
        for n in range(LAYERS):
            block, y = f"block{n + 1}", norm(x, f"block{n + 1}/attention_norm")
            q, k, v = (linear(y, f"{block}/attention/{part}").view(HEADS, 1, -1) for part in ("query", "key", "value"))
            cache[n, 0, :, at], cache[n, 1, :, at] = k[:, 0], v[:, 0]
            y = F.scaled_dot_product_attention(q, cache[n, 0, :, :at + 1], cache[n, 1, :, :at + 1])
            x = x + linear(y.reshape(WIDTH), f"{block}/attention/output")
            x = x + linear(F.gelu(linear(norm(x, f"{block}/mlp_norm"), f"{block}/mlp_in")), f"{block}/mlp_out")
        return int(linear(norm(x, "norm"), "head").argmax())
    with torch.inference_mode():
        begun, text = time.perf_counter(), PROMPT
        for at in range(len(PROMPT) + tokens - 1):
            token = step(letters.index(text[at]), at)
            if at + 1 >= len(PROMPT):
                text += letters[token]
    print(json.dumps([time.perf_counter() - begun, text]))


def peer(folder, tokens):
    return json.loads(subprocess.run([sys.executable, __file__, "--torch", f"{folder}/weights", str(tokens)], check=True, capture_output=True, text=True).stdout)


def main():
    weft, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if not TEXT.exists():
        sys.exit(f"skipped: {TEXT} is not there")
    ours, others = [], []
    with tempfile.TemporaryDirectory() as folder:
        train(weft, folder)
        for _ in range(rounds):
            mine, theirs = ([run(tokens) for tokens in (FEW, MANY)] for run in (lambda n: of_weft(weft, folder, n), lambda n: peer(folder, n)))
            if mine[1][1].strip() != theirs[1][1].strip():
                sys.exit(f"the texts differ:\n{mine[1][1]!r}\n{theirs[1][1]!r}")
            ours.append((MANY - FEW) / (mine[1][0] - mine[0][0]))
            others.append((MANY - FEW) / (theirs[1][0] - theirs[0][0]))
    ratios = sorted(a / b for a, b in zip(ours, others))
    ratio = statistics.median(ratios)
    print(f"generate: weft {statistics.median(ours):.0f} tokens/s; PyTorch {statistics.median(others):.0f}, the same text; ratio {ratio:.2f} "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {rounds} rounds; asked 0.8{'' if ratio >= 0.8 else '; MISSED'})")
    sys.exit(0 if ratio >= 0.8 else 1)


if sys.argv[1] == "--torch":
    of_torch(sys.argv[2], int(sys.argv[3]))
else:
    main()
