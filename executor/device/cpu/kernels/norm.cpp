// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation over trailing dimensions.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <tuple>

namespace planloom::device {

namespace {

/// Rows whose scale and bias gradients are first summed on their own; fixed, so that the sum does not depend on the
/// threads.
constexpr std::int64_t kGradientBlocks = 16;

struct Rows {
    std::int64_t count = 0, size = 0;
    float epsilon = 0;
};

PLANLOOM_CLONES void layerNormRow(const float *x, const float *scale, const float *bias, float *y, std::int64_t n,
                                  float epsilon, float *meanOut, float *invOut)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
        sum += x[i];
    const float mean = sum / static_cast<float>(n);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i)
        squares += (x[i] - mean) * (x[i] - mean);
    const float inv = 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
    if (bias != nullptr) {
        for (std::int64_t i = 0; i < n; ++i)
            y[i] = (x[i] - mean) * inv * scale[i] + bias[i];
    } else {
        for (std::int64_t i = 0; i < n; ++i)
            y[i] = (x[i] - mean) * inv * scale[i];
    }
    *meanOut = mean;
    *invOut = inv;
}

/// dx of one row, and its share of the parameters' gradients.
PLANLOOM_CLONES void layerNormGradRow(const float *dy, const float *x, const float *scale, float mean, float inv,
                                      std::int64_t n, float *__restrict dx, float *__restrict dScale,
                                      float *__restrict dBias)
{
    float sum = 0;
    float projected = 0;
#pragma omp simd reduction(+ : sum, projected)
    for (std::int64_t i = 0; i < n; ++i) {
        const float g = dy[i] * scale[i];
        sum += g;
        projected += g * (x[i] - mean);
    }
    const float share = 1.0F / static_cast<float>(n);
    const float mid = sum * share;
    const float slope = projected * inv * inv * share;
    for (std::int64_t i = 0; i < n; ++i) {
        const float centred = x[i] - mean;
        dScale[i] += dy[i] * centred * inv;
        dBias[i] += dy[i];
        dx[i] = inv * (dy[i] * scale[i] - mid - centred * slope);
    }
}

PLANLOOM_CLONES void rmsNormRow(const float *x, const float *scale, float *y, std::int64_t n, float epsilon,
                                float *invOut)
{
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i)
        squares += x[i] * x[i];
    const float inv = 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] * inv * scale[i];
    *invOut = inv;
}

PLANLOOM_CLONES void rmsNormGradRow(const float *dy, const float *x, const float *scale, float inv, std::int64_t n,
                                    float *__restrict dx, float *__restrict dScale)
{
    float projected = 0;
#pragma omp simd reduction(+ : projected)
    for (std::int64_t i = 0; i < n; ++i)
        projected += dy[i] * scale[i] * x[i];
    const float slope = projected * inv * inv / static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i) {
        dScale[i] += dy[i] * x[i] * inv;
        dx[i] = inv * (dy[i] * scale[i] - x[i] * slope);
    }
}

/// @p like: the input that is normalised; @p scale: index of the scale.
Result<Rows> rowsOf(const Request &request, std::size_t like, std::size_t scale)
{
    const Dims &dims = request.in(like);
    auto axis = resolveAxis(request, request.op.integer("axis", -1), dims.size());
    if (!axis)
        return axis.error();
    const Rows rows{product(dims, 0, *axis), product(dims, *axis, dims.size()),
                    static_cast<float>(request.op.number("epsilon", 1e-5))};
    if (request.inputs[scale].elements() != rows.size)
        return wrong(request,
                     "scale " + text(request.in(scale)) + " does not fit " + text(dims) + " from axis "
                         + std::to_string(*axis));
    if (request.outputs[0].elements() != rows.count * rows.size)
        return wrong(request, "the output should be " + text(dims) + ", got " + text(request.out()));
    return rows;
}

Status expectElements(const Request &request, const std::vector<Argument> &arguments, std::size_t index,
                      std::int64_t elements)
{
    if (index < arguments.size() && arguments[index].present && arguments[index].elements() != elements)
        return wrong(request,
                     "argument " + text(arguments[index].dims) + " should have " + std::to_string(elements)
                         + " elements");
    return {};
}

