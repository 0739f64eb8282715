// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/space_data.h"

#include "engine/sharding/boxing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>

namespace planloom::planners::oneflow {
namespace {

using graph::Op;
using graph::Tensor;
using graph::TensorRole;
using sharding::isBroadcast;
using sharding::isPartial;
using sharding::isSplit;
using sharding::Sbp;
using sharding::Signature;

/// An extra cost of a conversion, so that of equal ways the one with fewer is taken.
constexpr double kStep = 1e-9;
constexpr double kStatisticBytes = 12; ///< of a row of a loss that is made from parts (maximum, sum, own logit)

Price times(Price price, double count) { return {price.seconds * count, price.bytes * count, price.memory * count}; }

double bytesOf(const Tensor &tensor, double samples)
{
    return static_cast<double>(tensor.bytes(1).value()) * (tensor.shape.batched() ? samples : 1);
}

bool splits(const Signature &signature)
{
    return std::any_of(signature.inputs.begin(), signature.inputs.end(), isSplit)
        || std::any_of(signature.outputs.begin(), signature.outputs.end(), isSplit);
}

/// Seconds to read and write @p bytes once on a device.
double copying(const LineSetting &setting, double bytes)
{
    const double bandwidth = setting.costs->cluster().types()[setting.type].memoryBandwidth;
    return bandwidth > 0 ? 2 * bytes / bandwidth : 0;
}

/// The operator alone in a graph, with the sizes that one device has; empty where it does not stand alone (it needs a
/// constant's value, or becomes several operators).
std::optional<graph::Graph> alone(const graph::Graph &graph, const Op &op, const Signature &signature, int parts)
{
    graph::GraphBuilder builder("alone");
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) {
            inputs.emplace_back();
            continue;
        }
        const Tensor &tensor = graph.tensor(op.inputs[i]);
        const std::string name = "in" + std::to_string(i);
        const graph::Shape shape = sharding::localShape(tensor.shape, signature.inputs[i], parts);
        inputs.push_back(tensor.role == TensorRole::Parameter ? builder.parameter(name, shape, {}, tensor.type)
                                                              : builder.input(name, tensor.type, shape));
    }
    std::vector<TensorId> outputs;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Tensor &tensor = graph.tensor(op.outputs[i]);
        outputs.push_back(builder.activation("out" + std::to_string(i), tensor.type,
                                             sharding::localShape(tensor.shape, signature.outputs[i], parts), true));
    }
    builder.addOp(op.type, op.name, "", std::move(inputs), std::move(outputs),
                  sharding::localAttributes(sharding::atHand(graph, op, parts), signature));
    auto built = std::move(builder).build();
    return built ? std::optional(std::move(*built)) : std::nullopt;
}

double localSeconds(const LineSetting &setting, const graph::Graph &graph, const Op &op, const Signature &signature)
{
    const auto parts = static_cast<int>(setting.line.size());
    if (splits(signature))
        if (const auto own = alone(graph, op, signature, parts))
            return setting.costs->opTime(*own, OpId(0), setting.samples, setting.type).value();
    return setting.costs->opTime(graph, op.id, setting.samples, setting.type).value() / (splits(signature) ? parts : 1);
}

double collective(const LineSetting &setting, cost::Collective kind, double bytes)
{
    return setting.costs->collective(kind, setting.line, bytes).value();
}

void appendOnce(std::vector<Sbp> &layouts, const Sbp &layout)
{
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
        layouts.push_back(layout);
}

/// The edge between two nodes.
struct Link {
    enum class Kind : std::uint8_t { Convert, Use, Gradient };
    Kind kind = Kind::Convert;
    int a = 0;
    int b = 0;
    std::size_t tensor = 0; ///< representative
    int slotA = -1;         ///< output of operator a; -1: a is a tensor's node
    int slotB = -1;         ///< input of operator b; -1: b is a tensor's node. Gradient: output
    friend auto operator<=>(const Link &, const Link &) = default;
};

/// Makes nodes and edges of a training graph.
class Builder {
public:
    explicit Builder(SpaceData &data) : m_data(data), m_graph(data.logical.graph), m_reads(m_graph.tensors().size()) {}

