#!/usr/bin/env python3
"""Accuracy of twin-lstm on pairs of passages, against PyTorch on the same pairs: pairs.py WEFT [EPOCHS]

Both train one LSTM of 64 units and a classifier on 20,000 pairs, with Adam and batches of 100, and say after each epoch how many of
2,000 pairs from the end of the text are right; guessing has half of them right. The pairs of weft's data pairs:FILE are functions of
the seed and the number of the pair (Philox4x32-10), so they are made here again; their labels are held against those that weft reads.
"""
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch

TEXT = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
LENGTH, TRAIN, TEST, BATCH, RATE, SEED = 140, 20000, 2000, 100, 0.001, 1
WORD = np.uint64(0xFFFFFFFF)


def philox(key, high, low):
    """The blocks [n, 4] of Philox4x32-10 for a key and counters, as in src/base/random.c."""
    high, low = np.broadcast_arrays(np.asarray(high, np.uint64), np.asarray(low, np.uint64))
    half = np.uint64(32)
    x = [low & WORD, low >> half, high & WORD, high >> half]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> half) ^ x[1] ^ np.uint64(keys[0]), b & WORD, (a >> half) ^ x[3] ^ np.uint64(keys[1]), a & WORD]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x, -1)


def pairs(text, split, count):
    """Two passages and a label for each pair of a split (0: train, 1: test)."""
    held_out = int(len(text) * 0.1 + 0.5)
    begin, end = ((0, len(text) - held_out), (len(text) - held_out, len(text)))[split]
    mixed = [int(n) for n in philox(SEED, 0x77656674, [split])[0]]
    drawn = philox(mixed[1] << 32 | mixed[0], np.arange(count), 0)
    places = end - begin - 2 * LENGTH + 1
    first, other = (begin + (places * ((drawn[:, k] >> np.uint64(8)).astype(float) / 2**24)).astype(np.int64) for k in (0, 2))
    follows = (drawn[:, 1] % np.uint64(2)).astype(np.int64)
    second = np.where(follows == 1, first, other) + LENGTH
    passages = (torch.from_numpy(text[at[:, None] + np.arange(LENGTH)].astype(np.int64)) for at in (first, second))
    return (*passages, torch.from_numpy(follows))


def of_weft(weft, epochs):
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([weft, "train", "--model", "twin-lstm", "--data", f"pairs:{TEXT},train={TRAIN},test={TEST},seed={SEED}", "--batch", str(BATCH),
                               "-o", "adam", "--lr", str(RATE), "-e", str(epochs), "-c", f"{folder}/run"], check=True, capture_output=True, text=True).stdout
        rows = subprocess.run([weft, "predict", f"{folder}/run"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [float(a) for a in re.findall(r"test loss .*accuracy (\S+)", said)], [int(row["label"]) for row in csv.DictReader(rows)]


def of_torch(epochs, train, test):
    torch.manual_seed(SEED)
    lstm, head, one_hot = torch.nn.LSTM(256, 64, batch_first=True), torch.nn.Linear(128, 2), torch.eye(256)
    optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=RATE)

    def logits(a, b):
        return head(torch.cat([lstm(one_hot[x])[1][0][0] for x in (a, b)], 1))
    for _ in range(epochs):
        for rows in torch.randperm(TRAIN).split(BATCH):
            a, b, y = (column[rows] for column in train)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits(a, b), y).backward()
            optimizer.step()
        with torch.no_grad():
            right = sum(int((logits(a, b).argmax(1) == y).sum()) for a, b, y in zip(*(column.split(500) for column in test)))
        yield right / TEST


def main():
    weft, epochs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if not TEXT.exists():
        sys.exit(f"skipped: {TEXT} is not there")
    text = np.fromfile(TEXT, np.uint8)
    train, test = pairs(text, 0, TRAIN), pairs(text, 1, TEST)
    ours, labels = of_weft(weft, epochs)
    if labels != test[2].tolist():
        sys.exit("the labels of weft's test part are others")
    print("epoch   weft  PyTorch", flush=True)
    theirs = []
    for epoch, accuracy in enumerate(of_torch(epochs, train, test)):
        theirs.append(accuracy)
        print(f"{epoch + 1:5} {ours[epoch]:6.4f} {accuracy:8.4f}", flush=True)
    print(f"pairs: best of {epochs} epochs: weft {max(ours):.4f}, PyTorch {max(theirs):.4f}")


main()
