// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRect>

#include <functional>

class QWidget;

namespace planloom::ui {

class DataTable;
class StudioState;

/// Makes @p edit, which returns false if it was refused, and then shows the reason that the state gives below @p place
/// of @p widget, besides the message line. Returns what @p edit does.
bool editAt(StudioState &state, QWidget *widget, const QRect &place, const std::function<bool()> &edit);

/// Where a cell of @p table is, in its viewport; @p row: of its TableData. Empty: it is filtered out.
QRect cellRect(const DataTable &table, int row, int column);

} // namespace planloom::ui
