#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Small models of Hugging Face's families, written anew from the modules of transformers, and trained with Debian's python3-torch 1.13.

A folder a model: config.json, and in expected.json its parameters under transformers' names with their sizes, and the losses of some steps of
SGD in double precision. First values and tokens follow from names and indices (value(), token()), so that no file holds them. Both are
checked in: the test (tst_huggingface_families) needs no PyTorch.

usage: export.py           writes the folders
       export.py --check   computes the losses again, exit status 1 where they differ, 77 without PyTorch
"""
import json
import math
import pathlib
import sys

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, RATE = 5, 4, 0.1
MASK = 0xFFFFFFFF

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "relu": torch.relu,
    "silu": F.silu,
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]


def mixed(x):
    x ^= x >> 16
    x = x * 0x45D9F3B & MASK
    x ^= x >> 16
    x = x * 0x45D9F3B & MASK
    return x ^ x >> 16


def value(name, index):
    """Between -1 and 1, exact in float32."""
    start = 2166136261
    for byte in name.encode():
        start = (start ^ byte) * 16777619 & MASK
    return (mixed(start + index * 2654435761 & MASK) >> 9) / 4194304 - 1


def token(index, vocabulary):
    return mixed(index + 1) % vocabulary


class Model:
    """Parameters are made where they are first asked for."""

    def __init__(self, config):
        self.c = config
        self.parameters = {}
        self.described = {}

    def p(self, name, *sizes, offset=0.0, scale=0.2):
        if name not in self.parameters:
            count = math.prod(sizes)
            values = torch.tensor([value(name, i) for i in range(count)], dtype=torch.float32) * scale + offset
            self.parameters[name] = values.double().view(sizes).requires_grad_()
            self.described[name] = {"sizes": list(sizes), "offset": offset, "scale": scale}
        return self.parameters[name]

    def linear(self, x, name, rows, columns, bias):
        return F.linear(x, self.p(name + ".weight", rows, columns), self.p(name + ".bias", rows) if bias else None)

    def layer_norm(self, x, name, epsilon):
        width = x.size(-1)
        return F.layer_norm(x, (width,), self.p(name + ".weight", width, offset=1.0), self.p(name + ".bias", width), epsilon)

    def attention(self, q, k, v, scale, causal, cap=None):
        """[N, H, T, D] each; k and v may have fewer heads."""
        groups = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = q @ k.transpose(-1, -2) * scale
        if cap:
            scores = torch.tanh(scores / cap) * cap
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        n, heads, length, size = q.shape
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, heads * size)


def heads(x, count):
    return x.view(x.size(0), x.size(1), count, -1).transpose(1, 2)


def turned(x, theta, size):
    """The first `size` elements of each head, [N, H, T, D]: apply_rotary_pos_emb with rotate_half."""
    x, rest = x[..., :size], x[..., size:]
    inverse = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.outer(torch.arange(x.size(2), dtype=torch.float64), inverse)
    angle = torch.cat((angle, angle), -1)
    x = x * angle.cos() + torch.cat((-x[..., size // 2:], x[..., :size // 2]), -1) * angle.sin()
    return torch.cat((x, rest), -1)


class Gpt2(Model):
    """modeling_gpt2.py."""

    context = property(lambda self: self.c["n_positions"])

    def conv(self, x, name, rows, columns):
        return x @ self.p(name + ".weight", rows, columns) + self.p(name + ".bias", columns)

    def logits(self, tokens):
        c = self.c
        width, epsilon, inner = c["n_embd"], c["layer_norm_epsilon"], c["n_inner"]
        table = self.p("transformer.wte.weight", c["vocab_size"], width)
        x = table[tokens] + self.p("transformer.wpe.weight", c["n_positions"], width)[:tokens.size(1)]
        for i in range(c["n_layer"]):
            at = f"transformer.h.{i}."
            q, k, v = self.conv(self.layer_norm(x, at + "ln_1", epsilon), at + "attn.c_attn", width, 3 * width).split(width, -1)
            q, k, v = (heads(y, c["n_head"]) for y in (q, k, v))
            x = x + self.conv(self.attention(q, k, v, q.size(-1) ** -0.5, True), at + "attn.c_proj", width, width)
            y = ACTIVATIONS[c["activation_function"]](self.conv(self.layer_norm(x, at + "ln_2", epsilon), at + "mlp.c_fc", width, inner))
            x = x + self.conv(y, at + "mlp.c_proj", inner, width)
        return self.layer_norm(x, "transformer.ln_f", epsilon) @ table.T


class Bert(Model):
    """modeling_bert.py, BertForMaskedLM."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def logits(self, tokens):
        c = self.c
        width, inner, epsilon, act = c["hidden_size"], c["intermediate_size"], c["layer_norm_eps"], ACTIVATIONS[c["hidden_act"]]
        e = "bert.embeddings."
        x = self.p(e + "word_embeddings.weight", c["vocab_size"], width)[tokens]
        x = x + self.p(e + "position_embeddings.weight", c["max_position_embeddings"], width)[:tokens.size(1)]
        x = x + self.p(e + "token_type_embeddings.weight", c["type_vocab_size"], width)[0]
        x = self.layer_norm(x, e + "LayerNorm", epsilon)
        for i in range(c["num_hidden_layers"]):
            at = f"bert.encoder.layer.{i}."
            q, k, v = (heads(self.linear(x, at + "attention.self." + name, width, width, True), c["num_attention_heads"])
                       for name in ("query", "key", "value"))
            y = self.attention(q, k, v, q.size(-1) ** -0.5, False)
            x = self.layer_norm(self.linear(y, at + "attention.output.dense", width, width, True) + x, at + "attention.output.LayerNorm", epsilon)
            y = act(self.linear(x, at + "intermediate.dense", inner, width, True))
            x = self.layer_norm(self.linear(y, at + "output.dense", width, inner, True) + x, at + "output.LayerNorm", epsilon)
        x = self.layer_norm(act(self.linear(x, "cls.predictions.transform.dense", width, width, True)), "cls.predictions.transform.LayerNorm", epsilon)
        return x @ self.p("cls.predictions.decoder.weight", c["vocab_size"], width).T + self.p("cls.predictions.bias", c["vocab_size"])


