// SPDX-License-Identifier: Apache-2.0
#include "planners/admm/admm.h"

#include "engine/plan/validate.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace planloom::planners::admm {
namespace {

namespace method = planloom::admm;

constexpr double kMostPenalty = 1e12;
constexpr std::int64_t kMostInnerSteps = 100;
constexpr std::int64_t kMostWorkers = 1 << 16;
constexpr std::int64_t kMostIterations = 1 << 30;
constexpr std::int64_t kMostDelay = 1 << 10;

struct AdmmOptions {
    std::int64_t workers = 0; ///< 0: as many as are fastest
    method::Settings settings;
    std::vector<method::Parallel> modes; ///< to try
    std::int64_t barrier = 0;            ///< asynchronous; 0: tried
    std::int64_t delay = 0;              ///< likewise
    std::int64_t switchAfter = 0;        ///< iterations behind which training goes on by gradients; 0: none
};

/// Progress of a sweep over all samples behind a partial barrier, as a part of a synchronous iteration's. On the digits
/// with four workers, of which one takes three times as long, a barrier of 1 and a delay of 4 reach the objective of 20
/// synchronous iterations in the time of 40 sweeps of a fast worker (tst_admm_digits), so after (3 * 40 + 40 / 3) / 4 =
/// 33.3 sweeps over all samples: 20 / 33.3.
constexpr double kWorthOfSweep = 0.6;

Result<AdmmOptions> readAdmmOptions(const Options &options, const std::vector<OptionInfo> &known)
{
    OptionReader reader(options, known);
    AdmmOptions read;
    read.workers = reader.integer("workers", 0, kMostWorkers);
    method::Settings &settings = read.settings;
    settings.mu = reader.number("mu", 0, kMostPenalty);
    settings.gamma = reader.number("gamma", 0, 1);
    settings.rho = reader.number("rho", 0, kMostPenalty);
    settings.ridge = reader.number("ridge", 0, kMostPenalty);
    settings.duals = reader.choice("duals") == "last" ? method::Duals::Last : method::Duals::All;
    settings.order = reader.choice("order") == "split" ? method::Order::Split : method::Order::Interleaved;
    settings.timeRanges = static_cast<int>(reader.integer("time_ranges", 1, kMostWorkers));
    if (settings.timeRanges > 1 && !options.contains("order"))
        settings.order = method::Order::Split; // the other has no ranges
    settings.newtonSteps = static_cast<int>(reader.integer("newton_steps", 1, kMostInnerSteps));
    settings.tanhSteps = static_cast<int>(reader.integer("tanh_steps", 1, kMostInnerSteps));
    const std::string subproblems = reader.choice("subproblems");
    settings.subproblems = subproblems == "exact" ? method::Subproblems::Exact
        : subproblems == "released"               ? method::Subproblems::Released
                                                  : method::Subproblems::Linearised;
    const std::string parallel = reader.choice("parallel");
    if (parallel != "asynchronous")
        read.modes.push_back(method::Parallel::Synchronous);
    if (parallel != "synchronous")
        read.modes.push_back(method::Parallel::Asynchronous);
    read.barrier = reader.integer("barrier", 0, kMostWorkers);
    read.delay = reader.integer("delay", 0, kMostDelay);
    settings.shards = static_cast<int>(reader.integer("shards", 1, kMostWorkers));
    read.switchAfter = reader.integer("switch_after", 0, kMostIterations);
    settings.proximal = reader.number("proximal", 0, kMostPenalty);
    if (!reader.status())
        return reader.status().error();
    if (settings.subproblems != method::Subproblems::Exact && parallel == "auto")
        read.modes = {method::Parallel::Synchronous}; // it has no other
    if (parallel == "synchronous" && (read.barrier > 0 || read.delay > 0))
        return badInput("options barrier and delay are for workers that do not wait for each other; set "
                        "parallel=asynchronous, or leave them out");
    if (const Status good = settings.check(); !good)
        return good.error();
    return read;
}

/// What is tried: so many workers, and how they wait for each other.
struct Trial {
    std::int64_t workers = 1;
    method::Settings settings;
    std::int64_t switchAfter = 0;
};

plan::Plan planOn(const Problem &problem, const Options &options, const Trial &trial)
{
    const std::int64_t workers = trial.workers;
    plan::Plan plan = emptyPlan(problem, "admm", options);
    plan.admm = trial.settings;
    if (trial.switchAfter > 0)
        plan.then = plan::Continuation{trial.switchAfter, plan.optimizer};
    plan.optimizer = plan::admmOptimizer();
    plan::Stage stage;
    stage.name = "workers";
    stage.lastLayer = problem.subject.layers().size();
    const std::int64_t ranges = trial.settings.timeRanges;
    for (std::int64_t device = 0; device < workers * ranges; ++device)
        stage.devices.push_back(problem.subject.cluster->devices()[static_cast<std::size_t>(device)].id);
    if (ranges > 1)
        stage.mesh = {static_cast<int>(workers), static_cast<int>(ranges)};
    plan.stages = {std::move(stage)};
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    return plan;
}

/// Powers of two up to all devices, and these.
Result<std::vector<std::int64_t>> workersToTry(const Problem &problem, const AdmmOptions &how)
{
    const auto devices = static_cast<std::int64_t>(problem.subject.cluster->devices().size());
    const std::int64_t ranges = how.settings.timeRanges; // a device each
    const std::int64_t fitting = devices / ranges;
    const std::string &cluster = problem.subject.cluster->name();
    if (fitting < 1)
        return badInput(fmt::format("{} ranges of steps do not fit the {} devices of cluster {}; use at most {}",
                                    ranges, devices, cluster, devices));
    if (how.workers > fitting)
        return badInput(
            ranges == 1
                ? fmt::format("{} workers do not fit the {} devices of cluster {}; use at most {}", how.workers,
                              devices, cluster, fitting)
                : fmt::format("{} workers with {} ranges of steps do not fit the {} devices of cluster {}; use at most "
                              "{}, or fewer ranges",
                              how.workers, ranges, devices, cluster, fitting));
    if (how.workers > 0)
        return std::vector{how.workers};
    const std::int64_t most = std::min(fitting, problem.globalBatch);
    std::vector<std::int64_t> counts;
    for (std::int64_t workers = 1; workers < most; workers *= 2)
        counts.push_back(workers);
    counts.push_back(most);
    return counts;
}

/// Barriers of one, half and all but one worker, delays of 2, 4 and 8 versions, where none are given. Some may be no
/// valid plans: a barrier of more workers than the trial has, or settings that a server does not know.
std::vector<Trial> trialsOf(const AdmmOptions &how, const std::vector<std::int64_t> &counts)
{
    std::vector<Trial> trials;
    for (const std::int64_t workers : counts)
        for (const method::Parallel mode : how.modes) {
            Trial trial{workers, how.settings, how.switchAfter};
            trial.settings.parallel = mode;
            if (mode == method::Parallel::Synchronous) {
                trials.push_back(trial);
                continue;
            }
            if (workers < 2 && (counts.size() > 1 || how.modes.size() > 1))
                continue;
            std::set<std::int64_t> barriers{1, std::max<std::int64_t>(1, workers / 2),
                                            std::max<std::int64_t>(1, workers - 1)};
            std::set<std::int64_t> delays{2, 4, 8};
            if (how.barrier > 0)
                barriers = {how.barrier};
            if (how.delay > 0)
                delays = {how.delay};
            for (const std::int64_t barrier : barriers)
                for (const std::int64_t delay : delays) {
                    trial.settings.barrier = static_cast<int>(barrier);
                    trial.settings.delay = static_cast<int>(delay);
                    trials.push_back(trial);
                }
        }
    return trials;
}

/// Seconds for what a synchronous iteration gets done.
double secondsOfProgress(const PlanReport &report)
{
    if (report.plan.admm->parallel == method::Parallel::Synchronous)
        return report.predicted.iterationSeconds;
    return static_cast<double>(report.plan.globalBatch) / report.predicted.samplesPerSecond / kWorthOfSweep;
}

bool isBetter(const PlanReport &report, const PlanReport &other)
{
    if (report.predicted.fits != other.predicted.fits)
        return report.predicted.fits;
    return secondsOfProgress(report) < secondsOfProgress(other);
}

Status checkProblem(const Problem &problem)
{
    if (problem.microBatch)
        return badInput("planner admm takes all samples at once; leave out --micro-batch");
    if (problem.precision != plan::Precision::Float32)
        return badInput("planner admm needs float32; leave out --precision");
    if (problem.zero != 0)
        return badInput("planner admm has no optimizer state to shard; leave out --zero");
    return {};
}

} // namespace