    void run()
    {
        m_data.standsFor = representatives(m_graph);
        m_data.ops.resize(m_graph.ops().size());
        m_data.tensors.resize(m_graph.tensors().size());
        findGradients();
        findRepresentatives();
        proposeSignatures();
        proposeLayouts();
        addNodes();
        addLinks();
        addEdges();
    }

private:
    [[nodiscard]] int parts() const { return static_cast<int>(m_data.setting.line.size()); }
    [[nodiscard]] bool forward(std::size_t op) const { return op < m_data.logical.forwardOps; }

    void findGradients()
    {
        m_data.parameterOf.assign(m_graph.tensors().size(), TensorId{});
        for (std::size_t i = 0; i < m_data.logical.gradients.size(); ++i) {
            const TensorId gradient = m_data.logical.gradients[i];
            if (!gradient.valid())
                continue;
            m_data.parameterOf[gradient.index()] = m_data.logical.parameters[i];
            const OpId producer = m_graph.tensor(gradient).producer;
            if (producer.valid() && m_graph.op(producer).type == "AddN")
                for (const TensorId part : m_graph.op(producer).inputs)
                    m_data.parameterOf[part.index()] = m_data.logical.parameters[i];
        }
    }

    void findRepresentatives()
    {
        m_data.tensorStandsFor = tensorRepresentatives(m_graph, m_data.standsFor);
        for (std::size_t o = 0; o < m_data.ops.size(); ++o)
            for (std::size_t i = 0; i < m_data.op(o).inputs.size(); ++i)
                if (const TensorId input = m_data.op(o).inputs[i]; input.valid())
                    m_reads[input.index()].emplace_back(o, static_cast<int>(i));
    }

    void proposeSignatures()
    {
        std::vector<std::vector<Signature>> found =
            candidateSignatures(m_graph, parts(), m_data.standsFor, m_data.tensorStandsFor);
        for (std::size_t o = 0; o < found.size(); ++o)
            m_data.ops[o].signatures = std::move(found[o]);
    }

    /// Layouts of the tensors that have nodes, B first.
    void proposeLayouts()
    {
        for (std::size_t t = 0; t < m_data.tensors.size(); ++t) {
            if (m_data.tensorStandsFor[t] != t || !hasNode(t))
                continue;
            std::vector<Sbp> &layouts = m_data.tensors[t].layouts;
            layouts = {sharding::broadcast()};
            const Tensor &tensor = m_data.tensor(t);
            if (tensor.producer.valid())
                for (const Signature &signature : m_data.choiceOf(tensor.producer.index()).signatures)
                    if (const Sbp &made = signature.outputs[outputSlot(t)]; isSplit(made))
                        appendOnce(layouts, made);
            for (const auto &[op, slot] : m_reads[t])
                for (const Signature &signature : m_data.choiceOf(op).signatures)
                    if (const Sbp &want = signature.inputs[static_cast<std::size_t>(slot)]; isSplit(want))
                        appendOnce(layouts, want);
        }
    }

    [[nodiscard]] bool hasNode(std::size_t t) const
    {
        const Tensor &tensor = m_data.tensor(t);
        return tensor.role == TensorRole::Parameter || (tensor.role == TensorRole::Activation && m_reads[t].size() > 1);
    }

    [[nodiscard]] std::size_t outputSlot(std::size_t t) const
    {
        const auto &outputs = m_graph.op(m_data.tensor(t).producer).outputs;
        return static_cast<std::size_t>(
            std::find(outputs.begin(), outputs.end(), TensorId(static_cast<std::int32_t>(t))) - outputs.begin());
    }

    // --- nodes

    int addNode(std::size_t states)
    {
        m_data.nodes.emplace_back(states);
        return static_cast<int>(m_data.nodes.size()) - 1;
    }

