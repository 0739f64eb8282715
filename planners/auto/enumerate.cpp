// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/enumerate.h"

#include <algorithm>

namespace planloom::planners::automatic {
namespace {

double binomial(std::size_t n, std::size_t k)
{
    double value = 1;
    for (std::size_t i = 1; i <= k; ++i)
        value = value * static_cast<double>(n - k + i) / static_cast<double>(i);
    return value;
}

class Walk {
public:
    Walk(const DeviceLine &line, std::size_t layers, std::span<const plan::Recompute> recomputations, Sketch &sketch,
         const std::function<bool(const Sketch &)> &found)
        : m_line(line),
          m_layers(layers),
          m_recomputations(recomputations),
          m_sketch(sketch),
          m_found(found)
    {
    }

    bool from(std::size_t layer, std::size_t place)
    {
        if (layer == m_layers)
            return m_found(m_sketch);
        for (std::size_t last = layer + 1; last <= m_layers; ++last)
            for (std::size_t end = place + m_line.unit; end <= m_line.devices.size(); end += m_line.unit)
                for (const plan::Recompute recompute : m_recomputations) {
                    m_sketch.parts.push_back({layer, last, place, end, recompute});
                    const bool on = from(last, end);
                    m_sketch.parts.pop_back();
                    if (!on)
                        return false;
                }
        return true;
    }

private:
    const DeviceLine &m_line;
    std::size_t m_layers;
    std::span<const plan::Recompute> m_recomputations;
    Sketch &m_sketch;
    const std::function<bool(const Sketch &)> &m_found;
};

} // namespace

bool everySketch(const Shape &shape, const DeviceLine &line, std::size_t layers,
                 std::span<const plan::Recompute> recomputations, const std::function<bool(const Sketch &)> &found)
{
    Sketch sketch{shape, {}};
    return Walk(line, layers, recomputations, sketch, found).from(0, 0);
}

double sketchCount(std::size_t layers, std::size_t units, std::size_t ways)
{
    double sum = 0;
    double choices = 1;
    for (std::size_t stages = 1; stages <= std::min(layers, units); ++stages) {
        choices *= static_cast<double>(ways);
        sum += binomial(layers - 1, stages - 1) * binomial(units, stages) * choices;
    }
    return sum;
}

} // namespace planloom::planners::automatic
