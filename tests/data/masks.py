#!/usr/bin/env python3
"""Pictures with masks: tests/data/masks.py PATH/TO/weft

images:DIR,masks trains to the bits of the same numbers as arrays; palettes, grey of 1, 2, 4 and 8 bits, and black and white have the
same classes; a mask is scaled and cut as its picture is; ignored pixels count nowhere; predicted masks are what the table of predictions says, in a folder of their
own, and have the size of their pictures; --plot lays them over the pictures; and what is wrong is refused with a sentence.
"""
import base64
import csv
import json
import math
import os
import random
import re
import shutil
import struct
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from checks import check, main, run
from npy import write_npy
from png import png

WIDE, HIGH, COUNT, CLASSES = 12, 8, 7, 3
UNET = ["--model", "unet:depth=1,width=2", "--batch", "3", "--epochs", "2", "-t", "1", "-q"]


def mask_png(width, height, numbers, bits=8, colours=None):
    """A PNG of grey, or with a palette, of so many bits a pixel."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b""
    for y in range(height):
        text = "".join(f"{number:0{bits}b}" for number in numbers[width * y:width * (y + 1)])
        text += "0" * (-len(text) % 8)
        rows += b"\0" + bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))
    palette = chunk(b"PLTE", bytes(colours)) if colours else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 3 if colours else 0, 0, 0, 0)) + palette + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def read_palette_png(data):
    """Width, height, numbers and palette of a PNG of one byte a pixel, whose rows have filters."""
    at, chunks = 8, {}
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        chunks[data[at + 4:at + 8]] = chunks.get(data[at + 4:at + 8], b"") + data[at + 8:at + 8 + size]
        at += 12 + size
    width, height, bits, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (bits, kind) == (8, 3)
    raw, before, numbers = zlib.decompress(chunks[b"IDAT"]), bytes(width), []
    for y in range(height):
        how, row = raw[(width + 1) * y], bytearray(raw[(width + 1) * y + 1:(width + 1) * (y + 1)])
        for x in range(width):
            a, b, c = row[x - 1] if x else 0, before[x], before[x - 1] if x else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[x] = row[x] + [0, a, b, (a + b) // 2, nearest][how] & 255
        before = bytes(row)
        numbers += row
    return width, height, numbers, chunks[b"PLTE"]


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


def draw_samples(seed=3):
    draw = random.Random(seed)
    pictures = [[draw.randrange(256) for _ in range(3 * WIDE * HIGH)] for _ in range(COUNT)]
    return pictures, [[draw.randrange(CLASSES) for _ in range(WIDE * HIGH)] for _ in range(COUNT)]


def write_folder(folder, pictures, masks, encode=mask_png, **how):
    shutil.rmtree(folder, ignore_errors=True)
    for i, (picture, mask) in enumerate(zip(pictures, masks)):
        write(f"{folder}/images/{i}.png", png(WIDE, HIGH, picture, 2))
        write(f"{folder}/masks/{i}.png", encode(WIDE, HIGH, mask, **how))


def write_arrays(pictures, masks):
    write_npy("x.npy", "u1", (COUNT, HIGH, WIDE, 3), [x for picture in pictures for x in picture])
    write_npy("y.npy", "u1", (COUNT, HIGH, WIDE), [x for mask in masks for x in mask])


def losses(data, *more):
    run("train", *UNET, "--data", data, "--metrics", "metrics", *more)
    with open("metrics") as lines:
        return re.findall(r'"loss":([^,]*)', lines.read())


def arrays():
    """The bits of arrays, also with samples that are held out, classes that weigh, and changed pictures."""
    pictures, masks = draw_samples()
    write_folder("folder", pictures, masks)
    write_arrays(pictures, masks)
    for more in ((), ("--validation", "0.3"), ("--augment", "flip,crop:pad=2,rotate:degrees=40,color,erase"),
                 ("--augment", "crop:pad=5", "--class-weights", "balanced"), ("-n", "2", "--mesh", "domain=2")):
        ours, theirs = losses("images:folder,masks", *more), losses("npy:x.npy,y.npy,layout=hwc", *more)
        check(f"the losses of arrays {more}", ours == theirs and len(ours) > 4, (ours, theirs))
    whole = losses("images:folder,masks")
    for kind in ({"colours": list(range(9))}, {"bits": 2}, {"bits": 4}, {"bits": 2, "colours": [9, 8, 7, 6, 5, 4, 3, 2, 1]}):
        write_folder("other", pictures, masks, **kind)
        check(f"the losses of masks {kind}", losses("images:other,masks") == whole)
    check("the losses with a number of classes", losses("images:folder,masks,classes=3") == whole)
    check("the losses with decoded masks that are not kept", losses("images:folder,masks,cache=0") == whole)
    for size in (5, 6):
        scaled = losses(f"images:folder,masks,size={size * 2}", "-n", "2", "--virtual-workers", "2")
        check("the losses on two ranks", scaled == losses(f"images:folder,masks,size={size * 2}", "--virtual-workers", "2"))


def black_and_white():
    pictures, masks = draw_samples()
    two = [[number > 0 for number in mask] for mask in masks]
    said = []
    for bits, factor in ((8, 255), (8, 1), (1, 1)):
        write_folder("two", pictures, [[factor * number for number in mask] for mask in two], bits=bits)
        done = run("train", *[word for word in UNET if word != "-q"], "--data", "images:two,masks", "--metrics", "metrics")
        said.append("read as the classes 0 and 1" in done.stderr)
        with open("metrics") as lines:
            said.append(re.findall(r'"loss":([^,]*)', lines.read()))
    check("black and white is classes 0 and 1", said[1] == said[3] == said[5] and said[::2] == [True, False, False], said)


def labels_of(*words):
    rows = list(csv.DictReader(run("predict", *words, "-t", "1").stdout.splitlines()))
    found = {}
    for row in rows:
        found.setdefault(row.get("id") or row["sample"], []).append((int(row["label"] or -1), int(row["predicted"])))
    return found


def scaled():
    """A mask of blocks becomes the mask of the blocks, and its sides are cut as those of the picture."""
    pictures, masks = draw_samples()

    def block(numbers, side, channels=1):
        at = [numbers[channels * i:channels * (i + 1)] for i in range(WIDE * HIGH)]
        return [x for y in range(HIGH * side) for column in range(WIDE * side) for x in at[y // side * WIDE + column // side]]
    for i in range(COUNT):
        write(f"blocks/images/{i}.png", png(3 * WIDE, 3 * HIGH, block(pictures[i], 3, 3), 2))
        write(f"blocks/masks/{i}.png", mask_png(3 * WIDE, 3 * HIGH, block(masks[i], 3)))
    run("train", *UNET, "--data", f"images:blocks,masks,size={HIGH}x{WIDE}", "-c", "blocks_run")
    found = labels_of("-c", "blocks_run", "--split", "all")
    check("a mask of a third of the sides", all([label for label, _ in found[f"{i}.png"]] == masks[i] for i in range(COUNT)), found.keys())
    run("train", *UNET, "--data", f"images:blocks,masks,size={HIGH}", "-c", "cut_run")
    found = labels_of("-c", "cut_run", "--split", "all")
    cut = [[mask[WIDE * y + x] for y in range(HIGH) for x in range((WIDE - HIGH) // 2, (WIDE + HIGH) // 2)] for mask in masks]
    check("the middle of a mask", all([label for label, _ in found[f"{i}.png"]] == cut[i] for i in range(COUNT)))


def predictions():
    pictures, masks = draw_samples()
    for part in ("train", "valid", "test"):
        write_folder(f"parts/{part}", pictures, masks)
    run("train", *UNET, "--data", "images:parts,masks", "-c", "run")
    found = labels_of("-c", "run")
    done = run("predict", "-c", "run", "--masks", "new/predicted", "-t", "1")
    check("a line tells of the masks", done.stdout == f"wrote {COUNT} masks to new/predicted\n", done.stdout)
    names = sorted(os.listdir("new/predicted"))
    check("names of masks", names == [f"{i}.png" for i in range(COUNT)] == sorted(found), names)
    for name in names:
        with open(f"new/predicted/{name}", "rb") as file:
            width, height, numbers, palette = read_palette_png(file.read())
        check(f"the predicted mask {name}", (width, height, list(numbers)) == (WIDE, HIGH, [predicted for _, predicted in found[name]]))
        check("the colours of classes", list(palette[:12]) == [0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    # Folders of a training and a validation part: the latter chooses the best epoch, and is what eval and predict take.
    for part in ("Train", "Val"):
        write_folder(f"pair/{part}", pictures, masks)
    done = run("train", *UNET[:-1], "--data", "images:pair,masks", "-c", "pair_run", "--keep-best", "loss")
    check("the folder Val is the validation part", "validation loss" in done.stdout and "test loss" not in done.stdout, done.stdout)
    told = run("eval", "-c", "pair_run", "-t", "1").stdout
    check("and is evaluated", told.startswith(f"validation: {COUNT} samples"), told)
    check("and predicted", len(labels_of("-c", "pair_run")) == COUNT)
    run("train", *UNET, "--data", "images:pair/Train,masks", "--validation", "images:pair,masks", "--keep-best", "loss", "-c", "other_run")
    for more, words in (("eval -c pair_run -t 1 --split test", "the test part of the data is empty; give --split validation"),
                        ("train --model unet:depth=1,width=2 --data images:pair,masks --validation 0.5", "have a validation part of their own")):
        refused = run(*more.split(), code=2).stderr
        check(words, words in refused, refused)
    table = run("predict", "-c", "run", "--masks", "both", "--json", "-t", "1").stdout
    check("masks and lines", len(table.splitlines()) == COUNT * WIDE * HIGH and len(os.listdir("both")) == COUNT)
    # Pictures alone, in the folder itself or in images/, need no masks.
    for folder, below in (("alone", ""), ("beside", "images/sub/")):
        for i in range(3):
            write(f"{folder}/{below}{i}.png", png(WIDE, HIGH, pictures[i], 2))
        out = run("predict", "-c", "run", "--data", f"images:{folder}", "--masks", folder + "_out", "-t", "1").stdout
        check(f"pictures in {folder}/{below}", f"wrote 3 masks to {folder}_out" in out and os.path.exists(f"{folder}_out/{'sub/' if below else ''}2.png"), out)
    run("eval", "-c", "run", "--data", "images:parts/test,masks", "--metric", "iou_macro", "-t", "1")
    refused = run("predict", "-c", "run", "--masks", "both", code=2).stderr
    check("a folder that has masks", "the folder is not empty; give a new one" in refused, refused)
    run("train", "--model", "lenet", "--data", "glyphs:size=16,train=20,test=5", "--batch", "10", "-q", "-c", "glyphs")
    refused = run("predict", "-c", "glyphs", "--masks", "none", code=2).stderr
    check("a model without classes of pixels", "does not give each pixel" in refused and not os.path.exists("none"), refused)


def counted(table):
    """The loss, and the confusion of labels and predictions, over the lines that have a label."""
    loss, confusion, lines = 0, [[0] * CLASSES for _ in range(CLASSES)], 0
    for row in map(json.loads, table.splitlines()):
        if row.get("label") is None:
            continue
        lines += 1
        loss -= math.log(row["probabilities"][row["label"]])
        confusion[row["label"]][row["predicted"]] += 1
    return loss / lines, confusion


def ignored():
    """A label that is ignored has weight 0, to the bit, in every way to run; what an augmentation leaves bare has that label."""
    pictures, masks = draw_samples()
    draw = random.Random(5)
    void = [[255 if i == 1 or draw.random() < 0.3 else number for number in mask] for i, mask in enumerate(masks)]  # all of one mask
    write_folder("void", pictures, void)
    write_arrays(pictures, void)
    write_npy("y0.npy", "u1", (COUNT, HIGH, WIDE), [number % 255 for mask in void for number in mask])
    write_npy("w.npy", "f4", (COUNT, HIGH * WIDE), [number < 255 for mask in void for number in mask])
    write_npy("y100.npy", "i2", (COUNT, HIGH * WIDE), [number if number < 255 else -100 for mask in void for number in mask])
    ways = [(), ("--validation", "0.3"), ("--augment", "color,erase"), ("--class-weights", "balanced"), ("-n", "2", "--mesh", "domain=2"),
            ("-n", "4", "--mesh", "domain=2,data=2", "--batch", "4"), ("-n", "2", "--exchange", "average:every=2"), ("--microbatches", "2", "--batch", "4"), ("--loss", "focal")]
    for more in ways:
        theirs = losses("npy:x.npy,y0.npy,layout=hwc,weight=w.npy", *more) if "--class-weights" not in more else None
        ours = losses("images:void,masks,ignore=255", *more)
        check(f"the losses of weights 0 {more}", ours == (theirs or ours) and len(ours) > 3, (ours, theirs))
        if not theirs or not more:
            check(f"the losses of arrays {more}", ours == losses("npy:x.npy,y.npy,layout=hwc,ignore=255", *more) ==
                  losses("npy:x.npy,y100.npy,layout=hwc,ignore=-100", *more))
    for more in ((), ("--augment", "crop:pad=3,flip,rotate=20")):
        same = [losses("images:void,masks,ignore=255", "--virtual-workers", "4", "--batch", "4", "-n", ranks, *more) for ranks in (1, 2, 4)]
        check(f"the losses on any number of ranks {more}", same[0] == same[1] == same[2], same)
    # Other axes than data cut what a kernel adds up: in f64 they agree to its rounding, at the edges of bands, too.
    whole, bands = (losses("images:void,masks,ignore=255", "--dtype", "f64", "--batch", "4", "--augment", "rotate=20", *more)
                    for more in ((), ("-n", "2", "--mesh", "domain=2")))
    check("the losses of bands of rows", len(whole) == len(bands) and all(abs(float(a) - float(b)) < 1e-10 for a, b in zip(whole, bands)), (whole, bands))
    said = run("train", *UNET, "--data", "images:void,masks,ignore=255", "-c", "void_run")
    loss, confusion = counted(run("predict", "-c", "void_run", "--split", "all", "--json", "-t", "1").stdout)
    check("pixels that count", sum(map(sum, confusion)) == sum(number < 255 for mask in void for number in mask), confusion)
    for data in ((), ("--data", "images:void,masks")):  # the checkpoint tells which label is ignored
        report = json.loads(run("eval", "-c", "void_run", "--split", "all", "--json", "-t", "1", *data).stdout)
        check("the loss of pixels that count", abs(report["loss"] - loss) < 1e-5, (report["loss"], loss, said))
        check("the confusion of pixels that count", report["confusion"] == confusion, (report, confusion))
    # In pictures whose colour tells the class, a pixel of no colour has come in, and is ignored: it is mixed with white.
    write_folder("void", [[100 + 50 * number for number in mask for _ in range(3)] for mask in masks], masks)
    done = run("inspect", "--data", "images:void,masks,test=0,ignore=2", "--augment", "crop:pad=3,flip", "--plot", "sheet.svg")
    moved = [pixel for picture in pictures_of("sheet.svg") for pixel in picture]
    check("what comes in is ignored", set(moved) == {(100, 100, 100), (139, 75, 75), (227, 227, 227), (127, 127, 127)}, set(moved))
    check("ignored pixels are counted", re.search(rf"^ignored +{sum(mask.count(2) for mask in masks)} +0$", done.stdout, re.M), done.stdout)
    for data, said in (("images:void,ignore=3", "ignore= is a label in masks; give masks"), ("images:void,masks,ignore=256", "ignore is '256', must be a whole"),
                       ("npy:x.npy,y.npy,ignore=2.5", "must be a whole number from -65536 to 65535"),
                       ("npy:x.npy,target=t.npy,ignore=0", "ignore=0 is a label of positions or pixels, and these data have targets"),
                       ("npy:x.npy,t.npy,ignore=0", "and a sample has one label; leave out the samples")):
        write_npy("t.npy", "u1", (COUNT,), range(COUNT))
        refused = run("train", "--model", "mlp", "--data", data, code=2).stderr
        check(f"refused: {said}", said in refused, refused)
def of_own_size():
    """Masks have the size of their pictures, whatever that of samples: read as masks of these, they are what was predicted."""
    draw = random.Random(4)
    sizes = [(31, 23), (17, 40), (8, 8), (24, 24), (9, 8)]
    for i, (width, height) in enumerate(sizes):
        write(f"sizes/images/{i}.png", png(width, height, [draw.randrange(256) for _ in range(3 * width * height)], 2))
        write(f"sizes/masks/{i}.png", mask_png(width, height, [draw.randrange(CLASSES) for _ in range(width * height)]))
    write("tiny/a.png", png(4, 2, [draw.randrange(256) for _ in range(24)], 2))
    run("train", *UNET, "--data", "images:sizes,masks,size=8,test=0", "-c", "sizes_run")
    done = run("predict", "-c", "sizes_run", "--split", "all", "--masks", "own", "-t", "1")
    said = "3 of 5 pictures have other proportions than samples; the pixels that were cut off have no prediction, and are 255 in their masks"
    check("a line tells of what was cut", said in done.stderr, done.stderr)
    found = {name: [predicted for _, predicted in each] for name, each in labels_of("-c", "sizes_run", "--split", "all").items()}
    shutil.copytree("sizes/images", "again/images")
    shutil.copytree("own", "again/masks")
    again = labels_of("-c", "sizes_run", "--data", "images:again,masks,classes=3", "--split", "all")
    for i, (width, height) in enumerate(sizes):
        with open(f"own/{i}.png", "rb") as file:
            wide, high, numbers, palette = read_palette_png(file.read())
        check(f"the size of mask {i}", (wide, high) == (width, height))
        check(f"mask {i} is what was predicted", [label for label, _ in again[f"{i}.png"]] == found[f"{i}.png"] and len(found[f"{i}.png"]) == 64)
        side = 8 * max(width, height) // min(width, height)  # of the scaled picture, of which the middle is seen
        unseen = [not 0 <= (2 * k + 1) * side // (2 * max(width, height)) - round((side - 8) / 2) < 8 for k in range(max(width, height))]
        check(f"edges of mask {i}", [number == 255 for number in numbers] == [unseen[x if width > height else y] for y in range(height) for x in range(width)])
        check("the colour of edges", list(palette[:6] + palette[-3:]) == [0, 0, 0, 128, 0, 0, 255, 255, 255])
    run("predict", "-c", "sizes_run", "--split", "all", "--masks", "sampled", "--mask-size", "sample", "-t", "1")
    for i in range(len(sizes)):
        with open(f"sampled/{i}.png", "rb") as file:
            check(f"mask {i} of the size of samples", read_palette_png(file.read())[:3] == (8, 8, found[f"{i}.png"]))
    # The pixels of a picture that is smaller than samples are in the middle of several of these.
    run("predict", "-c", "sizes_run", "--data", "images:tiny", "--masks", "small", "-t", "1")
    seen = [predicted for _, predicted in labels_of("-c", "sizes_run", "--data", "images:tiny")["a.png"]]
    with open("small/a.png", "rb") as file:
        check("a small picture", read_palette_png(file.read())[:3] == (4, 2, [255, seen[8 * 2 + 2], seen[8 * 2 + 6], 255, 255, seen[8 * 6 + 2], seen[8 * 6 + 6], 255]))
    run("predict", "-c", "sizes_run", "--split", "all", "--masks", "same", "--mask-size", "picture", "-t", "1")
    check("the default", all(open(f"same/{i}.png", "rb").read() == open(f"own/{i}.png", "rb").read() for i in range(len(sizes))))
    refused = run("predict", "-c", "sizes_run", "--mask-size", "sample", code=2).stderr
    check("a size of no masks", "no masks are written; give --masks DIR" in refused, refused)
    refused = run("predict", "-c", "sizes_run", "--masks", "none", "--mask-size", "own", code=2).stderr
    check("another size", "picture" in refused and "sample" in refused and not os.path.exists("none"), refused)


def pictures_of(path):
    """The pixels of the pictures of a sheet."""
    with open(path) as file:
        drawn = [base64.b64decode(text) for text in re.findall(r'href="data:image/png;base64,([^"]*)"', file.read())]
    each, found = 3 * WIDE + 6, []
    for data in drawn:
        rows = data[data.index(b"IDAT") + 6:]  # stored blocks of a row each, with five bytes and a filter in front
        found.append([tuple(rows[each * y + 6 + 3 * x:each * y + 9 + 3 * x]) for y in range(HIGH) for x in range(WIDE)])
    return found


def sheet():
    pictures, masks = draw_samples()
    grey = [[100] * len(picture) for picture in pictures]
    write_folder("sheet", grey, masks)
    done = run("inspect", "--data", "images:sheet,masks,test=0", "--plot", "sheet.svg")
    for number in range(CLASSES):
        pixels = sum(mask.count(number) for mask in masks)
        check("pixels of a class", re.search(rf"^{number} +{pixels} +0$", done.stdout, re.M), done.stdout)
    drawn, colour = pictures_of("sheet.svg"), [(100, 100, 100), (114, 50, 50), (50, 114, 50)]
    for i, pixels in enumerate(drawn):
        check(f"masks over picture {i}", pixels == [colour[number] for number in masks[i]], pixels[:4])
    check("pictures of the sheet", len(drawn) == COUNT)
    # Masks move with pictures: the colour of a pixel still tells its class, and what comes in is black and of class 0.
    coloured = [[100 + 50 * number for number in mask for _ in range(3)] for mask in masks]
    write_folder("sheet", coloured, masks)
    kinds = [(100, 100, 100), (139, 75, 75), (100, 164, 100), (0, 0, 0)]
    for changes in "crop:pad=3", "flip=1", "flip,crop:pad=2", "rotate=0,flip":
        run("inspect", "--data", "images:sheet,masks,test=0", "--augment", changes, "--plot", "sheet.svg")
        moved = [pixel for picture in pictures_of("sheet.svg") for pixel in picture]
        check(f"masks move by {changes}", set(moved) <= set(kinds) and ((0, 0, 0) in moved) == ("crop" in changes), set(moved) - set(kinds))


def refusals():
    pictures, masks = draw_samples()

    def refused(said, data="images:bad,masks", code=2, *more):
        done = run("train", *UNET, "--data", data, *more, code=code)
        check(said, re.search(said, done.stderr), done.stderr)
        write_folder("bad", pictures, masks)
    write_folder("bad", pictures, masks)
    os.remove("bad/masks/3.png")
    refused(r"bad/images/3\.png: the picture has no mask bad/masks/3\.png \(No such file")
    write("bad/masks/2.png", mask_png(WIDE, HIGH - 1, masks[2][WIDE:]))
    refused(r"bad/masks/2\.png: the mask is 12 pixels wide and 7 high, and its picture bad/images/2\.png is 12 wide and 8 high", code=1)
    write("bad/masks/2.png", png(WIDE, HIGH, pictures[2], 2))
    refused(r"bad/masks/2\.png: this PNG has several numbers for each pixel; a mask has one", code=1)
    write("bad/masks/2.png", mask_png(WIDE, HIGH, masks[2])[:60])
    refused(r"bad/masks/2\.png: this PNG is broken", code=1)
    write("bad/masks/2.png", b"\xff\xd8\xff" + bytes(99))
    refused(r"bad/masks/2\.png: is no PNG; a mask is one", code=1)
    write("bad/masks/2.png", mask_png(WIDE, HIGH, [9] + masks[2][1:]))
    refused(r"bad/masks/2\.png: row 0, column 0: the class is 9, and the 3 classes are from 0 to 2", "images:bad,masks,classes=3,test=0", code=1)
    write("bad/test/images/1.png", png(WIDE, HIGH, pictures[1], 2))
    write("bad/test/masks/1.png", mask_png(WIDE, HIGH, [9] + masks[1][1:]))
    shutil.copytree("bad/images", "bad/train/images")
    shutil.copytree("bad/masks", "bad/train/masks")
    refused(r"bad/test/images/1\.png: its mask has a class that the training has not, whose 3 classes are from 0 to 2", code=1)
    refused("has the folders images and masks; give images:bad,masks", "images:bad")
    refused("classes= is the number of classes in masks; give masks", "images:bad,classes=3")
    refused("leave broken= out", "images:bad,masks,broken=0.5")
    refused("mixup mixes samples of one class each", "images:bad,masks", 2, "--augment", "mixup")
    write_folder("bad", pictures, [[0] * len(mask) for mask in masks])
    refused("the masks of the training part have class 0 alone")
    refused("the training part is empty, and its masks tell which classes there are; give a smaller test=", "images:bad,masks,test=1")
    write_arrays(pictures, masks)
    write_npy("w.npy", "f4", (COUNT, WIDE * HIGH), [1] * COUNT * WIDE * HIGH)
    refused("pixels that are moved would leave their weights behind", "npy:x.npy,y.npy,layout=hwc,weight=w.npy", 2, "--augment", "flip")
    os.remove("bad/images/1.png")
    write("bad/images/1.png", b"no picture")
    refused(r"bad/images/1\.png: is neither PNG nor JPEG nor WebP", code=1)


if __name__ == "__main__":
    sys.exit(main(arrays, black_and_white, scaled, predictions, of_own_size, sheet, ignored, refusals))
