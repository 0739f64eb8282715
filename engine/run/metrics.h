// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::run {

/// One training step, done by all ranks.
struct StepMetrics {
    std::int64_t step = 0;       ///< from 0
    double loss = 0;             ///< mean over the global batch, the same on every rank
    double seconds = 0;          ///< from one agreed end of a step to the next
    double samplesPerSecond = 0; ///< the agent fills it in
    double learningRate = 0;
    double gradientNorm = 0; ///< before clipping; 0: not computed
    /// In the step behind one that merges an average of replicas (plan::DelayedAveraging): how far they were from it
    /// when they took their snapshots, as the root of the mean, by shares of samples, of the squared distances over all
    /// parameters; 0: not computed.
    double consensusDistance = 0;
    /// Of training by ADMM; 0: not computed. What it minimises, before the step: the summed loss and the ridge.
    double objective = 0;
    /// The augmented Lagrangian behind the step's updates, before that of the duals, which raises it. With a parameter
    /// server workers add it up with the parameters that they have: as the objective, of those before the step.
    double lagrangian = 0;
    double primalResidual = 0; ///< norm of the residuals of all constraints, behind the step
    double dualResidual = 0;   ///< norm of the change of the parameters that workers share, as of consensus ADMM (Boyd
                               ///< and others, 2011, section 7.1), without the penalty
};

/// The held-out samples after a step.
struct Validation {
    std::int64_t step = 0;
    double loss = 0;     ///< mean over labels that count or, where the model's loss is another function than their
                         ///< cross-entropy, over samples; NaN: nothing held out counts
    double accuracy = 0; ///< of labels that count; NaN where the model compares none with logits
    std::int64_t samples = 0;

    /// NaN where the loss compares no labels with logits.
    [[nodiscard]] double perplexity() const { return std::isnan(accuracy) ? accuracy : std::exp(loss); }
};

/// A line of RUN/metrics.jsonl, and of `train --json`; without the line's end. A number that is none is null.
std::string toJson(const StepMetrics &metrics);
/// The same: {"validation": {...}}.
std::string toJson(const Validation &validation);
/// The steps, or the validations, of all whole lines of a metrics.jsonl; a last line that was cut short is left out.
/// Error: BadInput, naming the line.
Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text);
Result<std::vector<Validation>> validationsFromJson(std::string_view text);

} // namespace planloom::run
