// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/graph_canvas.h"

#include "ui/model/graph_frame_item.h"
#include "ui/model/graph_node_item.h"
#include "ui/model/graph_overview.h"
#include "ui/theme/theme.h"

#include <QGraphicsPathItem>
#include <QKeyEvent>
#include <QScrollBar>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::ui {
namespace {

constexpr double kPointsPerInch = 72;
constexpr double kMargin = 24;
constexpr double kSmallestScale = 0.02;
constexpr double kLargestScale = 4;
constexpr double kLeastText = 9;   // pixels: smaller letters cannot be read
constexpr double kFrameMargin = 8; // dot's own around a cluster

QPainterPath splinePath(const std::vector<PlainLayout::Point> &points)
{
    QPainterPath path;
    if (points.empty())
        return path;
    path.moveTo(points[0].x, points[0].y);
    for (std::size_t i = 1; i + 2 < points.size(); i += 3)
        path.cubicTo(points[i].x, points[i].y, points[i + 1].x, points[i + 1].y, points[i + 2].x, points[i + 2].y);
    return path;
}

/// A curve around the right side, for edges that dot was not asked about.
QPainterPath sidePath(const QRectF &from, const QRectF &to)
{
    QPainterPath path;
    const QPointF start(from.right(), from.center().y());
    const QPointF end(to.right(), to.center().y());
    const double bow = 24 + std::min(160.0, std::abs(end.y() - start.y()) / 8);
    const double right = std::max(start.x(), end.x()) + bow;
    path.moveTo(start);
    path.cubicTo(QPointF(right, start.y()), QPointF(right, end.y()), end);
    return path;
}

void addArrow(QPainterPath &path, QPointF tip, QPointF from)
{
    constexpr double kLength = 6;
    constexpr double kSpread = 0.45;
    const double angle = std::atan2(from.y() - tip.y(), from.x() - tip.x());
    for (const double side : {-kSpread, kSpread}) {
        path.moveTo(tip);
        path.lineTo(tip + QPointF(std::cos(angle + side), std::sin(angle + side)) * kLength);
    }
}

} // namespace

GraphCanvas::GraphCanvas(QWidget *parent) : QGraphicsView(parent), m_overview(new GraphOverview(this))
{
    setScene(&m_scene);
    setDragMode(QGraphicsView::ScrollHandDrag);
    setRenderHint(QPainter::Antialiasing);
    setTransformationAnchor(QGraphicsView::AnchorUnderMouse);
    setAccessibleName(tr("Graph of the model"));
    describeCurrent();
}

/// For screen readers: where one is, and what the keys do.
void GraphCanvas::describeCurrent()
{
    QString current;
    if (m_current >= 0) {
        const GraphNode &node = m_graph.nodes[static_cast<std::size_t>(m_current)];
        current = tr("Selected: %1, %2. ").arg(QString::fromStdString(node.title), QString::fromStdString(node.detail));
    }
    setAccessibleDescription(current
                             + tr("Boxes are scopes and operators. Enter opens a scope, Backspace closes it, arrows "
                                  "walk along edges, Space fits the graph, N shows what is next to the box. The "
                                  "properties of the selected box stand "
                                  "beside the graph; the layer table has the same data."));
}

BoxSizes GraphCanvas::sizesOf(const VisibleGraph &graph) const
{
    BoxSizes sizes;
    for (const GraphNode &node : graph.nodes) {
        const QSizeF size = GraphNodeItem::sizeFor(node, font(), m_cards);
        sizes.boxes.emplace_back(size.width() / kPointsPerInch, size.height() / kPointsPerInch);
    }
    for (const GraphFrame &frame : graph.frames) {
        const QSizeF size = GraphFrameItem::titleSize(QString::fromStdString(frame.title), font());
        sizes.titles.emplace_back(size.width(), size.height());
    }
    return sizes;
}

QRectF GraphCanvas::placeOf(const std::string &key) const
{
    if (const int node = key.empty() ? -1 : m_graph.find(key); node >= 0)
        return m_items[static_cast<std::size_t>(node)]->sceneBoundingRect();
    const auto frame = std::ranges::find(m_frames, QString::fromStdString(key), &GraphFrameItem::key);
    return frame == m_frames.end() ? QRectF() : (*frame)->area();
}

