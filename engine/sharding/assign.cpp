// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/assign.h"
#include "engine/sharding/boxing.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace planloom::sharding {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// More than any boxing costs: taken only where nothing else is possible.
constexpr double kLastResort = 1e24;

struct Price {
    double bytes = 0;
    bool whole = false; ///< every device computes all, and the output's layout is required either way
    int conversions = 0;

    friend bool operator<(const Price &a, const Price &b)
    {
        return std::tie(a.bytes, a.whole, a.conversions) < std::tie(b.bytes, b.whole, b.conversions);
    }
};

/// Bytes of a few samples: how many there will be is not known here, but it is rarely one.
double bytesOf(const graph::Tensor &tensor)
{
    constexpr double kBatch = 8;
    return static_cast<double>(tensor.bytes().value()) * (tensor.shape.batched() ? kBatch : 1);
}

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
    const double bytes = bytesOf(tensor);
    if (input.fixed)
        return {isBroadcast(want) ? 0 : kNever, false, 0};
    if (input.have.empty())
        return {isPartial(want) ? kLastResort : 0, false, isPartial(want) ? 1 : 0};
    if (std::find(input.have.begin(), input.have.end(), want) != input.have.end())
        return {};
    if (input.parameter && isPartial(want))
        return {isBroadcast(input.have.front()) ? kLastResort : kNever, false, 1};
    if (input.pinned)
        return {isBroadcast(input.have.front()) ? bytes * weights.parts : kNever, false, 1};
    double least = kNever;
    for (const Sbp &have : input.have)
        least = std::min(least, weigh(have, want, bytes, weights));
    return {least, false, 1};
}

Price outputPrice(const Goal &goal, const graph::Tensor &tensor, const Sbp &made, int parts)
{
    if (!goal.sbp || made == *goal.sbp || (goal.partialToo && isPartial(made)))
        return {};
    return {weigh(made, *goal.sbp, bytesOf(tensor), {parts, false, true}), false, 1};
}

bool splits(const Signature &signature)
{
    return std::any_of(signature.inputs.begin(), signature.inputs.end(), isSplit)
        || std::any_of(signature.outputs.begin(), signature.outputs.end(), isSplit);
}

} // namespace

std::optional<Signature> choose(const OpAtHand &at, const std::vector<Candidate> &inputs,
                                const std::vector<Goal> &outputs)
{
    std::optional<Signature> best;
    Price least;
    const Weights weights{
        at.parts, std::any_of(outputs.begin(), outputs.end(), [](const Goal &goal) { return goal.partialToo; }),
        std::any_of(outputs.begin(), outputs.end(), [](const Goal &goal) { return goal.sbp && isSplit(*goal.sbp); })};
    const bool asked = !outputs.empty()
        && std::all_of(outputs.begin(), outputs.end(), [](const Goal &goal) { return goal.sbp && !goal.partialToo; });
    for (Signature &signature : signatures(at)) {
        Price price;
        price.whole = asked && !splits(signature);
        const auto add = [&price](const Price &more) {
            price.bytes += more.bytes;
            price.conversions += more.conversions;
        };
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (at.inputs[i])
                add(inputPrice(inputs[i], *at.inputs[i], signature.inputs[i], weights));
        for (std::size_t i = 0; i < outputs.size(); ++i)
            add(outputPrice(outputs[i], *at.outputs[i], signature.outputs[i], at.parts));
        if (price.bytes == kNever || (best && !(price < least)))
            continue;
        best = std::move(signature);
        least = price;
    }
    return best;
}

} // namespace planloom::sharding
