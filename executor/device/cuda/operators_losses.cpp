// SPDX-License-Identifier: Apache-2.0
// Losses of elements, and those whose rows lie in shards.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>

namespace planloom::cuda {

namespace {

ElementError errorOf(const graph::Op &op)
{
    const std::string &type = op.type.name();
    ElementError error;
    error.delta = static_cast<float>(op.number("delta", 1));
    if (type.starts_with("MeanAbsolute"))
        error.kind = ElementError::Kind::Absolute;
    else if (type.starts_with("Huber"))
        error.kind = ElementError::Kind::Huber;
    else if (type.starts_with("Sigmoid"))
        error.kind = ElementError::Kind::Logistic;
    return error;
}

/// The sums over the elements of input @p x and the mask behind the targets, and what they are joined to.
struct ElementSums {
    ElementLossSums sums;
    ElementLossMean mean;
    std::int64_t blocks = 1;
    std::shared_ptr<device::Memory> kept;

    void give(CudaQueue &queue, const void *mask)
    {
        sums.mask = static_cast<const std::uint8_t *>(mask);
        queue.rows(sums, blocks, 0, 2);
        queue.rows(mean, 1);
    }
};

/// Error: Unsupported, the arguments do not fit.
Result<ElementSums> elementSums(const Request &request, std::size_t x)
{
    const bool masked = request.hasInput(x + 2);
    if (!request.floatInputs(x + 2) || request.in(x) != request.in(x + 1) || !request.floatOutputs(1)
        || (masked && (!isTruth(request.inputs[x + 2]) || request.in(x + 2) != request.in(x))))
        return onlyOnHost(request);
    ElementSums made;
    made.blocks = partsOf(request, 1, request.inSize(x), 1);
    auto kept = scratchOf<Two<double>>(request, made.blocks + 1);
    if (!kept)
        return kept.error();
    made.kept = *kept;
    made.sums.error = errorOf(request.op);
    made.sums.sums = at<Two<double>>(*kept);
    made.sums.elements = request.inSize(x);
    made.mean.sums = made.sums.sums;
    made.mean.count = made.blocks;
    made.mean.share = request.op.number("share", 1);
    made.mean.counted = &made.sums.sums[made.blocks].a;
    return made;
}

Made makeElementLoss(const Request &request)
{
    auto made = elementSums(request, 0);
    if (!made)
        return made.error();
    if (request.outSize(0) != 1)
        return onlyOnHost(request);
    made->sums.x = from(request, 0);
    made->sums.targets = from(request, 1);
    made->mean.loss = to(request, 0);
    return makeFunction([loss = std::move(*made)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        loss.sums.x.data = in[0];
        loss.sums.targets.data = in[1];
        loss.mean.loss.data = out[0];
        loss.give(queue, given(in, 2));
    });
}

Made makeElementLossGrad(const Request &request)
{
    auto made = elementSums(request, 1);
    if (!made)
        return made.error();
    if (request.inSize(0) != 1 || !isFloat(request.inputs[0]) || request.out() != request.in(1))
        return onlyOnHost(request);
    ElementLossGradient kernel;
    kernel.error = made->sums.error;
    kernel.dLoss = from(request, 0);
    kernel.x = from(request, 1);
    kernel.targets = from(request, 2);
    kernel.counted = made->mean.counted;
    kernel.share = made->mean.share;
    kernel.dx = to(request, 0);
    kernel.elements = made->sums.elements;
    return makeFunction([kernel, sums = std::move(*made)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        sums.give(queue, given(in, 3)); // only counts
        kernel.dLoss.data = in[0];
        kernel.x.data = in[1];
        kernel.targets.data = in[2];
        kernel.mask = static_cast<const std::uint8_t *>(given(in, 3));
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.elements);
    });
}

// --- Rows in shards -------------------------------------------------------------------------------------------------

std::int64_t ignoredOf(const Request &request) { return request.op.integer("ignore_index", -100); }

Made makeLossStatistics(const Request &request)
{
    if (request.inputs.size() != 2 || !request.floatInputs(1) || !isInteger(request.inputs[1])
        || request.in(0).size() != 2 || request.in(0)[1] < 1 || request.inSize(1) != request.in(0)[0]
        || !isFull(request.outputs[0]) || request.outSize(0) != 3 * request.in(0)[0])
        return onlyOnHost(request);
    LossStatistics kernel;
    kernel.all = logitRows(request, 0, request.in(0)[0], request.in(0)[1]);
    kernel.y = to(request, 0);
    kernel.ignored = ignoredOf(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.all.logits.data = in[0];
        kernel.labels = static_cast<const std::int64_t *>(in[1]);
        kernel.y.data = out[0];
        giveGroups(queue, kernel, kernel.all.rows, kernel.all.bits);
    });
}

