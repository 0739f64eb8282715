// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/reference.h"

#include <algorithm>

namespace planloom::reference {

inline void matmul(const Call &c)
{
    Array a = c.in[0];
    Array b = c.in[1];
    if (a.dims.size() == 1)
        a.dims.insert(a.dims.begin(), 1);
    if (b.dims.size() == 1)
        b.dims.push_back(1);
    const bool transA = c.op.integer("transA") != 0;
    const bool transB = c.op.integer("transB") != 0;
    const std::size_t ra = a.dims.size();
    const std::int64_t m = a.dims[transA ? ra - 1 : ra - 2];
    const std::int64_t k = a.dims[transA ? ra - 2 : ra - 1];
    const std::int64_t n = b.dims[transB ? b.dims.size() - 2 : b.dims.size() - 1];
    const std::size_t rank = std::max(ra, b.dims.size());
    Dims batch(rank - 2, 1);
    for (const Array *x : {&a, &b}) {
        for (std::size_t d = 0; d + 2 < x->dims.size(); ++d) {
            auto &size = batch[rank - x->dims.size() + d];
            size = std::max(size, x->dims[d]);
        }
    }
    std::int64_t at = 0;
    forEach(batch, [&](const Dims &lead) {
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t l = 0; l < k; ++l) {
                    Dims ia = lead;
                    Dims ib = lead;
                    ia.insert(ia.end(), {transA ? l : i, transA ? i : l});
                    ib.insert(ib.end(), {transB ? j : l, transB ? l : j});
                    sum += a.at(ia) * b.at(ib);
                }
                c.out[0][at++] = sum;
            }
        }
    });
}

inline void gemm(const Call &c)
{
    const bool transA = c.op.integer("transA") != 0;
    const bool transB = c.op.integer("transB") != 0;
    const std::int64_t k = c.in[0].dims[transA ? 0 : 1];
    forEach(c.out[0].dims, [&](const Dims &index) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
            sum += c.in[0].at(transA ? Dims{l, index[0]} : Dims{index[0], l})
                * c.in[1].at(transB ? Dims{index[1], l} : Dims{l, index[1]});
        sum *= c.op.number("alpha", 1.0);
        if (c.has(2))
            sum += c.op.number("beta", 1.0) * c.in[2].at(index);
        c.out[0].at(index) = sum;
    });
}

/// Spatial attributes, always for two dimensions: a missing first one has size 1.
struct Window {
    std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, padEnd[2] = {0, 0}, dilation[2] = {1, 1},
                 size[2] = {1, 1}, positions[2] = {1, 1};

    Window(const graph::Op &op, const Dims &x, const Dims &y, const Dims &shape)
    {
        const std::size_t n = x.size() - 2;
        const auto strides = op.integers("strides", Dims(n, 1));
        const auto pads = op.integers("pads", Dims(2 * n, 0));
        const auto dilations = op.integers("dilations", Dims(n, 1));
        for (std::size_t d = 0; d < n; ++d) {
            const std::size_t to = 2 - n + d;
            kernel[to] = shape[d];
            stride[to] = strides[d];
            pad[to] = pads[d];
            padEnd[to] = pads[n + d];
            dilation[to] = dilations[d];
            size[to] = x[d + 2];
            positions[to] = y[d + 2];
        }
    }

    /// Calls f(output, input, tap) with flat indices in a plane and in the window for every tap inside the input.
    template <class F>
    void forTaps(F f) const
    {
        forEach({positions[0], positions[1], kernel[0], kernel[1]}, [&](const Dims &i) {
            const std::int64_t row = i[0] * stride[0] - pad[0] + i[2] * dilation[0];
            const std::int64_t column = i[1] * stride[1] - pad[1] + i[3] * dilation[1];
            if (row >= 0 && row < size[0] && column >= 0 && column < size[1])
                f(i[0] * positions[1] + i[1], row * size[1] + column, i[2] * kernel[1] + i[3]);
        });
    }
    [[nodiscard]] std::int64_t inputArea() const { return size[0] * size[1]; }
    [[nodiscard]] std::int64_t outputArea() const { return positions[0] * positions[1]; }
    [[nodiscard]] std::int64_t taps() const { return kernel[0] * kernel[1]; }
};

