// SPDX-License-Identifier: Apache-2.0
#include "executor/data/block_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace planloom::data {
namespace {

using Content = BlockShape::Content;

std::optional<BlockShape::Binding> bindingOf(const std::string &name)
{
    if (name == "x")
        return BlockShape::Binding{};
    constexpr std::array kNames{std::pair{"own", Content::Own}, std::pair{"offsets", Content::Offsets},
                                std::pair{"indices", Content::Indices}, std::pair{"weights", Content::Weights}};
    for (const auto &[stem, content] : kNames) {
        for (const int layer : {0, 1}) {
            if (name == stem + std::to_string(layer))
                return BlockShape::Binding{content, layer};
        }
    }
    return std::nullopt;
}

bool isFloat(Content content) { return content == Content::Rows || content == Content::Weights; }

/// Elements a sample of @p content, which stands in @p needs; 0: it does not.
std::int64_t elementsOf(const BlockShape &shape, const Needs &needs, Content content)
{
    for (std::size_t i = 0; i < shape.bindings.size(); ++i) {
        if (shape.bindings[i].content == content && shape.bindings[i].layer == 0)
            return needs.inputs[i].perSample;
    }
    return 0;
}

bool has(const BlockShape &shape, Content content)
{
    return std::ranges::find(shape.bindings, content, &BlockShape::Binding::content) != shape.bindings.end();
}

/// Elements a sample that an input of a shape has.
std::int64_t wantedBy(const BlockShape &shape, const BlockShape::Binding &binding)
{
    const std::int64_t targets = binding.layer == 0 ? 1 + shape.fanout.first : 1;
    const std::int64_t drawn = binding.layer == 0 ? shape.fanout.first * (1 + shape.fanout.second) : shape.fanout.first;
    switch (binding.content) {
    case Content::Rows: return shape.width * shape.fanout.rows();
    case Content::Own:
    case Content::Offsets: return targets;
    case Content::Indices:
    case Content::Weights: return drawn + (shape.loops ? targets : 0);
    }
    return 0;
}

/// What each input is for; none where one has another type than that.
std::vector<BlockShape::Binding> bindingsOf(const Needs &needs)
{
    std::vector<BlockShape::Binding> bindings;
    for (const Needs::Input &input : needs.inputs) {
        const auto binding = bindingOf(input.name);
        if (!binding || input.type != (isFloat(binding->content) ? graph::DType::F32 : graph::DType::I64)
            || input.perSample < 1 || bindings.size() == BlockShape::kMostInputs)
            return {};
        bindings.push_back(*binding);
    }
    return bindings;
}

} // namespace

Result<BlockShape> blockShapeOf(const Needs &needs)
{
    const Error unknown = badInput("is a graph, and the model's inputs are not those of a block form; train "
                                   "zoo:graphsage-rows or zoo:gcn on it");
    BlockShape shape;
    shape.bindings = bindingsOf(needs);
    const std::int64_t rows = elementsOf(shape, needs, Content::Rows);
    const std::int64_t targets = elementsOf(shape, needs, Content::Offsets);
    if (rows == 0 || targets < 2 || needs.labelsPerSample != 1 || needs.labels.empty())
        return unknown;
    shape.factors = has(shape, Content::Weights);
    shape.loops = shape.factors && !has(shape, Content::Own);
    const std::int64_t drawn = elementsOf(shape, needs, Content::Indices) - (shape.loops ? targets : 0);
    shape.fanout.first = targets - 1;
    shape.fanout.second = drawn / shape.fanout.first - 1;
    if (shape.fanout.second < 1)
        return unknown;
    shape.width = rows / shape.fanout.rows();
    for (std::size_t i = 0; i < needs.inputs.size(); ++i) {
        if (needs.inputs[i].perSample != wantedBy(shape, shape.bindings[i]))
            return unknown;
    }
    return shape;
}

bool takesBlocks(const Needs &needs)
{
    return std::ranges::any_of(needs.inputs, [](const Needs::Input &input) { return input.name == "offsets0"; });
}

void BlockWriter::Lists::entry(std::int64_t row, double weight)
{
    if (indices != nullptr)
        *indices++ = row;
    if (weights != nullptr)
        *weights++ = static_cast<float>(weight);
    ++entries;
}

void BlockWriter::Lists::target(std::int64_t row)
{
    if (own != nullptr)
        *own++ = row;
    if (offsets != nullptr)
        *offsets++ = entries;
}

