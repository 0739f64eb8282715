# SPDX-License-Identifier: Apache-2.0
"""ResNet-50's training step in PyTorch, channels_last, for bench_resnet.

    resnet50.py FOLDER BATCH IMAGE STEPS THREADS

Exports the model and the samples of all steps into FOLDER (as parity.py does), prints "ready", and makes one step for each line "step" on
standard input; the answer is a line "LOSS SECONDS PROCESSOR_SECONDS". SGD with momentum.
"""
import contextlib
import pathlib
import sys
import time

import torch
from torch.nn import functional as F

import parity
import parity_models


def main():
    folder = pathlib.Path(sys.argv[1])
    batch, image, steps, threads = (int(value) for value in sys.argv[2:6])
    torch.set_num_threads(threads)
    full = parity_models.full
    parity_models.full = lambda name: (full(name)[0], {"batch": batch, "image": image, "classes": 1000})
    with contextlib.redirect_stdout(sys.stderr):
        model, inputs, labels, optimizer, about = parity.prepare("resnet50", folder, False, steps, 14)
    how = about["optimizer"]
    (folder / "settings.txt").write_text("".join(f"{key} {how[key]}\n" for key in ("learning_rate", "momentum", "weight_decay")))
    model = model.to(memory_format=torch.channels_last)
    images = parity.fed(inputs["x"]).contiguous(memory_format=torch.channels_last)
    print("ready", flush=True)
    step = 0
    for line in sys.stdin:
        if line.strip() != "step" or step == steps:
            break
        rows = slice(step * batch, (step + 1) * batch)
        begin, processor = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9g} {time.perf_counter() - begin:.6f} {time.process_time() - processor:.6f}", flush=True)
        step += 1


if __name__ == "__main__":
    main()
