# SPDX-License-Identifier: Apache-2.0
"""Training steps of a GPT in PyTorch, for `planloom bench gpu`: torch.compile, its own flash attention, fused AdamW, norms clipped at 1.

    torch_gpt.py LAYERS HEADS WIDTH FEED_FORWARD VOCABULARY CONTEXT BATCH MICRO_BATCH fp32|bf16 [DEVICE]

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


def main():
    layers, heads, width, wide, vocabulary, context, batch, micro = (int(value) for value in sys.argv[1:9])
    device = sys.argv[10] if len(sys.argv) > 10 else "cuda"
    on_gpu = device == "cuda"
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = Gpt(layers, heads, width, wide, vocabulary, context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **({"fused": True} if on_gpu else {}))
    run = torch.compile(model) if on_gpu else model
    half = (lambda: torch.autocast(device, dtype=torch.bfloat16)) if sys.argv[9] == "bf16" else contextlib.nullcontext
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() != "step":
            break
        samples = torch.randint(vocabulary, (2, batch, context), device=device)
        if on_gpu:
            torch.cuda.synchronize()
        begin, processor = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for first in range(0, batch, micro):
            tokens, labels = samples[:, first:first + micro]
            with half():
                loss = run(tokens, labels) * (tokens.shape[0] / batch)
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
