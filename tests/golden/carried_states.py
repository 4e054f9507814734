"""Losses of training whose recurrent states carry over from batch to batch, by PyTorch: hidden states are detached between steps
and zero at the beginning of an epoch.

    carried_states.py WEFT > carried_states.txt

The command WEFT draws the weights at the start. Text, model and options are those of train/test_carry_state.c.
"""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
SIZE, CONTEXT, BATCH, EPOCHS, RATE = 111, 5, 4, 2, 0.5
NET = """layers:
  - {type: embedding, name: tokens, units: 6}
  - {type: lstm, name: one, units: 5}
  - {type: gru, name: two, units: 4}
  - {type: linear, name: head, units: outputs}
"""
text = bytes(b"abcdefg "[(i * i * 7 + i // 3) % 8] for i in range(SIZE))


def weights():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "text").write_bytes(text)
        (root / "net.yaml").write_text(NET)
        subprocess.run([sys.argv[1], "train", "-m", root / "net.yaml", "-d", f"text:{root}/text,context={CONTEXT},test=0", "-b", "4", "-q",
                        "--dtype", "f64", "--device", "reference", "--seed", "3", "-o", "sgd", "--lr", "1e-30", "--steps", "1",
                        "-c", root / "out"], check=True)
        data = (root / "out/latest/parameters.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: torch.frombuffer(bytearray(data[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]]),
                                   dtype=torch.float64).view(at["shape"]).requires_grad_()
            for name, at in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def lstm(p, x, state):
    outputs, (h, c) = [], state
    for t in range(x.shape[1]):
        g = x[:, t] @ p["one/weight"] + p["one/bias"] + h @ p["one/recurrent"]
        i, f, z, o = g.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, 1), (h, c)


def gru(p, x, h):
    net = nn.GRU(x.shape[2], h.shape[1], batch_first=True)
    named = {"weight_ih_l0": p["two/weight"].t(), "weight_hh_l0": p["two/recurrent"].t(), "bias_ih_l0": p["two/bias"],
             "bias_hh_l0": p["two/recurrent_bias"]}
    y, last = torch.func.functional_call(net, named, (x, h[None]))
    return y, last[0]


p = weights()
optimizer = torch.optim.SGD(p.values(), lr=RATE)
windows = (SIZE - CONTEXT - 1) // CONTEXT + 1
each, more = divmod(windows, BATCH)
for epoch in range(EPOCHS):
    states = ((torch.zeros(BATCH, 5), torch.zeros(BATCH, 5)), torch.zeros(BATCH, 4))
    for step in range(each + (more > 0)):
        rows = BATCH if step < each else more
        begin = [(b * each + min(b, more) + step) * CONTEXT for b in range(rows)]
        tokens = torch.tensor([list(text[b:b + CONTEXT]) for b in begin])
        labels = torch.tensor([list(text[b + 1:b + CONTEXT + 1]) for b in begin])
        first = tuple(s[:rows].detach() for s in states[0])
        x, lstm_state = lstm(p, F.embedding(tokens, p["tokens/weight"]), first)
        x, gru_state = gru(p, x, states[1][:rows].detach())
        logits = x @ p["head/weight"] + p["head/bias"]
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        states = (lstm_state, gru_state)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))
