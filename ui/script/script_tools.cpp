// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/script_tools.h"

#include "engine/base/files.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QFileDialog>

#include <utility>

namespace planloom::ui {

ScriptTools::ScriptTools(StudioState *state, MainWindow *window)
    : QObject(window),
      m_state(state),
      m_window(window),
      m_player(state, window)
{
    m_askForFile = [this] {
        return QFileDialog::getSaveFileName(m_window, tr("Save the script"), QStringLiteral("actions.planloom"),
                                            tr("Scripts (*.planloom)"));
    };
    m_window->installEventFilter(this);
    QMenu *tools = m_window->toolsMenu();
    tools->menuAction()->setVisible(true);
    m_record = m_window->action(tools, "tools.record", tr("&Record actions"), {}, {},
                                [this] { m_recorder ? stopRecording() : startRecording(); });
    m_record->setCheckable(true);
    m_record->setStatusTip(tr("Write what you do as a script, which planloom-studio --play does again"));
    m_play = m_window->action(tools, "tools.play", tr("&Play a script…"), {}, {}, [this] {
        const QString path =
            QFileDialog::getOpenFileName(m_window, tr("Play a script"), {}, tr("Scripts (*.planloom);;All files (*)"));
        if (!path.isEmpty())
            play(path);
    });
    m_window->loadKeys();
    connect(&m_player, &ScriptPlayer::began, this, [this](int line, int of, const QString &title) {
        m_state->say(MessageLevel::Info, tr("%1 of %2: %3").arg(line).arg(of).arg(title));
    });
    connect(&m_player, &ScriptPlayer::finished, this, [this](bool ok) {
        if (ok)
            m_state->say(MessageLevel::Info, tr("The script has been played."));
        else
            m_state->say(MessageLevel::Error, m_player.failure());
        refresh();
    });
}

void ScriptTools::startRecording()
{
    m_recorder = std::make_unique<ScriptRecorder>(m_state, m_window);
    refresh();
    m_state->say(MessageLevel::Info, tr("Recording. Tools ▸ Record actions ends it."));
}

void ScriptTools::stopRecording(const QString &path)
{
    if (!m_recorder)
        return;
    const auto recorded = std::exchange(m_recorder, nullptr)->finish();
    refresh();
    const QString file = path.isEmpty() ? m_askForFile() : path;
    if (file.isEmpty())
        return;
    m_writing.ask([this, recorded, file](Progress &) -> Job::Completion {
        const Status status = writeFileAtomically(file.toStdString(), scriptText(recorded).toStdString());
        return [this, status, file, count = recorded.size()] {
            if (!status)
                return m_state->say(MessageLevel::Error, qt(status.error().text()));
            m_state->say(MessageLevel::Info, tr("Wrote %1 lines to %2").arg(count).arg(file));
            Q_EMIT written(file);
        };
    });
}

bool ScriptTools::eventFilter(QObject *watched, QEvent *event)
{
    if (watched == m_window && event->type() == QEvent::Close && m_recorder) {
        const auto recorded = std::exchange(m_recorder, nullptr)->finish();
        refresh();
        if (const QString file = m_askForFile(); !file.isEmpty()) // at once: nothing runs behind a window that is gone
            if (const Status status = writeFileAtomically(file.toStdString(), scriptText(recorded).toStdString());
                !status)
                m_state->say(MessageLevel::Error, qt(status.error().text()));
    }
    return QObject::eventFilter(watched, event);
}

void ScriptTools::play(const QString &path)
{
    if (m_player.playing())
        return m_state->say(MessageLevel::Warning, tr("A script is being played; wait for its end."));
    if (const Status status = m_player.play(path); !status)
        m_state->say(MessageLevel::Error, qt(status.error().text()));
    refresh();
}

void ScriptTools::refresh()
{
    m_record->setChecked(recording());
    m_play->setEnabled(!m_player.playing());
}

} // namespace planloom::ui
