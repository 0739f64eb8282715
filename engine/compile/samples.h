// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/source.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace planloom::compile {

/// How many samples pass where. A layer profile's times are linear and nothing of it is executed: there micro-batches
/// are all alike and slices are exact shares; elsewhere both are whole samples. Answers are remembered: not
/// thread-safe.
class Samples {
public:
    explicit Samples(const Source &source) : m_plan(source.plan), m_proportional(isLayerProfile(*source.subject.graph))
    {
    }
    [[nodiscard]] double microBatch(std::int64_t m) const;
    /// Of replica @p replica of stage @p stage.
    [[nodiscard]] double slice(StageId stage, std::size_t replica, std::int64_t m) const;
    [[nodiscard]] double largestSlice(StageId stage, std::size_t replica) const;

private:
    [[nodiscard]] const std::vector<std::int64_t> &sizes(std::size_t stage, std::int64_t samples) const;

    const plan::Plan &m_plan;
    bool m_proportional;
    mutable std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::int64_t>>
        m_sizes; ///< of the replicas' slices, by stage and samples
};

} // namespace planloom::compile
