// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "engine/memory/measured_times.h"
#include "engine/plan/efficiency.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/index.h"
#include "ui/state/memory_moves.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace planloom::ui {

/// Simulates documents on a separate thread. The newest request wins: a waiting one is replaced, and the answer to a
/// request that was overtaken while it ran is thrown away. Lives on the UI thread; finished() is sent there.
class Simulator : public QObject {
    Q_OBJECT

public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;
    using SimulationPtr = std::shared_ptr<const simulate::Simulation>;

    /// Null pointers on failure; `error` then has the reason.
    struct Answer {
        SimulationPtr simulation;
        std::shared_ptr<const trace::Index> index; ///< of the simulation's trace
        std::vector<std::size_t> memoryCurves;     ///< of its devices (memory_curves.h)
        std::shared_ptr<const MemoryMoves> memoryMoves;
        std::vector<std::int64_t> sampleBytes; ///< StudioState::sampleBytes()
        std::shared_ptr<const plan::Why> why;
        std::optional<double> laterSeconds; ///< PlanOrigin::laterSeconds
        plan::ModelWork work;
        std::string subjectHash; ///< plan::subjectHash(), if it was asked for; also on failure
        QString error;
    };

    explicit Simulator(QObject *parent = nullptr);
    ~Simulator() override;

    /// Any thread. @p times: what a run has measured, for plans whose policies decide by that.
    static Answer answer(const plan::Document &document, const memory::RunTimes *times = nullptr);
    void request(DocumentPtr document, bool hashSubject = false);
    void abandon(); ///< no answer to earlier requests
    [[nodiscard]] bool busy() const { return m_answered != m_asked; }

Q_SIGNALS:
    void finished(std::shared_ptr<const plan::Document> document, const planloom::ui::Simulator::Answer &answer);

private:
    struct Request {
        DocumentPtr document;
        std::uint64_t number = 0;
        bool hashSubject = false;
    };
    void work(const std::stop_token &stop);
    void deliver(std::uint64_t number, const DocumentPtr &document, const Answer &answer);

    std::uint64_t m_asked = 0;    // UI thread
    std::uint64_t m_answered = 0; // UI thread
    std::mutex m_mutex;
    std::condition_variable_any m_wake;
    Request m_next; // guarded by m_mutex; no document: nothing to do
    std::jthread m_thread;
};

} // namespace planloom::ui
