#!/usr/bin/env python3
"""Random networks of sequences against PyTorch: tests/models/torch_networks.py PATH/TO/weft [--seed S] [--count N] [--extreme N] [--golden FILE | --write FILE]

A network of the generator is a chain with side branches of embeddings, products, norms, activations, attention, recurrent
layers, sums, products and concatenations of earlier layers, with shared weights, lengths and weights of samples or
positions; it classifies samples or positions or fits numbers, by a random optimizer with clipping and micro-batches. All
losses, the gradients of the first step and the last weights must be those of PyTorch. Extreme networks have numbers of up to 1e30,
logits of such numbers, samples that do not vary, sequences of no positions and hyperparameters at the ends of their ranges.
(`make torch` compares; the test
torch_networks reads figures that --write has saved.)
"""
import os
import random
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from torch_compare import main, single, write_npy

ACTIVATIONS = ("gelu", "silu", "tanh", "sigmoid", "relu")


class Network:
    """Layers that are drawn one after the other. shapes: of each layer, (positions, width), or (width,) without positions."""

    def __init__(self, draw, vocabulary, positions, features, lengths):
        self.draw, self.vocabulary, self.positions, self.lengths = draw, vocabulary, positions, lengths
        self.layers, self.shapes = [], {}
        self.scale = draw.choice([1, 1, 1, 9])
        self.embedding, self.top = None, "x"
        if vocabulary:
            units = draw.randint(1, 10) * self.scale
            self.add("embedding", (positions, units), units=units)
            self.embedding = self.top
        else:
            self.shapes["x"] = (positions, features)

    def add(self, kind, shape, sources=None, **keys):
        name = f"n{len(self.layers) + 1}"
        self.layers.append({"type": kind, "name": name, "from": sources or [self.top], **keys})
        self.shapes[name], self.top = shape, name

    def maybe_shared(self, kind, source, **same):
        """share: an earlier layer of this kind whose parameters have the same shapes, as the keys of `same` decide them."""
        width = self.shapes[source][-1]
        owners = [layer["name"] for layer in self.layers if layer["type"] == kind and "share" not in layer
                  and self.shapes[layer["from"][0]][-1] == width and all(layer.get(key) == value for key, value in same.items())]
        return {"share": self.draw.choice(owners)} if owners and self.draw.random() < 0.4 else {}

    def maybe_lengths(self):
        return {"lengths": "lengths"} if self.lengths and self.draw.random() < 0.7 else {}

    def draw_layer(self):
        draw, shape = self.draw, self.shapes[self.top]
        kinds = ["linear", "linear", "activation", "layer_norm", "rms_norm", "add", "mul", "concat"]
        if len(shape) == 2:
            kinds += ["attention", "attention", "lstm", "gru", "positions"]
        getattr(self, "draw_" + draw.choice(kinds))(shape)

    def draw_linear(self, shape):
        if len(shape) == 2 and self.embedding and self.shapes[self.embedding][-1] == shape[-1] and self.draw.random() < 0.3:
            self.add("linear", (*shape[:-1], self.vocabulary), units=self.vocabulary, share=self.embedding)
            return
        keys = {"units": self.draw.randint(1, 12) * self.scale, "bias": self.draw.random() < 0.8}
        self.add("linear", (*shape[:-1], keys["units"]), **keys, **self.maybe_shared("linear", self.top, **keys))

    def draw_activation(self, shape):
        self.add(self.draw.choice(ACTIVATIONS), shape)

    def draw_layer_norm(self, shape):
        self.add("layer_norm", shape, **self.maybe_shared("layer_norm", self.top))

    def draw_rms_norm(self, shape):
        self.add("rms_norm", shape, **self.maybe_shared("rms_norm", self.top))

    def draw_positions(self, shape):
        owners = [o["name"] for o in self.layers if o["type"] == "positions" and "share" not in o and self.shapes[o["name"]] == shape]
        self.add("positions", shape, **({"share": self.draw.choice(owners)} if owners and self.draw.random() < 0.4 else {}))

    def draw_pair(self, kind, shape):
        both = [self.top, self.draw.choice([name for name, other in self.shapes.items() if other == shape])]
        self.draw.shuffle(both)
        self.add(kind, shape, both)

    def draw_add(self, shape):
        self.draw_pair("add", shape)

    def draw_mul(self, shape):
        self.draw_pair("mul", shape)

    def draw_concat(self, shape):
        axis = self.draw.randint(1, len(shape))  # axis 0 is the batch
        fits = [name for name, other in self.shapes.items() if len(other) == len(shape)
                and all(a == b for i, (a, b) in enumerate(zip(other, shape)) if i != axis - 1)]
        parts = [self.top] + [self.draw.choice(fits) for _ in range(self.draw.randint(1, 2))]
        self.draw.shuffle(parts)
        joined = list(shape)
        joined[axis - 1] = sum(self.shapes[name][axis - 1] for name in parts)
        self.add("concat", tuple(joined), parts, axis=axis)

    def draw_attention(self, shape):
        draw, width = self.draw, shape[1]
        heads = draw.choice([n for n in range(1, width + 1) if width % n == 0])
        keys = {"heads": heads, "key_heads": draw.choice([n for n in range(1, heads + 1) if heads % n == 0]), "bias": draw.random() < 0.8}
        shared = self.maybe_shared("attention", self.top, **keys)
        if width // heads % 2 == 0 and draw.random() < 0.6:
            keys["rotary"] = draw.choice([10, 10000, 500000])
        self.add("attention", shape, **keys, causal=draw.random() < 0.5, **self.maybe_lengths(), **shared)

    def draw_recurrent(self, kind, shape):
        draw = self.draw
        keys = {"units": draw.randint(1, 7) * self.scale, "layers": draw.choice([1, 1, 2, 3]), "bidirectional": draw.random() < 0.4}
        shared, width = self.maybe_shared(kind, self.top, **keys), keys["units"] * (2 if keys["bidirectional"] else 1)
        last = draw.random() < 0.2
        self.add(kind, (width,) if last else (shape[0], width), **keys, last=last, **self.maybe_lengths(), **shared)

    def draw_lstm(self, shape):
        self.draw_recurrent("lstm", shape)

    def draw_gru(self, shape):
        self.draw_recurrent("gru", shape)

    def finish(self, per_position):
        """The head, after a mean over the positions unless each of them has an output; lengths have at least one reader then."""
        shape = self.shapes[self.top]
        unread = self.lengths and not any("lengths" in layer for layer in self.layers)
        if len(shape) == 2 and not per_position:
            self.add("sequence_mean", shape[1:], **({"lengths": "lengths"} if unread else self.maybe_lengths()))
        self.lengths = any("lengths" in layer for layer in self.layers)
        self.add("linear", None, units="outputs")

    def yaml(self):
        def text(value):
            return str(value).lower() if isinstance(value, bool) else '"' + ", ".join(value) + '"' if isinstance(value, list) else str(value)
        return "layers:\n" + "".join("  - {" + ", ".join(f"{key}: {text(value)}" for key, value in layer.items()) + "}\n"
                                     for layer in self.layers)

    def forward(self, p, inputs):
        import torch
        from torch import nn
        from torch.nn import functional as F
        import torch_layers
        values = dict(inputs)
        for layer in self.layers:
            kind, owner, parts = layer["type"], layer.get("share", layer["name"]), [values[name] for name in layer["from"]]
            x, lengths = parts[0], inputs["lengths"] if "lengths" in layer else None
            if kind == "embedding":
                y = F.embedding(x, p[f"{owner}/weight"])
            elif kind == "linear":
                y = F.linear(x, p[f"{owner}/weight"]) if owner == self.embedding else torch_layers.linear(p, x, owner)
            elif kind in ("layer_norm", "rms_norm"):
                y = getattr(torch_layers, kind)(p, x, owner)
            elif kind == "positions":
                y = x + p[f"{owner}/weight"]
            elif kind in ("add", "mul"):
                y = x + parts[1] if kind == "add" else x * parts[1]
            elif kind == "concat":
                y = torch.cat(parts, layer["axis"])
            elif kind == "sequence_mean":
                y = torch_layers.sequence_mean(x, lengths)
            elif kind == "attention":
                y = torch_layers.attention(p, x, owner, layer["heads"], layer["key_heads"], layer["causal"], lengths, layer.get("rotary", 0))
            elif kind in ("lstm", "gru"):
                both = torch_layers.recurrent(p, nn.LSTM if kind == "lstm" else nn.GRU, x, owner, lengths, layer["layers"], layer["bidirectional"])
                y = both[1 if layer["last"] else 0]
                if lengths is not None and not layer["last"]:
                    y = y * torch_layers.valid(y, lengths)[..., None]
            else:
                y = getattr(torch, kind, None) or getattr(F, kind)
                y = y(x)
            values[layer["name"]] = y
        return y


