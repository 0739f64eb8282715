// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/veil.h"

#include "ui/theme/theme.h"

#include <QEvent>
#include <QPainter>

namespace planloom::ui {

Veil::Veil(QWidget *over) : QWidget(over)
{
    setAttribute(Qt::WA_TransparentForMouseEvents);
    setFocusPolicy(Qt::NoFocus);
    over->installEventFilter(this);
    hide();
}

void Veil::setCurrent(bool current)
{
    setVisible(!current);
    if (current)
        return;
    setGeometry(parentWidget()->rect());
    raise();
}

void Veil::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), veil());
}

bool Veil::eventFilter(QObject *watched, QEvent *event)
{
    if (watched == parent() && event->type() == QEvent::Resize)
        setGeometry(parentWidget()->rect());
    return QWidget::eventFilter(watched, event);
}

} // namespace planloom::ui
