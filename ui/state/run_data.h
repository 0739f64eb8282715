// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/simulate/simulate.h"
#include "executor/agent/client.h"

#include <QString>
#include <QStringList>

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::ui {

/// What a person asks for in the train dialog.
struct TrainOptions {
    QString dataPath;
    std::int64_t steps = 100;
    std::int64_t seed = 1;
    QString runDir; ///< empty: a new folder under the agent's root
};

/// A training run as the views see it. Changed on the UI thread only.
struct RunData {
    enum class Phase { None, Starting, Running, Finished, Stopped, Failed };

    Phase phase = Phase::None;
    QString id;
    QString folder;
    QString error;                           ///< Failed: what to tell the person
    TrainOptions options;
    std::vector<agent::StepMetrics> steps;
    std::optional<agent::RunSummary> summary;
    std::optional<simulate::Report> predicted; ///< the simulator's word on the plan that runs
    QStringList log;                         ///< a line per event, oldest first

    [[nodiscard]] bool active() const { return phase == Phase::Starting || phase == Phase::Running; }
};

} // namespace planloom::ui
