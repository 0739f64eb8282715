#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a configuration as DeepSpeed does.

usage: deepspeed_config.py FILE RANKS

Source: DeepSpeed 0.16, deepspeed/runtime/config.py (fields by name, the others are passed by; a key twice is an error; batch = micro-batch x steps x ranks),
runtime/config_utils.py and zero/config.py (fields of zero_optimization, others are errors), runtime/lr_schedules.py (parameters of schedules, passed
as keyword arguments; warmup_num_steps at least 2), runtime/engine.py and zero/utils.py (an optimizer beyond Adam, AdamW, Adagrad and Lion needs
zero_allow_untested_optimizer), ops/adam, ops/lion and torch.optim.SGD (parameters of optimizers).
"""
import json
import sys
from pathlib import Path

OPTIMIZERS = {
    "AdamW": {"lr", "betas", "eps", "weight_decay", "bias_correction", "amsgrad", "torch_adam", "adam_w_mode"},
    "Lion": {"lr", "betas", "weight_decay"},
    "SGD": {"lr", "momentum", "dampening", "weight_decay", "nesterov"},
}
TESTED_WITH_ZERO = {"AdamW", "Lion"}
SCHEDULERS = {
    "WarmupLR": {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"},
    "WarmupDecayLR": {"total_num_steps", "warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"},
    "WarmupCosineLR": {"total_num_steps", "warmup_min_ratio", "warmup_num_steps", "cos_min_ratio", "warmup_type"},
}
ZERO = {"stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "allgather_partitions", "allgather_bucket_size", "overlap_comm",
        "offload_param", "offload_optimizer", "sub_group_size", "round_robin_gradients", "ignore_unused_parameters"}


def unique(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), "Duplicate keys in DeepSpeed config"
    return dict(pairs)


def check_named(config, known, what):
    kind, params = config["type"], config.get("params", {})
    assert kind in known, f"{what} {kind} is not known"
    assert set(params) <= known[kind], f"{what} {kind} has no parameters {set(params) - known[kind]}"
    return kind, params


def check(config, ranks):
    batch = config["train_batch_size"]
    micro, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert all(isinstance(size, int) and size > 0 for size in (batch, micro, steps)), "batches are positive whole numbers"
    assert batch == micro * steps * ranks, f"Check batch related parameters: {batch} != {micro} * {steps} * {ranks}"
    zero = config.get("zero_optimization", {})
    assert set(zero) <= ZERO, f"zero_optimization has no {set(zero) - ZERO}"
    assert zero.get("stage", 0) in (0, 1, 2, 3)
    optimizer, _ = check_named(config["optimizer"], OPTIMIZERS, "optimizer")
    assert zero.get("stage", 0) == 0 or optimizer in TESTED_WITH_ZERO or config.get("zero_allow_untested_optimizer") is True, \
        'You are using an untested ZeRO Optimizer. Please add <"zero_allow_untested_optimizer": true>'
    if "scheduler" in config:
        _, params = check_named(config["scheduler"], SCHEDULERS, "scheduler")
        assert params.get("warmup_type", "log") in ("log", "linear") and params["warmup_num_steps"] >= 2
        assert params.get("total_num_steps", params["warmup_num_steps"] + 1) > params["warmup_num_steps"]
    assert isinstance(config.get("gradient_clipping", 0), (int, float))
    assert not (config.get("bf16", {}).get("enabled") and config.get("fp16", {}).get("enabled"))
    assert config.get("data_types", {}).get("grad_accum_dtype") in (None, "fp32", "fp16", "bf16")


def main():
    try:
        config = json.loads(Path(sys.argv[1]).read_text(), object_pairs_hook=unique)
        check(config, int(sys.argv[2]))
    except (AssertionError, KeyError) as refused:
        sys.exit(f"refused: {refused}")
    try:
        import deepspeed
        from deepspeed.runtime.config import DeepSpeedConfig
    except ImportError:
        print("read by a transcript of DeepSpeed 0.16's configuration")
        return
    config["train_batch_size"] //= int(sys.argv[2])  # without ranks it takes one for granted
    DeepSpeedConfig(config)
    print(f"read by DeepSpeed {deepspeed.__version__}")


main()
