// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "ui/state/job.h"

#include <deque>
#include <functional>

namespace planloom::ui {

/// Loads files one after another in the background, in the order in which they were asked for. Lives on the UI thread.
class LoadQueue : public QObject {
    Q_OBJECT

public:
    explicit LoadQueue(QObject *parent = nullptr);

    void add(const QString &title, Job::Work work);
    /// Calls @p next when all that was added before has ended; at once if nothing is being loaded.
    void whenEmpty(std::function<void()> next);
    [[nodiscard]] Job *job() { return &m_job; }

Q_SIGNALS:
    void changed(); ///< Job::changed of job()

private:
    void startNext();

    std::deque<std::function<void()>> m_waiting;
    Job m_job;
};

} // namespace planloom::ui
