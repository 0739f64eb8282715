// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/event_queue.h"
#include "executor/agent/run_recorder.h"
#include "executor/agent/worker_group.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

namespace planloom::agent {

/// A worker that reports: its rank, and the number of its group.
struct WorkerId {
    int group = 0;
    int rank = 0;
};

/// One training run. A supervisor thread starts a worker group, watches it, records its reports and ends
/// it. Where the request allows it, a group that failed is followed by another one that begins at the newest
/// checkpoint; reports of earlier groups are dropped. Thread-safe. Destroying a run kills it.
///
/// m_mutex guards which group is the current one, and the run's state; it is held while a report is taken, so that none
/// of an earlier group comes through after a restart. Group, recorder and queue have locks of their own and never call
/// back.
class Run {
public:
    /// Checks the request and makes the run folder. Errors: BadInput and NotFound (plan, data, folder), Unsupported,
    /// Io.
    static Result<std::shared_ptr<Run>> make(const TrainRequest &request, const std::string &root,
                                             const std::string &socketPath);
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;
    ~Run();

    /// Once: from here on workers come, and look for the run that has their token.
    void start();

    [[nodiscard]] const std::string &id() const { return m_id; }
    /// Of the current group of workers.
    [[nodiscard]] std::string token() const;
    [[nodiscard]] const std::string &folder() const { return m_folder.path(); }
    [[nodiscard]] const simulate::Prediction &prediction() const { return m_prediction; }

    // The client's side.
    /// Waits for the next messages: @see EventQueue::next().
    RunNews next() { return m_events.next(); }
    /// Stop after the current step; when that takes too long, by force.
    void requestStop();
    /// Stop by force, now.
    void kill();
    /// The workers record every kernel of their GPUs for so many seconds from now on. Errors: BadInput (a length that
    /// is none), Unsupported (a run without records of GPUs), Failed (it does not train at the moment).
    Status lookCloser(double seconds);
    [[nodiscard]] bool stopAsked() const;
    [[nodiscard]] bool over() const;
    /// Once over: success, Cancelled, or why it failed.
    [[nodiscard]] Status outcome() const;

    // The workers' side.
    /// Errors: BadInput (no such rank, it attached before, or @p token is not the current group's).
    Result<WorkerId> attach(const std::string &token, int rank, std::int64_t process,
                            std::shared_ptr<WorkerConnection> connection);
    void onMetrics(WorkerId worker, run::StepMetrics step); ///< samplesPerSecond is filled in
    void onValidation(WorkerId worker, const run::Validation &validation);
    void onKeepMetrics(WorkerId worker, std::int64_t steps); ///< answered once all metrics reported so far are written
    void onRecords(WorkerId worker, std::span<const trace::Record> records, std::int64_t dropped);
    void onEvaluation(WorkerId worker, const run::Validation &evaluation);
    /// An @p error without text is none.
    void onFinished(WorkerId worker, const WorkerBytes &memory, bool stoppedEarly, Error error);
    /// @p training: tasks are due, so that @p progress, a count of them, should grow.
    void onHeartbeat(WorkerId worker, std::int64_t progress, bool training);
    /// The connection is gone.
    void detach(WorkerId worker);

private:
    using Clock = WorkerGroup::Clock;

    Run(TrainRequest request, simulate::Prediction prediction, std::vector<RankPlace> places, RunFolder folder,
        std::string socketPath);
    [[nodiscard]] std::shared_ptr<WorkerGroup> makeGroup(int number) const;

    // On the supervisor's thread.
    void supervise();
    Status launch();
    void watch();
    void write(const std::string &output);
    bool restart();
    void finish();
    [[nodiscard]] Clock::duration hungAfter() const;
    [[nodiscard]] run::Summary summarize() const;
    [[nodiscard]] std::optional<run::Summary> writeEnd(Status &outcome);

    // With m_mutex held.
    [[nodiscard]] bool isCurrent(WorkerId worker) const { return worker.group == m_group->number(); }
    [[nodiscard]] Status judge() const;

    const TrainRequest m_request;
    std::vector<RankPlace> m_places; ///< by rank, of a run over several hosts
    const simulate::Prediction m_prediction;
    std::int64_t m_ranksOnProcessors = 0; ///< run::Summary
    const std::string m_socketPath;
    const std::string m_id;
    RunFolder m_folder; ///< the supervisor's
    RunRecorder m_recorder;
    EventQueue m_events;

    mutable std::mutex m_mutex;
    std::shared_ptr<WorkerGroup> m_group; ///< changed by the supervisor only
    RunState m_state = RunState::Starting;
    bool m_stopAsked = false;
    bool m_anyStep = false;                        ///< since this run was made, by whichever group
    std::int64_t m_from = 0;                       ///< the current group's first step
    std::optional<run::Validation> m_evaluation;   ///< of the current group
    std::optional<Clock::time_point> m_traceBegin; ///< when the first group was complete
    std::int64_t m_traceShift = 0;                 ///< nanoseconds from there to the current group's
    std::int64_t m_lostBefore = 0;                 ///< records, by earlier groups, and damaged ones
    std::optional<Status> m_outcome;

    std::jthread m_supervisor; ///< last: ends before the members that it uses
};

} // namespace planloom::agent
