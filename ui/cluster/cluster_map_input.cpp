// SPDX-License-Identifier: GPL-3.0-or-later
// ClusterMap's reaction to mouse and keyboard.
#include "ui/cluster/cluster_map.h"
#include "ui/widgets/tool_tip.h"

#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <cmath>
#include <limits>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kWheelZoom = 1.2; // per notch
constexpr int kNotch = 120;        // of QWheelEvent::angleDelta
constexpr int kDragStart = 3;      // pixels

} // namespace

// --- mouse

void ClusterMap::mousePressEvent(QMouseEvent *event)
{
    m_press = m_last = event->pos();
    m_pressed = event->button() == Qt::LeftButton || event->button() == Qt::MiddleButton;
    m_panned = false;
}

void ClusterMap::mouseMoveEvent(QMouseEvent *event)
{
    if (m_pressed) {
        m_panned = m_panned || (event->pos() - m_press).manhattanLength() > kDragStart;
        if (m_panned) {
            m_origin += event->pos() - m_last;
            moved();
        }
    } else if (m_cluster) {
        const ClusterPart part = partAt(event->position());
        const bool thing = part.kind != ClusterPart::Kind::None && part.kind != ClusterPart::Kind::Node;
        const int link = part.kind == ClusterPart::Kind::Link ? static_cast<int>(part.index) : -1;
        setCursor(m_linkFrom >= 0 ? Qt::CrossCursor : thing ? Qt::PointingHandCursor : Qt::ArrowCursor);
        if (std::exchange(m_hoverLink, link) != link || m_linkFrom >= 0)
            update();
    }
    m_last = event->pos();
}

void ClusterMap::mouseReleaseEvent(QMouseEvent *event)
{
    const bool clicked = m_pressed && !m_panned && event->button() == Qt::LeftButton;
    m_pressed = false;
    if (!clicked || !m_cluster)
        return;
    const ClusterPart part = partAt(event->position());
    if (m_linkFrom >= 0)
        endLink(part);
    else
        pick(part);
}

void ClusterMap::pick(const ClusterPart &part)
{
    const auto index = static_cast<int>(part.index);
    switch (part.kind) {
    case ClusterPart::Kind::Device: Q_EMIT devicePicked(index); break;
    case ClusterPart::Kind::Vertex: Q_EMIT vertexPicked(index); break;
    case ClusterPart::Kind::Link: Q_EMIT linkPicked(index); break;
    case ClusterPart::Kind::Node:
        if (aggregated() && !m_collapsed)
            Q_EMIT devicePicked(m_cluster->nodes()[part.index].devices.front().value);
        else
            Q_EMIT nodePicked(index);
        break;
    case ClusterPart::Kind::None: Q_EMIT cleared(); break;
    }
}

void ClusterMap::endLink(const ClusterPart &part)
{
    int vertex = -1;
    if (part.kind == ClusterPart::Kind::Device)
        vertex = static_cast<int>(m_cluster->vertexOf(DeviceId(static_cast<std::int64_t>(part.index))));
    else if (part.kind == ClusterPart::Kind::Vertex)
        vertex = static_cast<int>(part.index);
    if (vertex >= 0 && vertex != m_linkFrom)
        Q_EMIT linkEndPicked(vertex);
}

void ClusterMap::contextMenuEvent(QContextMenuEvent *event)
{
    if (event->reason() != QContextMenuEvent::Mouse) {
        const bool seen = m_cluster && m_device.valid();
        Q_EMIT menuAsked(mapToGlobal((seen ? boxOf(m_device).center() : QPointF(rect().center())).toPoint()));
        return;
    }
    pick(partAt(event->pos()));
    Q_EMIT menuAsked(event->globalPos());
}

void ClusterMap::wheelEvent(QWheelEvent *event)
{
    const QPoint delta = event->angleDelta();
    if (event->modifiers() & Qt::ControlModifier) {
        zoom(std::pow(kWheelZoom, delta.y() / static_cast<double>(kNotch)), event->position());
    } else {
        const bool sideways = event->modifiers() & Qt::ShiftModifier;
        m_origin += sideways ? QPointF(delta.y(), delta.x()) / 2 : QPointF(delta) / 2;
        moved();
    }
    event->accept();
}

void ClusterMap::leaveEvent(QEvent *)
{
    m_hoverLink = -1;
    update();
}

bool ClusterMap::event(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange
        || event->type() == QEvent::FontChange)
        redraw();
    return answerToolTip(event, this, [this](const QPoint &at) { return describe(at); }) || QWidget::event(event);
}

// --- keyboard

/// To the nearest device in a direction; sideways distance counts double, so that rows and columns are kept.
void ClusterMap::walk(int dx, int dy)
{
    if (!m_cluster || m_layout.vertices.empty())
        return;
    if (!m_device.valid()) {
        Q_EMIT devicePicked(0);
        return;
    }
    const QPointF from = m_layout.vertices[m_cluster->vertexOf(m_device)].center();
    DeviceId nearest;
    double least = std::numeric_limits<double>::max();
    for (const cluster::Device &device : m_cluster->devices()) {
        const QPointF step = m_layout.vertices[m_cluster->vertexOf(device.id)].center() - from;
        const double ahead = step.x() * dx + step.y() * dy;
        const double aside = std::abs(dx != 0 ? step.y() : step.x());
        if (ahead < 1 || ahead + 2 * aside >= least)
            continue;
        nearest = device.id;
        least = ahead + 2 * aside;
    }
    if (nearest.valid())
        Q_EMIT devicePicked(nearest.value);
}

void ClusterMap::keyPressEvent(QKeyEvent *event)
{
    switch (event->key()) {
    case Qt::Key_Left: return walk(-1, 0);
    case Qt::Key_Right: return walk(1, 0);
    case Qt::Key_Up: return walk(0, -1);
    case Qt::Key_Down: return walk(0, 1);
    case Qt::Key_Space: return fit();
    case Qt::Key_Plus: return zoom(kWheelZoom, drawingArea().center());
    case Qt::Key_Minus: return zoom(1 / kWheelZoom, drawingArea().center());
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (m_linkFrom >= 0 && m_device.valid())
            endLink({ClusterPart::Kind::Device, m_device.index()});
        return;
    case Qt::Key_Escape:
        if (m_linkFrom >= 0)
            return setLinkFrom(-1);
        Q_EMIT cleared();
        return;
    default: QWidget::keyPressEvent(event);
    }
}

void ClusterMap::focusInEvent(QFocusEvent *event)
{
    QWidget::focusInEvent(event);
    update();
}

void ClusterMap::focusOutEvent(QFocusEvent *event)
{
    QWidget::focusOutEvent(event);
    update();
}

} // namespace planloom::ui
