// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/graph_overview.h"

#include "ui/model/graph_canvas.h"
#include "ui/theme/theme.h"

#include <QMouseEvent>
#include <QPainter>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr double kOverviewWidth = 150, kOverviewHeight = 120; // pixels, at most
constexpr double kShareOfView = 0.3;                          // that it covers at most, of a side
constexpr int kOverviewMargin = 6;
constexpr int kLeastSide = 24; // smaller ones say nothing

} // namespace

GraphOverview::GraphOverview(GraphCanvas *canvas) : QWidget(canvas), m_canvas(canvas)
{
    setAttribute(Qt::WA_OpaquePaintEvent);
    setCursor(Qt::PointingHandCursor);
    setToolTip(tr("The whole graph; click to go there"));
    setAccessibleName(tr("Overview of the graph"));
    setAccessibleDescription(tr("A click moves the graph there"));
    hide();
}

double GraphOverview::scale() const { return width() / std::max(m_canvas->whole().width(), 1.0); }

void GraphOverview::redraw()
{
    m_picture = {};
    follow();
}

void GraphOverview::follow()
{
    const QRectF whole = m_canvas->whole();
    const QRectF room = m_canvas->viewport()->rect();
    const double fits =
        std::min({kOverviewWidth / std::max(whole.width(), 1.0), kOverviewHeight / std::max(whole.height(), 1.0),
                  kShareOfView * room.width() / std::max(whole.width(), 1.0),
                  kShareOfView * room.height() / std::max(whole.height(), 1.0)});
    const QSize wanted = (whole.size() * fits).toSize();
    const bool all = m_canvas->seen().adjusted(-1, -1, 1, 1).contains(whole);
    const bool shown = !all && !m_canvas->boxes().empty() && std::min(wanted.width(), wanted.height()) >= kLeastSide;
    if (shown) {
        if (wanted != size())
            m_picture = {};
        setGeometry(QRect(QPoint(static_cast<int>(room.right()) - wanted.width() - kOverviewMargin,
                                 static_cast<int>(room.bottom()) - wanted.height() - kOverviewMargin),
                          wanted));
        update();
    }
    setVisible(shown);
}

QRectF GraphOverview::frame() const
{
    const QRectF seen = m_canvas->seen();
    return {(seen.topLeft() - m_canvas->whole().topLeft()) * scale(), seen.size() * scale()};
}

void GraphOverview::paintEvent(QPaintEvent *)
{
    const qreal ratio = devicePixelRatioF();
    if (m_picture.size() != size() * ratio) {
        m_picture = QPixmap(size() * ratio);
        m_picture.setDevicePixelRatio(ratio);
        m_picture.fill(theme().base);
        QPainter drawing(&m_picture);
        drawing.setRenderHint(QPainter::Antialiasing);
        m_canvas->paintWhole(drawing, QRectF(rect()));
    }
    QPainter painter(this);
    painter.drawPixmap(0, 0, m_picture);
    painter.setPen(QPen(theme().accent, 2));
    painter.drawRect(frame().intersected(QRectF(rect())).adjusted(1, 1, -1, -1));
    painter.setPen(theme().border);
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

void GraphOverview::moveTo(const QPointF &pixel) { m_canvas->lookAt(m_canvas->whole().topLeft() + pixel / scale()); }

void GraphOverview::mousePressEvent(QMouseEvent *event) { moveTo(event->position()); }

void GraphOverview::mouseMoveEvent(QMouseEvent *event) { moveTo(event->position()); }

void GraphOverview::changeEvent(QEvent *event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        redraw();
}

} // namespace planloom::ui
