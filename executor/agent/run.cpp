// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run.h"


#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

/// As measured over gRPC: batches of 256 records reach 14 M records/s, smaller ones much less (one: 0.3 M/s).
constexpr std::size_t kBatch = 256;
constexpr auto kBatchWait = 50ms;
/// 32 MB: what a client may lag behind before it loses records. Only its own: the file gets them all.
constexpr std::size_t kClientBacklog = 1 << 20;
constexpr std::size_t kFileBacklog = 1 << 22;
constexpr auto kShortGrace = 1s; ///< for the other workers after one failed: to say what they know of it
constexpr auto kStopGrace = 10s; ///< for a step to end after a stop; at least three steps

Status checkRequest(const TrainRequest &request)
{
    if (request.steps < 1)
        return badInput(fmt::format("{} steps cannot be trained; ask for at least 1", request.steps));
    if (!(request.holdout >= 0 && request.holdout < 1))
        return badInput(fmt::format("a share of {} of the samples cannot be held out; give one from 0 to below 1", request.holdout));
    if (request.threads < 0 || request.threads > 1024 || !(request.timeoutSeconds >= 0))
        return badInput("threads and time limit must not be negative");
    if (request.checkpointEvery < 0 || request.keep < 0 || request.restarts < 0 || request.validateEvery < 0 || request.earlyStop < 0 || request.traceEvery < 0 || !(request.hungSeconds >= 0))
        return badInput("steps between checkpoints and validations, and numbers of checkpoints, restarts and validations must not be negative");
    if (request.resume && request.runDir.empty())
        return badInput("a run can only be resumed in its folder; name it");
    if ((request.validateEvery > 0 || request.earlyStop > 0) && request.holdout == 0)
        return badInput("there is nothing to validate with; hold out a share of the samples, such as 0.1");
    if (request.earlyStop > 0 && request.validateEvery == 0)
        return badInput("an early stop needs validations on the way; say after how many steps");
    if (request.dataPath.empty())
        return badInput("no data was named; give a text, token, .npy, CSV or IDX file, or a folder of .npy files");
    if (!std::filesystem::path(request.dataPath).is_absolute())
        return badInput(fmt::format("the data path '{}' is not absolute", request.dataPath));
    if (::access(request.dataPath.c_str(), R_OK) != 0) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        return Error{missing ? ErrorCode::NotFound : ErrorCode::Io, fmt::format("the data cannot be read: {}; check the path and its permissions", std::strerror(errno)), request.dataPath, 0};
    }
    return {};
}

bool sound(const trace::Record &record, std::size_t tasks)
{
    constexpr std::int64_t kFarthest = std::int64_t{1} << 60;
    return record.task >= -1 && record.task < static_cast<std::int64_t>(tasks) && record.lane >= 0 && record.duration >= 0 && record.duration < kFarthest
        && record.start > -kFarthest && record.start < kFarthest;
}

} // namespace

std::string randomHex(std::size_t bytes)
{
    std::string raw(bytes, '\0');
    if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size()))
        return {};
    std::string text;
    for (const char c : raw)
        text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return text;
}

Result<std::shared_ptr<Run>> Run::make(const TrainRequest &request, const std::string &root, const std::string &socketPath)
{
    if (const Status good = checkRequest(request); !good)
        return good.error();
    auto prediction = predict(request.planJson);
    if (!prediction)
        return prediction.error();
    auto folder = request.resume           ? RunFolder::reopen(request.runDir)
                  : request.runDir.empty() ? RunFolder::createBeneath(root, prediction->modelName)
                                           : RunFolder::create(request.runDir);
    if (!folder)
        return folder.error();
    if (const Status begun = folder->begin(request); !begun)
        return begun.error();
    std::shared_ptr<Run> run(new Run(request, std::move(*prediction), std::move(*folder), socketPath));
    if (run->m_id.empty() || run->m_token.empty())
        return failed("the system has no random numbers to give");
    return run;
}