    void addNodes()
    {
        std::vector<bool> kept(m_graph.tensors().size(), false);
        for (const TensorId id : m_data.logical.stash)
            kept[id.index()] = true;
        for (std::size_t t = 0; t < m_data.tensors.size(); ++t) {
            TensorChoice &own = m_data.tensors[m_data.tensorStandsFor[t]];
            if (!own.layouts.empty() && own.pin < 0)
                own.pin = addNode(own.layouts.size());
            for (std::size_t s = 0; s < own.layouts.size(); ++s)
                m_data.nodes[static_cast<std::size_t>(own.pin)][s] += tensorPrice(t, own.layouts[s], kept[t]);
            addGroups(t, own);
        }
        for (std::size_t o = 0; o < m_data.ops.size(); ++o) {
            OpChoice &own = m_data.ops[m_data.standsFor[o]];
            if (own.node < 0)
                own.node = addNode(own.signatures.size());
            for (std::size_t s = 0; s < own.signatures.size(); ++s)
                m_data.nodes[static_cast<std::size_t>(own.node)][s] += opPrice(o, own.signatures[s], kept);
        }
    }

    void addGroups(std::size_t t, TensorChoice &own)
    {
        if (m_data.tensorStandsFor[t] != t || own.pin < 0 || m_data.tensor(t).role == TensorRole::Parameter)
            return;
        std::array<int, 2> readers{};
        for (const auto &[op, slot] : m_reads[t])
            ++readers[forward(op) ? 0 : 1];
        for (const std::size_t pass : {0U, 1U})
            if (readers[pass] > 1)
                own.group[pass] = addNode(own.layouts.size());
    }

    [[nodiscard]] Price tensorPrice(std::size_t t, const Sbp &layout, bool kept) const
    {
        const LineSetting &setting = m_data.setting;
        const Tensor &tensor = m_data.tensor(t);
        const double share = isSplit(layout) ? 1.0 / parts() : 1.0;
        if (tensor.role != TensorRole::Parameter)
            return {0, 0, kept ? bytesOf(tensor, setting.samples) * share : 0};
        const double bytes = static_cast<double>(tensor.shape.elements(1)) * sizeof(float) * share;
        double seconds =
            setting.costs->optimizerStep(Bytes(static_cast<std::int64_t>(bytes)), setting.update.streams, setting.type)
                .value();
        if (setting.replicas.size() > 1)
            seconds += setting.costs->allReduce(setting.replicas, bytes).value();
        return {seconds, 0, bytes * (2 + setting.update.states)};
    }

