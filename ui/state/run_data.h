// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "executor/agent/client.h"
#include "ui/state/plan_origin.h"

#include <QString>
#include <QStringList>

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::ui {

/// A training run as the views see it. Changed on the UI thread only.
struct RunData {
    enum class Phase { None, Starting, Running, Finished, Stopped, Failed, Unfinished };

    Phase phase = Phase::None; ///< Unfinished: opened from a folder without a summary
    QString id;
    QString folder;
    QString error; ///< Failed: the message
    run::Settings settings;
    std::vector<run::StepMetrics> steps;
    std::optional<run::Summary> summary;
    PlanOrigin origin; ///< the plan that runs
    QStringList log;   ///< a line per event, oldest first

    /// Of the plan that runs; null: not simulated.
    [[nodiscard]] const simulate::Report *predicted() const
    {
        return origin.simulation ? &origin.simulation->report : nullptr;
    }
    [[nodiscard]] bool active() const { return phase == Phase::Starting || phase == Phase::Running; }
};

} // namespace planloom::ui
