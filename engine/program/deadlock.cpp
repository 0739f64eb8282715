// SPDX-License-Identifier: Apache-2.0
#include "engine/program/deadlock.h"

#include <algorithm>

namespace planloom::program {
namespace {

/// The graph of waiting: a node a group, or a task that is in none.
class Waits {
public:
    explicit Waits(const Program &program)
    {
        const auto groups = static_cast<std::int32_t>(program.groups.size());
        m_nodeOf.resize(program.tasks.size());
        std::int32_t next = groups;
        for (std::size_t t = 0; t < program.tasks.size(); ++t)
            m_nodeOf[t] = program.tasks[t].group.valid() ? program.tasks[t].group.value : next++;
        m_waitsFor.resize(static_cast<std::size_t>(next));
        m_example.resize(static_cast<std::size_t>(next));
        for (std::size_t t = 0; t < program.tasks.size(); ++t) {
            m_example[node(t)] = TaskId(static_cast<std::int64_t>(t));
            for (const Dependency &before : program.dependenciesOf(program.tasks[t]))
                if (before.stepsBack == 0)
                    m_waitsFor[node(t)].push_back(m_nodeOf[before.task.index()]);
        }
        for (const Rank &rank : program.ranks)
            for (const std::vector<TaskId> &order : rank.orders)
                for (std::size_t i = 1; i < order.size(); ++i)
                    m_waitsFor[node(order[i].index())].push_back(m_nodeOf[order[i - 1].index()]);
    }

    /// Nodes on a cycle, in the order of waiting; empty if there is none.
    std::vector<std::int32_t> cycle()
    {
        m_state.assign(m_waitsFor.size(), State::New);
        for (std::size_t n = 0; n < m_waitsFor.size(); ++n)
            if (m_state[n] == State::New)
                if (auto found = search(static_cast<std::int32_t>(n)); !found.empty())
                    return found;
        return {};
    }

    [[nodiscard]] TaskId example(std::int32_t n) const { return m_example[static_cast<std::size_t>(n)]; }

private:
    enum class State : std::uint8_t { New, OnPath, Done };
    [[nodiscard]] std::size_t node(std::size_t task) const { return static_cast<std::size_t>(m_nodeOf[task]); }

    std::vector<std::int32_t> search(std::int32_t root)
    {
        std::vector<std::int32_t> path{root};
        std::vector<std::size_t> next{0};
        m_state[static_cast<std::size_t>(root)] = State::OnPath;
        while (!path.empty()) {
            const auto here = static_cast<std::size_t>(path.back());
            if (next.back() == m_waitsFor[here].size()) {
                m_state[here] = State::Done;
                path.pop_back();
                next.pop_back();
                continue;
            }
            const std::int32_t before = m_waitsFor[here][next.back()++];
            State &state = m_state[static_cast<std::size_t>(before)];
            if (state == State::OnPath)
                return {std::find(path.begin(), path.end(), before), path.end()};
            if (state == State::New) {
                state = State::OnPath;
                path.push_back(before);
                next.push_back(0);
            }
        }
        return {};
    }

    std::vector<std::int32_t> m_nodeOf;
    std::vector<std::vector<std::int32_t>> m_waitsFor;
    std::vector<TaskId> m_example;
    std::vector<State> m_state;
};

} // namespace

Status checkRuns(const Program &program)
{
    Waits waits(program);
    const auto cycle = waits.cycle();
    if (cycle.empty())
        return {};
    constexpr std::size_t kShown = 6;
    std::string names;
    for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i)
        names += idOf(program.task(waits.example(cycle[i]))) + " -> ";
    names += cycle.size() > kShown ? "..." : idOf(program.task(waits.example(cycle.front())));
    return badInput("the schedule's order cannot run, tasks wait for each other: " + names + "; move one of them");
}

} // namespace planloom::program
