// SPDX-License-Identifier: Apache-2.0
#include "executor/device/onednn.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <string>
#include <unordered_map>
#include <utility>

namespace planloom::device::onednn {

namespace {

using dnnl::memory;

dnnl::engine &engine()
{
    static dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
    return kEngine;
}

memory::desc plain(const View &view)
{
    return {view.dims, memory::data_type::f32, view.strides};
}

memory::desc rowMajor(const std::vector<std::int64_t> &dims)
{
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t d = dims.size(); d-- > 1;)
        strides[d - 1] = strides[d] * dims[d];
    return {dims, memory::data_type::f32, strides};
}

memory::desc anyLayout(const std::vector<std::int64_t> &dims)
{
    return {dims, memory::data_type::f32, memory::format_tag::any};
}

dnnl::primitive_attr attributes(float alpha = 1.0F)
{
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (alpha != 1.0F)
        attr.set_output_scales(0, {alpha});
    return attr;
}

} // namespace

struct Primitive::State {
    /// An argument at the border, and the copy in the primitive's own layout where that differs.
    struct Slot {
        memory border;
        memory inside;
        dnnl::reorder copy;
        bool copied = false;
        bool written = false;
    };
    dnnl::stream stream{engine()};
    dnnl::primitive primitive;
    std::vector<Slot> slots;
    std::unordered_map<int, memory> arguments;

    void add(int name, const memory::desc &border, const memory::desc &inside, bool written)
    {
        Slot slot;
        slot.written = written;
        slot.border = memory(border, engine(), nullptr);
        slot.copied = border != inside;
        slot.inside = slot.copied ? memory(inside, engine()) : slot.border;
        if (slot.copied)
            slot.copy = written ? dnnl::reorder(slot.inside, slot.border) : dnnl::reorder(slot.border, slot.inside);
        arguments.emplace(name, slot.inside);
        slots.push_back(std::move(slot));
    }

    void finish(dnnl::primitive made, const memory::desc &scratchpad)
    {
        primitive = std::move(made);
        arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, engine()));
    }

    void copyAll(bool written)
    {
        for (Slot &slot : slots) {
            if (!slot.copied || slot.written != written)
                continue;
            if (written)
                slot.copy.execute(stream, slot.inside, slot.border);
            else
                slot.copy.execute(stream, slot.border, slot.inside);
        }
    }
};

Primitive::Primitive(std::unique_ptr<State> state) : m_state(std::move(state)) {}
Primitive::Primitive(Primitive &&) noexcept = default;
Primitive &Primitive::operator=(Primitive &&) noexcept = default;
Primitive::~Primitive() = default;

void Primitive::set(std::size_t argument, const void *data)
{
    m_state->slots[argument].border.set_data_handle(const_cast<void *>(data)); // oneDNN has no read-only memory objects
}

void Primitive::run()
{
    m_state->copyAll(false);
    m_state->primitive.execute(m_state->stream, m_state->arguments);
    m_state->copyAll(true);
    m_state->stream.wait();
}

namespace {

/// Runs @p make, which talks to oneDNN, and turns its exceptions into errors.
template <class F>
Result<Primitive> guarded(const char *what, F make)
{
    try {
        auto state = std::make_unique<Primitive::State>();
        make(*state);
        return Primitive(std::move(state));
    } catch (const dnnl::error &error) {
        return unsupported(std::string("oneDNN cannot make this ") + what + ": " + error.what());
    }
}

/// oneDNN's weights have the groups as a dimension of their own, and its dilation of a dense kernel is 0.
struct ConvolutionViews {
    std::vector<std::int64_t> weight;
    memory::dims dilations;
};

ConvolutionViews views(const Convolution &how)
{
    ConvolutionViews result{how.weight, how.dilations};
    for (auto &dilation : result.dilations)
        --dilation;
    if (how.groups > 1) {
        result.weight[0] /= how.groups;
        result.weight.insert(result.weight.begin(), how.groups);
    }
    return result;
}

dnnl::convolution_forward::primitive_desc forwardHint(const Convolution &how, const ConvolutionViews &v, const memory::desc &bias)
{
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, anyLayout(how.x),
                                               anyLayout(v.weight), bias, anyLayout(how.y), how.strides, v.dilations, how.padBegin, how.padEnd);
    return {desc, attributes(), engine()};
}

} // namespace

