#!/usr/bin/env python3
"""lenet under PyTorch's DistributedDataParallel with Gloo: two processes of one thread each, global
batch 100. Prints samples/s."""
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS, BATCH = 60, 100


def rank_main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 5), torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 5),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
        torch.nn.Linear(1024, 10))
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.randn(BATCH // world, 1, 28, 28)
    y = torch.randint(0, 10, (BATCH // world,))
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        dist.barrier()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(BATCH / sorted(times[10:])[len(times[10:]) // 2])
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank_main, args=(2,), nprocs=2)
