#!/usr/bin/env python3
"""Networks for images against torchvision: tests/models/torch_images.py PATH/TO/weft [--golden FILE | --write FILE] [--only NAME]

Each case saves the weights of a network of torchvision, by its names and layouts, as safetensors, and weft begins with them
(--init FILE:torch): in float64 the losses of ten steps of SGD with momentum, every gradient of the first, all weights and running
statistics after the last one, and the loss of a prediction with these must be torchvision's within 1e-10. What `weft export -o
FILE:torch` writes then has the names and shapes of torchvision's state, which takes it and makes the same prediction. In the case `tuned` the network
had other classes, so that its last layer begins anew, and the samples are a folder of PNG in two batches an epoch. The numbers of the weights
are a function of their names, so that --golden needs no PyTorch: it reads the shapes and the figures that --write has saved.
"""
import copy
import importlib
import itertools
import json
import math
import os
import random
import subprocess
import sys
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from png import png
from torch_compare import main, read_safetensors, single, write_npy, write_safetensors

SAMPLES, CLASSES, MOMENTUM = 7, 3, 0.9

# Ways to train the layers on several ranks.
WAYS = {"data": "-n 2 --zero 2", "domain": "-n 2 --mesh domain=2", "tensor": "-n 2 --mesh tensor=2", "pipeline": "-n 2 --mesh pipeline=2"}
# Layers alone: what they are called in both, weft's keys, and the module of PyTorch.
LAYERS = {"layers": [
    ("narrow", "type: conv, filters: 6, kernel: 3, padding: 1, stride: 2", "nn.Conv2d(3, 6, 3, 2, 1)"),
    ("leaky", "type: leaky_relu, slope: 0.2", "nn.LeakyReLU(0.2)"),
    ("norm", "type: group_norm, groups: 2", "nn.GroupNorm(2, 6)"),
    ("up", "type: conv_transpose, filters: 5", "nn.ConvTranspose2d(6, 5, 2, 2)"),
    ("each", "type: instance_norm", "nn.InstanceNorm2d(5, affine=True)"),
    ("larger", "type: upsample, scale: [2, 3]", "nn.Upsample(scale_factor=(2, 3))"),
    ("swish", "type: hardswish", "nn.Hardswish()"),
    ("wide", "type: conv_transpose, filters: 4, kernel: 3, stride: 2, padding: 1", "nn.ConvTranspose2d(5, 4, 3, 2, 1)"),
    ("six", "type: relu6", "nn.ReLU6()"),
    ("groups", "type: conv_transpose, filters: 6, kernel: [3, 2], stride: 1, groups: 2, dilation: 2", "nn.ConvTranspose2d(4, 6, (3, 2), groups=2, dilation=2)"),
    ("elu", "type: elu, alpha: 0.7", "nn.ELU(0.7)"),
    ("depthwise", "type: conv, filters: 6, kernel: 3, groups: 6, stride: 3, bias: false", "nn.Conv2d(6, 6, 3, 3, groups=6, bias=False)"),
    ("hard", "type: hardsigmoid", "Hardsigmoid()"),
    ("flat", "type: flatten", "nn.Flatten()"),
    ("fc", "type: dense, units: outputs", "nn.LazyLinear(3)"),
], "sizes": [
    ("wide", "type: conv, filters: 4, padding: 1", "nn.Conv2d(3, 4, 3, 1, 1)"),
    ("most", "type: maxpool, kernel: 3, stride: 2, ceil: true", "nn.MaxPool2d(3, 2, ceil_mode=True)"),
    ("between", "type: upsample, scale: [2, 3], mode: bilinear", "nn.Upsample(scale_factor=(2, 3), mode='bilinear')"),
    ("mean", "type: avgpool, kernel: [3, 2], stride: [2, 3], padding: 1, ceil: true", "nn.AvgPool2d((3, 2), (2, 3), 1, True, False)"),
    ("corners", "type: upsample, size: [9, 5], mode: bilinear, align_corners: true", "nn.Upsample((9, 5), mode='bilinear', align_corners=True)"),
    ("conv", "type: conv, filters: 5, padding: 2", "nn.Conv2d(4, 5, 3, 1, 2)"),
    ("parts", "type: adaptive_avgpool, size: [5, 8]", "nn.AdaptiveAvgPool2d((5, 8))"),
    ("shares", "type: softmax", "nn.Softmax(-1)"),
    ("nearest", "type: upsample, size: [7, 12]", "nn.Upsample((7, 12))"),
    ("scale", "type: conv, filters: 3, kernel: 1", "nn.Conv2d(5, 3, 1)"),
    ("divided", "type: adaptive_avgpool, size: [3, 4]", "nn.AdaptiveAvgPool2d((3, 4))"),
    ("flat", "type: flatten", "nn.Flatten()"),
    ("fc", "type: dense, units: outputs", "nn.LazyLinear(3)"),
]}

