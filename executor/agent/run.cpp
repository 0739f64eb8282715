// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run.h"

#include "executor/agent/launch.h"
#include "executor/agent/resumption.h"
#include "executor/runtime/rank_gpu.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartingGrace = 1s; ///< for a stop while workers start
constexpr auto kStopGrace = 10s;    ///< for a step to end after a stop; at least three steps
constexpr auto kHungAfter = 30s;
constexpr double kHungSteps = 5; ///< times the longest step of a usual round
/// Until every worker has reported; at least this long, as the limit for hung workers is for training ones.
constexpr auto kStartLimit = 10s;

/// Settings and data that can be trained with.
Status checkRequest(const TrainRequest &request)
{
    const run::Settings &settings = request.settings;
    if (const Status good = run::check(settings); !good)
        return good;
    if (request.resume && request.runDir.empty())
        return badInput("a run can only be resumed in its folder; name it");
    if (!std::filesystem::path(settings.data).is_absolute())
        return badInput(fmt::format("the data path '{}' is not absolute", settings.data));
    if (::access(settings.data.c_str(), R_OK) != 0) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return Error{missing ? ErrorCode::NotFound : ErrorCode::Io,
                     fmt::format("the data cannot be read: {}; check the path and its permissions", systemReason()),
                     settings.data, 0};
    }
    return {};
}

bool hasTooManyRows(const trace::Tables &tables) { return tables.tasks.size() > program::KernelRows::kMost; }

/// @p kernels: asked for. Where GPUs are used their tables have rows for them in any case, if there are not too many.
Result<simulate::Prediction> predict(const plan::Document &document, bool kernels)
{
    auto prediction = simulate::predict(document, kernels || runtime::mayUseGpus(*document.subject.cluster));
    if (prediction && !kernels && hasTooManyRows(prediction->tables))
        prediction = simulate::predict(document, false);
    if (prediction && prediction->tables.ranks.size() > kMostRanks)
        return unsupported(
            fmt::format("the plan needs {} workers, more than the {} that an agent starts on one machine",
                        prediction->tables.ranks.size(), kMostRanks));
    if (prediction && kernels && hasTooManyRows(prediction->tables))
        return unsupported(
            fmt::format("the plan has {} tasks and operators to record kernels of, more than the {} that fit "
                        "a message; train without them, or with fewer micro-batches",
                        prediction->tables.tasks.size(), program::KernelRows::kMost));
    return prediction;
}

/// Where each rank is to be; none: all start on this machine.
Result<std::vector<RankPlace>> placesOn(const TrainRequest &request, const plan::Document &document,
                                        std::span<const std::int32_t> nodes)
{
    if (request.meeting.folder.empty())
        return std::vector<RankPlace>{};
    if (!isMeetingFolder(request.meeting.folder))
        return badInput(fmt::format("'{}' is no folder for a run over several hosts", request.meeting.folder));
    if (const Status good = checkOnHosts(document.plan, request.settings); !good)
        return good.error();
    return placesOf(nodes, *document.subject.cluster, request.meeting.cores);
}

bool isSound(const trace::Record &record, const trace::Tables &tables)
{
    constexpr std::int64_t kFarthest = std::int64_t{1} << 60;
    return record.task >= -1 && record.task < static_cast<std::int64_t>(tables.tasks.size()) && record.lane >= 0
        && record.lane < static_cast<std::int64_t>(tables.lanes.size()) && record.duration >= 0
        && record.duration < kFarthest && record.start > -kFarthest && record.start < kFarthest;
}

WorkerGroup::Clock::duration ticks(double seconds)
{
    return std::chrono::duration_cast<WorkerGroup::Clock::duration>(std::chrono::duration<double>(seconds));
}

double secondsOf(WorkerGroup::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

} // namespace

Result<std::shared_ptr<Run>> Run::make(const TrainRequest &request, const std::string &root,
                                       const std::string &socketPath)
{
    if (const Status good = checkRequest(request); !good)
        return good.error();
    const auto document = plan::documentFromJson(request.planJson);
    if (!document)
        return document.error();
    auto prediction = predict(*document, request.settings.kernelSeconds > 0);
    if (!prediction)
        return prediction.error();
    auto places = placesOn(request, *document, prediction->nodes);
    if (!places)
        return places.error();
    auto folder = request.resume ? RunFolder::reopen(request.runDir)
        : request.runDir.empty() ? RunFolder::createBeneath(root, prediction->modelName)
                                 : RunFolder::create(request.runDir);
    if (!folder)
        return folder.error();
    if (const Status begun = folder->begin(request); !begun)
        return begun.error();
    std::shared_ptr<Run> run(
        new Run(request, std::move(*prediction), *std::move(places), std::move(*folder), socketPath));
    run->m_ranksOnProcessors = runtime::ranksOnProcessors(*document->subject.cluster, run->m_prediction.tables.ranks);
    if (run->m_id.empty() || run->m_group->token().empty())
        return failed("the system has no random numbers to give");
    return run;
}

