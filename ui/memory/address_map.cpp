// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/address_map.h"

#include "ui/memory/live_table.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"
#include "ui/widgets/tool_tip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace planloom::ui {

namespace {

using simulate::BlockKind;
using simulate::LiveBlock;

constexpr double kLeastHeight = 1.5; // pixels: lower ones are drawn together with their neighbours
constexpr double kTextured = 5;      // pixels: smaller ones are plain
constexpr double kOutlined = 4;
constexpr double kMapZoom = 1.25; // per notch of the wheel
constexpr double kMapStep = 0.12; // of what is in sight
constexpr double kMapDragStart = 4;
constexpr double kDeepest = 1e-6; // of the whole axis that is the least in sight
constexpr int kTicks = 4;

using Outline = BlockOutlines::Outline;

/// True if @p b goes on where @p a ends, in the same slot.
bool joins(const Outline &a, const Outline &b)
{
    return a.begin == b.begin && a.end == b.end && a.offset + a.bytes == b.offset;
}

/// From seconds and bytes to pixels, worked out once for all blocks of a picture.
struct MapScale {
    QRectF area;
    double seconds = 0; ///< at the left edge
    double pixelsPerSecond = 1;
    double bytes = 0; ///< at the lower edge
    double pixelsPerByte = 1;
    double whole = 0; ///< seconds

    [[nodiscard]] double y(std::int64_t address) const
    {
        return area.bottom() - (static_cast<double>(address) - bytes) * pixelsPerByte;
    }
    /// Of what lies from the beginning of @p first to the end of @p last.
    [[nodiscard]] QRectF place(const Outline &first, const Outline &last) const
    {
        const double left = area.left() + (first.begin - seconds) * pixelsPerSecond;
        const double right = area.left() + (std::min(first.end, whole) - seconds) * pixelsPerSecond;
        const double top = y(last.offset + last.bytes);
        const QPointF corner(std::max(left, area.left()), std::max(top, area.top()));
        const QPointF other(std::min(std::max(right, left + 1), area.right()),
                            std::min(std::max(y(first.offset), top + 1), area.bottom()));
        return {corner, other};
    }
};

/// Which kind of block was painted last where blocks are as small as pixels: many thousands of one kind may lie in one.
class Specks {
public:
    explicit Specks(QSize size) : m_size(size), m_kinds(static_cast<std::size_t>(size.width() * size.height()), kNone)
    {
    }
    /// False: the picture shows a block of that kind there already.
    bool isNew(const QRectF &place, BlockKind kind)
    {
        const int x = static_cast<int>(place.left());
        const int y = static_cast<int>(place.top());
        if (place.width() > 1 || place.height() > 1 || x < 0 || y < 0 || x >= m_size.width() || y >= m_size.height())
            return true;
        auto &last = m_kinds[static_cast<std::size_t>(y) * static_cast<std::size_t>(m_size.width())
                             + static_cast<std::size_t>(x)];
        return std::exchange(last, static_cast<std::uint8_t>(kind)) != static_cast<std::uint8_t>(kind);
    }

private:
    static constexpr std::uint8_t kNone = 255;
    QSize m_size;
    std::vector<std::uint8_t> m_kinds;
};

} // namespace

void AddressMap::Axis::reset(double length)
{
    whole = std::max(length, 1e-12);
    from = 0;
    to = whole;
}

void AddressMap::Axis::zoom(double factor, double share)
{
    const double length = std::clamp((to - from) / factor, whole * kDeepest, whole);
    const double about = from + (to - from) * share;
    from = std::clamp(about - length * share, 0.0, whole - length);
    to = from + length;
}

void AddressMap::Axis::move(double by)
{
    const double length = to - from;
    from = std::clamp(from + by * length, 0.0, whole - length);
    to = from + length;
}