void Run::start()
{
    m_supervisor = std::jthread([this] { supervise(); });
}

Run::Run(TrainRequest request, Prediction prediction, RunFolder folder, std::string socketPath)
    : m_request(std::move(request)), m_prediction(std::move(prediction)), m_socketPath(std::move(socketPath)), m_id(randomHex(8)), m_folder(std::move(folder)),
      m_token(randomHex(16)), m_workers(m_prediction.ranks.size())
{
}

std::string Run::token() const
{
    const std::lock_guard lock(m_mutex);
    return m_token;
}

Run::~Run()
{
    kill();
    m_supervisor = {}; // joins
    for (const Worker &worker : m_workers) {
        if (worker.process >= 0)
            ::close(worker.process);
    }
}

RunNews Run::next()
{
    std::unique_lock lock(m_mutex);
    m_news.wait_for(lock, kBatchWait, [&] { return !m_events.empty() || m_toClient.size() >= kBatch || m_outcome; });
    RunNews news;
    news.events.assign(m_events.begin(), m_events.end());
    m_events.clear();
    news.records.swap(m_toClient);
    news.dropped = m_clientDropped + m_droppedBefore;
    for (const Worker &worker : m_workers)
        news.dropped += worker.dropped;
    news.last = m_outcome.has_value();
    return news;
}

void Run::requestStop()
{
    std::vector<std::shared_ptr<WorkerLine>> lines;
    {
        const std::lock_guard lock(m_mutex);
        if (m_stopAsked)
            return;
        m_stopAsked = true;
        const std::chrono::duration<double> threeSteps(m_steps.empty() ? 0 : 3 * m_steps.back().seconds);
        const Clock::duration grace = m_state == RunState::Running ? kStopGrace : kShortGrace;
        endBy(Clock::now() + std::max(grace, std::chrono::duration_cast<Clock::duration>(threeSteps)));
        for (const Worker &worker : m_workers) {
            if (worker.line)
                lines.push_back(worker.line);
        }
    }
    for (const auto &line : lines)
        line->stop();
}

