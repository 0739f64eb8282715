// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace planloom::planners {

/// What is to be planned.
struct Problem {
    plan::Subject subject;
    std::int64_t globalBatch = 1;
    std::optional<std::int64_t> microBatch; ///< samples of one micro-batch on one device; a planner chooses if not given
    plan::Optimizer optimizer;
    plan::Precision precision = plan::Precision::Float32;
    int zero = 0; ///< ZeRO level of stages with replicas. Planners' own memory models leave its savings out; the simulator counts them
    std::vector<plan::Annotation> annotations; ///< what a person asks of scopes of the model; planners that make nothing of them refuse them
};

/// `--set KEY=VALUE`. A planner refuses keys that it does not document.
using Options = std::map<std::string, std::string>;

/// One plan that a search looked at closely, best first.
struct Candidate {
    plan::Plan plan;
    double simulatedSeconds = 0;
    std::int64_t peakBytes = 0; ///< of the fullest device; 0: not known
};

struct PlanReport {
    plan::Plan plan;                  ///< with planner, estimate and predictedJson filled in
    simulate::Report predicted;       ///< the simulator's word
    std::vector<Candidate> alternatives; ///< runners-up, best first, at most ten
    std::vector<Candidate> pareto;    ///< of planners that look at memory, too: fastest first, each needs less memory than those before it
    bool complete = true;             ///< false: stopped early, the best so far
};

struct OptionInfo {
    std::string key;
    std::string fallback;
    std::string about;
    std::string relaxed = {}; ///< the value with which most plans fit, where that is another than may be set; empty: no value makes more fit
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
    /// A search that is stopped returns the best so far, not complete. Errors: BadInput (options), Infeasible (which limit binds; remedyFor() finds what
    /// would help), Cancelled (nothing found yet).
    [[nodiscard]] virtual Result<PlanReport> plan(const Problem &problem, const Options &options, Progress &progress) const = 0;
    /// Whether there is a plan that fits: what plan() finds, unless a planner knows sooner. Of a search that is stopped: what is known by then.
    [[nodiscard]] virtual bool fits(const Problem &problem, const Options &options, Progress &progress) const;
};

/// Everything built in, in the order that `planloom planners` prints.
std::vector<const Planner *> allPlanners();
/// Error: NotFound that lists the names.
Result<const Planner *> findPlanner(const std::string &name);

/// Error (BadInput): no model, cluster or costs; a batch or micro-batch below 1 or a micro-batch above the batch; an optimizer
/// whose figures are not finite; annotations, where the planner does not take them, or they are wrong. Every planner asks this first.
enum class Annotations { Refused, Taken };
Status validate(const Problem &problem, Annotations annotations = Annotations::Refused);

/// A plan for @p problem with everything but stages and schedule filled in.
plan::Plan emptyPlan(const Problem &problem, const std::string &planner, const Options &options);

/// Runs @p planner, and then fills in why its plan is what it is (plan::Why): what people and files get. A plan that cannot be explained, which a plan that
/// was simulated can, is handed on as it stands; one that is the best so far is marked so. Where nothing fits, the error says what would help.
Result<PlanReport> planAndExplain(const Planner &planner, const Problem &problem, const Options &options, Progress &progress);

/// The two halves of it, for who times the search alone. A report's plan with its reasons and, if the search was stopped, with `stopped_early` in its estimate.
PlanReport explained(PlanReport report, const Problem &problem);
/// An Infeasible error with the smallest change that helps, which is searched for with @p planner itself; other errors as they are.
Error withRemedy(Error error, const Planner &planner, const Problem &problem, const Options &options, Progress &progress);

/// Simulates @p plan and fills report fields that every planner fills the same way. For planners' last step.
Result<PlanReport> finish(plan::Plan plan, const Problem &problem, std::vector<Candidate> alternatives = {});

} // namespace planloom::planners
