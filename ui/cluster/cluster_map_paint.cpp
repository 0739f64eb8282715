// SPDX-License-Identifier: GPL-3.0-or-later
// How ClusterMap looks.
#include "ui/state/cluster_edit.h"
#include "ui/cluster/cluster_map.h"
#include "ui/theme/theme.h"
#include "ui/widgets/stage_style.h"
#include "ui/widgets/text.h"

#include <QPainter>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace planloom::ui {

namespace {

constexpr double kThin = 1.2, kThick = 5; // pixels of the slowest and the fastest link, at full size
constexpr qsizetype kLeastLetters = 3;    // fewer, with dots, say nothing
constexpr double kRoomForText = 13;       // height of a box from which something is written in it
constexpr double kDashScale = 0.3;        // below, dashes are as small as the gaps in a node and cost most of the time
constexpr int kLegendRow = 20;
constexpr int kSample = 30; // length of a line of the legend
constexpr double kLegendGap = 8;
constexpr int kLinkKinds = 4;

/// Kinds differ by dash as well as by colour.
QPen penOf(cluster::Link::Kind kind)
{
    switch (kind) {
    case cluster::Link::Kind::NvLink: return {theme().ofSeries(2), 1, Qt::SolidLine, Qt::FlatCap};
    case cluster::Link::Kind::Pcie: return {theme().ofSeries(4), 1, Qt::DashLine, Qt::FlatCap};
    case cluster::Link::Kind::Network: return {theme().ofSeries(3), 1, Qt::DashDotLine, Qt::FlatCap};
    case cluster::Link::Kind::Memory: return {theme().ofSeries(7), 1, Qt::DotLine, Qt::FlatCap};
    }
    return {theme().border};
}

void drawFitting(QPainter &painter, const QRectF &box, const QString &text, Qt::Alignment alignment = Qt::AlignHCenter)
{
    const QFontMetrics metrics = painter.fontMetrics();
    if (box.height() < kRoomForText || box.width() < metrics.horizontalAdvance(QStringLiteral("00")))
        return;
    const QString fitting = metrics.elidedText(text, Qt::ElideMiddle, static_cast<int>(box.width()));
    if (fitting.size() >= std::min<qsizetype>(text.size(), kLeastLetters))
        painter.drawText(box, alignment | Qt::AlignVCenter, fitting);
}

} // namespace

double ClusterMap::penWidth(std::size_t link) const
{
    const double range = std::log(m_fastest / m_slowest);
    const double share = range > 0 ? std::log(m_cluster->links()[link].pointToPoint / m_slowest) / range : 0.5;
    return std::max((kThin + (kThick - kThin) * share) * std::min(m_scale, 1.0), 1.0);
}

