"""Ten steps of every optimizer that is built of small operators, in double precision: by PyTorch where it has the
optimizer, else by the formulas of the papers. Three tensors get gradients that do not depend on them.

    optimizer_rules.py > optimizer_rules.txt

The file: a line with the numbers of the tensors at the start, ten lines of gradients, and for each case its specification,
learning rate, weight decay and the numbers at the end.
"""
import math

import torch

torch.set_default_dtype(torch.float64)
SHAPES, STEPS = ((4, 6), (7,), (5, 3)), 10
draw = torch.Generator().manual_seed(5)
start = [torch.randn(s, generator=draw) for s in SHAPES]
gradients = [[torch.randn(s, generator=draw) * 10 ** torch.empty(()).uniform_(-2, 1, generator=draw) for s in SHAPES] for _ in range(STEPS)]
gradients[3][1].zero_()
start[1][2] = 0


class Lion:
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, p, lr, decay, beta1=0.9, beta2=0.99):
        self.p, self.lr, self.decay, self.beta1, self.beta2 = p, lr, decay, beta1, beta2
        self.m = [torch.zeros_like(x) for x in p]

    def step(self):
        for i, x in enumerate(self.p):
            c = self.beta1 * self.m[i] + (1 - self.beta1) * x.grad
            x.data = x.data - self.lr * (torch.sign(c) + self.decay * x.data)
            self.m[i] = self.beta2 * self.m[i] + (1 - self.beta2) * x.grad


class Lars:
    """You, Gitman and Ginsburg 2017, algorithm 1."""

    def __init__(self, p, lr, decay, momentum=0.9, trust=0.001):
        self.p, self.lr, self.decay, self.momentum, self.trust = p, lr, decay, momentum, trust
        self.m = [torch.zeros_like(x) for x in p]

    def step(self):
        for i, x in enumerate(self.p):
            w, g = x.data.norm(), x.grad.norm()
            local = self.trust * w / (g + self.decay * w) if w > 0 and g > 0 else 1
            self.m[i] = self.momentum * self.m[i] + self.lr * local * (x.grad + self.decay * x.data)
            x.data = x.data - self.m[i]


class Lamb:
    """You et al. 2020, algorithm 2, with the identity as phi."""

    def __init__(self, p, lr, decay, beta1=0.9, beta2=0.999, epsilon=1e-6):
        self.p, self.lr, self.decay, self.beta1, self.beta2, self.epsilon, self.t = p, lr, decay, beta1, beta2, epsilon, 0
        self.m, self.v = [torch.zeros_like(x) for x in p], [torch.zeros_like(x) for x in p]

    def step(self):
        self.t += 1
        for i, x in enumerate(self.p):
            self.m[i] = self.beta1 * self.m[i] + (1 - self.beta1) * x.grad
            self.v[i] = self.beta2 * self.v[i] + (1 - self.beta2) * x.grad ** 2
            u = (self.m[i] / (1 - self.beta1 ** self.t)) / (torch.sqrt(self.v[i] / (1 - self.beta2 ** self.t)) + self.epsilon)
            u = u + self.decay * x.data
            w, n = x.data.norm(), u.norm()
            x.data = x.data - self.lr * (w / n if w > 0 and n > 0 else 1) * u


class Muon:
    """Jordan et al. 2024, as torch.optim.Muon, whose iteration is in bfloat16; AdamW for vectors."""

    def __init__(self, p, lr, decay, momentum=0.95, nesterov=1, steps=5, beta1=0.9, beta2=0.95, epsilon=1e-8):
        self.p, self.lr, self.decay, self.momentum, self.nesterov, self.steps = p, lr, decay, momentum, nesterov, steps
        self.m = [torch.zeros_like(x) for x in p]
        self.adam = torch.optim.AdamW([x for x in p if x.dim() < 2], lr=lr, weight_decay=decay, betas=(beta1, beta2), eps=epsilon)

    def orthogonal(self, g):
        x = g.T if g.size(0) > g.size(1) else g
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(int(self.steps)):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x.T if g.size(0) > g.size(1) else x

    def step(self):
        self.adam.step()
        for i, x in enumerate(self.p):
            if x.dim() < 2:
                continue
            self.m[i].lerp_(x.grad, 1 - self.momentum)
            g = x.grad.lerp(self.m[i], self.momentum) if self.nesterov else self.m[i]
            size = max(1, x.size(1) / x.size(0)) ** 0.5  # outputs / inputs; a weight is [in, out]
            x.data = x.data * (1 - self.lr * self.decay) - self.lr * size * self.orthogonal(g)


