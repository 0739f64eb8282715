// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/rules.h"

#include "planners/oneflow/space.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>

namespace planloom::planners::automap {
namespace {

using sharding::Sbp;
using sharding::Signature;

int splitOf(const Sbp &sbp) { return sharding::isSplit(sbp) ? sbp.axis : kReplicated; }

/// Rows of an operator, one after the other; rows that take partial sums are left out, as the encoding does not
/// know them.
class Rows {
public:
    Rows(const std::vector<int> &tensors, const std::vector<RuleTensor> &known) : m_tensors(tensors), m_known(known) {}

    void add(const graph::Op &op, const Signature &signature)
    {
        Row row;
        std::size_t at = 0;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid())
                continue;
            if (sharding::isPartial(signature.inputs[i]))
                return;
            row.splits.push_back(splitOf(signature.inputs[i]));
            ++at;
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i, ++at) {
            row.splits.push_back(splitOf(signature.outputs[i]));
            if (sharding::isPartial(signature.outputs[i]))
                row.reduceBytes += m_known[static_cast<std::size_t>(m_tensors[at])].bytes;
        }
        const auto same =
            std::find_if(rows.begin(), rows.end(), [&](const Row &other) { return other.splits == row.splits; });
        if (same == rows.end())
            rows.push_back(std::move(row));
        else
            same->reduceBytes = std::min(same->reduceBytes, row.reduceBytes);
    }

    std::vector<Row> rows;

private:
    const std::vector<int> &m_tensors;
    const std::vector<RuleTensor> &m_known;
};

/// Collects tensors and instructions.
class Maker {
public:
    Maker(const graph::Graph &graph, std::vector<std::size_t> tensorStandsFor, std::int64_t samples)
        : m_standsFor(std::move(tensorStandsFor)),
          m_ids(graph.tensors().size(), -1)
    {
        for (std::size_t t = 0; t < m_standsFor.size(); ++t) {
            int &id = m_ids[m_standsFor[t]];
            const graph::Tensor &tensor = graph.tensors()[t];
            if (id < 0) {
                id = static_cast<int>(rules.tensors.size());
                rules.tensors.push_back(
                    {graph.tensors()[m_standsFor[t]].name, static_cast<int>(tensor.shape.rank()), 0});
                rules.members.emplace_back();
                if (tensor.role == graph::TensorRole::Parameter && tensor.shape.elements(1) > 1)
                    rules.trainable.push_back(id);
                if (tensor.role == graph::TensorRole::Input)
                    rules.inputs.push_back(id);
            }
            rules.tensors[static_cast<std::size_t>(id)].bytes += static_cast<double>(tensor.bytes(samples).value());
            rules.members[static_cast<std::size_t>(id)].push_back(tensor.name);
        }
    }

    [[nodiscard]] int id(TensorId tensor) const { return m_ids[m_standsFor[tensor.index()]]; }

    /// Operators that stand for the same and join the same tensors are one instruction.
    void add(const graph::Op &op, const std::vector<Signature> &signatures, std::size_t standsFor)
    {
        Instruction instruction;
        instruction.name = op.name;
        for (const auto *list : {&op.inputs, &op.outputs})
            for (const TensorId tensor : *list)
                if (tensor.valid())
                    instruction.tensors.push_back(id(tensor));
        if (!m_seen.emplace(standsFor, instruction.tensors).second)
            return;
        Rows rows(instruction.tensors, rules.tensors);
        for (const Signature &signature : signatures)
            rows.add(op, signature);
        instruction.rows = std::move(rows.rows);
        if (!sharding::hasSignatures(op.type))
            m_unknown.insert(op.type.name());
        rules.instructions.push_back(std::move(instruction));
    }

    RuleGraph finish()
    {
        rules.mentions.resize(rules.tensors.size());
        for (std::size_t i = 0; i < rules.instructions.size(); ++i)
            for (const int tensor : rules.instructions[i].tensors)
                if (auto &list = rules.mentions[static_cast<std::size_t>(tensor)];
                    list.empty() || list.back() != static_cast<int>(i))
                    list.push_back(static_cast<int>(i));
        rules.unknown.assign(m_unknown.begin(), m_unknown.end());
        return std::move(rules);
    }

    RuleGraph rules;

private:
    std::vector<std::size_t> m_standsFor;
    std::vector<int> m_ids; ///< by representative
    std::set<std::string> m_unknown;
    std::set<std::pair<std::size_t, std::vector<int>>> m_seen;
};

