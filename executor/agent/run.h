// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "executor/agent/child.h"
#include "executor/agent/client.h"
#include "executor/agent/run_folder.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace planloom::agent {

/// What a run will be, computed before it starts.
struct Prediction {
    double iterationSeconds = 0;
    std::vector<std::int64_t> peakBytes;
    std::vector<trace::RankInfo> ranks;
    std::vector<trace::TaskInfo> tasks;
    std::int64_t globalBatch = 1;
    std::string modelName;
};
/// Errors: those of documentFromJson, validate and compile.
Result<Prediction> predict(const std::string &planJson);

struct StateChange {
    RunState state = RunState::Starting;
    std::string message;
};
using RunEvent = std::variant<StateChange, StepMetrics, RunSummary>;

/// What a client is told next.
struct RunNews {
    std::vector<RunEvent> events;
    std::vector<trace::Record> records;
    std::int64_t dropped = 0; ///< records lost so far on the way to this client
    bool last = false;        ///< the run is over; outcome() is set
};

/// One training run: its folder, its workers, and what they report. A supervisor thread starts the workers, watches them, writes
/// the folder and ends them; it alone touches child process and files. Everything else is thread-safe. Destroying a run kills it.
class Run {
public:
    /// Checks the request, makes the run folder and starts. Errors: BadInput and NotFound (plan, data, folder), Io.
    static Result<std::shared_ptr<Run>> start(const TrainRequest &request, const std::string &root, const std::string &socketPath);
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;
    ~Run();

    [[nodiscard]] const std::string &id() const { return m_id; }
    [[nodiscard]] const std::string &token() const { return m_token; }
    [[nodiscard]] const std::string &folder() const { return m_folder.path(); }
    [[nodiscard]] const Prediction &prediction() const { return m_prediction; }

    // The client's side.
    /// Waits until there is something to tell: records are collected for up to 50 ms or until there are 256.
    RunNews next();
    /// Stop after the current step; when that takes too long, by force.
    void requestStop();
    /// Stop by force, now.
    void kill();
    [[nodiscard]] bool stopAsked() const;
    [[nodiscard]] bool over() const;
    /// Once over: success, Cancelled, or why it failed.
    [[nodiscard]] Status outcome() const;

    // The workers' side. @p stop is called, once, when the worker should stop; it must not call back.
    /// Errors: BadInput (no such rank, or it reported before).
    Status attach(int rank, std::int64_t pid, std::function<void()> stop);
    void onMetrics(std::int64_t step, double loss, double seconds);
    void onRecords(int rank, std::span<const trace::Record> records, std::int64_t dropped);
    void onEvaluation(double loss, double accuracy, std::int64_t samples);
    /// An @p error without text is none.
    void onFinished(int rank, std::int64_t peakBytes, Error error);
    void onHeartbeat(int rank);
    /// The connection of @p rank is gone.
    void detach(int rank);

private:
    using Clock = std::chrono::steady_clock;
    struct Worker {
        bool attached = false;
        bool detached = false;
        bool finished = false;
        int process = -1; ///< pidfd
        std::int64_t peakBytes = 0;
        std::int64_t dropped = 0;
        std::optional<Clock::time_point> heard; ///< since it started to report
        std::function<void()> stop;
    };

    Run(TrainRequest request, Prediction prediction, RunFolder folder, std::string socketPath);

    // On the supervisor thread.
    void supervise();
    Status launch();
    void watch();
    void writeOut();
    void watchSilence();
    void enforceDeadline();
    void reapWorkers();
    void finish();
    Status judge();
    RunSummary summarize() const;
    [[nodiscard]] std::string unexpectedEnd() const;

    // With m_mutex held.
    void publish(RunEvent event);
    void fail(Error error);
    void endBy(Clock::time_point deadline);

    const TrainRequest m_request;
    const Prediction m_prediction;
    const std::string m_socketPath;
    std::string m_id;
    std::string m_token;

    // The supervisor's own.
    RunFolder m_folder;
    std::optional<Child> m_child;
    std::optional<Exit> m_exit;
    std::optional<trace::TraceWriter> m_trace;
    std::string m_outputTail; ///< the last that the workers wrote
    std::size_t m_logged = 0; ///< of m_outputTail
    int m_force = 0;          ///< signals sent so far: SIGTERM, then SIGKILL

    mutable std::mutex m_mutex;
    std::condition_variable m_news;
    std::vector<Worker> m_workers;
    std::vector<StepMetrics> m_steps;
    std::size_t m_stepsWritten = 0;
    std::vector<trace::Record> m_toFile;
    std::vector<trace::Record> m_toClient;
    std::int64_t m_fileDropped = 0;
    std::int64_t m_clientDropped = 0;
    std::deque<RunEvent> m_events;
    RunState m_state = RunState::Starting;
    std::optional<Error> m_failure; ///< the first one
    std::optional<int> m_firstLost; ///< the rank whose connection broke first
    bool m_stopAsked = false;
    std::optional<Clock::time_point> m_deadline; ///< then by force
    std::optional<RunSummary> m_evaluation;      ///< only its evaluation fields
    std::optional<Status> m_outcome;

    std::jthread m_supervisor; ///< last: ends before what it uses
};

} // namespace planloom::agent
