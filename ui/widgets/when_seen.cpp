// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/when_seen.h"

#include <QDockWidget>
#include <QEvent>
#include <QWidget>

#include <utility>

namespace planloom::ui {

WhenSeen::WhenSeen(QWidget *widget, std::function<void()> work)
    : QObject(widget),
      m_widget(widget),
      m_work(std::move(work))
{
    widget->installEventFilter(this);
}

void WhenSeen::ask()
{
    m_stale = true;
    if (inSight())
        return run();
    if (m_dock || !m_widget->isVisible())
        return; // QEvent::Show comes
    // Docks behind another one stay visible for Qt; they lie outside of the window.
    for (QWidget *parent = m_widget->parentWidget(); parent && !m_dock; parent = parent->parentWidget())
        m_dock = qobject_cast<QDockWidget *>(parent);
    if (m_dock)
        connect(m_dock, &QDockWidget::visibilityChanged, this, &WhenSeen::onDock);
}

/// QWidget::visibleRegion() is no answer: it leaves out what opaque children cover.
bool WhenSeen::inSight() const
{
    if (!m_widget->isVisible())
        return false;
    QRect seen = m_widget->rect();
    for (const QWidget *each = m_widget; !each->isWindow() && !seen.isEmpty(); each = each->parentWidget())
        seen = seen.translated(each->pos()) & each->parentWidget()->rect();
    return !seen.isEmpty();
}

void WhenSeen::run()
{
    m_stale = false;
    ++m_runs;
    m_work();
}

void WhenSeen::onDock(bool visible)
{
    if (visible && m_widget->isVisible())
        runAllOf(m_widget);
}

/// Filters and signals come in other orders than the works were made in.
void WhenSeen::runAllOf(QWidget *widget)
{
    for (WhenSeen *each : widget->findChildren<WhenSeen *>(Qt::FindDirectChildrenOnly))
        if (each->m_stale)
            each->run();
}

void WhenSeen::catchUp(QWidget *whole)
{
    runAllOf(whole);
    for (QWidget *each : whole->findChildren<QWidget *>())
        if (each->isVisibleTo(whole))
            runAllOf(each);
}

bool WhenSeen::eventFilter(QObject *watched, QEvent *event)
{
    const bool shown = event->type() == QEvent::Show;
    const bool moved = event->type() == QEvent::Resize || event->type() == QEvent::Move;
    if (m_stale && watched == m_widget && (shown || (moved && inSight())))
        runAllOf(m_widget);
    return QObject::eventFilter(watched, event);
}

} // namespace planloom::ui
