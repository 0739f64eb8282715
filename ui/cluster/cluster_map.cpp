// SPDX-License-Identifier: GPL-3.0-or-later
// Content of ClusterMap.
#include "ui/cluster/cluster_map.h"

#include "ui/state/cluster_edit.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QAccessible>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

constexpr double kLeastDevice = 9; // pixels of width, below which nodes show counts
constexpr double kMostScale = 4;
constexpr double kFitScale = 1.5; // a small cluster is not blown up further than this
constexpr double kLinkReach = 4;  // pixels beside a link that still hit it
constexpr double kMargin = 4;
constexpr std::size_t kManyDevices = 1024;
constexpr int kSharpenAfter = 120; // milliseconds without a movement

} // namespace

QString linkRateText(double bytesPerSecond) { return QStringLiteral("%1 GB/s").arg(bytesPerSecond / 1e9, 0, 'g', 4); }

ClusterMap::ClusterMap(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Map of the cluster"));
    m_sharpen.setSingleShot(true);
    m_sharpen.setInterval(kSharpenAfter);
    connect(&m_sharpen, &QTimer::timeout, this, &ClusterMap::redraw);
}

void ClusterMap::setCluster(const ClusterPtr &cluster)
{
    const bool sameShape = m_cluster && cluster && m_cluster->devices().size() == cluster->devices().size()
        && m_cluster->links().size() == cluster->links().size() && m_cluster->name() == cluster->name();
    m_cluster = cluster;
    m_hoverLink = -1;
    m_linkFrom = -1;
    if (!cluster || m_device.value >= static_cast<int>(cluster->devices().size()))
        m_device = {};
    if (!sameShape) {
        m_fitted = true;
        m_part = {};
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
    const bool known = m_cluster && device.valid() && device.index() < m_cluster->devices().size();
    m_device = known ? device : DeviceId();
    m_stage = stage;
    describeForReaders();
    if (drawnAhead() && !aggregated()) // the picture has it
        redraw();
    else
        update();
}

void ClusterMap::setLink(int link)
{
    m_link = link;
    update();
}

void ClusterMap::setPart(const ClusterPart &part)
{
    m_part = part;
    update();
}

void ClusterMap::setFailed(std::vector<bool> devices)
{
    m_failed = std::move(devices);
    describeForReaders();
    redraw();
}

void ClusterMap::setCollapsed(bool collapsed)
{
    m_collapsed = collapsed;
    m_fitted = true;
    arrange();
}

void ClusterMap::setLinkFrom(int vertex)
{
    m_linkFrom = vertex;
    update();
}

void ClusterMap::moved()
{
    m_fitted = false;
    if (!drawnAhead() || m_picture.isNull())
        return redraw();
    m_sharpen.start();
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
        m_layout = layOut(*m_cluster, drawingArea().width() / drawingArea().height(), m_collapsed);
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
    moved();
}

void ClusterMap::resizeEvent(QResizeEvent *) { arrange(); }

bool ClusterMap::aggregated() const { return m_collapsed || ClusterLayout::kDeviceWidth * m_scale < kLeastDevice; }

bool ClusterMap::drawnAhead() const
{
    return aggregated() || (m_cluster && m_cluster->devices().size() > kManyDevices);
}

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

/// Of switches, cards and networks.
int ClusterMap::vertexAt(const QPointF &pixel) const
{
    const QPointF at = toLayout(pixel);
    for (std::size_t v = 0; v < m_layout.vertices.size(); ++v) {
        const cluster::Vertex &vertex = m_cluster->vertices()[v];
        if (vertex.kind != cluster::Vertex::Kind::Device && !(aggregated() && vertex.node.valid())
            && m_layout.vertices[v].contains(at))
            return static_cast<int>(v);
    }
    return -1;
}

/// Boxes lie above links, and these above nodes.
ClusterPart ClusterMap::partAt(const QPointF &pixel) const
{
    if (!m_cluster)
        return {};
    if (const DeviceId device = deviceAt(pixel); device.valid())
        return {ClusterPart::Kind::Device, device.index()};
    if (const int vertex = vertexAt(pixel); vertex >= 0)
        return {ClusterPart::Kind::Vertex, static_cast<std::size_t>(vertex)};
    if (const int link = linkAt(pixel); link >= 0)
        return {ClusterPart::Kind::Link, static_cast<std::size_t>(link)};
    if (const int node = nodeAt(pixel); node >= 0)
        return {ClusterPart::Kind::Node, static_cast<std::size_t>(node)};
    return {};
}

bool ClusterMap::linkShown(std::size_t link) const { return m_layout.first[link] || !aggregated(); }

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
        if (!linkShown(i) || !m_layout.linkBoxes[i].adjusted(-reach, -reach, reach, reach).contains(at))
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
             QString::fromUtf8(kindName(each.kind)), linkRateText(each.pointToPoint), linkRateText(each.collective),
             secondsText(each.latency.value()), each.fullDuplex ? tr("full duplex") : tr("half duplex"));
}

QString ClusterMap::describeDevice(DeviceId device) const
{
    const cluster::DeviceType &type = m_cluster->typeOf(device);
    const std::vector<int> &stages = stagesOn(device);
    const QString held = stages.empty() ? tr("idle")
        : stages.size() == 1            ? tr("stage %1").arg(stages.front())
                                        : tr("stages %1").arg(numbersText(stages));
    return tr("%1: %2, %3\n%4%5")
        .arg(qt(m_cluster->device(device).name), qt(type.name), bytesText(type.memory.value()), held,
             failed(device) ? tr(", failed") : QString());
}

QString ClusterMap::describeVertex(std::size_t vertex) const
{
    const auto ends = [vertex](const cluster::Link &link) { return link.a == vertex || link.b == vertex; };
    return tr("%1: %2 links")
        .arg(qt(m_cluster->vertices()[vertex].name))
        .arg(std::count_if(m_cluster->links().begin(), m_cluster->links().end(), ends));
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
    const ClusterPart part = partAt(pixel);
    switch (part.kind) {
    case ClusterPart::Kind::Device: return describeDevice(DeviceId(static_cast<std::int64_t>(part.index)));
    case ClusterPart::Kind::Vertex: return describeVertex(part.index);
    case ClusterPart::Kind::Link: return describeLink(part.index);
    case ClusterPart::Kind::Node: return describeNode(part.index);
    case ClusterPart::Kind::None: break;
    }
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

} // namespace planloom::ui
