#!/usr/bin/env python3
"""Whole models against PyTorch: tests/torch_models.py PATH/TO/weft [--golden FILE | --write FILE]

Each case trains a model of weft on a few samples, in float64 and with all of them in every step: the loss, every
gradient and ten steps of Adam must be those of PyTorch within 1e-10, from the same initial weights. Gradients come from
one step of SGD with learning rate 1. With --golden the figures that --write has saved take PyTorch's place, so that no
PyTorch is needed. (`make torch` installs PyTorch and compares; the test torch_models reads the file.)
"""
import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

TOLERANCE, STEPS, RATE = 1e-10, 10, 0.01
SAMPLES, POSITIONS = 9, 7

# --- data, from a generator that is the same everywhere ---


def write_npy(path, kind, shape, values):
    head = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        out.write(struct.pack(f"<{len(values)}{ {'f8': 'd', 'i8': 'q', 'i4': 'i'}[kind] }", *values))


def make_data():
    draw = random.Random(5)
    single = lambda: struct.unpack("f", struct.pack("f", draw.uniform(-1, 1)))[0]  # features are float32 in weft
    shape = (SAMPLES, POSITIONS, 3)
    data = {name: (shape, [single() for _ in range(math.prod(shape))]) for name in "abx"}
    for name in ("a_lengths", "b_lengths", "lengths"):
        data[name] = ((SAMPLES,), [draw.randint(1, POSITIONS) for _ in range(SAMPLES - 1)] + [POSITIONS])
    data["tokens"] = ((SAMPLES, POSITIONS), [draw.randrange(5) for _ in range(SAMPLES * POSITIONS - 1)] + [4])
    data["label"] = ((SAMPLES,), [i % 3 for i in range(SAMPLES)])
    data["tags"] = ((SAMPLES, POSITIONS), [draw.randrange(4) for _ in range(SAMPLES * POSITIONS - 1)] + [3])
    data["weight"] = ((SAMPLES, POSITIONS), [single() + 1 for _ in range(SAMPLES * POSITIONS)])
    for name, (size, values) in data.items():
        real = isinstance(values[0], float)
        write_npy(f"{name}.npy", "f8" if real else "i8", size, values)
    words = "the warp and weft of a loom hold each other".split()
    text = " ".join(draw.choice(words) for _ in range(60))[:SAMPLES * POSITIONS + 1]
    with open("text.txt", "w") as out:
        out.write(text)
    letters = sorted(set(text.encode()))
    ids = [letters.index(byte) for byte in text.encode()]
    windows = [ids[i * POSITIONS:(i + 1) * POSITIONS + 1] for i in range(SAMPLES)]
    data["text"] = ((SAMPLES, POSITIONS), [t for w in windows for t in w[:-1]])
    data["next"] = ((SAMPLES, POSITIONS), [t for w in windows for t in w[1:]])
    return data


GATED = """layers:
  - {type: embedding, name: tokens, units: 16}
  - {type: rms_norm, name: norm1}
  - {type: attention, name: look, heads: 4, key_heads: 2, causal: true, rotary: 100}
  - {type: add, name: sum1, from: "tokens, look"}
  - {type: rms_norm, name: norm2}
  - {type: linear, name: gate, from: norm2, units: 24}
  - {type: silu, name: open}
  - {type: linear, name: wide, from: norm2, units: 24}
  - {type: mul, name: gated, from: "open, wide"}
  - {type: linear, name: narrow, units: 16}
  - {type: add, name: sum2, from: "sum1, narrow"}
  - {type: linear, name: head, units: outputs, share: tokens}
"""
GRU = """layers:
  - {type: gru, name: gru, units: 5, layers: 2, bidirectional: true, last: true, lengths: lengths}
  - {type: dense, name: head, units: outputs}
"""
TEXT, TAGS = f"text:text.txt,unit=char,context={POSITIONS},test=0", "label=tags.npy,weight=weight.npy,test=0"

# name: (model, its YAML text, data, inputs, labels, weights)
CASES = {
    "gpt": ("gpt:layers=2,heads=2,width=12", None, TEXT, ["text"], "next", None),
    "gpt-tied": ("gpt:layers=2,heads=3,width=12,tied", None, TEXT, ["text"], "next", None),
    "gated": ("gated.yaml", GATED, TEXT, ["text"], "next", None),
    "char-lstm": ("char-lstm:layers=2,units=11", None, TEXT, ["text"], "next", None),
    "twin-lstm": ("twin-lstm:units=6", None, "npy:a=a.npy,b=b.npy,label=label.npy,test=0", ["a", "b"], "label", None),
    "twin-lstm-lengths": ("twin-lstm:units=6", None,
                          "npy:a=a.npy,a_lengths=a_lengths.npy,b=b.npy,b_lengths=b_lengths.npy,label=label.npy,test=0",
                          ["a", "b", "a_lengths", "b_lengths"], "label", None),
    "gru": ("gru.yaml", GRU, "npy:x=x.npy,lengths=lengths.npy,label=label.npy,test=0", ["x", "lengths"], "label", None),
    "transformer": ("transformer:layers=2,heads=2,width=8", None,
                    "npy:x=x.npy,lengths=lengths.npy,label=label.npy,test=0", ["x", "lengths"], "label", None),
    "transformer-tags": ("transformer:layers=1,heads=2,width=8", None,
                         f"npy:x=tokens.npy,lengths=lengths.npy,{TAGS}", ["tokens", "lengths"], "tags", "weight"),
}

