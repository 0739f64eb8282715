// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>

#include "ui/script/act_player.h"
#include "ui/script/script.h"
#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"

#include <vector>

namespace planloom::ui {

/// Plays a script in a window: each line is an act, which has ended when nothing is loaded, searched, simulated or
/// trained any more.
class ScriptPlayer final : public QObject {
    Q_OBJECT

public:
    ScriptPlayer(StudioState *state, MainWindow *window, QObject *parent = nullptr);

    /// Error: of the file, or of its first wrong line; nothing is played then.
    Status play(const QString &path);
    void setPause(int milliseconds) { m_player.setPause(milliseconds); }
    /// "FILE:LINE: why"; empty: all went well so far.
    [[nodiscard]] QString failure() const { return m_failure; }
    [[nodiscard]] bool playing() const { return m_player.playing(); }

Q_SIGNALS:
    void began(int line, int of, const QString &title);
    void finished(bool ok);

private:
    [[nodiscard]] Act actOf(const ScriptLine &line);
    void begin(const ScriptLine &line);
    void plan(const ScriptLine &line);
    void edit(const ScriptLine &line);
    void changeCluster(const ScriptLine &line);
    void trigger(const QString &command);
    void takePicture(const QString &view, const QString &path);
    void failUnless(bool ok);
    [[nodiscard]] bool settled() const;
    [[nodiscard]] ScriptCommands commands() const;

    StudioState *m_state;
    MainWindow *m_window;
    ActPlayer m_player;
    QString m_file;
    int m_line = 0;
    QString m_failure;
};

} // namespace planloom::ui
