// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/compare/side.h"
#include "executor/agent/client.h"
#include "ui/state/plan_origin.h"

#include <QString>
#include <QStringList>

#include <algorithm>
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
    PlanOrigin origin;                           ///< the plan that runs
    std::optional<compare::CourseChange> change; ///< from its first step on a run goes by what it has measured
    QStringList log;                             ///< a line per event, oldest first
    bool hasKernelRows = false;                  ///< its trace has rows for what GPUs run of each task

    /// Of the plan that runs; null: not simulated.
    [[nodiscard]] const simulate::Report *predicted() const
    {
        return origin.simulation ? &origin.simulation->report : nullptr;
    }
    /// Both courses, where it has changed its course and the prediction is known; else none.
    [[nodiscard]] std::vector<compare::Course> courses() const
    {
        return change && predicted() ? compare::coursesOf(*change, steps, predicted()->iterationSeconds)
                                     : std::vector<compare::Course>();
    }
    /// Steps of a round of its plan (trace::Rounds); 1 where that is not known.
    [[nodiscard]] std::size_t roundSteps() const
    {
        return origin.simulation ? static_cast<std::size_t>(std::max(origin.simulation->trace.rounds.steps, 1)) : 1;
    }
    [[nodiscard]] bool active() const { return phase == Phase::Starting || phase == Phase::Running; }
};

} // namespace planloom::ui