inline void convolution(const Call &c)
{
    const Dims &weight = c.in[1].dims;
    const Window window(c.op, c.in[0].dims, c.out[0].dims, Dims(weight.begin() + 2, weight.end()));
    const std::int64_t groups = c.op.integer("group", 1);
    const std::int64_t perGroup = weight[0] / groups;
    for (std::int64_t sample = 0; sample < c.in[0].dims[0]; ++sample) {
        for (std::int64_t k = 0; k < weight[0]; ++k) {
            double *y = &c.out[0][(sample * weight[0] + k) * window.outputArea()];
            for (std::int64_t i = 0; i < window.outputArea() && c.has(2); ++i)
                y[i] = c.in[2][k];
            for (std::int64_t ch = 0; ch < weight[1]; ++ch) {
                const double *x = &c.in[0].values[static_cast<std::size_t>(
                    (sample * c.in[0].dims[1] + k / perGroup * weight[1] + ch) * window.inputArea())];
                const double *w = &c.in[1].values[static_cast<std::size_t>((k * weight[1] + ch) * window.taps())];
                window.forTaps(
                    [&](std::int64_t to, std::int64_t from, std::int64_t tap) { y[to] += x[from] * w[tap]; });
            }
        }
    }
}

inline void maxPool(const Call &c)
{
    const Window window(c.op, c.in[0].dims, c.out[0].dims, c.op.integers("kernel_shape"));
    for (std::int64_t plane = 0; plane < c.in[0].dims[0] * c.in[0].dims[1]; ++plane) {
        std::vector<std::int64_t> best(static_cast<std::size_t>(window.outputArea()), -1);
        window.forTaps([&](std::int64_t to, std::int64_t from, std::int64_t) {
            auto &b = best[static_cast<std::size_t>(to)];
            const std::int64_t at = plane * window.inputArea() + from;
            if (b < 0 || c.in[0][at] > c.in[0][b])
                b = at;
        });
        for (std::int64_t i = 0; i < window.outputArea(); ++i) {
            c.out[0][plane * window.outputArea() + i] = c.in[0][best[static_cast<std::size_t>(i)]];
            if (c.makes(1))
                c.out[1][plane * window.outputArea() + i] = static_cast<double>(best[static_cast<std::size_t>(i)]);
        }
    }
}

inline void averagePool(const Call &c)
{
    const Window window(c.op, c.in[0].dims, c.out[0].dims, c.op.integers("kernel_shape"));
    const bool all = c.op.integer("count_include_pad") != 0;
    for (std::int64_t plane = 0; plane < c.in[0].dims[0] * c.in[0].dims[1]; ++plane) {
        std::vector<double> taps(static_cast<std::size_t>(window.outputArea()),
                                 all ? static_cast<double>(window.taps()) : 0.0);
        double *y = &c.out[0][plane * window.outputArea()];
        window.forTaps([&](std::int64_t to, std::int64_t from, std::int64_t) {
            y[to] += c.in[0][plane * window.inputArea() + from];
            taps[static_cast<std::size_t>(to)] += all ? 0.0 : 1.0;
        });
        for (std::int64_t i = 0; i < window.outputArea(); ++i)
            y[i] /= taps[static_cast<std::size_t>(i)];
    }
}

inline Function globalPool(bool maximum)
{
    return [maximum](const Call &c) {
        const std::int64_t planes = c.in[0].dims[0] * c.in[0].dims[1];
        const std::int64_t area = c.in[0].size() / planes;
        for (std::int64_t p = 0; p < planes; ++p) {
            double sum = 0;
            double best = -INFINITY;
            for (std::int64_t i = 0; i < area; ++i) {
                sum += c.in[0][p * area + i];
                best = std::max(best, c.in[0][p * area + i]);
            }
            c.out[0][p] = maximum ? best : sum / static_cast<double>(area);
        }
    };
}

