// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/efficiency.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/index.h"

#include <QString>

#include <memory>
#include <optional>
#include <string>

namespace planloom::ui {

/// The plan by which a run or a trace was made, and its prediction. A measurement is compared with this prediction
/// only, whatever plan is open.
struct PlanOrigin {
    std::string fingerprint; ///< plan::fingerprint(); empty: not known
    QString name;            ///< for people; empty: not known
    QString contents;        ///< of a trace without a plan: "4 devices, 4 stages, 8 micro-batches, 25 steps"
    std::shared_ptr<const simulate::Simulation> simulation; ///< null: not simulated (yet)
    std::shared_ptr<const trace::Index> index;              ///< of its trace
    plan::ModelWork work;                                   ///< of a sample; empty: not simulated
    std::optional<double> laterSeconds; ///< of a step by gradients behind iterations of ADMM (plan::Continuation)

    bool measures = false;                    ///< a memory policy decides by what a run measures: it changes its course
    std::optional<std::int64_t> measuredFrom; ///< of a trace of the steps behind that change: the first of them, and
                                              ///< the prediction is by what the run has measured

    /// A plan made the trace, and it has not been found.
    [[nodiscard]] bool lacksPlan() const { return known() && name.isEmpty(); }
    [[nodiscard]] bool known() const { return !fingerprint.empty(); }
    [[nodiscard]] bool sameAs(const std::string &other) const { return known() && fingerprint == other; }
};

/// What a trace says of the plan that made it, see PlanOrigin::contents. Cost: O(tasks).
QString contentsOf(const trace::Trace &trace, const trace::Index &index);

/// Whether a memory policy of it decides by what a run measures (plan::MemoryClock::Measured).
bool measures(const plan::Plan &plan);

/// "gpt-nano on local:4, pipeline, 4 stages, gpipe".
QString nameOf(const plan::Plan &plan);

} // namespace planloom::ui
