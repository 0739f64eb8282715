// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/evicted.h"

#include <algorithm>
#include <utility>

namespace planloom::memory {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

} // namespace

Evicted::Evicted(const Stream &stream, const CopyTimes &copies)
    : m_stream(stream),
      m_copies(copies),
      m_children(stream.storages.size()),
      m_gone(stream.storages.size(), false),
      m_evicted(stream.storages.size(), false),
      m_seen(stream.operators.size(), 0),
      m_node(stream.storages.size(), -1)
{
    for (const Operator &op : stream.operators)
        for (const std::int32_t input : op.inputs)
            m_children[at(input)].insert(m_children[at(input)].end(), op.outputs.begin(), op.outputs.end());
    for (std::size_t s = 0; s < stream.storages.size(); ++s)
        m_gone[s] = stream.storages[s].hosted;
}

double Evicted::ownSeconds(std::int32_t storage) const
{
    const std::int32_t producer = m_stream.storages[at(storage)].producer;
    return producer < 0 ? 0 : m_stream.operators[at(producer)].seconds;
}

double Evicted::secondsAgain(std::int32_t storage) const
{
    const std::int32_t producer = m_stream.storages[at(storage)].producer;
    return producer < 0 ? 0 : secondsOf(producer);
}

/// Of operator @p op with the copies that it waits for.
double Evicted::secondsOf(std::int32_t op) const
{
    double sum = m_stream.operators[at(op)].seconds;
    for (const std::int32_t input : m_stream.operators[at(op)].inputs)
        if (const Storage &read = m_stream.storages[at(input)]; read.hosted && m_gone[at(input)])
            sum += m_copies.seconds(false, read.bytes);
    return sum;
}

/// Gone ancestors that can be reached through gone ones.
double Evicted::above(std::int32_t storage)
{
    double sum = 0;
    m_stack.assign(1, storage);
    while (!m_stack.empty()) {
        const std::int32_t producer = m_stream.storages[at(m_stack.back())].producer;
        m_stack.pop_back();
        if (producer < 0)
            continue;
        for (const std::int32_t input : m_stream.operators[at(producer)].inputs) {
            const std::int32_t maker = m_stream.storages[at(input)].producer;
            if (!m_gone[at(input)] || maker < 0 || m_seen[at(maker)] == m_search)
                continue;
            m_seen[at(maker)] = m_search;
            sum += secondsOf(maker);
            m_stack.push_back(input);
        }
    }
    return sum;
}

double Evicted::below(std::int32_t storage)
{
    double sum = 0;
    m_stack.assign(1, storage);
    while (!m_stack.empty()) {
        const std::int32_t from = m_stack.back();
        m_stack.pop_back();
        for (const std::int32_t child : m_children[at(from)]) {
            const std::int32_t maker = m_stream.storages[at(child)].producer;
            if (!m_evicted[at(child)] || m_seen[at(maker)] == m_search)
                continue;
            m_seen[at(maker)] = m_search;
            sum += secondsOf(maker);
            m_stack.push_back(child);
        }
    }
    return sum;
}

double Evicted::ancestorSeconds(std::int32_t storage)
{
    ++m_search;
    return above(storage);
}

double Evicted::neighbourSeconds(std::int32_t storage)
{
    ++m_search;
    return above(storage) + below(storage);
}

template <class Visit>
void Evicted::eachNeighbour(std::int32_t storage, const Visit &visit) const
{
    if (const std::int32_t producer = m_stream.storages[at(storage)].producer; producer >= 0)
        for (const std::int32_t input : m_stream.operators[at(producer)].inputs)
            if (m_evicted[at(input)])
                visit(input);
    for (const std::int32_t child : m_children[at(storage)])
        if (m_evicted[at(child)])
            visit(child);
}

std::int32_t Evicted::rootOf(std::int32_t node)
{
    std::int32_t root = node;
    while (m_parent[at(root)] != root)
        root = m_parent[at(root)];
    while (m_parent[at(node)] != root)
        node = std::exchange(m_parent[at(node)], root);
    return root;
}

double Evicted::classSeconds(std::int32_t storage)
{
    std::vector<std::int32_t> roots;
    eachNeighbour(storage, [&](std::int32_t neighbour) { roots.push_back(rootOf(m_node[at(neighbour)])); });
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    double sum = 0;
    for (const std::int32_t root : roots)
        sum += m_sum[at(root)];
    return sum;
}

void Evicted::drop(std::int32_t storage, bool evicted)
{
    restore(storage);
    m_gone[at(storage)] = true;
    if (!evicted)
        return;
    m_evicted[at(storage)] = true;
    const auto own = static_cast<std::int32_t>(m_parent.size());
    m_node[at(storage)] = own;
    m_parent.push_back(own);
    m_sum.push_back(ownSeconds(storage));
    eachNeighbour(storage, [&](std::int32_t neighbour) {
        const std::int32_t from = rootOf(m_node[at(neighbour)]);
        if (from == own)
            return;
        m_parent[at(from)] = own;
        m_sum[at(own)] += m_sum[at(from)];
    });
}

/// A class is never split: it loses the cost alone (DTR §4.1). What leaves again is a new node of the forest.
void Evicted::restore(std::int32_t storage)
{
    m_gone[at(storage)] = false;
    if (!m_evicted[at(storage)])
        return;
    m_sum[at(rootOf(m_node[at(storage)]))] -= ownSeconds(storage);
    m_evicted[at(storage)] = false;
}

} // namespace planloom::memory
