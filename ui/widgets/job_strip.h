// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QTimer>
#include <QToolButton>
#include <QWidget>

#include "ui/state/latest_job.h"

namespace planloom::ui {

/// How far work in the background is, and a button that stops it, or begins it again once it was stopped. It keeps its
/// place while nothing is done, and says nothing of work that is done within a moment.
class JobStrip final : public QWidget {
    Q_OBJECT

public:
    /// @p job must outlive it.
    explicit JobStrip(LatestJob &job, QWidget *parent = nullptr);
    [[nodiscard]] QToolButton *button() { return m_button; }
    [[nodiscard]] QLabel *text() { return m_text; }
    [[nodiscard]] bool stopped() const { return m_stopped; }
    /// What is said while nothing is done.
    void setIdleText(const QString &text);
    /// What is wanted now is asked for, by whatever reason.
    void begin();

Q_SIGNALS:
    void again(); ///< what was stopped is wanted after all

private:
    void press();
    void follow();

    LatestJob &m_job;
    QString m_idleText;
    QLabel *m_text;
    QProgressBar *m_bar;
    QToolButton *m_button;
    QTimer m_moment;
    bool m_stopped = false;
};

} // namespace planloom::ui
