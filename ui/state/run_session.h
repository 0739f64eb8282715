// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QTimer>

#include "engine/trace/trace.h"
#include "executor/agent/client.h"
#include "ui/state/run_data.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace planloom::ui {

using ClientFactory = std::function<Result<std::unique_ptr<agent::Client>>()>;

/// One training run: an agent client on a separate thread. Its reports are collected under a lock and taken over
/// by the UI thread at most 30 times a second, and so many records at once, so that no number of records or steps can
/// flood the event loop.
class RunSession : public QObject {
    Q_OBJECT

public:
    explicit RunSession(QObject *parent = nullptr);
    ~RunSession() override;

    /// Refused (false) while a run is active. A run that is resumed keeps the steps that data() has of it. data() is of
    /// the new run at once; trace() stays that of the earlier one until the new one reports. A run that ends before
    /// gives way to the earlier one again.
    bool start(const ClientFactory &factory, agent::TrainRequest request, PlanOrigin origin);
    /// A run that has ended, without a trace. Refused (false) while a run is active.
    bool show(RunData ended);
    /// After the current step; a second call changes nothing.
    void stop();
    /// Every kernel of the active run's GPUs is recorded for so many seconds from now on. A refusal is a line of the
    /// log.
    void lookCloser(double seconds);
    [[nodiscard]] const RunData &data() const { return m_data; }
    [[nodiscard]] const trace::Trace &trace() const { return *m_trace; }
    /// The same, for who reads it on another thread: the records and tables that it has now stay as they are and where
    /// they are. What grows is behind them; a trace that starts anew is another object.
    [[nodiscard]] std::shared_ptr<const trace::Trace> sharedTrace() const { return m_trace; }
    /// The plan that made trace().
    [[nodiscard]] const PlanOrigin &traceOrigin() const { return m_before ? m_before->origin : m_data.origin; }
    /// The prediction of the plan with this origin has come.
    void setPrediction(const PlanOrigin &origin);
    /// Of data()'s run; nothing: it has not changed its course (any more).
    void setChange(const std::optional<compare::CourseChange> &change);

Q_SIGNALS:
    void changed();                          ///< phase, steps, summary or log
    void failed(const QString &why);         ///< once, after changed()
    void tablesChanged();                    ///< the trace starts anew
    void recordsAppended(std::size_t first); ///< trace().records from here on are new

private:
    struct Inbox; ///< filled by the client's thread
    void run(const ClientFactory &factory, const agent::TrainRequest &request, int number);
    void pull();
    void takeOver();
    void giveWay(const QString &why);
    void startTrace(trace::Tables tables, const std::string &clock = {}, const std::string &plan = {});
    void takeTables(Inbox &news);
    void takeRecords(Inbox &news, const std::vector<trace::Record> &more);
    void letGoOfOldest(Inbox &news);
    bool takeNews(Inbox &news);
    void finish(const Status &status);
    void conclude(const Status &status);

    RunData m_data;
    std::optional<RunData> m_before; ///< the earlier run, until the new one reports
    std::shared_ptr<trace::Trace> m_trace;
    std::vector<trace::Record> m_newest; ///< those of m_trace behind its first half: what stays when this one goes
    std::optional<Status> m_ended;       ///< of the client; records of it are still in the inbox
    int m_number = 0;                    ///< of the run that was started last
    QTimer m_timer;
    std::mutex m_mutex; ///< guards m_inbox and m_client
    std::unique_ptr<Inbox> m_inbox;
    std::shared_ptr<agent::Client> m_client;
    bool m_stopAsked = false;
    std::atomic<bool> m_asks{false}; ///< m_asking is at work
    std::jthread m_asking;           ///< waits for the agent's answer to lookCloser()
    std::jthread m_thread;
};

} // namespace planloom::ui
