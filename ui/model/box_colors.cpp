// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/box_colors.h"

#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QCoreApplication>

#include <algorithm>
#include <map>

namespace planloom::ui {
namespace {

constexpr std::size_t kMostStripes = 8; // of a box: thinner ones cannot be told apart

QString legendText(const char *text) { return QCoreApplication::translate("BoxColors", text); }

BoxColors byStage(const VisibleGraph &graph, const ModelFigures &figures)
{
    BoxColors colors;
    colors.legend.title = legendText("Stage");
    const auto &stages = figures.document()->plan.stages;
    for (std::size_t s = 0; s < stages.size(); ++s)
        colors.legend.entries.push_back({QString::number(s), stageBrush(static_cast<int>(s))});
    for (const GraphNode &node : graph.nodes) {
        colors.boxes.emplace_back();
        for (const std::size_t stage : figures.stagesOf(node.ops))
            colors.boxes.back().stripes.push_back(stageBrush(static_cast<int>(stage)));
    }
    return colors;
}

/// The devices of a plan, or their machines, as numbers from 0 in the order of the cluster.
class DeviceColors {
public:
    explicit DeviceColors(const plan::Document &document) : m_cluster(*document.subject.cluster)
    {
        std::vector<DeviceId> used;
        for (const plan::Stage &stage : document.plan.stages)
            used.insert(used.end(), stage.devices.begin(), stage.devices.end());
        std::ranges::sort(used);
        const auto rest = std::ranges::unique(used);
        used.erase(rest.begin(), rest.end());
        m_byMachine = used.size() > static_cast<std::size_t>(kSeriesColors);
        for (const DeviceId device : used)
            m_numbers.emplace(keyOf(device), static_cast<int>(m_numbers.size()));
    }
    [[nodiscard]] bool byMachine() const { return m_byMachine; }
    [[nodiscard]] int numberOf(DeviceId device) const { return m_numbers.at(keyOf(device)); }
    [[nodiscard]] std::vector<ColorLegend::Entry> entries() const
    {
        std::vector<ColorLegend::Entry> entries;
        for (const auto &[key, number] : m_numbers) {
            const auto index = static_cast<std::size_t>(key);
            const std::string &name = m_byMachine ? m_cluster.nodes()[index].name : m_cluster.devices()[index].name;
            entries.push_back({qt(name), stageBrush(number)});
        }
        return entries;
    }

private:
    [[nodiscard]] std::int32_t keyOf(DeviceId device) const
    {
        return m_byMachine ? m_cluster.device(device).node.value : device.value;
    }

    const cluster::Cluster &m_cluster;
    bool m_byMachine = false;
    std::map<std::int32_t, int> m_numbers; ///< by id of the device or machine
};

BoxColors byDevice(const VisibleGraph &graph, const ModelFigures &figures)
{
    BoxColors colors;
    const plan::Document &document = *figures.document();
    const DeviceColors devices(document);
    colors.legend.title = devices.byMachine() ? legendText("Machine") : legendText("Device");
    colors.legend.entries = devices.entries();
    for (const GraphNode &node : graph.nodes) {
        std::vector<int> numbers;
        for (const std::size_t stage : figures.stagesOf(node.ops)) {
            for (const DeviceId device : document.plan.stages[stage].devices) {
                const int number = devices.numberOf(device);
                if (numbers.size() < kMostStripes && std::ranges::find(numbers, number) == numbers.end())
                    numbers.push_back(number);
            }
        }
        colors.boxes.emplace_back();
        for (const int number : numbers)
            colors.boxes.back().stripes.push_back(stageBrush(number));
    }
    return colors;
}

double scaled(ColorBy by, const BoxFigures &figures)
{
    switch (by) {
    case ColorBy::Flops: return figures.flops();
    case ColorBy::Time: return figures.seconds();
    default: return static_cast<double>(figures.bytes());
    }
}

QString scaledText(ColorBy by, double value)
{
    switch (by) {
    case ColorBy::Flops: return qt(format(Flops(value)));
    case ColorBy::Time: return secondsText(value);
    default: return bytesText(static_cast<std::int64_t>(value));
    }
}

BoxColors byFigure(ColorBy by, const VisibleGraph &graph, const ModelFigures &figures)
{
    BoxColors colors;
    colors.legend.title = by == ColorBy::Flops ? legendText("FLOPs, forward and backward")
        : by == ColorBy::Time                  ? legendText("Predicted time, forward and backward")
                                               : legendText("Activations and parameters");
    std::vector<double> values;
    double most = 0;
    for (const GraphNode &node : graph.nodes) {
        values.push_back(scaled(by, figures.of(node.ops)));
        most = std::max(most, values.back());
    }
    for (const double value : values) {
        const double share = most > 0 ? value / most : 0;
        colors.boxes.push_back({{}, ramp(share), share});
    }
    colors.legend.low = scaledText(by, 0);
    colors.legend.high = scaledText(by, most);
    return colors;
}

} // namespace

BoxColors colorBoxes(ColorBy by, const VisibleGraph &graph, const ModelFigures *figures)
{
    const bool needsPlan = by == ColorBy::Stage || by == ColorBy::Device || by == ColorBy::Time;
    if (figures != nullptr && (figures->document() || !needsPlan)) {
        switch (by) {
        case ColorBy::Stage: return byStage(graph, *figures);
        case ColorBy::Device: return byDevice(graph, *figures);
        default: return byFigure(by, graph, *figures);
        }
    }
    BoxColors none;
    none.boxes.resize(graph.nodes.size());
    if (figures != nullptr && !graph.nodes.empty())
        none.legend.note = legendText("No plan yet: find one to see its stages, devices and times");
    return none;
}

} // namespace planloom::ui
