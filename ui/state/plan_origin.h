// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/index.h"

#include <QString>

#include <memory>
#include <string>

namespace planloom::ui {

/// The plan by which a run or a trace was made, and its prediction. A measurement is compared with this prediction
/// only, whatever plan is open.
struct PlanOrigin {
    std::string fingerprint;                                ///< plan::fingerprint(); empty: not known
    QString name;                                           ///< for people; empty: not known
    std::shared_ptr<const simulate::Simulation> simulation; ///< null: not simulated (yet)
    std::shared_ptr<const trace::Index> index;              ///< of its trace

    [[nodiscard]] bool known() const { return !fingerprint.empty(); }
    [[nodiscard]] bool sameAs(const std::string &other) const { return known() && fingerprint == other; }
};

/// "gpt-nano on local:4, pipeline, 4 stages, gpipe".
QString nameOf(const plan::Plan &plan);

} // namespace planloom::ui
