// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QFont>
#include <QGraphicsItem>
#include <QString>

#include "ui/model/box_colors.h"

namespace planloom::ui {

/// One box: title, detail, names of shared inputs, with its colours. A run of repeated scopes has a second edge behind
/// it.
class GraphNodeItem final : public QGraphicsItem {
public:
    /// @p card: with a line for setCard().
    GraphNodeItem(const GraphNode &node, int index, const QFont &font, bool card = false);
    static QSizeF sizeFor(const GraphNode &node, const QFont &font, bool card = false);
    /// Height in pixels of the smallest letters at scale 1.
    static double smallestText(const QFont &font);

    [[nodiscard]] int index() const { return m_index; }
    void setColors(BoxPaint paint);
    void setCard(const QString &text); ///< figures, in its last line
    [[nodiscard]] const QString &card() const { return m_card; }
    void setHighlighted(bool on);
    void setCurrent(bool on);

    [[nodiscard]] QRectF boundingRect() const override;
    void paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *widget) override;

private:
    void paintBox(QPainter *painter, const QRectF &box) const;
    void paintStripes(QPainter *painter, const QRectF &box) const;
    void paintText(QPainter *painter, const QRectF &box) const;
    [[nodiscard]] QColor paper() const;

    QString m_title, m_detail, m_stubs, m_card;
    bool m_hasCard;
    bool m_group;
    bool m_repeated;
    int m_index;
    QSizeF m_size;
    QFont m_font;
    BoxPaint m_colors;
    bool m_highlighted = false;
    bool m_current = false;
};

} // namespace planloom::ui
