// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFont>
#include <QGraphicsItem>
#include <QString>

namespace planloom::ui {

/// The titled frame around the boxes of an open scope. Behind the boxes; a double click on its title closes the scope.
class GraphFrameItem final : public QGraphicsItem {
public:
    /// @p key: of the scope. @p area: with the title.
    GraphFrameItem(QString key, const QString &title, const QRectF &area, const QFont &font);
    /// Room that a title takes, with the gap below it.
    static QSizeF titleSize(const QString &title, const QFont &font);

    [[nodiscard]] const QString &key() const { return m_key; }
    [[nodiscard]] const QString &title() const { return m_title; }
    [[nodiscard]] QRectF titleArea() const;
    [[nodiscard]] const QRectF &area() const { return m_area; }
    [[nodiscard]] QRectF boundingRect() const override { return m_area.adjusted(-1, -1, 1, 1); }
    /// Only the title takes the mouse.
    [[nodiscard]] QPainterPath shape() const override;
    void paint(QPainter *painter, const QStyleOptionGraphicsItem *option, QWidget *widget) override;

private:
    QString m_key, m_title;
    QRectF m_area;
    QFont m_font;
};

} // namespace planloom::ui
