// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/worker_group.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

/// Errors that every rank finds alike, in what the user gave.
bool isOfInput(ErrorCode code)
{
    return code == ErrorCode::BadInput || code == ErrorCode::NotFound || code == ErrorCode::Unsupported
        || code == ErrorCode::Infeasible;
}

using namespace std::chrono_literals;

constexpr int kPollMilliseconds = 20;
constexpr auto kTermGrace = 3s; ///< from SIGTERM to SIGKILL: mpirun takes some tens of milliseconds to end its workers
constexpr auto kFarewell = 2s;  ///< for last messages and processes once the launcher has ended
constexpr auto kBlame = 2s;     ///< more than a heartbeat
constexpr auto kFailureGrace = 1s;  ///< for the other workers after one failed: to report
constexpr std::size_t kTail = 2000; ///< bytes of the workers' output that an error quotes

void signalProcess(int process, int signal)
{
    if (process >= 0)
        ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
}

bool hasEnded(int process)
{
    pollfd wait{process, POLLIN, 0};
    return process < 0 || ::poll(&wait, 1, 0) > 0;
}

/// The rank of which Open MPI's launcher writes that it ended and so made it end the others: which of them the kernel
/// reports first means little.
std::optional<std::size_t> blamedByLauncher(const std::string &output)
{
    constexpr std::string_view kNoticed = "mpirun noticed that process rank ";
    const auto at = output.rfind(kNoticed);
    if (at == std::string::npos)
        return std::nullopt;
    return std::strtoull(output.c_str() + at + kNoticed.size(), nullptr, 10);
}

