// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/ranks.h"
#include "engine/compile/stage_model.h"
#include "engine/compile/teams.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// A parameter and who adds up its gradients.
struct SharedParameter {
    const LocalParameter *parameter = nullptr; ///< as the first stage that uses it has it
    std::int32_t set = -1;                     ///< of TeamSets
    int zero = 0;
    std::size_t layer = 0;    ///< with ZeRO 2 and 3 parameters of a layer are exchanged together: from 1 on; else 0
    std::int32_t inside = -1; ///< a set, too: of those that sum up gradients in local steps (plan::Inside); -1: none
};

/// Which ranks of a plan communicate with which.
struct Communication {
    TeamSets sets; ///< of parameters, and of operators that communicate
    /// Every parameter, in the order of first appearance. One that several stages use belongs to the ranks of all, once
    /// to each; it is sharded up to ZeRO 1.
    std::vector<SharedParameter> parameters;
};
/// Errors: Unsupported, if stages cut a parameter differently, or if the plan averages a parameter whose gradients
/// are summed over more than the replicas: over stages, or over the devices of a replica. @p stages must not change
/// while the parameters are in use.
Result<Communication> findCommunication(const std::vector<StageModel> &stages, const PlannedRanks &ranks,
                                        const Source &source);

} // namespace planloom::compile
