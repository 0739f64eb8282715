#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the models of this folder with Debian's python3-torch 1.13 and python3-torchvision 0.14.

Run in this folder; the files are checked in, so that the tests need no PyTorch. Without weights a file is small and says
all that an importer has to cope with; mlp.onnx carries its weights.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, context, stored_mask):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.stored_mask = stored_mask
        if stored_mask:
            self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = self.qkv(self.ln_1(x)).split(c, dim=2)
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        a = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        mask = self.mask[:, :, :t, :t] if self.stored_mask else torch.tril(torch.ones(t, t)).view(1, 1, t, t)
        a = F.softmax(a.masked_fill(mask == 0, float("-inf")), dim=-1)
        x = x + self.proj((a @ v).transpose(1, 2).contiguous().view(n, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=2, width=32, heads=4, vocabulary=65, context=16, stored_mask=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads, context, stored_mask) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class Recurrent(nn.Module):
    """Words through two recurrent layers."""

    def __init__(self, kind, both):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.layers = kind(12, 16, 2, batch_first=True, bidirectional=both)
        self.head = nn.Linear(32 if both else 16, 50)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens))[0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Gated(nn.Module):
    """LLaMA's gated layer, then GPT-2's with GELU written by tanh, then one with GELU written by erf."""

    def __init__(self, width=8):
        super().__init__()
        self.rms, self.ln_1, self.ln_2 = RmsNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.a, self.b, self.c, self.d = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        y = self.rms(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        y = self.a(self.ln_1(x))
        x = x + self.b(0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0)))))
        y = self.c(self.ln_2(x))
        return x + self.d(y * 0.5 * (1.0 + torch.erf(y / math.sqrt(2.0))))


def scatter(model):
    """Makes every weight different: the exporter merges tensors that are equal, such as fresh biases."""
    for parameter in model.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    return model


def export(model, example, name, weights=False, dynamic=True, opset=14):
    scatter(model).eval()
    torch.onnx.export(model, example, name + ".onnx", export_params=weights, opset_version=opset, input_names=["input"], output_names=["output"],
                      do_constant_folding=weights, dynamic_axes={"input": {0: "N"}, "output": {0: "N"}} if dynamic else None)


if __name__ == "__main__":
    import torchvision.models as vision
    torch.manual_seed(1)
    image = torch.zeros(2, 3, 224, 224)
    tokens = torch.zeros(3, 16, dtype=torch.long)
    export(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.zeros(5, 8), "mlp", weights=True)
    export(vision.resnet50(), image, "resnet50", opset=13)
    export(vision.vgg19(), image, "vgg19", opset=13)
    export(vision.resnet18(), image, "resnet18-fixed", dynamic=False, opset=11)
    export(Gpt(), tokens, "gpt", opset=14)
    export(Gpt(), tokens, "gpt-fixed", dynamic=False, opset=16)
    export(Gpt(stored_mask=True), tokens, "gpt-weights", weights=True, opset=17)
    torch.onnx.export(scatter(vision.resnet18()).train(), image, "resnet18-training.onnx", export_params=False, opset_version=13,
                      input_names=["input"], output_names=["output"], training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      dynamic_axes={"input": {0: "N"}, "output": {0: "N"}})
    encoder = scatter(nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), 2))
    encoder.train()  # the fused inference path has no ONNX form
    torch.onnx.export(encoder, torch.zeros(3, 16, 32), "encoder.onnx", export_params=False, opset_version=13, input_names=["input"],
                      output_names=["output"], training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      dynamic_axes={"input": {0: "N"}, "output": {0: "N"}})
    words = torch.zeros(2, 7, dtype=torch.long)
    export(Gated(), torch.zeros(3, 6, 8), "gated", weights=True, opset=13)
    export(Recurrent(nn.LSTM, False), words, "lstm", weights=True, opset=13)
    export(Recurrent(nn.GRU, True), words, "gru", weights=True, opset=13)
