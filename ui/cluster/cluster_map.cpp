// SPDX-License-Identifier: GPL-3.0-or-later
// Content of ClusterMap, and its reaction to mouse and keyboard.
#include "ui/cluster/cluster_map.h"

#include "ui/state/cluster_edit.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QAccessible>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

constexpr double kLeastDevice = 9; // pixels of width, below which nodes show counts
constexpr double kMostScale = 4;
constexpr double kFitScale = 1.5;  // a small cluster is not blown up further than this
constexpr double kWheelZoom = 1.2; // per notch
constexpr int kNotch = 120;        // of QWheelEvent::angleDelta
constexpr int kDragStart = 3;      // pixels
constexpr double kLinkReach = 4;   // pixels beside a link that still hit it
constexpr double kMargin = 4;

QString rateText(double bytesPerSecond) { return QStringLiteral("%1 GB/s").arg(bytesPerSecond / 1e9, 0, 'g', 4); }

} // namespace

ClusterMap::ClusterMap(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Map of the cluster"));
}

void ClusterMap::setCluster(const ClusterPtr &cluster)
{
    const bool sameShape = m_cluster && cluster && m_cluster->devices().size() == cluster->devices().size()
        && m_cluster->links().size() == cluster->links().size() && m_cluster->name() == cluster->name();
    m_cluster = cluster;
    m_hoverLink = -1;
    if (!sameShape) {
        m_fitted = true;
        m_link = -1;
        m_stages.clear();
    }
    m_slowest = std::numeric_limits<double>::max();
    m_fastest = 0;
    m_legend.clear();
    if (cluster) {
        m_legend = legendTexts();
        for (const cluster::Link &link : cluster->links()) {
            m_slowest = std::min(m_slowest, link.pointToPoint);
            m_fastest = std::max(m_fastest, link.pointToPoint);
        }
    }
    arrange();
    describeForReaders();
}

void ClusterMap::setStages(std::vector<std::vector<int>> stages)
{
    m_stages = std::move(stages);
    redraw();
}

const std::vector<int> &ClusterMap::stagesOn(DeviceId device) const
{
    static const std::vector<int> none;
    return device.index() < m_stages.size() ? m_stages[device.index()] : none;
}

void ClusterMap::setSelection(DeviceId device, int stage)
{
    m_device = device;
    m_stage = stage;
    describeForReaders();
    update();
}

void ClusterMap::setLink(int link)
{
    m_link = link;
    update();
}

void ClusterMap::redraw()
{
    m_stale = true;
    update();
}

// --- placing

QRectF ClusterMap::drawingArea() const
{
    return QRectF(rect()).adjusted(kMargin, kMargin, -kMargin, -legendHeight() - kMargin);
}

void ClusterMap::arrange()
{
    m_layout = {};
    if (m_cluster && drawingArea().isValid())
        m_layout = layOut(*m_cluster, drawingArea().width() / drawingArea().height());
    place();
}

void ClusterMap::place()
{
    const QRectF area = drawingArea();
    if (m_fitted && !m_layout.bounds.isEmpty() && area.isValid()) {
        m_scale =
            std::min({area.width() / m_layout.bounds.width(), area.height() / m_layout.bounds.height(), kFitScale});
        m_origin = area.center() - m_layout.bounds.center() * m_scale;
    }
    redraw();
}

void ClusterMap::fit()
{
    m_fitted = true;
    place();
}

void ClusterMap::zoom(double factor, const QPointF &around)
{
    if (m_layout.bounds.isEmpty())
        return;
    const double least = 0.5
        * std::min(drawingArea().width() / m_layout.bounds.width(), drawingArea().height() / m_layout.bounds.height());
    const QPointF fixed = toLayout(around);
    m_scale = std::clamp(m_scale * factor, std::min(least, kFitScale), kMostScale);
    m_origin = around - fixed * m_scale;
    m_fitted = false;
    redraw();
}

void ClusterMap::resizeEvent(QResizeEvent *) { arrange(); }

bool ClusterMap::aggregated() const { return ClusterLayout::kDeviceWidth * m_scale < kLeastDevice; }

QRectF ClusterMap::boxOf(DeviceId device) const
{
    if (m_layout.vertices.empty())
        return {};
    return toPixel(m_layout.vertices[m_cluster->vertexOf(device)]);
}

QPointF ClusterMap::handleOf(std::size_t link) const
{
    const QPolygonF &line = m_layout.links[link];
    for (int i = 1; i < 40; ++i) { // along the line, for a place beside all boxes
        const double at = i / 40.0 * static_cast<double>(line.size() - 1);
        const auto piece = static_cast<qsizetype>(at);
        const QPointF point = line[piece]
            + (line[std::min(piece + 1, line.size() - 1)] - line[piece]) * (at - static_cast<double>(piece));
        const auto covers = [&point](const QRectF &box) { return box.adjusted(-2, -2, 2, 2).contains(point); };
        if (std::none_of(m_layout.vertices.begin(), m_layout.vertices.end(), covers))
            return toPixel(point);
    }
    return toPixel(line[0]);
}

// --- hit tests

