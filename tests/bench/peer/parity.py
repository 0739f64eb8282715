#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a model by torch.onnx.export in training mode, with its weights, and trains it in PyTorch.

    parity.py MODEL FOLDER [--small] [--steps N] [--threads N] [--opset N]

MODEL: gpt2, bert, lstm, resnet50, vit_b_16; with --small also llama, encoder, variants. FOLDER gets model.onnx and data/INPUT.npy, one file for each input of
the model and one for the labels: samples in the order in which they are trained on, of all steps. Prints JSON: how it was trained, the loss of each step and its seconds.
"""
import argparse
import json
import os
import pathlib
import time

import numpy
import torch
from torch.nn import functional as F

import parity_models

KEPT = 0.85  # share of words that masked language modelling leaves alone


def sequences(sizes, samples):
    """Each word has a likely successor, so that there is something to learn."""
    words = torch.empty(samples, sizes["tokens"] + 1, dtype=torch.long)
    words[:, 0] = torch.randint(sizes["vocabulary"], (samples,))
    for i in range(sizes["tokens"]):
        words[:, i + 1] = (words[:, i] * 31 + 7 + torch.randint(3, (samples,))) % min(sizes["vocabulary"], 97)
    return words


def samples_of(name, sizes, count):
    """Inputs by name, in the order of the model's arguments, and labels."""
    if "image" in sizes:
        labels = torch.randint(sizes["classes"], (count,))
        x = torch.randn(count, 3, sizes["image"], sizes["image"]) + (labels.view(-1, 1, 1, 1) % 7 - 3) * 0.3
        return {"x": (x * 40 + 128).clamp(0, 255).to(torch.uint8)}, labels
    words = sequences(sizes, count)
    if name not in ("bert", "variants"):
        return {"tokens": words[:, :-1].contiguous()}, words[:, 1:].contiguous()
    words = words[:, 1:].contiguous()
    length = torch.randint(sizes["tokens"] // 2, sizes["tokens"] + 1, (count, 1))
    position = torch.arange(sizes["tokens"]).view(1, -1)
    mask, kind = (position < length).long(), (position >= length // 2).long()
    chosen = (torch.rand(words.shape) > KEPT) & (mask == 1)
    chosen[:, 0] = True
    labels = torch.where(chosen, words, torch.full_like(words, -100))
    inputs = {"input_ids": torch.where(chosen, torch.zeros_like(words), words), "attention_mask": mask}
    return inputs if name == "variants" else {**inputs, "token_type_ids": kind}, labels


def fed(value):
    """Images are stored as bytes; the engine, too, divides them by 255."""
    return value.float() / 255 if value.dtype == torch.uint8 else value


def export(model, inputs, batch, path, opset):
    example = tuple(fed(value[:batch]) for value in inputs.values())
    torch.onnx.export(model, example, path, opset_version=opset, input_names=list(inputs), output_names=["logits"], training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, dynamic_axes={name: {0: "N"} for name in [*inputs, "logits"]})


def optimizer_of(name, model, small):
    if name == "resnet50":
        how = {"kind": "sgd", "learning_rate": 0.01 if small else 0.001, "momentum": 0.9, "weight_decay": 1e-4}
        return how, torch.optim.SGD(model.parameters(), lr=how["learning_rate"], momentum=how["momentum"], weight_decay=how["weight_decay"])
    how = {"kind": "adamw", "learning_rate": 3e-3 if small else 1e-4, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    return how, torch.optim.AdamW(model.parameters(), lr=how["learning_rate"], betas=(how["beta1"], how["beta2"]), eps=how["epsilon"],
                                  weight_decay=how["weight_decay"], foreach=True)


def train(model, optimizer, inputs, labels, batch, steps):
    losses, seconds = [], []
    for step in range(steps):
        begin = time.perf_counter()
        rows = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad(set_to_none=True)
        logits = model(*(fed(value[rows]) for value in inputs.values()))
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels[rows].view(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    return losses, seconds


def prepare(name, folder, small, steps, opset):
    """Writes the model and its samples; returns them, the optimizer and what is to be known of it all."""
    torch.manual_seed(1)
    model, sizes = (parity_models.small if small else parity_models.full)(name)
    model.train()
    inputs, labels = samples_of(name, sizes, sizes["batch"] * steps)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for key, values in {**inputs, "labels": labels}.items():
        numpy.save(folder / "data" / (key + ".npy"), values.numpy())
    export(model, inputs, sizes["batch"], str(folder / "model.onnx"), opset)
    how, optimizer = optimizer_of(name, model, small)
    return model, inputs, labels, optimizer, {"batch": sizes["batch"], "sizes": sizes, "optimizer": how, "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--opset", type=int, default=14)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, inputs, labels, optimizer, about = prepare(options.model, options.folder, options.small, options.steps, options.opset)
    losses, seconds = train(model, optimizer, inputs, labels, about["batch"], options.steps)
    print(json.dumps({**about, "losses": losses, "seconds": seconds}))


if __name__ == "__main__":
    main()