Run::Run(TrainRequest request, simulate::Prediction prediction, std::vector<RankPlace> places, RunFolder folder,
         std::string socketPath)
    : m_request(std::move(request)),
      m_places(std::move(places)),
      m_prediction(std::move(prediction)),
      m_socketPath(std::move(socketPath)),
      m_id(randomHex(8)),
      m_folder(std::move(folder)),
      m_recorder(m_folder),
      m_group(makeGroup(0))
{
}

Run::~Run()
{
    kill();
    m_supervisor = {}; // joins
}

std::shared_ptr<WorkerGroup> Run::makeGroup(int number) const
{
    std::vector<std::string> devices;
    for (const trace::RankInfo &rank : m_prediction.tables.ranks)
        devices.push_back(rank.device);
    auto group = std::make_shared<WorkerGroup>(number, std::move(devices), m_prediction.nodes);
    if (!m_places.empty())
        group->placeOnHosts(m_request.meeting.folder, m_places);
    return group;
}

void Run::start()
{
    m_supervisor = std::jthread([this] { supervise(); });
}

// --- The client's side ----------------------------------------------------------------------------------------------

std::string Run::token() const
{
    const std::lock_guard lock(m_mutex);
    return m_group->token();
}

void Run::requestStop()
{
    std::shared_ptr<WorkerGroup> group;
    {
        const std::lock_guard lock(m_mutex);
        if (m_stopAsked)
            return;
        m_stopAsked = true;
        group = m_group;
        const Clock::duration threeSteps = ticks(3 * m_recorder.longestSeconds());
        const Clock::duration grace = m_state == RunState::Running ? kStopGrace : kStartingGrace;
        group->endBy(Clock::now() + std::max(grace, threeSteps));
    }
    group->stop();
}

void Run::kill()
{
    const std::lock_guard lock(m_mutex);
    m_stopAsked = true;
    m_group->endBy(Clock::now());
}

Status Run::lookCloser(double seconds)
{
    if (!(seconds > 0 && seconds <= run::Settings::kMostKernelSeconds))
        return badInput(fmt::format("kernels cannot be recorded for {} s; give a time up to {}", seconds,
                                    run::Settings::kMostKernelSeconds));
    const auto &lanes = m_prediction.tables.lanes;
    if (std::ranges::none_of(lanes, [](const trace::LaneInfo &lane) { return lane.work == trace::Work::Device; }))
        return unsupported("the run's trace has no rows for kernels: its plan is for processors, this machine has no "
                           "driver of GPUs, or the plan has too many tasks");
    std::shared_ptr<WorkerGroup> group;
    {
        const std::lock_guard lock(m_mutex);
        if (m_state != RunState::Running || m_outcome)
            return failed("the run does not train at the moment; ask again once it does");
        group = m_group;
    }
    group->lookCloser(seconds);
    return {};
}

bool Run::stopAsked() const
{
    const std::lock_guard lock(m_mutex);
    return m_stopAsked;
}

bool Run::over() const
{
    const std::lock_guard lock(m_mutex);
    return m_outcome.has_value();
}

Status Run::outcome() const
{
    const std::lock_guard lock(m_mutex);
    return m_outcome ? *m_outcome : Status(failed("the run is not over"));
}

// --- The workers' side ----------------------------------------------------------------------------------------------

Result<WorkerId> Run::attach(const std::string &token, int rank, std::int64_t process,
                             std::shared_ptr<WorkerConnection> connection)
{
    std::unique_lock lock(m_mutex);
    if (token != m_group->token())
        return badInput("a worker of an earlier group wants to report");
    if (const Status attached = m_group->attach(rank, process, connection); !attached)
        return attached.error();
    if (m_group->complete()) {
        m_traceBegin = m_traceBegin.value_or(Clock::now());
        m_traceShift = std::chrono::nanoseconds(Clock::now() - *m_traceBegin).count();
        m_state = RunState::Running;
        m_events.publish(StateChange{m_state, {}});
    }
    const WorkerId worker{m_group->number(), rank};
    const bool stopNow = m_stopAsked;
    lock.unlock();
    if (stopNow)
        connection->stop();
    return worker;
}