Made makeLayerNorm(const Request &request)
{
    auto rows = rowsOf(request, 0, 1);
    if (!rows)
        return rows.error();
    if (auto status = expectElements(request, request.inputs, 2, rows->size); !status)
        return status.error();
    for (std::size_t statistic : {std::size_t{1}, std::size_t{2}}) {
        if (auto status = expectElements(request, request.outputs, statistic, rows->count); !status)
            return status.error();
    }
    return makeFunction([rows = *rows](Inputs in, Outputs out) {
        const float *bias = in.size() > 2 ? floats(in[2]) : nullptr;
        float *means = out.size() > 1 ? floats(out[1]) : nullptr;
        float *invs = out.size() > 2 ? floats(out[2]) : nullptr;
        parallelFor(rows.count, rowGrain(rows.size), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                float mean = 0;
                float inv = 0;
                layerNormRow(floats(in[0]) + r * rows.size, floats(in[1]), bias, floats(out[0]) + r * rows.size,
                             rows.size, rows.epsilon, &mean, &inv);
                if (means != nullptr)
                    means[r] = mean;
                if (invs != nullptr)
                    invs[r] = inv;
            }
        });
    });
}

PLANLOOM_CLONES void addRow(const float *a, const float *b, float *sum, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        sum[i] = a[i] + b[i];
}

/// Normalises A + B, whose rows are still in cache when they are read again. @p centred: layer normalisation.
Made makeAddNorm(const Request &request, bool centred)
{
    auto rows = rowsOf(request, 0, 2);
    if (!rows)
        return rows.error();
    for (const auto &[arguments, index, elements] :
         {std::tuple(&request.inputs, std::size_t{1}, rows->count * rows->size),
          std::tuple(&request.inputs, std::size_t{3}, rows->size),
          std::tuple(&request.outputs, std::size_t{1}, rows->count * rows->size),
          std::tuple(&request.outputs, std::size_t{2}, rows->count),
          std::tuple(&request.outputs, std::size_t{3}, rows->count)}) {
        if (auto status = expectElements(request, *arguments, index, elements); !status)
            return status.error();
    }
    return makeFunction([rows = *rows, centred](Inputs in, Outputs out) {
        const float *bias = in.size() > 3 ? floats(in[3]) : nullptr;
        parallelFor(rows.count, rowGrain(rows.size), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const std::int64_t at = r * rows.size;
                float *sum = floats(out[1]) + at;
                addRow(floats(in[0]) + at, floats(in[1]) + at, sum, rows.size);
                if (centred)
                    layerNormRow(sum, floats(in[2]), bias, floats(out[0]) + at, rows.size, rows.epsilon,
                                 floats(out[2]) + r, floats(out[3]) + r);
                else
                    rmsNormRow(sum, floats(in[2]), floats(out[0]) + at, rows.size, rows.epsilon, floats(out[2]) + r);
            }
        });
    });
}

Made makeAddLayerNorm(const Request &request) { return makeAddNorm(request, true); }
Made makeAddRmsNorm(const Request &request) { return makeAddNorm(request, false); }

Made makeRmsNorm(const Request &request)
{
    auto rows = rowsOf(request, 0, 1);
    if (!rows)
        return rows.error();
    if (auto status = expectElements(request, request.outputs, 1, rows->count); !status)
        return status.error();
    return makeFunction([rows = *rows](Inputs in, Outputs out) {
        float *invs = out.size() > 1 ? floats(out[1]) : nullptr;
        parallelFor(rows.count, rowGrain(rows.size), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                float inv = 0;
                rmsNormRow(floats(in[0]) + r * rows.size, floats(in[1]), floats(out[0]) + r * rows.size, rows.size,
                           rows.epsilon, &inv);
                if (invs != nullptr)
                    invs[r] = inv;
            }
        });
    });
}

