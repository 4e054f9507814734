"""Learning rates of PyTorch's ReduceLROnPlateau for drawn losses.

    plateau.py > plateau.txt

Each case is two lines: patience, threshold, cooldown, factor, smallest rate and number of losses; then each loss and the rate
after it. The first rate is 1.
"""
import random

import torch

draw = random.Random(3)
for case in range(24):
    patience, cooldown, factor = draw.randrange(4), draw.randrange(4), draw.choice((0.1, 0.5, 0.9))
    threshold, floor, count = draw.choice((0, 1e-4, 0.05)), draw.choice((0, 0.02)), 60
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=factor, patience=patience, threshold=threshold,
                                                          cooldown=cooldown, min_lr=floor, eps=0)
    print(patience, threshold, cooldown, factor, floor, count)
    line, loss = [], 3.0
    for i in range(count):
        loss = max(loss + draw.choice((-0.2, -0.02, -0.001, 0, 0.05, 0.2)), 0.01)
        if i == 7:
            loss = float("nan")
        schedule.step(loss)
        line += [repr(loss), repr(optimizer.param_groups[0]["lr"])]
        loss = 3.0 if loss != loss else loss
    print(" ".join(line))
