// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/block_joiner.h"

#include "executor/runtime/sampled_source.h"

#include <algorithm>
#include <cstring>

namespace planloom::runtime {
namespace {

constexpr const char *kBlockInputs[] = {"x", "own0", "offsets0", "indices0", "own1", "offsets1", "indices1"};

void append(std::int64_t *&list, std::int64_t value)
{
    if (list != nullptr)
        *list++ = value;
}

} // namespace

BlockJoiner::BlockJoiner(const data::Needs &needs, const gnn::Fanout &fanout, std::int64_t width, std::int64_t nodes)
    : m_fanout(fanout),
      m_width(width),
      m_rowOf(static_cast<std::size_t>(nodes), -1)
{
    for (std::size_t i = 0; i < std::size(kBlockInputs); ++i) {
        const auto found = std::ranges::find(needs.inputs, kBlockInputs[i], &data::Needs::Input::name);
        m_inputAt[i] = found == needs.inputs.end() ? -1 : found - needs.inputs.begin();
    }
}

void BlockJoiner::join(std::span<const Sample> samples, std::span<void *const> inputs)
{
    for (const std::int64_t node : m_met)
        m_rowOf[static_cast<std::size_t>(node)] = -1;
    m_met.clear();
    m_features.clear();
    m_entries = {};
    const auto memory = [&](std::size_t input) {
        return m_inputAt[input] < 0 ? nullptr : inputs[static_cast<std::size_t>(m_inputAt[input])];
    };
    Lists lists{};
    for (std::size_t input = Own0; input < kInputs; ++input)
        lists[input] = static_cast<std::int64_t *>(memory(input));
    std::int64_t base = 0; // of the sample's targets in layer 0
    for (const Sample &sample : samples) {
        tree(sample, base, lists);
        base += 1 + m_fanout.first;
    }
    if (void *x = memory(Rows))
        copyRows(static_cast<std::int64_t>(samples.size()) * m_fanout.rows(), static_cast<float *>(x));
}

/// Targets of layer 0: the node, then its neighbours; of layer 1: the node.
void BlockJoiner::tree(const Sample &sample, std::int64_t base, Lists &lists)
{
    const std::int64_t firstHops = sample.count + sample.index * m_fanout.first;
    const std::int64_t secondHops =
        sample.count * (1 + m_fanout.first) + sample.index * m_fanout.first * m_fanout.second;
    const auto entry = [&](Input indices, std::size_t layer, std::int64_t row) {
        append(lists[indices], row);
        ++m_entries[layer];
    };
    const auto target = [&](Input own, Input offsets, std::size_t layer, std::int64_t row) {
        append(lists[own], row);
        append(lists[offsets], m_entries[layer]);
    };
    const std::int64_t seed = rowAt(sample, sample.index);
    for (std::int64_t j = 0; j < m_fanout.first; ++j) {
        entry(Indices0, 0, rowAt(sample, firstHops + j));
        entry(Indices1, 1, base + 1 + j);
    }
    target(Own0, Offsets0, 0, seed);
    target(Own1, Offsets1, 1, base);
    for (std::int64_t j = 0; j < m_fanout.first; ++j) {
        for (std::int64_t k = 0; k < m_fanout.second; ++k)
            entry(Indices0, 0, rowAt(sample, secondHops + j * m_fanout.second + k));
        target(Own0, Offsets0, 0, rowAt(sample, firstHops + j));
    }
}

std::int64_t BlockJoiner::rowAt(const Sample &sample, std::int64_t place)
{
    std::int32_t sent = 0;
    std::memcpy(&sent, sample.places + 4 * place, sizeof sent);
    const std::byte *row = sample.rows + rowBytes(sent, m_width);
    std::int64_t node = 0;
    std::memcpy(&node, row, sizeof node);
    std::int32_t &number = m_rowOf[static_cast<std::size_t>(node)];
    if (number < 0) {
        number = static_cast<std::int32_t>(m_met.size());
        m_met.push_back(node);
        m_features.push_back(row + sizeof node);
    }
    return number;
}

void BlockJoiner::copyRows(std::int64_t room, float *to) const
{
    for (const std::byte *features : m_features) {
        std::memcpy(to, features, static_cast<std::size_t>(4 * m_width));
        to += m_width;
    }
    std::fill_n(to, (room - static_cast<std::int64_t>(m_features.size())) * m_width, 0.0F);
}

} // namespace planloom::runtime