void ClusterMap::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (!m_cluster || m_layout.bounds.isEmpty()) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("No cluster. Open one with File ▸ Open cluster."));
    } else {
        painter.setRenderHint(QPainter::Antialiasing, m_scale >= kDashScale);
        painter.setClipRect(rect().adjusted(0, 0, 0, -legendHeight()));
        paintPicture(painter);
        paintPart(painter);
        paintNewLink(painter);
        painter.setClipping(false);
        legend(&painter);
        painter.setRenderHint(QPainter::Antialiasing, false);
    }
    if (!hasFocus())
        return;
    painter.setPen(QPen(theme().accent, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
}

void ClusterMap::paintMap(QPainter &painter) const
{
    paintNodes(painter);
    paintLinks(painter);
    paintNetworks(painter);
}

void ClusterMap::paintPicture(QPainter &painter)
{
    if (!drawnAhead())
        return paintMap(painter);
    const qreal ratio = devicePixelRatioF();
    if (m_stale || m_picture.size() != size() * ratio) {
        m_picture = QPixmap(size() * ratio);
        m_picture.setDevicePixelRatio(ratio);
        m_picture.fill(theme().base);
        QPainter drawing(&m_picture);
        drawing.setFont(font());
        drawing.setRenderHints(painter.renderHints());
        const int hovered = std::exchange(m_hoverLink, -1);
        const int selected = std::exchange(m_link, -1);
        paintMap(drawing);
        m_hoverLink = hovered;
        m_link = selected;
        m_stale = false;
        m_pictureScale = m_scale;
        m_pictureOrigin = m_origin;
    }
    const double larger = m_scale / m_pictureScale;
    painter.drawPixmap(QRectF(m_origin - m_pictureOrigin * larger, QSizeF(size()) * larger), m_picture,
                       QRectF(m_picture.rect()));
    if (m_hoverLink >= 0 || m_link >= 0) {
        paintMarkedLinks(painter);
        paintNetworks(painter);
    }
    if (m_device.valid() && aggregated()) {
        painter.setPen(QPen(theme().accent, 3));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(toPixel(m_layout.nodes[m_cluster->device(m_device).node.index()]), 3, 3);
    }
}

/// The selected and the hovered one last, above the others; boxes above all links.
void ClusterMap::paintLinks(QPainter &painter) const
{
    for (std::size_t i = 0; i < m_layout.links.size(); ++i) {
        if (linkShown(i) && static_cast<int>(i) != m_link && static_cast<int>(i) != m_hoverLink)
            paintLink(painter, i);
    }
    paintMarkedLinks(painter);
    if (aggregated())
        return;
    const QRectF seen = QRectF(rect());
    for (std::size_t n = 0; n < m_layout.nodes.size(); ++n) {
        if (!toPixel(m_layout.nodes[n]).intersects(seen))
            continue;
        for (const DeviceId device : m_cluster->nodes()[n].devices)
            paintDevice(painter, device);
    }
    for (std::size_t v = 0; v < m_cluster->vertices().size(); ++v) {
        const cluster::Vertex &vertex = m_cluster->vertices()[v];
        if (vertex.kind != cluster::Vertex::Kind::Device && vertex.node.valid())
            paintVertex(painter, v);
    }
}

void ClusterMap::paintMarkedLinks(QPainter &painter) const
{
    for (const int marked : {m_hoverLink, m_link}) {
        if (marked >= 0 && static_cast<std::size_t>(marked) < m_layout.links.size())
            paintLink(painter, static_cast<std::size_t>(marked));
    }
}

void ClusterMap::paintLink(QPainter &painter, std::size_t link) const
{
    const QMarginsF room(kThick, kThick, kThick, kThick); // of a line without width or height, too
    if (!toPixel(m_layout.linkBoxes[link]).marginsAdded(room).intersects(QRectF(rect())))
        return;
    QPolygonF line = m_layout.links[link];
    for (QPointF &point : line)
        point = toPixel(point);
    QPen pen = penOf(m_cluster->links()[link].kind);
    pen.setWidthF(penWidth(link));
    if (m_scale < kDashScale)
        pen.setStyle(Qt::SolidLine);
    const bool marked = static_cast<int>(link) == m_link;
    if (marked || static_cast<int>(link) == m_hoverLink) {
        pen.setColor(marked ? theme().accent : theme().cursor);
        pen.setWidthF(pen.widthF() + 2);
    }
    painter.setPen(pen);
    painter.setBrush(Qt::NoBrush);
    painter.drawPolyline(line);
}

void ClusterMap::paintNodes(QPainter &painter) const
{
    const QRectF seen = QRectF(rect());
    for (std::size_t n = 0; n < m_layout.nodes.size(); ++n) {
        const QRectF box = toPixel(m_layout.nodes[n]);
        if (!box.intersects(seen))
            continue;
        painter.setPen(QPen(theme().border, 1));
        painter.setBrush(theme().alternateBase);
        if (box.height() < kRoomForText) // round corners cannot be seen, and cost most
            painter.drawRect(box);
        else
            painter.drawRoundedRect(box, 4, 4);
        if (aggregated()) {
            paintCount(painter, n);
            continue;
        }
        painter.setPen(theme().dimText);
        const double title = std::min(22.0 * m_scale, 22.0);
        drawFitting(painter, QRectF(box.left() + 8, box.top(), box.width() - 16, title), describeNode(n),
                    Qt::AlignLeft);
    }
}

/// One node too small for its devices: how many there are, over a strip of their stages.
void ClusterMap::paintCount(QPainter &painter, std::size_t node) const
{
    const QRectF box = toPixel(m_layout.nodes[node]);
    const auto &devices = m_cluster->nodes()[node].devices;
    const double strip = std::max(box.height() / 3, std::min(box.height(), 3.0));
    const double each = box.width() / static_cast<double>(devices.size());
    const auto stageOf = [&](std::size_t device) {
        const std::vector<int> &stages = stagesOn(devices[device]);
        return stages.empty() ? -1 : stages.front();
    };
    for (std::size_t i = 0; i < devices.size();) {
        const int stage = stageOf(i);
        const std::size_t first = i;
        while (i < devices.size() && stageOf(i) == stage)
            ++i;
        const QRectF place(box.left() + static_cast<double>(first) * each, box.bottom() - strip,
                           static_cast<double>(i - first) * each, strip);
        painter.fillRect(place, stage < 0 ? QBrush(theme().bubble) : stageBrush(stage));
    }
    painter.setPen(theme().text);
    const QString count = QString::number(devices.size());
    const QString whole = tr("%1 · %2").arg(qt(m_cluster->nodes()[node].name), count);
    const QRectF room = box.adjusted(0, 0, 0, -strip);
    drawFitting(painter, room, painter.fontMetrics().horizontalAdvance(whole) <= room.width() ? whole : count);
    if (std::any_of(devices.begin(), devices.end(), [this](DeviceId device) { return failed(device); }))
        paintFailed(painter, box);
}

/// Crossed out: seen without colour, too.
void ClusterMap::paintFailed(QPainter &painter, const QRectF &box) const
{
    painter.setPen(QPen(theme().error, 2));
    painter.drawLine(box.topLeft(), box.bottomRight());
    painter.drawLine(box.bottomLeft(), box.topRight());
}

void ClusterMap::paintPart(QPainter &painter) const
{
    const bool node = m_part.kind == ClusterPart::Kind::Node && m_part.index < m_layout.nodes.size();
    const bool vertex = m_part.kind == ClusterPart::Kind::Vertex && m_part.index < m_layout.vertices.size();
    if (!node && !vertex)
        return;
    painter.setPen(QPen(theme().accent, 3));
    painter.setBrush(Qt::NoBrush);
    painter.drawRoundedRect(toPixel(node ? m_layout.nodes[m_part.index] : m_layout.vertices[m_part.index]), 4, 4);
}

/// From its first end to the mouse, or to the selected device.
void ClusterMap::paintNewLink(QPainter &painter) const
{
    if (m_linkFrom < 0 || static_cast<std::size_t>(m_linkFrom) >= m_layout.vertices.size())
        return;
    const QPointF from = boxOfVertex(static_cast<std::size_t>(m_linkFrom)).center();
    painter.setPen(QPen(theme().accent, 2, Qt::DashLine));
    painter.drawLine(from, underMouse() || !m_device.valid() ? QPointF(m_last) : boxOf(m_device).center());
}

void ClusterMap::paintNetworks(QPainter &painter) const
{
    for (std::size_t v = 0; v < m_cluster->vertices().size(); ++v) {
        if (!m_cluster->vertices()[v].node.valid())
            paintVertex(painter, v);
    }
}

void ClusterMap::paintVertex(QPainter &painter, std::size_t vertex) const
{
    const QRectF box = toPixel(m_layout.vertices[vertex]);
    if (!box.intersects(QRectF(rect())))
        return;
    painter.setPen(QPen(theme().border, 1));
    painter.setBrush(theme().button);
    painter.drawRoundedRect(box, 3, 3);
    painter.setPen(theme().text);
    // Inside a node its name goes without saying: "n0:nvswitch" is "nvswitch" there.
    QString name = qt(m_cluster->vertices()[vertex].name);
    if (m_cluster->vertices()[vertex].node.valid())
        name = name.section(QLatin1Char(':'), -1);
    drawFitting(painter, box.adjusted(2, 0, -2, 0), name);
}

void ClusterMap::paintDevice(QPainter &painter, DeviceId device) const
{
    const QRectF box = boxOf(device);
    const std::vector<int> &stages = stagesOn(device);
    const int stage = stages.empty() ? -1 : stages.front();
    const bool selected = device == m_device;
    const bool ofStage = std::find(stages.begin(), stages.end(), m_stage) != stages.end();
    painter.setPen(ofStage || selected ? QPen(theme().text, 2) : QPen(theme().border, 1));
    painter.setBrush(stage < 0 ? QBrush(theme().bubble) : stageBrush(stage));
    painter.drawRoundedRect(box, 3, 3);
    if (selected) { // a ring around it, with air between: seen on any colour
        painter.setPen(QPen(theme().accent, 3));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(box.adjusted(-3.5, -3.5, 3.5, 3.5), 5, 5);
    }
    if (failed(device))
        paintFailed(painter, box);
    const double line = painter.fontMetrics().height();
    const QString name = qt(m_cluster->device(device).name).section(QLatin1Char(':'), -1);
    const QString mark = failed(device) ? tr("failed") : stage < 0 ? tr("idle") : tr("S%1").arg(numbersText(stages));
    const bool two = box.height() >= 2 * line + 6;
    if (box.height() < kRoomForText || box.width() < 16)
        return;
    // On a plate of one colour, so that the hatch does not run through the letters.
    const double wide =
        std::max(painter.fontMetrics().horizontalAdvance(mark), two ? painter.fontMetrics().horizontalAdvance(name) : 0)
        + 8;
    QRectF plate(0, 0, std::min(wide, box.width() - 4), std::min((two ? 2 : 1) * line + 2, box.height() - 4));
    plate.moveCenter(box.center());
    const QColor paper = stage < 0 ? theme().bubble : theme().ofSeries(stage);
    painter.fillRect(plate, paper);
    painter.setPen(stage < 0 ? theme().dimText : textOn(paper));
    painter.drawText(plate, Qt::AlignCenter,
                     two ? mark + QLatin1Char('\n')
                             + painter.fontMetrics().elidedText(name, Qt::ElideRight, static_cast<int>(plate.width()))
                         : mark);
}

QStringList ClusterMap::legendTexts() const
{
    std::map<cluster::Link::Kind, std::pair<double, double>> rates;
    for (const cluster::Link &link : m_cluster->links()) {
        auto &[least, most] = rates.try_emplace(link.kind, link.pointToPoint, link.pointToPoint).first->second;
        least = std::min(least, link.pointToPoint);
        most = std::max(most, link.pointToPoint);
    }
    QStringList texts;
    for (int kind = 0; kind < kLinkKinds; ++kind) {
        const auto found = rates.find(static_cast<cluster::Link::Kind>(kind));
        texts << QString();
        if (found == rates.end())
            continue;
        const auto [least, most] = found->second;
        texts.last() =
            QStringLiteral("%1 %2").arg(QString::fromUtf8(kindName(found->first))).arg(least / 1e9, 0, 'g', 4);
        if (most > least)
            texts.last() += QStringLiteral(" – %1").arg(most / 1e9, 0, 'g', 4);
        texts.last() += tr(" GB/s");
    }
    return texts;
}

/// Draws with a painter; without one only returns the number of rows.
int ClusterMap::legend(QPainter *painter) const
{
    const QFontMetrics metrics(font());
    double x = kLegendGap;
    int row = 0;
    const double top = height() - (painter ? legendHeight() : 0);
    for (int kind = 0; kind < kLinkKinds; ++kind) {
        const QString &text = m_legend.value(kind);
        if (text.isEmpty())
            continue;
        const double wide = kSample + 5 + metrics.horizontalAdvance(text);
        if (x > kLegendGap && x + wide + kLegendGap > width()) {
            x = kLegendGap;
            ++row;
        }
        if (painter) {
            const QRectF box(x, top + row * kLegendRow, wide + 2, kLegendRow);
            QPen pen = penOf(static_cast<cluster::Link::Kind>(kind));
            pen.setWidthF(3);
            painter->setPen(pen);
            painter->drawLine(QPointF(x, box.center().y()), QPointF(x + kSample, box.center().y()));
            painter->setPen(theme().dimText);
            painter->drawText(box.adjusted(kSample + 5, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft, text);
        }
        x += wide + 2 * kLegendGap;
    }
    return row + 1;
}

int ClusterMap::legendHeight() const { return legend(nullptr) * kLegendRow + 2; }

} // namespace planloom::ui
