// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPoint>
#include <QString>

#include <functional>

class QEvent;
class QWidget;

namespace planloom::ui {

/// Answers a tool-tip event of an own-painted widget with @p describe's text for the place under the mouse (empty:
/// nothing). False if @p event is of another type.
bool answerToolTip(QEvent *event, QWidget *widget, const std::function<QString(const QPoint &)> &describe);

} // namespace planloom::ui
