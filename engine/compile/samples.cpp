// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/samples.h"

#include <algorithm>

namespace planloom::compile {

double Samples::microBatch(std::int64_t m) const
{
    if (m_proportional)
        return static_cast<double>(m_plan.globalBatch) / static_cast<double>(m_plan.microBatches);
    return static_cast<double>(plan::microBatchRange(m_plan, m).size);
}

double Samples::slice(StageId id, std::size_t replica, std::int64_t m) const
{
    const plan::Stage &stage = m_plan.stages[id.index()];
    if (!m_proportional)
        return static_cast<double>(sizes(id.index(), plan::microBatchRange(m_plan, m).size)[replica]);
    const double equal = 1.0 / static_cast<double>(stage.replicas());
    return microBatch(m) * (stage.replicaShares.empty() ? equal : stage.replicaShares[replica]);
}

const std::vector<std::int64_t> &Samples::sizes(std::size_t stage, std::int64_t samples) const
{
    const auto [entry, isNew] = m_sizes.try_emplace({stage, samples});
    if (isNew)
        entry->second = plan::replicaSizes(m_plan.stages[stage], samples);
    return entry->second;
}

double Samples::largestSlice(StageId stage, std::size_t replica) const
{
    // Micro-batches have one of two sizes, the larger ones first.
    return std::max(slice(stage, replica, 0), slice(stage, replica, m_plan.microBatches - 1));
}

} // namespace planloom::compile
