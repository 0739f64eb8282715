// SPDX-License-Identifier: Apache-2.0
#include "engine/export/export.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

namespace planloom::exporting {
namespace {

using program::Program;
using program::Pass;
using program::Task;

/// A compute task as that format sees it.
struct Action {
    int stage = 0;
    char pass = 'F'; ///< F(orward), B(ackward), or its halves: I(nput gradients) and W(eight gradients)
    int microBatch = 0;
    [[nodiscard]] bool forward() const { return pass == 'F'; }
    [[nodiscard]] std::string text() const { return fmt::format("{}{}{}", stage, pass, microBatch); }
};

/// A rank of the pipeline: one line of the file, all replicas of its stages together.
struct Line {
    std::vector<Action> actions;
    std::size_t next = 0;
    std::vector<std::string> cells;
    std::size_t replicas = 0;
};

std::vector<Action> actionsOf(const Program &program, const program::Rank &rank)
{
    std::set<int> split; // stages whose backward passes are in two halves
    for (const TaskId id : rank.computeOrder())
        if (const Task &task = program.task(id); task.pass() == Pass::WeightGradient)
            split.insert(task.stage.value);
    std::vector<Action> actions;
    for (const TaskId id : rank.computeOrder()) {
        const Task &task = program.task(id);
        const auto *run = task.as<program::Compute>();
        if (run == nullptr || !run->closes)
            continue;
        if (run->pass == Pass::Forward)
            actions.push_back({task.stage.value, 'F', task.microBatch});
        else if (run->pass == Pass::Backward)
            actions.push_back({task.stage.value, split.contains(task.stage.value) ? 'I' : 'B', task.microBatch});
        else if (run->pass == Pass::WeightGradient)
            actions.push_back({task.stage.value, 'W', task.microBatch});
    }
    return actions;
}

/// Lines by the stages that their ranks hold. Error: Unsupported.
Result<std::vector<Line>> linesOf(const Program &program)
{
    std::map<std::set<int>, Line> byStages;
    for (const auto &rank : program.ranks) {
        const auto actions = actionsOf(program, rank);
        std::set<int> stages;
        for (const auto &action : actions)
            stages.insert(action.stage);
        if (stages.empty())
            continue;
        Line &line = byStages[stages];
        if (line.replicas++ == 0)
            line.actions = actions;
    }
    std::vector<Line> lines;
    std::set<int> seen;
    for (auto &[stages, line] : byStages) {
        for (const int stage : stages) {
            if (!seen.insert(stage).second)
                return unsupported(fmt::format("stage {} shares its devices with other stages in part; PyTorch's "
                                               "schedule has one rank for a stage: "
                                               "give its replicas devices of their own",
                                               stage));
        }
        if (!lines.empty() && lines.front().replicas != line.replicas)
            return unsupported(fmt::format(
                "stage {} has {} replicas and stage 0 has {}, but PyTorch's schedule needs the same number everywhere; "
                "change the plan or export another format",
                *stages.begin(), line.replicas, lines.front().replicas));
        lines.push_back(std::move(line));
    }
    return lines;
}

/// Puts sends and receives between the compute actions. A receive enters the other rank's line at the moment of its
/// send, so that any two ranks see their transfers in the same order and cannot wait for each other.
class Weaver {
public:
    explicit Weaver(std::vector<Line> lines) : m_lines(std::move(lines))
    {
        for (std::size_t i = 0; i < m_lines.size(); ++i) {
            for (const auto &action : m_lines[i].actions)
                m_lineOf[action.stage] = i;
        }
    }

    Result<std::string> weave()
    {
        bool moved = true;
        while (moved) {
            moved = false;
            for (std::size_t i = 0; i < m_lines.size(); ++i)
                moved = advance(i) || moved;
        }
        for (const auto &line : m_lines) {
            if (line.next < line.actions.size())
                return badInput(fmt::format("the schedule cannot run: {} waits for ever; check the plan's order",
                                            line.actions[line.next].text()));
        }
        std::string csv;
        for (const auto &line : m_lines)
            csv += fmt::format("{}\n", fmt::join(line.cells, ","));
        return csv;
    }

private:
    [[nodiscard]] bool ready(const Action &action) const
    {
        if (action.pass == 'W')
            return done(action.stage, false, action.microBatch);
        const bool first =
            action.forward() ? action.stage == m_lineOf.begin()->first : action.stage == m_lineOf.rbegin()->first;
        return first ? (action.forward() || done(action.stage, true, action.microBatch))
                     : m_arrived.count({action.stage, action.forward(), action.microBatch}) > 0;
    }
    [[nodiscard]] bool done(int stage, bool forward, int microBatch) const
    {
        return m_done.count({stage, forward, microBatch}) > 0;
    }

    bool advance(std::size_t index)
    {
        Line &line = m_lines[index];
        if (line.next == line.actions.size() || !ready(line.actions[line.next]))
            return false;
        const Action action = line.actions[line.next++];
        line.cells.push_back(action.text());
        if (action.pass == 'W')
            return true;
        m_done.insert({action.stage, action.forward(), action.microBatch});
        const int neighbour = action.stage + (action.forward() ? 1 : -1);
        const auto other = m_lineOf.find(neighbour);
        if (other == m_lineOf.end())
            return true;
        m_arrived.insert({neighbour, action.forward(), action.microBatch});
        if (other->second != index) {
            const char direction = action.forward() ? 'F' : 'B';
            line.cells.push_back(fmt::format("{}SEND_{}{}", action.stage, direction, action.microBatch));
            m_lines[other->second].cells.push_back(fmt::format("{}RECV_{}{}", neighbour, direction, action.microBatch));
        }
        return true;
    }

    std::vector<Line> m_lines;
    std::map<int, std::size_t> m_lineOf; ///< by stage
    std::set<std::tuple<int, bool, int>> m_done;
    std::set<std::tuple<int, bool, int>> m_arrived;
};

} // namespace

Result<std::string> pytorchScheduleCsv(const program::Program &program)
{
    if (program.spansSteps())
        return unsupported(
            "replicas average their parameters, which PyTorch's schedules do not; exchange by all-reduce");
    if (!program.tables.empty())
        return unsupported(
            "replicas exchange tables by rows, which PyTorch's schedules do not; exchange by all-reduce");
    auto lines = linesOf(program);
    if (!lines)
        return lines.error();
    if (lines->empty())
        return badInput("the plan computes nothing; there is no schedule to write");
    return Weaver(std::move(*lines)).weave();
}

} // namespace planloom::exporting
