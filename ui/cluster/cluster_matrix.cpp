// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_matrix.h"

#include "engine/cluster/routes.h"
#include "ui/cluster/cluster_map.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

constexpr double kNameWidth = 76;  // of a row
constexpr double kNameHeight = 18; // of a column
constexpr double kGrid = 6;        // pixels of a cell from which its edges are drawn
constexpr double kMostSide = 96;
constexpr double kWidestShape = 2.5; // of the matrix, width over height

QString figureOf(const Way &way, bool latency)
{
    return latency ? secondsText(way.latency.value()) : QString::number(way.bandwidth / 1e9, 'g', 3);
}

} // namespace

// --- figures

ClusterMatrixData::ClusterMatrixData(const cluster::Cluster &cluster)
{
    m_byNode = cluster.devices().size() > kMostDevices;
    m_rowOf.resize(cluster.devices().size());
    const std::size_t nodes = cluster.nodes().size();
    const std::size_t run = (nodes + kMostNodes - 1) / kMostNodes;
    for (std::size_t n = 0; m_byNode && n < nodes; n += run) {
        const cluster::Node &first = cluster.nodes()[n];
        const cluster::Node &last = cluster.nodes()[std::min(n + run, nodes) - 1];
        Row row{first.name, first.devices.front(), run > 1 ? last.devices.front() : first.devices.back(), 0};
        if (first.id != last.id)
            row.name += " – " + last.name;
        for (std::size_t each = n; each < std::min(n + run, nodes); ++each) {
            for (const DeviceId device : cluster.nodes()[each].devices)
                m_rowOf[device.index()] = m_rows.size();
            row.devices += cluster.nodes()[each].devices.size();
        }
        m_rows.push_back(std::move(row));
    }
    for (std::size_t d = 0; !m_byNode && d < cluster.devices().size(); ++d) {
        m_rowOf[d] = d;
        m_rows.push_back({cluster.devices()[d].name, cluster.devices()[d].id, cluster.devices()[d].id, 1});
    }
    m_ways.reserve(m_rows.size() * m_rows.size());
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        for (std::size_t column = 0; column < m_rows.size(); ++column) {
            const auto [from, to] = ends(row, column);
            m_ways.push_back(wayBetween(cluster, from, to));
        }
    }
}

std::pair<DeviceId, DeviceId> ClusterMatrixData::ends(std::size_t row, std::size_t column) const
{
    return {m_rows[row].first, row == column ? m_rows[row].last : m_rows[column].first};
}

// --- the widget

ClusterMatrix::ClusterMatrix(QWidget *parent) : QWidget(parent)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Bandwidth and latency between devices"));
}

void ClusterMatrix::setCluster(std::shared_ptr<const cluster::Cluster> cluster)
{
    m_cluster = std::move(cluster);
    m_figures.reset();
    m_marked.clear();
    m_row = m_column = 0;
    setAccessibleDescription(m_cluster ? tr("%1 devices; arrows go from cell to cell").arg(m_cluster->devices().size())
                                       : tr("No cluster"));
    update();
}

void ClusterMatrix::setSelection(DeviceId device, int link)
{
    const bool other = m_link != link;
    m_device = device;
    m_link = link;
    if (other && m_figures)
        markWays();
    update();
}

void ClusterMatrix::showLatency(bool latency)
{
    m_latency = latency;
    draw();
    update();
}

void ClusterMatrix::workOut()
{
    if (m_figures || !m_cluster)
        return;
    m_figures = std::make_unique<ClusterMatrixData>(*m_cluster);
    draw();
    markWays();
}

/// By the logarithm: links differ by orders.
void ClusterMatrix::draw()
{
    if (!m_figures)
        return;
    const auto count = static_cast<int>(m_figures->rows().size());
    double least = std::numeric_limits<double>::max();
    double most = 0;
    const auto value = [this](int row, int column) {
        const Way &way = m_figures->way(static_cast<std::size_t>(row), static_cast<std::size_t>(column));
        return m_latency ? way.latency.value() : way.bandwidth;
    };
    for (int row = 0; row < count; ++row) {
        for (int column = 0; column < count; ++column) {
            if (const double each = value(row, column); each > 0) {
                least = std::min(least, each);
                most = std::max(most, each);
            }
        }
    }
    const double range = most > least ? std::log(most / least) : 0;
    m_picture = QImage(count, count, QImage::Format_RGB32);
    for (int row = 0; row < count; ++row) {
        for (int column = 0; column < count; ++column) {
            const double each = value(row, column);
            const double share = each <= 0 ? 0 : range > 0 ? std::log(each / least) / range : 0.5;
            m_picture.setPixelColor(column, row, ramp(m_latency ? 1 - share : share));
        }
    }
}

void ClusterMatrix::markWays()
{
    m_marked.clear();
    if (!m_figures || m_link < 0 || static_cast<std::size_t>(m_link) >= m_cluster->links().size())
        return;
    const std::size_t count = m_figures->rows().size();
    m_marked.resize(count * count);
    for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t column = 0; column < count; ++column) {
            const auto [from, to] = m_figures->ends(row, column);
            bool over = false;
            cluster::walkRoute(m_cluster->routes(), m_cluster->links(), m_cluster->vertexOf(from),
                               m_cluster->vertexOf(to), [&](std::size_t index, std::size_t, std::size_t) {
                                   over = over || index == static_cast<std::size_t>(m_link);
                               });
            m_marked[row * count + column] = over;
        }
    }
}

