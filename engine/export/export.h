// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::exporting {

/// Takes a piece of the output; an error ends the export and is handed on.
using Writer = std::function<Status(std::string_view)>;

/// Chrome trace-event JSON (opens in Perfetto and chrome://tracing): a process per rank, a thread per lane, task ids as
/// names. Pieces of about 64 KiB go to @p write, so that a trace of any length needs little memory.
Status chromeTrace(const trace::Trace &trace, const Writer &write);
/// The same in one string; for small traces.
std::string chromeTrace(const trace::Trace &trace);
/// The same into a file that appears when it is whole.
Status writeChromeTrace(const trace::Trace &trace, const std::string &path);

/// Perfetto's protocol buffers (opens in its UI and trace_processor): a process per rank, a track per lane, and more of
/// them where slices of a lane overlap; task ids as names, step, stage and micro-batch as arguments. Pieces of about 64
/// KiB, as above. Records are sorted (trace::Trace::sort()); times before 0 begin at 0.
Status perfettoTrace(const trace::Trace &trace, const Writer &write);
Status writePerfettoTrace(const trace::Trace &trace, const std::string &path);
/// Tasks as comma-separated values: task, kind, stage, micro_batch, rank, device, lane, step, start_seconds, seconds; a
/// line a record, empty fields where there is none.
Status taskTable(const trace::Trace &trace, const Writer &write);
Status writeTaskTable(const trace::Trace &trace, const std::string &path);
/// By the file's name: .json Chrome's form, .pftrace and .perfetto-trace Perfetto's, else our own (trace::writeTrace).
Status writeTraceAs(const trace::Trace &trace, const std::string &path);

/// The model as Graphviz DOT, scopes as clusters; coloured by stage if @p plan is given. Edges that would cross more
/// than eight ranks are drawn as stubs that name their producer: dot's time grows with the sum of the spans.
std::string graphvizDot(const graph::Graph &graph, const plan::Plan *plan, const graph::LayerView *layers);

/// The configuration of another program for the same plan.
struct Configuration {
    std::string text;               ///< the file
    std::vector<std::string> notes; ///< facts outside of the file: how to start it, differences
};

/// The two forms of a schedule that torch.distributed.pipelining loads.
enum class PytorchForm : std::uint8_t {
    ComputeOnly, ///< passes; the loader adds communication as its release needs it. PyTorch 2.6 and later
    ComputeComms ///< with sends, receives, UNSHARD, RESHARD and REDUCE_GRAD. PyTorch 2.10 and later
};
/// The schedule as `_PipelineScheduleRuntime._load_csv` reads it: a line per pipeline rank, cells such as 0F3 and 1B0;
/// 1I0 and 1W0 where backward passes are cut; with communication 1SEND_F3, 0UNSHARD, 0REDUCE_GRAD. Replicas of a stage
/// share its line. The notes say form, releases and call. PyTorch 2.5 has other letters (B for the gradients of inputs,
/// BW for a whole backward) and cannot load it. Recompute is PyTorch's own business and left out. Error: Unsupported
/// for plans with replicated stages of unequal count, which that format cannot express.
Result<Configuration> pytorchScheduleCsv(const program::Program &program, PytorchForm form);

/// Arguments of Megatron-LM (Megatron-Core 0.12), one a line, for `torchrun ... pretrain_gpt.py $(cat FILE)`;
/// resources/docs/formats/exports.md has the mapping. Error (Unsupported) with a remedy: the model is no
/// transformer that Megatron-LM builds, or the plan something that it cannot do.
Result<Configuration> megatronArguments(const plan::Document &document);
/// Configuration of DeepSpeed (0.16) as JSON. Error (Unsupported): pipelines, tensors that are split and recomputation
/// are made in code there.
Result<Configuration> deepSpeedConfig(const plan::Document &document);
/// Configuration of torchtitan (0.2) as TOML. Error (Unsupported): models other than LLaMA's, and plans that its
/// parallelisms do not go together with.
Result<Configuration> torchtitanConfig(const plan::Document &document);

/// Formats that `planloom export --to` knows for plans and runs, with one line on each.
struct Format {
    std::string name;
    std::string about;
};
std::vector<Format> formats();

} // namespace planloom::exporting
