#!/usr/bin/env python3
"""Default options against PyTorch's: tests/models/torch_defaults.py PATH/TO/weft [--golden FILE | --write FILE] [--all]

Each case trains a model of weft for 300 steps with default options on a small task, and the same network of PyTorch's
layers with their default initialisation and Adam. The mean loss of the last 100 steps may be at most 5 % above that of
PyTorch, so nobody who takes the defaults learns more slowly. With --golden the losses that --write has saved take
PyTorch's place; --all adds the large models. (`make torch` compares; the test torch_defaults reads the file.)
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from torch_compare import single, write_npy

STEPS, LAST, BATCH, SAMPLES, POSITIONS, TOKENS, CLASSES = 300, 100, 16, 4800, 12, 20, 4
GRU = """layers:
  - {type: embedding, units: 16}
  - {type: gru, units: 24}
  - {type: linear, units: outputs}
"""
TIED = """layers:
  - {type: embedding, name: tokens, units: 24}
  - {type: lstm, units: 24}
  - {type: linear, units: outputs, share: tokens}
"""
ATTENTION = """layers:
  - {type: embedding, units: 16}
  - {type: positions}
  - {type: attention, heads: 2, causal: true}
  - {type: layer_norm}
  - {type: linear, units: outputs}
"""
NORMED = """layers:
  - {type: conv, filters: 8, padding: 1}
  - {type: batch_norm}
  - {type: relu}
  - {type: maxpool}
  - {type: dense, units: outputs}