def draw_optimizer(draw):
    """Words of weft, and PyTorch's optimizer."""
    kind, rate, decay = draw.choice(["sgd", "adam", "adamw"]), draw.choice([0.003, 0.01, 0.03]), draw.choice([0.0, 0.01, 0.3])
    if kind == "sgd":
        momentum = draw.choice([0.0, 0.5, 0.9])
        nesterov = momentum > 0 and draw.random() < 0.4
        words = ["--lr", str(10 * rate), "--momentum", str(momentum)] + (["--nesterov"] if nesterov else [])
        keys = {"lr": 10 * rate, "momentum": momentum, "nesterov": nesterov}
    else:  # with a large epsilon: a gradient that is zero but for rounding, as of the bias of keys, must not decide
        betas = draw.choice([(0.9, 0.999), (0.8, 0.95)])
        words = ["--lr", str(rate), "--epsilon", "1e-4", "--beta1", str(betas[0]), "--beta2", str(betas[1])]
        keys = {"lr": rate, "betas": betas, "eps": 1e-4}
    words += ["--weight-decay", str(decay)]

    def make(parameters):
        import torch
        return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, weight_decay=decay, **keys)
    return ["-o", kind, *words], make


def draw_extreme_optimizer(draw):
    """As draw_optimizer, with hyperparameters near the ends of their ranges. Epsilons are as small as gradients that are not zero but for
    rounding allow."""
    kind, decay = draw.choice(["sgd", "adam", "adamw"]), draw.choice([0.0, 1e-12, 3.0])
    if kind == "sgd":
        momentum = draw.choice([1e-9, 0.999999, 0.99999999])
        keys = {"lr": draw.choice([1e-12, 1e-3]), "momentum": momentum, "nesterov": draw.random() < 0.5}
        words = ["--momentum", str(momentum)] + (["--nesterov"] if keys["nesterov"] else [])
    else:
        betas = (draw.choice([0.0, 1e-9, 0.999999]), draw.choice([0.0, 0.9999999, 0.99999999, 0.999999999]))
        keys = {"lr": draw.choice([1e-12, 1e-6, 0.1]), "betas": betas, "eps": draw.choice([1e-4, 1e-3, 1.0])}
        words = ["--epsilon", str(keys["eps"]), "--beta1", str(betas[0]), "--beta2", str(betas[1])]
    words += ["--lr", str(keys["lr"]), "--weight-decay", str(decay)]

    def make(parameters):
        import torch
        return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, weight_decay=decay, **keys)
    return ["-o", kind, *words], make