std::vector<OptionInfo> AdmmPlanner::options() const
{
    return {{"workers", "0", "devices that share out the samples; 0: as many as are fastest"},
            {"mu", "10", "penalty of the last step's hidden variables"},
            {"gamma", "0.7", "step t of N has the penalty mu * gamma^(N - t)"},
            {"rho", "1", "penalty of the outputs"},
            {"ridge", "1", "half of it times the squared weights is added to the summed loss"},
            {"duals", "all", "steps with dual variables: all, or last as published", "", {"all", "last"}},
            {"order",
             "interleaved",
             "sweeps walk step by step (interleaved) or one kind of variable at a time (split)",
             "",
             {"interleaved", "split"}},
            {"time_ranges", "1", "devices for each worker, which have equal ranges of the steps in time (order split)"},
            {"newton_steps", "6", "inner steps on each sample's outputs"},
            {"tanh_steps", "3", "inner steps on each hidden unit's input"},
            {"subproblems",
             "exact",
             "solve them (exact), take one step on a majorant as published (linearised), or with "
             "the signs of the authors' code, which do not train (released)",
             "",
             {"exact", "linearised", "released"}},
            {"parallel",
             "synchronous",
             "workers wait for each other's sums (synchronous), a server for some of them (asynchronous), or what is "
             "faster "
             "in the simulator (auto)",
             "",
             {"synchronous", "asynchronous", "auto"}},
            {"barrier", "0", "asynchronous: workers that a new version waits for; 0: tried"},
            {"delay", "0", "asynchronous: versions that a worker may be late; 0: tried"},
            {"proximal", "0", "asynchronous: weight of the distance between two versions' parameters"},
            {"shards", "1", "equal parts of the samples, of which an iteration takes one; --batch is of one"},
            {"switch_after", "0", "iterations behind which training goes on by gradients (--optimizer); 0: never"}};
}

