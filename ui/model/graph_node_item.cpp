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

GraphNodeItem::GraphNodeItem(const GraphNode &node, int index, const QFont &font)
    : m_title(titleOf(node)),
      m_detail(QString::fromStdString(node.detail)),
      m_stubs(stubText(node)),
      m_group(node.group),
      m_index(index),
      m_size(sizeFor(node, font)),
      m_font(font)
{
    setToolTip(QString::fromStdString(node.key) + (m_detail.isEmpty() ? QString() : QStringLiteral("\n") + m_detail)
               + (m_stubs.isEmpty() ? QString() : QStringLiteral("\n") + m_stubs));
}

QSizeF GraphNodeItem::sizeFor(const GraphNode &node, const QFont &font)
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
    width = std::min(width, kWidest) + 2 * kPadding + kStageBar;
    return {std::ceil(width), std::ceil(height + 2 * kPadding)};
}

double GraphNodeItem::smallestText(const QFont &font) { return QFontInfo(smaller(font)).pixelSize(); }

void GraphNodeItem::setStageColors(std::vector<QColor> colors)
{
    m_stages = std::move(colors);
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
    return {-m_size.width() / 2 - 2, -m_size.height() / 2 - 2, m_size.width() + 4, m_size.height() + 4};
}

void GraphNodeItem::paintStages(QPainter *painter, const QRectF &box) const
{
    const double each = box.height() / static_cast<double>(std::max<std::size_t>(m_stages.size(), 1));
    for (std::size_t i = 0; i < m_stages.size(); ++i)
        painter->fillRect(QRectF(box.left(), box.top() + static_cast<double>(i) * each, kStageBar, each), m_stages[i]);
}

void GraphNodeItem::paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *)
{
    const Theme &colors = theme();
    const QRectF box(-m_size.width() / 2, -m_size.height() / 2, m_size.width(), m_size.height());
    painter->setPen(Qt::NoPen);
    painter->fillRect(box, m_highlighted ? colors.accent : m_group ? colors.button : colors.alternateBase);
    paintStages(painter, box);
    QPen border(m_current ? colors.cursor : colors.border, m_current ? 2.4 : 1);
    painter->setPen(border);
    painter->setBrush(Qt::NoBrush);
    painter->drawRect(box);
    if (option->levelOfDetailFromTransform(painter->worldTransform()) < kTextScale)
        return;
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
    const QColor strong = m_highlighted ? colors.accentText : colors.text;
    const QColor dim = m_highlighted ? colors.accentText : colors.dimText;
    write(m_title, m_group ? bold(m_font) : m_font, strong);
    write(m_detail, smaller(m_font), dim);
    write(m_stubs, smaller(m_font), dim);
}

} // namespace planloom::ui
