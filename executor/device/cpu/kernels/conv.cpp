// SPDX-License-Identifier: Apache-2.0
// Convolution and its gradients by oneDNN, which chooses the layouts inside.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/onednn_convolution.h"
#include "executor/device/cpu/spatial.h"

namespace planloom::device {

namespace {

Result<onednn::Convolution> describe(const Request &request, const Dims &x, const Dims &weight, const Dims &y)
{
    if (weight.size() < 3 || y.size() != weight.size() || x.size() != weight.size())
        return wrong(request,
                     "input " + text(x) + ", weight " + text(weight) + " and output " + text(y) + " do not fit");
    auto sliding = slidingOf(request, x, Dims(weight.begin() + 2, weight.end()));
    if (!sliding)
        return sliding.error();
    const std::int64_t groups = request.op.integer("group", 1);
    if (groups < 1 || x[1] != weight[1] * groups || weight[0] % groups != 0)
        return wrong(request,
                     text(x) + " and weight " + text(weight) + " do not fit with " + std::to_string(groups)
                         + " groups");
    Dims expected{x[0], weight[0]};
    for (std::size_t d = 0; d + 2 < x.size(); ++d)
        expected.push_back(sliding->positions(d, x[d + 2]));
    if (y != expected)
        return wrong(request, "the output should be " + text(expected) + ", got " + text(y));
    if (product(y) == 0)
        return wrong(request, "the output " + text(y) + " has no elements");
    // oneDNN takes the far padding as the positions really reach it.
    Dims padEnd;
    for (std::size_t d = 0; d + 2 < x.size(); ++d) {
        const std::int64_t reach = sliding->dilations[d] * (sliding->kernel[d] - 1) + 1;
        padEnd.push_back((y[d + 2] - 1) * sliding->strides[d] + reach - x[d + 2] - sliding->padBegin[d]);
    }
    return onednn::Convolution{
        x, weight, y, sliding->strides, sliding->padBegin, padEnd, sliding->dilations, groups, false, false, false};
}

bool blocked(const Argument &argument) { return argument.layout == graph::Layout::Blocked; }

/// Arguments in oneDNN's order; each with its source.
struct Source {
    bool output;
    std::size_t index;
};

Made makePrimitive(const Request &request, Result<onednn::Primitive> primitive, std::vector<Source> sources)
{
    if (!primitive)
        return cannot(request, primitive.error().message);
    return makeFunction([p = std::move(*primitive), sources = std::move(sources)](Inputs in, Outputs out) mutable {
        for (std::size_t i = 0; i < sources.size(); ++i)
            p.set(i, sources[i].output ? out[sources[i].index] : in[sources[i].index]);
        p.run();
    });
}

Made makeConv(const Request &request)
{
    auto how = describe(request, request.in(0), request.in(1), request.out());
    if (!how)
        return how.error();
    how->blockedX = blocked(request.inputs[0]);
    how->blockedY = blocked(request.outputs[0]);
    std::vector<Source> sources{{false, 0}, {false, 1}, {true, 0}};
    if (request.hasInput(2)) {
        if (request.inputs[2].elements() != how->y[1])
            return wrong(request,
                         "bias " + text(request.in(2)) + " does not fit " + std::to_string(how->y[1]) + " channels");
        how->bias = true;
        sources.push_back({false, 2});
    }
    return makePrimitive(request, onednn::convolution(*how), sources);
}

Made makeInputGradient(const Request &request)
{
    auto how = describe(request, request.out(), request.in(1), request.in(0));
    if (!how)
        return how.error();
    how->blockedX = blocked(request.outputs[0]);
    how->blockedY = blocked(request.inputs[0]);
    return makePrimitive(request, onednn::convolutionInputGradient(*how), {{true, 0}, {false, 1}, {false, 0}});
}

Made makeWeightGradient(const Request &request)
{
    auto how = describe(request, request.in(1), request.out(), request.in(0));
    if (!how)
        return how.error();
    how->blockedX = blocked(request.inputs[1]);
    how->blockedY = blocked(request.inputs[0]);
    std::vector<Source> sources{{false, 1}, {true, 0}, {false, 0}};
    if (request.hasOutput(1)) {
        if (request.outputs[1].elements() != how->y[1])
            return wrong(request,
                         "the bias's gradient " + text(request.out(1)) + " does not fit " + std::to_string(how->y[1])
                             + " channels");
        how->bias = true;
        sources.push_back({true, 1});
    }
    return makePrimitive(request, onednn::convolutionWeightGradient(*how), sources);
}

constexpr KernelEntry kEntries[] = {
    {"Conv", "fff?", "f", makeConv},
    {"ConvGradInput", "ff", "f", makeInputGradient},
    {"ConvTranspose", "ff", "f", makeInputGradient},
    {"ConvGradWeight", "ff", "ff?", makeWeightGradient},
};

} // namespace

std::span<const KernelEntry> convolutionKernels() { return kEntries; }

} // namespace planloom::device
