// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/vocabulary.h"
#include "engine/graph/gradients/differentiate.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::compile {

/// A parameter of a stage that its replicas exchange by rows (program::Table).
struct RowTable {
    std::string parameter;
    std::string ids;    ///< input of the model
    std::string places; ///< input of the stage's graph
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t idsPerSample = 0;
    std::int64_t window = 0; ///< rows that any step's samples of one replica fit in: min(ids, rows)
    plan::TableStrategy strategy = plan::TableStrategy::AllToAll;
    bool delays = false;
    [[nodiscard]] bool isCut() const { return plan::isCut(strategy); }
};

/// Samples that the replica with most of them has in one step.
std::int64_t mostSamples(const plan::Plan &plan, const plan::Stage &stage);

/// A training graph with the tables that are exchanged by rows.
struct RowTraining {
    graph::TrainingGraph training;
    std::vector<RowTable> tables;
};

/// @p training with a window of rows in place of each table that @p plan exchanges by rows and this stage looks up: a
/// new input says where the row of each id lies there. The gradient is the window's. A table that replicas hold as a
/// whole (all-gather) is looked up itself. Errors: Unsupported, if the operators that look a table up are not as
/// plan::validate() has found them.
Result<RowTraining> useRows(graph::TrainingGraph training, const plan::Plan &plan, const plan::Stage &stage);

/// The part of a table that member @p position of @p members holds: its rows, its columns.
sharding::Region heldPart(const RowTable &table, int members, int position);

} // namespace planloom::compile