/// The whole T x T matrix, one head after the other.
inline void attention(const Call &c)
{
    const std::int64_t heads = c.op.integer("heads");
    const std::int64_t kvHeads = c.op.integer("kv_heads", heads);
    const std::int64_t t = c.in[0].dims[1];
    const std::int64_t d = c.in[0].dims[2] / (heads + 2 * kvHeads);
    const auto packed = [&](std::int64_t n, std::int64_t row, std::int64_t head, std::int64_t i) {
        return c.in[0].at({n, row, head * d + i});
    };
    forEach({c.in[0].dims[0], heads, t}, [&](const Dims &at) {
        const std::int64_t kv = at[1] / (heads / kvHeads);
        std::vector<double> weights(static_cast<std::size_t>(t), 0.0);
        double sum = 0;
        for (std::int64_t key = 0; key < t; ++key) {
            double score = 0;
            for (std::int64_t i = 0; i < d; ++i)
                score += packed(at[0], at[2], at[1], i) * packed(at[0], key, heads + kv, i)
                    / std::sqrt(static_cast<double>(d));
            const bool hidden =
                (c.op.integer("causal") != 0 && key > at[2]) || (c.has(1) && c.in[1].at({at[0], key}) == 0.0);
            weights[static_cast<std::size_t>(key)] = hidden ? 0.0 : std::exp(score);
            sum += weights[static_cast<std::size_t>(key)];
        }
        for (std::int64_t i = 0; i < d; ++i) {
            double value = 0;
            for (std::int64_t key = 0; key < t; ++key)
                value += weights[static_cast<std::size_t>(key)] * packed(at[0], key, heads + kvHeads + kv, i);
            c.out[0].at({at[0], at[2], at[1] * d + i}) = sum > 0 ? value / sum : 0.0;
        }
        if (c.makes(1))
            c.out[1].at(at) = sum > 0 ? std::log(sum) : 0.0;
    });
}

inline void rotary(const Call &c)
{
    const std::int64_t heads = c.op.integer("heads");
    const std::int64_t kvHeads = c.op.integer("kv_heads", heads);
    const std::int64_t d = c.in[0].dims[2] / (heads + 2 * kvHeads);
    const std::vector<double> frequencies = c.op.numbers("inverse_frequencies");
    forEach(c.out[0].dims, [&](const Dims &index) {
        const std::int64_t head = index[2] / d;
        const std::int64_t i = index[2] % d;
        const std::int64_t half = frequencies.empty() ? d / 2 : static_cast<std::int64_t>(frequencies.size());
        if (head >= heads + kvHeads || i >= 2 * half) {
            c.out[0].at(index) = c.in[0].at(index);
            return;
        }
        Dims partner = index;
        partner[2] += i < half ? half : -half;
        const double frequency = frequencies.empty()
            ? std::pow(c.op.number("theta", 10000.0), -2.0 * static_cast<double>(i % half) / static_cast<double>(d))
            : frequencies[static_cast<std::size_t>(i % half)];
        const double angle = static_cast<double>(index[1]) * frequency;
        c.out[0].at(index) =
            c.in[0].at(index) * std::cos(angle) + (i < half ? -1.0 : 1.0) * c.in[0].at(partner) * std::sin(angle);
    });
}

inline void addLinear(Table &t)
{
    t["MatMul"] = matmul;
    t["Gemm"] = gemm;
    t["Conv"] = convolution;
    t["MaxPool"] = maxPool;
    t["AveragePool"] = averagePool;
    t["GlobalAveragePool"] = globalPool(false);
    t["GlobalMaxPool"] = globalPool(true);
    t["Attention"] = attention;
    t["RotaryEmbedding"] = rotary;
}

} // namespace planloom::reference