def torch_kind(kind, **fixed):
    return lambda p, lr, decay, **keys: kind(p, lr=lr, weight_decay=decay, **fixed, **keys)


def betas(kind):
    def make(p, lr, decay, beta1=0.9, beta2=0.999, epsilon=1e-8, **keys):
        return kind(p, lr=lr, weight_decay=decay, betas=(beta1, beta2), eps=epsilon, **keys)
    return make


KINDS = {
    "rmsprop": lambda p, lr, decay, alpha=0.99, epsilon=1e-8, momentum=0, centered=0:
        torch.optim.RMSprop(p, lr=lr, weight_decay=decay, alpha=alpha, eps=epsilon, momentum=momentum, centered=bool(centered)),
    "adagrad": lambda p, lr, decay, epsilon=1e-10: torch.optim.Adagrad(p, lr=lr, weight_decay=decay, eps=epsilon),
    "adadelta": lambda p, lr, decay, rho=0.9, epsilon=1e-6: torch.optim.Adadelta(p, lr=lr, weight_decay=decay, rho=rho, eps=epsilon),
    "adafactor": lambda p, lr, decay, decay_=0.8, epsilon=1e-7, least=1e-3, clip=1:
        torch.optim.Adafactor(p, lr=lr, weight_decay=decay, beta2_decay=-decay_, eps=(epsilon, least), d=clip),
    "muon": Muon,
    "nadam": betas(torch.optim.NAdam), "lion": Lion, "lars": Lars, "lamb": Lamb}
CASES = [("rmsprop", 0.01, 0), ("rmsprop:alpha=0.5,epsilon=0.01,momentum=0.9,centered=1", 0.02, 0.1), ("rmsprop:momentum=0.5", 0.003, 0.01),
         ("adagrad", 0.1, 0), ("adagrad:epsilon=0.001", 0.05, 0.2), ("adadelta", 1, 0), ("adadelta:rho=0.5,epsilon=0.001", 0.3, 0.1),
         ("nadam", 0.01, 0), ("nadam:beta1=0.5,beta2=0.9,epsilon=0.01,momentum_decay=0.1", 0.05, 0.1),
         ("lion", 0.01, 0), ("lion:beta1=0.5,beta2=0.7", 0.02, 0.3), ("lars", 0.5, 0), ("lars:momentum=0.5,trust=0.1", 0.1, 0.05),
         ("adafactor", 0.01, 0), ("adafactor:decay=0.5,epsilon=0.001,least=0.1,clip=1.25", 2, 0.02),
         ("muon", 0.02, 0), ("muon:momentum=0.5,nesterov=0,steps=3,beta1=0.5,beta2=0.9,epsilon=0.01", 0.1, 0.1),
         ("lamb", 0.02, 0), ("lamb:beta1=0.5,beta2=0.9,epsilon=0.01", 0.1, 0.1)]


def line(tensors):
    return " ".join(repr(float(x)) for t in tensors for x in t.flatten())


print(line(start))
for g in gradients:
    print(line(g))
for spec, lr, decay in CASES:
    name, _, keys = spec.partition(":")
    keys = {k + "_" * (k == "decay"): float(v) for k, v in (pair.split("=") for pair in keys.split(",") if pair)}
    p = [torch.nn.Parameter(x.clone()) for x in start]
    optimizer = KINDS[name](p, lr, decay, **keys)
    for g in gradients:
        for x, dx in zip(p, g):
            x.grad = dx.clone()
        optimizer.step()
    assert all(math.isfinite(float(x.sum())) for x in p)
    print(spec, lr, decay)
    print(line([x.data for x in p]))
