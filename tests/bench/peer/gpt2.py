# SPDX-License-Identifier: Apache-2.0
"""GPT-2's training step in PyTorch, with the weights and samples that bench_peer wrote into a folder.

    gpt2.py FOLDER

FOLDER holds settings.txt (KEY VALUE lines), weights.txt (NAME SIZE SIZE ... lines, in the order of weights.bin, float32) and
tokens.bin (int64: tokens, then labels, of each step). Each line "step" on standard input makes one step; the answer is a line
"LOSS SECONDS PROCESSOR_SECONDS". The mathematics is Hugging Face's GPT2LMHeadModel without dropout.
"""
import pathlib
import sys
import time

import torch
from torch.nn import functional as F


def read_weights(folder):
    flat = torch.from_file(str(folder / "weights.bin"), size=(folder / "weights.bin").stat().st_size // 4)
    weights, begin = {}, 0
    for line in (folder / "weights.txt").read_text().splitlines():
        name, *sizes = line.split()
        sizes = [int(size) for size in sizes]
        count = 1
        for size in sizes:
            count *= size
        weights[name] = flat[begin:begin + count].view(sizes).clone().requires_grad_()
        begin += count
    return weights


def attention(x, heads, hidden):
    samples, tokens, width = x.shape
    query, key, value = (part.view(samples, tokens, heads, width // 3 // heads).transpose(1, 2) for part in x.split(width // 3, dim=2))
    scores = (query @ key.transpose(2, 3)) * (width // 3 // heads) ** -0.5
    scores = scores.masked_fill(hidden, float("-inf"))
    return (F.softmax(scores, dim=-1) @ value).transpose(1, 2).reshape(samples, tokens, width // 3)


def conv1d(x, weights, name):
    bias = weights[name + ".bias"]
    return torch.addmm(bias, x.view(-1, x.shape[-1]), weights[name + ".weight"]).view(*x.shape[:-1], bias.numel())


def norm(x, weights, name):
    return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-5)


def loss_of(weights, layers, heads, hidden, tokens, labels):
    table = weights["transformer.wte.weight"]
    x = F.embedding(tokens, table) + weights["transformer.wpe.weight"]
    for layer in range(layers):
        prefix = f"transformer.h.{layer}."
        mixed = attention(conv1d(norm(x, weights, prefix + "ln_1"), weights, prefix + "attn.c_attn"), heads, hidden)
        x = x + conv1d(mixed, weights, prefix + "attn.c_proj")
        wide = F.gelu(conv1d(norm(x, weights, prefix + "ln_2"), weights, prefix + "mlp.c_fc"), approximate="tanh")
        x = x + conv1d(wide, weights, prefix + "mlp.c_proj")
    x = norm(x, weights, "transformer.ln_f")
    logits = F.linear(x.view(-1, x.shape[-1]), table)
    return F.cross_entropy(logits, labels.view(-1))


def main():
    folder = pathlib.Path(sys.argv[1])
    settings = dict(line.split() for line in (folder / "settings.txt").read_text().splitlines())
    batch, context = int(settings["batch"]), int(settings["context"])
    torch.set_num_threads(int(settings["threads"]))
    weights = read_weights(folder)
    optimizer = torch.optim.AdamW(weights.values(), lr=float(settings["learning_rate"]), betas=(float(settings["beta1"]), float(settings["beta2"])),
                                  eps=float(settings["epsilon"]), weight_decay=float(settings["weight_decay"]), foreach=True)
    size = (folder / "tokens.bin").stat().st_size // 8
    samples = torch.from_file(str(folder / "tokens.bin"), size=size, dtype=torch.int64).view(-1, 2, batch, context)
    hidden = torch.ones(context, context, dtype=torch.bool).triu(1)
    step = 0
    for line in sys.stdin:
        if line.strip() != "step":
            break
        begin, processor = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(weights, int(settings["layers"]), int(settings["heads"]), hidden, *samples[step % len(samples)])
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9g} {time.perf_counter() - begin:.6f} {time.process_time() - processor:.6f}", flush=True)
        step += 1


if __name__ == "__main__":
    main()
