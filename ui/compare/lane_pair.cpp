// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/lane_pair.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kLabels = 130; // pixels at the left
constexpr int kRulerHeight = 24;
constexpr int kComputes = 18; // pixels of a row of compute
constexpr int kCommunicates = 8;
constexpr int kBetweenRows = 2;
constexpr int kBetweenSides = 4;
constexpr int kBetweenDevices = 12;
constexpr int kTextured = 5; // pixels: narrower boxes show their hue only
constexpr double kZoomStep = 1.2;
constexpr double kPanStep = 60; // pixels

} // namespace

LanePair::LanePair(QWidget *parent) : QAbstractScrollArea(parent)
{
    setAccessibleName(tr("Steps of A and B on one axis"));
    setFocusPolicy(Qt::StrongFocus);
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    viewport()->setMouseTracking(true);
    verticalScrollBar()->setSingleStep(kComputes);
    set(nullptr, nullptr, {});
}

void LanePair::set(IndexPtr a, IndexPtr b, const QString &missing)
{
    const auto none = std::make_shared<const trace::Index>();
    m_a = a ? std::move(a) : none;
    m_b = b ? std::move(b) : none;
    m_missing = missing;
    layOut();
    m_axis.setBounds(0, std::max({m_a->lod().end(), m_b->lod().end(), std::int64_t{1}}));
    m_axis.setPixels(std::max(area().width(), 1));
    m_axis.showAll();
    setAccessibleDescription(
        tr("A takes %1, B takes %2").arg(nanosecondsText(m_a->lod().end()), nanosecondsText(m_b->lod().end())));
    refreshScroll();
    viewport()->update();
}

void LanePair::layOut()
{
    m_rows.clear();
    int y = kBetweenSides;
    const auto ranks = [](const IndexPtr &index) { return static_cast<std::int32_t>(index->tables().ranks.size()); };
    for (std::int32_t rank = 0; rank < std::max(ranks(m_a), ranks(m_b)); ++rank) {
        const std::size_t before = m_rows.size();
        for (const bool isB : {false, true})
            if (rank < ranks(isB ? m_b : m_a))
                addRows(isB, rank, y);
        if (m_rows.size() > before)
            y += kBetweenDevices - kBetweenSides;
    }
    m_height = y;
}

void LanePair::addRows(bool isB, std::int32_t rank, int &y)
{
    const auto [first, last] = index(isB).rowsOf(rank);
    for (std::size_t r = first; r < last; ++r) {
        const trace::Row &slices = index(isB).lod().rows()[r];
        const trace::Work work = index(isB).tables().lane(slices.lane()).work;
        if (work == trace::Work::Device)
            continue;
        const bool computes = work == trace::Work::Compute;
        const int height = computes ? kComputes : kCommunicates;
        m_rows.push_back({isB, computes, rank, static_cast<std::uint32_t>(r), y, height});
        y += height + kBetweenRows;
    }
    if (last > first)
        y += kBetweenSides;
}

QRect LanePair::area() const
{
    return {kLabels, kRulerHeight, viewport()->width() - kLabels, viewport()->height() - kRulerHeight};
}

void LanePair::refreshScroll()
{
    verticalScrollBar()->setPageStep(std::max(area().height(), 1));
    verticalScrollBar()->setRange(0, std::max(0, m_height - area().height()));
}

QStringList LanePair::rowTexts() const
{
    QStringList texts;
    for (const LaneRow &row : m_rows) {
        const trace::Tables &tables = index(row.isB).tables();
        const trace::Row &slices = index(row.isB).lod().rows()[row.lod];
        texts << QStringLiteral("%1 %2 %3")
                     .arg(qt(tables.ranks[static_cast<std::size_t>(row.rank)].device),
                          row.isB ? QStringLiteral("B") : QStringLiteral("A"), qt(tables.lane(slices.lane()).name));
    }
    return texts;
}

std::vector<trace::KindInfo> LanePair::kinds() const
{
    std::vector<trace::KindInfo> all;
    for (const bool isB : {false, true}) {
        const auto &kinds = index(isB).tables().kinds;
        for (std::size_t k = 0; k < kinds.size(); ++k)
            if (index(isB).hasKind(k) && std::ranges::find(all, kinds[k].name, &trace::KindInfo::name) == all.end())
                all.push_back(kinds[k]);
    }
    return all;
}

