# SPDX-License-Identifier: Apache-2.0
"""Training steps in PyTorch, for `planloom bench gpu`: torch.compile, its own flash attention, images with channels last, fused AdamW, norms
clipped at 1.

    torch_peer.py gpt LAYERS HEADS WIDTH FEED_FORWARD VOCABULARY CONTEXT BATCH MICRO_BATCH fp32|bf16 [DEVICE]
    torch_peer.py resnet DEPTHS,... CLASSES SIZE BATCH MICRO_BATCH fp32|bf16 [DEVICE]

Prints "ready", then makes one step for each line "step" on standard input; the answer is a line "LOSS SECONDS PROCESSOR_SECONDS". Samples
are random. DEVICE is cuda; cpu is for trying this file, without torch.compile.
"""
import contextlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, heads, width, wide):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_proj = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x):
        samples, tokens, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        query, key, value = (part.view(samples, tokens, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn_proj(mixed.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, wide, vocabulary, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(heads, width, wide) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


    def samples(self, batch, device):
        vocabulary, context = self.tokens.num_embeddings, self.positions.num_embeddings
        return torch.randint(vocabulary, (2, batch, context), device=device)


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        wide = 4 * width
        self.conv1, self.conv2 = nn.Conv2d(channels, width, 1, bias=False), nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(wide)
        self.beside = None
        if stride != 1 or channels != wide:
            self.beside = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + (x if self.beside is None else self.beside(x)))


class ResNet(nn.Module):
    """Of bottlenecks, version 1.5: the stride is in the 3 x 3 convolution (He et al., 2016, section 3.3)."""

    def __init__(self, depths, classes, size):
        super().__init__()
        self.size, channels = size, 64
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks = []
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1))
                channels = 4 * (64 << stage)
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, classes)

    def forward(self, images, labels):
        x = self.blocks(self.stem(images.contiguous(memory_format=torch.channels_last)))
        return F.cross_entropy(self.head(x.mean((2, 3))).float(), labels)

    def samples(self, batch, device):
        images = torch.randn(batch, 3, self.size, self.size, device=device)
        return images, torch.randint(self.head.out_features, (batch,), device=device)


def main():
    kind, *sizes, batch, micro, precision = sys.argv[1:-1] if sys.argv[-1] in ("cuda", "cpu") else sys.argv[1:]
    device = "cpu" if sys.argv[-1] == "cpu" else "cuda"
    batch, micro, on_gpu = int(batch), int(micro), device == "cuda"
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if kind == "gpt":
        model = Gpt(*(int(value) for value in sizes))
    else:
        model = ResNet([int(depth) for depth in sizes[0].split(",")], int(sizes[1]), int(sizes[2])).to(memory_format=torch.channels_last)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **({"fused": True} if on_gpu else {}))
    run = torch.compile(model) if on_gpu else model
    half = (lambda: torch.autocast(device, dtype=torch.bfloat16)) if precision == "bf16" else contextlib.nullcontext
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() != "step":
            break
        inputs, labels = model.samples(batch, device)
        if on_gpu:
            torch.cuda.synchronize()
        begin, processor = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for first in range(0, batch, micro):
            part = slice(first, first + micro)
            with half():
                loss = run(inputs[part], labels[part]) * (len(labels[part]) / batch)
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = total.item()  # waits for the GPU
        if on_gpu:
            torch.cuda.synchronize()
        print(f"{value:.9g} {time.perf_counter() - begin:.6f} {time.process_time() - processor:.6f}", flush=True)


if __name__ == "__main__":
    main()