bool ClusterMatrix::marked(std::size_t row, std::size_t column) const
{
    return !m_marked.empty() && m_marked[row * m_figures->rows().size() + column];
}

// --- places

/// As high as there is room for, and wider where the view is low.
QRectF ClusterMatrix::cellsArea() const
{
    const double note = fontMetrics().height() + 4;
    const auto count = static_cast<double>(m_figures ? m_figures->rows().size() : 1);
    const double most = kMostSide * count;
    const double high = std::clamp(height() - kNameHeight - note - 4, 1.0, most);
    const double wide = std::clamp(width() - kNameWidth - 4, 1.0, std::min(most, kWidestShape * high));
    return {kNameWidth, kNameHeight, wide, std::min(high, kWidestShape * wide)};
}

QRectF ClusterMatrix::cellOf(std::size_t row, std::size_t column) const
{
    const QRectF area = cellsArea();
    const auto count = static_cast<double>(m_figures ? m_figures->rows().size() : 1);
    const double wide = area.width() / count;
    const double high = area.height() / count;
    return {area.left() + static_cast<double>(column) * wide, area.top() + static_cast<double>(row) * high, wide, high};
}

bool ClusterMatrix::cellAt(const QPointF &pixel, std::size_t &row, std::size_t &column) const
{
    const QRectF area = cellsArea();
    if (!m_figures || !area.contains(pixel))
        return false;
    const auto count = static_cast<double>(m_figures->rows().size());
    row = static_cast<std::size_t>(std::min((pixel.y() - area.top()) / area.height() * count, count - 1));
    column = static_cast<std::size_t>(std::min((pixel.x() - area.left()) / area.width() * count, count - 1));
    return true;
}

// --- words

QString ClusterMatrix::note() const
{
    const QString what = m_latency ? tr("latency") : tr("GB/s, point to point");
    if (!m_figures || !m_figures->byNode())
        return m_latency ? what : tr("%1; on the diagonal its memory").arg(what);
    return m_figures->rows().size() < m_cluster->nodes().size()
        ? tr("%1, between the first devices of the first nodes of each row").arg(what)
        : tr("%1, between first devices of nodes; on the diagonal inside").arg(what);
}

QString ClusterMatrix::describe(std::size_t row, std::size_t column) const
{
    if (!m_figures)
        return {};
    const auto [from, to] = m_figures->ends(row, column);
    const Way &way = m_figures->way(row, column);
    if (from == to)
        return tr("%1: its memory %2").arg(qt(m_cluster->device(from).name), linkRateText(way.bandwidth));
    QString text = tr("%1 to %2: %3, latency %4")
                       .arg(qt(m_cluster->device(from).name), qt(m_cluster->device(to).name),
                            linkRateText(way.bandwidth), secondsText(way.latency.value()));
    if (m_cluster->commModel() == cluster::CommModel::TwoLevel)
        text += tr("\nby the cluster's rates inside of and between nodes");
    for (const std::size_t link : m_cluster->route(from, to)) {
        const cluster::Link &each = m_cluster->links()[link];
        text += tr("\n%1 – %2: %3")
                    .arg(qt(m_cluster->vertices()[each.a].name), qt(m_cluster->vertices()[each.b].name),
                         linkRateText(each.pointToPoint));
    }
    return text;
}

// --- painting

void ClusterMatrix::paintEvent(QPaintEvent *)
{
    workOut();
    QPainter painter(this);
    painter.fillRect(rect(), theme().base);
    if (!m_figures) {
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap,
                         tr("No cluster. Open one with File ▸ Open cluster."));
        return;
    }
    painter.drawImage(cellsArea(), m_picture);
    paintNames(painter);
    paintFigures(painter);
    paintSelection(painter);
    painter.setPen(theme().dimText);
    const QRectF area = cellsArea();
    const QRectF line(4, area.bottom() + 2, width() - 8, fontMetrics().height() + 2);
    painter.drawText(line, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(note(), Qt::ElideRight, static_cast<int>(line.width())));
}

/// As many as there is room for.
void ClusterMatrix::paintNames(QPainter &painter) const
{
    const std::size_t count = m_figures->rows().size();
    const double side = cellOf(0, 0).height();
    const auto line = static_cast<double>(fontMetrics().height());
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(line / side)));
    painter.setPen(theme().text);
    for (std::size_t row = 0; row < count; row += every) {
        const double middle = cellOf(row, 0).center().y();
        painter.drawText(QRectF(2, middle - line / 2, kNameWidth - 6, line), Qt::AlignRight | Qt::AlignVCenter,
                         fontMetrics().elidedText(qt(m_figures->rows()[row].name), Qt::ElideMiddle,
                                                  static_cast<int>(kNameWidth - 6)));
    }
    double free = kNameWidth; // where the next name may begin
    for (std::size_t column = 0; column < count; ++column) {
        const QString name = qt(m_figures->rows()[column].name);
        const double wide = fontMetrics().horizontalAdvance(name);
        const QRectF cell = cellOf(0, column);
        const double left = std::max(cell.left(), cell.center().x() - wide / 2);
        if (left < free || left + wide > width())
            continue;
        painter.drawText(QRectF(left, 0, wide + 2, kNameHeight), Qt::AlignLeft | Qt::AlignVCenter, name);
        free = left + wide + 8;
    }
}