BlockWriter::BlockWriter(const BlockShape &shape, std::int64_t nodes, std::span<void *const> inputs,
                         BlockScratch &scratch)
    : m_shape(shape),
      m_inputs(inputs),
      m_scratch(scratch),
      m_lists{listsOf(0), listsOf(1)}
{
    if (static_cast<std::int64_t>(scratch.rowOf.size()) < nodes)
        scratch.rowOf.resize(static_cast<std::size_t>(nodes), -1);
    for (const std::int64_t node : scratch.nodes)
        scratch.rowOf[static_cast<std::size_t>(node)] = -1;
    scratch.nodes.clear();
    scratch.features.clear();
}

void *BlockWriter::memoryOf(Content content, int layer) const
{
    for (std::size_t i = 0; i < m_shape.bindings.size(); ++i) {
        if (m_shape.bindings[i].content == content && m_shape.bindings[i].layer == layer)
            return m_inputs[i];
    }
    return nullptr;
}

BlockWriter::Lists BlockWriter::listsOf(int layer) const
{
    const auto integers = [&](Content content) { return static_cast<std::int64_t *>(memoryOf(content, layer)); };
    return {integers(Content::Own), integers(Content::Offsets), integers(Content::Indices),
            static_cast<float *>(memoryOf(Content::Weights, layer)), 0};
}

std::int64_t BlockWriter::rowOf(const Place &place)
{
    std::int32_t &row = m_scratch.rowOf[static_cast<std::size_t>(place.node)];
    if (row < 0) {
        row = static_cast<std::int32_t>(m_scratch.nodes.size());
        m_scratch.nodes.push_back(place.node);
        m_scratch.features.push_back(place.features);
    }
    return row;
}

double BlockWriter::factor(const Place &target, const Place &entry, std::int64_t entries) const
{
    if (!m_shape.factors)
        return 1;
    return m_shape.loops ? gnn::convolutionFactor(target.degree, entry.degree, entries)
                         : 1 / static_cast<double>(entries);
}

std::int64_t BlockWriter::writeList(const Place &target, std::span<const Place> entries)
{
    Lists &lists = m_lists[0];
    const std::int64_t own = rowOf(target);
    if (m_shape.loops)
        lists.entry(own, gnn::loopFactor(target.degree));
    for (const Place &entry : entries)
        lists.entry(rowOf(entry), factor(target, entry, static_cast<std::int64_t>(entries.size())));
    lists.target(own);
    return own;
}

/// Targets of layer 0: the node, then its entries; of layer 1: the node.
void BlockWriter::add(std::span<const Place> places)
{
    const gnn::Fanout &fanout = m_shape.fanout;
    const std::int64_t base = m_trees++ * (1 + fanout.first); // of the tree's targets in layer 0
    const Place &seed = places.front();
    const std::int64_t count = gnn::entriesOf(seed.degree, fanout.first, m_shape.factors);
    const auto first = places.subspan(1, static_cast<std::size_t>(count));
    const std::int64_t seedRow = writeList(seed, first);
    Lists &second = m_lists[1];
    if (m_shape.loops)
        second.entry(base, gnn::loopFactor(seed.degree));
    for (std::int64_t j = 0; j < count; ++j)
        second.entry(base + 1 + j, factor(seed, first[static_cast<std::size_t>(j)], count));
    second.target(base);
    auto rest = places.subspan(1 + first.size());
    for (const Place &entry : first) {
        const auto entries = static_cast<std::size_t>(gnn::entriesOf(entry.degree, fanout.second, m_shape.factors));
        writeList(entry, rest.first(entries));
        rest = rest.subspan(entries);
    }
    for (std::int64_t j = count; j < fanout.first; ++j)
        m_lists[0].target(seedRow); // of no list of layer 1
}

void BlockWriter::finish()
{
    auto *to = static_cast<float *>(memoryOf(Content::Rows, 0));
    if (to == nullptr)
        return;
    for (const void *features : m_scratch.features) {
        std::memcpy(to, features, static_cast<std::size_t>(4 * m_shape.width));
        to += m_shape.width;
    }
    const auto rows = static_cast<std::int64_t>(m_scratch.features.size());
    std::fill_n(to, (m_trees * m_shape.fanout.rows() - rows) * m_shape.width, 0.0F);
}

} // namespace planloom::data
