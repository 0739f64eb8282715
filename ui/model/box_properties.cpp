// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/box_properties.h"

#include "ui/widgets/text.h"

#include <QCoreApplication>
#include <QStringList>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace planloom::ui {
namespace {

constexpr std::size_t kMostOfList = 12; // tensors, types and devices that are listed
constexpr std::size_t kMostValues = 16; // of an attribute

QString boxText(const char *text) { return QCoreApplication::translate("BoxProperties", text); }

QString boxFlopsText(double flops) { return qt(format(Flops(flops))); }

/// The first of @p names, and how many there are more.
QString boxListText(const QStringList &names)
{
    if (names.size() <= static_cast<qsizetype>(kMostOfList))
        return names.join(QStringLiteral(", "));
    return boxText("%1 and %L2 more")
        .arg(names.mid(0, kMostOfList).join(QStringLiteral(", ")))
        .arg(names.size() - static_cast<qsizetype>(kMostOfList));
}

/// Tensors of a box by what they are to it, each once, in the graph's order.
struct BoxTensors {
    std::vector<TensorId> inputs; ///< of other boxes, or of the model; constants aside
    std::vector<TensorId> outputs;
    std::vector<TensorId> parameters;
    std::vector<TensorId> constants; ///< and states
};

BoxTensors boxTensorsOf(const graph::Graph &graph, const GraphNode &node)
{
    BoxTensors found;
    const std::unordered_set<OpId> inside(node.ops.begin(), node.ops.end());
    std::unordered_set<TensorId> seen;
    for (const OpId id : node.ops) {
        for (const TensorId input : graph.op(id).inputs) {
            if (!input.valid() || !seen.insert(input).second)
                continue;
            const graph::Tensor &tensor = graph.tensor(input);
            if (tensor.role == graph::TensorRole::Parameter)
                found.parameters.push_back(input);
            else if (tensor.role == graph::TensorRole::Constant || tensor.role == graph::TensorRole::State)
                found.constants.push_back(input);
            else if (!tensor.producer.valid() || !inside.contains(tensor.producer))
                found.inputs.push_back(input);
        }
    }
    for (const OpId id : node.ops) {
        for (const TensorId output : graph.op(id).outputs) {
            if (!output.valid())
                continue;
            const auto readers = graph.consumers(output);
            const bool leaves = std::ranges::any_of(readers, [&](OpId reader) { return !inside.contains(reader); })
                || std::ranges::find(graph.outputs(), output) != graph.outputs().end() || output == graph.loss();
            if (leaves || node.ops.size() == 1)
                found.outputs.push_back(output);
        }
    }
    return found;
}

/// A row each; what many of them have is counted at the end.
void addBoxTensors(std::vector<BoxProperty> &rows, const graph::Graph &graph, const QString &name,
                   const std::vector<TensorId> &tensors, bool withBytes = false)
{
    for (std::size_t i = 0; i < std::min(tensors.size(), kMostOfList); ++i) {
        const graph::Tensor &tensor = graph.tensor(tensors[i]);
        QString text = tensorText(tensor); // first: names are long, and are cut in a narrow pane
        if (withBytes)
            text += QStringLiteral(", ") + bytesText(tensor.bytes().value());
        text += QStringLiteral(" · ") + qt(tensor.name);
        rows.push_back({name, text});
    }
    if (tensors.size() > kMostOfList)
        rows.push_back({name, boxText("and %L1 more").arg(tensors.size() - kMostOfList)});
}

/// "MatMul 4, Add 3", the most frequent first.
QString boxTypesText(const graph::Graph &graph, const GraphNode &node)
{
    std::map<std::string, int> counts;
    for (const OpId id : node.ops)
        ++counts[graph.op(id).type.name()];
    std::vector<std::pair<int, std::string>> order;
    for (const auto &[type, count] : counts)
        order.emplace_back(-count, type);
    std::ranges::sort(order);
    QStringList texts;
    for (const auto &[count, type] : order)
        texts << QStringLiteral("%1 %2").arg(qt(type)).arg(-count);
    return boxListText(texts);
}

QString boxStageText(const plan::Plan &plan, std::size_t stage)
{
    const std::string &name = plan.stages[stage].name;
    return name.empty() ? QString::number(stage) : QStringLiteral("%1 (%2)").arg(stage).arg(qt(name));
}

void addBoxPlace(std::vector<BoxProperty> &rows, const ModelFigures &figures, const GraphNode &node)
{
    const plan::Document &document = *figures.document();
    QStringList names;
    std::vector<DeviceId> devices;
    const std::vector<std::size_t> stages = figures.stagesOf(node.ops);
    for (const std::size_t stage : stages) {
        names << boxStageText(document.plan, stage);
        for (const DeviceId device : document.plan.stages[stage].devices) {
            if (stages.size() == 1 || std::ranges::find(devices, device) == devices.end())
                devices.push_back(device);
        }
    }
    rows.push_back({stages.size() == 1 ? boxText("Stage") : boxText("Stages"), boxListText(names)});
    rows.push_back({devices.size() == 1 ? boxText("Device") : boxText("Devices"),
                    shortDevices(*document.subject.cluster, devices)});
}

/// What the figures are of: "1 sample", "4 samples, a micro-batch of one replica".
QString boxSamplesText(const ModelFigures &figures, const GraphNode &node)
{
    if (!figures.document())
        return boxText("1 sample");
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (const std::size_t stage : figures.stagesOf(node.ops)) {
        const std::int64_t samples = figures.samplesOf(stage);
        least = most == 0 ? samples : std::min(least, samples);
        most = std::max(most, samples);
    }
    const QString count = least == most ? QString::number(most) : QStringLiteral("%1–%2").arg(least).arg(most);
    return (most == 1 ? boxText("%1 sample, a micro-batch of one replica")
                      : boxText("%1 samples, a micro-batch of one replica"))
        .arg(count);
}

} // namespace