Result<PlanReport> AdmmPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    if (Status status = checkProblem(problem); !status)
        return status.error();
    const auto how = readAdmmOptions(options, this->options());
    if (!how)
        return how.error();
    const auto counts = workersToTry(problem, *how);
    if (!counts)
        return counts.error();
    std::vector<PlanReport> found;
    const std::vector<Trial> trials = trialsOf(*how, *counts);
    if (trials.empty())
        return infeasible(
            "asynchronous workers need a second device; add one to the cluster, or set parallel=synchronous");
    Status refused; // of the last trial that is not possible: the one with most workers
    bool stopped = false;
    for (const Trial &trial : trials) {
        stopped = !found.empty() && progress.stopped();
        if (stopped)
            break;
        plan::Plan plan = planOn(problem, options, trial);
        if (const Status valid = plan::validate(plan, problem.subject); !valid) {
            refused = valid;
            continue;
        }
        auto report = finish(std::move(plan), problem);
        if (!report)
            return report.error();
        found.push_back(*std::move(report));
    }
    if (found.empty())
        return refused.error();
    std::stable_sort(found.begin(), found.end(), isBetter);
    PlanReport best = found.front();
    if (!best.predicted.fits)
        return infeasible(fmt::format("the variables of {} samples do not fit {} devices; use more devices, or a plan "
                                      "with fewer samples (--batch)",
                                      problem.globalBatch, best.plan.stages.front().devices.size()));
    const double unit = best.predicted.iterationSeconds / secondsOfProgress(best);
    for (std::size_t i = 1; i < found.size(); ++i) // a version beside an iteration: for as much progress
        best.alternatives.push_back({found[i].plan, unit * secondsOfProgress(found[i]), 0});
    best.complete = !stopped;
    return best;
}

} // namespace planloom::planners::admm
