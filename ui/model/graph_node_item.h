// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QFont>
#include <QGraphicsItem>
#include <QString>

#include "ui/model/scope_graph.h"

#include <vector>

namespace planloom::ui {

/// One box: title, detail, names of shared inputs, a bar of its stages' colours at the left.
class GraphNodeItem final : public QGraphicsItem {
public:
    GraphNodeItem(const GraphNode &node, int index, const QFont &font);
    static QSizeF sizeFor(const GraphNode &node, const QFont &font);
    /// Height in pixels of the smallest letters at scale 1.
    static double smallestText(const QFont &font);

    [[nodiscard]] int index() const { return m_index; }
    void setStageColors(std::vector<QColor> colors);
    void setHighlighted(bool on);
    void setCurrent(bool on);

    [[nodiscard]] QRectF boundingRect() const override;
    void paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *widget) override;

private:
    void paintStages(QPainter *painter, const QRectF &box) const;

    QString m_title, m_detail, m_stubs;
    bool m_group;
    int m_index;
    QSizeF m_size;
    QFont m_font;
    std::vector<QColor> m_stages;
    bool m_highlighted = false;
    bool m_current = false;
};

} // namespace planloom::ui