AddressMap::AddressMap(QWidget *parent) : QWidget(parent)
{
    setAccessibleName(tr("Addresses of the device's memory over time"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
}

void AddressMap::set(std::shared_ptr<const LiveDevice> live, const QString &why)
{
    const bool sameScale = m_live && live && m_live->memory.arenaBytes == live->memory.arenaBytes
        && m_live->memory.endSeconds == live->memory.endSeconds;
    m_live = std::move(live);
    m_why = why;
    m_marked.reset();
    m_there = {};
    if (m_live)
        for (const LiveBlock &block : m_live->memory.blocks)
            m_there[static_cast<std::size_t>(block.kind)] |= block.offset >= 0;
    if (m_live && !sameScale) {
        m_time.reset(m_live->memory.endSeconds);
        m_addresses.reset(static_cast<double>(m_live->memory.arenaBytes));
    }
    setAccessibleDescription(m_live ? tr("%1 buffers of %2").arg(m_live->memory.blocks.size()).arg(qt(m_live->device))
                                    : m_why);
    redraw();
}

void AddressMap::setMoment(double seconds)
{
    m_moment = seconds;
    update();
}

void AddressMap::mark(std::optional<std::size_t> block)
{
    m_marked = block;
    update();
}

void AddressMap::fit()
{
    m_time.reset(m_time.whole);
    m_addresses.reset(m_addresses.whole);
    redraw();
}

void AddressMap::redraw()
{
    m_picture = QPixmap();
    update();
}

// --- geometry

QRectF AddressMap::plot() const
{
    const int line = fontMetrics().height();
    const int left = fontMetrics().horizontalAdvance(QStringLiteral("999.99 MiB")) + 8;
    return QRectF(left, line / 2.0 + 2, std::max(1, width() - left - 8), std::max(1.0, height() - 4.0 * line - 6));
}

double AddressMap::xOf(double seconds) const
{
    return plot().left() + plot().width() * (seconds - m_time.from) / (m_time.to - m_time.from);
}

double AddressMap::yOf(double address) const
{
    return plot().bottom() - plot().height() * (address - m_addresses.from) / (m_addresses.to - m_addresses.from);
}

double AddressMap::secondsAt(double x) const
{
    return m_time.from + (x - plot().left()) / plot().width() * (m_time.to - m_time.from);
}

double AddressMap::addressAt(double y) const
{
    return m_addresses.from + (plot().bottom() - y) / plot().height() * (m_addresses.to - m_addresses.from);
}

/// Of what lies from the beginning of @p first to the end of @p last.
QRectF AddressMap::placeOf(const LiveBlock &first, const LiveBlock &last) const
{
    const double left = xOf(first.begin);
    const double right = xOf(std::min(first.end, m_time.whole));
    const double top = yOf(static_cast<double>(last.offset + last.bytes));
    const double bottom = yOf(static_cast<double>(first.offset));
    return QRectF(left, top, std::max(1.0, right - left), std::max(1.0, bottom - top)) & plot();
}

QRectF AddressMap::rectOf(std::size_t block) const
{
    const LiveBlock &which = m_live->memory.blocks[block];
    return which.offset < 0 ? QRectF() : placeOf(which, which);
}

std::optional<std::size_t> AddressMap::blockAt(const QPointF &place) const
{
    if (!m_live || !plot().contains(place))
        return std::nullopt;
    const double seconds = secondsAt(place.x());
    const auto address = static_cast<std::int64_t>(addressAt(place.y()));
    const auto &blocks = m_live->memory.blocks;
    const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const LiveBlock &block) {
        return block.offset >= 0 && block.begin <= seconds && seconds < block.end && block.offset <= address
            && address < block.offset + block.bytes;
    });
    return found == blocks.end() ? std::nullopt : std::optional<std::size_t>(found - blocks.begin());
}

QString AddressMap::textAt(const QPointF &place) const
{
    if (!m_live || !plot().contains(place))
        return {};
    if (const auto block = blockAt(place))
        return blockText(*m_live, m_live->memory.blocks[*block]);
    const auto address = static_cast<std::int64_t>(addressAt(place.y()));
    for (const simulate::LiveMemory::Hole &hole : m_live->memory.holesAt(secondsAt(place.x())))
        if (hole.begin <= address && address < hole.end)
            return tr("Free: %1, from %2 on, at %3")
                .arg(bytesText(hole.bytes()), bytesText(hole.begin),
                     instantText(std::llround(secondsAt(place.x()) * 1e9)));
    return {};
}

// --- painting

void AddressMap::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    if (!m_live) {
        painter.fillRect(rect(), theme().base);
        painter.setPen(theme().dimText);
        painter.drawText(rect().adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap, m_why);
        return;
    }
    if (m_picture.isNull()) {
        m_picture = QPixmap(size() * devicePixelRatioF());
        m_picture.setDevicePixelRatio(devicePixelRatioF());
        m_picture.fill(theme().base);
        QPainter picture(&m_picture);
        picture.setFont(font());
        paintBlocks(picture);
        paintAxes(picture);
        paintLegend(picture);
    }
    painter.drawPixmap(0, 0, m_picture);
    if (m_moment >= m_time.from && m_moment <= m_time.to) {
        painter.setPen(QPen(theme().cursor, 1, Qt::DashLine));
        painter.drawLine(QPointF(xOf(m_moment), plot().top()), QPointF(xOf(m_moment), plot().bottom()));
    }
    if (m_marked) {
        painter.setPen(QPen(theme().text, 2));
        painter.drawRect(rectOf(*m_marked));
    }
    if (hasFocus()) {
        painter.setPen(QPen(theme().accent, 1));
        painter.drawRect(rect().adjusted(0, 0, -1, -1));
    }
}