# name: (model of weft, sides of an image, learning rate, which does not make the run unsteady)
CASES = {
    **{name + way: (f"{name}.yaml", (9, 13), 0.05) for name in LAYERS for way in ("", *("-" + way for way in WAYS))},
    "resnet18": ("resnet:width=4", (35, 28), 0.002),
    "tuned": ("resnet:width=4", (35, 28), 0.002),
    "resnet50": ("resnet:depth=50,width=4", (40, 35), 0.0003),
    "mobilenet": ("mobilenet:width=0.1,dropout=0", (33, 40), 0.001),
    "densenet": ("densenet:growth=2", (41, 64), 0.001),
    "googlenet": ("googlenet:width=4,dropout=0", (47, 62), 0.0005),
    "unet": ("unet:depth=2,width=3", (16, 12), 0.01),
    "unet-domain": ("unet:depth=2,width=3", (16, 12), 0.01),
    "autoencoder": ("autoencoder:conv,code=5,width=3", (12, 8), 0.05),
    "autoencoder-data": ("autoencoder:conv,code=5,width=3", (12, 8), 0.05),
    "vit": ("vit:patch=5,layers=2,heads=3,width=12,hidden=20", (15, 15), 0.02),
    "vit-domain": ("vit:patch=5,layers=2,heads=3,width=12,hidden=20", (15, 15), 0.02),
    "vit-tensor": ("vit:patch=5,layers=2,heads=3,width=12,hidden=20", (15, 15), 0.02),
    "vgg": ("vgg:depth=13,norm,width=2,hidden=9,dropout=0", (97, 64), 0.001),
}


def layers_alone(name):
    import collections
    import torch
    from torch import nn

    class Hardsigmoid(nn.Module):  # that of PyTorch has a sixth in single precision
        def forward(self, x):
            return nn.functional.relu6(x + 3) / 6

    network = nn.Sequential(collections.OrderedDict((name, eval(module, {"nn": nn, "Hardsigmoid": Hardsigmoid})) for name, _, module in LAYERS[name]))
    network(torch.zeros(1, 3, *CASES[name][1]))
    return network


