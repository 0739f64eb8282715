#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers of parameters by the modules of transformers, summed up from the fields of a config.json, without Planloom and without PyTorch.

usage: counts.py     prints the rows of published.json whose number differs, exit status 1 if there are any
"""
import json
import pathlib
import sys


def linear(rows, columns, bias):
    return rows * columns + (rows if bias else 0)


def gpt2(c):
    w, inner = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    block = 2 * 2 * w + linear(3 * w, w, True) + linear(w, w, True) + linear(inner, w, True) + linear(w, inner, True)
    return (c["vocab_size"] + c["n_positions"]) * w + c["n_layer"] * block + 2 * w


def bert(c):
    w, inner = c["hidden_size"], c["intermediate_size"]
    block = 4 * linear(w, w, True) + 2 * w + linear(inner, w, True) + linear(w, inner, True) + 2 * w
    tables = (c["vocab_size"] + c["max_position_embeddings"] + c.get("type_vocab_size", 2)) * w + 2 * w
    return tables + c["num_hidden_layers"] * block + linear(w, w, True) + 2 * w + c["vocab_size"]


def llama_like(c):
    kind, w, inner = c["model_type"], c["hidden_size"], c["intermediate_size"]
    heads, shared = c["num_attention_heads"], c["num_key_value_heads"]
    size = c.get("head_dim", w // heads)
    bias, qkv_bias = c.get("attention_bias", False), kind == "qwen2" or c.get("use_qkv_bias", False)
    block = linear(heads * size, w, bias or qkv_bias) + 2 * linear(shared * size, w, bias or qkv_bias) + linear(w, heads * size, bias)
    block += 3 * linear(inner, w, False)
    norm = {"olmo": 0, "stablelm": 2 * w}.get(kind, w)
    norms = 4 if kind in ("gemma2", "gemma3_text") else 1 if c.get("use_parallel_residual") else 2
    block += norms * norm
    block += 2 * size if kind in ("qwen3", "gemma3_text") else (heads + shared) * size if kind == "olmo2" else 0
    tables = 1 if c.get("tie_word_embeddings", kind.startswith("gemma")) else 2
    return tables * c["vocab_size"] * w + c["num_hidden_layers"] * block + norm


def gpt_neox(c):
    w, inner, bias = c["hidden_size"], c["intermediate_size"], c.get("attention_bias", True)
    block = 2 * 2 * w + linear(3 * w, w, bias) + linear(w, w, bias) + linear(inner, w, True) + linear(w, inner, True)
    return 2 * c["vocab_size"] * w + c["num_hidden_layers"] * block + 2 * w


def opt(c):
    w, inner, outer = c["hidden_size"], c["ffn_dim"], c["word_embed_proj_dim"]
    block = 4 * linear(w, w, True) + linear(inner, w, True) + linear(w, inner, True) + 2 * 2 * w
    ends = (0 if outer == w else 2 * w * outer) + (2 * w if c["do_layer_norm_before"] else 0)
    return c["vocab_size"] * outer + (c["max_position_embeddings"] + 2) * w + c["num_hidden_layers"] * block + ends


def phi(c):
    w, inner = c["hidden_size"], c["intermediate_size"]
    size = w // c["num_attention_heads"]
    block = 2 * w + 2 * linear(w, w, True) + 2 * linear(c["num_key_value_heads"] * size, w, True) + linear(inner, w, True) + linear(w, inner, True)
    return c["vocab_size"] * w + c["num_hidden_layers"] * block + 2 * w + linear(c["vocab_size"], w, True)


def starcoder2(c):
    w, inner = c["hidden_size"], c["intermediate_size"]
    size = w // c["num_attention_heads"]
    block = 2 * 2 * w + 2 * linear(w, w, True) + 2 * linear(c["num_key_value_heads"] * size, w, True) + linear(inner, w, True) + linear(w, inner, True)
    return (1 if c.get("tie_word_embeddings", True) else 2) * c["vocab_size"] * w + c["num_hidden_layers"] * block + 2 * w


def falcon(c):
    w = c["hidden_size"]
    size = w // c["num_attention_heads"]
    shared = c["num_kv_heads"] if c["new_decoder_architecture"] else 1
    norms = 2 if c["new_decoder_architecture"] else 1
    block = norms * 2 * w + linear(w + 2 * shared * size, w, c["bias"]) + linear(w, w, c["bias"]) + 2 * linear(4 * w, w, False)
    return c["vocab_size"] * w + c["num_hidden_layers"] * block + 2 * w


def t5(c):
    w, inner = c["d_model"], c["num_heads"] * c["d_kv"]
    attention, feed_forward = 4 * linear(inner, w, False), (3 if c.get("feed_forward_proj", "relu").startswith("gated") else 2) * linear(c["d_ff"], w, False)
    encoder, decoder = attention + feed_forward + 2 * w, 2 * attention + feed_forward + 3 * w
    tables = (1 if c.get("tie_word_embeddings", True) else 2) * c["vocab_size"] * w + 2 * c.get("relative_attention_num_buckets", 32) * c["num_heads"]
    return tables + c["num_layers"] * (encoder + decoder) + 2 * w


def vit(c):
    w, inner, patches = c["hidden_size"], c["intermediate_size"], (c["image_size"] // c["patch_size"]) ** 2
    block = 2 * 2 * w + 4 * linear(w, w, True) + linear(inner, w, True) + linear(w, inner, True)
    tables = linear(w, c["num_channels"] * c["patch_size"] ** 2, True) + w + (patches + 1) * w
    return tables + c["num_hidden_layers"] * block + 2 * w + linear(c["num_labels"], w, True)


FORMULAS = {"gpt2": gpt2, "bert": bert, "gpt_neox": gpt_neox, "opt": opt, "phi": phi, "starcoder2": starcoder2, "falcon": falcon, "t5": t5, "vit": vit}


def main():
    good = True
    for model in json.loads((pathlib.Path(__file__).resolve().parent / "published.json").read_text())["models"]:
        count = FORMULAS.get(model["config"]["model_type"], llama_like)(model["config"])
        if count != model["parameters"]:
            print(model["source"], "has", model["parameters"], "and by its modules", count)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
