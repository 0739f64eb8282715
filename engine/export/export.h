// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"

#include <string>
#include <vector>

namespace planloom::exporting {

/// Chrome trace-event JSON (opens in Perfetto and chrome://tracing): a process per rank, a thread per lane, task ids as names.
std::string chromeTrace(const trace::Trace &trace);
/// The schedule as torch.distributed.pipelining reads it: a line per rank, cells such as 0F3, 1B0, 1SEND_F3. Written for
/// PyTorch 2.5. Error: Unsupported for plans with replicated stages of unequal count, which that format cannot say.
Result<std::string> pytorchScheduleCsv(const program::Program &program);
/// The model as Graphviz DOT, scopes as clusters; coloured by stage if @p plan is given.
std::string graphvizDot(const graph::Graph &graph, const plan::Plan *plan, const graph::LayerView *layers);
/// Formats that `planloom export --to` knows for plans and runs, with one line on each.
struct Format {
    std::string name;
    std::string about;
};
std::vector<Format> formats();

} // namespace planloom::exporting