/// Both gradients: blocks of rows sum into their own strip of @p m_strips, the strips are then added in order.
class NormGrad final : public Kernel {
public:
    NormGrad(const Rows &rows, bool centred)
        : m_rows(rows),
          m_centred(centred),
          m_grain(std::max<std::int64_t>(1, (rows.count + kGradientBlocks - 1) / kGradientBlocks)),
          m_strips(static_cast<std::size_t>(2 * kGradientBlocks * rows.size))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        parallelFor(m_rows.count, m_grain, [&](std::int64_t begin, std::int64_t end) { block(in, out, begin, end); });
        const std::int64_t blocks = (m_rows.count + m_grain - 1) / m_grain;
        const std::int64_t n = m_rows.size;
        float *dScale = out.size() > 1 ? floats(out[1]) : nullptr;
        float *dBias = m_centred && out.size() > 2 ? floats(out[2]) : nullptr;
        parallelFor(n, kGrain / kGradientBlocks, [&](std::int64_t begin, std::int64_t end) {
            if (dScale != nullptr)
                addStrips(m_strips.data(), blocks, dScale, begin, end);
            if (dBias != nullptr)
                addStrips(m_strips.data() + n, blocks, dBias, begin, end);
        });
    }

private:
    void block(Inputs in, Outputs out, std::int64_t begin, std::int64_t end)
    {
        const std::int64_t n = m_rows.size;
        float *dScale = m_strips.data() + begin / m_grain * 2 * n;
        float *dBias = dScale + n;
        const std::size_t last = m_centred ? 5 : 4;
        const float *addend = in.size() > last ? floats(in[last]) : nullptr;
        std::fill(dScale, dScale + 2 * n, 0.0F);
        for (std::int64_t r = begin; r < end; ++r) {
            const float *dy = floats(in[0]) + r * n;
            const float *x = floats(in[1]) + r * n;
            float *dx = floats(out[0]) + r * n;
            if (m_centred)
                layerNormGradRow(dy, x, floats(in[2]), floats(in[3])[r], floats(in[4])[r], n, dx, dScale, dBias);
            else
                rmsNormGradRow(dy, x, floats(in[2]), floats(in[3])[r], n, dx, dScale);
            if (addend != nullptr)
                addRow(dx, addend + r * n, dx, n);
        }
    }

    void addStrips(const float *strips, std::int64_t blocks, float *sum, std::int64_t begin, std::int64_t end) const
    {
        std::fill(sum + begin, sum + end, 0.0F);
        for (std::int64_t b = 0; b < blocks; ++b) {
            const float *strip = strips + b * 2 * m_rows.size;
            for (std::int64_t i = begin; i < end; ++i)
                sum[i] += strip[i];
        }
    }

    Rows m_rows;
    bool m_centred;
    std::int64_t m_grain;
    std::vector<float> m_strips;
};

Made makeNormGrad(const Request &request, bool centred)
{
    auto rows = rowsOf(request, 1, 2);
    if (!rows)
        return rows.error();
    const std::int64_t all = rows->count * rows->size;
    if (request.inputs[0].elements() != all || request.inputs[3].elements() != rows->count
        || (centred && request.inputs[4].elements() != rows->count))
        return wrong(request, "dY and the saved statistics do not fit " + text(request.in(1)));
    if (auto status = expectElements(request, request.inputs, centred ? 5 : 4, all); !status)
        return status.error();
    for (std::size_t parameter : {std::size_t{1}, std::size_t{2}}) {
        if (auto status = expectElements(request, request.outputs, parameter, rows->size); !status)
            return status.error();
    }
    return Made(std::make_unique<NormGrad>(*rows, centred));
}

Made makeLayerNormGrad(const Request &request) { return makeNormGrad(request, true); }
Made makeRmsNormGrad(const Request &request) { return makeNormGrad(request, false); }

constexpr KernelEntry kEntries[] = {
    {"AddLayerNormalization", "ffff?", "ffff", makeAddLayerNorm},
    {"AddRMSNormalization", "fff", "fff", makeAddRmsNorm},
    {"LayerNormalization", "fff?", "ff?f?", makeLayerNorm},
    {"LayerNormalizationGrad", "ffffff?", "ff?f?", makeLayerNormGrad},
    {"RMSNormalization", "ff", "ff?", makeRmsNorm},
    {"RMSNormalizationGrad", "fffff?", "ff?", makeRmsNormGrad},
};

} // namespace

std::span<const KernelEntry> normKernels() { return kEntries; }

} // namespace planloom::device