class GptNeox(Model):
    """modeling_gpt_neox.py."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def self_attention(self, x, at):
        c = self.c
        width, count, bias = c["hidden_size"], c["num_attention_heads"], c.get("attention_bias", True)
        size = width // count
        packed = self.linear(x, at + "query_key_value", 3 * width, width, bias)
        q, k, v = packed.view(x.size(0), x.size(1), count, 3 * size).transpose(1, 2).chunk(3, -1)
        part = int(size * c["rotary_pct"])
        q, k = turned(q, c["rotary_emb_base"], part), turned(k, c["rotary_emb_base"], part)
        return self.linear(self.attention(q, k, v, size ** -0.5, True), at + "dense", width, width, bias)

    def mlp(self, x, at):
        width, inner = self.c["hidden_size"], self.c["intermediate_size"]
        y = ACTIVATIONS[self.c["hidden_act"]](self.linear(x, at + "dense_h_to_4h", inner, width, True))
        return self.linear(y, at + "dense_4h_to_h", width, inner, True)

    def logits(self, tokens):
        c = self.c
        epsilon = c["layer_norm_eps"]
        x = self.p("gpt_neox.embed_in.weight", c["vocab_size"], c["hidden_size"])[tokens]
        for i in range(c["num_hidden_layers"]):
            at = f"gpt_neox.layers.{i}."
            y = self.self_attention(self.layer_norm(x, at + "input_layernorm", epsilon), at + "attention.")
            if c["use_parallel_residual"]:
                x = self.mlp(self.layer_norm(x, at + "post_attention_layernorm", epsilon), at + "mlp.") + y + x
            else:
                y = y + x
                x = self.mlp(self.layer_norm(y, at + "post_attention_layernorm", epsilon), at + "mlp.") + y
        return self.layer_norm(x, "gpt_neox.final_layer_norm", epsilon) @ self.p("embed_out.weight", c["vocab_size"], c["hidden_size"]).T


class Falcon(Model):
    """modeling_falcon.py: _split_heads() tells its forms apart."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def self_attention(self, x, at):
        c = self.c
        width, count, bias = c["hidden_size"], c["num_attention_heads"], c["bias"]
        size, n, length = width // count, x.size(0), x.size(1)
        if c["new_decoder_architecture"]:
            shared = c["num_kv_heads"]
            qkv = self.linear(x, at + "query_key_value", (count + 2 * shared) * size, width, bias).view(n, length, -1, count // shared + 2, size)
            q, k, v = qkv[:, :, :, :-2], qkv[:, :, :, [-2]], qkv[:, :, :, [-1]]
            q, k, v = (y.flatten(2, 3) for y in (q, k.expand_as(q), v.expand_as(q)))
        elif c["multi_query"]:
            qkv = self.linear(x, at + "query_key_value", (count + 2) * size, width, bias).view(n, length, count + 2, size)
            q, k, v = qkv[..., :-2, :], qkv[..., [-2], :], qkv[..., [-1], :]
        else:
            qkv = self.linear(x, at + "query_key_value", 3 * width, width, bias).view(n, length, count, 3, size)
            q, k, v = qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        q, k = turned(q, c.get("rope_theta", 10000.0), size), turned(k, c.get("rope_theta", 10000.0), size)
        return self.linear(self.attention(q, k, v, size ** -0.5, True), at + "dense", width, width, bias)

    def mlp(self, x, at):
        width, bias = self.c["hidden_size"], self.c["bias"]
        return self.linear(F.gelu(self.linear(x, at + "dense_h_to_4h", 4 * width, width, bias)), at + "dense_4h_to_h", width, 4 * width, bias)

    def logits(self, tokens):
        c = self.c
        epsilon = c["layer_norm_epsilon"]
        table = self.p("transformer.word_embeddings.weight", c["vocab_size"], c["hidden_size"])
        x = table[tokens]
        for i in range(c["num_hidden_layers"]):
            at = f"transformer.h.{i}."
            if c["new_decoder_architecture"]:
                y = self.self_attention(self.layer_norm(x, at + "ln_attn", epsilon), at + "self_attention.")
                x = self.mlp(self.layer_norm(x, at + "ln_mlp", epsilon), at + "mlp.") + y + x
                continue
            normed = self.layer_norm(x, at + "input_layernorm", epsilon)
            y = self.self_attention(normed, at + "self_attention.")
            if c["parallel_attn"]:
                x = self.mlp(normed, at + "mlp.") + y + x
            else:
                x = x + y
                x = x + self.mlp(self.layer_norm(x, at + "post_attention_layernorm", epsilon), at + "mlp.")
        return self.layer_norm(x, "transformer.ln_f", epsilon) @ table.T


class Opt(Model):
    """modeling_opt.py: positions begin at row 2 of their table."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def logits(self, tokens):
        c = self.c
        width, inner, outer, before = c["hidden_size"], c["ffn_dim"], c["word_embed_proj_dim"], c["do_layer_norm_before"]
        at = "model.decoder."
        table = self.p(at + "embed_tokens.weight", c["vocab_size"], outer)
        x = table[tokens]
        if outer != width:
            x = self.linear(x, at + "project_in", width, outer, False)
        x = x + self.p(at + "embed_positions.weight", c["max_position_embeddings"] + 2, width)[2:2 + tokens.size(1)]
        for i in range(c["num_hidden_layers"]):
            at = f"model.decoder.layers.{i}."
            y = self.layer_norm(x, at + "self_attn_layer_norm", 1e-5) if before else x
            q, k, v = (heads(self.linear(y, at + "self_attn." + name, width, width, True), c["num_attention_heads"]) for name in ("q_proj", "k_proj", "v_proj"))
            x = x + self.linear(self.attention(q, k, v, q.size(-1) ** -0.5, True), at + "self_attn.out_proj", width, width, True)
            x = x if before else self.layer_norm(x, at + "self_attn_layer_norm", 1e-5)
            y = self.layer_norm(x, at + "final_layer_norm", 1e-5) if before else x
            x = x + self.linear(ACTIVATIONS[c["activation_function"]](self.linear(y, at + "fc1", inner, width, True)), at + "fc2", width, inner, True)
            x = x if before else self.layer_norm(x, at + "final_layer_norm", 1e-5)
        if before:
            x = self.layer_norm(x, "model.decoder.final_layer_norm", 1e-5)
        if outer != width:
            x = self.linear(x, "model.decoder.project_out", outer, width, False)
        return x @ table.T


class PhiOrStarcoder2(Model):
    """modeling_phi.py and modeling_starcoder2.py."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def logits(self, tokens):
        c = self.c
        phi = c["model_type"] == "phi"
        width, inner, count, shared = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_key_value_heads"]
        size, epsilon, bias = width // count, c["layer_norm_eps" if phi else "norm_epsilon"], phi or c["use_bias"]
        part = int(size * c["partial_rotary_factor"]) if phi else size
        output, up, down = ("dense", "fc1", "fc2") if phi else ("o_proj", "c_fc", "c_proj")
        table = self.p("model.embed_tokens.weight", c["vocab_size"], width)
        x = table[tokens]
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            y = self.layer_norm(x, at + "input_layernorm", epsilon)
            q, k, v = (heads(self.linear(y, at + "self_attn." + name, n * size, width, bias), n)
                       for name, n in (("q_proj", count), ("k_proj", shared), ("v_proj", shared)))
            q, k = turned(q, c["rope_theta"], part), turned(k, c["rope_theta"], part)
            x = x + self.linear(self.attention(q, k, v, size ** -0.5, True), at + "self_attn." + output, width, width, bias)
            if not phi:
                y = self.layer_norm(x, at + "post_attention_layernorm", epsilon)
            x = x + self.linear(ACTIVATIONS[c["hidden_act"]](self.linear(y, at + "mlp." + up, inner, width, bias)), at + "mlp." + down, width, inner, bias)
        x = self.layer_norm(x, "model.final_layernorm" if phi else "model.norm", epsilon)
        return self.linear(x, "lm_head", c["vocab_size"], width, True) if phi else x @ table.T


class T5(Model):
    """modeling_t5.py, T5ForConditionalGeneration."""

    context = property(lambda self: self.c["n_positions"])

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.c["layer_norm_epsilon"]) * self.p(name + ".weight", x.size(-1), offset=1.0)

    def bias(self, name, causal):
        """T5Attention.compute_bias and _relative_position_bucket: [heads, T, T]."""
        c = self.c
        length, count, farthest = self.context, c["relative_attention_num_buckets"], c["relative_attention_max_distance"]
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        table = self.p(name + ".relative_attention_bias.weight", count, c["num_heads"])
        buckets = 0
        if causal:
            distance = -torch.min(distance, torch.zeros_like(distance))
        else:
            count //= 2
            buckets = (distance > 0).long() * count
            distance = distance.abs()
        exact = count // 2
        far = exact + (torch.log(distance.float() / exact) / math.log(farthest / exact) * (count - exact)).long()
        far = torch.min(far, torch.full_like(far, count - 1))
        return table[buckets + torch.where(distance < exact, distance, far)].permute(2, 0, 1)

    def attend(self, x, memory, at, bias):
        c = self.c
        inner = c["num_heads"] * c["d_kv"]
        q, k, v = (heads(self.linear(y, at + name, inner, c["d_model"], False), c["num_heads"]) for y, name in ((x, ".q"), (memory, ".k"), (memory, ".v")))
        mixed = (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v
        return self.linear(mixed.transpose(1, 2).reshape(x.size(0), x.size(1), inner), at + ".o", c["d_model"], inner, False)

    def stack(self, kind, layers, tokens, memory):
        c = self.c
        width, inner, gated = c["d_model"], c["d_ff"], c["feed_forward_proj"].startswith("gated-")
        act = ACTIVATIONS["gelu_new" if c["feed_forward_proj"] == "gated-gelu" else c["feed_forward_proj"]]
        x = self.p("shared.weight", c["vocab_size"], width)[tokens]
        bias = self.bias(kind + ".block.0.layer.0.SelfAttention", memory is not None)
        if memory is not None:
            bias = bias.masked_fill(torch.ones(bias.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        for i in range(layers):
            at = f"{kind}.block.{i}.layer."
            y = self.norm(x, at + "0.layer_norm")
            x = x + self.attend(y, y, at + "0.SelfAttention", bias)
            if memory is not None:
                x = x + self.attend(self.norm(x, at + "1.layer_norm"), memory, at + "1.EncDecAttention", 0)
            at += "1" if memory is None else "2"
            y = self.norm(x, at + ".layer_norm")
            y = act(self.linear(y, at + ".DenseReluDense.wi_0", inner, width, False)) * self.linear(y, at + ".DenseReluDense.wi_1", inner, width, False) \
                if gated else act(self.linear(y, at + ".DenseReluDense.wi", inner, width, False))
            x = x + self.linear(y, at + ".DenseReluDense.wo", width, inner, False)
        return self.norm(x, kind + ".final_layer_norm")

    def logits(self, inputs):
        c = self.c
        x = self.stack("decoder", c["num_decoder_layers"], inputs[1], self.stack("encoder", c["num_layers"], inputs[0], None))
        if c["tie_word_embeddings"]:
            return x * c["d_model"] ** -0.5 @ self.p("shared.weight", c["vocab_size"], c["d_model"]).T
        return self.linear(x, "lm_head", c["vocab_size"], c["d_model"], False)


class Vit(Model):
    """modeling_vit.py, ViTForImageClassification."""

    def logits(self, images):
        c = self.c
        width, inner, epsilon, size = c["hidden_size"], c["intermediate_size"], c["layer_norm_eps"], c["patch_size"]
        e = "vit.embeddings."
        weight = self.p(e + "patch_embeddings.projection.weight", width, c["num_channels"], size, size)
        x = F.conv2d(images, weight, self.p(e + "patch_embeddings.projection.bias", width), stride=size).flatten(2).transpose(1, 2)
        x = torch.cat((self.p(e + "cls_token", 1, 1, width).expand(x.size(0), -1, -1), x), 1)
        x = x + self.p(e + "position_embeddings", 1, x.size(1), width)
        for i in range(c["num_hidden_layers"]):
            at = f"vit.encoder.layer.{i}."
            y = self.layer_norm(x, at + "layernorm_before", epsilon)
            q, k, v = (heads(self.linear(y, at + "attention.attention." + name, width, width, c["qkv_bias"]), c["num_attention_heads"])
                       for name in ("query", "key", "value"))
            x = self.linear(self.attention(q, k, v, q.size(-1) ** -0.5, False), at + "attention.output.dense", width, width, True) + x
            y = self.linear(self.layer_norm(x, at + "layernorm_after", epsilon), at + "intermediate.dense", inner, width, True)
            x = self.linear(ACTIVATIONS[c["hidden_act"]](y), at + "output.dense", width, inner, True) + x
        return self.linear(self.layer_norm(x, "vit.layernorm", epsilon)[:, 0], "classifier", len(c["id2label"]), width, True)


class Decoder(Model):
    """modeling_llama.py and the modules that transformers derives from it."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def norm(self, x, name):
        epsilon, width, kind = self.c.get("rms_norm_eps", 1e-6), x.size(-1), self.c["model_type"]
        if kind == "stablelm":
            return self.layer_norm(x, name, self.c["layer_norm_eps"])
        if kind == "olmo":
            return F.layer_norm(x, (width,), None, None, 1e-5)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
        if kind.startswith("gemma"):
            return x * (1 + self.p(name + ".weight", width))
        return x * self.p(name + ".weight", width, offset=1.0)

    def is_local(self, layer):
        return self.c["model_type"] == "gemma3_text" and (layer + 1) % self.c["sliding_window_pattern"] != 0

    def frequencies(self, size, layer):
        """_compute_default_rope_parameters and its neighbours of modeling_rope_utils.py."""
        theta = self.c["rope_local_base_freq"] if self.is_local(layer) else self.c["rope_theta"]
        inv = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
        how = self.c.get("rope_scaling")
        if how is None or self.is_local(layer):
            return inv
        if how.get("rope_type", how.get("type")) == "linear":
            return inv / how["factor"]
        low, high, old = how["low_freq_factor"], how["high_freq_factor"], how["original_max_position_embeddings"]
        length = 2 * math.pi / inv
        scaled = torch.where(length > old / low, inv / how["factor"], inv)
        smooth = (old / length - low) / (high - low)
        between = (1 - smooth) * scaled / how["factor"] + smooth * scaled
        medium = ~(length < old / high) * ~(length > old / low)
        return torch.where(medium, between, scaled)

    def rotate(self, x, layer):
        if "partial_rotary_factor" in self.c:
            return turned(x, self.c["rope_theta"], int(x.size(-1) * self.c["partial_rotary_factor"]))
        angle = torch.outer(torch.arange(x.size(2), dtype=torch.float64), self.frequencies(x.size(-1), layer))
        angle = torch.cat((angle, angle), -1)
        half = x.size(-1) // 2
        return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()

    def self_attention(self, x, at, layer):
        c, kind = self.c, self.c["model_type"]
        width, count, shared = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        size = c.get("head_dim", width // count)
        bias = kind == "qwen2" or c.get("attention_bias", False) or c.get("use_qkv_bias", False)
        if kind == "phi3":
            q, k, v = self.linear(x, at + "qkv_proj", (count + 2 * shared) * size, width, False).split((count * size, shared * size, shared * size), -1)
        else:
            q, k, v = (self.linear(x, at + name, rows * size, width, bias) for name, rows in (("q_proj", count), ("k_proj", shared), ("v_proj", shared)))
        if kind == "olmo2":
            q, k = self.norm(q, at + "q_norm"), self.norm(k, at + "k_norm")
        q, k, v = heads(q, count), heads(k, shared), heads(v, shared)
        if kind in ("qwen3", "gemma3_text"):
            q, k = self.norm(q, at + "q_norm"), self.norm(k, at + "k_norm")
        scale = c["query_pre_attn_scalar"] ** -0.5 if kind in ("gemma2", "gemma3_text") else c.get("attention_multiplier", size ** -0.5)
        y = self.attention(self.rotate(q, layer), self.rotate(k, layer), v, scale, True, c.get("attn_logit_softcapping"))
        return self.linear(y, at + "o_proj", width, count * size, c.get("attention_bias", False))

    def mlp(self, x, at):
        c = self.c
        width, inner, bias = c["hidden_size"], c["intermediate_size"], c.get("mlp_bias", False)
        if c["model_type"] == "phi3":
            gate, up = self.linear(x, at + "gate_up_proj", 2 * inner, width, False).chunk(2, -1)
        else:
            gate, up = self.linear(x, at + "gate_proj", inner, width, bias), self.linear(x, at + "up_proj", inner, width, bias)
        act = ACTIVATIONS[c.get("hidden_activation", "gelu_pytorch_tanh") if c["model_type"].startswith("gemma") else c["hidden_act"]]
        return self.linear(act(gate) * up, at + "down_proj", width, inner, bias)

    def logits(self, tokens):
        c = self.c
        table = self.p("model.embed_tokens.weight", c["vocab_size"], c["hidden_size"])
        x = table[tokens] * c.get("embedding_multiplier", math.sqrt(c["hidden_size"]) if c["model_type"].startswith("gemma") else 1)
        share = c.get("residual_multiplier", 1)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            if c["model_type"] == "olmo2":
                x = x + self.norm(self.self_attention(x, at + "self_attn.", i), at + "post_attention_layernorm")
                x = x + self.norm(self.mlp(x, at + "mlp."), at + "post_feedforward_layernorm")
            elif c.get("use_parallel_residual"):
                y = self.norm(x, at + "input_layernorm")
                x = x + self.self_attention(y, at + "self_attn.", i) + self.mlp(y, at + "mlp.")
            elif c["model_type"] in ("gemma2", "gemma3_text"):
                y = self.self_attention(self.norm(x, at + "input_layernorm"), at + "self_attn.", i)
                x = x + self.norm(y, at + "post_attention_layernorm")
                y = self.mlp(self.norm(x, at + "pre_feedforward_layernorm"), at + "mlp.")
                x = x + self.norm(y, at + "post_feedforward_layernorm")
            else:
                x = x + self.self_attention(self.norm(x, at + "input_layernorm"), at + "self_attn.", i) * share
                x = x + self.mlp(self.norm(x, at + "post_attention_layernorm"), at + "mlp.") * share
        x = self.norm(x, "model.norm")
        head = table if c["tie_word_embeddings"] else self.p("lm_head.weight", c["vocab_size"], c["hidden_size"])
        logits = x @ head.T / c.get("logits_scaling", 1)
        cap = c.get("final_logit_softcapping")
        return torch.tanh(logits / cap) * cap if cap else logits


def decoder(kind, **more):
    return {"architectures": [more.pop("architecture")], "model_type": kind, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "hidden_size": 16, "intermediate_size": 24, "vocab_size": 61, "max_position_embeddings": 12,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "transformers_version": "4.48.0",
            **more}


def classic(kind, **more):
    return {"architectures": [more.pop("architecture")], "model_type": kind, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32,
            "vocab_size": 61, "max_position_embeddings": 12, "transformers_version": "4.48.0", **more}


def gpt_neox(**more):
    return classic("gpt_neox", architecture="GPTNeoXForCausalLM", intermediate_size=40, hidden_act="gelu", layer_norm_eps=1e-3, rotary_pct=0.5,
                   rotary_emb_base=100, tie_word_embeddings=False, **more)


def falcon(**more):
    return classic("falcon", architecture="FalconForCausalLM", alibi=False, layer_norm_epsilon=1e-3, hidden_dropout=0.0, **more)


def opt(**more):
    return classic("opt", architecture="OPTForCausalLM", ffn_dim=40, activation_function="relu", dropout=0.0, **more)


def stablelm(**more):
    config = decoder("stablelm", architecture="StableLmForCausalLM", hidden_size=32, layer_norm_eps=1e-3, partial_rotary_factor=0.25, **more)
    del config["rms_norm_eps"]
    return config


def t5(**more):
    return {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True, "num_layers": 2, "num_heads": 4,
            "d_model": 16, "d_kv": 6, "d_ff": 24, "vocab_size": 61, "n_positions": 12, "layer_norm_epsilon": 1e-3,
            "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9, "dropout_rate": 0.0, **more}


LLAMA = "LlamaForCausalLM"
CONFIGS = {
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "n_inner": 24, "vocab_size": 61,
             "n_positions": 12, "activation_function": "gelu", "layer_norm_epsilon": 1e-3},
    "bert": {"architectures": ["BertForMaskedLM"], "model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
             "intermediate_size": 24, "vocab_size": 61, "max_position_embeddings": 12, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3,
             "type_vocab_size": 3, "position_embedding_type": "absolute", "tie_word_embeddings": False},
    "llama": decoder("llama", architecture=LLAMA),
    "llama-biases": decoder("llama", architecture=LLAMA, head_dim=6, attention_bias=True, mlp_bias=True, hidden_act="gelu", rms_norm_eps=1e-3,
                            rope_scaling={"type": "linear", "factor": 4.0}, tie_word_embeddings=True),
    "llama-3.1": decoder("llama", architecture=LLAMA, num_key_value_heads=1, rope_theta=100.0,
                         rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                       "original_max_position_embeddings": 32}),
    "mistral": decoder("mistral", architecture="MistralForCausalLM", head_dim=8, sliding_window=None),
    "qwen2": decoder("qwen2", architecture="Qwen2ForCausalLM", rope_theta=1000000.0, use_sliding_window=False, max_window_layers=2,
                     tie_word_embeddings=True),
    "qwen3": decoder("qwen3", architecture="Qwen3ForCausalLM", head_dim=6, rope_theta=1000000.0, attention_bias=False, tie_word_embeddings=True),
    "gemma": decoder("gemma", architecture="GemmaForCausalLM", num_key_value_heads=1, head_dim=8, hidden_act="gelu_pytorch_tanh",
                     tie_word_embeddings=True),
    "gemma3": decoder("gemma3_text", architecture="Gemma3ForCausalLM", num_key_value_heads=1, head_dim=8, hidden_act="gelu_pytorch_tanh",
                      tie_word_embeddings=True, rope_theta=1000000.0, rope_local_base_freq=100.0, query_pre_attn_scalar=12, sliding_window=12,
                      sliding_window_pattern=2, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "gemma2": decoder("gemma2", architecture="Gemma2ForCausalLM", head_dim=8, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True,
                      query_pre_attn_scalar=12, sliding_window=12, attn_logit_softcapping=0.5, final_logit_softcapping=3.0),
    "gpt-neox": gpt_neox(use_parallel_residual=True),
    "gpt-neox-sequential": gpt_neox(use_parallel_residual=False, attention_bias=False),
    "falcon": falcon(new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False),
    "falcon-40b": falcon(new_decoder_architecture=True, multi_query=True, parallel_attn=True, bias=False, num_kv_heads=2),
    "falcon-sequential": falcon(new_decoder_architecture=False, multi_query=False, parallel_attn=False, bias=True),
    "opt": opt(do_layer_norm_before=True, word_embed_proj_dim=32),
    "opt-350m": opt(do_layer_norm_before=False, word_embed_proj_dim=24),
    "phi": classic("phi", architecture="PhiForCausalLM", num_key_value_heads=2, intermediate_size=40, hidden_act="gelu_new", layer_norm_eps=1e-3,
                   partial_rotary_factor=0.5, rope_theta=100.0, tie_word_embeddings=False),
    "starcoder2": classic("starcoder2", architecture="Starcoder2ForCausalLM", num_key_value_heads=2, intermediate_size=40, norm_epsilon=1e-3,
                          hidden_act="gelu_pytorch_tanh", rope_theta=100.0, use_bias=True, sliding_window=12),
    "stablelm": stablelm(use_parallel_residual=False, use_qkv_bias=True),
    "stablelm-parallel": stablelm(use_parallel_residual=True, use_qkv_bias=False),
    "t5": t5(feed_forward_proj="relu", tie_word_embeddings=True, num_decoder_layers=1),
    "t5-gated": t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=2),
    "vit": {"architectures": ["ViTForImageClassification"], "model_type": "vit", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
            "intermediate_size": 24, "image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-3,
            "qkv_bias": True, "id2label": {str(i): f"LABEL_{i}" for i in range(7)}},
    "olmo2": decoder("olmo2", architecture="Olmo2ForCausalLM", num_key_value_heads=2),
    "phi3": decoder("phi3", architecture="Phi3ForCausalLM", num_key_value_heads=4, rope_scaling=None, sliding_window=12),
    "olmo": decoder("olmo", architecture="OlmoForCausalLM", num_key_value_heads=4, clip_qkv=None),
    "granite": decoder("granite", architecture="GraniteForCausalLM", attention_multiplier=0.2, embedding_multiplier=12.0, residual_multiplier=0.22,
                       logits_scaling=8.0, tie_word_embeddings=True),
}
KINDS = {"gpt2": Gpt2, "bert": Bert, "gpt_neox": GptNeox, "falcon": Falcon, "opt": Opt, "phi": PhiOrStarcoder2, "starcoder2": PhiOrStarcoder2, "t5": T5,
         "vit": Vit}
del CONFIGS["olmo"]["rms_norm_eps"]


def batch_of_text(model, step):
    """Tokens, and as labels the tokens one further on."""
    vocabulary, length = model.c["vocab_size"], model.context
    text = [[token((step * BATCH + sample) * (length + 1) + i, vocabulary) for i in range(length + 1)] for sample in range(BATCH)]
    text = torch.tensor(text)
    return text[:, :-1], text[:, 1:].reshape(-1)


def batch_of_two_texts(model, step):
    """The decoder's tokens are those two further on."""
    vocabulary, length = model.c["vocab_size"], model.context
    text = [[token((step * BATCH + sample) * (length + 1) + i, vocabulary) for i in range(length + 2)] for sample in range(BATCH)]
    text = torch.tensor(text)
    return (text[:, :-2], text[:, 2:]), text[:, 1:-1].reshape(-1)


def batch_of_images(model, step):
    c = model.c
    sizes = c["num_channels"], c["image_size"], c["image_size"]
    count = math.prod(sizes)
    samples = range(step * BATCH, (step + 1) * BATCH)
    pixels = torch.tensor([[value("x", sample * count + i) for i in range(count)] for sample in samples], dtype=torch.float64)
    return pixels.view(BATCH, *sizes), torch.tensor([token(sample, len(c["id2label"])) for sample in samples])


def train(config):
    """The model and its losses: step s is trained on samples s * BATCH ..."""
    model = KINDS.get(config["model_type"], Decoder)(config)
    losses = []
    for step in range(STEPS):
        inputs, labels = {"t5": batch_of_two_texts, "vit": batch_of_images}.get(config["model_type"], batch_of_text)(model, step)
        logits = model.logits(inputs)
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters.values()), allow_unused=False)
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters.values(), gradients):
                parameter -= RATE * gradient
        losses.append(loss.item())
    return model, losses


def main():
    torch.manual_seed(0)
    good = True
    for name, config in CONFIGS.items():
        model, losses = train(config)
        if sys.argv[1:] == ["--check"]:
            expected = json.loads((HERE / name / "expected.json").read_text())
            same = len(losses) == len(expected["losses"]) and all(abs(a - b) < 1e-9 for a, b in zip(losses, expected["losses"]))
            same = same and model.described == expected["parameters"] and config == json.loads((HERE / name / "config.json").read_text())
            print(name, "is as written" if same else "DIFFERS")
            good = good and same
            continue
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in model.described.items())
        (HERE / name / "expected.json").write_text(
            f'{{"batch": {BATCH}, "learning_rate": {RATE}, "losses": {json.dumps(losses)}, "parameters": {{\n{lines}\n}}}}\n')
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