SMOOTHING = {"gpt": 0.05, "transformer-tags": 0.2}

# --- weft ---


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, about in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        assert about["dtype"] == "F64", about
        found[name] = (about["shape"], list(struct.unpack(f"<{(end - begin) // 8}d", raw[begin:end])))
    return found


def train(weft, name, *options):
    """Trains, and returns the losses of the steps and the weights after the last one."""
    model, text, data = CASES[name][:3]
    if text:
        with open(model, "w") as out:
            out.write(text)
    command = [weft, "train", "-q", "--model", model, "--data", data, "--normalize", "none", "--dtype", "f64", "-t", "1", "--batch",
               str(SAMPLES), "--metrics", "metrics", "--checkpoint", "run", "--label-smoothing", str(SMOOTHING.get(name, 0)), *options]
    subprocess.run(["rm", "-rf", "run", "metrics", "weights"], check=True)
    for words in (command, [weft, "export", "run", "-o", "weights"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr or done.stdout}")
    with open("metrics") as lines:
        losses = [row["loss"] for row in map(json.loads, lines) if row["event"] == "step"]
    return losses, read_safetensors("weights")


def of_weft(weft, name, device):
    start = train(weft, name, "--device", device, "-o", "sgd", "--lr", "1e-30", "--steps", "1")
    moved = train(weft, name, "--device", device, "-o", "sgd", "--lr", "1", "--steps", "1")
    gradients = {key: [a - b for a, b in zip(start[1][key][1], moved[1][key][1])] for key in start[1]}
    losses, last = train(weft, name, "--device", device, "-o", "adam", "--lr", str(RATE), "--steps", str(STEPS))
    return start[1], {"losses": losses, "gradients": gradients, "weights": {key: values for key, (_, values) in last.items()}}


# --- PyTorch ---


def of_torch(name, data, start):
    import torch
    from torch import nn
    from torch.func import functional_call
    from torch.nn import functional as F
    from torch.nn.utils.rnn import pack_padded_sequence
    torch.set_default_dtype(torch.float64)
    model, _, _, inputs, labels, weights = CASES[name]
    p = {key: torch.tensor(values).view(shape).requires_grad_() for key, (shape, values) in start.items()}
    tensor = lambda key: torch.tensor(data[key][1]).view(data[key][0])
    given = [tensor(key) for key in inputs]
    y, w = tensor(labels), tensor(weights) if weights else None

    def linear(x, layer):
        bias = p.get(f"{layer}/bias")
        return F.linear(x, p[f"{layer}/weight"].t(), bias)

    def norm(x, layer):
        gamma = p[f"{layer}/gamma"]
        return F.layer_norm(x, gamma.shape, gamma, p[f"{layer}/beta"])

    def recurrent(kind, x, layer, lengths=None, layers=1, both=False):
        units = p[f"{layer}/recurrent"].shape[0]
        net = kind(x.shape[2], units, num_layers=layers, bidirectional=both, batch_first=True)
        named = {}
        for number in range(layers):
            for end, ours in (("", ""), ("_reverse", "_reverse")) if both else (("", ""),):
                suffix = (f"_l{number}" if number else "") + ours
                part = f"l{number}{end}"
                named[f"weight_ih_{part}"] = p[f"{layer}/weight{suffix}"].t()
                named[f"weight_hh_{part}"] = p[f"{layer}/recurrent{suffix}"].t()
                named[f"bias_ih_{part}"] = p[f"{layer}/bias{suffix}"]
                named[f"bias_hh_{part}"] = p[f"{layer}/recurrent_bias{suffix}"] if kind is nn.GRU else torch.zeros_like(named[f"bias_ih_{part}"])
        if lengths is not None:
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, last = functional_call(net, named, (x,))
        state = last[0] if kind is nn.LSTM else last
        return y, torch.cat((state[-2], state[-1]), 1) if both else state[-1]

    def rotate(x, base):
        half = x.shape[3] // 2
        angle = torch.arange(x.shape[1])[:, None] * base ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), 3)

    def attention(x, layer, heads, keys, causal, mask=None, rotary=0):
        b, t, width = x.shape
        q = linear(x, f"{layer}/query").view(b, t, heads, -1)
        k, v = (linear(x, f"{layer}/{part}").view(b, t, keys, -1) for part in ("key", "value"))
        if rotary:
            q, k = rotate(q, rotary), rotate(k, rotary)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=causal, attn_mask=mask,
                                           enable_gqa=heads != keys)
        return linear(y.transpose(1, 2).reshape(b, t, width), f"{layer}/output")

    def blocks(x, layers, heads, causal, mask=None):
        x = x + p["positions/weight"]
        for n in range(1, layers + 1):
            x = x + attention(norm(x, f"block{n}/attention_norm"), f"block{n}/attention", heads, heads, causal, mask)
            inner = F.gelu(linear(norm(x, f"block{n}/mlp_norm"), f"block{n}/mlp_in"))
            x = x + linear(inner, f"block{n}/mlp_out")
        return norm(x, "norm")

    def forward():
        if name.startswith("gpt"):
            x = F.embedding(given[0], p["tokens/weight"])
            x = blocks(x, 2, 3 if "tied" in name else 2, True)
            return F.linear(x, p["tokens/weight"] if "tied" in name else p["head/weight"].t())
        if name == "gated":
            x = F.embedding(given[0], p["tokens/weight"])
            rms = lambda x, layer: F.rms_norm(x, (16,), p[f"{layer}/gamma"], eps=1e-5)
            x = x + attention(rms(x, "norm1"), "look", 4, 2, True, rotary=100)
            inner = rms(x, "norm2")
            x = x + linear(F.silu(linear(inner, "gate")) * linear(inner, "wide"), "narrow")
            return F.linear(x, p["tokens/weight"])
        if name == "char-lstm":
            x = F.embedding(given[0], p["tokens/weight"])
            for n in (1, 2):
                x, _ = recurrent(nn.LSTM, x, f"lstm{n}")
            return linear(x, "head")
        if name.startswith("twin-lstm"):
            lengths = given[2:] or [None, None]
            states = [recurrent(nn.LSTM, given[i], "a/lstm", lengths[i])[1] for i in (0, 1)]
            return linear(torch.cat(states, 1), "head")
        if name == "gru":
            return linear(recurrent(nn.GRU, given[0], "gru", given[1], 2, True)[1], "head")
        counts = torch.arange(POSITIONS) < given[1][:, None]
        embedded = F.embedding(given[0], p["tokens/weight"]) if "tags" in name else linear(given[0], "features")
        x = blocks(embedded, 1 if "tags" in name else 2, 2, False, counts[:, None, None, :])
        if "tags" in name:
            return linear(x, "head")
        return linear((x * counts[..., None]).sum(1) / given[1][:, None], "head")

    def loss():
        logits = forward()
        each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), reduction="none", label_smoothing=SMOOTHING.get(name, 0))
        return each.mean() if w is None else (each * w.reshape(-1)).sum() / w.sum()
    loss().backward()
    gradients = {key: value.grad.reshape(-1).tolist() for key, value in p.items()}
    optimizer, losses = torch.optim.Adam(p.values(), lr=RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss()
        losses.append(value.item())
        value.backward()
        optimizer.step()
    return {"losses": losses, "gradients": gradients, "weights": {key: value.detach().reshape(-1).tolist() for key, value in p.items()}}


# --- comparison ---


def digest(figures):
    """The losses and, for each tensor, its norm and eight of its elements."""
    def short(values):
        return [math.sqrt(math.fsum(x * x for x in values))] + [values[k * 7919 % len(values)] for k in range(8)]
    return {"losses": figures["losses"],
            **{what: {key: short(values) for key, values in figures[what].items()} for what in ("gradients", "weights")}}


def differ(ours, theirs):
    return max((abs(a - b) / max(1, abs(b)) for a, b in zip(ours, theirs)), default=0) if len(ours) == len(theirs) else math.inf


def compare(name, device, ours, theirs):
    worst = {"loss": differ(ours["losses"], theirs["losses"])}
    for what in ("gradients", "weights"):
        keys = set(ours[what]) | set(theirs[what])
        worst[what] = max(differ(ours[what].get(key, []), theirs[what].get(key, [0])) for key in keys)
    far = [what for what, value in worst.items() if not value <= TOLERANCE]
    print(f"{name:18} {device:9} " + "  ".join(f"{what} {value:.1e}" for what, value in worst.items()) + ("  FAILED" if far else ""))
    return not far


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--golden")
    parser.add_argument("--write")
    given = parser.parse_args()
    weft = os.path.abspath(given.weft)
    golden = json.load(open(given.golden)) if given.golden else {}
    saved, good = {}, True
    target = given.write and os.path.abspath(given.write)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        data = make_data()
        for name in CASES:
            for device in ("reference", "cpu"):
                start, ours = of_weft(weft, name, device)
                if golden:
                    good = compare(name, device, digest(ours), golden[name]) and good
                    continue
                if device == "reference":
                    theirs = of_torch(name, data, start)
                    saved[name] = digest(theirs)
                good = compare(name, device, ours, theirs) and good
        os.chdir("/")
    if target:
        with open(target, "w") as out:
            out.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(saved[name])}" for name in saved) + "}\n")
    print("all as PyTorch" if good else "FAILED: not as PyTorch")
    sys.exit(0 if good else 1)


main()
