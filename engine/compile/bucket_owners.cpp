// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/bucket_owners.h"

#include <string_view>
#include <unordered_map>

namespace planloom::compile {

BucketOwners ownBuckets(const std::vector<StageModel> &stages, const Instances &instances, const Buckets &buckets)
{
    BucketOwners owners;
    for (const StageModel &stage : stages) {
        owners.parameters.emplace_back();
        for (const LocalParameter &parameter : stage.tensors().parameters)
            owners.parameters.back().insert(parameter.name);
    }
    owners.ofInstance.resize(instances.size());
    for (std::size_t r = 0; r < instances.ofRank.size(); ++r) {
        const std::vector<BodyId> &bodies = instances.ofRank[r];
        std::unordered_map<std::string_view, BodyId> owner;
        for (const BodyId body : bodies)
            for (const std::string &name : owners.parameters[instances[body].stage.index()])
                owner.try_emplace(name, body);
        // All parameters of a bucket are of the same stages.
        for (const BucketId b : buckets.ofRank[r]) {
            const auto found = owner.find(buckets.at(b).entries.front().parameter);
            owners.ofInstance[(found == owner.end() ? bodies.front() : found->second).index()].push_back(b);
        }
    }
    return owners;
}

} // namespace planloom::compile
