# SPDX-License-Identifier: Apache-2.0
"""The models that parity.py exports and trains, written as the libraries write them from which people export.

GPT-2, BERT and a LLaMA-like block follow Hugging Face's modules operation by operation; ResNet-50 and ViT-B/16 are torchvision's. Nothing is
drawn at random: dropout has ratio 0, and is exported all the same.
"""
import math

import torch
import torchvision
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    """GPT-2's linear layer: the weight is (in, out)."""

    def __init__(self, out, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, out) * 0.02), nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + (self.bias.numel(),))


def new_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = Conv1D(3 * width, width), Conv1D(width, width)
        self.c_fc, self.mlp_proj = Conv1D(4 * width, width), Conv1D(width, 4 * width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.0), nn.Dropout(0.0)
        self.register_buffer("causal", torch.tril(torch.ones(context, context, dtype=torch.uint8)).view(1, 1, context, context))

    def attention(self, x):
        query, key, value = self.c_attn(x).split(x.size(-1), dim=2)
        query, key, value = (y.view(y.size()[:-1] + (self.heads, y.size(-1) // self.heads)).permute(0, 2, 1, 3) for y in (query, key, value))
        scores = torch.matmul(query, key.transpose(-1, -2))
        scores = scores / torch.full([], value.size(-1) ** 0.5, dtype=scores.dtype)
        hidden = self.causal[:, :, key.size(-2) - query.size(-2):key.size(-2), :key.size(-2)].to(torch.bool)
        scores = torch.where(hidden, scores, torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype))
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        return self.resid_dropout(self.attn_proj(mixed.view(mixed.size()[:-2] + (x.size(-1),))))

    def forward(self, x):
        x = self.attention(self.ln_1(x)) + x
        return x + self.resid_dropout(self.mlp_proj(new_gelu(self.c_fc(self.ln_2(x)))))


class Gpt2(nn.Module):
    """GPT2LMHeadModel: the table of words is the last layer's weight, too."""

    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, context=128):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(0.0)
        self.h = nn.ModuleList(Gpt2Block(width, heads, context) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(0, tokens.size(-1), dtype=torch.long).unsqueeze(0).view(-1, tokens.size(-1))
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.intermediate, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.0)

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, x.size(-1) // self.heads)).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1)) + mask
        mixed = torch.matmul(self.dropout(F.softmax(scores, dim=-1)), value).permute(0, 2, 1, 3).contiguous()
        x = self.norm_1(self.dropout(self.dense(mixed.view(mixed.size()[:-2] + (x.size(-1),)))) + x)
        return self.norm_2(self.dropout(self.output(F.gelu(self.intermediate(x)))) + x)


class Bert(nn.Module):
    """BertForMaskedLM."""

    def __init__(self, layers=12, width=768, heads=12, vocabulary=30522, context=128, kinds=2):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.token_type_embeddings, self.norm = nn.Embedding(kinds, width), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.0)
        self.layer = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.transform, self.transform_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.decoder = nn.Linear(width, vocabulary)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.decoder.weight = self.word_embeddings.weight
        self.register_buffer("position_ids", torch.arange(context).expand((1, -1)))

    def forward(self, input_ids, attention_mask, token_type_ids):
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        x = self.dropout(self.norm(x + self.position_embeddings(self.position_ids[:, 0:input_ids.size(1)])))
        for layer in self.layer:
            x = layer(x, mask)
        return self.decoder(self.transform_norm(F.gelu(self.transform(x))))


class Lstm(nn.Module):
    """A language model of two recurrent layers."""

    def __init__(self, vocabulary=10000, width=650, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), dim=-1)


class LlamaBlock(nn.Module):
    """Grouped heads, several queries share a key and a value, and rotated positions."""

    def __init__(self, width, heads, groups, context):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q_proj, self.o_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(2 * width, width, bias=False)
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        frequency = 1.0 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size)
        angle = torch.outer(torch.arange(context).float(), frequency)
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos_cached", angle.cos()[None, None])
        self.register_buffer("sin_cached", angle.sin()[None, None])

    def rotate(self, x):
        length = x.size(2)
        return x * self.cos_cached[:, :, :length] + rotate_half(x) * self.sin_cached[:, :, :length]

    def repeat(self, x):
        n, groups, length, size = x.shape
        x = x[:, :, None, :, :].expand(n, groups, self.heads // groups, length, size)
        return x.reshape(n, self.heads, length, size)

    def attention(self, x, mask):
        n, length, width = x.size()
        query = self.q_proj(x).view(n, length, self.heads, self.size).transpose(1, 2)
        key = self.k_proj(x).view(n, length, self.groups, self.size).transpose(1, 2)
        value = self.v_proj(x).view(n, length, self.groups, self.size).transpose(1, 2)
        weights = torch.matmul(self.rotate(query), self.repeat(self.rotate(key)).transpose(2, 3)) / math.sqrt(self.size) + mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float32)
        mixed = torch.matmul(weights, self.repeat(value)).transpose(1, 2).contiguous()
        return self.o_proj(mixed.reshape(n, length, width))

    def forward(self, x, mask):
        x = x + self.attention(self.input_layernorm(x), mask)
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    def __init__(self, layers=2, width=16, heads=4, groups=2, vocabulary=61, context=12):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, groups, context) for _ in range(layers))
        self.norm, self.lm_head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.full((context, context), torch.finfo(torch.float32).min).triu(1)[None, None])

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.lm_head(self.norm(x))