"""
TEXT, IMAGES, SERIES = f"tokens:tokens.bin,values={TOKENS},context={POSITIONS},test=0", "npy:image.npy,class.npy,test=0", "npy:x=series.npy,label=class.npy,test=0"
PAIRS = "npy:a=series.npy,b=other.npy,label=class.npy,test=0"
# name: (model or YAML text, data)
CASES = {"mlp": ("mlp", IMAGES), "lenet": ("lenet", IMAGES), "conv-batch-norm": (NORMED, IMAGES), "char-lstm": ("char-lstm:units=32", TEXT),
         "embedding-gru": (GRU, TEXT), "tied-lstm": (TIED, TEXT), "embedding-attention": (ATTENTION, TEXT), "gpt": ("gpt:layers=2,heads=2,width=16", TEXT),
         "transformer": ("transformer:layers=1,heads=2,width=16", SERIES), "twin-lstm": ("twin-lstm:units=16", PAIRS)}
LARGE = {"vgg11": ("vgg11", IMAGES), "inception": ("inception", IMAGES)}


def make_data():
    """One epoch: tokens of a Markov chain, noisy images and series of four classes; a tenth of the labels is wrong."""
    draw = random.Random(11)
    likely = [[draw.randrange(TOKENS) for _ in range(3)] for _ in range(TOKENS)]
    tokens = [0]
    while len(tokens) < SAMPLES * POSITIONS + 1:
        tokens.append(draw.choice(likely[tokens[-1]]) if draw.random() < 0.8 else draw.randrange(TOKENS))
    with open("tokens.bin", "wb") as out:
        out.write(b"".join(t.to_bytes(2, "little") for t in tokens))
    classes = [i % CLASSES for i in range(SAMPLES)]

    def noisy(shape, spread):
        size = math.prod(shape)
        means = [[draw.gauss(0, spread) for _ in range(size)] for _ in range(CLASSES)]
        return [single(m + draw.gauss(0, 1)) for c in classes for m in means[c]]

    arrays = {"image": ((SAMPLES, 16, 16, 1), noisy((16, 16), 0.12)), "series": ((SAMPLES, POSITIONS, 3), noisy((POSITIONS, 3), 0.4)),
              "other": ((SAMPLES, POSITIONS, 3), noisy((POSITIONS, 3), 0.4))}
    for name, (shape, values) in arrays.items():
        write_npy(f"{name}.npy", "f4", shape, values)
    classes = [draw.randrange(CLASSES) if draw.random() < 0.1 else c for c in classes]
    write_npy("class.npy", "i8", (SAMPLES,), classes)
    arrays["class"] = ((SAMPLES,), classes)
    windows = [tokens[i * POSITIONS:(i + 1) * POSITIONS + 1] for i in range(SAMPLES)]
    arrays["tokens"] = ((SAMPLES, POSITIONS), [t for w in windows for t in w[:-1]])
    arrays["next"] = ((SAMPLES, POSITIONS), [t for w in windows for t in w[1:]])
    return arrays


def of_weft(weft, model, data):
    if "\n" in model:
        with open("model.yaml", "w") as out:
            out.write(model)
        model = "model.yaml"
    means = []
    for seed in range(1, 7):
        done = subprocess.run([weft, "train", "-q", "--model", model, "--data", data, "--batch", str(BATCH), "--steps", str(STEPS), "--seed", str(seed),
                               "--normalize", "none", "-t", "1", "--metrics", "metrics"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{model}: {done.stderr}")
        with open("metrics") as lines:
            losses = [row["loss"] for row in map(json.loads, lines) if row["event"] == "step"]
        os.remove("metrics")
        means.append(statistics.fmean(losses[-LAST:]))
    return statistics.fmean(means)


def network(name):
    import torch
    from torch import nn

    class Last(nn.Module):
        def __init__(self, kind, inputs, units):
            super().__init__()
            self.inner = kind(inputs, units, batch_first=True)

        def forward(self, x):
            return self.inner(x)[0]

    class Twin(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = Last(nn.LSTM, 3, 16), nn.Linear(32, CLASSES)

        def forward(self, x):
            return self.head(torch.cat([self.lstm(half)[:, -1] for half in x.split(3, 2)], 1))

    class Blocks(nn.Module):
        """Blocks of PyTorch's own encoder, with learned positions."""
        def __init__(self, first, layers, causal, outputs):
            super().__init__()
            block = nn.TransformerEncoderLayer(16, 2, 64, dropout=0, activation="gelu", batch_first=True, norm_first=True)
            self.first, self.positions = first, nn.Embedding(POSITIONS, 16)
            self.blocks = nn.TransformerEncoder(block, layers, nn.LayerNorm(16), enable_nested_tensor=False)
            self.head, self.causal = nn.Linear(16, outputs), causal

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(POSITIONS) if self.causal else None
            y = self.blocks(self.first(x) + self.positions.weight, mask=mask, is_causal=self.causal)
            return self.head(y if self.causal else y.mean(1))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions, self.norm, self.head = nn.Embedding(TOKENS, 16), nn.Embedding(POSITIONS, 16), nn.LayerNorm(16), nn.Linear(16, TOKENS)
            self.look = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            x = self.tokens(x) + self.positions.weight
            mask = nn.Transformer.generate_square_subsequent_mask(POSITIONS)
            return self.head(self.norm(self.look(x, x, x, attn_mask=mask, need_weights=False)[0]))

    class Branches(nn.Module):
        def __init__(self, inputs, f):
            super().__init__()
            conv = lambda i, o, k: nn.Sequential(nn.Conv2d(i, o, k, padding=k // 2), nn.ReLU())
            self.parts = nn.ModuleList([conv(inputs, f[0], 1), nn.Sequential(conv(inputs, f[1], 1), conv(f[1], f[2], 3)),
                                        nn.Sequential(conv(inputs, f[3], 1), conv(f[3], f[4], 5)),
                                        nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, f[5], 1))])

        def forward(self, x):
            return torch.cat([part(x) for part in self.parts], 1)

    def vgg():
        layers, inputs = [], 1
        for filters, pooled in zip((64, 128, 256, 256, 512, 512, 512, 512), (1, 1, 0, 1, 0, 1, 0, 0)):
            layers += [nn.Conv2d(inputs, filters, 3, padding=1), nn.ReLU()] + [nn.MaxPool2d(2)] * pooled
            inputs = filters
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, CLASSES))

    def tied():
        net = recurrent(nn.LSTM, 24, 1, 24)
        net[-1].weight, net[-1].bias = net[0].weight, None  # a layer of weft that shares a table has no bias
        return net

    recurrent = lambda kind, units, count, width: nn.Sequential(nn.Embedding(TOKENS, width), *[Last(kind, units if n else width, units) for n in range(count)],
                                                                nn.Linear(units, TOKENS))
    return {"mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
            "lenet": lambda: nn.Sequential(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 1024),
                                           nn.ReLU(), nn.Linear(1024, CLASSES)),
            "conv-batch-norm": lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, CLASSES)),
            "char-lstm": lambda: recurrent(nn.LSTM, 32, 2, 32), "embedding-gru": lambda: recurrent(nn.GRU, 24, 1, 16),
            "tied-lstm": tied, "embedding-attention": Attention,
            "gpt": lambda: Blocks(nn.Embedding(TOKENS, 16), 2, True, TOKENS), "transformer": lambda: Blocks(nn.Linear(3, 16), 1, False, CLASSES), "twin-lstm": Twin,
            "vgg11": vgg, "inception": lambda: nn.Sequential(
                nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), Branches(32, (16, 24, 32, 8, 16, 16)), Branches(80, (32, 32, 48, 8, 24, 16)),
                nn.MaxPool2d(2), Branches(120, (48, 48, 64, 16, 32, 32)), Branches(176, (64, 48, 96, 16, 32, 32)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                nn.Dropout(0.2), nn.Linear(224, CLASSES))}[name]()


