// SPDX-License-Identifier: Apache-2.0
#include "planners/common/changed_candidates.h"

#include <algorithm>
#include <utility>

namespace planloom::planners {

std::vector<Candidate> changedCandidates(std::vector<Candidate> candidates, const Problem &problem,
                                         const std::function<Status(plan::Plan &)> &change)
{
    std::vector<Candidate> kept;
    for (Candidate &candidate : candidates) {
        if (!change(candidate.plan))
            continue;
        const auto report = finish(candidate.plan, problem);
        if (!report || !report->predicted.fits)
            continue;
        candidate.simulatedSeconds = report->predicted.iterationSeconds;
        candidate.peakBytes = 0;
        for (const simulate::DeviceReport &device : report->predicted.devices)
            candidate.peakBytes = std::max(candidate.peakBytes, device.peakBytes);
        kept.push_back(std::move(candidate));
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Candidate &a, const Candidate &b) { return a.simulatedSeconds < b.simulatedSeconds; });
    return kept;
}

} // namespace planloom::planners
