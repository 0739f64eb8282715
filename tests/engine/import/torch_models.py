# SPDX-License-Identifier: Apache-2.0
"""Models that tst_torch_export writes with resources/tools/export_torch.py."""
import torch
import torch.fx
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.blocks = nn.ModuleList(Block(16) for _ in range(3))
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, tokens, targets):
        return nn.functional.cross_entropy(self.net(tokens).transpose(1, 2), targets)


def tokens():
    return torch.zeros(2, 12, dtype=torch.long)


def make():
    return Net(), tokens()


def traced():
    return torch.fx.symbolic_trace(Net()), (tokens(),)


def trained():
    return WithLoss(), (tokens(), tokens())


def wrong():
    return Net()
