#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the models of this folder with Debian's python3-torch 1.13 and trains them there, on the digits of ../data.

A folder a model: model.onnx as torch.onnx.export writes it in training mode, the samples of ten steps in data/, and in expected.json how it was
trained, with which --loss, and the losses that PyTorch saw. They are checked in, so that the test (tst_losses) needs no PyTorch.

unet        which digit each pixel of a canvas belongs to: classes along axis 1, the canvas's border does not count
regression  what number a digit is: one value a sample
detector    three heads: the digit, its box (of which one number a sample does not count), the rows with ink (multi-label)
own         two inputs to compare with, and the loss computed in the file
own_pixels  the same of classes along axis 1, of log-probabilities and of logits with shares
denoise     the digit without its noise: images compared with images
"""
import gzip
import json
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, SIDE = 10, 8, 16
RATE = 3e-3


def digits():
    """Images of 8 x 8 in 0 to 1, and which digits they are; shuffled."""
    with gzip.open(HERE.parent / "data" / "digits.csv.gz", "rt") as lines:
        table = torch.tensor([[float(cell) for cell in line.split(",")] for line in lines if line[0].isdigit()])
    table = table[torch.randperm(len(table))][:STEPS * BATCH]
    return table[:, :-1].view(-1, 1, 8, 8) / 16, table[:, -1].long()


def canvases(images):
    """Each digit somewhere on a canvas: the canvases, and the corners of the digits."""
    corners = torch.randint(SIDE - 8 + 1, (len(images), 2))
    canvas = torch.zeros(len(images), 1, SIDE, SIDE)
    for i, (top, left) in enumerate(corners.tolist()):
        canvas[i, :, top:top + 8, left:left + 8] = images[i]
    return (canvas * 255).round().to(torch.uint8), corners


class UNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.up, self.head = nn.Conv2d(3 * width, width, 3, padding=1), nn.Conv2d(width, 11, 1)

    def forward(self, x):
        shallow = F.relu(self.down(x))
        deep = F.relu(self.deep(F.max_pool2d(shallow, 2)))
        return self.head(F.relu(self.up(torch.cat([shallow, F.interpolate(deep, scale_factor=2.0)], 1))))


class Detector(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.digit, self.box, self.rows = (nn.Linear(width * SIDE, out) for out in (10, 4, SIDE))

    def forward(self, x):
        features = self.body(x)
        return self.digit(features), self.box(features), torch.sigmoid(self.rows(features))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.digit = nn.Linear(64, 16), nn.Linear(16, 1), nn.Linear(16, 10)

    def forward(self, x, value, digit):
        features = torch.tanh(self.body(x))
        return (self.value(features) - value).pow(2).mean() + 0.5 * F.cross_entropy(self.digit(features), digit)


class OwnPixels(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body, self.ink, self.digit = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 3, 1), nn.Linear(width * 64, 10)

    def forward(self, x, ink, digit, rows):
        features = F.relu(self.body(x))
        scores = F.log_softmax(self.digit(features.flatten(1)), dim=1)
        logits = self.ink(features)
        return F.cross_entropy(logits, ink) + F.nll_loss(scores, digit) + 0.5 * F.binary_cross_entropy_with_logits(logits[:, 0].amax(2), rows)


class Denoise(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x):
        return self.body(x)


def unet():
    images, labels = digits()
    x, _ = canvases(images)
    classes = torch.where(x[:, 0] > 64, labels.view(-1, 1, 1) + 1, torch.zeros_like(labels).view(-1, 1, 1))
    inner = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    inner[1:-1, 1:-1] = True
    targets = torch.where(inner, classes, torch.full_like(classes, -100)).to(torch.int8)
    return UNet(), {"x": x}, ["logits"], {"labels": targets}, [], lambda y, t: F.cross_entropy(y[0], t["labels"].long())


def regression():
    images, labels = digits()
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, {"x": images.view(-1, 64)}, ["value"], {"targets": labels.view(-1, 1).float()}, ["mse"], lambda y, t: F.mse_loss(y[0], t["targets"])


def detector():
    images, labels = digits()
    x, corners = canvases(images)
    boxes = torch.cat([corners, corners + 8], 1).float() / SIDE
    seen = torch.ones(len(x), 4, dtype=torch.bool)
    seen[torch.arange(len(x)), labels % 4] = False
    rows = (x[:, 0].amax(2) > 64).float()

    def loss(y, t):
        box = F.huber_loss(y[1], t["box.targets"], delta=0.25, reduction="none")[t["box.mask"]].mean()
        return F.cross_entropy(y[0], t["digit.labels"]) + 5 * box + F.binary_cross_entropy(y[2], t["rows.targets"])

    chosen = ["digit=cross-entropy", "box=huber,weight=5,delta=0.25,mask", "rows=binary-cross-entropy"]
    return Detector(), {"x": x}, ["digit", "box", "rows"], {"digit.labels": labels, "box.targets": boxes, "box.mask": seen, "rows.targets": rows}, chosen, loss


def own():
    images, labels = digits()
    return Own(), {"x": images.view(-1, 64), "value": labels.view(-1, 1).float() / 10, "digit": labels}, ["loss"], {}, [], lambda y, t: y[0]


def own_pixels():
    images, labels = digits()
    ink = (images[:, 0] > 0.25).long() + (images[:, 0] > 0.75).long()
    ink[:, :, 0] = -100
    rows = (images[:, 0].amax(2) > 0.5).float()
    return OwnPixels(), {"x": images, "ink": ink, "digit": labels, "rows": rows}, ["loss"], {}, [], lambda y, t: y[0]


def denoise():
    images, _ = digits()
    noisy = images + 0.3 * torch.randn_like(images)
    return Denoise(), {"x": noisy}, ["clean"], {"targets": images}, ["l1"], lambda y, t: F.l1_loss(y[0], t["targets"])


def fed(value):
    """Images are stored as bytes; the engine, too, divides them by 255."""
    return value.float() / 255 if value.dtype == torch.uint8 else value


def main():
    for make in (unet, regression, detector, own, own_pixels, denoise):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        model, inputs, outputs, targets, chosen, loss_of = make()
        folder = HERE / make.__name__
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for name, values in {**inputs, **targets}.items():
            numpy.save(folder / "data" / (name + ".npy"), values.numpy())
        open_batch = {name: {0: "N"} for name in [*inputs, *(outputs if targets else [])]}
        torch.onnx.export(model, tuple(fed(value[:BATCH]) for value in inputs.values()), str(folder / "model.onnx"), opset_version=14, input_names=list(inputs),
                          output_names=outputs, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamic_axes=open_batch)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
        losses = []
        for step in range(STEPS):
            rows = slice(step * BATCH, (step + 1) * BATCH)
            optimizer.zero_grad(set_to_none=True)
            results = model(*(fed(value[rows]) for value in inputs.values()))
            loss = loss_of(results if isinstance(results, tuple) else (results,), {name: value[rows] for name, value in targets.items()})
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        how = {"kind": "adamw", "learning_rate": RATE, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        about = {"batch": BATCH, "optimizer": how, "torch": torch.__version__, "loss": chosen, "losses": losses}
        (folder / "expected.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
