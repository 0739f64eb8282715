// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/stage_model.h"

#include <map>
#include <mutex>
#include <string>

namespace planloom::compile {

/// Stages of plans for one subject, so that a search that compiles thousands of plans differentiates and lays out each
/// stage once. Keyed by what a stage is made from, devices apart. Several threads may use it at once. It takes no more
/// stages in once what it holds has kMostOperators.
class StageCache {
public:
    /// As StageModel::make().
    Result<StageModel> make(const plan::Plan &plan, const plan::Subject &subject, StageId stage,
                            const StageModel *before, bool mustRun);

private:
    static constexpr std::size_t kMostOperators = 1'000'000; ///< about 1 GB
    std::mutex m_guard;
    std::map<std::string, StageModel> m_stages;
    std::size_t m_operators = 0;
};

} // namespace planloom::compile
