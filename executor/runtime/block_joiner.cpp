// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/block_joiner.h"

#include <cstring>

namespace planloom::runtime {
namespace {

std::int32_t shortAt(const std::byte *numbers, std::int64_t index)
{
    std::int32_t number = 0;
    std::memcpy(&number, numbers + 4 * index, sizeof number);
    return number;
}

/// Of the row at @p place; 0 where lists have no factors.
std::int64_t degreeAt(const BlockJoiner::Message &message, std::int64_t place)
{
    return message.degrees == nullptr ? 0 : shortAt(message.degrees, shortAt(message.places, place));
}

} // namespace

bool BlockJoiner::findTrees(const Message &message, std::int64_t samples, std::vector<std::int64_t> &begins) const
{
    const gnn::Fanout &fanout = m_shape.fanout;
    const std::int64_t places = message.counts.places;
    for (std::int64_t place = 0; place < places; ++place)
        if (const std::int32_t row = shortAt(message.places, place); row < 0 || row >= message.counts.rows)
            return false;
    for (std::int64_t row = 0; row < message.counts.rows; ++row)
        if (const std::int64_t node = nodeAt(message, row); node < 0 || node >= m_nodes)
            return false;
    begins.assign(1, 0);
    for (std::int64_t i = 0; i < samples; ++i) {
        const std::int64_t seed = begins.back();
        if (seed >= places)
            return false;
        const std::int64_t first = gnn::entriesOf(degreeAt(message, seed), fanout.first, m_shape.factors);
        std::int64_t end = seed + 1 + first;
        if (end > places)
            return false;
        for (std::int64_t entry = seed + 1; entry <= seed + first; ++entry)
            end += gnn::entriesOf(degreeAt(message, entry), fanout.second, m_shape.factors);
        begins.push_back(end);
    }
    return begins.back() == places;
}

std::int64_t BlockJoiner::nodeAt(const Message &message, std::int64_t row) const
{
    std::int64_t node = 0;
    std::memcpy(&node, message.rows + rowBytes(row, m_shape.width), sizeof node);
    return node;
}

data::BlockWriter::Place BlockJoiner::placeOf(const Message &message, std::int64_t place) const
{
    const std::byte *row = message.rows + rowBytes(shortAt(message.places, place), m_shape.width);
    data::BlockWriter::Place made;
    made.node = nodeAt(message, shortAt(message.places, place));
    made.degree = degreeAt(message, place);
    made.features = row + sizeof made.node;
    return made;
}

void BlockJoiner::join(std::span<const Sample> samples, std::span<void *const> inputs)
{
    data::BlockWriter writer(m_shape, m_nodes, inputs, m_scratch);
    for (const Sample &sample : samples) {
        m_tree.clear();
        for (std::int64_t place = sample.begin; place < sample.end; ++place)
            m_tree.push_back(placeOf(sample.message, place));
        writer.add(m_tree);
    }
    writer.finish();
}

} // namespace planloom::runtime
