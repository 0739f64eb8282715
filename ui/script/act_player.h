// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "ui/state/studio_state.h"

#include <functional>
#include <optional>
#include <vector>

namespace planloom::ui {

/// Something that is begun and takes until done() says so. Both may call ActPlayer::fail().
struct Act {
    QString name;
    std::function<void()> begin;
    std::function<bool()> done;
};

/// Plays acts one after the other: begins one, waits until it is done, goes on. An error message of the state ends it.
class ActPlayer final : public QObject {
    Q_OBJECT

public:
    explicit ActPlayer(StudioState *state, QObject *parent = nullptr);

    void play(std::vector<Act> acts);
    void setPause(int milliseconds) { m_pause = milliseconds; } ///< between two acts, for people who watch
    /// The longest that an act may take while no run is active; without a call there is no limit.
    void setLimit(qint64 milliseconds) { m_limit = milliseconds; }
    void fail(const QString &why);
    void stop(); ///< no act begins any more; finished() is not sent
    [[nodiscard]] bool playing() const { return m_playing; }
    [[nodiscard]] QString failure() const { return m_failure; } ///< empty: all went well so far
    /// What the state said last in the present act; empty: nothing.
    [[nodiscard]] QString lastMessage() const { return m_lastMessage; }

Q_SIGNALS:
    void began(int act, int of, const QString &name);
    void finished(bool ok);

private:
    void next();
    void poll();
    void end(bool ok);

    StudioState *m_state;
    std::vector<Act> m_acts;
    std::size_t m_act = 0;
    int m_pause = 0;
    std::optional<qint64> m_limit;
    bool m_playing = false;
    QTimer m_poll;
    QElapsedTimer m_sinceBegin;
    QElapsedTimer m_sinceDone;
    QString m_failure;
    QString m_lastMessage;
    std::optional<QString> m_lastError;
};

} // namespace planloom::ui
