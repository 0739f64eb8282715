// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/model/box_colors.h"

namespace planloom::ui {

/// One line below the graph that says what its colours stand for. Entries without room are counted at the end.
class ColorLegendBar final : public QWidget {
    Q_OBJECT

public:
    explicit ColorLegendBar(QWidget *parent = nullptr);
    void set(ColorLegend legend);
    [[nodiscard]] const ColorLegend &legend() const { return m_legend; }
    /// The same line in a picture.
    void paintOn(QPainter &painter, const QRect &area) const;
    /// All of it, as a text.
    [[nodiscard]] QString text() const;
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;

private:
    int paintScale(QPainter &painter, const QRect &line, int x) const;
    int paintEntries(QPainter &painter, const QRect &line, int x) const;

    ColorLegend m_legend;
};

} // namespace planloom::ui
