#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the models of this folder with Debian's python3-torch 1.13 and python3-torchvision 0.14, and trains them there.

A folder a model: model.onnx as torch.onnx.export writes it in training mode, the samples of ten steps in data/, and in expected.json how it was
trained and the losses that PyTorch saw. They are checked in, so that the test (tst_exports) needs no PyTorch.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench" / "peer"))
import parity  # noqa: E402

STEPS = 10
NAMES = {"gpt2": 14, "bert": 13, "lstm": 14, "resnet50": 13, "vit_b_16": 14, "encoder": 17, "llama": 16, "variants": 14}

if __name__ == "__main__":
    for name, opset in NAMES.items():
        model, inputs, labels, optimizer, about = parity.prepare(name, HERE / name, True, STEPS, opset)
        losses, _ = parity.train(model, optimizer, inputs, labels, about["batch"], STEPS)
        (HERE / name / "expected.json").write_text(json.dumps({**about, "opset": opset, "losses": losses}, indent=1) + "\n")
