#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parses arguments as Megatron-LM does, and asks for what its validate_args asserts.

usage: megatron_arguments.py FILE RANKS

Source: megatron/training/arguments.py and megatron/legacy/model/transformer.py of core_r0.12.0; its repository ships it, the package megatron-core does not.
Names, types and choices of the arguments that a plan can set; argparse without abbreviations, so that any other one is an error. Legacy classes save in
checkpoint format torch only, and share layers out evenly. Megatron reads --wandb-exp-name beside --wandb-project alone.
"""
import argparse
import shlex
import sys
from pathlib import Path

INTEGERS = ("num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels num-query-groups seq-length max-position-embeddings rotary-base "
            "make-vocab-size-divisible-by tensor-model-parallel-size pipeline-model-parallel-size decoder-first-pipeline-num-layers "
            "decoder-last-pipeline-num-layers num-layers-per-virtual-pipeline-stage recompute-num-layers micro-batch-size global-batch-size "
            "lr-decay-iters lr-warmup-iters train-iters").split()
NUMBERS = ("norm-epsilon hidden-dropout attention-dropout init-method-std adam-beta1 adam-beta2 adam-eps sgd-momentum weight-decay clip-grad lr min-lr "
           "lr-warmup-init").split()
FLAGS = ("group-query-attention disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights swiglu openai-gelu bert-no-binary-head "
         "use-legacy-models apply-residual-connection-post-layernorm sequence-parallel use-distributed-optimizer bf16").split()
CHOICES = {
    "position-embedding-type": ["learned_absolute", "rope", "mrope", "relative", "none"],
    "normalization": ["LayerNorm", "RMSNorm"],
    "recompute-granularity": ["full", "selective"],
    "recompute-method": ["uniform", "block"],
    "optimizer": ["adam", "sgd"],
    "lr-decay-style": ["constant", "linear", "cosine", "inverse-square-root", "WSD"],
    "ckpt-format": ["torch", "torch_dist", "zarr", "torch_dcp"],
}


def parser():
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    for name in INTEGERS:
        arguments.add_argument("--" + name, type=int)
    for name in NUMBERS:
        arguments.add_argument("--" + name, type=float)
    for name in FLAGS:
        arguments.add_argument("--" + name, action="store_true")
    for name, choices in CHOICES.items():
        arguments.add_argument("--" + name, type=str, choices=choices)
    arguments.add_argument("--no-bias-gelu-fusion", action="store_false", dest="bias_gelu_fusion")
    arguments.add_argument("--wandb-project", type=str, default="")
    arguments.add_argument("--wandb-exp-name", type=str, default="")
    arguments.set_defaults(ckpt_format="torch_dist", min_lr=0.0, tensor_model_parallel_size=1, pipeline_model_parallel_size=1, lr_warmup_iters=0)
    return arguments


def check_stages(args):
    pipeline, layers = args.pipeline_model_parallel_size, args.num_layers
    ends = (args.decoder_first_pipeline_num_layers, args.decoder_last_pipeline_num_layers)
    chunk = args.num_layers_per_virtual_pipeline_stage
    if chunk is not None:
        assert ends == (None, None), "uneven stages interleave"
        assert layers % pipeline == 0 and layers // pipeline % chunk == 0, "layers do not divide into virtual stages"
        assert pipeline > 1, "interleaved schedule without a pipeline"
    elif ends == (None, None):
        assert layers % pipeline == 0, "layers do not divide by the stages"
    else:
        middle = pipeline - sum(end is not None for end in ends)
        rest = layers - sum(end or 0 for end in ends)
        assert rest == 0 if middle == 0 else rest > 0 and rest % middle == 0, "layers left over between the ends do not divide"
    assert not args.use_legacy_models or layers % pipeline == 0 and ends == (None, None), "legacy classes share layers out evenly"


def validate(args, ranks):
    assert not args.use_legacy_models or args.ckpt_format == "torch", "legacy model format only supports the 'torch' checkpoint format"
    assert not args.apply_residual_connection_post_layernorm or args.use_legacy_models, "post-LayerNorm needs legacy classes"
    model = args.tensor_model_parallel_size * args.pipeline_model_parallel_size
    assert ranks % model == 0, f"world size ({ranks}) is not divisible by {model}"
    for name in ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings", "micro_batch_size", "seq_length"):
        assert getattr(args, name), f"{name} argument is None"
    assert args.global_batch_size % (args.micro_batch_size * (ranks // model)) == 0, "global batch size is not divisible"
    check_stages(args)
    assert args.kv_channels or args.hidden_size % args.num_attention_heads == 0
    assert args.num_attention_heads % args.tensor_model_parallel_size == 0
    assert args.max_position_embeddings >= args.seq_length
    assert args.lr is None or args.min_lr <= args.lr
    assert not args.sequence_parallel or args.tensor_model_parallel_size > 1, "sequence parallel without tensor parallel"
    if args.recompute_granularity == "selective":
        assert args.recompute_method is None, "recompute method is not for selective"
    if args.recompute_granularity == "full":
        assert args.recompute_method is not None, "full recompute needs a method"
    assert not args.wandb_project or args.wandb_exp_name, "Please specify the wandb experiment name!"


def main():
    words = shlex.split(Path(sys.argv[1]).read_text())  # as $(cat FILE) splits, where nothing is quoted
    args = parser().parse_args(words)
    try:
        validate(args, int(sys.argv[2]))
    except AssertionError as refused:
        sys.exit(f"refused: {refused}")
    print("read by a transcript of Megatron-LM's arguments (core_r0.12.0)")


main()
