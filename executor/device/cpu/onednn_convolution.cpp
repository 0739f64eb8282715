// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/onednn_convolution.h"

#include "executor/device/cpu/onednn_state.h"

#include <string_view>

namespace planloom::device::onednn {

namespace {

memory::format_tag blockedTag()
{
    return convolutionBlock() == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c;
}

/// An image as the caller holds it.
memory::desc border(const std::vector<std::int64_t> &dims, bool blocked)
{
    return blocked ? memory::desc(dims, memory::data_type::f32, blockedTag()) : rowMajor(dims);
}

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

/// @p free: oneDNN may choose the layouts of images that come in blocks, too.
ConvolutionMemory describe(const Convolution &how, bool withBias, bool free)
{
    const auto image = [&](const std::vector<std::int64_t> &dims, bool blocked) {
        return blocked && !free ? border(dims, true) : anyLayout(dims);
    };
    ConvolutionMemory m{image(how.x, how.blockedX),
                        anyLayout(groupedWeight(how)),
                        {},
                        image(how.y, how.blockedY),
                        how.strides,
                        how.dilations,
                        how.padBegin,
                        how.padEnd};
    for (auto &dilation : m.dilations)
        --dilation;
    if (withBias)
        m.bias = rowMajor({how.y[1]});
    return m;
}

/// What @p make(ConvolutionMemory) gives for the layouts that the images have, or where oneDNN has nothing fast for
/// those, for its own choice: the copies around it cost less than its reference code.
template <class F>
auto choose(const Convolution &how, bool withBias, F make)
{
    if (how.blockedX || how.blockedY) {
        try {
            auto made = make(describe(how, withBias, false));
            const std::string_view name = made.impl_info_str();
            if (!name.starts_with("ref") && !name.starts_with("gemm"))
                return made;
        } catch (const dnnl::error &) { // oneDNN has no such primitive
        }
    }
    return make(describe(how, withBias, true));
}

} // namespace

std::int64_t convolutionBlock()
{
    static const std::int64_t kBlock = []() -> std::int64_t {
        constexpr std::int64_t kChannels = 64;
        constexpr std::int64_t kSide = 14;
        const Convolution how{{1, kChannels, kSide, kSide},
                              {kChannels, kChannels, 3, 3},
                              {1, kChannels, kSide, kSide},
                              {1, 1},
                              {1, 1},
                              {1, 1},
                              {1, 1}};
        ConvolutionMemory asked = describe(how, false, true);
        asked.x = asked.y = memory::desc(how.y, memory::data_type::f32, memory::format_tag::nChw16c);
        try {
            return std::string_view(describeForward(asked, attributes()).impl_info_str()).starts_with("jit") ? 16 : 8;
        } catch (const dnnl::error &) {
            return 8;
        }
    }();
    return kBlock;
}

Result<Primitive> convolution(const Convolution &how)
{
    return guarded("convolution", [&](Primitive::State &state) {
        const auto made =
            choose(how, how.bias, [](const ConvolutionMemory &m) { return describeForward(m, attributes()); });
        state.add(DNNL_ARG_SRC, border(how.x, how.blockedX), made.src_desc(), false);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(groupedWeight(how)), made.weights_desc(), false);
        state.add(DNNL_ARG_DST, border(how.y, how.blockedY), made.dst_desc(), true);
        if (how.bias)
            state.add(DNNL_ARG_BIAS, rowMajor({how.y[1]}), made.bias_desc(), false);
        state.finish(dnnl::convolution_forward(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionInputGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const auto made = choose(how, false, [](const ConvolutionMemory &m) {
            return describeBackwardData(m, attributes(), describeForward(m, attributes()));
        });
        state.add(DNNL_ARG_DIFF_SRC, border(how.x, how.blockedX), made.diff_src_desc(), true);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(groupedWeight(how)), made.weights_desc(), false);
        state.add(DNNL_ARG_DIFF_DST, border(how.y, how.blockedY), made.diff_dst_desc(), false);
        state.finish(dnnl::convolution_backward_data(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionWeightGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const auto made = choose(how, how.bias, [](const ConvolutionMemory &m) {
            return describeBackwardWeights(m, attributes(), describeForward(m, attributes()));
        });
        state.add(DNNL_ARG_SRC, border(how.x, how.blockedX), made.src_desc(), false);
        state.add(DNNL_ARG_DIFF_WEIGHTS, rowMajor(groupedWeight(how)), made.diff_weights_desc(), true);
        state.add(DNNL_ARG_DIFF_DST, border(how.y, how.blockedY), made.diff_dst_desc(), false);
        if (how.bias)
            state.add(DNNL_ARG_DIFF_BIAS, rowMajor({how.y[1]}), made.diff_bias_desc(), true);
        state.finish(dnnl::convolution_backward_weights(made), made.scratchpad_desc());
    });
}

} // namespace planloom::device::onednn
