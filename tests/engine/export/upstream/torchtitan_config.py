#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a configuration as torchtitan does.

usage: torchtitan_config.py FILE RANKS

Source: torchtitan 0.2, torchtitan/config/job_config.py (sections, fields and their types; another one is an error), distributed/parallel_dims.py
(degrees multiply to the ranks), distributed/pipeline_parallel.py (micro-batches, stages of each rank) and components/lr_scheduler.py.
"""
import sys
from pathlib import Path

import tomllib

TEXT, INTEGER, NUMBER, FLAG = (str,), (int,), (int, float), (bool,)
FIELDS = {
    "job": {"dump_folder": TEXT, "description": TEXT, "config_file": TEXT},
    "model": {"name": TEXT, "flavor": TEXT, "hf_assets_path": TEXT, "converters": (list,), "print_after_conversion": FLAG},
    "optimizer": {"name": TEXT, "lr": NUMBER, "beta1": NUMBER, "beta2": NUMBER, "eps": NUMBER, "weight_decay": NUMBER, "implementation": TEXT,
                  "early_step_in_backward": FLAG},
    "lr_scheduler": {"warmup_steps": INTEGER, "decay_ratio": NUMBER, "decay_type": ("linear", "sqrt", "cosine"), "min_lr_factor": NUMBER},
    "training": {"dataset": TEXT, "dataset_path": TEXT, "local_batch_size": INTEGER, "global_batch_size": INTEGER, "seq_len": INTEGER,
                 "max_norm": NUMBER, "steps": INTEGER, "enable_cpu_offload": FLAG, "dtype": ("bfloat16", "float32"),
                 "mixed_precision_param": ("bfloat16", "float32"), "mixed_precision_reduce": ("float32",)},
    "parallelism": {"data_parallel_replicate_degree": INTEGER, "data_parallel_shard_degree": INTEGER,
                    "fsdp_reshard_after_forward": ("default", "always", "never"), "tensor_parallel_degree": INTEGER,
                    "pipeline_parallel_degree": INTEGER, "module_fqns_per_model_part": (list,), "pipeline_parallel_layers_per_stage": INTEGER,
                    "pipeline_parallel_first_stage_less_layers": INTEGER, "pipeline_parallel_last_stage_less_layers": INTEGER,
                    "pipeline_parallel_schedule": TEXT, "pipeline_parallel_schedule_csv": TEXT, "pipeline_parallel_microbatch_size": INTEGER,
                    "context_parallel_degree": INTEGER, "expert_parallel_degree": INTEGER},
    "activation_checkpoint": {"mode": ("selective", "full", "memory_budget", "none")},
}
ONE_STAGE = ("1F1B", "GPipe")
SEVERAL_STAGES = ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")


def check_fields(config):
    for section, fields in config.items():
        assert section in FIELDS, f"there is no section [{section}]"
        for key, value in fields.items():
            allowed = FIELDS[section].get(key)
            assert allowed, f"[{section}] has no {key}"
            if isinstance(allowed[0], str):
                assert value in allowed, f"[{section}] {key} is {value!r}, not one of {allowed}"
            else:
                assert isinstance(value, allowed) and (allowed == FLAG or not isinstance(value, bool)), f"[{section}] {key} is {value!r}"


def check_pipeline(parallel, training):
    degree, schedule = parallel["pipeline_parallel_degree"], parallel["pipeline_parallel_schedule"]
    parts = parallel["module_fqns_per_model_part"]
    assert all(isinstance(name, str) for part in parts for name in part), "modules are named by text"
    assert parts[0][0] == "tok_embeddings" and parts[-1][-2:] == ["norm", "output"], "ends of the model are missing"
    layers = [name for part in parts for name in part if name.startswith("layers.")]
    assert layers == [f"layers.{i}" for i in range(len(layers))], "layers are not in order"
    assert len(parts) % degree == 0, "stages do not divide by the ranks"
    assert schedule in (ONE_STAGE if len(parts) == degree else SEVERAL_STAGES), f"{schedule} does not go with {len(parts)} stages"
    micro = parallel["pipeline_parallel_microbatch_size"]
    assert training["local_batch_size"] % micro == 0
    count = training["local_batch_size"] // micro
    assert schedule != "1F1B" or count >= degree, "fewer micro-batches than stages"
    assert schedule != "Interleaved1F1B" or count % degree == 0


def check(config, ranks):
    check_fields(config)
    parallel, training = config["parallelism"], config["training"]
    replicate, shard = parallel.get("data_parallel_replicate_degree", 1), parallel.get("data_parallel_shard_degree", -1)
    others = parallel.get("tensor_parallel_degree", 1) * parallel.get("pipeline_parallel_degree", 1)
    assert replicate * shard * others == ranks, f"Invalid parallel dims: {replicate} * {shard} * {others} != WORLD_SIZE({ranks})"
    assert replicate == 1 or shard > 1 or others == 1, "DDP goes with no other parallelism"
    assert training["global_batch_size"] % (training["local_batch_size"] * replicate * shard) == 0
    if parallel.get("pipeline_parallel_degree", 1) > 1:
        check_pipeline(parallel, training)
        assert training["global_batch_size"] == training["local_batch_size"] * replicate * shard
    scheduler = config.get("lr_scheduler", {})
    assert 0 <= scheduler.get("min_lr_factor", 0) <= 1 and 0 <= scheduler.get("decay_ratio", 0) <= 1


def main():
    try:
        with Path(sys.argv[1]).open("rb") as file:
            check(tomllib.load(file), int(sys.argv[2]))
    except (AssertionError, KeyError, tomllib.TOMLDecodeError) as refused:
        sys.exit(f"refused: {refused}")
    try:
        from torchtitan.config import ConfigManager
        from importlib.metadata import version
        if not version("torchtitan").startswith("0.2"):  # later ones have no TOML
            raise ImportError
    except ImportError:
        print("read by a transcript of torchtitan 0.2's configuration")
        return
    ConfigManager().parse_args([f"--job.config_file={sys.argv[1]}"])
    print(f"read by torchtitan {version('torchtitan')}")


main()