/// Queue of tensors whose sets have shrunk.
class Propagation {
public:
    Propagation(const RuleGraph &graph, Allowed &allowed, Consistency consistency)
        : m_graph(graph),
          m_allowed(allowed),
          m_arc(consistency == Consistency::Arc)
    {
    }

    bool shrink(int tensor, std::uint32_t set)
    {
        std::uint32_t &now = m_allowed[static_cast<std::size_t>(tensor)];
        const std::uint32_t smaller = now & set;
        if (smaller == 0)
            return false;
        if (smaller != now && (m_arc || isDecided(smaller)))
            m_queue.push_back(tensor);
        now = smaller;
        return true;
    }

    bool run()
    {
        while (!m_queue.empty()) {
            const int tensor = m_queue.front();
            m_queue.pop_front();
            for (const int instruction : m_graph.mentions[static_cast<std::size_t>(tensor)])
                if (!filter(m_graph.instructions[static_cast<std::size_t>(instruction)]))
                    return false;
        }
        return true;
    }

private:
    bool filter(const Instruction &instruction)
    {
        std::vector<std::uint32_t> left(instruction.tensors.size(), 0);
        for (const Row &row : instruction.rows) {
            bool fits = true;
            for (std::size_t i = 0; i < row.splits.size() && fits; ++i)
                fits = (m_allowed[static_cast<std::size_t>(instruction.tensors[i])] & bitOf(row.splits[i])) != 0;
            for (std::size_t i = 0; i < row.splits.size() && fits; ++i)
                left[i] |= bitOf(row.splits[i]);
        }
        for (std::size_t i = 0; i < left.size(); ++i)
            if (!shrink(instruction.tensors[i], left[i]))
                return false;
        return true;
    }

    const RuleGraph &m_graph;
    Allowed &m_allowed;
    bool m_arc;
    std::deque<int> m_queue;
};

/// A split of several pieces for each device is no split of the batch.
bool inSegments(const Signature &signature)
{
    const auto segmented = [](const Sbp &sbp) { return !sbp.segments.empty(); };
    return std::any_of(signature.inputs.begin(), signature.inputs.end(), segmented)
        || std::any_of(signature.outputs.begin(), signature.outputs.end(), segmented);
}

/// Every device has its own samples' results and targets, and its part of the loss. On the data dimension of a mesh
/// nothing else happens; the table of signatures is about the others, where labels are whole.
Signature alongSamples(const graph::Op &loss)
{
    Signature signature{std::vector<Sbp>(loss.inputs.size(), sharding::split(0)),
                        std::vector<Sbp>(loss.outputs.size(), sharding::split(0))};
    signature.outputs[0] = sharding::partial();
    return signature;
}

/// The update: a parameter and its gradient lie alike.
void addUpdates(Maker &maker, const graph::TrainingGraph &training)
{
    std::set<std::pair<int, int>> seen;
    for (std::size_t i = 0; i < training.parameters.size(); ++i) {
        if (!training.gradients[i].valid())
            continue;
        const std::pair both{maker.id(training.parameters[i]), maker.id(training.gradients[i])};
        if (!seen.insert(both).second)
            continue;
        Instruction update{"update " + maker.rules.tensors[static_cast<std::size_t>(both.first)].name,
                           {both.first, both.second},
                           {}};
        for (int split = kReplicated; split < maker.rules.tensors[static_cast<std::size_t>(both.first)].rank; ++split)
            update.rows.push_back({{split, split}, 0});
        maker.rules.instructions.push_back(std::move(update));
    }
}

} // namespace

int splitOf(std::uint32_t set) { return std::countr_zero(set) - 1; }

RuleGraph rulesOf(const graph::TrainingGraph &training, int parts)
{
    const std::vector<std::size_t> standsFor = oneflow::representatives(training.graph);
    std::vector<std::size_t> tensorStandsFor = oneflow::tensorRepresentatives(training.graph, standsFor);
    const auto signatures = oneflow::candidateSignatures(training.graph, parts, standsFor, tensorStandsFor);
    Maker maker(training.graph, std::move(tensorStandsFor), 1);
    for (std::size_t o = 0; o < standsFor.size();
         ++o) // what one block hands to the next has the same rows, perhaps between other tensors
        maker.add(training.graph.ops()[o], signatures[standsFor[o]], standsFor[o]);
    addUpdates(maker, training);
    return maker.finish();
}

