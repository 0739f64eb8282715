// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/walk.h"

#include <QStringList>

#include <vector>

namespace planloom::testing {

/// An operator of a chain, and what it makes.
struct Element {
    double seconds;
    std::int64_t bytes;
};

/// A chain t1..tN behind a pinned t0: forward i reads t(i-1) and makes t(i); backward i = N..1 reads t(i), then t(i-1),
/// takes twice as long and is the last use of t(i).
inline memory::Stream chainOf(const std::vector<Element> &elements)
{
    memory::Stream stream;
    stream.storages.push_back({0, -1, false});
    const auto n = static_cast<std::int32_t>(elements.size());
    for (std::int32_t i = 1; i <= n; ++i) {
        const Element &element = elements[static_cast<std::size_t>(i - 1)];
        stream.storages.push_back({element.bytes, i - 1, true});
        stream.operators.push_back({element.seconds, {i - 1}, {i}, {}, 0});
    }
    for (std::int32_t i = n; i >= 1; --i)
        stream.operators.push_back({2 * elements[static_cast<std::size_t>(i - 1)].seconds, {i, i - 1}, {}, {i}, 0});
    return stream;
}

/// Elements of odd and even number in turn, from 1.
inline std::vector<Element> alternating(int n, Element odd, Element even)
{
    std::vector<Element> elements;
    for (int i = 1; i <= n; ++i)
        elements.push_back(i % 2 == 1 ? odd : even);
    return elements;
}

/// The worked tables' chains: U16, A16, B16, B32.
inline std::vector<Element> elementsOf(const QString &name)
{
    if (name == "U16")
        return alternating(16, {1, 1}, {1, 1});
    if (name == "A16")
        return alternating(16, {5, 4}, {1, 1});
    return alternating(name == "B32" ? 32 : 16, {1, 4}, {5, 1});
}

/// Of the worked tables.
inline std::int64_t budgetOf(const QString &chain) { return chain == "U16" ? 6 : chain == "B32" ? 24 : 16; }

/// Room is made after operators, copies stand in the way, and bytes alone count: the rules of the worked tables.
inline memory::Limits limitsFor(plan::MemoryFilter filter, plan::MemoryDirector director, std::int64_t budget,
                                double bandwidth)
{
    memory::Limits limits;
    limits.policy.filter = filter;
    limits.policy.director = director;
    limits.policy.trigger = plan::MemoryTrigger::After;
    limits.policy.overlaps = false;
    limits.policy.smallShare = 0;
    limits.budget = budget;
    limits.copies = {bandwidth, bandwidth, 0};
    limits.fixedPool = false;
    return limits;
}

/// "1R 2S": what left, and how, in order.
inline QString logOf(const memory::Course &course)
{
    QStringList lines;
    for (const memory::Decision &decision : course.decisions)
        lines
            << QString("%1%2").arg(decision.storage).arg(decision.action == memory::Decision::Action::Swap ? "S" : "R");
    return lines.join(' ');
}

} // namespace planloom::testing
