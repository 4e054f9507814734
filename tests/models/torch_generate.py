#!/usr/bin/env python3
"""Generated texts against PyTorch: tests/models/torch_generate.py PATH/TO/weft [--golden FILE | --write FILE]

Models are trained for a few steps in float64. `weft generate --temperature 0` must then print, on every mesh and device, the text that
PyTorch finds by taking the most likely token again and again, from the weights that weft exports; beyond the positions of the model it goes
on from the later half of them. With --golden the texts that --write has saved take PyTorch's place. (`make torch` compares; the test
torch_generate reads the file.)
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from torch_compare import read_safetensors
from torch_models import CASES, forward

CONTEXT, TOKENS = 8, 40
TEXT = "the warp and weft of a loom hold each other; a weaver weaves the weft through the warp and beats it in. " * 4
# Name: meshes beside one rank. No domain axis splits a recurrence, and one of attention leaves no part without a position.
MESHES = {"gpt": ["data=2", "tensor=2", "pipeline=2", "domain=2", "tensor=2,pipeline=2", "data=2,tensor=2"],
          "gpt-tied": ["tensor=3", "pipeline=2", "data=2"],
          "gated": ["tensor=2", "domain=2", "pipeline=3"],
          "char-lstm": ["data=2", "tensor=2", "pipeline=2", "tensor=2,data=2"]}
PROMPTS = ["w", "the we", "a loom holds a weaver; the warp"]


def run(*words):
    done = subprocess.run(words, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.decode()}")
    return done.stdout.decode()


def train(weft, name):
    model, text = CASES[name][:2]
    if text:
        with open(model, "w") as out:
            out.write(text)
    run(weft, "train", "-q", "-m", model, "--data", f"text:t.txt,unit=char,context={CONTEXT},stride=3", "--dtype", "f64", "-b", "16",
        "--steps", "60", "-o", "adam", "--lr", "0.02", "-c", name, "-t", "1")
    run(weft, "export", "-q", name, "-o", name + ".safetensors")


def of_torch(name, prompt):
    """The text of greedy decoding."""
    import torch
    import torch_layers  # noqa: F401  (float64, one thread)
    letters = sorted(set(TEXT.encode()))
    p = {key: torch.tensor(values).view(shape) for key, (shape, values) in read_safetensors(name + ".safetensors").items()}
    tokens, first = [letters.index(byte) for byte in prompt.encode()], 0
    limited = name != "char-lstm"
    for at in range(len(tokens) + TOKENS - 1):
        if limited and at - first == CONTEXT:
            first = at - CONTEXT // 2
        if at < len(tokens) - 1:
            continue
        read = torch.tensor([tokens[first:at + 1]])
        part = {key: value[:read.shape[1]] if key == "positions/weight" else value for key, value in p.items()}
        tokens.append(int(forward(name, part, [read])[0, -1].argmax()))
    return bytes(letters[token] for token in tokens).decode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--golden")
    parser.add_argument("--write", metavar="FILE")
    given = parser.parse_args()
    weft = os.path.abspath(given.weft)
    golden = json.load(open(given.golden)) if given.golden else None
    target = given.write and os.path.abspath(given.write)
    texts, failed, compared = {}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("t.txt", "w") as out:
            out.write(TEXT)
        for name, meshes in MESHES.items():
            train(weft, name)
            for prompt in PROMPTS:
                right = texts[f"{name}: {prompt}"] = golden[f"{name}: {prompt}"] if golden else of_torch(name, prompt)
                for words in [["--device", "reference"], [], *(["--mesh", mesh] for mesh in meshes)]:
                    told = run(weft, "generate", name, "-t", "1", "-n", str(TOKENS), "--temperature", "0", "-p", prompt, *words)
                    compared += 1
                    if told != right + "\n":
                        failed += 1
                        print(f"FAILED: {name} {' '.join(words)}: {told!r}, PyTorch {right!r}", flush=True)
        os.chdir("/")
    if target:
        with open(target, "w") as out:
            json.dump(texts, out, indent=0)
            out.write("\n")
    print(f"{compared} texts, {failed} not as PyTorch")
    sys.exit(failed > 0)


main()