/// The last @p lines whole lines.
std::string lastLines(const std::string &text, int lines)
{
    auto end = text.find_last_not_of(" \n");
    if (end == std::string::npos)
        return {};
    auto begin = end;
    while (lines > 0 && begin != std::string::npos && begin > 0) {
        begin = text.rfind('\n', begin - 1);
        --lines;
    }
    return text.substr(begin == std::string::npos ? 0 : begin, end + 1 - (begin == std::string::npos ? 0 : begin));
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

WorkerGroup::WorkerGroup(int number, std::vector<std::string> devices, std::vector<std::int32_t> nodes)
    : m_number(number),
      m_devices(std::move(devices)),
      m_nodes(std::move(nodes)),
      m_token(randomHex(16)),
      m_workers(m_devices.size())
{
}

void WorkerGroup::placeOnHosts(std::string meetingFolder, std::vector<RankPlace> places)
{
    m_meetingFolder = std::move(meetingFolder);
    m_places = std::move(places);
}

WorkerGroup::~WorkerGroup()
{
    m_child.reset(); // kills
    for (const Worker &worker : m_workers) {
        if (worker.process >= 0)
            ::close(worker.process);
    }
}

// --- Reports --------------------------------------------------------------------------------------------------------

Status WorkerGroup::attach(int rank, std::int64_t process, std::shared_ptr<WorkerConnection> connection)
{
    const std::lock_guard lock(m_mutex);
    if (rank < 0 || rank >= static_cast<int>(m_workers.size()))
        return badInput(fmt::format("a worker reported rank {}, but the run has {} ranks", rank, m_workers.size()));
    Worker &worker = m_workers[static_cast<std::size_t>(rank)];
    if (worker.attached)
        return badInput(fmt::format("two workers reported rank {}", rank));
    worker.attached = true;
    worker.heard = Clock::now();
    if (process > 0)
        worker.process = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
    worker.connection = std::move(connection);
    return {};
}

void WorkerGroup::progressed(int rank, std::optional<std::int64_t> dropped)
{
    const std::lock_guard lock(m_mutex);
    Worker &worker = m_workers[static_cast<std::size_t>(rank)];
    worker.progressed = worker.heard = Clock::now();
    worker.dropped = dropped.value_or(worker.dropped);
}

void WorkerGroup::heartbeat(int rank, std::int64_t progress, bool training)
{
    const std::lock_guard lock(m_mutex);
    Worker &worker = m_workers[static_cast<std::size_t>(rank)];
    worker.heard = Clock::now();
    if (progress != worker.progress || training != worker.training)
        worker.progressed = worker.heard;
    worker.progress = progress;
    worker.training = training;
}

void WorkerGroup::finished(int rank, const WorkerBytes &memory, bool stoppedEarly, Error error)
{
    const std::lock_guard lock(m_mutex);
    const auto index = static_cast<std::size_t>(rank);
    m_workers[index].finished = true;
    m_workers[index].memory = memory;
    m_stoppedEarly = m_stoppedEarly || stoppedEarly;
    if (error.message.empty())
        return;
    if (m_workers.size() > 1 && !isOfInput(error.code)) // what the user gave is wrong on every rank
        error.message = fmt::format("{}: {}", nameOf(index), error.message);
    failLocked(std::move(error));
}

void WorkerGroup::detach(int rank)
{
    const std::lock_guard lock(m_mutex);
    Worker &worker = m_workers[static_cast<std::size_t>(rank)];
    worker.detached = true;
    worker.connection = nullptr;
    if (!worker.finished)
        lose(static_cast<std::size_t>(rank));
}

// --- Any thread -----------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<WorkerConnection>> WorkerGroup::connections() const
{
    std::vector<std::shared_ptr<WorkerConnection>> connections;
    const std::lock_guard lock(m_mutex);
    for (const Worker &worker : m_workers) {
        if (worker.connection)
            connections.push_back(worker.connection);
    }
    return connections;
}

void WorkerGroup::stop()
{
    for (const auto &connection : connections())
        connection->stop();
}

void WorkerGroup::lookCloser(double seconds)
{
    for (const auto &connection : connections())
        connection->lookCloser(seconds);
}

void WorkerGroup::endBy(Clock::time_point deadline)
{
    const std::lock_guard lock(m_mutex);
    endByLocked(deadline);
}

void WorkerGroup::fail(Error error)
{
    const std::lock_guard lock(m_mutex);
    failLocked(std::move(error));
}

void WorkerGroup::acknowledge(std::int64_t steps)
{
    std::shared_ptr<WorkerConnection> connection;
    {
        const std::lock_guard lock(m_mutex);
        connection = m_failure ? nullptr : m_workers.front().connection;
    }
    if (connection)
        connection->metricsKept(steps);
}

bool WorkerGroup::complete() const
{
    const std::lock_guard lock(m_mutex);
    return std::ranges::all_of(m_workers, &Worker::attached);
}

std::optional<Error> WorkerGroup::failure() const
{
    const std::lock_guard lock(m_mutex);
    return m_failure;
}

bool WorkerGroup::stoppedEarly() const
{
    const std::lock_guard lock(m_mutex);
    return m_stoppedEarly;
}

std::int64_t WorkerGroup::dropped() const
{
    const std::lock_guard lock(m_mutex);
    std::int64_t sum = 0;
    for (const Worker &worker : m_workers)
        sum += worker.dropped;
    return sum;
}

std::vector<WorkerBytes> WorkerGroup::memory() const
{
    const std::lock_guard lock(m_mutex);
    std::vector<WorkerBytes> all;
    for (const Worker &worker : m_workers)
        all.push_back(worker.memory);
    return all;
}

void WorkerGroup::lose(std::size_t rank)
{
    m_firstLost = m_firstLost.value_or(rank);
    endByLocked(Clock::now() + kFailureGrace);
}

void WorkerGroup::failLocked(Error error)
{
    if (!m_failure)
        m_failure = std::move(error);
    endByLocked(Clock::now() + kFailureGrace);
}

void WorkerGroup::endByLocked(Clock::time_point deadline)
{
    m_deadline = m_deadline ? std::min(*m_deadline, deadline) : deadline;
}

void WorkerGroup::signalWorkers(int signal) const
{
    for (const Worker &worker : m_workers)
        signalProcess(worker.process, signal);
}

std::string WorkerGroup::nameOf(std::size_t rank) const { return fmt::format("rank {} ({})", rank, m_devices[rank]); }

// --- The supervisor's thread ----------------------------------------------------------------------------------------

Status WorkerGroup::launch(const std::string &runFolder, const std::string &socketPath)
{
    const Scratch &scratch = m_scratch.emplace();
    if (!m_meetingFolder.empty()) {
        auto end = MeetingEnd::make(m_meetingFolder, runFolder, socketPath, scratch.path(), sshConfigOf(m_places));
        if (!end)
            return end.error();
        m_meeting.emplace(*std::move(end));
    }
    const auto command = m_meetingFolder.empty() ? workerCommand(m_nodes, runFolder, socketPath, m_token, scratch)
                                                 : workersCommand(m_places, runFolder, m_meetingFolder, m_token);
    if (!command)
        return command.error();
    auto child = Child::start(*command);
    if (!child)
        return child.error();
    m_child.emplace(std::move(*child));
    return {};
}

std::string WorkerGroup::readOutput(int milliseconds)
{
    std::string output = m_child->read(milliseconds);
    m_outputTail += output;
    if (m_outputTail.size() > kTail)
        m_outputTail.erase(0, m_outputTail.size() - kTail);
    return output;
}

std::string WorkerGroup::poll()
{
    std::string output = readOutput(kPollMilliseconds);
    m_exit = m_child->poll();
    return output;
}

void WorkerGroup::check(Clock::duration limit)
{
    const std::lock_guard lock(m_mutex);
    const auto now = Clock::now();
    const auto seconds = std::chrono::duration<double>(limit).count();
    for (std::size_t rank = 0; rank < m_workers.size(); ++rank) {
        const Worker &worker = m_workers[rank];
        if (worker.isWatched() && worker.process >= 0 && hasEnded(worker.process))
            lose(rank);
        else if (worker.isWatched() && now - worker.heard > limit)
            failLocked(failed(
                fmt::format("{} has been silent for {:.3g} s: it hangs or was suspended", nameOf(rank), seconds)));
    }
    // Those that wait for a silent rank get nothing done either: they are blamed last.
    for (const Worker &worker : m_workers) {
        if (worker.isWatched() && worker.training && now - worker.progressed > limit + kBlame)
            failLocked(failed(fmt::format("no task has ended for {:.3g} s: a rank hangs", seconds)));
    }
}

void WorkerGroup::enforceDeadline()
{
    const std::lock_guard lock(m_mutex);
    if (!m_deadline || Clock::now() < *m_deadline)
        return;
    const int signal = m_signals == 0 ? SIGTERM : SIGKILL;
    m_child->signalGroup(signal);
    signalWorkers(signal);
    ++m_signals;
    m_deadline = Clock::now() + kTermGrace;
}

std::string WorkerGroup::reap()
{
    std::string output;
    const auto until = Clock::now() + kFarewell;
    for (bool waiting = true; waiting;) {
        output += readOutput(kPollMilliseconds);
        const std::lock_guard lock(m_mutex);
        waiting = Clock::now() < until && std::ranges::any_of(m_workers, [](const Worker &worker) {
                      return worker.attached && (!worker.detached || !hasEnded(worker.process));
                  });
    }
    {
        const std::lock_guard lock(m_mutex);
        signalWorkers(SIGKILL);
    }
    m_child->signalGroup(SIGKILL);
    return output + readOutput(0);
}

bool WorkerGroup::endedCleanly() const
{
    const std::lock_guard lock(m_mutex);
    return m_exit && m_exit->status == 0 && m_exit->signal == 0 && std::ranges::all_of(m_workers, &Worker::finished);
}

Error WorkerGroup::unexpectedEnd(std::int64_t stepsDone, const std::string &logPath) const
{
    const std::lock_guard lock(m_mutex);
    const auto blamed = blamedByLauncher(m_outputTail);
    const std::size_t rank = blamed && *blamed < m_workers.size() ? *blamed : m_firstLost.value_or(0);
    std::string who = "the workers";
    if ((blamed || m_firstLost) && m_workers.size() > 1)
        who = nameOf(rank);
    else if (m_workers.size() == 1)
        who = "the worker";
    std::string text = fmt::format("{} ended unexpectedly after {} steps ({}); see {}", who, stepsDone,
                                   m_exit ? describe(*m_exit) : "not started", logPath);
    constexpr int kLines = 8;
    if (const std::string last = lastLines(m_outputTail, kLines); !last.empty())
        text += "; its last output: " + last;
    return failed(text);
}

} // namespace planloom::agent
