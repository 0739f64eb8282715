// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/script/act_player.h"

#include <utility>

namespace planloom::ui {

namespace {
constexpr int kPollMilliseconds = 20;
} // namespace

ActPlayer::ActPlayer(StudioState *state, QObject *parent) : QObject(parent), m_state(state)
{
    m_poll.setInterval(kPollMilliseconds);
    connect(&m_poll, &QTimer::timeout, this, &ActPlayer::poll);
    connect(m_state, &StudioState::message, this, [this](MessageLevel level, const QString &text) {
        m_lastMessage = text;
        if (level == MessageLevel::Error && !m_lastError)
            m_lastError = text;
    });
}

void ActPlayer::play(std::vector<Act> acts)
{
    m_acts = std::move(acts);
    m_act = 0;
    m_failure.clear();
    m_playing = true;
    if (m_acts.empty())
        return end(true);
    next();
    if (m_playing)
        m_poll.start();
}

void ActPlayer::next()
{
    Q_EMIT began(static_cast<int>(m_act), static_cast<int>(m_acts.size()), m_acts[m_act].name);
    m_sinceBegin.start();
    m_sinceDone.invalidate();
    m_lastError.reset();
    m_lastMessage.clear();
    m_acts[m_act].begin();
}

void ActPlayer::poll()
{
    if (!m_playing)
        return;
    if (m_lastError)
        return fail(*m_lastError);
    const bool runs = m_state->run().active(); // a run takes as long as it takes
    const bool done = m_acts[m_act].done();
    if (!m_playing) // it is done, and did not do what it should
        return;
    if (!done) {
        if (m_limit && m_sinceBegin.elapsed() > *m_limit && !runs)
            fail(tr("\"%1\" did not finish").arg(m_acts[m_act].name));
        return;
    }
    if (!m_sinceDone.isValid())
        m_sinceDone.start();
    if (m_sinceDone.elapsed() < m_pause)
        return;
    if (++m_act < m_acts.size())
        return next();
    end(true);
}

void ActPlayer::fail(const QString &why)
{
    if (!m_playing)
        return;
    m_failure = why;
    end(false);
}

void ActPlayer::stop()
{
    m_playing = false;
    m_poll.stop();
}

void ActPlayer::end(bool ok)
{
    stop();
    Q_EMIT finished(ok);
}

} // namespace planloom::ui
