// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_executor.h"

#include "engine/simulate/clock.h"
#include "executor/runtime/clock.h"
#include "executor/runtime/parameter_server.h"
#include "executor/runtime/rest.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <numeric>
#include <utility>

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
    if (const Status status = prepareDispatch(); !status)
        return status;
    if (const Status status = m_transfers.prepare(m_parts); !status)
        return status;
    if (const Status status = m_swaps.prepare(m_parts); !status)
        return status;
    m_agreements.prepare(m_parts, m_averaging, m_options.stop, m_options.optimizer.clipNorm);
    // Making groups blocks until all ranks do it: see that they are all here first.
    if (const Status status = m_parts.comm.barrier(m_options.deadline); !status)
        return status;
    if (const Status status = m_collectives.prepare(m_parts); !status)
        return status;
    if (const Status status = m_averaging.prepare(m_parts); !status)
        return status;
    if (const Status status = m_parts.comm.settle(m_options.deadline); !status)
        return status;
    const Result<std::int64_t> origin = agreeOnOrigin(m_parts.comm, m_options.deadline);
    if (!origin)
        return origin.error();
    m_origin = *origin;
    m_bytesBesides = m_parts.comm.bytesSent();
    return {};
}

Status RankExecutor::prepareBodies(const graph::Graph &subject, const Feed &feed)
{
    m_feed = feed;
    if (!m_parts.program.tables.empty()) {
        if (const Status rows = m_rows.prepare(m_parts, *m_feed, m_options.optimizer); !rows)
            return rows;
        m_feed->places = &m_rows;
    }
    auto norms = UpdateNorms::create(m_parts.program, m_options.optimizer.rule.formula().norms, m_parts.device);
    if (!norms)
        return norms.error();
    m_parts.norms = std::move(*norms);
    for (const BodyId index : m_parts.own().bodies) {
        const program::Body &made = m_parts.program.body(index);
        auto stage = StageReplica::create(m_parts.program, made, m_parts.context(),
                                          {subject, *m_feed, m_options.seed, m_options.modelFolder, m_options.optimizer,
                                           m_parts.norms});
        if (!stage)
            return stage.error();
        m_held.insert(m_held.end(), made.held.begin(), made.held.end());
        m_parts.stages.push_back(std::move(*stage));
    }
    return {};
}

Status RankExecutor::prepareDispatch()
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
    Result<dispatch::LaneOrders> orders = simulate::laneOrders(m_parts.program, m_parts.rank);
    if (!orders)
        return orders.error();
    m_orders = std::move(*orders);
    const auto policy = dispatch::findLanePolicy(m_parts.program.lanePolicy);
    if (!policy)
        return policy.error();
    m_dispatcher.emplace(m_parts.program, **policy, m_parts.rank, m_orders,
                         m_parts.program.spansSteps() ? dispatch::Steps::Many : dispatch::Steps::One);
    m_progress.resize(static_cast<std::size_t>(m_dispatcher->units()));
    for (Progress &progress : m_progress) {
        auto event = m_parts.device.makeEvent();
        if (!event)
            return event.error();
        progress.ended = std::move(*event);
    }
    m_running.reserve(m_progress.size());
    for (const TaskId id : tasks) {
        const program::Task &task = m_parts.program.task(id);
        const auto *agreement = task.as<program::Agreement>();
        if (agreement != nullptr && agreement->subject == Wanted::Step && task.cadence > 0)
            m_agreeEvery = m_parts.program.cadences[static_cast<std::size_t>(task.cadence - 1)].period;
    }
    return {};
}

// --- Steps ----------------------------------------------------------------------------------------------------------

std::int64_t RankExecutor::now() const { return monotonicNanoseconds() - m_origin; }

Status RankExecutor::run()
{
    if (const Status away = m_swaps.moveStates(true); !away)
        return away;
    if (m_options.link != nullptr)
        sleepExactly();
    if (m_options.served != nullptr) {
        if (const Status begun = m_options.served->begin(m_parts); !begun)
            return begun;
    }
    return m_parts.program.spansSteps() ? runOverlapping() : runSteps();
}

