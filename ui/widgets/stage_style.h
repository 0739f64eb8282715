// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QBrush>
#include <QColor>

namespace planloom::ui {

/// How stage @p stage is filled: the series' colour with a hatch of its own period (eight colours, seven hatches),
/// so that stages differ without colour too. In the theme in force.
QBrush stageBrush(int stage);

/// @p color with @p share (0..1) of the theme's base mixed in: a pale version of it in any theme.
QColor paled(const QColor &color, double share);

} // namespace planloom::ui
