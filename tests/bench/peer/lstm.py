#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the LSTM language model of bench_lstm in PyTorch: same weights, tokens, loss and optimizer.

usage: lstm.py FOLDER
FOLDER holds config.json, one raw float32 file for each parameter and tokens.i64, labels.i64 (steps, batch, context); bench_lstm writes
them. Prints JSON: the loss of each step and its seconds.
"""
import json
import sys
import time
from pathlib import Path

import numpy
import torch


def read(folder, name, shape, kind=numpy.float32):
    return torch.from_numpy(numpy.fromfile(folder / name, dtype=kind).reshape(shape))


def from_onnx(gates, hidden):
    """Rows in the order input, output, forget, cell as input, forget, cell, output."""
    i, o, f, c = gates.split(hidden, 0)
    return torch.cat([i, f, c, o], 0)


class Model(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = torch.nn.Embedding(config["vocabulary"], config["embedding"])
        self.lstm = torch.nn.LSTM(config["embedding"], config["hidden"], config["layers"], batch_first=True)
        self.head = torch.nn.Linear(config["hidden"], config["vocabulary"])

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


def load(model, config, folder):
    hidden, vocabulary = config["hidden"], config["vocabulary"]
    with torch.no_grad():
        model.embedding.weight.copy_(read(folder, "embedding.weight", (vocabulary, config["embedding"])))
        model.head.weight.copy_(read(folder, "head.weight", (vocabulary, hidden)))
        model.head.bias.copy_(read(folder, "head.bias", (vocabulary,)))
        for layer in range(config["layers"]):
            width = config["embedding"] if layer == 0 else hidden
            parts = {
                "weight_ih": from_onnx(read(folder, f"lstm.{layer}.W", (4 * hidden, width)), hidden),
                "weight_hh": from_onnx(read(folder, f"lstm.{layer}.R", (4 * hidden, hidden)), hidden),
            }
            bias = read(folder, f"lstm.{layer}.B", (2, 4 * hidden))
            parts["bias_ih"], parts["bias_hh"] = from_onnx(bias[0], hidden), from_onnx(bias[1], hidden)
            for name, value in parts.items():
                getattr(model.lstm, f"{name}_l{layer}").copy_(value)


def main():
    folder = Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    torch.set_num_threads(config["threads"])
    model = Model(config)
    load(model, config, folder)
    shape = (config["steps"], config["batch"], config["context"])
    tokens, labels = (read(folder, name, shape, numpy.int64) for name in ("tokens.i64", "labels.i64"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["rate"], betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses, seconds = [], []
    for step in range(config["steps"]):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens[step])
        loss = torch.nn.functional.cross_entropy(logits.view(-1, config["vocabulary"]), labels[step].view(-1))
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    print(json.dumps({"losses": losses, "seconds": seconds, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