const LanePair::LaneRow *LanePair::rowAt(int y) const
{
    const auto found =
        std::ranges::find_if(m_rows, [y](const LaneRow &row) { return y >= row.y && y < row.y + row.height; });
    return found == m_rows.end() ? nullptr : &*found;
}

QString LanePair::textAt(const QPoint &position) const
{
    const LaneRow *row = rowAt(position.y() - kRulerHeight + verticalScrollBar()->value());
    if (row == nullptr || position.x() < kLabels)
        return {};
    const trace::Index &shown = index(row->isB);
    const trace::Row &slices = shown.lod().rows()[row->lod];
    const double time = m_axis.toTime(position.x() - kLabels);
    const auto slice = slices.at(std::llround(time), std::llround(m_axis.nanosecondsPerPixel() * 2));
    if (!slice)
        return {};
    const trace::Record record = slices.record(*slice);
    const trace::TaskInfo *task = shown.tables().task(record.task);
    if (task == nullptr)
        return {};
    return tr("%1: %2, %3, %4 from %5")
        .arg(row->isB ? QStringLiteral("B") : QStringLiteral("A"), qt(task->id),
             qt(shown.tables().kind(task->kind).name), nanosecondsText(record.duration), instantText(record.start));
}

// --- painting

void LanePair::paintRow(QPainter &painter, const LaneRow &row)
{
    const QRect lanes = area();
    const int y = lanes.y() + row.y - verticalScrollBar()->value();
    const trace::Index &shown = index(row.isB);
    const trace::Row &slices = shown.lod().rows()[row.lod];
    const auto pixel = [&](std::int64_t time) {
        const double x = m_axis.toPixel(static_cast<double>(time));
        return lanes.x() + static_cast<int>(std::floor(std::clamp(x, -8.0, lanes.width() + 8.0)));
    };
    if (row.computes)
        painter.fillRect(QRect(pixel(0), y, std::max(1, pixel(shown.lod().end()) - pixel(0)), row.height),
                         m_styles.bubble());
    m_bars.clear();
    slices.query({std::llround(std::floor(m_axis.begin())), std::llround(std::ceil(m_axis.end()))},
                 std::max(lanes.width(), 1), m_bars);
    for (const trace::Bar &bar : m_bars) {
        const trace::TaskInfo *task = shown.tables().task(slices.record(bar.slice).task);
        const KindStyle &style = m_styles.of(shown.tables().kind(task != nullptr ? task->kind : trace::Kind::Other));
        const int x = pixel(bar.begin);
        QRect box(x, y, std::max(pixel(bar.end), x + 1) - x, row.height);
        if (box.width() < kTextured || bar.count > 1) {
            painter.fillRect(box, style.outline.isValid() ? style.outline : style.fill);
            continue;
        }
        box.setWidth(box.width() - 1);
        painter.fillRect(box, style.outline.isValid() ? QBrush(style.outline) : style.texture);
        if (style.outline.isValid())
            painter.fillRect(box.adjusted(1, 1, -1, -1), style.fill);
    }
}

void LanePair::paintLabels(QPainter &painter, const LaneRow &row) const
{
    if (!row.computes)
        return;
    const int y = area().y() + row.y - verticalScrollBar()->value();
    const trace::Tables &tables = index(row.isB).tables();
    painter.setPen(theme().text);
    const QString device = qt(tables.ranks[static_cast<std::size_t>(row.rank)].device);
    painter.drawText(QRect(8, y, kLabels - 40, row.height), Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(device, Qt::ElideMiddle, kLabels - 40));
    painter.drawText(QRect(kLabels - 28, y, 20, row.height), Qt::AlignRight | Qt::AlignVCenter,
                     row.isB ? QStringLiteral("B") : QStringLiteral("A"));
}

void LanePair::paintRuler(QPainter &painter) const
{
    const QRect lanes = area();
    painter.fillRect(QRect(0, 0, viewport()->width(), kRulerHeight), theme().window);
    for (const TimeAxis::Tick &tick : m_axis.ticks()) {
        const int x = lanes.x() + static_cast<int>(tick.pixel);
        if (x < lanes.x())
            continue;
        const int height = tick.label.empty() ? 4 : 9;
        painter.fillRect(QRect(x, kRulerHeight - 1 - height, 1, height), theme().dimText);
        painter.setPen(theme().text);
        painter.drawText(QRect(x + 4, 0, 110, kRulerHeight - 8), Qt::AlignLeft | Qt::AlignVCenter, qt(tick.label));
    }
    painter.fillRect(QRect(0, kRulerHeight - 1, viewport()->width(), 1), theme().border);
}

