// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/transfer_policy.h"

#include <fmt/format.h>

namespace planloom::gnn {

const char *name(TransferPolicy policy)
{
    switch (policy) {
    case TransferPolicy::Static: return "static";
    case TransferPolicy::Degree: return "degree";
    case TransferPolicy::MaxMin: return "max-min";
    case TransferPolicy::IterationFirst: return "iteration-first";
    }
    return "";
}

Result<TransferPolicy> transferPolicyFromName(std::string_view text)
{
    for (const TransferPolicy policy : kTransferPolicies) {
        if (text == name(policy))
            return policy;
    }
    return notFound(
        fmt::format("\"{}\" is no transfer policy; there are static, degree, max-min and iteration-first", text));
}

} // namespace planloom::gnn
