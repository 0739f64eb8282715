// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QString>

#include "ui/state/latest_job.h"

#include <functional>
#include <utility>

namespace planloom::ui {

/// Reads files of a run's folder beside the UI thread: those of another run at once, those of one that goes on again
/// some time after the last reading, and a last time when it has ended. Lives on the UI thread; declare it last.
class FolderReader {
public:
    /// Beside the UI thread; what it returns is then called on it.
    using Read = std::function<Job::Completion(const QString &folder)>;
    explicit FolderReader(QString title) : m_job(std::move(title)) {}

    void ask(const QString &folder, bool ended, Read read)
    {
        constexpr qint64 kReadAgain = 2000; // milliseconds
        const bool same = folder == m_folder && ended == m_ended;
        if (same && (ended || m_job.running() || (m_asked.isValid() && m_asked.elapsed() < kReadAgain)))
            return;
        m_folder = folder;
        m_ended = ended;
        m_asked.start();
        m_job.ask([folder, read = std::move(read)](Progress &) { return read(folder); });
    }
    [[nodiscard]] bool reads() const { return m_job.running(); }

private:
    QString m_folder;
    bool m_ended = false;
    QElapsedTimer m_asked;
    LatestJob m_job;
};

} // namespace planloom::ui
