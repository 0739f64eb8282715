// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/gnn/graph_data.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::planners {

/// A planning problem.
struct Problem {
    plan::Subject subject;
    std::int64_t globalBatch = 1;
    std::optional<std::int64_t>
        microBatch; ///< samples of one micro-batch on one device; a planner chooses if not given
    plan::Optimizer optimizer;
    plan::Precision precision = plan::Precision::Float32;
    int zero = 0; ///< ZeRO level of stages with replicas. Planners' own memory models leave its savings out; the
                  ///< simulator counts them
    std::vector<plan::Annotation>
        annotations; ///< strategies that the user set for scopes; planners without support for them refuse them
    /// What is sampled in training, for planners that place who samples it; null: not given.
    std::shared_ptr<const planloom::gnn::GraphData> sampledGraph = nullptr;
    std::string sampledGraphHash = {}; ///< SHA-256 of its graph.json
};

/// `--set KEY=VALUE`. A planner refuses keys that it does not document.
using Options = std::map<std::string, std::string>;

/// One simulated plan of a search, best first.
struct Candidate {
    plan::Plan plan;
    double simulatedSeconds = 0;
    std::int64_t peakBytes = 0; ///< of the fullest device; 0: not known
};

/// A planner's answer.
struct PlanReport {
    plan::Plan plan;                     ///< with planner, estimate and predictedJson filled in
    simulate::Report predicted;          ///< simulated result
    std::vector<Candidate> alternatives; ///< runners-up, best first, at most ten
    std::vector<Candidate>
        pareto; ///< of planners that look at memory, too: fastest first, each needs less memory than those before it
    std::vector<std::string> space; ///< the plans that a bound in the estimate is of, a choice a line; empty: no bound
    std::vector<std::string> notes; ///< sentences: where the answer is not quite what was asked for
    bool complete = true;           ///< false: stopped early, the best so far
};

/// An option of a planner, as the command line and the studio list it.
struct OptionInfo {
    std::string key;
    std::string fallback;
    std::string about;
    std::string relaxed = {}; ///< the value with which most plans fit, which a planner that finds none tries
                              ///< (common/remedy.h); empty: no value makes more fit
    std::vector<std::string> choices = {}; ///< the values that it can have; empty: a number, a list or free text
};

/// A planner is a function from a problem to a plan: no clock, file or global in it, deterministic for equal input.
class Planner {
public:
    virtual ~Planner() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual std::string about() const = 0; ///< one line, with the paper
    [[nodiscard]] virtual std::vector<OptionInfo> options() const = 0;
    /// Whether Problem::annotations means something to it; others refuse them.
    [[nodiscard]] virtual bool takesAnnotations() const { return false; }
    /// A search that is stopped returns the best so far, not complete. Errors: BadInput (options), Infeasible (which
    /// limit binds; remedyFor() finds a remedy), Cancelled (nothing found yet).
    [[nodiscard]] virtual Result<PlanReport> plan(const Problem &problem, const Options &options,
                                                  Progress &progress) const = 0;
    /// Whether there is a plan that fits: the result of plan(), unless a planner has a faster way. If stopped: the
    /// state so far.
    [[nodiscard]] virtual bool fits(const Problem &problem, const Options &options, Progress &progress) const;
};

/// Error (BadInput): no model, cluster or costs; a batch or micro-batch below 1 or a micro-batch above the batch; an
/// optimizer whose figures are not finite; annotations, where the planner does not take them, or they are wrong. Every
/// planner asks this first.
enum class Annotations { Refused, Taken };
Status validate(const Problem &problem, Annotations annotations = Annotations::Refused);

/// A plan for @p problem with everything but stages and schedule filled in.
plan::Plan emptyPlan(const Problem &problem, const std::string &planner, const Options &options);

/// Simulates @p plan and fills report fields that every planner fills the same way; the estimate's time is at least
/// what shared processor cores compute (shared_cores.h). For planners' last step.
Result<PlanReport> finish(plan::Plan plan, const Problem &problem, std::vector<Candidate> alternatives = {});

} // namespace planloom::planners