void LanePair::paintEvent(QPaintEvent *)
{
    QPainter painter(viewport());
    painter.fillRect(viewport()->rect(), theme().base);
    if (m_rows.empty()) {
        painter.setPen(theme().dimText);
        painter.drawText(viewport()->rect().adjusted(12, 12, -12, -12), Qt::AlignCenter | Qt::TextWordWrap, m_missing);
        return;
    }
    const QRect lanes = area();
    painter.setClipRect(lanes);
    for (const TimeAxis::Tick &tick : m_axis.ticks())
        if (!tick.label.empty())
            painter.fillRect(QRect(lanes.x() + static_cast<int>(tick.pixel), lanes.y(), 1, lanes.height()),
                             theme().grid);
    const int top = verticalScrollBar()->value();
    const auto visible = [&](const LaneRow &row) { return row.y + row.height > top && row.y < top + lanes.height(); };
    for (const LaneRow &row : m_rows)
        if (visible(row))
            paintRow(painter, row);
    // Where each step ends.
    for (const bool isB : {false, true}) {
        const double x = m_axis.toPixel(static_cast<double>(index(isB).lod().end()));
        painter.setPen(QPen(theme().cursor, 1, isB ? Qt::DashLine : Qt::SolidLine));
        painter.drawLine(lanes.x() + static_cast<int>(x), lanes.top(), lanes.x() + static_cast<int>(x), lanes.bottom());
    }
    painter.setClipRect(QRect(0, lanes.y(), kLabels, lanes.height()));
    painter.fillRect(QRect(0, lanes.y(), kLabels, lanes.height()), theme().window);
    for (const LaneRow &row : m_rows)
        if (visible(row))
            paintLabels(painter, row);
    painter.setClipping(false);
    painter.fillRect(QRect(kLabels - 1, lanes.y(), 1, lanes.height()), theme().border);
    paintRuler(painter);
}

// --- input

void LanePair::resizeEvent(QResizeEvent *event)
{
    const bool all = m_axis.showsAll();
    m_axis.setPixels(std::max(area().width(), 1));
    if (all)
        m_axis.showAll();
    refreshScroll();
    QAbstractScrollArea::resizeEvent(event);
}

void LanePair::wheelEvent(QWheelEvent *event)
{
    const QPoint turned = event->angleDelta();
    const double by = (turned.y() != 0 ? turned.y() : turned.x()) / 120.0;
    if (event->modifiers() & Qt::ControlModifier)
        m_axis.zoom(std::pow(kZoomStep, by), event->position().x() - kLabels);
    else if (event->modifiers() & Qt::ShiftModifier)
        m_axis.pan(-by * kPanStep);
    else
        return QAbstractScrollArea::wheelEvent(event);
    event->accept();
    viewport()->update();
}

void LanePair::keyPressEvent(QKeyEvent *event)
{
    const double middle = area().width() / 2.0;
    switch (event->key()) {
    case Qt::Key_W:
    case Qt::Key_Plus: m_axis.zoom(kZoomStep, middle); break;
    case Qt::Key_S:
    case Qt::Key_Minus: m_axis.zoom(1 / kZoomStep, middle); break;
    case Qt::Key_A:
    case Qt::Key_Left: m_axis.pan(-kPanStep); break;
    case Qt::Key_D:
    case Qt::Key_Right: m_axis.pan(kPanStep); break;
    case Qt::Key_0:
    case Qt::Key_Home: m_axis.showAll(); break;
    default: return QAbstractScrollArea::keyPressEvent(event);
    }
    viewport()->update();
}

void LanePair::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange)
        m_styles = KindStyles();
    QAbstractScrollArea::changeEvent(event);
}

bool LanePair::viewportEvent(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QAbstractScrollArea::viewportEvent(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), textAt(help->pos()), viewport());
    return true;
}

} // namespace planloom::ui
