// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/assign.h"
#include "engine/sharding/boxing.h"

#include <algorithm>
#include <limits>

namespace planloom::sharding {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// More than any boxing costs: taken only where nothing else is possible.
constexpr double kLastResort = 1e24;

struct Price {
    double bytes = 0;
    int conversions = 0;
};

/// How the bytes of a conversion are weighed.
struct Weights {
    int parts;
    bool partialWelcome; ///< the output may stay P for good
    bool splitWanted;    ///< the output is asked to be S
};

double weigh(const Sbp &from, const Sbp &to, double bytes, const Weights &weights)
{
    if (from == to)
        return 0;
    if (isPartial(to))
        return weights.partialWelcome ? 0 : 4 * bytes * 2 * weights.parts;
    if (isPartial(from) && isSplit(to) && !weights.splitWanted)
        return boxingBytes(from, broadcast(), bytes, weights.parts);
    return boxingBytes(from, to, bytes, weights.parts);
}

Price inputPrice(const Candidate &input, const graph::Tensor &tensor, const Sbp &want, const Weights &weights)
{
    const auto bytes = static_cast<double>(tensor.bytes().value());
    if (input.fixed)
        return {isBroadcast(want) ? 0 : kNever, 0};
    if (input.have.empty())
        return {isPartial(want) ? kLastResort : 0, isPartial(want) ? 1 : 0};
    if (std::find(input.have.begin(), input.have.end(), want) != input.have.end())
        return {};
    if (input.parameter && isPartial(want))
        return {isBroadcast(input.have.front()) ? kLastResort : kNever, 1};
    if (input.pinned)
        return {isBroadcast(input.have.front()) ? bytes * weights.parts : kNever, 1};
    double least = kNever;
    for (const Sbp &have : input.have)
        least = std::min(least, weigh(have, want, bytes, weights));
    return {least, 1};
}

Price outputPrice(const Goal &goal, const graph::Tensor &tensor, const Sbp &made, int parts)
{
    if (!goal.sbp || made == *goal.sbp || (goal.partialToo && isPartial(made)))
        return {};
    return {weigh(made, *goal.sbp, static_cast<double>(tensor.bytes().value()), {parts, false, true}), 1};
}

} // namespace

std::optional<Signature> choose(const OpAtHand &at, const std::vector<Candidate> &inputs, const std::vector<Goal> &outputs)
{
    std::optional<Signature> best;
    Price least;
    const Weights weights{at.parts, std::any_of(outputs.begin(), outputs.end(), [](const Goal &goal) { return goal.partialToo; }),
                          std::any_of(outputs.begin(), outputs.end(), [](const Goal &goal) { return goal.sbp && isSplit(*goal.sbp); })};
    for (Signature &signature : signatures(at)) {
        Price price;
        const auto add = [&price](const Price &more) {
            price.bytes += more.bytes;
            price.conversions += more.conversions;
        };
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (at.inputs[i])
                add(inputPrice(inputs[i], *at.inputs[i], signature.inputs[i], weights));
        for (std::size_t i = 0; i < outputs.size(); ++i)
            add(outputPrice(outputs[i], *at.outputs[i], signature.outputs[i], at.parts));
        const bool better = !best || price.bytes < least.bytes || (price.bytes == least.bytes && price.conversions < least.conversions);
        if (price.bytes == kNever || !better)
            continue;
        best = std::move(signature);
        least = price;
    }
    return best;
}

} // namespace planloom::sharding
