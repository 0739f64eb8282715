// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/graph_frame_item.h"

#include "ui/theme/theme.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <QStyleOptionGraphicsItem>

#include <algorithm>
#include <utility>

namespace planloom::ui {
namespace {

constexpr double kTitleGap = 4;
constexpr double kFrameTextScale = 0.35; // as the text of boxes

QFont titleFont(QFont font)
{
    font.setPointSizeF(font.pointSizeF() * 0.9);
    font.setBold(true);
    return font;
}

} // namespace

GraphFrameItem::GraphFrameItem(QString key, const QString &title, const QRectF &area, const QFont &font)
    : m_key(std::move(key)),
      m_title(title),
      m_area(area),
      m_font(titleFont(font))
{
    setZValue(-2); // below edges
    setToolTip(QCoreApplication::translate("GraphFrameItem", "%1: double-click closes it").arg(m_key));
}

QSizeF GraphFrameItem::titleSize(const QString &title, const QFont &font)
{
    const QFontMetricsF metrics(titleFont(font));
    return {metrics.horizontalAdvance(title) + 2 * kTitleGap, metrics.height() + kTitleGap};
}

QRectF GraphFrameItem::titleArea() const
{
    const QFontMetricsF metrics(m_font);
    return {m_area.left() + kTitleGap, m_area.top() + kTitleGap / 2,
            std::min(metrics.horizontalAdvance(m_title) + kTitleGap, m_area.width() - 2 * kTitleGap), metrics.height()};
}

QPainterPath GraphFrameItem::shape() const
{
    QPainterPath path;
    path.addRect(titleArea());
    return path;
}

void GraphFrameItem::paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *)
{
    painter->setPen(QPen(theme().dimText, 1));
    QColor paper = theme().dimText;
    paper.setAlpha(theme().dark ? 18 : 12); // nested frames get darker from level to level
    painter->setBrush(paper);
    painter->drawRoundedRect(m_area, 4, 4);
    if (option->levelOfDetailFromTransform(painter->worldTransform()) < kFrameTextScale)
        return;
    painter->setFont(m_font);
    painter->setPen(theme().text);
    const QRectF area = titleArea();
    painter->drawText(area, Qt::AlignLeft | Qt::AlignVCenter,
                      QFontMetricsF(m_font).elidedText(m_title, Qt::ElideMiddle, area.width()));
}

} // namespace planloom::ui
