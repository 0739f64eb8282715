// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "executor/agent/child.h"
#include "executor/agent/client.h"
#include "executor/agent/launch.h"
#include "executor/agent/run_folder.h"
#include "executor/agent/run_metrics.h"

#include <chrono>
#include <condition_variable>
#include <deque>
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

/// As many random bytes, in hexadecimal; empty if the system has none.
std::string randomHex(std::size_t bytes);

struct StateChange {
    RunState state = RunState::Starting;
    std::string message;
};
using RunEvent = std::variant<StateChange, StepMetrics, Validation, RunSummary>;

/// Where a worker that reports belongs. What a gang that is over still says is not heard.
struct Seat {
    int gang = 0;
    int rank = 0;
};

/// What a worker is told. Calls come from any thread and after the worker has gone, too; they must not call the run back.
class WorkerLine {
public:
    virtual ~WorkerLine() = default;
    /// Stop after the step at hand.
    virtual void stop() = 0;
    /// The metrics of the steps before @p steps are in the run's folder.
    virtual void metricsKept(std::int64_t steps) = 0;
};

/// Bytes, as runtime::MemoryUse says.
struct WorkerMemory {
    std::int64_t peak = 0; ///< of the arena
    std::int64_t beyondArena = 0;
    std::int64_t shared = 0;
};

/// What a client is told next.
struct RunNews {
    std::vector<RunEvent> events;
    std::vector<trace::Record> records;
    std::int64_t dropped = 0; ///< records lost so far on the way to this client
    bool last = false;        ///< the run is over; outcome() is set
};

/// One training run: its folder, its workers, and what they report. A supervisor thread starts the workers, watches them, writes
/// the folder and ends them; it alone touches child process and files. Where the request allows it, a gang of workers that failed is followed by
/// another one that begins at the newest checkpoint. Everything else is thread-safe. Destroying a run kills it.
class Run {
public:
    /// Checks the request and makes the run folder. Errors: BadInput and NotFound (plan, data, folder), Io.
    static Result<std::shared_ptr<Run>> make(const TrainRequest &request, const std::string &root, const std::string &socketPath);
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;
    ~Run();

    /// Once: from here on workers come, and look for the run that has their token.
    void start();

    [[nodiscard]] const std::string &id() const { return m_id; }
    /// Each gang has its own: workers of one that is over cannot come in any more.
    [[nodiscard]] std::string token() const;
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

    // The workers' side.
    /// Errors: BadInput (no such rank, it reported before, or @p token is that of a gang that is over).
    Result<Seat> attach(const std::string &token, int rank, std::int64_t pid, std::shared_ptr<WorkerLine> line);
    void onMetrics(Seat seat, StepMetrics step); ///< samplesPerSecond is filled in
    void onValidation(Seat seat, const Validation &validation);
    void onKeepMetrics(Seat seat, std::int64_t steps); ///< answered once all metrics said so far are written
    void onRecords(Seat seat, std::span<const trace::Record> records, std::int64_t dropped);
    void onEvaluation(Seat seat, double loss, double accuracy, std::int64_t samples);
    /// An @p error without text is none.
    void onFinished(Seat seat, const WorkerMemory &memory, bool stoppedEarly, Error error);
    /// @p training: tasks are due, so that @p progress, a count of them, should grow.
    void onHeartbeat(Seat seat, std::int64_t progress, bool training);
    /// The connection is gone.
    void detach(Seat seat);

private:
    using Clock = std::chrono::steady_clock;
    struct Worker {
        bool attached = false;
        bool detached = false;
        bool finished = false;
        int process = -1; ///< pidfd
        WorkerMemory memory;
        std::int64_t dropped = 0;
        Clock::time_point heard;
        Clock::time_point progressed; ///< while it trains
        std::int64_t progress = 0;
        bool training = false;
        std::shared_ptr<WorkerLine> line; ///< while it is attached
    };

    Run(TrainRequest request, Prediction prediction, RunFolder folder, std::string socketPath);

    // On the supervisor thread.
    void supervise();
    Status launch();
    Status open();
    Status prepareGang();
    Result<Beginning> newestBeginning();
    void goOnFrom(std::int64_t step);
    bool restart();
    void note(const std::string &text);
    void watch();
    [[nodiscard]] Clock::duration startLimit() const;
    void writeOut();
    void writeMetrics(bool last);
    void watchLives();
    void enforceDeadline();
    void reapWorkers();
    void finish();
    Result<std::vector<StepMetrics>> catchUp();
    void takeBack();
    void recordEnd(const Status &outcome, const std::optional<RunSummary> &summary);
    Status judge();
    RunSummary summarize() const;
    [[nodiscard]] std::string unexpectedEnd() const;

    // With m_mutex held.
    void publish(RunEvent event);
    void fail(Error error);
    void endBy(Clock::time_point deadline);
    void lose(Worker &worker);
    Worker *seated(Seat seat);
    [[nodiscard]] Clock::duration hungAfter() const;
    [[nodiscard]] std::int64_t stepsDone() const;

    const TrainRequest m_request;
    const Prediction m_prediction;
    const std::string m_socketPath;
    std::string m_id;

    // The supervisor's own.
    RunFolder m_folder;
    std::optional<Scratch> m_scratch; ///< of the gang at hand
    std::optional<Child> m_child;
    std::optional<Exit> m_exit;
    std::optional<trace::TraceWriter> m_trace;
    std::optional<RunMetrics> m_metrics; ///< none: it could not be written, which stops no run
    Beginning m_from;                    ///< of the gang at hand
    std::string m_outputTail; ///< the last that the workers wrote
    std::size_t m_logged = 0; ///< of m_outputTail
    int m_force = 0;          ///< signals sent so far: SIGTERM, then SIGKILL

    mutable std::mutex m_mutex;
    std::condition_variable m_news;
    std::string m_token;
    int m_gang = 0;
    std::vector<Worker> m_workers;
    std::vector<StepMetrics> m_steps;
    std::deque<std::variant<StepMetrics, Validation>> m_toWrite;
    std::int64_t m_toKeep = 0; ///< steps that rank 0 wants to hear of once they are written; 0: none
    std::optional<Clock::time_point> m_traceBegin; ///< when the first gang was complete
    std::int64_t m_traceShift = 0;                 ///< nanoseconds from there to the present gang's
    std::int64_t m_droppedBefore = 0;              ///< by workers of gangs that are over
    bool m_stoppedEarly = false;
    bool m_anyStep = false; ///< since this run was made, by whichever gang
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
