// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/dapple/score.h"

#include <string_view>

namespace planloom::planners::dapple {

/// Search context of every family of plans. Deterministic; checks Progress::stopped() often, and then leaves in
/// `pool` the best so far.
struct Search {
    const Settings &settings;
    Scorer &scorer;
    Pool &pool;
    Progress &progress;
    double begin = 0; ///< the family's part of the whole search, for the progress report
    double end = 1;
    bool stopped = false;

    /// Reports @p fraction of this family and returns false if the search is to end now.
    bool goOn(double fraction, std::string_view what);
    void offer(const Spans &spans);
    [[nodiscard]] std::size_t layers() const { return scorer.layerCount(); }
    [[nodiscard]] std::size_t devices() const { return scorer.subject().cluster->devices().size(); }
    [[nodiscard]] bool allows(std::size_t stages) const
    {
        return settings.maxStages == 0 || stages <= settings.maxStages;
    }
    [[nodiscard]] std::vector<std::vector<DeviceId>> choices(const Occupancy &occupancy, std::size_t count) const;
};

/// One stage on all devices.
void searchDataParallel(Search &search);
/// P:Q (released planner, step 3): every cut, every P, every placement; the second stage has all other devices.
/// Exhaustive.
void searchTwoStage(Search &search);
/// One device per stage, as many stages as there are devices (or layers): the min-max cut (released planner, step 2),
/// then moves of one layer from a stage to another while they help. Exhaustive where there are at most kExhaustiveCuts
/// ways to cut.
void searchStraight(Search &search);
inline constexpr std::size_t kExhaustiveCuts = 2000;
/// Whole-pipeline replication (released planner, step 1): rp replicas of a pipeline of G / rp devices with the smallest
/// bottleneck.
void searchReplicated(Search &search);
/// The published recursion (§4.1): prefixes by (layers, devices, occupancy), the rest as one last stage; `beam`
/// prefixes a state.
void searchFree(Search &search);

} // namespace planloom::planners::dapple
