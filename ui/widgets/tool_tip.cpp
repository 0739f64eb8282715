// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/tool_tip.h"

#include <QHelpEvent>
#include <QToolTip>
#include <QWidget>

namespace planloom::ui {

bool answerToolTip(QEvent *event, QWidget *widget, const std::function<QString(const QPoint &)> &describe)
{
    if (event->type() != QEvent::ToolTip)
        return false;
    const auto *help = static_cast<QHelpEvent *>(event);
    const QString text = describe(help->pos());
    if (text.isEmpty())
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), text, widget);
    return true;
}

} // namespace planloom::ui