class PackedAttention(nn.Module):
    """As timm's vision transformers: one projection, split by one view and one permutation."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj, self.dropout = heads, nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(0.0)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = self.dropout(((q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1))
        return self.proj((weights @ v).transpose(1, 2).reshape(n, length, width))


class FoldedAttention(nn.Module):
    """As BART: queries scaled first, heads folded into samples, the mask expanded to pairs."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        n, length, width = x.size()
        return x.view(n, length, self.heads, self.size).transpose(1, 2).contiguous().view(n * self.heads, length, self.size)

    def forward(self, x, mask):
        n, length, width = x.size()
        q, k, v = self.split(self.q_proj(x) * self.size ** -0.5), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        hidden = 1.0 - mask[:, None, None, :].expand(n, 1, length, length).to(x.dtype)
        hidden = hidden.masked_fill(hidden.to(torch.bool), torch.finfo(x.dtype).min)
        weights = torch.bmm(q, k.transpose(1, 2)).view(n, self.heads, length, length) + hidden
        weights = F.softmax(weights.view(n * self.heads, length, length), dim=-1)
        mixed = torch.bmm(weights, v).view(n, self.heads, length, self.size).transpose(1, 2)
        return self.out_proj(mixed.reshape(n, length, width))


class FilledAttention(FoldedAttention):
    """As DistilBERT: scores filled where the mask is zero."""

    def split(self, x):
        return x.view(x.size(0), -1, self.heads, self.size).transpose(1, 2)

    def forward(self, x, mask):
        n, length, width = x.size()
        q, k, v = self.split(self.q_proj(x)) / math.sqrt(self.size), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        scores = torch.matmul(q, k.transpose(2, 3))
        hidden = (mask == 0).view(n, 1, 1, length).expand_as(scores)
        weights = F.softmax(scores.masked_fill(hidden, torch.finfo(x.dtype).min), dim=-1)
        return self.out_proj(torch.matmul(weights, v).transpose(1, 2).contiguous().view(n, length, width))


class Variants(nn.Module):
    """Attention as written by several libraries, one after the other."""

    def __init__(self, vocabulary=61, width=16, heads=2, context=12):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(1, context, width))
        self.packed, self.folded, self.filled = PackedAttention(width, heads), FoldedAttention(width, heads), FilledAttention(width, heads)
        self.norm_1, self.norm_2, self.norm_3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, input_ids, attention_mask):
        x = self.embedding(input_ids) + self.positions
        x = x + self.packed(self.norm_1(x))
        x = x + self.folded(self.norm_2(x), attention_mask)
        return self.head(x + self.filled(self.norm_3(x), attention_mask))


class SmallResNet(nn.Module):
    """ResNet-50's layers from end to end, few and narrow."""

    def __init__(self):
        super().__init__()
        block = torchvision.models.resnet.Bottleneck
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(block(8, 4, 1, nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16))), block(16, 4))
        self.layer2 = nn.Sequential(block(16, 6, 2, nn.Sequential(nn.Conv2d(16, 24, 1, 2, bias=False), nn.BatchNorm2d(24))))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(24, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(x))), 1))


def full(name):
    """A model, and the sizes of its samples."""
    models = {
        "gpt2": lambda: (Gpt2(), {"batch": 1, "tokens": 128, "vocabulary": 50257}),
        "bert": lambda: (Bert(), {"batch": 2, "tokens": 64 * 2, "vocabulary": 30522}),
        "lstm": lambda: (Lstm(), {"batch": 20, "tokens": 35, "vocabulary": 10000}),
        # Without the option a fresh ResNet-50 and few images amplify rounding until PyTorch's own losses differ by 1e-2 between memory formats.
        "resnet50": lambda: (torchvision.models.resnet50(zero_init_residual=True), {"batch": 4, "image": 128, "classes": 1000}),
        "vit_b_16": lambda: (torchvision.models.vit_b_16(dropout=0.0, attention_dropout=0.0), {"batch": 2, "image": 224, "classes": 1000}),
    }
    return models[name]()


def small(name):
    models = {
        "gpt2": lambda: (Gpt2(2, 16, 2, 61, 12), {"batch": 2, "tokens": 12, "vocabulary": 61}),
        "bert": lambda: (Bert(2, 16, 2, 61, 12), {"batch": 3, "tokens": 12, "vocabulary": 61}),
        "lstm": lambda: (Lstm(61, 16), {"batch": 3, "tokens": 9, "vocabulary": 61}),
        "resnet50": lambda: (SmallResNet(), {"batch": 4, "image": 16, "classes": 10}),
        "vit_b_16": lambda: (torchvision.models.VisionTransformer(16, 4, 2, 2, 16, 32, num_classes=10), {"batch": 3, "image": 16, "classes": 10}),
        "llama": lambda: (Llama(), {"batch": 2, "tokens": 12, "vocabulary": 61}),
        "variants": lambda: (Variants(), {"batch": 3, "tokens": 12, "vocabulary": 61}),
        "encoder": lambda: (Encoder(), {"batch": 2, "tokens": 12, "vocabulary": 61}),
    }
    return models[name]()


class Encoder(nn.Module):
    """nn.TransformerEncoder as people build it: positions and samples in their order of old, attention by nn.MultiheadAttention."""

    def __init__(self, vocabulary=61, width=16, heads=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))
