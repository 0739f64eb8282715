// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/cluster/cluster.h"
#include "ui/state/memory_moves.h"
#include "ui/widgets/data_table.h"

#include <memory>

namespace planloom::ui {

/// A row for each decision of @p moves, in order; its rows are made when they are shown. Null: no rows.
TableData decisionTable(const std::shared_ptr<const MemoryMoves> &moves,
                        const std::shared_ptr<const cluster::Cluster> &cluster);

/// "12 decisions: 8 to the host (1.2 GiB), 4 to recompute": of all devices.
QString decisionText(const MemoryMoves &moves);

} // namespace planloom::ui