void AddressMap::paintBlocks(QPainter &painter)
{
    m_painted = 0;
    const QRectF area = plot();
    painter.fillRect(area, theme().bubble);
    painter.fillRect(area, QBrush(theme().bubbleHatch, Qt::BDiagPattern));
    const BlockOutlines &blocks = m_live->outlines;
    const MapScale scale{area,
                         m_time.from,
                         area.width() / (m_time.to - m_time.from),
                         m_addresses.from,
                         area.height() / (m_addresses.to - m_addresses.from),
                         m_time.whole};
    Specks specks(size());
    for (std::size_t b = 0; b < blocks.size();) {
        const Outline &first = blocks[b];
        const bool seen = first.offset >= 0 && first.end >= m_time.from && first.begin <= m_time.to
            && static_cast<double>(first.offset + first.bytes) >= m_addresses.from
            && static_cast<double>(first.offset) <= m_addresses.to;
        std::size_t last = b;
        std::size_t largest = b;
        // Neighbours until there is something to see.
        const double foot = scale.y(first.offset);
        while (seen && last + 1 < blocks.size()
               && foot - scale.y(blocks[last].offset + blocks[last].bytes) < kLeastHeight
               && joins(blocks[last], blocks[last + 1])) {
            ++last;
            if (blocks[last].bytes > blocks[largest].bytes)
                largest = last;
        }
        const QRectF place = seen ? scale.place(first, blocks[last]) : QRectF();
        if (!place.isEmpty() && specks.isNew(place, blocks.kind(largest)))
            paintBlock(painter, place, m_live->memory.blocks[largest]);
        b = last + 1;
    }
    painter.setPen(theme().border);
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(area);
}

void AddressMap::paintBlock(QPainter &painter, const QRectF &place, const LiveBlock &block)
{
    ++m_painted;
    const QBrush brush = blockBrush(block.kind);
    const bool plain = place.width() < kTextured || place.height() < kTextured;
    if (plain || brush.style() == Qt::SolidPattern) {
        painter.fillRect(place, brush.color());
    } else {
        painter.fillRect(place, theme().base);
        painter.fillRect(place, brush);
    }
    if (place.width() >= kOutlined && place.height() >= kOutlined) {
        painter.setPen(theme().base);
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(place);
    }
    constexpr double kRoomForName = 60;
    if (place.width() < kRoomForName)
        return;
    const QFontMetrics metrics = painter.fontMetrics();
    if (place.height() < metrics.height())
        return;
    const QString text = qt(m_live->memory.nameOf(block.name));
    const QString shown = metrics.elidedText(beginningOf(text), Qt::ElideMiddle, static_cast<int>(place.width()) - 8);
    const QRectF box(place.left() + 2, place.center().y() - metrics.height() / 2.0,
                     metrics.horizontalAdvance(shown) + 4, metrics.height());
    painter.fillRect(box, theme().base); // letters on textures cannot be read
    painter.setPen(theme().text);
    painter.drawText(box, Qt::AlignCenter, shown);
}

void AddressMap::paintAxes(QPainter &painter) const
{
    const QRectF area = plot();
    const int line = fontMetrics().height();
    painter.setPen(theme().dimText);
    const bool low = area.height() < 2.0 * kTicks * line;
    for (int tick = 0; tick <= kTicks; tick += low ? kTicks : 1) {
        const double share = static_cast<double>(tick) / kTicks;
        const double address = m_addresses.from + share * (m_addresses.to - m_addresses.from);
        const double y = area.bottom() - share * area.height();
        painter.drawText(QRectF(0, y - line / 2.0, area.left() - 4, line), Qt::AlignRight | Qt::AlignVCenter,
                         bytesText(static_cast<std::int64_t>(address)));
        painter.drawLine(QPointF(area.left() - 3, y), QPointF(area.left(), y));
    }
    const bool narrow = area.width() < 90.0 * kTicks;
    for (int tick = 0; tick <= kTicks; tick += narrow ? kTicks : 1) {
        const double share = static_cast<double>(tick) / kTicks;
        const double seconds = m_time.from + share * (m_time.to - m_time.from);
        const QString text = instantText(std::llround(seconds * 1e9));
        const double wide = fontMetrics().horizontalAdvance(text) + 4;
        const double middle = area.left() + share * area.width() - wide / 2;
        const double left = std::clamp(middle, area.left(), std::max(area.left(), width() - wide));
        painter.drawText(QRectF(left, area.bottom() + 2, wide, line), Qt::AlignCenter, text);
    }
}

