// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/buckets.h"
#include "engine/compile/instances.h"

#include <string>
#include <unordered_set>
#include <vector>

namespace planloom::compile {

/// Which bodies update which buckets.
struct BucketOwners {
    /// Per stage instance: those that its body updates, of its rank's those whose parameters no earlier stage there
    /// has.
    std::vector<std::vector<BucketId>> ofInstance;
    std::vector<std::unordered_set<std::string>> parameters; ///< per stage: names

    [[nodiscard]] bool hasParameter(std::size_t stage, const std::string &name) const
    {
        return parameters[stage].contains(name);
    }
};
BucketOwners ownBuckets(const std::vector<StageModel> &stages, const Instances &instances, const Buckets &buckets);

} // namespace planloom::compile
