// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_executor.h"

#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Residuals of a run that trains by ADMM, as they come, to RUN/residuals.csv. Thread contract: one thread.
class ResidualsLog {
public:
    /// Keeps what @p folder's file has of the steps before @p firstStep. @p names: of the constraints. Error: Io.
    Status open(const std::string &folder, std::int64_t firstStep, const std::vector<std::string> &names);
    /// Squared norms, in the order of the names. Error: Io.
    Status add(std::int64_t step, std::span<const float> squares);

private:
    Status check();
    std::string m_path;
    std::ofstream m_file;
};

/// Duals of a few of this rank's samples beside the gradients that the present parameters have there, to RUN/duals.csv.
/// Nothing where the ranks share out steps in time, or an iteration takes a shard of the samples. Errors: Io; those of
/// HostPieces.
Status writeDuals(RankExecutor &executor, const Feed &feed, const graph::Graph &model, const admm::Settings &settings,
                  const std::string &folder);

} // namespace planloom::runtime
