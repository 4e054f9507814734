#!/usr/bin/env python3
"""Whole models against PyTorch: tests/models/torch_models.py PATH/TO/weft [--golden FILE | --write FILE]

Each case trains a model of weft on a few samples, in float64 and with all of them in every step: the loss, every
gradient and ten steps of Adam must be those of PyTorch within 1e-10, from the same initial weights. With --golden the
figures that --write has saved take PyTorch's place. (`make torch` installs PyTorch and compares; the test torch_models
reads the file.)
"""
import math
import os
import random
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from torch_compare import main, single, write_npy

SAMPLES, POSITIONS = 9, 7


def make_data():
    draw = random.Random(5)
    number = lambda: single(draw.uniform(-1, 1))
    shape = (SAMPLES, POSITIONS, 3)
    data = {name: (shape, [number() for _ in range(math.prod(shape))]) for name in "abx"}
    for name in ("a_lengths", "b_lengths", "lengths"):
        data[name] = ((SAMPLES,), [draw.randint(1, POSITIONS) for _ in range(SAMPLES - 1)] + [POSITIONS])
    data["tokens"] = ((SAMPLES, POSITIONS), [draw.randrange(5) for _ in range(SAMPLES * POSITIONS - 1)] + [4])
    data["label"] = ((SAMPLES,), [i % 3 for i in range(SAMPLES)])
    data["tags"] = ((SAMPLES, POSITIONS), [draw.randrange(4) for _ in range(SAMPLES * POSITIONS - 1)] + [3])
    data["ignored"] = (data["tags"][0], [-100 if i % 5 == 2 else tag for i, tag in enumerate(data["tags"][1])])
    pixels = random.Random(6)
    data["image"] = ((SAMPLES, 2, 6, 4), [single(pixels.uniform(-1, 1)) for _ in range(SAMPLES * 48)])
    data["mask"] = ((SAMPLES, 6, 4), [pixels.choice((0, 1, 2, 255)) for _ in range(SAMPLES * 24)])
    data["weight"] = ((SAMPLES, POSITIONS), [number() + 1 for _ in range(SAMPLES * POSITIONS)])
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


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gated.yaml")) as yaml:
    GATED = yaml.read()
GRU = """layers:
  - {type: gru, name: gru, units: 5, layers: 2, bidirectional: true, last: true, lengths: lengths}
  - {type: dense, name: head, units: outputs}
"""
PIXELS = """layers:
  - {type: conv, name: c1, filters: 4, kernel: 3, padding: 1}
  - {type: gelu, name: act}
  - {type: conv, name: c2, filters: 3, kernel: 1}
  - {type: channels_last, name: pixels}
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
    "transformer-ignore": ("transformer:layers=1,heads=2,width=8", None,
                           "npy:x=tokens.npy,lengths=lengths.npy,label=ignored.npy,ignore=-100,test=0", ["tokens", "lengths"], "ignored", None),
    "pixels-ignore": ("pixels.yaml", PIXELS, "npy:image.npy,mask.npy,layout=chw,ignore=255,test=0", ["image"], "mask", None),
}

SMOOTHING = {"gpt": 0.05, "transformer-tags": 0.2}


def forward(name, p, given):
    import torch
    from torch import nn
    from torch.nn import functional as F
    import torch_layers as layer

    def blocks(x, count, heads, causal, lengths=None):
        x = x + p["positions/weight"]
        for n in range(1, count + 1):
            inner = layer.layer_norm(p, x, f"block{n}/attention_norm")
            x = x + layer.attention(p, inner, f"block{n}/attention", heads, heads, causal, lengths)
            inner = F.gelu(layer.linear(p, layer.layer_norm(p, x, f"block{n}/mlp_norm"), f"block{n}/mlp_in"))
            x = x + layer.linear(p, inner, f"block{n}/mlp_out")
        return layer.layer_norm(p, x, "norm")

    if name.startswith("gpt"):
        x = blocks(F.embedding(given[0], p["tokens/weight"]), 2, 3 if "tied" in name else 2, True)
        return F.linear(x, p["tokens/weight"]) if "tied" in name else layer.linear(p, x, "head")
    if name == "gated":
        x = F.embedding(given[0], p["tokens/weight"])
        x = x + layer.attention(p, layer.rms_norm(p, x, "norm1"), "look", 4, 2, True, rotary=100)
        inner = layer.rms_norm(p, x, "norm2")
        x = x + layer.linear(p, F.silu(layer.linear(p, inner, "gate")) * layer.linear(p, inner, "wide"), "narrow")
        return F.linear(x, p["tokens/weight"])
    if name == "char-lstm":
        x = F.embedding(given[0], p["tokens/weight"])
        for n in (1, 2):
            x, _ = layer.recurrent(p, nn.LSTM, x, f"lstm{n}")
        return layer.linear(p, x, "head")
    if name.startswith("twin-lstm"):
        lengths = given[2:] or [None, None]
        states = [layer.recurrent(p, nn.LSTM, given[i], "a/lstm", lengths[i])[1] for i in (0, 1)]
        return layer.linear(p, torch.cat(states, 1), "head")
    if name == "gru":
        return layer.linear(p, layer.recurrent(p, nn.GRU, given[0], "gru", given[1], 2, True)[1], "head")
    if name == "pixels-ignore":
        conv = lambda x, layer, padding: F.conv2d(x, p[f"{layer}/weight"], p[f"{layer}/bias"], padding=padding)
        return conv(F.gelu(conv(given[0], "c1", 1)), "c2", 0).permute(0, 2, 3, 1)
    tags = name != "transformer"
    x = F.embedding(given[0], p["tokens/weight"]) if tags else layer.linear(p, given[0], "features")
    x = blocks(x, 1 if tags else 2, 2, False, given[1])
    return layer.linear(p, x if tags else layer.sequence_mean(x, given[1]), "head")


class Case:
    samples, steps, optimizer = SAMPLES, 10, ("-o", "adam", "--lr", "0.01")

    def __init__(self, name, arrays):
        self.name, self.arrays = name, arrays
        self.model, text, self.data, self.inputs, self.labels, self.weights = CASES[name]
        self.options = ("--label-smoothing", str(SMOOTHING.get(name, 0)))
        if text:
            with open(self.model, "w") as out:
                out.write(text)

    def of_torch(self, start):
        import torch
        import torch_layers
        tensor = lambda key: torch.tensor(self.arrays[key][1]).view(self.arrays[key][0])
        given = [tensor(key) for key in self.inputs]
        return torch_layers.train(start, lambda p: forward(self.name, p, given), tensor(self.labels),
                                  tensor(self.weights) if self.weights else None, SMOOTHING.get(self.name, 0), self.steps,
                                  lambda parameters: torch.optim.Adam(parameters, lr=0.01), ignore=255 if self.labels == "mask" else -100)


def cases(_):
    arrays = make_data()
    return [Case(name, arrays) for name in CASES]


if __name__ == "__main__":
    main(cases, [("reference", "f64", 1e-10), ("cpu", "f64", 1e-10)])
