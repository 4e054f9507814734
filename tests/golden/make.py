"""Golden values from an independent implementation: PyTorch in float64.

    /usr/bin/python3 tests/golden/make.py tests/golden

writes lenet.txt (initial loss and gradients, ten steps of SGD), optimizers.txt, windows.txt
(convolutions and pools over 1, 2 and 3 dimensions, with their gradients) sequence.txt (operators
of sequence models, with their gradients), recurrences.txt (LSTM and GRU, also over packed
sequences, with their gradients) and attention.txt. All numbers that go in come from one integer hash, which the tests compute too.
"""
import sys

import numpy
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def numbers(stream, count, scale):
    i = numpy.arange(count, dtype=numpy.uint64)
    m = numpy.uint64(0xFFFFFFFF)
    x = (i * numpy.uint64(2654435761) + numpy.uint64(stream) * numpy.uint64(40503)) & m
    x ^= x >> numpy.uint64(16)
    x = x * numpy.uint64(2246822519) & m
    x ^= x >> numpy.uint64(13)
    x = x * numpy.uint64(3266489917) & m
    x ^= x >> numpy.uint64(16)
    return torch.tensor((x.astype(numpy.float64) / 4294967296.0 - 0.5) * 2 * scale)


def lenet(folder):
    batch = 6
    model = nn.Sequential(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    layers = {"conv1": model[0], "conv2": model[2], "fc1": model[5], "fc2": model[7]}
    names, parameters = [], []
    for layer in layers:
        for kind in ("weight", "bias"):
            p = getattr(layers[layer], kind)
            names.append(f"{layer}/{kind}")
            parameters.append(p)
            fan_in = layers[layer].weight[0].numel()
            values = numbers(len(names), p.numel(), 1 / fan_in ** 0.5)
            with torch.no_grad():  # dense weights are [inputs, outputs] in weft
                p.copy_(values.view(p.shape[1], p.shape[0]).t() if p.dim() == 2 else values.view(p.shape))
    x = numbers(100, batch * 784, 0.5).view(batch, 1, 28, 28) + 0.5
    y = torch.tensor([(7 * i + 3) % 10 for i in range(batch)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with open(f"{folder}/lenet.txt", "w") as out:
        for step in range(10):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            print(f"loss {step} {loss.item():.15e}", file=out)
            if step == 0:
                for name, p in zip(names, parameters):
                    g = p.grad.t().reshape(-1) if p.dim() == 2 else p.grad.reshape(-1)
                    picks = " ".join(f"{g[(k * 7919) % g.numel()].item():.15e}" for k in range(8))
                    print(f"gradient {name} {g.norm().item():.15e} {picks}", file=out)
            optimizer.step()
        for name, p in zip(names, parameters):
            w = p.detach().t().reshape(-1) if p.dim() == 2 else p.detach().reshape(-1)
            picks = " ".join(f"{w[(k * 7919) % w.numel()].item():.15e}" for k in range(8))
            print(f"parameter {name} {w.norm().item():.15e} {picks}", file=out)


def optimizers(folder):
    cases = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        "decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=0.01),
        "adam": lambda p: torch.optim.Adam(p, lr=0.1),
        "adam_decay": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
        "clip": lambda p: torch.optim.SGD(p, lr=0.1),
    }
    with open(f"{folder}/optimizers.txt", "w") as out:
        for name, make in cases.items():
            w = nn.Parameter(numbers(1, 7, 1.0))
            optimizer = make([w])
            for step in range(5):
                w.grad = numbers(10 + step, 7, 1.0)
                if name == "clip":
                    nn.utils.clip_grad_norm_([w], 0.7)
                optimizer.step()
            print(name, " ".join(f"{v:.15e}" for v in w.detach()), file=out)


def picks(t):
    t = t.reshape(-1)
    return f"{t.norm().item():.15e} " + " ".join(f"{t[(k * 7919) % t.numel()].item():.15e}" for k in range(8))


def put(out, name, y, leaves):
    """Lines "case operand norm picks...": y, and the gradients of sum(y * c) by the leaves."""
    (y * numbers(3, y.numel(), 1).view(y.shape)).sum().backward()
    print(name, "y", picks(y.detach()), file=out)
    for what, leaf in leaves.items():
        print(name, what, picks(leaf.grad), file=out)


def leaf(stream, shape):
    count = int(numpy.prod(shape))
    return numbers(stream, count, 1).view(shape).clone().requires_grad_()


def windows(folder):
    f = nn.functional
    convolutions = {  # as in test_conv_pool.c: x, w, stride, padding, dilation, groups
        "line": ((2, 3, 11), (4, 3, 4), 2, 1, 1, 1),
        "line_groups": ((3, 6, 13), (4, 3, 3), 1, 2, 2, 2),
        "image": ((2, 3, 8, 7), (5, 3, 3, 2), (2, 1), (1, 0), (1, 2), 1),
        "volume": ((2, 3, 5, 6, 7), (4, 3, 3, 2, 3), (2, 1, 3), (1, 1, 0), 1, 1),
        "volume_groups": ((1, 4, 7, 5, 6), (6, 2, 2, 3, 2), 1, (0, 2, 1), (2, 1, 3), 2),
    }
    pools = {  # x, kernel, stride, padding
        "line": ((2, 3, 11), 3, 2, 1),
        "image": ((2, 3, 9, 8), (3, 2), (1, 2), (1, 0)),
        "volume": ((2, 2, 7, 6, 8), (3, 2, 3), (2, 2, 1), (1, 0, 1)),
    }

    with open(f"{folder}/windows.txt", "w") as out:
        for name, (xs, ws, stride, padding, dilation, groups) in convolutions.items():
            x, w = leaf(1, xs), leaf(2, ws)
            conv = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[len(xs)]
            put(out, f"conv/{name}", conv(x, w, None, stride, padding, dilation, groups), {"x": x, "w": w})
        for name, (xs, kernel, stride, padding) in pools.items():
            for op, kinds in (("maxpool", (f.max_pool1d, f.max_pool2d, f.max_pool3d)),
                              ("avgpool", (f.avg_pool1d, f.avg_pool2d, f.avg_pool3d))):
                x = leaf(1, xs)
                more = {"count_include_pad": False} if op == "avgpool" else {}
                put(out, f"{op}/{name}", kinds[len(xs) - 3](x, kernel, stride, padding, **more), {"x": x})


def sequence(folder):
    """The cases of op_cases_sequence.c: input i has stream i + 1, so has the loss's weight of the result."""
    f = nn.functional

    def ints(limit, *shape):
        count = int(numpy.prod(shape))
        return torch.tensor([(i * 7 + 3) % limit for i in range(count)]).view(shape)

    def rms_norm(epsilon):
        return lambda x, gamma: x / ((x * x).mean(-1, keepdim=True) + epsilon).sqrt() * gamma

    def rotary(first=0, base=10000.0, interleaved=False, sign=1):
        def turn(x, *_):  # a pair is a complex number
            t, pairs = x.shape[1], x.shape[3] // 2
            rates = base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
            angles = sign * torch.outer(torch.arange(first, first + t, dtype=torch.float64), rates)
            turns = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
            if interleaved:
                y = torch.view_as_complex(x.reshape(*x.shape[:-1], pairs, 2)) * turns
                return torch.view_as_real(y).reshape(x.shape)
            y = torch.complex(x[..., :pairs], x[..., pairs:]) * turns
            return torch.cat((y.real, y.imag), -1)
        return turn

    def smoothed(x, labels, weights):
        losses = f.cross_entropy(x.reshape(-1, x.shape[-1]), labels.reshape(-1), reduction="none", label_smoothing=0.1)
        return (losses * weights.reshape(-1)).sum()

    gate = [(3, 20), (20, 18), (20, 18)]
    cases = {  # shapes or integers of the inputs, function
        "silu_case": ([(3, 5, 2)], f.silu),
        "rms_norm": ([(2, 3, 7), (7,)], rms_norm(0.01)),
        "rms_norm_rows": ([(5, 83), (83,)], rms_norm(1e-5)),
        "rms_norm_deep": ([(2, 3, 2, 16), (16,)], rms_norm(1e-5)),
        "swiglu": (gate, lambda x, v, w: f.silu(x @ v) * (x @ w)),
        "geglu": (gate, lambda x, v, w: f.gelu(x @ v) * (x @ w)),
        "rotary": ([(2, 5, 3, 6)], rotary()),
        "rotary_interleaved": ([(1, 3, 2, 70)], rotary(7, 100.0, True)),
        "rotary_inverse": ([(2, 3, 1, 2)], rotary(sign=-1)),
        "rotary_added": ([(2, 3, 1, 38), ints(5, 1)], rotary(5)),
        "bias_table": ([(2, 3, 5), (3, 5)], lambda x, b: x + b),
        "bias_middle": ([(2, 3, 4, 5), (3, 4)], lambda x, b: x + b[None, :, :, None]),
        "embedding_long": ([ints(11, 13), (17, 37)], f.embedding),
        "softmax_xent_smooth": ([(5, 4), ints(4, 5), (5,)], smoothed),
        "broadcast_sub": ([(4, 1, 3), (5, 1)], lambda x, y: x - y),
        "broadcast_mul": ([(2, 3, 5, 7), (3, 1, 7)], lambda x, y: x * y),
        "largest": ([(3, 5, 4)], lambda x: x.amax(1)),
        "gather": ([ints(5, 2, 3), (4, 5, 3)], lambda i, x: x[:, i]),
        "softmax_xent_smooth_tokens": ([(2, 3, 5), ints(5, 2, 3), (2, 3)], smoothed),
    }

    def picks(t):
        t = t.reshape(-1)
        return f"{t.norm().item():.15e} " + " ".join(f"{t[(k * 7919) % t.numel()].item():.15e}" for k in range(8))

    with open(f"{folder}/sequence.txt", "w") as out:
        for name, (inputs, function) in cases.items():
            leaves = [i if torch.is_tensor(i) else
                      numbers(n + 1, int(numpy.prod(i)), 1).view(i).clone().requires_grad_()
                      for n, i in enumerate(inputs)]
            y = function(*leaves)
            (y * numbers(len(leaves) + 1, y.numel(), 1).view(y.shape)).sum().backward()
            print(name, "y", picks(y.detach()), file=out)
            for n, leaf in enumerate(leaves):
                if leaf.is_floating_point() and not (function is smoothed and n == 2):
                    print(name, n, picks(leaf.grad), file=out)


def recurrences(folder):
    """Lines "case operand norm picks...": y, the last states, and the gradients of their sum, weighed."""
    batch, positions, units = 5, 7, 6
    lengths = torch.tensor([7, 3, 1, 7, 5])
    with open(f"{folder}/recurrences.txt", "w") as out:
        for kind, module, gates in (("lstm", nn.LSTM, 4), ("gru", nn.GRU, 3)):
            for states in (False, True):
                for packed in (False, True):
                    for reverse in (False, True):
                        name = kind + "_states" * states + "_lengths" * packed + "_reverse" * reverse
                        # The operator gets projected inputs, so the projection here is the identity.
                        net = module(gates * units, units, batch_first=True, bidirectional=True)
                        way = "_reverse" if reverse else ""
                        for key, p in net.named_parameters():
                            p.data.zero_()
                            if "weight_ih" in key:
                                p.data.copy_(torch.eye(gates * units))
                        g, w, bias = leaf(1, (batch, positions, gates * units)), leaf(2, (units, gates * units)), leaf(6, (gates * units,))
                        h0, c0 = leaf(7, (batch, units)), leaf(8, (batch, units))
                        values = {f"weight_hh_l0{way}": w.t()}
                        if kind == "gru":
                            values[f"bias_hh_l0{way}"] = bias
                        both = [torch.stack([h0, h0]), torch.stack([c0, c0])] if states else None
                        if both and kind == "gru":
                            both = both[:1]
                        x = g
                        if packed:
                            x = nn.utils.rnn.pack_padded_sequence(g, lengths, batch_first=True, enforce_sorted=False)
                        first = None if not both else tuple(both) if kind == "lstm" else both[0]
                        y, last = torch.func.functional_call(net, values, (x, first) if first is not None else (x,))
                        if packed:
                            y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=positions)
                        side = int(reverse)
                        results = {"y": y[..., side * units:(side + 1) * units]}
                        for key, state in zip("hc", last if kind == "lstm" else (last,)):
                            results[key] = state[side]
                        sum((v * numbers(3 + i, v.numel(), 1).view(v.shape)).sum()
                            for i, v in enumerate(results.values())).backward()
                        for key, v in results.items():
                            print(name, key, picks(v.detach()), file=out)
                        leaves = {"dg": g, "dw": w}
                        if kind == "gru":
                            leaves["dbias"] = bias
                        if states:
                            leaves["dh0"] = h0
                        if states and kind == "lstm":
                            leaves["dc0"] = c0
                        for key, v in leaves.items():
                            print(name, key, picks(v.grad), file=out)


def attention(folder):
    cases = {  # as in test_attention.c: b, t, s, h, g, d, e; causal, scale, position of query 0, lengths
        "plain": ((2, 5, 7, 3, 3, 4, 6), False, None, 0, None),
        "causal": ((2, 7, 7, 4, 2, 5, 3), True, None, 0, None),
        "cache": ((1, 3, 9, 6, 2, 4, 4), True, None, 6, None),
        "first": ((2, 4, 8, 2, 1, 3, 5), True, 0.3, 1, None),
        "lengths": ((3, 4, 6, 2, 2, 3, 5), False, None, 0, (6, 1, 4)),
        "tiles": ((1, 130, 200, 2, 1, 20, 33), True, None, 70, (150,)),
    }
    with open(f"{folder}/attention.txt", "w") as out:
        for name, ((b, t, s, h, g, d, e), causal, scale, first, lengths) in cases.items():
            q, k, v = leaf(1, (b, t, h, d)), leaf(2, (b, s, g, d)), leaf(4, (b, s, g, e))
            keys = torch.arange(s)
            seen = torch.ones(b, 1, t, s, dtype=torch.bool)
            if causal:
                seen &= keys <= first + torch.arange(t)[:, None]
            if lengths:
                seen &= keys < torch.tensor(lengths)[:, None, None, None]
            heads = [q.transpose(1, 2)] + [x.transpose(1, 2).repeat_interleave(h // g, 1) for x in (k, v)]
            y = nn.functional.scaled_dot_product_attention(*heads, attn_mask=seen, scale=scale).transpose(1, 2)
            scores = heads[0] @ heads[1].transpose(2, 3) * (scale or d**-0.5)
            lse = scores.masked_fill(~seen, -torch.inf).logsumexp(3)
            print(name, "lse", picks(lse.detach()), file=out)
            put(out, name, y, {"q": q, "k": k, "v": v})


lenet(sys.argv[1])
optimizers(sys.argv[1])
windows(sys.argv[1])
sequence(sys.argv[1])


recurrences(sys.argv[1])
attention(sys.argv[1])
