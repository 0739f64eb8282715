// SPDX-License-Identifier: Apache-2.0
// Is anything better than what `auto` answers? On small instances - layer profiles and models of operators on equal and
// unequal devices, quick and slow networks, shared cores - its plan is compared with every other planner's, with 200
// plans at random and with up to 500 edits of one field of its own, by one simulator. No plan of the space may be below
// the bound, none more than 0.5 % faster than the answer. Prints the worst of each; exits with 1 where one is.
// Arguments: [WORD]: only instances whose name contains it.
#include "engine/import/import.h"
#include "planners/auto/space.h"
#include "planners/registry.h"
#include "tests/bench/deadline.h"
#include "tests/bench/plan_edits.h"

#include <fmt/format.h>

#include <cstdio>

namespace {

using namespace planloom;

constexpr std::size_t kRandom = 200;
constexpr std::size_t kEdits = 500;
constexpr double kMostBetter = 0.005;

struct Instance {
    const char *model;
    const char *cluster;
    std::int64_t batch;
    std::int64_t sequence = 0;
};

constexpr Instance kInstances[] = {
    {"vgg-19-layers", "4 V100, 12 GB/s", 256},
    {"gnmt-16", "4 V100, 12 GB/s", 256},
    {"gnmt-16", "4 V100, 1 GB/s", 256},
    {"xlnet-36", "2 V100 and 2 P100", 64},
    {"bert-48", "4 V100, 1 GB/s", 64},
    {"amoebanet-36", "2 V100 and 2 P100", 128},
    {"vgg-19-layers", "2 V100 and 2 P100", 256},
    {"gpt-nano", "4 processors", 32},
    {"gpt-nano", "4 processors on 2 cores", 32},
    {"mlp", "4 processors on 2 cores", 256},
    {"mlp", "3 V100, 1 GB/s", 256},
    {"gpt2", "4 V100, 12 GB/s", 32},
    {"gpt2", "2 V100 and 2 P100", 32},
    {"gpt2", "4 V100, 1 GB/s", 32},
};

/// Devices on one switch: @p types by name, links of @p rate bytes a second.
Result<cluster::Cluster> devicesOf(const std::string &name, const std::vector<std::string> &types, double rate,
                                   int cores)
{
    cluster::ClusterBuilder builder(name);
    const NodeId node = builder.node("n0", cores);
    const std::size_t inside = builder.vertex({cluster::Vertex::Kind::Switch, "switch", {}, node});
    std::map<std::string, std::size_t> known;
    for (const std::string &type : types)
        if (!known.contains(type))
            known[type] = builder.type(*cluster::knownDeviceType(type));
    for (const std::string &type : types)
        builder.link({cluster::Link::Kind::Pcie, builder.vertexOf(builder.device(node, known[type])), inside, rate,
                      rate, Seconds(5e-6), true});
    return std::move(builder).build();
}

Result<cluster::Cluster> clusterOf(const std::string &name)
{
    if (name == "4 V100, 12 GB/s")
        return devicesOf(name, {"V100", "V100", "V100", "V100"}, 12e9, 0);
    if (name == "4 V100, 1 GB/s")
        return devicesOf(name, {"V100", "V100", "V100", "V100"}, 1e9, 0);
    if (name == "3 V100, 1 GB/s")
        return devicesOf(name, {"V100", "V100", "V100"}, 1e9, 0);
    if (name == "2 V100 and 2 P100")
        return devicesOf(name, {"V100", "V100", "P100", "P100"}, 5e9, 0);
    if (name == "4 processors")
        return devicesOf(name, {"CPU", "CPU", "CPU", "CPU"}, 8e9, 4);
    return devicesOf(name, {"CPU", "CPU", "CPU", "CPU"}, 8e9, 2);
}

/// The fastest of some plans.
struct Best {
    double seconds = std::numeric_limits<double>::infinity();
    std::string what = "none";
    std::size_t count = 0; ///< that fit
    void take(double time, const std::string &name)
    {
        ++count;
        if (time < seconds) {
            seconds = time;
            what = name;
        }
    }
};

class Judge {
public:
    explicit Judge(const planners::Problem &problem)
        : m_problem(problem),
          m_costs(problem, 0, m_stages),
          m_lines(planners::automatic::deviceLines(*problem.subject.cluster, 16)),
          m_scorer(problem, m_costs, m_lines)
    {
    }

    /// Seconds of a plan that is valid and fits; nothing for others. Counts what is below a bound.
    std::optional<double> seconds(const plan::Plan &plan)
    {
        if (!plan::validate(plan, m_problem.subject))
            return std::nullopt;
        const auto simulation =
            simulate::simulatePlan(plan, m_problem.subject, {.trace = false, .memory = false, .stages = &m_stages});
        if (!simulation || !simulation->report.fits)
            return std::nullopt;
        const double time = simulation->report.iterationSeconds;
        below += time < simulation->report.lowerBoundSeconds * (1 - 1e-9) ? 1 : 0;
        if (bound > 0 && time < bound * (1 - 1e-9)
            && planners::automatic::inSpace(plan, m_settings.schedules, exact, m_settings, m_scorer))
            ++below;
        return time;
    }

