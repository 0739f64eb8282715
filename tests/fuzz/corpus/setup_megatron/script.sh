#!/bin/bash
GPT_ARGS="--num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size=64 --lr 1.5e-4 --min-lr 1e-5 \
    --lr-decay-style cosine --lr-warmup-iters 100 --bf16" # a comment
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py $GPT_ARGS --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \
    --decoder-first-pipeline-num-layers 5 --decoder-last-pipeline-num-layers 5 --sequence-parallel --recompute-activations
