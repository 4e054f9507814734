"""The same models, batch, optimizer and threads in PyTorch: torch_peer.py MODEL BATCH STEPS [DEVICE [tf32]]

On a GPU the model is compiled with CUDA graphs, images have their channels last, and Adam is one fused kernel; products and
convolutions are in float32, or with the word tf32 in TF32."""
import statistics
import sys
import time

import torch
from torch import nn


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                         nn.Linear(128, 10)), (1, 28, 28)


def vgg11():
    layers, channels = [], 1
    for filters, pooled in zip((64, 128, 256, 256, 512, 512, 512, 512), (1, 1, 0, 1, 0, 1, 0, 1)):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if pooled else []
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(512, 10)), (1, 32, 32)


def conv(channels, filters, kernel):
    return nn.Sequential(nn.Conv2d(channels, filters, kernel, padding=kernel // 2), nn.ReLU())


class Mix(nn.Module):
    """A module of inception: four branches, joined along the channels."""

    def __init__(self, channels, f):
        super().__init__()
        self.branches = nn.ModuleList([
            conv(channels, f[0], 1), nn.Sequential(conv(channels, f[1], 1), conv(f[1], f[2], 3)),
            nn.Sequential(conv(channels, f[3], 1), conv(f[3], f[4], 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(channels, f[5], 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception():
    return nn.Sequential(conv(1, 32, 3), nn.MaxPool2d(2), Mix(32, (16, 24, 32, 8, 16, 16)), Mix(80, (32, 32, 48, 8, 24, 16)),
                         nn.MaxPool2d(2), Mix(120, (48, 48, 64, 16, 32, 32)), Mix(176, (64, 48, 96, 16, 32, 32)),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(224, 10)), (1, 28, 28)


TOKENS, CONTEXT, WIDTH, HEADS = 65, 256, 384, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (z.unflatten(2, (HEADS, -1)).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(WIDTH, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Parameter(torch.zeros(CONTEXT, WIDTH))

    def forward(self, x):
        return self.tokens(x) + self.positions


def gpt():
    return nn.Sequential(Embedding(), *(Block() for _ in range(6)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False),
                         nn.Flatten(0, 1)), (CONTEXT,)


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = torch.device(*sys.argv[4:5] or ["cpu"])
    gpu = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = sys.argv[5:6] == ["tf32"]
    torch.manual_seed(1)
    model, shape = {"lenet": lenet, "mlp": mlp, "vgg11": vgg11, "inception": inception, "gpt": gpt}[name]()
    if name == "gpt":
        x, y = torch.randint(0, TOKENS, (batch, *shape)), torch.randint(0, TOKENS, (batch * CONTEXT,))
    else:
        x, y = torch.rand(batch, *shape), torch.randint(0, 10, (batch,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    if gpu and x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=gpu or None)
    loss_of = nn.CrossEntropyLoss()
    run = torch.compile(model, mode="reduce-overhead") if gpu else model
    times, warm = [], 10 if gpu else 3
    for step in range(steps + warm):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(run(x), y).backward()
        optimizer.step()
        if gpu:
            torch.cuda.synchronize(device)
        if step >= warm:
            times.append(time.perf_counter() - start)
    print(f"RESULT {name} {batch / statistics.median(times):.1f}")


main()
