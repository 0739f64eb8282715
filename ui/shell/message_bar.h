// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QLabel>
#include <QTimer>
#include <QToolButton>

#include "ui/state/studio_state.h"

namespace planloom::ui {

/// One line in the place of the status line's facts, for errors and refusals, without a dialog. Errors and warnings
/// stay until closed or replaced, information disappears by itself. Its height never changes.
class MessageBar final : public QFrame {
    Q_OBJECT

public:
    explicit MessageBar(QWidget *parent = nullptr);
    void show(MessageLevel level, const QString &text);
    [[nodiscard]] QString text() const { return m_text->text(); }
    [[nodiscard]] MessageLevel level() const { return m_level; }

Q_SIGNALS:
    void shown(bool visible);

protected:
    void changeEvent(QEvent *event) override;

private:
    void close();
    void applyColors();

    QLabel *m_sign;
    QLabel *m_text;
    QToolButton *m_close;
    QTimer m_timer;
    MessageLevel m_level = MessageLevel::Info;
    bool m_applying = false;
};

} // namespace planloom::ui
