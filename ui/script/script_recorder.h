// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/script/script.h"
#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"

#include <memory>
#include <optional>
#include <string>
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
    struct Content {
        StudioState::DocumentPtr document;
        std::shared_ptr<const cluster::Cluster> cluster;
    };
    /// A step of undo, with what it leads to.
    struct Step {
        Content content;
        const QUndoCommand *command = nullptr; ///< null: the beginning, or a step of before
    };
    /// A search that was asked for: its line is written with its plan, so that one without a plan has none.
    struct Asked {
        QStringList words;
        std::string planner;
        std::shared_ptr<const import::Model> model; ///< that was open when it was asked for
        std::shared_ptr<const cluster::Cluster> cluster;
        QStringList opens; ///< model and cluster of its own
    };

    void connectWindow();
    void add(const QString &verb, const QStringList &words);
    void push(const QString &verb, const QStringList &words);
    void addEdit(const QString &what, const Content &before, const Content &after);
    void addFound(const QString &what, const Content &before, const Content &after);
    void addBeginning();
    void onAsked(Asked asked);
    void forget(std::optional<Asked> &search);
    void onSearchJob();
    void onOpened(const QStringList &names);
    void onOtherContent();
    void onUndoIndex(int index);
    void onRunChanged();
    void addSeen();
    void noteEffect();
    [[nodiscard]] bool isOfImport(const QString &text) const;
    [[nodiscard]] Content content() const { return {m_state->document(), m_state->cluster()}; }

    StudioState *m_state;
    MainWindow *m_window;
    std::vector<Recorded> m_recorded;
    std::vector<Step> m_steps; ///< by index of the undo stack
    int m_index = 0;
    QStringList m_imports;         ///< opened files whose effect is an edit of the plan
    std::optional<Asked> m_asked;  ///< its search has not begun
    std::optional<Asked> m_search; ///< under way
    bool m_searches = false;       ///< any search is, also one that no line asks for
    bool m_hasEffect = false;      ///< a line or a search came since the event loop was left
    ViewFields m_seen;             ///< as they were last recorded
    QTimer m_rest;                 ///< after the last change of what is seen
    bool m_runs = false;
    std::optional<std::size_t> m_training; ///< line of the run
};

} // namespace planloom::ui
