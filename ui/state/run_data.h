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

/// A training run as the views see it. Changed on the UI thread only.
struct RunData {
    enum class Phase { None, Starting, Running, Finished, Stopped, Failed };

    Phase phase = Phase::None;
    QString id;
    QString folder;
    QString error; ///< Failed: the message
    run::Settings settings;
    std::vector<run::StepMetrics> steps;
    std::optional<run::Summary> summary;
    std::optional<simulate::Report> predicted; ///< of the plan that runs, by the simulator
    QStringList log;                           ///< a line per event, oldest first

    [[nodiscard]] bool active() const { return phase == Phase::Starting || phase == Phase::Running; }
};

} // namespace planloom::ui
