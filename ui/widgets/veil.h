// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

namespace planloom::ui {

/// Lies over a widget while that shows what was there before, which looks pale then. The mouse and the keyboard go
/// through it. Knows no state.
class Veil final : public QWidget {
    Q_OBJECT

public:
    /// @p over owns it. At first what is there is current.
    explicit Veil(QWidget *over);
    void setCurrent(bool current);

protected:
    void paintEvent(QPaintEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;
};

} // namespace planloom::ui
