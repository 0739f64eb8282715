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
STEPS, BATCH, RATE = 3, 4, 0.1
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

    def attention(self, q, k, v, scale, causal):
        """[N, H, T, D] each; k and v may have fewer heads."""
        groups = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = q @ k.transpose(-1, -2) * scale
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        n, heads, length, size = q.shape
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, heads * size)


def heads(x, count):
    return x.view(x.size(0), x.size(1), count, -1).transpose(1, 2)


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


class Decoder(Model):
    """modeling_llama.py and the modules that transformers derives from it."""

    context = property(lambda self: self.c["max_position_embeddings"])

    def norm(self, x, name):
        epsilon, width, kind = self.c.get("rms_norm_eps", 1e-6), x.size(-1), self.c["model_type"]
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
        angle = torch.outer(torch.arange(x.size(2), dtype=torch.float64), self.frequencies(x.size(-1), layer))
        angle = torch.cat((angle, angle), -1)
        half = x.size(-1) // 2
        return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()

    def self_attention(self, x, at, layer):
        c, kind = self.c, self.c["model_type"]
        width, count, shared = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        size = c.get("head_dim", width // count)
        bias = kind == "qwen2" or c.get("attention_bias", False)
        if kind == "phi3":
            q, k, v = self.linear(x, at + "qkv_proj", (count + 2 * shared) * size, width, False).split((count * size, shared * size, shared * size), -1)
        else:
            q, k, v = (self.linear(x, at + name, rows * size, width, bias) for name, rows in (("q_proj", count), ("k_proj", shared), ("v_proj", shared)))
        if kind == "olmo2":
            q, k = self.norm(q, at + "q_norm"), self.norm(k, at + "k_norm")
        q, k, v = heads(q, count), heads(k, shared), heads(v, shared)
        if kind in ("qwen3", "gemma3_text"):
            q, k = self.norm(q, at + "q_norm"), self.norm(k, at + "k_norm")
        scale = c["query_pre_attn_scalar"] ** -0.5 if kind == "gemma3_text" else c.get("attention_multiplier", size ** -0.5)
        y = self.attention(self.rotate(q, layer), self.rotate(k, layer), v, scale, True)
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
            elif c["model_type"] == "gemma3_text":
                y = self.self_attention(self.norm(x, at + "input_layernorm"), at + "self_attn.", i)
                x = x + self.norm(y, at + "post_attention_layernorm")
                y = self.mlp(self.norm(x, at + "pre_feedforward_layernorm"), at + "mlp.")
                x = x + self.norm(y, at + "post_feedforward_layernorm")
            else:
                x = x + self.self_attention(self.norm(x, at + "input_layernorm"), at + "self_attn.", i) * share
                x = x + self.mlp(self.norm(x, at + "post_attention_layernorm"), at + "mlp.") * share
        x = self.norm(x, "model.norm")
        head = table if c["tie_word_embeddings"] else self.p("lm_head.weight", c["vocab_size"], c["hidden_size"])
        return x @ head.T / c.get("logits_scaling", 1)


def decoder(kind, **more):
    return {"architectures": [more.pop("architecture")], "model_type": kind, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "hidden_size": 16, "intermediate_size": 24, "vocab_size": 61, "max_position_embeddings": 12,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "transformers_version": "4.48.0",
            **more}


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
    "olmo2": decoder("olmo2", architecture="Olmo2ForCausalLM", num_key_value_heads=2),
    "phi3": decoder("phi3", architecture="Phi3ForCausalLM", num_key_value_heads=4, rope_scaling=None, sliding_window=12),
    "olmo": decoder("olmo", architecture="OlmoForCausalLM", num_key_value_heads=4, clip_qkv=None),
    "granite": decoder("granite", architecture="GraniteForCausalLM", attention_multiplier=0.2, embedding_multiplier=12.0, residual_multiplier=0.22,
                       logits_scaling=8.0, tie_word_embeddings=True),
}
KINDS = {"gpt2": Gpt2, "bert": Bert}
del CONFIGS["olmo"]["rms_norm_eps"]


def train(config):
    """The model and its losses: step s is trained on samples s * BATCH ..., of which labels are the tokens one further on."""
    model = KINDS.get(config["model_type"], Decoder)(config)
    vocabulary, length = config["vocab_size"], model.context
    losses = []
    for step in range(STEPS):
        text = [[token((step * BATCH + sample) * (length + 1) + i, vocabulary) for i in range(length + 1)] for sample in range(BATCH)]
        text = torch.tensor(text)
        logits = model.logits(text[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), text[:, 1:].reshape(-1))
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
            same = all(abs(a - b) < 1e-9 for a, b in zip(losses, expected["losses"])) and model.described == expected["parameters"]
            print(name, "is as written" if same and config == json.loads((HERE / name / "config.json").read_text()) else "DIFFERS")
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
