// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"

#include <QString>

namespace planloom::ui {

/// The plan's stages in words, short whatever their number: "Pipeline, 8 stages", "2 + 4 devices", "64 stages × 16-way
/// tensor".
QString shapeText(const plan::Plan &plan);

} // namespace planloom::ui
