// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAction>
#include <QObject>
#include <QString>

#include "ui/script/script_player.h"
#include "ui/script/script_recorder.h"
#include "ui/shell/main_window.h"
#include "ui/state/latest_job.h"

#include <functional>
#include <memory>
#include <utility>

namespace planloom::ui {

/// Recording and playing in the window's Tools menu. Made once, for as long as the window lives.
class ScriptTools final : public QObject {
    Q_OBJECT

public:
    ScriptTools(StudioState *state, MainWindow *window);

    [[nodiscard]] bool recording() const { return m_recorder != nullptr; }
    void startRecording();
    /// Ends it and writes the script in the background; empty: asks for a file.
    void stopRecording(const QString &path = {});
    void play(const QString &path);
    /// In place of the dialog that asks where a script goes.
    void setAskForFile(std::function<QString()> ask) { m_askForFile = std::move(ask); }
    [[nodiscard]] ScriptPlayer *player() { return &m_player; }

Q_SIGNALS:
    void written(const QString &path);

protected:
    /// A window that is closed while it records asks where the script goes.
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void refresh();

    StudioState *m_state;
    MainWindow *m_window;
    ScriptPlayer m_player;
    std::unique_ptr<ScriptRecorder> m_recorder;
    QAction *m_record;
    QAction *m_play;
    std::function<QString()> m_askForFile;
    LatestJob m_writing{tr("Writing a script")}; ///< last: its thread ends first
};

} // namespace planloom::ui
