#!/usr/bin/env python3
"""Weights that go out under other names (weft export -o FILE:MAP): tests/checkpoint/mapped_names.py PATH/TO/weft [-v] [PART...]

A run that begins with FILE:MAP (--init) must leave, bit for bit, what one leaves that begins with the same weights under weft's own
names: for every model, with PyTorch's names and those of a file of rules; or the export is refused with the reason.
"""
import os
import random
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run, weft, write
from png import png
from torch_compare import read_safetensors, write_npy

IMAGES, LARGE = "glyphs:size=16,train=12,test=4", "glyphs:size=32,train=12,test=4"
TEXT, PAIRS = "text:text.txt,unit=char,context=8,test=0", "npy:a=a.npy,b=b.npy,label=label.npy,test=0"
# For each model: small ones, their data, and whether PyTorch has no such names.
MODELS = {
    "lenet": [("lenet", IMAGES, None)], "mlp": [("mlp", IMAGES, None)], "vgg11": [("vgg11", IMAGES, None)], "inception": [("inception", IMAGES, None)],
    "vgg": [("vgg:depth=11,width=2,hidden=9", LARGE, None), ("vgg:depth=13,norm,width=2,hidden=9", LARGE, None)],
    "resnet": [("resnet:depth=18,width=2", IMAGES, None), ("resnet:depth=50,width=2", IMAGES, None)],
    "mobilenet": [("mobilenet:width=0.1", IMAGES, None)], "densenet": [("densenet:growth=2", LARGE, None)],
    "googlenet": [("googlenet:width=4", IMAGES, None)],
    "vit": [("vit:patch=4,layers=2,heads=2,width=8", IMAGES, None)], "unet": [("unet:depth=1,width=2", "images:pictures,masks,test=0", None)],
    "autoencoder": [("autoencoder:code=3,width=9", "reconstruct:" + IMAGES, None), ("autoencoder:code=3,conv", "reconstruct:" + IMAGES, None)],
    "gpt": [("gpt:layers=1,heads=2,width=8", TEXT, None), ("gpt:layers=1,heads=2,width=8,tied", TEXT, None)],
    "transformer": [("transformer:layers=1,heads=2,width=8", "csv:series.csv,label=y,test=0", None)],
    "char-lstm": [("char-lstm:layers=1,units=5", TEXT, "lstm1/recurrent")], "twin-lstm": [("twin-lstm:units=4", PAIRS, "/recurrent")],
    "grouped.yaml": [("grouped.yaml", TEXT, None)], "gru.yaml": [("gru.yaml", TEXT, "gru/recurrent")],
}
# Attention with fewer heads of keys has no joined weights; the table of tokens is square, as that of a dense layer is.
GROUPED = """layers:
  - {type: embedding, name: tokens, units: 4}
  - {type: rms_norm, name: before}
  - {type: attention, name: some, heads: 2, key_heads: 1, causal: true}
  - {type: linear, name: part.output, units: 4}
  - {type: linear, name: head, units: classes}
"""
GRU = "layers:\n  - {type: embedding, name: tokens, units: 4}\n  - {type: gru, name: gru, units: 3}\n  - {type: linear, name: head, units: classes}\n"
STILL = ["-t", "1", "--batch", "12", "--steps", "1", "-o", "sgd", "--lr", "1e-30", "-q"]


def first():
    draw = random.Random(3)
    write("text.txt", "abcdabdcacbd" * 9)
    write("series.csv", "a,b,c,y\n" + "".join(f"{draw.random()},{draw.random()},{draw.random()},{i % 3}\n" for i in range(12)))
    write("grouped.yaml", GROUPED)
    write("gru.yaml", GRU)
    for name in "ab":
        write_npy(f"{name}.npy", "f8", (12, 5, 2), [draw.random() for _ in range(120)])
    write_npy("label.npy", "i8", (12,), [i % 2 for i in range(12)])
    for i in range(12):
        for folder, kind, values in (("images", 2, 3 * 64), ("masks", 0, 64)):
            os.makedirs(f"pictures/{folder}", exist_ok=True)
            with open(f"pictures/{folder}/{i}.png", "wb") as out:
                out.write(png(8, 8, [draw.randrange(2) if folder == "masks" else draw.randrange(256) for _ in range(values)], kind))


def left(model, data, start):
    """The file of the weights that a run leaves which begins with `start`."""
    run("train", "-m", model, "--data", data, *STILL[:-1], "--init", start, "--checkpoint", "left")
    run("export", "left", "-q", "-o", "left.st")
    subprocess.run(["rm", "-rf", "left"], check=True)
    with open("left.st", "rb") as file:
        return file.read()


def there_and_back():
    named = set(re.findall(r"^  ([a-z][a-z0-9-]*)(?:\[|$)", run("help", "models").stdout, re.M))
    check("every model has a case", named == {model for model in MODELS if "." not in model}, named ^ set(MODELS))
    for model, data, refused in (case for cases in MODELS.values() for case in cases):
        subprocess.run(["rm", "-rf", "given", "out.st"], check=True)
        run("train", "-m", model, "--data", data, "-t", "1", "--batch", "12", "--steps", "2", "-q", "--checkpoint", "given")
        run("export", "given", "-q", "-o", "given.st")
        done = subprocess.run([weft, "export", "given", "-o", "out.st:torch"], capture_output=True, text=True)
        if refused:
            check(f"{model} has no such names", done.returncode == 2 and f"map 'torch' has no rule that makes a tensor of '" in done.stderr
                  and refused in done.stderr and not os.path.exists("out.st"), done.stderr)
            continue
        check(f"{model} goes out", done.stdout == "wrote out.st\n", done.stderr)
        names = {name for name in read_safetensors("out.st") if not name.endswith("num_batches_tracked")}
        check(f"{model} has names with dots", not any("/" in name for name in names) and ("part.output.weight" in names) == (model == "grouped.yaml"), names)
        check(f"{model} comes back", left(model, data, "out.st:torch") == left(model, data, "given.st"))


