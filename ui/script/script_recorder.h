// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/script/script.h"
#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// Something that was recorded: a line, or an edit whose line is made when it is needed (it costs the JSON of two
/// plans). Immutable.
struct Recorded {
    ScriptLine line;
    StudioState::DocumentPtr before; ///< of an edit; may be null
    StudioState::DocumentPtr after;  ///< of an edit; null: it is none
};

/// The script, with its header. May be called on any thread.
QString scriptText(const std::vector<Recorded> &recorded);

/// Listens to the window and the state from its start to its end. What is open at the start are the first lines.
class ScriptRecorder final : public QObject {
    Q_OBJECT

public:
    ScriptRecorder(StudioState *state, MainWindow *window, QObject *parent = nullptr);

    /// With what is seen now.
    [[nodiscard]] std::vector<Recorded> finish();
    [[nodiscard]] std::size_t lines() const { return m_recorded.size(); }

Q_SIGNALS:
    void changed(); ///< lines()

private:
    /// What a step of undo leads to.
    struct Content {
        StudioState::DocumentPtr document;
        std::shared_ptr<const cluster::Cluster> cluster;
        friend bool operator==(const Content &, const Content &) = default;
    };

    void connectWindow();
    void add(const QString &verb, const QStringList &words);
    void addEdit(const QString &what, const Content &before, const Content &after);
    void addBeginning();
    void onUndoIndex(int index);
    void onRunChanged();
    void addSeen();
    [[nodiscard]] Content content() const { return {m_state->document(), m_state->cluster()}; }

    StudioState *m_state;
    MainWindow *m_window;
    std::vector<Recorded> m_recorded;
    std::vector<Content> m_steps; ///< by index of the undo stack
    int m_index = 0;
    QString m_searched; ///< planner whose plan is to come; empty: none
    ViewFields m_seen;  ///< as they were last recorded
    QTimer m_rest;      ///< after the last change of what is seen
    bool m_runs = false;
    std::size_t m_training = 0; ///< line of the run
};

} // namespace planloom::ui
