// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/state/job.h"

#include <utility>

namespace planloom::ui {

/// Work beside the UI thread of which the last that was asked for counts: it cancels the one that runs. Lives on the
/// UI thread. Declare it last: its thread ends before what it posts to.
class LatestJob {
public:
    explicit LatestJob(QString title) : m_title(std::move(title)) {}

    /// Runs @p work, then on the UI thread what it returns, unless something else has been asked for by then.
    void ask(Job::Work work);
    /// What was asked for is not wanted any more.
    void abandon();
    [[nodiscard]] bool running() const { return m_wanted || m_job.running(); }
    /// Its signals and progress.
    [[nodiscard]] const Job &job() const { return m_job; }

private:
    void begin();

    QString m_title;
    Job::Work m_wanted;       ///< not begun
    bool m_abandoned = false; ///< the one that runs
    Job m_job;
};

} // namespace planloom::ui