Made makeCombine(const Request &request)
{
    if (!request.floatInputs(1) || request.in(0).size() != 3 || request.in(0)[2] != 3 || request.in(0)[0] < 1
        || !isFull(request.outputs[0]) || request.outSize(0) != 3 * request.in(0)[1])
        return onlyOnHost(request);
    CombineLossStatistics kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.parts = request.in(0)[0];
    kernel.rows = request.in(0)[1];
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.rows);
    });
}

Made makeLossFromStatistics(const Request &request)
{
    const bool fits = request.inputs.size() == 2 && request.floatInputs(1) && isInteger(request.inputs[1])
        && request.in(0).size() == 2 && request.in(0)[1] == 3 && request.inSize(1) == request.in(0)[0]
        && request.floatOutputs(1) && request.outSize(0) == 1
        && (!request.hasOutput(1) || (isFull(request.outputs[1]) && request.outSize(1) == 2 * request.in(0)[0]));
    if (!fits)
        return onlyOnHost(request);
    const std::int64_t rows = request.in(0)[0];
    auto losses = scratchOf<float>(request, rows);
    if (!losses)
        return losses.error();
    LossesOfStatistics each;
    each.x = from(request, 0);
    each.stats = to(request, 1);
    each.losses = at<float>(*losses);
    each.rows = rows;
    each.ignored = ignoredOf(request);
    CrossEntropyMean mean;
    mean.losses = each.losses;
    mean.loss = to(request, 0);
    mean.rows = rows;
    mean.ignored = each.ignored;
    return makeFunction([each, mean, kept = *losses](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        each.x.data = in[0];
        each.labels = static_cast<const std::int64_t *>(in[1]);
        each.stats.data = given(out, 1);
        mean.labels = each.labels;
        mean.loss.data = out[0];
        queue.items(each, each.rows);
        giveMean(queue, mean);
    });
}

Made makeLossRowShare(const Request &request)
{
    if (request.inputs.size() != 3 || !request.floatInputs(1) || request.inSize(0) != 1 || !isInteger(request.inputs[1])
        || !isInteger(request.inputs[2]) || !request.floatOutputs(1))
        return onlyOnHost(request);
    LossRowShare kernel;
    kernel.dLoss = from(request, 0);
    kernel.y = to(request, 0);
    kernel.ownRows = request.inSize(1);
    kernel.allRows = request.inSize(2);
    kernel.ignored = ignoredOf(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dLoss.data = in[0];
        kernel.own = static_cast<const std::int64_t *>(in[1]);
        kernel.all = static_cast<const std::int64_t *>(in[2]);
        kernel.y.data = out[0];
        queue.rows(kernel, 1);
    });
}

constexpr OperatorEntry kLosses[] = {
    {"CombineLossStatistics", makeCombine},       {"HuberLoss", makeElementLoss},
    {"HuberLossGrad", makeElementLossGrad},       {"LossFromStatistics", makeLossFromStatistics},
    {"LossRowShare", makeLossRowShare},           {"LossStatistics", makeLossStatistics},
    {"MeanAbsoluteErrorLoss", makeElementLoss},   {"MeanAbsoluteErrorLossGrad", makeElementLossGrad},
    {"MeanSquaredErrorLoss", makeElementLoss},    {"MeanSquaredErrorLossGrad", makeElementLossGrad},
    {"SigmoidCrossEntropyLoss", makeElementLoss}, {"SigmoidCrossEntropyLossGrad", makeElementLossGrad},
};

} // namespace

std::span<const OperatorEntry> lossOperators() { return kLosses; }

} // namespace planloom::cuda