def narrow_resnet(block, blocks, width, classes=CLASSES):
    """A network of torchvision whose first stage has `width` channels in place of 64."""
    from torch import nn
    from torchvision.models import resnet

    class Narrow(resnet.ResNet):
        def __setattr__(self, name, value):
            super().__setattr__(name, width if name == "inplanes" and "inplanes" not in self.__dict__ else value)

        def _make_layer(self, kind, planes, *rest, **more):
            return super()._make_layer(kind, planes * width // 64, *rest, **more)

    network = Narrow(block, blocks, num_classes=classes)
    network.fc = nn.Linear(8 * width * block.expansion, classes)
    return network


def narrow_vgg(layers, width, hidden):
    """A network of torchvision with fewer channels and hidden units."""
    from torch import nn
    from torchvision.models import vgg
    network = vgg.VGG(vgg.make_layers([layer if layer == "M" else layer * width for layer in layers], batch_norm=True), CLASSES, dropout=0)
    for i, sizes in {0: (8 * width * 49, hidden), 3: (hidden, hidden), 6: (hidden, CLASSES)}.items():
        network.classifier[i] = nn.Linear(*sizes)
    return network


def narrow_googlenet(width):
    """A network of torchvision whose convolutions have width / 64 of the channels."""
    from torch import nn
    googlenet = importlib.import_module("torchvision.models.googlenet")

    def conv(read, filters, **how):
        return googlenet.BasicConv2d(3 if read == 3 else joined.get(read) or max(read * width // 64, 1), max(filters * width // 64, 1), **how)

    def module(read, *filters):
        joined[filters[0] + filters[2] + filters[4] + filters[5]] = sum(max(filters[i] * width // 64, 1) for i in (0, 2, 4, 5))
        return googlenet.Inception(read, *filters, conv_block=conv)

    joined = {}
    network = googlenet.GoogLeNet(CLASSES, aux_logits=False, init_weights=False, blocks=[conv, module, None], dropout=0)
    network.fc = nn.Linear(joined[1024], CLASSES)
    return network


def small_unet(depth, width):
    import torch
    from torch import nn

    class Step(nn.Module):
        def __init__(self, read, made, below=0):
            super().__init__()
            if below:
                self.up = nn.ConvTranspose2d(below, made, 2, 2)
            self.conv1, self.norm1 = nn.Conv2d(read, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)
            self.conv2, self.norm2 = nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)

        def forward(self, x, beside=None):
            if beside is not None:
                x = torch.cat((beside, self.up(x)), 1)
            return self.norm2(self.conv2(self.norm1(self.conv1(x)).relu())).relu()

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [width << d for d in range(depth)]
            for d, made in enumerate(sizes):
                self.add_module(f"down{d + 1}", Step(made // 2 if d else 3, made))
            self.bottom = Step(sizes[-1], 2 * sizes[-1])
            for d, made in reversed(list(enumerate(sizes))):
                self.add_module(f"up{d + 1}", Step(2 * made, made, 2 * made))
            self.head = nn.Conv2d(width, CLASSES, 1)

        def forward(self, x):
            beside = []
            for d in range(depth):
                beside.append(getattr(self, f"down{d + 1}")(x))
                x = nn.functional.max_pool2d(beside[-1], 2)
            x = self.bottom(x)
            for d in reversed(range(depth)):
                x = getattr(self, f"up{d + 1}")(x, beside[d])
            return self.head(x)

    return UNet()


def small_autoencoder(code, width, sides):
    from torch import nn
    small = [side // 4 for side in sides]
    size = 2 * width * math.prod(small)
    half = {"kernel_size": 3, "stride": 2, "padding": 1}

    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Module(), nn.Module()
            self.encoder.conv1, self.encoder.conv2, self.encoder.fc = nn.Conv2d(3, width, **half), nn.Conv2d(width, 2 * width, **half), nn.Linear(size, code)
            self.decoder.fc, self.decoder.up1, self.decoder.up2 = nn.Linear(code, size), nn.ConvTranspose2d(2 * width, width, 2, 2), nn.ConvTranspose2d(width, 3, 2, 2)

        def forward(self, x):
            x = self.encoder.fc(self.encoder.conv2(self.encoder.conv1(x).relu()).relu().flatten(1))
            x = self.decoder.fc(x).relu().view(-1, 2 * width, *small)
            return self.decoder.up2(self.decoder.up1(x).relu())

    return Autoencoder()


def network_of(name):
    from torchvision.models import densenet, mobilenetv2, resnet, vision_transformer
    kind = name.partition("-")[0]
    return {
        "vgg": lambda: narrow_vgg([1, 1, "M", 2, 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"], 2, 9),
        "mobilenet": lambda: mobilenetv2.MobileNetV2(num_classes=CLASSES, width_mult=0.1, dropout=0),
        "densenet": lambda: densenet.DenseNet(2, (6, 12, 24, 16), 4, num_classes=CLASSES),
        "googlenet": lambda: narrow_googlenet(4),
        "unet": lambda: small_unet(2, 3),
        "autoencoder": lambda: small_autoencoder(5, 3, CASES[name][1]),
        "vit": lambda: vision_transformer.VisionTransformer(15, 5, 2, 3, 12, 20, num_classes=CLASSES),
        **{name: lambda: layers_alone(kind) for name in LAYERS},
        "resnet18": lambda: narrow_resnet(resnet.BasicBlock, [2, 2, 2, 2], 4),
        "tuned": lambda: narrow_resnet(resnet.BasicBlock, [2, 2, 2, 2], 4, CLASSES + 2),
        "resnet50": lambda: narrow_resnet(resnet.Bottleneck, [3, 4, 6, 3], 4),
    }[kind]()


def numbers(name, shape):
    """Weights of a tensor: about as large as they begin, scales of a normalisation near 1, variances above 0."""
    draw = random.Random(zlib.crc32(name.encode()))
    count = math.prod(shape)
    if name.endswith("num_batches_tracked"):
        return [7]
    if len(shape) > 1:
        size = math.sqrt(6 / math.prod(shape[1:]))
        return [single(draw.uniform(-size, size)) for _ in range(count)]
    low, high = (0.5, 1.5) if name.endswith("running_var") else (0.2, 0.6) if name.endswith("weight") else (-0.3, 0.3)
    return [single(draw.uniform(low, high)) for _ in range(count)]


def torch_tensor(values, dtype):
    import torch
    return torch.tensor(values, dtype=getattr(torch, dtype))


class Case:
    samples, steps, evaluates = SAMPLES, 10, True
    anew = ()  # beginnings of names whose shapes differ

    def __init__(self, name, golden):
        self.name, (self.model, sides, self.rate) = name, CASES[name]
        self.optimizer = ("-o", "sgd", "--lr", str(self.rate), "--momentum", str(MOMENTUM))
        if golden:
            self.shapes = golden[name]["shapes"]
        else:
            self.shapes = [(key, list(value.shape)) for key, value in network_of(name).state_dict().items()]
        self.options = ("--init", "theirs.safetensors:torch", *WAYS.get(name.partition("-")[2], "").split())
        draw = random.Random(7)
        for kind, layers in LAYERS.items():
            with open(kind + ".yaml", "w") as out:
                out.write("layers:\n" + "".join(f"  - {{name: {layer}, {keys}}}\n" for layer, keys, _ in layers))
        self.make_data(draw, sides)
        write_safetensors("theirs.safetensors", {
            key: ("I64" if key.endswith("tracked") else "F64", shape, numbers(key, shape)) for key, shape in self.shapes})

    def make_data(self, draw, sides):
        self.image = [single(draw.uniform(-1, 1)) for _ in range(SAMPLES * 3 * math.prod(sides))]
        self.shape, self.labels = (SAMPLES, 3, *sides), (SAMPLES, *sides) if self.model.startswith("unet") else (SAMPLES,)
        self.label = [i * i // 5 % CLASSES for i in range(math.prod(self.labels))] if len(self.labels) > 1 else [i % CLASSES for i in range(SAMPLES)]
        write_npy("x.npy", "f8", self.shape, self.image)
        write_npy("label.npy", "i8", self.labels, self.label)
        self.data = "npy:x.npy,label=label.npy,test=0"

    def begin(self, network, start):
        state = {key: torch_tensor(numbers(key, shape), "int64" if key.endswith("tracked") else "float64").view(shape)
                 for key, shape in self.shapes}
        network.load_state_dict(state)

    def batch(self, step, loss_of):
        """The samples of a step; loss_of: the loss of samples."""
        return range(SAMPLES)

    def ours(self, network, values):
        """A state of torchvision's by the names and layouts of weft: from the kind of each layer."""
        from torch import nn
        found = {}
        for key, value in values.items():
            layer, _, leaf = key.rpartition(".")
            kind = network.get_submodule(layer)
            if leaf.startswith("in_proj_"):  # of queries, keys and values
                for part, third in zip(("query", "key", "value"), value.chunk(3)):
                    found[f"{self.named(layer)}/{part}/{leaf[8:]}"] = third.t().reshape(-1).tolist() if third.dim() == 2 else third.tolist()
                continue
            if isinstance(kind, (nn.BatchNorm2d, nn.GroupNorm, nn.InstanceNorm2d, nn.LayerNorm)):
                leaf = {"weight": "gamma", "bias": "beta", "running_mean": "mean", "running_var": "variance"}.get(leaf)
            if leaf:
                turned = value.t() if isinstance(kind, nn.Linear) and leaf == "weight" else value
                found[(self.named(layer) + "/" if layer else "") + leaf] = turned.reshape(-1).tolist()
        return found

    def check_export(self, weft):
        """Whether what goes out has the names and shapes of what came in."""
        done = subprocess.run([weft, "export", "run", "-q", "-o", "back.safetensors:torch"], capture_output=True, text=True)
        self.back = read_safetensors("back.safetensors") if done.returncode == 0 else {}
        ours, theirs = ({key: shape for key, shape in some if not key.startswith(self.anew)}
                        for some in (((key, shape) for key, (shape, _) in self.back.items()), self.shapes))
        if ours != theirs:
            print(f"{self.name}: {done.stderr}there are {set(ours) - set(theirs)} in place of {set(theirs) - set(ours)}, or other shapes")
        return ours == theirs

    def predict_again(self):
        """The loss of a prediction by torchvision with the weights of weft."""
        network = network_of(self.name).double()
        if self.anew:
            network.fc = type(network.fc)(network.fc.in_features, CLASSES).double()
        network.load_state_dict({key: torch_tensor(values, "int64" if key.endswith("tracked") else "float64").view(shape)
                                 for key, (shape, values) in self.back.items()}, strict=True)
        network.eval()
        loss = self.loss(network, slice(None)).item()
        if abs(loss - self.figures["prediction"]) > 1e-8 * abs(loss):
            sys.exit(f"{self.name}: torchvision predicts {loss} with the weights of weft, which predicts {self.figures['prediction']}")

    def named(self, layer):
        return layer.replace(".", "/").replace("out_proj", "output")

    def loss(self, network, some):
        """The loss of some of the samples."""
        from torch.nn import functional as F
        return F.cross_entropy(network(self.x[some]), self.y[some])

    def of_torch(self, start):
        import torch
        network = network_of(self.name).double()
        self.begin(network, start)
        self.x, self.y = torch_tensor(self.image, "float64").view(self.shape), torch.tensor(self.label).view(self.labels)

        def loss_of(some):
            return self.loss(copy.deepcopy(network), list(some)).item()
        optimizer = torch.optim.SGD(network.parameters(), lr=self.rate, momentum=MOMENTUM)
        losses, gradients = [], {}
        for step in range(self.steps):
            optimizer.zero_grad()
            some = list(self.batch(step, loss_of))
            loss = self.loss(network, some)
            losses.append(loss.item())
            loss.backward()
            if step == 0:
                gradients = {key: value.grad for key, value in network.named_parameters()}
                gradients |= {key: torch.zeros_like(value) for key, value in network.named_buffers()}
            optimizer.step()
        network.eval()
        self.predict_again()
        return {"losses": losses, "prediction": self.loss(network, slice(None)).item(), "gradients": self.ours(network, gradients), "weights": self.ours(network, network.state_dict()),
                "shapes": self.shapes}


class Reconstructed(Case):
    """The target is the sample."""

    def make_data(self, draw, sides):
        super().make_data(draw, sides)
        self.data = "reconstruct:" + self.data

    def loss(self, network, some):
        from torch.nn import functional as F
        return F.mse_loss(network(self.x[some]), self.x[some])


class Tuned(Case):
    """A folder of pictures, and a last layer for other classes, which begins as weft has drawn it."""
    samples, anew = 3, ("fc.",)

    def make_data(self, draw, sides):
        self.shape, self.label = (2 * self.samples, 3, *sides), [i % CLASSES for i in range(2 * self.samples)]
        self.labels = (2 * self.samples,)
        self.label.sort()
        self.image = []
        for i, label in enumerate(self.label):
            os.makedirs(f"pictures/{label}", exist_ok=True)
            pixels = [draw.randrange(256) for _ in range(3 * math.prod(sides))]
            with open(f"pictures/{label}/{i}.png", "wb") as out:
                out.write(png(sides[1], sides[0], pixels, 2))
            self.image += pixels[0::3] + pixels[1::3] + pixels[2::3]
        self.data = "images:pictures,test=0"

    def begin(self, network, start):
        super().begin(network, start)
        (width, classes), weight = start["fc/weight"]
        network.fc = type(network.fc)(width, classes).double()
        network.fc.load_state_dict({"weight": torch_tensor(weight, "float64").view(width, classes).t(), "bias": torch_tensor(start["fc/bias"][1], "float64")})

    def batch(self, step, loss_of):
        """The samples whose loss is that of weft; those that are left end an epoch."""
        every = range(2 * self.samples)
        if step % 2:
            return [i for i in every if i not in self.before]
        self.before = min(itertools.combinations(every, self.samples), key=lambda some: abs(loss_of(some) - self.figures["losses"][step]))
        return self.before


def cases(given):
    golden = json.load(open(given.golden)) if given.golden else None
    kinds = {"tuned": Tuned, "autoencoder": Reconstructed}
    return (kinds.get(name.partition("-")[0], Case)(name, golden) for name in CASES if not given.only or name in given.only)


if __name__ == "__main__":
    main(cases, [("cpu", "f64", 1e-10)], lambda parser: parser.add_argument("--only", nargs="*", help="these cases alone"))