void GraphCanvas::show(const VisibleGraph &graph, const PlainLayout &layout, const std::string &anchor)
{
    const std::string before = m_current >= 0 ? m_graph.nodes[static_cast<std::size_t>(m_current)].key : std::string();
    const QRectF place = placeOf(anchor);
    const QPoint seen = mapFromScene(QPointF(place.center().x(), place.top()));
    m_scene.clear();
    m_items.clear();
    m_edges.clear();
    m_frames.clear();
    m_graph = graph;
    m_anchor = anchor;
    m_current = -1;
    setBackgroundBrush(theme().base);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        auto *item = new GraphNodeItem(graph.nodes[i], static_cast<int>(i), font(), m_cards);
        item->setPos(layout.centers[i].x, layout.centers[i].y);
        m_scene.addItem(item);
        m_items.push_back(item);
    }
    addFrames();
    addEdges(layout);
    m_scene.setSceneRect(m_scene.itemsBoundingRect().adjusted(-kMargin, -kMargin, kMargin, kMargin));
    setCurrent(before.empty() ? -1 : m_graph.find(before), false);
    describeCurrent();
    const QRectF now = placeOf(anchor);
    if (m_fit == Fit::None && !place.isNull() && !now.isNull()) {
        const QPoint moved = mapFromScene(QPointF(now.center().x(), now.top())) - seen;
        horizontalScrollBar()->setValue(horizontalScrollBar()->value() + moved.x());
        verticalScrollBar()->setValue(verticalScrollBar()->value() + moved.y());
    }
    refit();
    m_overview->redraw();
}

/// Around their boxes and the frames inside of them: dot has left the room.
void GraphCanvas::addFrames()
{
    const std::vector<GraphFrame> &frames = m_graph.frames;
    std::vector<QRectF> areas(frames.size());
    for (std::size_t f = frames.size(); f-- > 0;) { // inner ones are behind those around them
        for (const int node : frames[f].nodes)
            areas[f] |= m_items[static_cast<std::size_t>(node)]->sceneBoundingRect();
        const QString title = QString::fromStdString(frames[f].title);
        const QSizeF needs = GraphFrameItem::titleSize(title, font());
        areas[f].adjust(-kFrameMargin, -needs.height() - kFrameMargin / 2, kFrameMargin, kFrameMargin);
        if (areas[f].width() < needs.width())
            areas[f].setWidth(needs.width());
        if (frames[f].parent >= 0)
            areas[static_cast<std::size_t>(frames[f].parent)] |= areas[f];
        m_frames.push_back(new GraphFrameItem(QString::fromStdString(frames[f].key), title, areas[f], font()));
    }
    std::ranges::reverse(m_frames);
    for (GraphFrameItem *frame : m_frames) // outer ones first: they are painted first
        m_scene.addItem(frame);
}

void GraphCanvas::addEdges(const PlainLayout &layout)
{
    for (const GraphEdge &edge : m_graph.edges) {
        const QRectF from = m_items[static_cast<std::size_t>(edge.from)]->sceneBoundingRect();
        const QRectF to = m_items[static_cast<std::size_t>(edge.to)]->sceneBoundingRect();
        const auto spline = layout.splines.find({edge.from, edge.to});
        const bool side = edge.far || spline == layout.splines.end();
        QPainterPath path = side ? sidePath(from, to) : splinePath(spline->second);
        const QPointF tip = path.currentPosition();
        addArrow(path, tip, side ? tip + QPointF(1, 0) : path.pointAtPercent(0.9));
        QPen pen(theme().dimText, 1.1, side ? Qt::DashLine : Qt::SolidLine);
        pen.setCosmetic(false);
        QGraphicsPathItem *item = m_scene.addPath(path, pen);
        item->setZValue(-1);
        m_edges.push_back(item);
    }
}

void GraphCanvas::setColors(const std::vector<BoxPaint> &colors)
{
    for (std::size_t i = 0; i < m_items.size() && i < colors.size(); ++i)
        m_items[i]->setColors(colors[i]);
    m_overview->redraw();
}

void GraphCanvas::setCards(const std::vector<QString> &texts)
{
    for (std::size_t i = 0; i < m_items.size() && i < texts.size(); ++i)
        m_items[i]->setCard(texts[i]);
}

void GraphCanvas::lookAt(const QPointF &middle)
{
    m_fit = Fit::None;
    centerOn(middle);
}

void GraphCanvas::setToolTips(const std::vector<QString> &texts)
{
    for (std::size_t i = 0; i < m_items.size() && i < texts.size(); ++i)
        m_items[i]->setToolTip(texts[i]);
}

void GraphCanvas::highlight(const std::vector<int> &nodes)
{
    for (std::size_t i = 0; i < m_items.size(); ++i)
        m_items[i]->setHighlighted(std::find(nodes.begin(), nodes.end(), static_cast<int>(i)) != nodes.end());
}

void GraphCanvas::setCurrent(int node, bool center)
{
    const int before = std::exchange(m_current, node >= 0 && node < static_cast<int>(m_items.size()) ? node : -1);
    if (before >= 0 && before < static_cast<int>(m_items.size()))
        m_items[static_cast<std::size_t>(before)]->setCurrent(false);
    if (m_current >= 0)
        m_items[static_cast<std::size_t>(m_current)]->setCurrent(true);
    if (m_current != before) {
        describeCurrent();
        Q_EMIT currentChanged(m_current);
    }
    if (m_current < 0 || !center)
        return;
    m_fit = Fit::None;
    if (transform().m11() < 0.5)
        setTransform(QTransform::fromScale(0.9, 0.9));
    centerOn(m_items[static_cast<std::size_t>(m_current)]);
}