QString tensorText(const graph::Tensor &tensor)
{
    return qt(tensor.shape.text()) + QLatin1Char(' ') + QLatin1String(graph::name(tensor.type));
}

QString attributeText(const graph::Attribute &attribute)
{
    const auto number = [](double value) { return QString::number(value); };
    const auto list = [](const auto &values, const auto &text) {
        QStringList texts;
        for (std::size_t i = 0; i < std::min(values.size(), kMostValues); ++i)
            texts << text(values[i]);
        if (values.size() > kMostValues)
            texts << QStringLiteral("…");
        return QStringLiteral("[%1]").arg(texts.join(QStringLiteral(", ")));
    };
    if (const auto *integer = std::get_if<std::int64_t>(&attribute))
        return QString::number(*integer);
    if (const auto *real = std::get_if<double>(&attribute))
        return number(*real);
    if (const auto *text = std::get_if<std::string>(&attribute))
        return beginningOf(qt(*text));
    if (const auto *integers = std::get_if<std::vector<std::int64_t>>(&attribute))
        return list(*integers, [](std::int64_t value) { return QString::number(value); });
    return list(std::get<std::vector<double>>(attribute), number);
}

QString shortDevices(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    QStringList names;
    for (std::size_t i = 0; i < std::min(devices.size(), kMostOfList); ++i)
        names << qt(cluster.device(devices[i]).name);
    if (devices.size() > kMostOfList)
        return boxText("%1 and %L2 more").arg(names.join(QStringLiteral(", "))).arg(devices.size() - kMostOfList);
    return names.join(QStringLiteral(", "));
}

std::vector<BoxProperty> structureOf(const graph::Graph &graph, const GraphNode &node)
{
    std::vector<BoxProperty> rows;
    const graph::Op &first = graph.op(node.firstOp());
    rows.push_back({boxText("Name"), qt(node.key)});
    if (node.repeats > 1)
        rows.push_back({boxText("Type"), boxText("%1 scopes of equal structure").arg(node.repeats)});
    else
        rows.push_back({boxText("Type"), node.group ? boxText("scope") : qt(first.type.name())});
    if (!node.group && !first.scope.empty())
        rows.push_back({boxText("Scope"), qt(first.scope)});
    if (node.group) {
        rows.push_back({boxText("Operators"), QStringLiteral("%L1").arg(node.ops.size())});
        rows.push_back({boxText("Types"), boxTypesText(graph, node)});
    }
    const BoxTensors tensors = boxTensorsOf(graph, node);
    addBoxTensors(rows, graph, boxText("Input"), tensors.inputs);
    addBoxTensors(rows, graph, boxText("Output"), tensors.outputs);
    if (!node.group) {
        for (const auto &[name, value] : first.attributes)
            rows.push_back({boxText("Attribute %1").arg(qt(name)), attributeText(value)});
        addBoxTensors(rows, graph, boxText("Constant or state"), tensors.constants);
    }
    addBoxTensors(rows, graph, boxText("Parameter"), tensors.parameters, true);
    return rows;
}

std::vector<BoxProperty> costsOf(const ModelFigures &figures, const GraphNode &node)
{
    std::vector<BoxProperty> rows;
    const BoxFigures sum = figures.of(node.ops);
    rows.push_back({boxText("Figures for"), boxSamplesText(figures, node)});
    rows.push_back({boxText("FLOPs, forward"), boxFlopsText(sum.forwardFlops)});
    rows.push_back({boxText("FLOPs, backward"), boxFlopsText(sum.backwardFlops)});
    rows.push_back({boxText("Activations"), bytesText(sum.activationBytes)});
    rows.push_back({boxText("Parameters"),
                    sum.parameters == 0 ? boxText("none")
                                        : boxText("%L1, %2").arg(sum.parameters).arg(bytesText(sum.parameterBytes))});
    if (!figures.document())
        return rows;
    rows.push_back({boxText("Predicted forward"), secondsText(sum.forwardSeconds)});
    if (!figures.document()->plan.admm)
        rows.push_back({boxText("Predicted backward"), secondsText(sum.backwardSeconds)});
    addBoxPlace(rows, figures, node);
    return rows;
}

QString cardOf(const ModelFigures *figures, const GraphNode &node)
{
    if (figures == nullptr)
        return QStringLiteral("…");
    const BoxFigures sum = figures->of(node.ops);
    return QStringLiteral("%1 · %2").arg(boxFlopsText(sum.flops()), bytesText(sum.bytes()));
}

QString summaryOf(const ModelFigures *figures, const GraphNode &node)
{
    QStringList lines{qt(node.key), node.group ? qt(node.detail) : qt(node.title + " " + node.detail)};
    if (!node.stubs.empty()) {
        QStringList names;
        for (const std::string &stub : node.stubs)
            names << qt(stub);
        lines << boxText("reads %1").arg(boxListText(names));
    }
    if (figures != nullptr) {
        const BoxFigures sum = figures->of(node.ops);
        lines
            << boxText("%1 forward, %2 backward").arg(boxFlopsText(sum.forwardFlops), boxFlopsText(sum.backwardFlops));
        lines << boxText("%1 of activations, %2 of parameters")
                     .arg(bytesText(sum.activationBytes), bytesText(sum.parameterBytes));
        if (figures->timed())
            lines << boxText("predicted %1 forward, %2 backward")
                         .arg(secondsText(sum.forwardSeconds), secondsText(sum.backwardSeconds));
    }
    return lines.join(QLatin1Char('\n'));
}

} // namespace planloom::ui