    double bound = 0; ///< of auto's space; 0: none was given
    bool exact = false;
    std::size_t below = 0; ///< plans below the simulator's or the space's bound

private:
    const planners::Problem &m_problem;
    compile::StageCache m_stages;
    planners::automatic::StageCosts m_costs;
    std::vector<planners::automatic::DeviceLine> m_lines;
    planners::automatic::Scorer m_scorer;
    planners::automatic::Settings m_settings = [] {
        planners::automatic::Settings settings;
        settings.schedules = {plan::ScheduleKind::OneF1B, plan::ScheduleKind::DappleB};
        return settings;
    }();
};

double valueOf(const plan::Estimate &estimate, const char *name)
{
    const auto found = estimate.find(name);
    return found == estimate.end() ? 0 : found->second;
}

Result<planners::Problem> problemOf(const Instance &instance)
{
    const auto model = import::loadModel(std::string("zoo:") + instance.model);
    if (!model)
        return model.error();
    const auto cluster = clusterOf(instance.cluster);
    if (!cluster)
        return cluster.error();
    planners::Problem problem;
    problem.subject = plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*cluster),
                                        model->profile, model->source);
    problem.globalBatch = instance.batch;
    return problem;
}

struct Worst {
    double better = 0; ///< share by which a plan was faster than the answer
    std::string what = "none";
    void take(double share, const std::string &name)
    {
        if (share > better) {
            better = share;
            what = name;
        }
    }
};

/// Compares one instance; true if nothing is better by more than kMostBetter, and nothing below a bound.
Result<bool> compare(const Instance &instance, Worst (&worst)[3], double &worstGap)
{
    const auto problem = problemOf(instance);
    if (!problem)
        return problem.error();
    NoProgress progress;
    const bench::Watch watch(bench::Watch::Clock::Processor);
    const auto answer = (*planners::findPlanner("auto"))->plan(*problem, {}, progress);
    if (!answer)
        return answer.error();
    const double search = watch.seconds();
    const double best = answer->predicted.iterationSeconds;
    Judge judge(*problem);
    judge.bound = valueOf(answer->plan.estimate, "lower_bound_seconds");
    judge.exact = valueOf(answer->plan.estimate, "exact") > 0;

    Best found[3];
    for (const planners::Planner *planner : planners::allPlanners())
        if (planner->name() != "auto")
            if (const auto other = planner->plan(*problem, {}, progress); other && other->predicted.fits)
                if (const auto time = judge.seconds(other->plan))
                    found[0].take(*time, planner->name());
    std::mt19937 random(1);
    for (std::size_t i = 0; i < kRandom; ++i) {
        const plan::Plan plan = bench::randomPlan(*problem, random);
        if (const auto time = judge.seconds(plan))
            found[1].take(*time, plan::notation(plan));
    }
    std::vector<bench::Edit> edits = bench::PlanEdits(answer->plan, *problem).all();
    std::shuffle(edits.begin(), edits.end(), random);
    edits.resize(std::min(edits.size(), kEdits));
    for (const bench::Edit &edit : edits)
        if (const auto time = judge.seconds(edit.plan))
            found[2].take(*time, edit.what);

    const double gap = judge.bound > 0 ? best / judge.bound - 1 : 0;
    worstGap = std::max(worstGap, gap);
    const std::string name = std::string(instance.model) + " on " + instance.cluster;
    std::printf("| %-44s | %9.4f s | %-22s | %6s %s | %5.1f s |", name.c_str(), best,
                plan::notation(answer->plan).c_str(),
                judge.bound > 0 ? fmt::format("{:.1f} %", 100 * gap).c_str() : "none", judge.exact ? "exact" : "     ",
                search);
    bool good = judge.below == 0;
    for (std::size_t kind = 0; kind < 3; ++kind) {
        const double better = best / found[kind].seconds - 1;
        good = good && better <= kMostBetter;
        worst[kind].take(better, fmt::format("{}: {}", name, found[kind].what));
        std::printf(" %+6.2f %% of %zu (%s) |", 100 * better, found[kind].count, found[kind].what.c_str());
    }
    std::printf("%s\n", judge.below > 0 ? fmt::format(" {} plans below a bound", judge.below).c_str() : "");
    std::fflush(stdout);
    return good;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string wanted = argc > 1 ? argv[1] : "";
    std::printf(
        "| instance | auto | plan | gap | search | best planner is faster by | best of random plans | best edit "
        "|\n|---|---|---|---|---|---|---|---|\n");
    Worst worst[3];
    double worstGap = 0;
    std::size_t bad = 0;
    for (const Instance &instance : kInstances) {
        if ((std::string(instance.model) + " on " + instance.cluster).find(wanted) == std::string::npos)
            continue;
        const auto good = compare(instance, worst, worstGap);
        if (!good)
            std::fprintf(stderr, "%s on %s: %s\n", instance.model, instance.cluster, good.error().text().c_str());
        bad += good && *good ? 0 : 1;
    }
    const char *kinds[] = {"planner", "random plan", "edit"};
    for (std::size_t kind = 0; kind < 3; ++kind)
        std::printf("worst %s: %.2f %% faster than auto (%s)\n", kinds[kind], 100 * worst[kind].better,
                    worst[kind].what.c_str());
    std::printf("largest gap %.1f %%; %zu instances with a plan below a bound or more than %.1f %% faster\n",
                100 * worstGap, bad, 100 * kMostBetter);
    return bad == 0 ? 0 : 1;
}
