// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QLabel>
#include <QTimer>
#include <QToolButton>

#include "ui/state/studio_state.h"

namespace planloom::ui {

/// One line in the place of the status line's facts, for errors and refusals, without a dialog. Errors and warnings
/// stay until closed or replaced, information disappears by itself. Its height never changes: a text that is too long
/// ends in "…", and is whole in the tool tip and in a box that a click opens.
class MessageBar final : public QFrame {
    Q_OBJECT

public:
    explicit MessageBar(QWidget *parent = nullptr);
    void show(MessageLevel level, const QString &text);
    void withdraw(const QString &text); ///< goes, if this is what it says
    [[nodiscard]] QString text() const { return m_whole; }
    [[nodiscard]] QString shownText() const { return m_text->text(); } ///< text(), as far as there is room
    /// Opens a box with the whole text, which can be selected there; closed by a click elsewhere and by Esc.
    void showWhole();
    [[nodiscard]] MessageLevel level() const { return m_level; }

Q_SIGNALS:
    void shown(bool visible);

protected:
    void changeEvent(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void close();
    void cut();
    void applyColors();

    QLabel *m_sign;
    QLabel *m_text;
    QToolButton *m_more; ///< there while the text is cut
    QToolButton *m_close;
    QString m_whole;
    QTimer m_timer;
    MessageLevel m_level = MessageLevel::Info;
    bool m_applying = false;
};

} // namespace planloom::ui
