// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPainter>
#include <QRect>
#include <QRgb>

#include <vector>

namespace planloom::ui {

/// The bars of a row that are a few pixels wide, drawn as one stretched line of pixels: where slices are as narrow as
/// pixels, there are two for each, and a rectangle for each would take most of the time of a picture.
class ThinBars {
public:
    void begin(int width); ///< of the row, pixels; forgets all bars
    /// Columns [x, right) of the row, as far as there are such. Those of @p serrated lack a piece at the foot at every
    /// other pair of columns of the widget, of which the row's first is number @p left.
    void add(int x, int right, QRgb color, bool serrated, int left);
    /// Into @p row, the lower @p notch pixels of which are what serrated bars may lack. No antialiasing. Cost:
    /// O(pixels of the row).
    void paint(QPainter &painter, const QRect &row, int notch) const;

private:
    std::vector<QRgb> m_body; ///< 0: nothing
    std::vector<QRgb> m_foot;
    bool m_any = false;
};

} // namespace planloom::ui