    [[nodiscard]] Price opPrice(std::size_t o, const Signature &signature, const std::vector<bool> &kept)
    {
        const LineSetting &setting = m_data.setting;
        const Op &op = m_data.op(o);
        // Of equal choices the one where each device does its part, as sharding::choose() has it.
        Price price{timeOf(o, signature) * setting.microBatches + (splits(signature) ? 0 : kStep), 0, 0};
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid())
                continue;
            const Tensor &tensor = m_graph.tensor(op.inputs[i]);
            if (tensor.role == TensorRole::State && !isBroadcast(signature.inputs[i]))
                price.seconds = kNever;
            if (tensor.role == TensorRole::Input || tensor.role == TensorRole::Constant)
                price += convert(sharding::broadcast(), signature.inputs[i], bytesOf(tensor, setting.samples));
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId id = op.outputs[i];
            if (id == m_data.logical.loss)
                price +=
                    convert(signature.outputs[i], sharding::broadcast(), bytesOf(m_graph.tensor(id), setting.samples));
            if (kept[id.index()] && m_data.tensorChoice(id.index()).pin < 0)
                price.memory += bytesOf(m_graph.tensor(id), setting.samples)
                    * (isSplit(signature.outputs[i]) ? 1.0 / parts() : 1.0);
        }
        price += statistics(op, signature);
        return price;
    }

    /// Losses whose rows or classes are split gather their statistics.
    [[nodiscard]] Price statistics(const Op &op, const Signature &signature) const
    {
        const bool loss = op.type == "SoftmaxCrossEntropyLoss"
            || (op.type == "LossStatistics" && isSplit(signature.inputs[0]) && signature.inputs[0].axis == 1);
        if (!loss || !isSplit(signature.inputs[0]))
            return {};
        const LineSetting &setting = m_data.setting;
        const graph::Dim rows = m_graph.tensor(op.inputs[0]).shape[0];
        const double all = static_cast<double>(rows.size) * (rows.batch ? setting.samples : 1) * kStatisticBytes;
        const double part = signature.inputs[0].axis == 0 ? all / parts() : all;
        return times({collective(setting, cost::Collective::AllGather, part),
                      part * parts() * (parts() - 1) * setting.lines, 0},
                     setting.microBatches);
    }

    /// Seconds of the operator on its parts, on one device.
    double timeOf(std::size_t o, const Signature &signature)
    {
        const std::size_t own = m_data.standsFor[o];
        const auto &list = m_data.ops[own].signatures;
        const auto index = static_cast<std::size_t>(std::find(list.begin(), list.end(), signature) - list.begin());
        const auto [found, fresh] = m_times.emplace(std::pair{own, index}, 0);
        if (fresh)
            found->second = localSeconds(m_data.setting, m_graph, m_data.op(own), signature);
        return found->second;
    }

    [[nodiscard]] Price convert(const Sbp &from, const Sbp &to, double bytes) const
    {
        return times(conversion(m_data.setting, from, to, bytes), m_data.setting.microBatches);
    }

    // --- edges

    void addLinks()
    {
        for (std::size_t t = 0; t < m_data.tensors.size(); ++t) {
            const Tensor &tensor = m_data.tensor(t);
            const TensorChoice &own = m_data.tensorChoice(t);
            const std::size_t stands = m_data.tensorStandsFor[t];
            if (tensor.role == TensorRole::Parameter) {
                for (const auto &[op, slot] : m_reads[t])
                    ++m_links[{Link::Kind::Use, own.pin, m_data.choiceOf(op).node, stands, -1, slot}];
                continue;
            }
            if (tensor.role != TensorRole::Activation)
                continue;
            Link from{Link::Kind::Convert,
                      m_data.choiceOf(tensor.producer.index()).node,
                      own.pin,
                      stands,
                      static_cast<int>(outputSlot(t)),
                      -1};
            if (own.pin >= 0) {
                ++m_links[from];
                from.a = own.pin;
                from.slotA = -1;
            }
            for (const int group : own.group)
                if (group >= 0)
                    ++m_links[{Link::Kind::Convert, own.pin, group, stands, -1, -1}];
            for (const auto &[op, slot] : m_reads[t]) {
                Link read = from;
                if (const int group = own.group[forward(op) ? 0 : 1]; group >= 0)
                    read.a = group;
                read.b = m_data.choiceOf(op).node;
                read.slotB = slot;
                ++m_links[read];
            }
        }
        for (std::size_t i = 0; i < m_data.logical.gradients.size(); ++i)
            if (const TensorId gradient = m_data.logical.gradients[i]; gradient.valid()) {
                const std::size_t parameter = m_data.logical.parameters[i].index();
                ++m_links[{Link::Kind::Gradient, m_data.tensorChoice(parameter).pin,
                           m_data.choiceOf(m_graph.tensor(gradient).producer.index()).node,
                           m_data.tensorStandsFor[parameter], -1, static_cast<int>(outputSlot(gradient.index()))}];
            }
    }

    /// By node: the operator that it stands for, -1: a tensor's.
    [[nodiscard]] std::vector<int> operatorsByNode() const
    {
        std::vector<int> ops(m_data.nodes.size(), -1);
        for (std::size_t o = 0; o < m_data.ops.size(); ++o)
            if (m_data.ops[o].node >= 0)
                ops[static_cast<std::size_t>(m_data.ops[o].node)] = static_cast<int>(o);
        return ops;
    }

    void addEdges()
    {
        const std::vector<int> ops = operatorsByNode();
        std::map<std::pair<int, int>, std::size_t> known;
        for (const auto &entry : m_links) {
            const Link &link = entry.first;
            const int count = entry.second;
            const std::size_t rows = m_data.nodes[static_cast<std::size_t>(link.a)].size();
            const std::size_t columns = m_data.nodes[static_cast<std::size_t>(link.b)].size();
            const auto layout = [&](int node, int slot, std::size_t state, bool output) -> const Sbp & {
                if (slot < 0)
                    return m_data.tensors[link.tensor].layouts[state];
                const Signature &signature =
                    m_data.ops[static_cast<std::size_t>(ops[static_cast<std::size_t>(node)])].signatures[state];
                return (output ? signature.outputs : signature.inputs)[static_cast<std::size_t>(slot)];
            };
            const auto price = [&](std::size_t i, std::size_t j) {
                return times(linkPrice(link, layout(link.a, link.slotA, i, true),
                                       layout(link.b, link.slotB, j, link.kind == Link::Kind::Gradient)),
                             count);
            };
            if (link.a == link.b) { // passed from a block to the next one of its kind
                for (std::size_t i = 0; i < rows; ++i)
                    m_data.nodes[static_cast<std::size_t>(link.a)][i] += price(i, i);
                continue;
            }
            const auto [at, fresh] = known.emplace(std::pair{link.a, link.b}, m_data.edges.size());
            if (fresh)
                m_data.edges.push_back({link.a, link.b, std::vector<Price>(rows * columns)});
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t j = 0; j < columns; ++j)
                    m_data.edges[at->second].prices[i * columns + j] += price(i, j);
        }
    }

    [[nodiscard]] Price linkPrice(const Link &link, const Sbp &from, const Sbp &to)
    {
        if (link.kind == Link::Kind::Use)
            return usePrice(m_data.tensor(link.tensor), from, to);
        if (link.kind == Link::Kind::Gradient)
            return gradientPrice(m_data.tensor(link.tensor), from, to);
        const double bytes = bytesOf(m_data.tensor(link.tensor), m_data.setting.samples);
        const auto [found, fresh] = m_prices.emplace(std::tuple{sharding::toText({from, to}), bytes}, Price{});
        if (fresh)
            found->second = convert(from, to, bytes);
        Price price = found->second;
        if (link.slotA < 0 && link.slotB < 0 && from != to)
            price.seconds += kStep * m_data.setting.microBatches; // sooner rather than later
        return price;
    }

    /// Parameters are never communicated. Of a norm's scale or a bias that is whole a part may be read.
    [[nodiscard]] Price usePrice(const Tensor &parameter, const Sbp &held, const Sbp &want) const
    {
        if (held == want)
            return {};
        const bool part = isBroadcast(held) && isSplit(want) && parameter.shape.rank() < 2;
        return part ? convert(held, want, bytesOf(parameter, m_data.setting.samples)) : Price{kNever, 0, 0};
    }

    /// The gradient of a parameter is wanted as the parameter lies; a sum over the line may stay one until the
    /// optimizer's exchange.
    [[nodiscard]] Price gradientPrice(const Tensor &parameter, const Sbp &held, const Sbp &made) const
    {
        const double bytes = bytesOf(parameter, m_data.setting.samples);
        if (isBroadcast(held) && isPartial(made))
            return {m_data.setting.costs->allReduce(m_data.setting.line, bytes).value(), 0, 0};
        return convert(made, held, bytes);
    }

    SpaceData &m_data;
    const graph::Graph &m_graph;
    std::vector<std::vector<std::pair<std::size_t, int>>> m_reads; ///< by tensor: operators and inputs
    std::map<Link, int> m_links;
    std::map<std::pair<std::size_t, std::size_t>, double> m_times; ///< by operator and signature
    std::map<std::tuple<std::string, double>, Price> m_prices;
};

} // namespace

Price conversion(const LineSetting &setting, const Sbp &from, const Sbp &to, double bytes)
{
    if (from == to)
        return {};
    if (isPartial(to))
        return {kNever, 0, 0};
    const auto parts = static_cast<double>(setting.line.size());
    const double sent = sharding::boxingBytes(from, to, bytes, static_cast<int>(setting.line.size())) * setting.lines;
    if (isBroadcast(from))
        return {kStep + copying(setting, bytes / parts), 0, 0};
    if (isPartial(from) && isBroadcast(to))
        return {kStep + collective(setting, cost::Collective::AllReduce, bytes), sent, 0};
    if (isPartial(from))
        return {kStep + collective(setting, cost::Collective::ReduceScatter, bytes / parts) + copying(setting, bytes),
                sent, 0};
    if (isSplit(to) && to.axis != from.axis)
        return {kStep + collective(setting, cost::Collective::AllToAll, bytes / parts / parts)
                    + 2 * copying(setting, bytes / parts),
                sent, 0};
    return {kStep + collective(setting, cost::Collective::AllGather, bytes / parts) + copying(setting, bytes), sent, 0};
}

void buildSpace(SpaceData &data) { Builder(data).run(); }

} // namespace planloom::planners::oneflow
