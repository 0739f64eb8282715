// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_executor.h"

#include "executor/runtime/admm_figures.h"
#include "executor/runtime/clock.h"
#include "executor/runtime/parameter_server.h"
#include "executor/runtime/rest.h"

#include <algorithm>

namespace planloom::runtime {

Result<std::unique_ptr<RankExecutor>> RankExecutor::create(const program::Program &program, const graph::Graph &subject,
                                                           comm::Communicator &communicator, const Feed &feed,
                                                           trace::Sink &sink, ExecutorOptions options)
{
    if (communicator.size() != static_cast<int>(program.ranks.size()))
        return badInput("the plan has " + std::to_string(program.ranks.size()) + " ranks and the run "
                        + std::to_string(communicator.size()) + " processes; start one process per rank");
    if (program.server.has_value() != (options.link != nullptr))
        return badInput("the program has a parameter server and the run has none, or the other way round");
    if (options.link != nullptr && options.device != nullptr && !options.device->hostAddressable())
        return unsupported("a parameter server of ADMM exchanges messages in a processor's memory, and rank "
                           + std::to_string(communicator.rank())
                           + " is on another device; put it on a processor, or plan with parallel=synchronous");
    std::unique_ptr<RankExecutor> executor(new RankExecutor(program, communicator, sink, std::move(options)));
    if (const Status status = executor->prepare(subject, feed); !status)
        return status.error();
    return executor;
}

// --- Before the first step ------------------------------------------------------------------------------------------

Status RankExecutor::prepare(const graph::Graph &subject, const Feed &feed)
{
    if (const Status status = m_parts.prepare(); !status)
        return status;
    if (const Status status = prepareBodies(subject, feed); !status)
        return status;
    if (const Status status = checkOptimizer(); !status)
        return status;
    if (const Status status = m_loop.prepare(); !status)
        return status;
    if (const Status status = m_communication.prepare(); !status)
        return status;
    const Result<std::int64_t> origin = agreeOnOrigin(m_parts.comm, m_options.deadline);
    if (!origin)
        return origin.error();
    m_parts.origin = *origin;
    m_bytesBesides = m_parts.comm.bytesSent();
    if (m_parts.program.spansSteps())
        m_overlapping.emplace(m_parts, m_communication, m_loop, m_options,
                              [this](const run::StepMetrics &metrics, bool &stop) { return afterStep(metrics, stop); });
    return {};
}

Status RankExecutor::prepareBodies(const graph::Graph &subject, const Feed &feed)
{
    m_feed = feed;
    if (!m_parts.program.tables.empty()) {
        if (const Status rows = m_communication.prepareRows(*m_feed); !rows)
            return rows;
        m_feed->places = &m_communication.rows();
    }
    auto norms = UpdateNorms::create(m_parts.program, m_options.optimizer.rule.formula().norms, m_parts.device);
    if (!norms)
        return norms.error();
    m_parts.norms = std::move(*norms);
    if (m_options.measures && m_parts.own().bodies.size() == 1) // as where there is a policy
        m_parts.times.emplace(m_parts.program.body(m_parts.own().bodies.front()));
    for (const BodyId index : m_parts.own().bodies) {
        const program::Body &made = m_parts.program.body(index);
        auto stage = StageReplica::create(m_parts.program, made, m_parts.context(),
                                          {subject, *m_feed, m_options.seed, m_options.modelFolder, m_options.optimizer,
                                           m_parts.norms});
        if (!stage)
            return stage.error();
        m_persistent.insert(m_persistent.end(), made.persistent.begin(), made.persistent.end());
        m_parts.stages.push_back(std::move(*stage));
    }
    return {};
}

Status RankExecutor::checkOptimizer() const
{
    const std::vector<TaskId> &tasks = m_parts.own().tasks;
    using Wanted = program::Agreement::Subject;
    const auto agreesOn = [&](Wanted subject) {
        return std::any_of(tasks.begin(), tasks.end(), [&](TaskId id) {
            const auto *agreement = m_parts.program.task(id).as<program::Agreement>();
            return agreement != nullptr && agreement->subject == subject;
        });
    };
    if (agreesOn(Wanted::GradientNorm) != (m_options.optimizer.clipNorm > 0))
        return badInput(
            "the program was compiled for an optimizer that clips gradients where this one does not, or the "
            "other way round; compile the plan with the optimizer that trains");
    if (agreesOn(Wanted::UpdateNorms) != (m_options.optimizer.rule.formula().norms > 0))
        return badInput("the program was compiled for another optimizer than "
                        + std::string(m_options.optimizer.rule.name())
                        + "; compile the plan with the optimizer that trains");
    return {};
}

// --- Steps ----------------------------------------------------------------------------------------------------------

Status RankExecutor::run()
{
    sleepExactly();
    if (const Status away = m_communication.swaps().moveStates(true); !away)
        return away;
    if (m_options.served != nullptr) {
        if (const Status begun = m_options.served->begin(m_parts); !begun)
            return begun;
    }
    return m_overlapping ? m_overlapping->run() : runSteps();
}

Status RankExecutor::runSteps()
{
    bool stop = false;
    std::int64_t begin = m_parts.now();
    for (m_step = m_options.firstStep; m_step < m_options.end() && !stop; m_step = nextStep()) {
        if (const Status status = runStep(); !status)
            return status;
        run::StepMetrics result;
        result.step = nextStep() - 1;
        result.loss = m_parts.link == nullptr ? m_communication.agreements().loss() : takeOwnLoss();
        result.learningRate = m_options.learningRate(m_step);
        result.gradientNorm = m_communication.agreements().gradientNorm();
        if (const Status read = readAdmmFigures(m_parts, m_options, result); !read)
            return read;
        const VersionLink *link = m_parts.link;
        stop = link != nullptr ? link->ends() : m_communication.agreements().stop();
        if (const Status settled = settleRows(stop || m_step + 1 == m_options.end()); !settled)
            return settled;
        const std::int64_t end = m_parts.now();
        result.seconds = static_cast<double>(end - begin) * 1e-9;
        begin = end;
        m_stepsDone = nextStep() - m_options.firstStep;
        if (m_options.onStep && link == nullptr)
            m_options.onStep(result);
        if (!m_options.afterStep || (link != nullptr && !link->pauses()))
            continue;
        if (const Status status = afterStep(result, stop); !status)
            return status;
        begin = m_parts.now();
    }
    return m_parts.link != nullptr ? m_parts.link->leave(m_options.deadline) : Status();
}

/// Of this rank's samples, which no agreement asks for.
double RankExecutor::takeOwnLoss()
{
    double sum = 0;
    for (StageReplica &stage : m_parts.stages)
        sum += stage.runner->takeLoss();
    return sum;
}

/// The step behind this one.
std::int64_t RankExecutor::nextStep() const { return m_parts.link != nullptr ? m_parts.link->version() : m_step + 1; }

/// Before anyone looks at the parameters, or training ends, no row is left to be exchanged.
Status RankExecutor::settleRows(bool ends)
{
    const bool looks = m_options.afterStep && (!m_options.pausesAfter || m_options.pausesAfter(m_step));
    return m_communication.rows().delays() && (ends || looks)
        ? m_communication.rows().settle(m_communication.collectives())
        : Status();
}

Status RankExecutor::runStep()
{
    if (m_feed->arrivals != nullptr) {
        if (const Status came = m_feed->arrivals->await(m_step); !came)
            return came;
    }
    if (m_parts.times)
        m_parts.times->begin(m_step - m_options.firstStep);
    return m_loop.run(m_step);
}

Result<memory::MeasuredTimes> RankExecutor::measuredTimes()
{
    memory::MeasuredTimes times;
    if (!m_parts.times)
        return times;
    times.operators = m_parts.times->medians();
    const program::Task *largest = largestCopy();
    if (largest == nullptr)
        return times;
    for (const bool out : {false, true}) { // what came goes back: the host keeps parameters and states as they are
        const Result<double> seconds = m_communication.swaps().measure(*largest, out);
        if (!seconds)
            return seconds.error();
        (out ? times.secondsOut : times.secondsIn) = *seconds;
    }
    times.copyBytes = m_parts.program.copyOf(*largest->as<program::Swap>()).bytes;
    return times;
}

/// Of the tensors that are swapped; without any, of the parts of parameters and states that an update brings.
const program::Task *RankExecutor::largestCopy() const
{
    const auto better = [this](const program::Task &task, const program::Task *best) {
        const bool swaps = task.microBatch >= 0;
        const bool bestSwaps = best != nullptr && best->microBatch >= 0;
        const auto bytesOf = [this](const program::Task &of) {
            return m_parts.program.copyOf(*of.as<program::Swap>()).bytes;
        };
        return best == nullptr || (swaps == bestSwaps ? bytesOf(task) > bytesOf(*best) : swaps);
    };
    const program::Task *largest = nullptr;
    for (const TaskId id : m_parts.own().tasks) {
        const program::Task &task = m_parts.program.task(id);
        const auto *swap = task.as<program::Swap>();
        // A parameter that an operator reads may begin within a block of a file: a part of them does not.
        if (swap != nullptr && !m_parts.program.copyOf(*swap).parameter && better(task, largest))
            largest = &task;
    }
    return largest;
}

/// The caller's work between steps, whose communication is none of a step's.
Status RankExecutor::afterStep(const run::StepMetrics &metrics, bool &stop)
{
    const std::int64_t before = m_parts.comm.bytesSent();
    const Status status = m_options.afterStep(metrics, stop);
    m_bytesBesides += m_parts.comm.bytesSent() - before;
    return status;
}

Result<run::Validation> RankExecutor::evaluate()
{
    Averaging &averaging = m_communication.averaging();
    if (const Status mean = averaging.useMean(m_communication.collectives()); !mean)
        return mean.error();
    Result<run::Validation> seen =
        Evaluator(m_parts, m_communication.transfers(), m_communication.collectives(), m_communication.rows()).run();
    averaging.putBack();
    return seen;
}

Status RankExecutor::fetchStates() { return m_options.served != nullptr ? m_options.served->fetchStates() : Status(); }

} // namespace planloom::runtime
