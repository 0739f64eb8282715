// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/agent/child.h"
#include "executor/agent/launch.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace planloom::agent {

/// The way to a worker. Thread-safe; calls after the worker has gone do nothing. Must not call the run back.
class WorkerConnection {
public:
    virtual ~WorkerConnection() = default;
    /// Stop after the step at hand.
    virtual void stop() = 0;
    /// The metrics of the steps before @p steps are in the run's folder.
    virtual void metricsKept(std::int64_t steps) = 0;
    /// Record every kernel of the worker's GPU for so long from now on.
    virtual void lookCloser(double seconds) = 0;
};

/// Bytes, as runtime::MemoryUse and WorkerChannel::sent() have them.
struct WorkerBytes {
    std::int64_t peak = 0; ///< of the arena
    std::int64_t beyondArena = 0;
    std::int64_t shared = 0;
    std::int64_t sent = 0;
};

/// One generation of worker processes, a process a rank: started, watched, ended. It fails with the first error that it
/// is told of or finds; then, or when a process is lost, it has a second before it is ended by force. Destroying it
/// kills the remaining processes.
///
/// Reports come from any thread; one thread, the supervisor's, calls launch(), poll() and the functions after them, and
/// alone touches the launcher. m_mutex guards the workers, the failure and the deadline.
class WorkerGroup {
public:
    using Clock = std::chrono::steady_clock;

    /// @p number: 0, 1, ... within the run; @p devices: a name a rank; @p nodes: a machine of the plan a rank. token()
    /// is empty if the system has no random numbers.
    WorkerGroup(int number, std::vector<std::string> devices, std::vector<std::int32_t> nodes);
    /// Before launch(): ranks start over ssh, each at its place.
    void placeOnHosts(std::string meetingFolder, std::vector<RankPlace> places);
    WorkerGroup(const WorkerGroup &) = delete;
    WorkerGroup &operator=(const WorkerGroup &) = delete;
    ~WorkerGroup();

    [[nodiscard]] int number() const { return m_number; }
    /// Only workers that have it may report.
    [[nodiscard]] const std::string &token() const { return m_token; }

    // Reports, from any thread. Ranks are those of workers that attached.
    /// @p process: 0 for one on another machine. Errors: BadInput (no such rank, it attached before).
    Status attach(int rank, std::int64_t process, std::shared_ptr<WorkerConnection> connection);
    /// Rank @p rank has done something; @p dropped: records that it lost so far.
    void progressed(int rank, std::optional<std::int64_t> dropped = std::nullopt);
    /// @p training: tasks are due, so that @p progress, a count of them, should grow.
    void heartbeat(int rank, std::int64_t progress, bool training);
    /// The worker's last message; an @p error without text is none.
    void finished(int rank, const WorkerBytes &memory, bool stoppedEarly, Error error);
    /// The connection is gone.
    void detach(int rank);

    // Any thread.
    void stop();                            ///< asks every worker to stop after the step at hand
    void lookCloser(double seconds);        ///< asks every worker to record every kernel for so long
    void endBy(Clock::time_point deadline); ///< by force, unless an earlier time is set
    void fail(Error error);
    void acknowledge(std::int64_t steps); ///< to rank 0, unless the group failed: metrics may then have been lost
    [[nodiscard]] bool complete() const;  ///< every worker has attached
    [[nodiscard]] std::optional<Error> failure() const;
    [[nodiscard]] bool stoppedEarly() const;
    [[nodiscard]] std::int64_t dropped() const; ///< records, by all workers
    [[nodiscard]] std::vector<WorkerBytes> memory() const;

    // The supervisor's thread.
    /// Starts the processes. Errors: NotFound, Io.
    Status launch(const std::string &runFolder, const std::string &socketPath);
    /// Waits up to 20 ms for output of the workers, and returns it.
    std::string poll();
    [[nodiscard]] bool hasExited() const { return m_exit.has_value(); } ///< the launcher
    /// Looks for workers that died, are silent for longer than @p limit, or report that no task ends for longer.
    void check(Clock::duration limit);
    /// Once the deadline has passed: SIGTERM to all, and SIGKILL three seconds later.
    void enforceDeadline();
    /// After the launcher's end: waits up to 2 s for the workers' last messages, kills the remaining processes. Returns
    /// output.
    std::string reap();
    /// The launcher succeeded and every worker sent its last message.
    [[nodiscard]] bool endedCleanly() const;
    [[nodiscard]] bool endedByForce() const { return m_signals > 0; }
    /// Why a group that did not end cleanly ended: which rank was lost, and the last lines of output.
    [[nodiscard]] Error unexpectedEnd(std::int64_t stepsDone, const std::string &logPath) const;
    /// Frees the memory shared by the launcher and its ranks.
    void freeScratch()
    {
        m_meeting.reset();
        m_scratch.reset();
    }

private:
    struct Worker {
        bool attached = false;
        bool detached = false;
        bool finished = false;
        int process = -1; ///< pidfd
        WorkerBytes memory;
        std::int64_t dropped = 0; ///< records
        Clock::time_point heard;
        Clock::time_point progressed; ///< while it trains
        std::int64_t progress = 0;
        bool training = false;
        std::shared_ptr<WorkerConnection> connection; ///< while it is attached

        [[nodiscard]] bool isWatched() const { return attached && !finished && !detached; }
    };
    std::string readOutput(int milliseconds);
    [[nodiscard]] std::vector<std::shared_ptr<WorkerConnection>> connections() const;
    [[nodiscard]] std::string nameOf(std::size_t rank) const;
    // With m_mutex held.
    void lose(std::size_t rank);
    void failLocked(Error error);
    void endByLocked(Clock::time_point deadline);
    void signalWorkers(int signal) const;

    const int m_number;
    const std::vector<std::string> m_devices;
    const std::vector<std::int32_t> m_nodes;
    const std::string m_token;
    std::string m_meetingFolder;     ///< empty: all ranks start on this machine
    std::vector<RankPlace> m_places; ///< by rank, where it is not

    // The supervisor's own.
    std::optional<Scratch> m_scratch;
    std::optional<MeetingEnd> m_meeting;
    std::optional<Child> m_child;
    std::optional<Exit> m_exit;
    std::string m_outputTail; ///< the last that the workers wrote
    int m_signals = 0;        ///< sent so far: SIGTERM, then SIGKILL

    mutable std::mutex m_mutex;
    std::vector<Worker> m_workers;
    std::optional<Error> m_failure;              ///< the first one
    std::optional<std::size_t> m_firstLost;      ///< the rank that was lost first
    std::optional<Clock::time_point> m_deadline; ///< then by force
    bool m_stoppedEarly = false;
};

/// As many random bytes, in hexadecimal; empty if the system has none.
std::string randomHex(std::size_t bytes);

} // namespace planloom::agent