RuleGraph batchRulesOf(const graph::Graph &graph, int parts, std::int64_t samples)
{
    std::vector<graph::Tensor> whole(graph.tensors().begin(), graph.tensors().end());
    std::vector<std::size_t> itself;
    for (graph::Tensor &tensor : whole) {
        tensor.shape = graph::Shape::of(tensor.shape.at(samples));
        itself.push_back(tensor.id.index());
    }
    Maker maker(graph, std::move(itself), samples);
    for (const graph::Op &op : graph.ops()) {
        sharding::OpAtHand at = sharding::atHand(graph, op, parts);
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            at.inputs[i] = op.inputs[i].valid() ? &whole[op.inputs[i].index()] : nullptr;
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            at.outputs[i] = &whole[op.outputs[i].index()];
        std::vector<Signature> signatures = sharding::signatures(at);
        std::erase_if(signatures, inSegments);
        if (op.traits().loss && std::ranges::find(signatures, alongSamples(op)) == signatures.end())
            signatures.push_back(alongSamples(op));
        maker.add(op, signatures, op.id.index());
    }
    return maker.finish();
}

Allowed everything(const RuleGraph &graph)
{
    Allowed allowed;
    for (const RuleTensor &tensor : graph.tensors)
        allowed.push_back((1U << static_cast<unsigned>(tensor.rank + 1)) - 1);
    return allowed;
}

bool decide(const RuleGraph &graph, Allowed &allowed, int tensor, int split, Consistency consistency)
{
    // Even a tensor that is down to this one is followed: the caller wants its implications.
    Propagation propagation(graph, allowed, consistency);
    if ((allowed[static_cast<std::size_t>(tensor)] & bitOf(split)) == 0)
        return false;
    return propagation.shrink(tensor, bitOf(split)) && propagation.run();
}

bool exclude(const RuleGraph &graph, Allowed &allowed, int tensor, int split, Consistency consistency)
{
    Propagation propagation(graph, allowed, consistency);
    return propagation.shrink(tensor, ~bitOf(split)) && propagation.run();
}

bool complete(const RuleGraph &graph, Allowed &allowed, double &reduceBytes)
{
    for (std::size_t t = 0; t < allowed.size(); ++t) {
        if (isDecided(allowed[t]))
            continue;
        bool settled = false;
        for (int split = kReplicated; split < graph.tensors[t].rank && !settled; ++split) {
            if ((allowed[t] & bitOf(split)) == 0)
                continue;
            Allowed next = allowed;
            settled = decide(graph, next, static_cast<int>(t), split);
            if (settled)
                allowed = std::move(next);
        }
        if (!settled)
            return false;
    }
    reduceBytes = 0;
    for (const Instruction &instruction : graph.instructions) {
        const Row *chosen = nullptr;
        for (const Row &row : instruction.rows) {
            bool fits = true;
            for (std::size_t i = 0; i < row.splits.size() && fits; ++i)
                fits = allowed[static_cast<std::size_t>(instruction.tensors[i])] == bitOf(row.splits[i]);
            if (fits && (chosen == nullptr || row.reduceBytes < chosen->reduceBytes))
                chosen = &row;
        }
        if (chosen == nullptr)
            return false;
        reduceBytes += chosen->reduceBytes;
    }
    return true;
}

std::vector<Linkage> linkageGroups(const RuleGraph &graph, const std::vector<int> &variables, Consistency consistency)
{
    std::vector<Linkage> groups;
    const Allowed start = everything(graph);
    for (const int variable : variables)
        for (int split = kReplicated; split < graph.tensors[static_cast<std::size_t>(variable)].rank; ++split) {
            Linkage group{variable, split, true, {}};
            Allowed allowed = start;
            group.feasible = decide(graph, allowed, variable, split, consistency);
            for (const int other : variables)
                if (group.feasible && other != variable && isDecided(allowed[static_cast<std::size_t>(other)]))
                    group.implied.emplace_back(other, splitOf(allowed[static_cast<std::size_t>(other)]));
            groups.push_back(std::move(group));
        }
    return groups;
}

std::vector<int> byReach(const RuleGraph &graph, std::vector<int> variables, Consistency consistency)
{
    std::map<int, std::ptrdiff_t> reach;
    for (const int variable : variables) {
        Allowed allowed = everything(graph);
        decide(graph, allowed, variable, kReplicated, consistency);
        reach[variable] = std::count_if(allowed.begin(), allowed.end(), isDecided);
    }
    std::stable_sort(variables.begin(), variables.end(), [&](int a, int b) { return reach[a] > reach[b]; });
    return variables;
}

} // namespace planloom::planners::automap
