// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/onednn.h"

#include "executor/device/cpu/onednn_state.h"

namespace planloom::device::onednn {

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

memory::data_type type(bool half) { return half ? memory::data_type::bf16 : memory::data_type::f32; }

memory::desc plain(const View &view) { return {view.dims, type(view.half), view.strides}; }

} // namespace

Result<Primitive> matmul(const View &a, const View &b, const View &y, Bias bias, float alpha, bool add)
{
    return guarded("matrix product", [&](Primitive::State &state) {
        memory::desc row;
        if (bias != Bias::None) {
            std::vector<std::int64_t> dims(y.dims.size(), 1);
            dims.back() = y.dims.back();
            row = rowMajor(dims, type(bias == Bias::Half));
        }
        dnnl::primitive_attr attr = attributes();
        dnnl::post_ops ops;
        if (alpha != 1.0F)
            appendElementwise(ops, dnnl::algorithm::eltwise_linear, alpha, 0.0F);
        if (add)
            ops.append_sum();
        if (ops.len() > 0)
            attr.set_post_ops(ops);
        const auto made = describeMatmul(plain(a), plain(b), bias != Bias::None ? &row : nullptr, plain(y), attr);
        state.add(DNNL_ARG_SRC, plain(a), made.src_desc(), false);
        state.add(DNNL_ARG_WEIGHTS, plain(b), made.weights_desc(), false);
        state.add(DNNL_ARG_DST, plain(y), made.dst_desc(), true);
        if (bias != Bias::None)
            state.add(DNNL_ARG_BIAS, row, made.bias_desc(), false);
        state.finish(dnnl::matmul(made), made.scratchpad_desc());
    });
}

void gemm(bool transposeA, bool transposeB, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float *a,
          std::int64_t lda, const float *b, std::int64_t ldb, float beta, float *c, std::int64_t ldc)
{
    dnnl_sgemm(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace planloom::device::onednn
