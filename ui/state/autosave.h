// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLockFile>
#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/state/job.h"
#include "ui/state/studio_state.h"

#include <memory>

namespace planloom::ui {

/// Keeps the unsaved plan in a separate file, so that it outlives a crash, a kill or a lost display. Each
/// studio has its own locked file in @p folder; the file of a studio that is gone can be taken over
/// by another. All calls on the UI thread, the writing is done on another one. An orderly end (the destructor) removes
/// the file: by then the user has been asked.
class Autosave final : public QObject {
    Q_OBJECT

public:
    /// @p delay: milliseconds of edits that a crash may take.
    Autosave(StudioState *state, const QString &folder, int delay = 1000);
    ~Autosave() override;

    /// Opens the newest plan left by a crash, as unsaved, with a message. False if there is none.
    bool recover();
    [[nodiscard]] bool hasLeftover() const;
    /// Where this studio's unsaved plan is kept.
    [[nodiscard]] QString file() const { return m_file; }

private:
    struct Leftover {
        QString file;
        std::unique_ptr<QLockFile> lock; ///< held: no other studio takes the same
    };
    [[nodiscard]] Leftover newestLeftover() const;
    void changed();
    void keep();
    void drop();
    void written(const Status &status);
    void finishRecovery(bool opened);

    StudioState *m_state;
    QString m_folder;
    QString m_file;
    QLockFile m_lock;
    QTimer m_timer;
    Leftover m_recovered; ///< goes when the plan is in a file of this studio, or saved
    bool m_complained = false;
    Job m_job; ///< last: its thread ends first
};

} // namespace planloom::ui
