// SPDX-License-Identifier: Apache-2.0
#include "engine/export/export.h"

namespace planloom::exporting {

std::vector<Format> formats()
{
    return {
        {"plan", "the plan file itself (planloom.plan/1)"},
        {"model", "the model as graph JSON (planloom.graph/1)"},
        {"cluster", "the cluster as JSON (planloom.cluster/1)"},
        {"chrome-trace",
         "Chrome trace-event JSON: a plan's simulated iteration, or the steps that a run recorded; opens in Perfetto"},
        {"perfetto-trace", "the same as Perfetto's protocol buffers (.pftrace)"},
        {"task-csv", "the same as a table: a line a task, comma-separated"},
        {"trace", "the same as Planloom's columnar trace file"},
        {"pytorch-csv",
         "order of passes for torch.distributed.pipelining, form compute_only; torchtitan loads it, too (PyTorch 2.6)"},
        {"pytorch-csv-comms", "the same with its communication, form compute_comms (PyTorch 2.10)"},
        {"megatron",
         "arguments of Megatron-LM that train the plan: model sizes, parallelism, batches, optimizer (Megatron-Core "
         "0.12)"},
        {"deepspeed", "configuration of DeepSpeed for a plan of replicas: batches, optimizer, precision, ZeRO (0.16)"},
        {"torchtitan",
         "configuration of torchtitan for models built as LLaMA is: parallelism, training, optimizer (0.2)"},
        {"safetensors",
         "trained weights of a run, from its newest checkpoint; a model's own names, which are Hugging Face's for "
         "gpt2, llama and bert"},
        {"dot", "the model as Graphviz DOT, coloured by stage"},
        {"svg", "the same as a picture, laid out by Graphviz's dot"},
    };
}

} // namespace planloom::exporting
