// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

namespace planloom::ui {

/// Simulates documents on a thread of its own. The newest request wins: what waited is replaced, and the answer to a request that
/// was overtaken while it ran is thrown away. Lives on the UI thread; finished() is sent there.
class Simulator : public QObject {
    Q_OBJECT

public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;
    using SimulationPtr = std::shared_ptr<const simulate::Simulation>;

    explicit Simulator(QObject *parent = nullptr);
    ~Simulator() override;

    void request(DocumentPtr document);
    void abandon(); ///< no answer to what was asked so far
    [[nodiscard]] bool busy() const { return m_answered != m_asked; }

Q_SIGNALS:
    /// @p simulation and @p why, its reasons, are null on failure; @p error then says what is wrong.
    void finished(std::shared_ptr<const plan::Document> document, std::shared_ptr<const simulate::Simulation> simulation,
                  std::shared_ptr<const plan::Why> why, const QString &error);

private:
    using WhyPtr = std::shared_ptr<const plan::Why>;
    struct Answer {
        SimulationPtr simulation;
        WhyPtr why;
        QString error;
    };
    struct Request {
        DocumentPtr document;
        std::uint64_t number = 0;
    };
    void work(const std::stop_token &stop);
    static Answer answer(const plan::Document &document);
    void deliver(std::uint64_t number, const DocumentPtr &document, const Answer &answer);

    std::uint64_t m_asked = 0;    // UI thread
    std::uint64_t m_answered = 0; // UI thread
    std::mutex m_mutex;
    std::condition_variable_any m_wake;
    Request m_next; // guarded by m_mutex; no document: nothing to do
    std::jthread m_thread;
};

} // namespace planloom::ui
