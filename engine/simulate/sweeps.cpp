// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/sweeps.h"

#include "engine/admm/pattern.h"
#include "engine/compile/compile.h"
#include "engine/cost/local_costs.h"
#include "engine/simulate/simulate.h"

#include <algorithm>
#include <array>
#include <optional>

namespace planloom::simulate {
namespace {

/// What @p op updates; nothing: it prepares something.
std::optional<Sweeps::Block> blockOf(const graph::Op &op)
{
    if (op.type.name() == "ProximalTanh")
        return Sweeps::Block::Input;
    if (op.type.name() == "ProximalCrossEntropy")
        return Sweeps::Block::Output;
    if (op.type.name() != "CholeskySolve")
        return std::nullopt;
    return op.has("shift") ? Sweeps::Block::Hidden : Sweeps::Block::Parameters;
}

/// As many as tell what one does: the sums of more than 16 take hardly longer.
plan::Plan withFewWorkers(plan::Plan plan)
{
    constexpr std::size_t kEnough = 16;
    plan::Stage &stage = plan.stages.front();
    if (stage.devices.size() <= kEnough)
        return plan;
    plan.globalBatch = static_cast<std::int64_t>(kEnough) * plan::replicaRange(stage, 0, plan.globalBatch).size;
    plan.admm->barrier = 1;
    stage.devices.resize(kEnough);
    stage.replicaShares.clear();
    return plan;
}

/// Walks the operators of an iteration with the times of the tasks that they are in.
class SweepReader {
public:
    SweepReader(const plan::Subject &subject, const program::Program &program, int steps)
        : m_program(program),
          m_body(program.body(program.ranks.front().bodies.front())),
          m_costs(*subject.costs, m_body.training.graph),
          m_type(subject.cluster->device(program.ranks.front().device).type)
    {
        m_sweeps.steps = steps;
    }

    Sweeps read(const Simulation &simulation)
    {
        for (const trace::Record &record : simulation.trace.records) {
            if (record.rank != 0)
                continue;
            const program::Task &task = m_program.tasks[static_cast<std::size_t>(record.task)];
            const double begin = static_cast<double>(record.start) * 1e-9;
            const double end = begin + static_cast<double>(record.duration) * 1e-9;
            m_sweeps.seconds = std::max(m_sweeps.seconds, end);
            const auto *run = task.as<program::Compute>();
            if (run != nullptr && run->pass == program::Pass::Backward)
                readRun(*run, begin, end);
            else if (const auto *boxing = task.as<program::Boxing>(); boxing != nullptr)
                m_sweeps.exchanges.push_back({begin, end});
        }
        return std::move(m_sweeps);
    }

private:
    void readRun(const program::Compute &run, double begin, double end)
    {
        const auto secondsOf = [this](std::int32_t first, std::int32_t last) {
            return m_costs
                .seconds(static_cast<std::size_t>(first), static_cast<std::size_t>(last),
                         static_cast<double>(m_body.maxSamples), m_type)
                .value();
        };
        const double whole = secondsOf(run.firstOp, run.lastOp);
        const double scale = whole > 0 ? (end - begin) / whole : 0;
        double since = begin;
        double now = begin;
        for (std::int32_t op = run.firstOp; op < run.lastOp; ++op) {
            now += secondsOf(op, op + 1) * scale;
            if (const auto block = blockOf(m_body.training.graph.ops()[static_cast<std::size_t>(op)])) {
                add(*block, since, now);
                since = now;
            }
        }
    }

    /// Each sweep updates each step's variables once, the first from the last step on, the second from the first.
    void add(Sweeps::Block block, double begin, double end)
    {
        const int before = m_counts[static_cast<std::size_t>(block)]++;
        const int steps = m_sweeps.steps;
        const bool ofSteps = block == Sweeps::Block::Hidden || block == Sweeps::Block::Input;
        const bool backward = before < (ofSteps ? steps : 1);
        const int step = block == Sweeps::Block::Parameters ? 0
            : block == Sweeps::Block::Output                ? steps
            : backward                                      ? steps - before
                                                            : before - steps + 1;
        m_sweeps.updates.push_back({block, step, backward, begin, end});
    }

    const program::Program &m_program;
    const program::Body &m_body;
    cost::LocalCosts m_costs;
    std::size_t m_type;
    Sweeps m_sweeps;
    std::array<int, 4> m_counts{}; ///< by block
};

} // namespace

Result<Sweeps> sweepsOf(const plan::Plan &plan, const plan::Subject &subject, const Progress &progress)
{
    if (!plan.admm)
        return badInput("the plan does not train by ADMM, and has no sweeps");
    if (plan.admm->subproblems != admm::Subproblems::Exact || plan.admm->timeRanges > 1)
        return unsupported("sweeps are shown of exact sub-problems and one range of steps");
    const auto pattern = admm::findPattern(*subject.graph);
    if (!pattern)
        return pattern.error();
    if (progress.stopped())
        return cancelled();
    auto program = compile::compilePlan(withFewWorkers(plan), subject);
    if (!program)
        return program.error();
    if (progress.stopped())
        return cancelled();
    program->server.reset(); // one iteration, without waiting for others
    const auto simulation = simulate(*program, *subject.cluster, {.trace = true, .memory = false});
    if (!simulation)
        return simulation.error();
    return SweepReader(subject, *program, static_cast<int>(pattern->steps)).read(*simulation);
}

} // namespace planloom::simulate
