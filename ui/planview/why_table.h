// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/plan/why.h"
#include "ui/widgets/data_table.h"

namespace planloom::ui {

/// The limit of the plan, and its runner-up if @p why has one, a line each.
QString whyText(const plan::Why &why, double iterationSeconds);

/// A row per stage: the breakdown of its time and memory, and its limit. Bars compare with the iteration and
/// with the device's memory.
TableData whyTable(const plan::Why &why, double iterationSeconds);

} // namespace planloom::ui
