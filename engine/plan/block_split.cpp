// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/plan.h"

#include <algorithm>

namespace planloom::plan {
namespace {

/// A layer's name without the number at its end; empty if it has none.
std::string seriesOf(const graph::Layer &layer)
{
    const std::size_t end = layer.name.find_last_not_of("0123456789");
    if (end == std::string::npos || end + 1 == layer.name.size())
        return {};
    return layer.name.substr(0, end + 1);
}

/// The series that more than half of the layers belong to, or nothing.
std::string mainSeries(const graph::LayerView &layers)
{
    std::map<std::string, std::size_t> members;
    for (const graph::Layer &layer : layers.layers)
        if (const std::string series = seriesOf(layer); !series.empty() && 2 * ++members[series] > layers.size())
            return series;
    return {};
}

} // namespace

std::string blockSplit(const Plan &plan, const graph::LayerView &layers)
{
    const std::string series = mainSeries(layers);
    if (plan.stages.size() < 2 || series.empty())
        return {};
    std::string text;
    for (const Stage &stage : plan.stages) {
        std::size_t blocks = 0;
        for (std::size_t i = stage.firstLayer; i < std::min(stage.lastLayer, layers.size()); ++i)
            blocks += seriesOf(layers.layers[i]) == series ? 1 : 0;
        text += (text.empty() ? "" : ":") + std::to_string(blocks);
    }
    return text;
}

} // namespace planloom::plan
