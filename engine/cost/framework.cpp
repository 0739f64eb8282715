// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/framework.h"

#include <algorithm>
#include <vector>

namespace planloom::cost {
namespace {

using Facts = std::map<std::string, double>;

/// @p more wins.
Facts with(Facts facts, const Facts &more)
{
    for (const auto &[name, value] : more)
        facts[name] = value;
    return facts;
}

/// Operators are launched one by one from Python, stages exchange 16 bits, a part from each tensor-parallel device,
/// gathered behind the network, and gradients are summed up behind the last backward pass. The figures were fitted
/// (resources/docs/cost.md).
Facts eager()
{
    return {{"kernel_launch_seconds", 50e-6},
            {"update_overhead_seconds", 0.03},
            {"product_ramp", 96},
            {"ring_collectives", 1},
            {kTransferShare, 0.5},
            {kGatheredTransfers, 1},
            {kExchangeAtEnd, 1}};
}

/// Attention in Triton. The figures were fitted.
Facts fullyShared() { return {{"attention_share", 0.6}, {"product_ramp", 96}, {"product_share", 0.95}}; }

std::vector<Framework> all()
{
    constexpr double kDropout = 0.1;
    const Facts waits{{kBlockingTransfers, 1}};
    return {
        {"deepspeed", "Megatron-DeepSpeed of 2021 to 2023", false, kDropout, eager(), true},
        {"fsdp", "FSDP of PyTorch 2.0", true, 0, fullyShared()},
        {"fsdp-first-h100", "the same, with the first libraries for H100", true, 0,
         with(fullyShared(), {{"product_share", 0.77}, {"update_overhead_seconds", 0.16}})},
        {"fsdp2",
         "FSDP2 of PyTorch 2.5, torch.compile",
         true,
         0,
         {{"product_ramp", 96}, {"product_share", 0.95}, {kTransferShare, 0.5}}},
        {"megatron-2021", "Megatron-LM of the SC21 paper", false, kDropout, with(eager(), waits), true, 1},
        {"megatron-2022",
         "Megatron-LM with sequence parallelism and selective recomputation",
         false,
         kDropout,
         {{kTransferShare, 0.5}, {kBlockingTransfers, 1}, {kGatheredTransfers, 1}, {kExchangeAtEnd, 1}},
         true,
         1},
        {"oneflow-2021", "OneFlow 0.5", false, kDropout, {{"ring_collectives", 1}, {"product_ramp", 96}}},
    };
}

} // namespace

std::span<const Framework> frameworks()
{
    static const std::vector<Framework> kAll = all();
    return kAll;
}

Result<const Framework *> findFramework(const std::string &name)
{
    std::string names;
    for (const Framework &framework : frameworks()) {
        if (framework.name == name)
            return &framework;
        names += (names.empty() ? "" : ", ") + framework.name;
    }
    return notFound("there is no framework '" + name + "'; choose one of " + names);
}

std::shared_ptr<const Profile> withFacts(const std::shared_ptr<const Profile> &profile, const Framework &framework,
                                         bool float16)
{
    auto made = profile ? std::make_shared<Profile>(*profile) : std::make_shared<Profile>();
    made->source += (made->source.empty() ? "" : "; ") + (kFrameworkSource + framework.name);
    Facts facts = framework.facts;
    if (framework.halfGradients && float16)
        facts["gradient_share"] = 0.5;
    made->extra = with(std::move(facts), made->extra);
    return made;
}

} // namespace planloom::cost
