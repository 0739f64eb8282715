// SPDX-License-Identifier: Apache-2.0
// Padding that repeats elements: reflect, edge and wrap, and its gradient.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/strided.h"

#include <cstring>

namespace planloom::device {

namespace {

/// Which element of a dimension of n elements stands at @p at, which may lie outside. n > 0.
std::int64_t source(const std::string &mode, std::int64_t at, std::int64_t n)
{
    if (mode == "edge")
        return std::clamp<std::int64_t>(at, 0, n - 1);
    if (mode == "wrap")
        return (at % n + n) % n;
    const std::int64_t period =
        std::max<std::int64_t>(1, 2 * (n - 1)); // reflect: there and back without repeating the ends
    const std::int64_t phase = (at % period + period) % period;
    return phase < n ? phase : period - phase;
}

/// For each element of a padded tensor the one that it repeats.
class PadMap {
public:
    PadMap(const Dims &from, const Dims &to, const Dims &pads, const std::string &mode) : m_to(to), m_sources(to.size())
    {
        const Dims strides = rowMajorStrides(from);
        for (std::size_t d = 0; d < to.size(); ++d)
            for (std::int64_t i = 0; i < to[d]; ++i)
                m_sources[d].push_back(source(mode, i - pads[d], from[d]) * strides[d]);
    }

    /// Calls f(row, sources, base): the elements of each row of the padded tensor come from base + sources[i].
    template <class F>
    void rows(F f) const
    {
        const std::int64_t count = product(m_to, 0, m_to.size() - 1);
        for (std::int64_t row = 0; row < count; ++row) {
            std::int64_t base = 0;
            for (std::size_t d = m_to.size() - 1, rest = static_cast<std::size_t>(row); d-- > 0;
                 rest /= static_cast<std::size_t>(m_to[d]))
                base += m_sources[d][rest % static_cast<std::size_t>(m_to[d])];
            f(row, m_sources.back(), base);
        }
    }

private:
    Dims m_to;
    std::vector<Dims> m_sources;
};

/// Between a tensor of @p from and its padded form. Errors: sizes, an unknown mode, nothing to repeat.
Result<PadMap> padMap(const Request &request, const Dims &from, const Dims &to)
{
    const Dims pads = request.op.integers("pads");
    const std::string mode = request.op.text("mode");
    if (mode != "reflect" && mode != "edge" && mode != "wrap")
        return cannot(request, "padding mode " + mode + "; constant, reflect, edge and wrap are done");
    if (from.empty() || pads.size() != 2 * from.size() || to.size() != from.size())
        return wrong(request, "pads " + text(pads) + " does not fit " + text(from));
    for (std::size_t d = 0; d < from.size(); ++d)
        if (from[d] == 0 || to[d] != from[d] + pads[d] + pads[d + from.size()])
            return wrong(request, text(from) + " padded by " + text(pads) + " is not " + text(to));
    return PadMap(from, to, pads, mode);
}

template <class T>
Made makePadOf(const PadMap &map)
{
    return makeFunction([map](Inputs in, Outputs out) {
        const T *x = static_cast<const T *>(in[0]);
        T *y = static_cast<T *>(out[0]);
        map.rows([&](std::int64_t row, const Dims &sources, std::int64_t base) {
            const auto n = static_cast<std::int64_t>(sources.size());
            for (std::int64_t i = 0; i < n; ++i)
                y[row * n + i] = x[base + sources[static_cast<std::size_t>(i)]];
        });
    });
}

} // namespace

Made makeMirroredPad(const Request &request)
{
    auto map = padMap(request, request.in(0), request.out());
    if (!map)
        return map.error();
    if (request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "input and output have different data types");
    switch (graph::sizeOf(request.inputs[0].type)) {
    case 1: return makePadOf<std::uint8_t>(*map);
    case 2: return makePadOf<std::uint16_t>(*map);
    case 4: return makePadOf<std::uint32_t>(*map);
    default: return makePadOf<std::uint64_t>(*map);
    }
}

Made makePadGrad(const Request &request)
{
    auto map = padMap(request, request.out(), request.in(0));
    if (!map)
        return map.error();
    return makeFunction([map = *map, all = product(request.out())](Inputs in, Outputs out) {
        std::fill_n(floats(out[0]), all, 0.0F);
        map.rows([&](std::int64_t row, const Dims &sources, std::int64_t base) {
            const auto n = static_cast<std::int64_t>(sources.size());
            for (std::int64_t i = 0; i < n; ++i)
                floats(out[0])[base + sources[static_cast<std::size_t>(i)]] += floats(in[0])[row * n + i];
        });
    });
}

} // namespace planloom::device
