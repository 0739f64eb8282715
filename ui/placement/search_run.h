// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/progress.h"
#include "engine/plan/plan.h"
#include "planners/gnn/search.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::ui {

/// A placement that a search came by.
struct SearchPoint {
    std::int64_t number = 0; ///< of the proposal; 0 and below: before the Markov chain
    gnn::Placement machineOf;
    double seconds = 0; ///< of all iterations
    double best = 0;    ///< the least until then
    std::string what;   ///< "first placement", "s3 to n1", "s3 and s5 change places"
};

/// A search with its points in order and what no placement can take less than.
struct SearchRun {
    std::vector<SearchPoint> points;
    std::size_t fastest = 0; ///< the point whose plan has the shortest iteration in the simulator
    gnn::Placement best;
    double seconds = 0;
    double bound = 0; ///< of the best placement
    std::int64_t proposals = 0;
    bool complete = true;
};

/// A search for the roles of @p document, which must have a job. Any thread. Errors: those of
/// planners::gnn::searchJobOf() and planners::gnn::searchPlacement().
Result<SearchRun> runSearch(const plan::Document &document, const planners::gnn::SearchOptions &options,
                            Progress &progress);

} // namespace planloom::ui