void AddressMap::paintLegend(QPainter &painter) const
{
    const int line = fontMetrics().height();
    double left = 4;
    double top = height() - 2.0 * line - 2; // of two lines
    const auto entry = [&](const QBrush &brush, const QColor &under, const QString &text) {
        const double wide = line + 4 + fontMetrics().horizontalAdvance(text) + 10;
        if (left + wide > width()) {
            left = 4;
            top += line;
        }
        if (top + line > height())
            return;
        const QRectF swatch(left, top + 2, line - 4, line - 4);
        painter.fillRect(swatch, under);
        painter.fillRect(swatch, brush);
        painter.setPen(theme().border);
        painter.drawRect(swatch);
        painter.setPen(theme().text);
        painter.drawText(QRectF(left + line, top, wide, line), Qt::AlignLeft | Qt::AlignVCenter, text);
        left += wide;
    };
    entry(QBrush(theme().bubbleHatch, Qt::BDiagPattern), theme().bubble, tr("free"));
    for (std::size_t k = 0; k < m_there.size(); ++k)
        if (m_there[k])
            entry(blockBrush(static_cast<BlockKind>(k)), theme().base, kindText(*m_live, static_cast<BlockKind>(k)));
}

// --- mouse and keyboard

void AddressMap::pick(const QPointF &place)
{
    if (!m_live || !plot().contains(place))
        return;
    Q_EMIT momentPicked(std::clamp(secondsAt(place.x()), 0.0, m_time.whole));
    if (const auto block = blockAt(place)) {
        mark(*block);
        Q_EMIT blockPicked(*block);
    }
}

void AddressMap::mousePressEvent(QMouseEvent *event)
{
    m_press = m_last = event->position();
    m_pressed = event->button() == Qt::LeftButton || event->button() == Qt::MiddleButton;
    m_dragged = false;
}

void AddressMap::mouseMoveEvent(QMouseEvent *event)
{
    if (!m_pressed || !m_live)
        return;
    const QPointF at = event->position();
    m_dragged = m_dragged || (at - m_press).manhattanLength() > kMapDragStart;
    if (!m_dragged)
        return;
    m_time.move((m_last.x() - at.x()) / plot().width());
    m_addresses.move((at.y() - m_last.y()) / plot().height());
    m_last = at;
    redraw();
}

void AddressMap::mouseReleaseEvent(QMouseEvent *event)
{
    const bool clicked = m_pressed && !m_dragged && event->button() == Qt::LeftButton;
    m_pressed = false;
    if (clicked)
        pick(event->position());
}

void AddressMap::mouseDoubleClickEvent(QMouseEvent *) { fit(); }

void AddressMap::wheelEvent(QWheelEvent *event)
{
    const QPoint delta = event->angleDelta();
    const double notches = (delta.y() != 0 ? delta.y() : delta.x()) / 120.0;
    const QRectF area = plot();
    const double x = std::clamp((event->position().x() - area.left()) / area.width(), 0.0, 1.0);
    const double y = std::clamp((area.bottom() - event->position().y()) / area.height(), 0.0, 1.0);
    const bool control = event->modifiers() & Qt::ControlModifier;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    if (control && shift)
        m_addresses.zoom(std::pow(kMapZoom, notches), y);
    else if (control)
        m_time.zoom(std::pow(kMapZoom, notches), x);
    else if (shift || delta.x() != 0)
        m_time.move(-notches * kMapStep);
    else
        m_addresses.move(notches * kMapStep);
    event->accept();
    redraw();
}

void AddressMap::keyPressEvent(QKeyEvent *event)
{
    switch (event->key()) {
    case Qt::Key_0:
    case Qt::Key_Home: fit(); break;
    case Qt::Key_Left: m_time.move(-kMapStep); break;
    case Qt::Key_Right: m_time.move(kMapStep); break;
    case Qt::Key_Up: m_addresses.move(kMapStep); break;
    case Qt::Key_Down: m_addresses.move(-kMapStep); break;
    case Qt::Key_W: m_time.zoom(kMapZoom, 0.5); break;
    case Qt::Key_S: m_time.zoom(1 / kMapZoom, 0.5); break;
    case Qt::Key_A: m_time.move(-kMapStep); break;
    case Qt::Key_D: m_time.move(kMapStep); break;
    case Qt::Key_Plus: m_addresses.zoom(kMapZoom, 0.5); break;
    case Qt::Key_Minus: m_addresses.zoom(1 / kMapZoom, 0.5); break;
    default: return QWidget::keyPressEvent(event);
    }
    redraw();
}

void AddressMap::resizeEvent(QResizeEvent *) { redraw(); }

void AddressMap::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)
        redraw();
    QWidget::changeEvent(event);
}

bool AddressMap::event(QEvent *event)
{
    return answerToolTip(event, this, [this](const QPoint &place) { return textAt(place); }) || QWidget::event(event);
}

} // namespace planloom::ui
