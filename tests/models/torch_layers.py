"""Layers of weft, computed by PyTorch in float64 from the parameters of a checkpoint (`p`: name to tensor)."""
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def linear(p, x, layer):
    return F.linear(x, p[f"{layer}/weight"].t(), p.get(f"{layer}/bias"))


def layer_norm(p, x, layer):
    gamma = p[f"{layer}/gamma"]
    return F.layer_norm(x, gamma.shape, gamma, p[f"{layer}/beta"])


def rms_norm(p, x, layer):
    gamma = p[f"{layer}/gamma"]
    return F.rms_norm(x, gamma.shape, gamma, eps=1e-5)


def recurrent(p, kind, x, layer, lengths=None, layers=1, bidirectional=False):
    """Outputs of all positions and the last state of an nn.LSTM or nn.GRU; an LSTM of weft has one bias. A sequence of no positions has
    zeros of both, which PyTorch refuses to pack."""
    net = kind(x.shape[2], p[f"{layer}/recurrent"].shape[0], num_layers=layers, bidirectional=bidirectional, batch_first=True)
    named = {}
    for number in range(layers):
        for end in ("", "_reverse") if bidirectional else ("",):
            suffix, part = (f"_l{number}" if number else "") + end, f"l{number}{end}"
            named[f"weight_ih_{part}"] = p[f"{layer}/weight{suffix}"].t()
            named[f"weight_hh_{part}"] = p[f"{layer}/recurrent{suffix}"].t()
            named[f"bias_ih_{part}"] = bias = p[f"{layer}/bias{suffix}"]
            named[f"bias_hh_{part}"] = p[f"{layer}/recurrent_bias{suffix}"] if kind is nn.GRU else torch.zeros_like(bias)
    positions = x.shape[1]
    if lengths is not None:
        x = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
    y, last = functional_call(net, named, (x,))
    if lengths is not None:
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=positions)
    state = last[0] if kind is nn.LSTM else last
    if lengths is not None:
        y, state = y * (lengths > 0)[:, None, None], state * (lengths > 0)[None, :, None]
    return y, torch.cat((state[-2], state[-1]), 1) if bidirectional else state[-1]


def rotate(x, base):
    half = x.shape[3] // 2
    angle = torch.arange(x.shape[1])[:, None] * base ** (-torch.arange(half) / half)
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), 3)


def valid(x, lengths):
    """Whether a position lies within its sequence: samples by positions."""
    return torch.arange(x.shape[1]) < lengths[:, None]


def attention(p, x, layer, heads, key_heads, causal=False, lengths=None, rotary=0):
    b, t, width = x.shape
    q = linear(p, x, f"{layer}/query").view(b, t, heads, -1)
    k, v = (linear(p, x, f"{layer}/{part}").view(b, t, key_heads, -1) for part in ("key", "value"))
    if rotary:
        q, k = rotate(q, rotary), rotate(k, rotary)
    mask = torch.ones(t, t, dtype=torch.bool).tril() if causal else torch.ones(t, t, dtype=torch.bool)
    if lengths is not None:
        mask = mask & valid(x, lengths)[:, None, None, :]
    if lengths is not None:  # a sequence of no positions attends to none: zeros
        mask, none = mask | (lengths == 0)[:, None, None, None], (lengths == 0)[:, None, None]
    y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), attn_mask=mask, enable_gqa=heads != key_heads)
    y = y.transpose(1, 2).reshape(b, t, width)
    return linear(p, y if lengths is None else y.masked_fill(none, 0), f"{layer}/output")


def sequence_mean(x, lengths=None):
    if lengths is None:
        return x.mean(1)
    return (x * valid(x, lengths)[..., None]).sum(1) / lengths.clamp(min=1)[:, None]


def train(start, forward, target, weights, smoothing, steps, make_optimizer, clip=0, ignore=-100):
    """The losses of the steps, the gradients of the first one and the weights after the last one. start: name to (shape, values);
    forward: from the parameters to the outputs; target: classes (integers), of which `ignore` counts nowhere, or numbers."""
    p = {key: torch.tensor(values).view(shape).requires_grad_() for key, (shape, values) in start.items()}
    optimizer, losses, gradients = make_optimizer(p.values()), [], {}
    for step in range(steps):
        optimizer.zero_grad(set_to_none=False)
        y = forward(p)
        if target.dtype == torch.int64:
            how = {"ignore_index": ignore, "label_smoothing": smoothing, "reduction": "mean" if weights is None else "none"}
            each = F.cross_entropy(y.reshape(-1, y.shape[-1]), target.reshape(-1), **how)
        else:
            each = ((y - target) ** 2).mean(1)
        loss = each.mean() if weights is None else (each * weights.reshape(-1)).sum() / weights.sum()
        losses.append(loss.item())
        loss.backward()
        for value in p.values():  # a parameter that no layer reads
            value.grad = torch.zeros_like(value) if value.grad is None else value.grad
        if step == 0:
            gradients = {key: value.grad.reshape(-1).tolist() for key, value in p.items()}
        if clip:
            norm = sum((value.grad ** 2).sum().item() for value in p.values()) ** 0.5
            for value in p.values():
                value.grad *= min(1, clip / norm) if norm else 1
        optimizer.step()
    return {"losses": losses, "gradients": gradients, "weights": {key: value.detach().reshape(-1).tolist() for key, value in p.items()}}