def of_torch(name, data, arrays):
    import torch
    torch.set_num_threads(1)
    tensor = lambda key: torch.tensor(arrays[key][1]).view(arrays[key][0])
    if data == TEXT:
        given, wanted = tensor("tokens"), tensor("next")
    else:
        given = {IMAGES: lambda: tensor("image").permute(0, 3, 1, 2), SERIES: lambda: tensor("series"),
                 PAIRS: lambda: torch.cat([tensor("series"), tensor("other")], 2)}[data]()
        wanted = tensor("class")
    means = []
    for seed in range(16):
        torch.manual_seed(seed)
        net = network(name)
        optimizer, losses, order = torch.optim.Adam(net.parameters()), [], []
        for _ in range(STEPS):
            if len(order) < BATCH:
                order = torch.randperm(SAMPLES)
            some, order = order[:BATCH], order[BATCH:]
            optimizer.zero_grad()
            y = net(given[some])
            loss = torch.nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), wanted[some].reshape(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        means.append(statistics.fmean(losses[-LAST:]))
    return statistics.fmean(means)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--golden", help="losses that --write has saved, which take PyTorch's place")
    parser.add_argument("--write", metavar="FILE", help="save PyTorch's losses")
    parser.add_argument("--all", action="store_true", help="large models as well")
    given = parser.parse_args()
    weft, golden, slow = os.path.abspath(given.weft), given.golden and json.load(open(given.golden)), []
    target = given.write and os.path.abspath(given.write)
    saved = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        arrays = make_data()
        for name, (model, data) in {**CASES, **(LARGE if given.all else {})}.items():
            theirs = golden[name] if golden else of_torch(name, data, arrays)
            ours = of_weft(weft, model, data)
            late = not ours <= 1.05 * theirs
            print(f"{name:20} weft {ours:.4f}  PyTorch {theirs:.4f}  ratio {ours / theirs:.3f}" + ("  FAILED" if late else ""), flush=True)
            saved[name] = theirs
            slow += [name] if late else []
        os.chdir("/")
    if target:
        with open(target, "w") as out:
            json.dump({name: round(value, 5) for name, value in saved.items()}, out, indent=1)
            out.write("\n")
    print("FAILED, slower than PyTorch's defaults: " + ", ".join(slow) if slow else f"all {len(saved)} learn as PyTorch's defaults do")
    sys.exit(1 if slow else 0)


main()
