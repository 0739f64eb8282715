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

/// Stages whose parameters a rank gathers ahead at most, as the loader's own lowering does (_add_unshard_reshard).
constexpr std::size_t kUnsharded = 3;

/// A compute task as that format sees it, or what a rank does for a stage's parameters.
struct Action {
    int stage = 0;
    /// F(orward), B(ackward), or its halves: I(nput gradients) and W(eight gradients); U(NSHARD), R(ESHARD) and
    /// G: REDUCE_GRAD
    char pass = 'F';
    int microBatch = 0;
    [[nodiscard]] bool forward() const { return pass == 'F'; }
    [[nodiscard]] bool computes() const { return std::string_view("FBIW").find(pass) != std::string_view::npos; }
    [[nodiscard]] bool sends() const { return computes() && pass != 'W'; }
    [[nodiscard]] std::string text() const
    {
        if (!computes())
            return fmt::format("{}{}", stage, pass == 'U' ? "UNSHARD" : pass == 'R' ? "RESHARD" : "REDUCE_GRAD");
        return fmt::format("{}{}{}", stage, pass, microBatch);
    }
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

/// A rank's actions together with what is done for the parameters of its stages: the gathers that FSDP asks for in
/// front of a stage's passes, and the reduction of a stage's gradients, which also divides them by the number of
/// micro-batches, behind the last pass that adds to them.
class Gatherer {
public:
    explicit Gatherer(const std::vector<Action> &actions) : m_actions(actions)
    {
        for (std::size_t i = 0; i < actions.size(); ++i) {
            m_last[actions[i].stage] = i;
            if (actions[i].pass == 'B' || actions[i].pass == 'W')
                m_lastGradient[actions[i].stage] = i;
        }
    }

    std::vector<Action> gather()
    {
        for (std::size_t i = 0; i < m_actions.size(); ++i) {
            const std::vector<int> next = nextStages(i);
            dropAllBut(next);
            for (const int stage : next)
                if (!has(m_gathered, stage)) {
                    m_gathered.push_back(stage);
                    m_all.push_back({stage, 'U', 0});
                }
            m_all.push_back(m_actions[i]);
            if (const auto last = m_lastGradient.find(m_actions[i].stage);
                last != m_lastGradient.end() && last->second == i)
                m_all.push_back({m_actions[i].stage, 'G', 0});
        }
        dropAllBut({});
        return std::move(m_all);
    }

private:
    static bool has(const std::vector<int> &stages, int stage)
    {
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
    }

    /// The first stages of the actions from @p at on, at most kUnsharded.
    [[nodiscard]] std::vector<int> nextStages(std::size_t at) const
    {
        const auto left = static_cast<std::size_t>(
            std::count_if(m_last.begin(), m_last.end(), [at](const auto &last) { return last.second >= at; }));
        std::vector<int> stages;
        for (; stages.size() < std::min(kUnsharded, left); ++at)
            if (!has(stages, m_actions[at].stage))
                stages.push_back(m_actions[at].stage);
        return stages;
    }

    void dropAllBut(const std::vector<int> &kept)
    {
        for (const int stage : m_gathered)
            if (!has(kept, stage))
                m_all.push_back({stage, 'R', 0});
        std::erase_if(m_gathered, [&](int stage) { return !has(kept, stage); });
    }

