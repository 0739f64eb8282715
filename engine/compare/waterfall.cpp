// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/waterfall.h"

#include <algorithm>
#include <cmath>

namespace planloom::compare {
namespace {

/// The times of both, kinds by name in A's order, then those that B alone has.
class Deltas {
public:
    void add(const trace::KindInfo &kind, std::int64_t change)
    {
        const auto known = std::ranges::find_if(m_all, [&](const auto &each) { return each.kind.name == kind.name; });
        if (known == m_all.end())
            m_all.push_back({kind, change});
        else
            known->change += change;
    }
    std::vector<Waterfall::Delta> take()
    {
        std::erase_if(m_all, [](const auto &each) { return each.change == 0; });
        return std::move(m_all);
    }
    [[nodiscard]] std::int64_t sum() const
    {
        std::int64_t sum = 0;
        for (const auto &each : m_all)
            sum += each.change;
        return sum;
    }

private:
    std::vector<Waterfall::Delta> m_all;
};

trace::KindInfo unnamed(const char *name) { return {name, trace::Work::Host, "grey", "plain", ""}; }

} // namespace

Waterfall waterfallOf(double from, double to, const StepParts &a, const StepParts &b)
{
    Waterfall made;
    made.from = std::llround(from * 1e9);
    made.to = std::llround(to * 1e9);
    Deltas deltas;
    for (const StepParts::Part &part : a.parts)
        deltas.add(part.kind, -part.exclusive);
    for (const StepParts::Part &part : b.parts)
        deltas.add(part.kind, part.exclusive);
    deltas.add(unnamed("waiting"), b.waiting - a.waiting);
    deltas.add(unnamed("idle"), b.idle - a.idle);
    deltas.add(unnamed("outside of tasks"), made.to - made.from - deltas.sum());
    made.deltas = deltas.take();
    return made;
}

} // namespace planloom::compare
