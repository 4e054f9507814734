"""The same models, batch, optimizer and threads in PyTorch: torch_peer.py MODEL BATCH STEPS"""
import statistics
import sys
import time

import torch
from torch import nn


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28)


def vgg11():
    layers, channels = [], 1
    for filters, pooled in zip((64, 128, 256, 256, 512, 512, 512, 512), (1, 1, 0, 1, 0, 1, 0, 1)):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if pooled else []
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(512, 10)), (1, 32, 32)


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(1)
    model, shape = {"lenet": lenet, "vgg11": vgg11}[name]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss_of = nn.CrossEntropyLoss()
    x, y = torch.rand(batch, *shape), torch.randint(0, 10, (batch,))
    times = []
    for step in range(steps + 3):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - start)
    print(f"RESULT {name} {batch / statistics.median(times):.1f}")


main()