void ClusterMatrix::paintFigures(QPainter &painter) const
{
    const std::size_t count = m_figures->rows().size();
    const QRectF one = cellOf(0, 0);
    if (std::min(one.width(), one.height()) < kGrid)
        return;
    painter.setPen(QPen(theme().base, 1));
    const QRectF area = cellsArea();
    for (std::size_t i = 0; i <= count; ++i) {
        const double x = area.left() + static_cast<double>(i) * one.width();
        const double y = area.top() + static_cast<double>(i) * one.height();
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    }
    if (one.height() < fontMetrics().height())
        return;
    for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t column = 0; column < count; ++column) {
            const QString text = figureOf(m_figures->way(row, column), m_latency);
            if (fontMetrics().horizontalAdvance(text) > one.width() - 2)
                continue;
            painter.setPen(textOn(m_picture.pixelColor(static_cast<int>(column), static_cast<int>(row))));
            painter.drawText(cellOf(row, column), Qt::AlignCenter, text);
        }
    }
}

void ClusterMatrix::paintSelection(QPainter &painter) const
{
    const std::size_t count = m_figures->rows().size();
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme().cursor, 2));
    for (std::size_t row = 0; row < count && !m_marked.empty(); ++row) {
        for (std::size_t column = 0; column < count; ++column) {
            if (!marked(row, column))
                continue;
            const QRectF cell = cellOf(row, column);
            if (std::min(cell.width(), cell.height()) >= kGrid)
                painter.drawRect(cell.adjusted(2, 2, -2, -2));
            else
                painter.fillRect(cell, theme().cursor);
        }
    }
    painter.setPen(QPen(theme().accent, 2));
    if (m_device.valid() && m_device.index() < m_cluster->devices().size()) {
        const std::size_t row = m_figures->rowOf(m_device);
        painter.drawRect(cellOf(row, 0).united(cellOf(row, count - 1)));
        painter.drawRect(cellOf(0, row).united(cellOf(count - 1, row)));
    }
    if (hasFocus())
        painter.drawRect(cellOf(m_row, m_column).adjusted(1, 1, -1, -1));
}

// --- mouse and keyboard

/// The way's slowest link; of a device with itself the device.
void ClusterMatrix::pick(std::size_t row, std::size_t column)
{
    m_row = row;
    m_column = column;
    setAccessibleDescription(describe(row, column));
    const auto [from, to] = m_figures->ends(row, column);
    const std::vector<std::size_t> way = m_cluster->route(from, to);
    if (way.empty()) {
        Q_EMIT devicePicked(from.value);
        return;
    }
    const auto slower = [this](std::size_t a, std::size_t b) {
        return m_cluster->links()[a].pointToPoint < m_cluster->links()[b].pointToPoint;
    };
    Q_EMIT linkPicked(static_cast<int>(*std::min_element(way.begin(), way.end(), slower)));
}

void ClusterMatrix::mouseReleaseEvent(QMouseEvent *event)
{
    std::size_t row = 0;
    std::size_t column = 0;
    if (event->button() != Qt::LeftButton || !m_figures)
        return;
    if (cellAt(event->position(), row, column))
        pick(row, column);
    else if (cellAt({cellsArea().left(), event->position().y()}, row, column) && event->position().x() < kNameWidth)
        Q_EMIT devicePicked(m_figures->rows()[row].first.value);
}

void ClusterMatrix::moveTo(std::ptrdiff_t down, std::ptrdiff_t across)
{
    const auto count = static_cast<std::ptrdiff_t>(m_figures->rows().size());
    m_row =
        static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(m_row) + down, 0, count - 1));
    m_column = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(m_column) + across, 0, count - 1));
    setAccessibleDescription(describe(m_row, m_column));
    update();
}

void ClusterMatrix::keyPressEvent(QKeyEvent *event)
{
    if (!m_figures)
        return QWidget::keyPressEvent(event);
    switch (event->key()) {
    case Qt::Key_Left: return moveTo(0, -1);
    case Qt::Key_Right: return moveTo(0, 1);
    case Qt::Key_Up: return moveTo(-1, 0);
    case Qt::Key_Down: return moveTo(1, 0);
    case Qt::Key_Return:
    case Qt::Key_Enter: return pick(m_row, m_column);
    default: QWidget::keyPressEvent(event);
    }
}

bool ClusterMatrix::event(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        draw();
    const auto text = [this](const QPoint &at) {
        std::size_t row = 0;
        std::size_t column = 0;
        return cellAt(at, row, column) ? describe(row, column) : QString();
    };
    return answerToolTip(event, this, text) || QWidget::event(event);
}

} // namespace planloom::ui