void GraphCanvas::showCurrent()
{
    if (m_current >= 0)
        ensureVisible(m_items[static_cast<std::size_t>(m_current)]);
}

void GraphCanvas::fit()
{
    m_fit = Fit::Whole;
    refit();
}

void GraphCanvas::refit()
{
    if (m_fit == Fit::None || m_items.empty())
        return;
    fitInView(m_scene.sceneRect(), Qt::KeepAspectRatio);
    const double readable = m_fit == Fit::Readable ? kLeastText / GraphNodeItem::smallestText(font()) : 0;
    const double scale = std::clamp(transform().m11(), std::min(readable, 1.0), 1.0); // a small graph is not blown up
    if (scale == transform().m11())
        return;
    setTransform(QTransform::fromScale(scale, scale));
    const QRectF anchor = placeOf(m_anchor);
    if (anchor.height() * scale > viewport()->height()) // the top of what was opened
        centerOn(anchor.center().x(), anchor.top() + viewport()->height() / (2 * scale));
    else
        centerOn(anchor.isNull() ? m_items[static_cast<std::size_t>(std::max(m_current, 0))]->pos() : anchor.center());
}

int GraphCanvas::nodeAt(const QPoint &position) const
{
    const auto *item = dynamic_cast<const GraphNodeItem *>(itemAt(position));
    return item ? item->index() : -1;
}

void GraphCanvas::mousePressEvent(QMouseEvent *event)
{
    const int node = nodeAt(event->pos());
    if (event->button() == Qt::LeftButton && node >= 0) {
        setCurrent(node, false);
        Q_EMIT picked(node);
    }
    QGraphicsView::mousePressEvent(event);
}

void GraphCanvas::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (const int node = nodeAt(event->pos()); node >= 0)
        Q_EMIT activated(node);
    else if (const auto *frame = dynamic_cast<const GraphFrameItem *>(itemAt(event->pos())))
        Q_EMIT closeAsked(QString(frame->key())); // a copy: the answer replaces the picture
}

void GraphCanvas::wheelEvent(QWheelEvent *event)
{
    if (!(event->modifiers() & Qt::ControlModifier)) {
        QGraphicsView::wheelEvent(event);
        return;
    }
    m_fit = Fit::None;
    const double factor = std::pow(1.2, event->angleDelta().y() / 120.0);
    const double scaled = transform().m11() * factor;
    if (scaled > kSmallestScale && scaled < kLargestScale)
        scale(factor, factor);
    event->accept();
}

void GraphCanvas::walk(bool forward)
{
    for (const GraphEdge &edge : m_graph.edges) {
        if ((forward ? edge.from : edge.to) != m_current)
            continue;
        setCurrent(forward ? edge.to : edge.from, true);
        Q_EMIT picked(m_current);
        return;
    }
}

void GraphCanvas::step(int by)
{
    const int count = static_cast<int>(m_items.size());
    if (count == 0)
        return;
    setCurrent(std::clamp(m_current + by, 0, count - 1), true);
    Q_EMIT picked(m_current);
}

void GraphCanvas::keyPressEvent(QKeyEvent *event)
{
    switch (event->key()) {
    case Qt::Key_Space: fit(); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (m_current >= 0)
            Q_EMIT activated(m_current);
        break;
    case Qt::Key_Backspace:
        if (m_current >= 0)
            Q_EMIT closeAround(m_current);
        break;
    case Qt::Key_N: Q_EMIT neighboursAsked(); break;
    case Qt::Key_Escape: Q_EMIT wholeAsked(); break;
    case Qt::Key_Down: m_current < 0 ? step(1) : walk(true); break;
    case Qt::Key_Up: m_current < 0 ? step(1) : walk(false); break;
    case Qt::Key_Right: step(1); break;
    case Qt::Key_Left: step(-1); break;
    default: QGraphicsView::keyPressEvent(event); return;
    }
    event->accept();
}

void GraphCanvas::resizeEvent(QResizeEvent *event)
{
    QGraphicsView::resizeEvent(event);
    refit();
}

void GraphCanvas::paintEvent(QPaintEvent *event)
{
    QGraphicsView::paintEvent(event);
    if (const QRectF now = seen(); std::exchange(m_seen, now) != now)
        m_overview->follow();
}

void GraphCanvas::changeEvent(QEvent *event)
{
    QGraphicsView::changeEvent(event);
    if (event->type() != QEvent::PaletteChange)
        return;
    setBackgroundBrush(theme().base);
    for (QGraphicsPathItem *edge : m_edges) {
        QPen pen = edge->pen();
        pen.setColor(theme().dimText);
        edge->setPen(pen);
    }
    m_scene.update();
}

} // namespace planloom::ui
