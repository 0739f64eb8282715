// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBrush>
#include <QColor>
#include <QString>

#include "ui/model/model_figures.h"
#include "ui/model/scope_graph.h"

#include <vector>

namespace planloom::ui {

/// What the colours of boxes mean.
enum class ColorBy { Stage, Device, Flops, Time, Memory };

/// How one box is painted.
struct BoxPaint {
    std::vector<QBrush> stripes; ///< at its left, one below the other
    QColor fill;                 ///< of all of it; invalid: as boxes are without a figure
    double share = -1;           ///< 0..1: length of a bar at its foot, which says the same as the fill; negative: none
};

/// What the colours stand for.
struct ColorLegend {
    struct Entry {
        QString text;
        QBrush brush;
    };
    QString title;              ///< "Stage", "FLOPs, forward and backward"
    std::vector<Entry> entries; ///< of stripes
    QString low, high;          ///< ends of the scale of fills; empty: no fills
    QString note;               ///< in place of all that: why there are no colours
};

/// The paints of a graph's boxes, in its order, with their legend.
struct BoxColors {
    std::vector<BoxPaint> boxes;
    ColorLegend legend;
};

/// Colours in the theme in force. Scales reach from 0 to the largest figure of a box of @p graph. More than eight
/// devices are coloured by their machines. @p figures: null while there are none yet. Cost: O(operators).
BoxColors colorBoxes(ColorBy by, const VisibleGraph &graph, const ModelFigures *figures);

} // namespace planloom::ui
