// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/graph_node_item.h"

#include "ui/theme/theme.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QPainter>
#include <QStyleOptionGraphicsItem>
#include <algorithm>

namespace planloom::ui {
namespace {

constexpr double kPadding = 7;
constexpr double kStageBar = 6;
constexpr double kWidest = 240;
constexpr double kShareBar = 4;
constexpr double kBehind = 4; // offset of the second edge of a run
/// Below this scale letters are smaller than can be read: boxes alone say more.
constexpr double kTextScale = 0.35;

QString stubText(const GraphNode &node)
{
    QStringList names;
    for (const std::string &stub : node.stubs)
        names << QString::fromStdString(stub);
    constexpr int kShown = 3;
    if (names.size() > kShown)
        names = QStringList(names.mid(0, kShown)) << QStringLiteral("…");
    return names.isEmpty() ? QString() : QStringLiteral("◂ ") + names.join(QStringLiteral(", "));
}

QString titleOf(const GraphNode &node)
{
    return (node.group ? QStringLiteral("▸ ") : QString()) + QString::fromStdString(node.title);
}

QFont smaller(QFont font)
{
    font.setPointSizeF(font.pointSizeF() * 0.85);
    return font;
}

QFont bold(QFont font)
{
    font.setBold(true);
    return font;
}

} // namespace

GraphNodeItem::GraphNodeItem(const GraphNode &node, int index, const QFont &font, bool card)
    : m_title(titleOf(node)),
      m_detail(QString::fromStdString(node.detail)),
      m_stubs(stubText(node)),
      m_hasCard(card),
      m_group(node.group),
      m_repeated(node.repeats > 1),
      m_index(index),
      m_size(sizeFor(node, font, card)),
      m_font(font)
{
}

QSizeF GraphNodeItem::sizeFor(const GraphNode &node, const QFont &font, bool card)
{
    const QFontMetricsF title(node.group ? bold(font) : font);
    const QFontMetricsF small(smaller(font));
    const QString stubs = stubText(node);
    double width =
        std::max({title.horizontalAdvance(titleOf(node)), small.horizontalAdvance(QString::fromStdString(node.detail)),
                  small.horizontalAdvance(stubs)});
    double height = title.height();
    height += node.detail.empty() ? 0 : small.height();
    height += stubs.isEmpty() ? 0 : small.height();
    if (card) { // figures come later: room for the longest
        width = std::max(width, small.horizontalAdvance(QStringLiteral("888.8 GFLOP · 888.8 MiB")));
        height += small.height();
    }
    width = std::min(width, kWidest) + 2 * kPadding + kStageBar;
    return {std::ceil(width), std::ceil(height + 2 * kPadding)};
}

double GraphNodeItem::smallestText(const QFont &font) { return QFontInfo(smaller(font)).pixelSize(); }

void GraphNodeItem::setColors(BoxPaint paint)
{
    m_colors = std::move(paint);
    update();
}

void GraphNodeItem::setCard(const QString &text)
{
    m_card = text;
    update();
}

void GraphNodeItem::setHighlighted(bool on)
{
    if (m_highlighted == on)
        return;
    m_highlighted = on;
    update();
}

void GraphNodeItem::setCurrent(bool on)
{
    m_current = on;
    update();
}

QRectF GraphNodeItem::boundingRect() const
{
    const double behind = m_repeated ? kBehind : 0;
    return QRectF(-m_size.width() / 2, -m_size.height() / 2, m_size.width(), m_size.height())
        .adjusted(-3, -3 - behind, 3 + behind, 3);
}

QColor GraphNodeItem::paper() const
{
    if (m_colors.fill.isValid())
        return m_colors.fill;
    return m_highlighted ? theme().accent : m_group ? theme().button : theme().alternateBase;
}

void GraphNodeItem::paintStripes(QPainter *painter, const QRectF &box) const
{
    const double each = box.height() / static_cast<double>(std::max<std::size_t>(m_colors.stripes.size(), 1));
    for (std::size_t i = 0; i < m_colors.stripes.size(); ++i)
        painter->fillRect(QRectF(box.left(), box.top() + static_cast<double>(i) * each, kStageBar, each),
                          m_colors.stripes[i]);
}

void GraphNodeItem::paintBox(QPainter *painter, const QRectF &box) const
{
    const Theme &colors = theme();
    painter->setBrush(Qt::NoBrush);
    if (m_repeated) {
        painter->setPen(QPen(colors.dimText, 1));
        painter->drawRect(box.translated(kBehind, -kBehind));
    }
    painter->fillRect(box, paper());
    paintStripes(painter, box);
    if (m_colors.share > 0) {
        const QRectF bar(box.left(), box.bottom() - kShareBar, box.width() * m_colors.share, kShareBar);
        painter->fillRect(bar, textOn(paper()));
    }
    if (m_highlighted && m_colors.fill.isValid()) { // the fill says something else: a frame inside of the edge
        painter->setPen(QPen(colors.accent, 3));
        painter->drawRect(box.adjusted(2, 2, -2, -2));
    }
    painter->setPen(QPen(m_current ? colors.cursor : colors.border, m_current ? 2.4 : 1));
    painter->drawRect(box);
    constexpr double kSeen = 2;
    const QColor around = m_highlighted ? colors.accent : paper();
    if (m_current && contrast(colors.cursor, around) < kSeen) { // high contrast has one colour for both
        painter->setPen(QPen(textOn(around), 1.5));
        painter->drawRect(box.adjusted(2, 2, -2, -2));
    }
}

void GraphNodeItem::paintText(QPainter *painter, const QRectF &box) const
{
    QRectF line = box.adjusted(kPadding + kStageBar, kPadding, -kPadding, 0);
    const auto write = [&](const QString &text, const QFont &font, const QColor &color) {
        if (text.isEmpty())
            return;
        const QFontMetricsF metrics(font);
        line.setHeight(metrics.height());
        painter->setFont(font);
        painter->setPen(color);
        painter->drawText(line, Qt::AlignLeft | Qt::AlignVCenter,
                          metrics.elidedText(text, Qt::ElideMiddle, line.width()));
        line.translate(0, line.height());
    };
    const Theme &colors = theme();
    const bool plain = !m_highlighted && !m_colors.fill.isValid();
    const QColor strong = plain ? colors.text : m_colors.fill.isValid() ? textOn(paper()) : colors.accentText;
    const QColor dim = plain ? colors.dimText : strong;
    write(m_title, m_group ? bold(m_font) : m_font, strong);
    write(m_detail, smaller(m_font), dim);
    write(m_stubs, smaller(m_font), dim);
    if (m_hasCard)
        write(m_card, smaller(m_font), strong);
}

void GraphNodeItem::paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *)
{
    const QRectF box(-m_size.width() / 2, -m_size.height() / 2, m_size.width(), m_size.height());
    paintBox(painter, box);
    if (option->levelOfDetailFromTransform(painter->worldTransform()) >= kTextScale)
        paintText(painter, box);
}

} // namespace planloom::ui