Result<Primitive> matmul(const View &a, const View &b, const View &y, bool withBias, float alpha)
{
    return guarded("matrix product", [&](Primitive::State &state) {
        memory::desc bias;
        if (withBias) {
            std::vector<std::int64_t> dims(y.dims.size(), 1);
            dims.back() = y.dims.back();
            bias = rowMajor(dims);
        }
        const dnnl::matmul::desc desc = withBias ? dnnl::matmul::desc(plain(a), plain(b), bias, plain(y)) : dnnl::matmul::desc(plain(a), plain(b), plain(y));
        const dnnl::matmul::primitive_desc made(desc, attributes(alpha), engine());
        state.add(DNNL_ARG_SRC, plain(a), made.src_desc(), false);
        state.add(DNNL_ARG_WEIGHTS, plain(b), made.weights_desc(), false);
        state.add(DNNL_ARG_DST, plain(y), made.dst_desc(), true);
        if (withBias)
            state.add(DNNL_ARG_BIAS, bias, made.bias_desc(), false);
        state.finish(dnnl::matmul(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolution(const Convolution &how)
{
    return guarded("convolution", [&](Primitive::State &state) {
        const ConvolutionViews v = views(how);
        const memory::desc bias = how.bias ? rowMajor({how.y[1]}) : memory::desc();
        const auto made = forwardHint(how, v, bias);
        state.add(DNNL_ARG_SRC, rowMajor(how.x), made.src_desc(), false);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(v.weight), made.weights_desc(), false);
        state.add(DNNL_ARG_DST, rowMajor(how.y), made.dst_desc(), true);
        if (how.bias)
            state.add(DNNL_ARG_BIAS, bias, made.bias_desc(), false);
        state.finish(dnnl::convolution_forward(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionInputGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const ConvolutionViews v = views(how);
        const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, anyLayout(how.x), anyLayout(v.weight), anyLayout(how.y),
                                                         how.strides, v.dilations, how.padBegin, how.padEnd);
        const dnnl::convolution_backward_data::primitive_desc made(desc, attributes(), engine(), forwardHint(how, v, memory::desc()));
        state.add(DNNL_ARG_DIFF_SRC, rowMajor(how.x), made.diff_src_desc(), true);
        state.add(DNNL_ARG_WEIGHTS, rowMajor(v.weight), made.weights_desc(), false);
        state.add(DNNL_ARG_DIFF_DST, rowMajor(how.y), made.diff_dst_desc(), false);
        state.finish(dnnl::convolution_backward_data(made), made.scratchpad_desc());
    });
}

Result<Primitive> convolutionWeightGradient(const Convolution &how)
{
    return guarded("convolution gradient", [&](Primitive::State &state) {
        const ConvolutionViews v = views(how);
        const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, anyLayout(how.x), anyLayout(v.weight),
                                                            anyLayout(how.y), how.strides, v.dilations, how.padBegin, how.padEnd);
        const dnnl::convolution_backward_weights::primitive_desc made(desc, attributes(), engine(), forwardHint(how, v, memory::desc()));
        state.add(DNNL_ARG_SRC, rowMajor(how.x), made.src_desc(), false);
        state.add(DNNL_ARG_DIFF_WEIGHTS, rowMajor(v.weight), made.diff_weights_desc(), true);
        state.add(DNNL_ARG_DIFF_DST, rowMajor(how.y), made.diff_dst_desc(), false);
        state.finish(dnnl::convolution_backward_weights(made), made.scratchpad_desc());
    });
}

void gemm(bool transposeA, bool transposeB, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float *a, std::int64_t lda,
          const float *b, std::int64_t ldb, float beta, float *c, std::int64_t ldc)
{
    dnnl_sgemm(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace planloom::device::onednn