void Run::onMetrics(WorkerId worker, run::StepMetrics step)
{
    const std::lock_guard lock(m_mutex);
    if (!isCurrent(worker))
        return;
    m_group->progressed(worker.rank);
    step.samplesPerSecond = step.seconds > 0 ? m_prediction.samplesPerIteration / step.seconds : 0;
    m_anyStep = true;
    m_recorder.add(step);
    m_events.publish(step);
}

void Run::onValidation(WorkerId worker, const run::Validation &validation)
{
    const std::lock_guard lock(m_mutex);
    if (!isCurrent(worker))
        return;
    m_recorder.add(validation);
    m_events.publish(validation);
}

void Run::onKeepMetrics(WorkerId worker, std::int64_t steps)
{
    const std::lock_guard lock(m_mutex);
    if (isCurrent(worker))
        m_recorder.askFor(steps);
}

void Run::onRecords(WorkerId worker, std::span<const trace::Record> records, std::int64_t dropped)
{
    const std::lock_guard lock(m_mutex);
    if (!isCurrent(worker))
        return;
    m_group->progressed(worker.rank, dropped);
    std::vector<trace::Record> good;
    good.reserve(records.size());
    for (trace::Record record : records) {
        if (!isSound(record, m_prediction.tables))
            continue;
        record.rank = worker.rank;
        record.start += m_traceShift;
        good.push_back(record);
    }
    m_lostBefore += static_cast<std::int64_t>(records.size() - good.size());
    const std::int64_t lost = m_lostBefore + m_group->dropped();
    m_recorder.add(good, lost);
    m_events.add(good, lost);
}

void Run::onEvaluation(WorkerId worker, const run::Validation &evaluation)
{
    const std::lock_guard lock(m_mutex);
    if (isCurrent(worker))
        m_evaluation = evaluation;
}

void Run::onFinished(WorkerId worker, const WorkerBytes &memory, bool stoppedEarly, Error error)
{
    const std::lock_guard lock(m_mutex);
    if (isCurrent(worker))
        m_group->finished(worker.rank, memory, stoppedEarly, std::move(error));
}

void Run::onHeartbeat(WorkerId worker, std::int64_t progress, bool training)
{
    const std::lock_guard lock(m_mutex);
    if (isCurrent(worker))
        m_group->heartbeat(worker.rank, progress, training);
}

void Run::detach(WorkerId worker)
{
    const std::lock_guard lock(m_mutex);
    if (isCurrent(worker))
        m_group->detach(worker.rank);
}

// --- The supervisor's thread ----------------------------------------------------------------------------------------

void Run::supervise()
{
    m_events.publish(StateChange{RunState::Starting, {}});
    Status ready = m_recorder.open(m_prediction, m_request.resume);
    if (m_ranksOnProcessors > 0)
        m_recorder.note(runtime::onProcessorsNote(m_ranksOnProcessors));
    do {
        if (ready)
            ready = launch();
        if (ready)
            watch();
        else
            m_group->fail(ready.error());
    } while (ready && restart());
    finish();
}

/// Starts the current group from where the newest checkpoint is.
Status Run::launch()
{
    const int number = m_group->number();
    const auto lease = takeLease(folder(), m_request.settings, fmt::format("{}/{}", m_id, number));
    if (!lease)
        return lease.error();
    run::Beginning from;
    const bool again = number > 0 || m_request.resume;
    if (again) {
        std::vector<std::string> skipped;
        const auto newest = newestBeginning(folder(), m_request.settings, skipped);
        for (const std::string &why : skipped)
            m_recorder.note(why);
        if (!newest)
            return newest.error();
        from = *newest;
    }
    if (const Status aside = number > 0 ? m_folder.putMeasuredAside() : Status(); !aside)
        m_recorder.note(aside.error().text());
    from.lease = *lease;
    m_from = from.step;
    if (const Status cut = m_recorder.goOnFrom(from.step); !cut)
        return cut;
    if (again) {
        const std::string text = from.checkpoint.empty()
            ? std::string("begins at the first step; there is no checkpoint yet")
            : fmt::format("goes on from step {}, {}", from.step, from.checkpoint);
        m_recorder.note(text);
        if (number == 0)
            m_events.publish(StateChange{RunState::Starting, text});
    }
    if (const Status written = m_folder.writeRequest(m_request, from); !written)
        return written;
    return m_group->launch(folder(), m_socketPath);
}