int ClusterMap::nodeAt(const QPointF &pixel) const
{
    const auto found = std::find_if(m_layout.nodes.begin(), m_layout.nodes.end(),
                                    [at = toLayout(pixel)](const QRectF &box) { return box.contains(at); });
    return found == m_layout.nodes.end() ? -1 : static_cast<int>(found - m_layout.nodes.begin());
}

DeviceId ClusterMap::deviceAt(const QPointF &pixel) const
{
    const int node = nodeAt(pixel);
    if (node < 0 || aggregated())
        return {};
    for (const DeviceId device : m_cluster->nodes()[static_cast<std::size_t>(node)].devices) {
        if (boxOf(device).contains(pixel))
            return device;
    }
    return {};
}

bool ClusterMap::linkShown(std::size_t link) const { return m_layout.between[link] || !aggregated(); }

/// Links lie beneath the nodes where these show counts.
int ClusterMap::linkAt(const QPointF &pixel) const
{
    if (aggregated() && nodeAt(pixel) >= 0)
        return -1;
    const QPointF at = toLayout(pixel);
    int nearest = -1;
    double away = kLinkReach / m_scale;
    for (std::size_t i = 0; i < m_layout.links.size(); ++i) {
        const double reach = kLinkReach / m_scale;
        if (!linkShown(i) || !m_layout.links[i].boundingRect().adjusted(-reach, -reach, reach, reach).contains(at))
            continue;
        if (const double d = distance(m_layout.links[i], at); d <= away) {
            nearest = static_cast<int>(i);
            away = d;
        }
    }
    return nearest;
}

// --- words

QString ClusterMap::describeLink(std::size_t link) const
{
    const cluster::Link &each = m_cluster->links()[link];
    return tr("%1 – %2 (%3)\npoint to point %4, collective %5\nlatency %6, %7")
        .arg(qt(m_cluster->vertices()[each.a].name), qt(m_cluster->vertices()[each.b].name),
             QString::fromUtf8(kindName(each.kind)), rateText(each.pointToPoint), rateText(each.collective),
             secondsText(each.latency.value()), each.fullDuplex ? tr("full duplex") : tr("half duplex"));
}

QString ClusterMap::describeDevice(DeviceId device) const
{
    const cluster::DeviceType &type = m_cluster->typeOf(device);
    const std::vector<int> &stages = stagesOn(device);
    const QString held = stages.empty() ? tr("idle")
        : stages.size() == 1            ? tr("stage %1").arg(stages.front())
                                        : tr("stages %1").arg(numbersText(stages));
    return tr("%1: %2, %3\n%4")
        .arg(qt(m_cluster->device(device).name), qt(type.name), bytesText(type.memory.value()), held);
}

QString ClusterMap::describeNode(std::size_t node) const
{
    const cluster::Node &each = m_cluster->nodes()[node];
    return tr("%1: %2 × %3")
        .arg(qt(each.name))
        .arg(each.devices.size())
        .arg(qt(m_cluster->typeOf(each.devices.front()).name));
}

QString ClusterMap::describe(const QPointF &pixel) const
{
    if (!m_cluster)
        return {};
    if (const DeviceId device = deviceAt(pixel); device.valid())
        return describeDevice(device);
    if (const int link = linkAt(pixel); link >= 0)
        return describeLink(static_cast<std::size_t>(link));
    if (const int node = nodeAt(pixel); node >= 0)
        return describeNode(static_cast<std::size_t>(node));
    return {};
}

void ClusterMap::describeForReaders()
{
    QString text = tr("No cluster");
    if (m_cluster)
        text = tr("%1 nodes, %2 devices, %3 links")
                   .arg(m_cluster->nodes().size())
                   .arg(m_cluster->devices().size())
                   .arg(m_cluster->links().size());
    if (m_cluster && m_device.valid() && m_device.index() < m_cluster->devices().size())
        text = describeDevice(m_device);
    if (text == accessibleDescription())
        return;
    setAccessibleDescription(text);
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
}

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
            m_fitted = false;
            redraw();
        }
    } else if (m_cluster) {
        const DeviceId device = deviceAt(event->position());
        const int link = device.valid() ? -1 : linkAt(event->position());
        setCursor(device.valid() || link >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
        if (std::exchange(m_hoverLink, link) != link)
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
    if (const DeviceId device = deviceAt(event->position()); device.valid())
        Q_EMIT devicePicked(device.value);
    else if (const int link = linkAt(event->position()); link >= 0)
        Q_EMIT linkPicked(link);
    else if (const int node = nodeAt(event->position()); node >= 0 && aggregated())
        Q_EMIT devicePicked(m_cluster->nodes()[static_cast<std::size_t>(node)].devices.front().value);
    else
        Q_EMIT cleared();
}

void ClusterMap::wheelEvent(QWheelEvent *event)
{
    const QPoint delta = event->angleDelta();
    if (event->modifiers() & Qt::ControlModifier) {
        zoom(std::pow(kWheelZoom, delta.y() / static_cast<double>(kNotch)), event->position());
    } else {
        const bool sideways = event->modifiers() & Qt::ShiftModifier;
        m_origin += sideways ? QPointF(delta.y(), delta.x()) / 2 : QPointF(delta) / 2;
        m_fitted = false;
        redraw();
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
    case Qt::Key_Escape: Q_EMIT cleared(); return;
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
