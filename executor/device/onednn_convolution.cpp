// SPDX-License-Identifier: Apache-2.0
#include "executor/device/onednn_convolution.h"

#include "executor/device/onednn_state.h"

namespace planloom::device::onednn {

namespace {

/// oneDNN's weights have the groups as a dimension of their own, and its dilation of a dense kernel is 0.
std::vector<std::int64_t> groupedWeight(const Convolution &how)
{
    std::vector<std::int64_t> weight = how.weight;
    if (how.groups > 1) {
        weight[0] /= how.groups;
        weight.insert(weight.begin(), how.groups);
    }
    return weight;
}

ConvolutionMemory describe(const Convolution &how, bool withBias)
{
    ConvolutionMemory m{anyLayout(how.x), anyLayout(groupedWeight(how)), {}, anyLayout(how.y), how.strides, how.dilations, how.padBegin, how.padEnd};
    for (auto &dilation : m.dilations)
        --dilation;
    if (withBias)
        m.bias = rowMajor({how.y[1]});
    return m;
}

} // namespace

Result<Primitive> convolution(const Convolution &how)
{
    return guarded("convolution", [&](Primitive::State &state) {
        const ConvolutionMemory m = describe(how, how.bias);
        const auto made = describeForward(m, attributes());
        state.add(DNNL_ARG_SRC, rowMajor(how.x), made.src_desc(), false);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(groupedWeight(how)), made.weights_desc(), false);
        state.add(DNNL_ARG_DST, rowMajor(how.y), made.dst_desc(), true);
        if (how.bias)
            state.add(DNNL_ARG_BIAS, m.bias, made.bias_desc(), false);
        state.finish(dnnl::convolution_forward(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionInputGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const ConvolutionMemory m = describe(how, false);
        const auto made = describeBackwardData(m, attributes(), describeForward(m, attributes()));
        state.add(DNNL_ARG_DIFF_SRC, rowMajor(how.x), made.diff_src_desc(), true);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(groupedWeight(how)), made.weights_desc(), false);
        state.add(DNNL_ARG_DIFF_DST, rowMajor(how.y), made.diff_dst_desc(), false);
        state.finish(dnnl::convolution_backward_data(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionWeightGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const ConvolutionMemory m = describe(how, false);
        const auto made = describeBackwardWeights(m, attributes(), describeForward(m, attributes()));
        state.add(DNNL_ARG_SRC, rowMajor(how.x), made.src_desc(), false);
        state.add(DNNL_ARG_DIFF_WEIGHTS, rowMajor(groupedWeight(how)), made.diff_weights_desc(), true);
        state.add(DNNL_ARG_DIFF_DST, rowMajor(how.y), made.diff_dst_desc(), false);
        state.finish(dnnl::convolution_backward_weights(made), made.scratchpad_desc());
    });
}

} // namespace planloom::device::onednn
