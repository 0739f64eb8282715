// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/gnn/sampling.h"
#include "engine/graph/graph.h"

#include <cstdint>

namespace planloom::plan {

/// How mini-batches of a sampled job come to a trainer: as its model takes them.
enum class BatchForm : std::uint8_t {
    Trees,       ///< a row for each place of the trees: graph::graphSage()
    Blocks,      ///< each row once, and lists of rows: graph::graphSageBlocks()
    WholeBlocks, ///< whose entries have factors, neighbourhoods taken whole where they fit: graph::gcn()
};
/// Of a model that takes one of them.
BatchForm batchFormOf(const graph::Graph &model);

/// Neighbourhoods as a model reads them.
struct SampledInputs {
    gnn::Fanout fanout;
    std::int64_t features = 0; ///< of a node
};
/// What a model's inputs are made for. Error (BadInput): it takes neither trees nor blocks.
Result<SampledInputs> sampledInputsOf(const graph::Graph &model);
/// Error (BadInput): an input of @p model has another size, by name.
Status checkSampledInputs(const graph::Graph &model, const SampledInputs &wanted);

} // namespace planloom::plan