void Run::kill()
{
    const std::lock_guard lock(m_mutex);
    m_stopAsked = true;
    endBy(Clock::now());
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

Result<Seat> Run::attach(const std::string &token, int rank, std::int64_t pid, std::shared_ptr<WorkerLine> line)
{
    bool stopNow = false;
    Seat seat{0, rank};
    {
        const std::lock_guard lock(m_mutex);
        if (token != m_token)
            return badInput("a worker of a gang that is over wants to report");
        if (rank < 0 || rank >= static_cast<int>(m_workers.size()))
            return badInput(fmt::format("a worker says that it is rank {}, but the run has {} ranks", rank, m_workers.size()));
        Worker &worker = m_workers[static_cast<std::size_t>(rank)];
        if (worker.attached)
            return badInput(fmt::format("two workers say that they are rank {}", rank));
        seat.gang = m_gang;
        worker.attached = true;
        worker.heard = Clock::now();
        worker.process = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
        worker.line = line;
        stopNow = m_stopAsked;
        if (std::ranges::all_of(m_workers, &Worker::attached)) {
            m_traceBegin = m_traceBegin.value_or(Clock::now());
            m_traceShift = std::chrono::nanoseconds(Clock::now() - *m_traceBegin).count();
            m_state = RunState::Running;
            publish(StateChange{m_state, {}});
        }
    }
    if (stopNow)
        line->stop();
    return seat;
}

Run::Worker *Run::seated(Seat seat) { return seat.gang == m_gang ? &m_workers[static_cast<std::size_t>(seat.rank)] : nullptr; }

void Run::onMetrics(Seat seat, StepMetrics step)
{
    const std::lock_guard lock(m_mutex);
    Worker *worker = seated(seat);
    if (!worker)
        return;
    worker->progressed = worker->heard = Clock::now();
    step.samplesPerSecond = step.seconds > 0 ? static_cast<double>(m_prediction.globalBatch) / step.seconds : 0;
    m_steps.push_back(step);
    m_anyStep = true;
    m_toWrite.emplace_back(step);
    publish(step);
}

void Run::onValidation(Seat seat, const Validation &validation)
{
    const std::lock_guard lock(m_mutex);
    if (!seated(seat))
        return;
    m_toWrite.emplace_back(validation);
    publish(validation);
}

void Run::onKeepMetrics(Seat seat, std::int64_t steps)
{
    const std::lock_guard lock(m_mutex);
    if (seated(seat))
        m_toKeep = steps;
}

void Run::onRecords(Seat seat, std::span<const trace::Record> records, std::int64_t dropped)
{
    const std::lock_guard lock(m_mutex);
    Worker *worker = seated(seat);
    if (!worker)
        return;
    worker->dropped = dropped;
    worker->heard = worker->progressed = Clock::now();
    for (trace::Record record : records) {
        record.rank = static_cast<std::int16_t>(seat.rank);
        record.reserved = 0;
        const bool good = sound(record, m_prediction.tasks.size());
        record.start += m_traceShift;
        const bool kept = good && m_toFile.size() < kFileBacklog;
        if (kept)
            m_toFile.push_back(record);
        else
            ++m_fileDropped;
        if (good && m_toClient.size() < kClientBacklog)
            m_toClient.push_back(record);
        else
            ++m_clientDropped;
    }
    if (m_toClient.size() >= kBatch)
        m_news.notify_all();
}

void Run::onEvaluation(Seat seat, double loss, double accuracy, std::int64_t samples)
{
    const std::lock_guard lock(m_mutex);
    if (!seated(seat))
        return;
    m_evaluation.emplace();
    m_evaluation->evaluationLoss = loss;
    m_evaluation->evaluationAccuracy = accuracy;
    m_evaluation->evaluationSamples = samples;
}

void Run::onFinished(Seat seat, const WorkerMemory &memory, bool stoppedEarly, Error error)
{
    const std::lock_guard lock(m_mutex);
    Worker *worker = seated(seat);
    if (!worker)
        return;
    worker->finished = true;
    worker->memory = memory;
    m_stoppedEarly = m_stoppedEarly || stoppedEarly;
    if (error.message.empty())
        return;
    if (m_workers.size() > 1)
        error.message = fmt::format("rank {} ({}): {}", seat.rank, m_prediction.ranks[static_cast<std::size_t>(seat.rank)].device, error.message);
    fail(std::move(error));
}

void Run::onHeartbeat(Seat seat, std::int64_t progress, bool training)
{
    const std::lock_guard lock(m_mutex);
    Worker *worker = seated(seat);
    if (!worker)
        return;
    worker->heard = Clock::now();
    if (progress != worker->progress || training != worker->training)
        worker->progressed = worker->heard;
    worker->progress = progress;
    worker->training = training;
}

void Run::detach(Seat seat)
{
    const std::lock_guard lock(m_mutex);
    Worker *worker = seated(seat);
    if (!worker)
        return;
    worker->detached = true;
    worker->line = nullptr;
    if (!worker->finished)
        lose(*worker);
}

/// @p worker is gone without a last word.
void Run::lose(Worker &worker)
{
    if (!m_firstLost)
        m_firstLost = static_cast<int>(&worker - m_workers.data());
    endBy(Clock::now() + kShortGrace);
}

void Run::publish(RunEvent event)
{
    m_events.push_back(std::move(event));
    m_news.notify_all();
}

void Run::fail(Error error)
{
    if (!m_failure)
        m_failure = std::move(error);
    endBy(Clock::now() + kShortGrace);
}

void Run::endBy(Clock::time_point deadline) { m_deadline = m_deadline ? std::min(*m_deadline, deadline) : deadline; }

} // namespace planloom::agent