/// Until the current group's last process has ended.
void Run::watch()
{
    const auto startLimit = std::max<Clock::duration>(kStartLimit, hungAfter());
    const auto startBy = Clock::now() + startLimit;
    while (true) {
        write(m_group->poll());
        if (m_group->hasExited())
            break;
        m_group->check(hungAfter());
        if (Clock::now() > startBy && !m_group->complete())
            m_group->fail(failed(fmt::format("the workers did not start within {:.3g} s: one hangs or was suspended; "
                                             "see {}",
                                             secondsOf(startLimit), m_folder.file("log"))));
        m_group->enforceDeadline();
    }
    write(m_group->reap());
}

/// The reports, and the workers' @p output.
void Run::write(const std::string &output)
{
    m_recorder.appendLog(output);
    const auto written = m_recorder.write(m_group->hasExited());
    if (!written)
        m_group->fail(written.error());
    else if (*written > 0)
        m_group->acknowledge(*written);
}

Run::Clock::duration Run::hungAfter() const
{
    const double asked = m_request.settings.hungSeconds;
    const double least = asked > 0 ? asked : secondsOf(kHungAfter);
    return ticks(std::max(least, kHungSteps * m_recorder.longestSeconds()));
}

/// How the run ended, if the current group is the last one.
Status Run::judge() const
{
    if (const auto failure = m_group->failure())
        return *failure;
    const std::int64_t done = m_recorder.stepsDone();
    const std::int64_t steps = m_request.settings.steps;
    const bool clean = m_group->endedCleanly();
    if (clean && (done >= steps || m_group->stoppedEarly()))
        return {};
    if (m_stopAsked)
        return cancelled(fmt::format("stopped {} after {} of {} steps",
                                     m_group->endedByForce() ? "by force" : "on request", done, steps));
    if (clean)
        return failed(fmt::format("the workers ended after {} of {} steps without an error; see {}", done, steps,
                                  m_folder.file("log")));
    return m_group->unexpectedEnd(done, m_folder.file("log"));
}

/// After a group: whether there is to be another one, which is then the current one. Only a failure that another try
/// can repair is tried again.
bool Run::restart()
{
    std::shared_ptr<WorkerGroup> ended; // outlives the lock: its end takes time
    const std::lock_guard lock(m_mutex);
    const Status outcome = judge();
    const int number = m_group->number() + 1;
    if (outcome || outcome.error().code != ErrorCode::Failed || m_stopAsked || number > m_request.settings.restarts)
        return false;
    m_lostBefore += m_group->dropped();
    m_evaluation.reset();
    ended = std::exchange(m_group, makeGroup(number));
    m_state = RunState::Restarting;
    const std::string text =
        fmt::format("{}; starting again, {} of {}", outcome.error().text(), number, m_request.settings.restarts);
    m_recorder.note(text);
    m_events.publish(StateChange{m_state, text});
    return !m_group->token().empty();
}

namespace {

/// Seconds of a step and their prediction, of each kind of step that was made.
void addSeconds(const simulate::Prediction &prediction, const std::vector<run::StepMetrics> &steps,
                run::Summary &summary)
{
    const auto change = prediction.later
        ? std::ranges::find_if(steps, [&](const auto &step) { return step.step >= prediction.later->after; })
        : steps.end();
    const std::vector<run::StepMetrics> before(steps.begin(), change);
    summary.iterationSecondsMedian = run::medianSeconds(before, static_cast<std::size_t>(prediction.periodSteps));
    summary.predictedIterationSeconds = prediction.iterationSeconds;
    if (summary.iterationSecondsMedian > 0)
        summary.samplesPerSecond = prediction.samplesPerIteration / summary.iterationSecondsMedian;
    if (change == steps.end())
        return;
    summary.thenFrom = prediction.later->after;
    summary.thenSecondsMedian = run::medianSeconds({change, steps.end()});
    summary.thenSecondsPredicted = prediction.later->iterationSeconds;
}

/// What the samples per second are in tokens and FLOPs. Processors in the place of GPUs say nothing of these.
void addEfficiency(const simulate::Prediction &prediction, run::Summary &summary)
{
    plan::Efficiency efficiency = plan::efficiencyOf(prediction.work, summary.samplesPerSecond);
    summary.tokensPerSecond = efficiency.tokensPerSecond;
    if (summary.ranksOnProcessors > 0)
        return;
    summary.mfu = efficiency.mfu;
    summary.mfuPrecision = std::move(efficiency.precision);
}

/// Of workers that made the steps from @p first to before @p end.
std::vector<std::int64_t> peaksBetween(const simulate::Prediction &prediction, std::int64_t first, std::int64_t end)
{
    if (!prediction.later || end <= prediction.later->after)
        return prediction.peakBytes;
    std::vector<std::int64_t> peaks = prediction.later->peakBytes;
    for (std::size_t rank = 0; first < prediction.later->after && rank < peaks.size(); ++rank)
        peaks[rank] = std::max(peaks[rank], prediction.peakBytes[rank]);
    return peaks;
}

} // namespace

