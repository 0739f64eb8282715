// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "engine/base/progress.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace planloom::ui {

/// One piece of long work on a separate thread, with progress and cancel. Lives on the UI thread, where all signals
/// are sent. One piece at a time.
class Job : public QObject {
    Q_OBJECT

public:
    /// Runs off the UI thread; returns the function that is then called on the UI thread.
    using Completion = std::function<void()>;
    using Work = std::function<Completion(Progress &)>;

    explicit Job(QObject *parent = nullptr);
    ~Job() override;

    /// Refused (false) while an earlier piece of work is still running.
    bool start(const QString &title, Work work);
    void cancel();
    /// Blocks until the piece of work has left its thread. Its completion is still to come.
    void wait();
    [[nodiscard]] bool running() const { return m_running; }
    [[nodiscard]] QString title() const { return m_title; }
    [[nodiscard]] double fraction() const { return m_fraction; } ///< negative: unknown
    [[nodiscard]] QString what() const { return m_what; }

Q_SIGNALS:
    void changed(); ///< started, progressed (at most 20 times a second) or ended

private:
    class Reporter;
    void setProgress(double fraction, const QString &what);
    void finish(const Completion &completion);

    QString m_title;
    QString m_what;
    double m_fraction = -1;
    bool m_running = false;
    std::atomic<bool> m_stop{false};
    std::jthread m_thread;
};

} // namespace planloom::ui