class Case:
    model, steps = "net.yaml", 5

    def __init__(self, seed, extreme=False):
        draw = random.Random(seed)
        self.name, self.samples = f"{'extreme' if extreme else 'network'}-{seed}", draw.randint(2, 11)
        count, positions = self.samples, draw.choice([1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 33, 67])
        vocabulary, features = draw.choice([0, draw.randint(2, 9)]), draw.choice([1, 2, 3, 5, 8])
        self.arrays, lengths = {}, draw.random() < 0.6

        def numbers(shape, low, high):
            size = 1
            for n in shape:
                size *= n
            return shape, "f4", [single(draw.uniform(low, high)) for _ in range(size)]

        def integers(shape, most, kind):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            return shape, kind, [draw.randrange(most) for _ in range(size - 1)] + [most - 1]
        self.arrays["x"] = (integers((count, positions), vocabulary, draw.choice(["i8", "i4", "i2"])) if vocabulary
                            else numbers((count, positions, features), -1, 1))
        net = self.net = Network(draw, vocabulary, positions, features, lengths)
        for _ in range(draw.randint(1, 8)):
            net.draw_layer()
        shape = net.shapes[net.top]
        per_position = len(shape) == 2 and shape[0] == positions and positions > 1 and draw.random() < 0.5
        net.finish(per_position)
        if net.lengths:
            size, kind, values = integers((count,), positions, "i8")
            self.arrays["lengths"] = (size, kind, [value + 1 for value in values])
        labels, classes = ((count, positions) if per_position else (count,)), draw.randint(2, 5)
        self.fits = not per_position and draw.random() < 0.3
        self.arrays["target" if self.fits else "label"] = numbers((count, classes), -2, 2) if self.fits else integers(labels, classes, "i8")
        if draw.random() < 0.4:
            self.arrays["weight"] = numbers(labels, 0, 2)
        self.smoothing = draw.choice([0.0, 0.0, 0.1]) if not self.fits else 0.0
        self.clip = draw.choice([0.0, 0.0, 0.05, 1.0])
        micro = draw.choice([n for n in (1, 1, 2, 3) if count % n == 0])
        self.optimizer, self.make_optimizer = draw_optimizer(draw)
        if extreme:
            self.make_extreme(draw)
        self.optimizer += ["--clip-norm", str(self.clip)] if self.clip else []
        self.options = ["--microbatches", str(micro), "--label-smoothing", str(self.smoothing)]
        for name, (size, kind, values) in self.arrays.items():
            write_npy(f"{name}.npy", kind, size, values)
        self.data = "npy:" + ",".join(f"{name}={name}.npy" for name in self.arrays) + ",test=0"
        with open(self.model, "w") as out:
            out.write(net.yaml())

    def make_extreme(self, draw):
        """Makes one or two things of the case extreme. With huge numbers one step is compared: the next one would multiply them."""
        self.optimizer, self.make_optimizer = draw_extreme_optimizer(draw)
        self.slack = 10  # a moment that hardly decays keeps what rounding has left in it
        self.clip = draw.choice([0.0, 1e-20, 1e20])
        size, kind, values = self.arrays["x"]
        what = draw.choice(["huge", "tiny", "flat", "zero", "hyperparameters"]) if kind == "f4" else "hyperparameters"
        if what == "huge":
            factor, self.steps = draw.choice([1e4, 1e12, 1e30]), 1
            self.arrays["x"] = size, kind, [single(factor * value) for value in values]
        elif what == "tiny":
            self.arrays["x"] = size, kind, [single(1e-30 * value) for value in values]
        elif what in ("flat", "zero"):
            self.arrays["x"] = size, kind, [single(0.7) if what == "flat" else 0.0] * len(values)
        if "lengths" in self.arrays:
            size, kind, values = self.arrays["lengths"]
            self.arrays["lengths"] = size, kind, [0 if draw.random() < 0.4 else value for value in values[:-1]] + values[-1:]
        if "weight" in self.arrays and draw.random() < 0.5:
            size, kind, values = self.arrays["weight"]
            self.arrays["weight"] = size, kind, [0.0 if draw.random() < 0.5 else value for value in values[:-1]] + [1.0]

    def of_torch(self, start):
        import torch
        import torch_layers
        given = {name: torch.tensor(values, dtype=torch.float64 if kind[0] == "f" else torch.int64).view(size)
                 for name, (size, kind, values) in self.arrays.items()}
        if self.net.lengths and not self.net.vocabulary:  # numbers behind a length are read as zeros
            given["x"] = given["x"] * torch_layers.valid(given["x"], given["lengths"])[..., None]
        return torch_layers.train(start, lambda p: self.net.forward(p, given), given["target" if self.fits else "label"],
                                  given.get("weight"), self.smoothing, self.steps, self.make_optimizer, self.clip)


def more_options(parser):
    parser.add_argument("--seed", type=int, default=1, help="of the first network")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--extreme", type=int, default=0, help="networks of extreme numbers, from the same seed on")


def cases(given):
    for extreme, count in ((False, given.count), (True, given.extreme)):
        yield from (Case(seed, extreme) for seed in range(given.seed, given.seed + count))


main(cases,
     [("reference", "f64", 1e-10), ("cpu", "f64", 1e-10), ("cpu", "f32", 1e-3)], more_options)