Status RankExecutor::runSteps()
{
    bool stop = false;
    std::int64_t begin = now();
    for (m_step = m_options.firstStep; m_step < m_options.steps && !stop; m_step = nextStep()) {
        if (const Status status = runStep(); !status)
            return status;
        run::StepMetrics result;
        result.step = nextStep() - 1;
        result.loss = m_parts.link == nullptr ? m_agreements.loss() : takeOwnLoss();
        result.learningRate = learningRate(m_step);
        result.gradientNorm = m_agreements.gradientNorm();
        if (const Status read = readFigures(result); !read)
            return read;
        const VersionLink *link = m_parts.link;
        stop = link != nullptr ? link->ends() : m_agreements.stop();
        if (const Status settled = settleRows(stop || m_step + 1 == m_options.steps); !settled)
            return settled;
        const std::int64_t end = now();
        result.seconds = static_cast<double>(end - begin) * 1e-9;
        begin = end;
        m_stepsDone = nextStep() - m_options.firstStep;
        if (m_options.onStep && link == nullptr)
            m_options.onStep(result);
        if (!m_options.afterStep || (link != nullptr && !link->pauses()))
            continue;
        if (const Status status = afterStep(result, stop); !status)
            return status;
        begin = now();
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

/// What an iteration of ADMM leaves behind. Error: Failed, where it is no number.
Status RankExecutor::readFigures(run::StepMetrics &metrics)
{
    const std::span<const float> figures = m_parts.stages.front().runner->figures();
    if (figures.empty())
        return {};
    const bool finite = std::all_of(figures.begin(), figures.end(), [](float figure) { return std::isfinite(figure); });
    if (!finite)
        return failed(
            fmt::format("iteration {} of ADMM has no solution: its sums over samples have no Cholesky factor, "
                        "or its values are too large; raise \"ridge\" in the plan's training, or its penalties",
                        metrics.step));
    const std::span<const float> residuals = figures.first(figures.size() - 2);
    metrics.primalResidual = std::sqrt(std::accumulate(residuals.begin(), residuals.end(), 0.0));
    metrics.dualResidual = std::sqrt(static_cast<double>(figures[figures.size() - 2]));
    metrics.objective = metrics.loss * static_cast<double>(m_parts.program.globalBatch * m_parts.program.shards)
        + m_parts.program.ridge / 2 * static_cast<double>(figures.back());
    return m_options.onResiduals && residuals.size() > 1 ? m_options.onResiduals(metrics.step, residuals) : Status();
}

/// Before anyone looks at the parameters, or training ends, no row is left to be exchanged.
Status RankExecutor::settleRows(bool ends)
{
    const bool looks = m_options.afterStep && (!m_options.pausesAfter || m_options.pausesAfter(m_step));
    return m_rows.delays() && (ends || looks) ? m_rows.settle(m_collectives) : Status();
}

Status RankExecutor::runStep()
{
    if (m_feed->arrivals != nullptr) {
        if (const Status came = m_feed->arrivals->await(m_step); !came)
            return came;
    }
    m_lastProgress = now();
    m_dispatcher->begin(static_cast<double>(m_lastProgress));
    return runUntilDone();
}

/// Until all that the dispatcher may hand out has ended.
Status RankExecutor::runUntilDone()
{
    startReady();
    while (m_status && !m_dispatcher->done()) {
        if (poll())
            continue;
        if (const Status status = waitWhileIdle(); !status)
            return status;
    }
    return m_status;
}

/// The caller's work between steps, whose communication is none of a step's.
Status RankExecutor::afterStep(const run::StepMetrics &metrics, bool &stop)
{
    const std::int64_t before = m_parts.comm.bytesSent();
    const Status status = m_options.afterStep(metrics, stop);
    m_bytesBesides += m_parts.comm.bytesSent() - before;
    return status;
}

/// Steps are entered as soon as the one before is over but for what stays open. A stop request is known once steps are
/// agreed on, by when ranks may be openSteps further than the last of these: all of them end behind those. So a step is
/// entered only when that cannot be before it.
Status RankExecutor::runOverlapping()
{
    if (m_options.firstStep >= m_options.steps)
        return {};
    m_step = m_left = m_agreed = m_options.firstStep;
    m_pause = pauseAfter(m_step);
    m_lastProgress = m_lastLeft = now();
    enterSteps(m_step);
    for (bool stop = false; !stop;) {
        if (const Status status = runUntilDone(); !status)
            return status;
        if (const Status status = agreeOnTheRest(); !status)
            return status;
        if (const Status settled = m_rows.settle(m_collectives); !settled)
            return settled;
        settleSums();
        if (m_left > m_options.firstStep && pausesAfter(m_left - 1)) {
            if (const Status status = afterStep(m_reported, stop); !status)
                return status;
            m_lastProgress = m_lastLeft = now();
        }
        stop = stop || m_stop || m_left >= m_options.steps;
        if (!stop) {
            m_pause = pauseAfter(m_left);
            enterSteps(m_left);
        }
    }
    return {};
}

bool RankExecutor::pausesAfter(std::int64_t step) const
{
    return m_options.afterStep && m_options.pausesAfter && m_options.pausesAfter(step);
}

/// The end of the steps that may be entered before the next pause, or the run's last step.
std::int64_t RankExecutor::pauseAfter(std::int64_t step) const
{
    if (!m_options.pausesAfter)
        return m_options.steps;
    while (step < m_options.steps && !pausesAfter(step))
        ++step;
    return std::min(step + 1, m_options.steps);
}

/// Of those that may be entered before the next agreement.
std::int64_t RankExecutor::endOfSteps() const
{
    const std::int64_t next = (m_agreed / m_agreeEvery + 1) * m_agreeEvery; // the one after its last step
    return std::min(m_pause, next + m_parts.program.openSteps);
}

void RankExecutor::enterSteps(std::int64_t firstStep)
{
    m_dispatcher->begin(static_cast<double>(now()), firstStep, endOfSteps());
    if (endOfSteps() == m_pause)
        m_dispatcher->close();
}

void RankExecutor::admit()
{
    if (!m_stop)
        m_dispatcher->admit(endOfSteps(), static_cast<double>(now()));
    if (m_stop || endOfSteps() == m_pause)
        m_dispatcher->close();
}

/// With the figures of the step whose gradients they are; nothing if the bucket has none.
void RankExecutor::updateSummed(StageReplica &stage, BucketId bucket)
{
    if (const std::optional<std::int64_t> step = stage.updater.takeSummed(bucket))
        stage.updater.update(
            {.step = *step - m_options.updatesFrom, .learningRate = learningRate(*step), .bucket = bucket});
}

/// Before anyone looks at the parameters, which is behind these commands: sums that the next step would have updated
/// them with.
void RankExecutor::settleSums()
{
    for (StageReplica &stage : m_parts.stages)
        for (const BucketId bucket : stage.updater.ownUpdates())
            updateSummed(stage, bucket);
}

/// At a pause, inside of the steps that are agreed on together.
Status RankExecutor::agreeOnTheRest()
{
    if (m_agreed == m_left)
        return {};
    if (const Status agreed = m_agreements.agreeNow(); !agreed)
        return agreed;
    stepsAgreed();
    return {};
}

/// Steps that are over but for what stays open.
void RankExecutor::leaveSteps()
{
    for (; m_left < m_dispatcher->stepsPassed() && m_status; ++m_left) {
        m_status = m_agreements.leave(m_left);
        m_unreported.resize(std::max(m_unreported.size(), static_cast<std::size_t>(m_left - m_step + 1)));
        m_unreported[static_cast<std::size_t>(m_left - m_step)].left = now();
        report();
    }
}

void RankExecutor::stepsAgreed()
{
    for (const float loss : m_agreements.losses()) {
        const auto at = static_cast<std::size_t>(m_agreed - m_step);
        m_unreported.resize(std::max(m_unreported.size(), at + 1));
        run::StepMetrics &metrics = m_unreported[at].metrics;
        metrics.step = m_agreed;
        metrics.loss = static_cast<double>(loss);
        metrics.learningRate = learningRate(m_agreed);
        if (m_averaging.mergesIn(m_agreed - 1))
            metrics.consensusDistance = m_agreements.consensusDistance();
        m_unreported[at].agreed = true;
        ++m_agreed;
    }
    m_stop = m_stop || m_agreements.stop();
    admit();
    report();
}

void RankExecutor::report()
{
    while (!m_unreported.empty() && m_unreported.front().left && m_unreported.front().agreed) {
        run::StepMetrics &metrics = m_unreported.front().metrics;
        metrics.seconds = static_cast<double>(*m_unreported.front().left - m_lastLeft) * 1e-9;
        m_lastLeft = *m_unreported.front().left;
        ++m_stepsDone;
        if (m_options.onStep)
            m_options.onStep(metrics);
        m_reported = metrics;
        m_unreported.pop_front();
        ++m_step;
    }
}

Result<run::Validation> RankExecutor::evaluate()
{
    if (const Status mean = m_averaging.useMean(m_collectives); !mean)
        return mean.error();
    Result<run::Validation> seen = Evaluator(m_parts, m_transfers, m_collectives, m_rows).run();
    m_averaging.putBack();
    return seen;
}

/// Starts whatever may start. Operators are given to the device one by one, in between of which communication goes on;
/// a processor runs them in place, so that a compute task starts behind all that may run beside it.
void RankExecutor::startReady()
{
    std::optional<Unit> computes;
    while (m_status) {
        if (m_parts.program.spansSteps())
            leaveSteps();
        const auto unit = m_dispatcher->next(static_cast<double>(now()));
        if (unit && task(*unit).lane == program::Lane::Compute)
            computes = unit;
        else if (unit)
            start(*unit);
        else if (computes)
            start(*std::exchange(computes, std::nullopt));
        else
            return;
    }
}

void RankExecutor::start(Unit unit)
{
    Progress &progress = progressOf(unit);
    progress.started = now();
    const program::Task &started = task(unit);
    const MarkScope marked(m_parts.marks, markOf(unit));
    if (started.lane == program::Lane::Compute) {
        if (Status status = compute(started, stepOf(unit)); !status && m_status)
            m_status = std::move(status);
        m_parts.queue(started.lane).record(*progress.ended);
        if (m_status && finished(unit))
            finish(unit);
        else
            m_running.push_back(unit);
        return;
    }
    progress.communicates = true;
    m_running.push_back(unit);
    m_status = startCommunication(started, unit);
}

Status RankExecutor::compute(const program::Task &task, std::int64_t step)
{
    if (const auto *snapshot = task.as<program::Snapshot>()) {
        m_averaging.takeSnapshot(*snapshot);
        return {};
    }
    if (const auto *merge = task.as<program::Merge>()) {
        m_averaging.merge(*merge, step);
        return {};
    }
    if (const auto *rows = task.as<program::RowWork>()) {
        m_rows.work(*rows, {step - m_options.updatesFrom, learningRate(step)});
        return {};
    }
    StageReplica &stage = m_parts.stage(task.body);
    if (const auto *update = task.as<program::Update>()) {
        if (update->bucket.valid()) {
            updateSummed(stage, update->bucket);
            return {};
        }
        const double own = step < update->sumsBefore ? 1 : m_parts.ownScale(task.body);
        stage.updater.update(
            {step - m_options.updatesFrom, learningRate(step), m_agreements.gradientScale(), own, update->phase, {}});
        return {};
    }
    const auto *run = task.as<program::Compute>();
    const std::span calls(m_parts.program.pooledCalls);
    const Part part{run->firstOp, run->lastOp, run->opens, run->closes,
                    run->isPooled() ? calls.subspan(static_cast<std::size_t>(run->firstCall),
                                                    static_cast<std::size_t>(run->lastCall - run->firstCall))
                                    : std::span<const program::PooledCall>()};
    switch (run->pass) {
    case program::Pass::Forward: return stage.runner->forward(task.microBatch, step, part, *this);
    case program::Pass::Recompute: stage.runner->recompute(task.microBatch, part, *this); break;
    case program::Pass::Backward: stage.runner->backward(task.microBatch, part, *this); break;
    case program::Pass::WeightGradient: stage.runner->weightGradient(task.microBatch, part, *this); break;
    }
    return {};
}

namespace {

/// The exchange of @p task with parameter servers; nullptr: it is another one.
const program::Exchange *served(const program::Task &task)
{
    const auto *exchange = task.as<program::Exchange>();
    return exchange != nullptr && exchange->policy == plan::ExchangePolicy::ParameterServer ? exchange : nullptr;
}

} // namespace

Status RankExecutor::fetchStates() { return m_options.served != nullptr ? m_options.served->fetchStates() : Status(); }

Status RankExecutor::startCommunication(const program::Task &task, Unit unit)
{
    if (const auto *swap = task.as<program::Swap>()) {
        m_swaps.start(task, *swap);
        return {};
    }
    const auto *agreement = task.as<program::Agreement>();
    if (const auto *exchange = served(task))
        return m_options.served->push(exchange->bucket, stepOf(unit));
    if (agreement == nullptr && !task.team().valid())
        return m_transfers.start(indexOf(unit));
    const auto *rows = task.as<program::RowExchange>();
    const Result<comm::Request> request = rows != nullptr ? m_rows.start(*rows, m_collectives)
        : agreement != nullptr                            ? m_agreements.start(agreement->subject, stepOf(unit))
                                                          : m_collectives.start(task);
    if (!request)
        return request.error();
    progressOf(unit).request = *request;
    return {};
}

double RankExecutor::learningRate(std::int64_t step) const
{
    const plan::Optimizer &how = m_options.optimizer;
    return how.learningRate
        * plan::learningRateFactor(how.schedule, step - m_options.updatesFrom, m_options.steps - m_options.updatesFrom);
}

/// Makes progress on communication, and starts tasks whose dependencies ended; true if a task ended.
bool RankExecutor::poll()
{
    bool moved = false;
    for (std::size_t r = 0; r < m_running.size() && m_status;) {
        const Unit unit = m_running[r];
        if (!finished(unit)) {
            ++r;
            continue;
        }
        m_running[r] = m_running.back();
        m_running.pop_back();
        finish(unit);
        moved = true;
    }
    if (moved)
        startReady();
    return moved;
}

/// Communication first, then the remaining work on the device.
bool RankExecutor::finished(Unit unit)
{
    Progress &progress = progressOf(unit);
    if (progress.communicates && !communicated(unit))
        return false;
    const Result<bool> ended = progress.ended->poll();
    if (!ended && m_status)
        m_status = ended.error();
    return ended && *ended;
}

/// True once all that the task sends and receives is done; then enqueues the remaining work.
bool RankExecutor::communicated(Unit unit)
{
    const program::Task &running = task(unit);
    const bool collective = running.team().valid() || running.as<program::Agreement>() != nullptr;
    const auto *swap = running.as<program::Swap>();
    const auto *exchange = served(running);
    const Result<bool> done = exchange != nullptr ? m_options.served->pulled(exchange->bucket)
        : collective                              ? m_collectives.test(running, progressOf(unit).request)
        : swap != nullptr                         ? m_swaps.test(swap->out)
                                                  : m_transfers.test(indexOf(unit));
    if (!done && m_status)
        m_status = done.error();
    if (!done || !*done)
        return false;
    const MarkScope marked(m_parts.marks, markOf(unit));
    Progress &progress = progressOf(unit);
    progress.communicates = false;
    if (const auto *agreement = running.as<program::Agreement>())
        m_agreements.ended(agreement->subject);
    else if (const auto *rows = running.as<program::RowExchange>())
        m_rows.ended(*rows);
    else if (collective)
        m_collectives.ended(running);
    if (const auto *summed = running.as<program::Exchange>())
        for (StageReplica &stage : m_parts.stages)
            stage.updater.summed(summed->bucket, stepOf(unit));
    m_parts.queue(collective || exchange != nullptr ? program::Lane::Compute : running.lane).record(*progress.ended);
    return true;
}

void RankExecutor::finish(Unit unit)
{
    m_lastProgress = now();
    const program::Task &ended = task(unit);
    trace::Record record;
    record.start = progressOf(unit).started;
    record.duration = m_lastProgress - record.start;
    record.task = taskOf(unit).value;
    record.step = static_cast<std::int32_t>(stepOf(unit));
    record.rank = m_parts.rank.value;
    record.lane = static_cast<std::int32_t>(ended.lane);
    m_sink.write(record);
    m_dispatcher->ended(unit, static_cast<double>(m_lastProgress));
    const auto *agreement = ended.as<program::Agreement>();
    if (m_parts.program.spansSteps() && agreement != nullptr && agreement->subject == program::Agreement::Subject::Step)
        stepsAgreed();
}

void RankExecutor::betweenOperators()
{
    if (!m_running.empty())
        poll();
}

Status RankExecutor::waitWhileIdle()
{
    const std::int64_t idle = now() - m_lastProgress;
    if (idle > m_options.deadline.count())
        return failed(whatWaits());
    if (m_options.served != nullptr)
        m_options.served->rest();
    else if (m_options.link != nullptr) // the server needs a core, and answers at its own time
        restWhileIdle(idle);
    else
        sched_yield();
    return {};
}

std::string RankExecutor::whatWaits() const
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(m_options.deadline).count();
    std::string tasks;
    for (const Unit unit : m_running)
        tasks += (tasks.empty() ? "" : ", ") + program::idOf(task(unit));
    const std::string calls = m_parts.comm.underWay();
    return "rank " + std::to_string(m_parts.rank.value) + " saw no communication end for " + std::to_string(seconds)
        + " s in step " + std::to_string(m_step) + (tasks.empty() ? "" : "; waiting: " + tasks)
        + (calls.empty() ? "" : " (" + calls + ")")
        + "; look at the other ranks' messages and at the network between the machines";
}

} // namespace planloom::runtime
