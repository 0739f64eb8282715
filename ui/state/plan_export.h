// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/export/export.h"
#include "engine/simulate/simulate.h"

#include <string>
#include <vector>

namespace planloom::ui {

/// A format in which a plan leaves the studio.
struct PlanFormat {
    std::string name; ///< of exporting::formats()
    std::string about;
    std::string suffix; ///< of its files
    std::string title;  ///< the program that reads it, or the kind of file
};

/// Those of `planloom export` that are text and made of the plan alone.
std::vector<PlanFormat> planFormats();

/// The content of the file, and notes on facts outside of it. @p simulation may be null; the timeline needs one. Any
/// thread. Errors: Unsupported, where the target cannot express the plan, with the remedy; BadInput for the timeline
/// without a simulation.
Result<exporting::Configuration> exportPlan(const std::string &format, const plan::Document &document,
                                            const simulate::Simulation *simulation);

} // namespace planloom::ui