    const std::vector<Action> &m_actions;
    std::map<int, std::size_t> m_last;         ///< action of a stage
    std::map<int, std::size_t> m_lastGradient; ///< pass of a stage that adds to its gradients
    std::vector<int> m_gathered;
    std::vector<Action> m_all;
};

/// Puts sends and receives between the compute actions. A receive enters the other rank's line at the moment of its
/// send, so that any two ranks see their transfers in the same order and cannot wait for each other.
class Weaver {
public:
    Weaver(std::vector<Line> lines, PytorchForm form) : m_lines(std::move(lines)), m_form(form)
    {
        for (std::size_t i = 0; i < m_lines.size(); ++i) {
            for (const auto &action : m_lines[i].actions)
                m_lineOf[action.stage] = i;
            if (form == PytorchForm::ComputeComms)
                m_lines[i].actions = Gatherer(m_lines[i].actions).gather();
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
        if (!action.computes())
            return true;
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
        if (!action.sends())
            return true;
        m_done.insert({action.stage, action.forward(), action.microBatch});
        const int neighbour = action.stage + (action.forward() ? 1 : -1);
        const auto other = m_lineOf.find(neighbour);
        if (other == m_lineOf.end())
            return true;
        m_arrived.insert({neighbour, action.forward(), action.microBatch});
        if (other->second != index && m_form == PytorchForm::ComputeComms) {
            const char direction = action.forward() ? 'F' : 'B';
            line.cells.push_back(fmt::format("{}SEND_{}{}", action.stage, direction, action.microBatch));
            m_lines[other->second].cells.push_back(fmt::format("{}RECV_{}{}", neighbour, direction, action.microBatch));
        }
        return true;
    }

    std::vector<Line> m_lines;
    PytorchForm m_form;
    std::map<int, std::size_t> m_lineOf; ///< by stage
    std::set<std::tuple<int, bool, int>> m_done;
    std::set<std::tuple<int, bool, int>> m_arrived;
};

/// "0 1 1 0": the rank of each stage; empty where they are dealt in turn, as PyTorch takes for granted.
std::string ranksOfStages(const std::vector<Line> &lines)
{
    std::map<int, std::size_t> rankOf;
    for (std::size_t rank = 0; rank < lines.size(); ++rank)
        for (const Action &action : lines[rank].actions)
            rankOf[action.stage] = rank;
    std::string text;
    bool inTurn = true;
    std::size_t index = 0;
    for (const auto &[stage, rank] : rankOf) {
        inTurn = inTurn && rank == index % lines.size();
        text += fmt::format("{}{}", index++ == 0 ? "" : " ", rank);
    }
    return inTurn ? "" : text;
}

std::int64_t microBatchesOf(const std::vector<Line> &lines)
{
    std::set<int> seen;
    for (const Action &action : lines.front().actions)
        if (action.forward())
            seen.insert(action.microBatch);
    return static_cast<std::int64_t>(seen.size());
}

std::vector<std::string> notesOf(const std::vector<Line> &lines, PytorchForm form)
{
    const bool whole = form == PytorchForm::ComputeComms;
    std::vector<std::string> notes{fmt::format(
        "form {} of torch.distributed.pipelining, for PyTorch {} and later: _PipelineScheduleRuntime(stages, "
        "n_microbatches={}, loss_fn=...)._load_csv('FILE'{}) on each of {} ranks of the pipeline, a line each",
        whole ? "compute_comms" : "compute_only", whole ? "2.10" : "2.6", microBatchesOf(lines),
        whole ? ", format='compute_comms'" : "", lines.size())};
    notes.emplace_back(whole ? "its REDUCE_GRAD divides and reduces the gradients; PyTorch 2.6 to 2.9 do not know it: "
                               "there, and for torchtitan, export pytorch-csv"
                             : "the loader adds sends, receives, gathers and the reduction of gradients");
    if (const std::string ranks = ranksOfStages(lines); !ranks.empty())
        notes.push_back(
            fmt::format("stages lie on ranks {} of the pipeline: make each PipelineStage on its own", ranks));
    return notes;
}

} // namespace

Result<Configuration> pytorchScheduleCsv(const program::Program &program, PytorchForm form)
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
    std::vector<std::string> notes = notesOf(*lines, form);
    auto csv = Weaver(std::move(*lines), form).weave();
    if (!csv)
        return csv.error();
    return Configuration{*std::move(csv), std::move(notes)};
}

} // namespace planloom::exporting