def types():
    """Tensors keep their types, those of narrow weights, too."""
    for dtype in ("f64", "bf16"):
        run("train", "-m", "vit:patch=4,layers=1,heads=2,width=8", "--data", IMAGES, *STILL, "--dtype", dtype, *(["--weights", "bf16"] if dtype == "bf16" else []), "--checkpoint", dtype)
        run("export", dtype, "-q", "-o", "own.st")
        run("export", dtype, "-q", "-o", "out.st:torch")
        own, out = read_safetensors("own.st"), read_safetensors("out.st")
        prefix = "encoder/layers/encoder_layer_0/self_attention"
        check(f"parts in {dtype}", out[f"{prefix}/in_proj_bias".replace("/", ".")][1] == [x for part in ("query", "key", "value") for x in own[f"{prefix}/{part}/bias"][1]])
        with open("out.st", "rb") as file:
            check(f"the type {dtype}", file.read().count(b'"dtype":"%s"' % dtype.upper().encode()) == len(out) and sorted(x for _, v in own.values() for x in v) ==
                  sorted(x for _, v in out.values() for x in v))


def rules():
    """A map of one's own, and what it cannot do."""
    run("train", "-m", "vit:patch=4,layers=1,heads=2,width=8", "--data", IMAGES, *STILL, "--checkpoint", "vit")
    run("export", "vit", "-q", "-o", "vit.st")
    joined = "".join(f"blocks.*.attn.qkv.{leaf} [out {part}/3{more}] -> encoder.layers.encoder_layer_*.self_attention.{name}.{leaf} [{back}out]\n"
                     for leaf, more, back in (("weight", ", in", "in, "), ("bias", "", "")) for part, name in ((1, "query"), (2, "key"), (3, "value")))
    write("timm", joined + "blocks.*.attn.proj.* -> encoder.layers.encoder_layer_*.self_attention.output.*\nblocks.*.norm*.weight -> encoder.layers.encoder_layer_*.ln_*.gamma\n"
          "*.counter -> - beside */ln/gamma\ncls_token -> class_token\n")
    run("export", "vit", "-q", "-o", "out.st:timm")
    own, out = read_safetensors("vit.st"), read_safetensors("out.st")
    prefix = "encoder/layers/encoder_layer_0/self_attention"
    check("the names of a map", out["blocks.0.attn.qkv.weight"][0] == [24, 8] and out["blocks.0.norm2.weight"][1] == own["encoder/layers/encoder_layer_0/ln_2/gamma"][1]
          and out["encoder.counter"] == ([], [1]) and out["cls_token"] == own["class_token"] and out["heads.head.weight"] == own["heads/head/weight"], list(out))
    parts = [own[f"{prefix}/{part}/weight"][1] for part in ("query", "key", "value")]
    check("parts are joined", out["blocks.0.attn.qkv.weight"][1] == [part[i * 8 + o] for part in parts for o in range(8) for i in range(8)])
    check("a map comes back", left("vit:patch=4,layers=1,heads=2,width=8", IMAGES, "out.st:timm") == left("vit:patch=4,layers=1,heads=2,width=8", IMAGES, "vit.st"))
    for text, words in (("a.* -> heads/head/*\n* -> -\n", "and another of its rules would read that; put the rule of 'conv_proj/weight' first"),
                        ("a -> heads/head/*\n", "the right side has a *"), ("a -> heads/head/weight (dense\n", "is no rule"), ("a -> b beside\n", "is no rule"),
                        ("a -> b nearby c\n", "is no rule"), ("a -> b beside *\n", "the right side has a *"), ("same -> heads/head/bias\nsame -> encoder/ln/beta\n", "both 'same' and 'same'")):
        write("map", text)
        done = subprocess.run([weft, "export", "vit", "-o", "none.st:map"], capture_output=True, text=True)
        check(f"the map {text!r}", done.returncode in (1, 2) and words in done.stderr and not os.path.exists("none.st"), done.stderr)
    for name, code, words in (("none.st:torhc", 2, "there is no map 'torhc'; give torch"), ("none.st:", 2, "there is no map ''"), ("none.pt:torch", 2, "name it 'none.safetensors'"),
                              ("map:map", 2, "is the file of the map, which would be lost")):
        done = subprocess.run([weft, "export", "vit", "-o", name], capture_output=True, text=True)
        check(f"-o {name}", done.returncode == code and words in done.stderr, done.stderr)
    check("a name with a colon", run("export", "vit", "-o", "at-12:30.st").stdout == "wrote at-12:30.st\n" and os.path.exists("at-12:30.st"))
    run("export", "vit", "-q", "-o", "out.st:torch")
    done = subprocess.run([weft, "export", "vit", "-o", "-:torch"], capture_output=True)
    with open("out.st", "rb") as file:
        check("standard output", file.read() == done.stdout)


sys.exit(main(there_and_back, types, rules, first=first))