run::Summary Run::summarize() const
{
    const auto steps = m_recorder.steps();
    run::Summary summary;
    summary.steps = static_cast<std::int64_t>(steps.size());
    summary.lossFirst = steps.front().loss;
    summary.lossLast = steps.back().loss;
    addSeconds(m_prediction, steps, summary);
    summary.ranksOnProcessors = m_ranksOnProcessors;
    summary.planHash = m_prediction.plan;
    addEfficiency(m_prediction, summary);
    if (m_ranksOnProcessors > 0 || !(summary.iterationSecondsMedian > 0)) // of a resumed run, all may lie behind it
        summary.predictionError = std::numeric_limits<double>::quiet_NaN();
    else
        summary.predictionError = summary.predictedIterationSeconds / summary.iterationSecondsMedian - 1;
    summary.peakBytesPredicted = peaksBetween(m_prediction, m_from, m_recorder.stepsDone());
    const std::vector<WorkerBytes> memory = m_group->memory(); // of roles and servers, too, which have no arena
    for (std::size_t rank = 0; rank < std::min(memory.size(), summary.peakBytesPredicted.size()); ++rank) {
        summary.peakBytesMeasured.push_back(memory[rank].peak);
        summary.beyondArenaBytes.push_back(memory[rank].beyondArena);
        summary.sharedBytes.push_back(memory[rank].shared);
        summary.sentBytes.push_back(memory[rank].sent);
    }
    summary.traceDropped = m_recorder.lostRecords();
    summary.tracePath = m_folder.file("trace.pltrace");
    summary.evaluation = m_evaluation;
    summary.restarts = m_group->number();
    summary.stoppedEarly = m_group->stoppedEarly();
    return summary;
}

/// Writes the run's end into the folder: nothing, if it did no step. Where nothing was left to do, the summary that is
/// there stands: workers that did no step have other peaks. @p outcome becomes an error if it cannot be written.
std::optional<run::Summary> Run::writeEnd(Status &outcome)
{
    const bool stopped = !outcome && outcome.error().code == ErrorCode::Cancelled;
    const bool anyStep = !m_recorder.steps().empty();
    std::optional<run::Summary> summary;
    if (m_request.resume && !m_anyStep && outcome)
        summary = m_folder.summaryBefore();
    if (summary && summary->steps != static_cast<std::int64_t>(m_recorder.steps().size())) // it ended after that
        summary.reset();
    const bool inVain = summary || (m_request.resume ? !m_anyStep && !outcome : !anyStep);
    if (!summary && (outcome || stopped) && anyStep) {
        summary = summarize();
        if (const Status written = inVain ? Status() : m_recorder.writeSummary(*summary); !written)
            outcome = written.error();
    }
    if (inVain)
        m_recorder.discard(m_request.resume);
    return summary;
}

void Run::finish()
{
    if (const Status closed = m_recorder.closeTrace(); !closed)
        m_group->fail(closed.error());
    std::unique_lock lock(m_mutex);
    Status outcome = judge();
    const auto summary = writeEnd(outcome);
    lock.unlock(); // that takes long where the trace is
    if (const Status joined = m_folder.joinMeasured(); !joined)
        m_recorder.note(joined.error().text());
    lock.lock();
    m_state = outcome                                  ? RunState::Finished
        : outcome.error().code == ErrorCode::Cancelled ? RunState::Stopped
                                                       : RunState::Failed;
    m_events.publish(StateChange{m_state, outcome ? std::string() : outcome.error().text()});
    if (summary && m_state != RunState::Failed)
        m_events.publish(*summary);
    m_recorder.conclude(outcome, summary);
    m_group->freeScratch();
    m_folder.release(); // free before the end is reported
    m_outcome = outcome;
    m_events.close();
}

} // namespace planloom::agent
