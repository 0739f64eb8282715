// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/fold.h"
#include "engine/compile/samples.h"
#include "engine/compile/source.h"
#include "engine/compile/vocabulary.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// The ranks of a plan: one for each device, whatever the number of stages on it; in the order of stages and, within
/// one, of its mesh.
struct PlannedRanks {
    std::vector<std::vector<std::size_t>> groups; ///< of stages, on the same devices
    std::vector<std::size_t> begins;              ///< per group: its first rank
    std::vector<DeviceId> devices;                ///< per rank
    std::vector<std::int32_t> cores;              ///< per rank: cluster::coresOf()
    std::vector<std::vector<RankId>> ofStage;     ///< per stage, in the order of its mesh

    /// True if ranks have to share processor cores.
    [[nodiscard]] bool shareCores() const;
};
PlannedRanks planRanks(const Source &source);

/// A number for each of @p ranks, equal where stages, types of devices, orders and samples are.
std::vector<std::int32_t> kindsOfRanks(const Source &source, const Samples &samples, const PlannedRanks &ranks);

/// The ranks of a program.
struct Ranks {
    struct Entry {
        DeviceId device;
        std::int32_t core = -1;      ///< program::Rank::core
        std::int64_t standsFor = 0;  ///< ranks of the plan
        std::vector<PassStep> order; ///< of its passes
    };
    std::vector<Entry> entries;
    std::vector<std::vector<RankId>> ofStage; ///< per stage, in the order of its mesh: those that stand for its ranks

    [[nodiscard]] std::size_t size() const { return entries.size(); }
    [[nodiscard]] const Entry &at(RankId rank) const { return entries[rank.index()]; }
};
/// Those of @p planned that stand for all.
Ranks makeRanks(const Source &source, const PlannedRanks &planned, const Fold &fold);

/// Program::places of a folded program.
std::vector<Program::Place> placesOf(const PlannedRanks &planned, const Fold &fold);

} // namespace planloom::compile
