// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/spp.h"

#include "planners/common/micro_batch.h"
#include "planners/interface/options.h"
#include "planners/interface/shared_cores.h"
#include "planners/spp/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace planloom::planners::spp {
namespace {

/// Windows that a line is cut into at most: the search costs their cube.
constexpr std::size_t kMostWindows = 16;

struct Settings {
    std::size_t stages = 0;
    std::int64_t microBatches = 0;
    bool byId = false;
    Communication communication = Communication::Cluster;
    TieBreak tie = TieBreak::BackwardFirst;
    Duplex duplex = Duplex::Full;
    Recompute recompute = Recompute::Never;
    int maxInFlight = 0;
    std::size_t windows = 0;
    std::size_t candidates = 0;
    double reserve = 0;
};

Result<Settings> read(const Options &options, const std::vector<OptionInfo> &known, const cluster::Cluster &cluster)
{
    OptionReader reader(options, known);
    Settings settings;
    settings.stages = static_cast<std::size_t>(reader.integer("stages", 0, 1000000));
    settings.microBatches = reader.integer("micro_batches", 0, 1000000);
    settings.byId = reader.choice("order") == "ids";
    settings.communication = reader.choice("communication") == "pairs" ? Communication::Pairs : Communication::Cluster;
    settings.tie = reader.choice("tie") == "forward" ? TieBreak::ForwardFirst : TieBreak::BackwardFirst;
    const std::string duplex = reader.choice("duplex");
    settings.duplex = duplex == "full" || (duplex == "auto" && cluster.fullDuplex()) ? Duplex::Full : Duplex::Half;
    const std::string recompute = reader.choice("recompute");
    settings.recompute = recompute == "always" ? Recompute::Always
        : recompute == "auto"                  ? Recompute::Auto
                                               : Recompute::Never;
    settings.maxInFlight = static_cast<int>(reader.integer("max_in_flight", 0, 1000000));
    settings.windows = static_cast<std::size_t>(reader.integer("windows", 1, 64));
    settings.candidates = static_cast<std::size_t>(reader.integer("candidates", 1, 100));
    settings.reserve = reader.number("memory_reserve", 0, 0.9);
    if (!reader.status())
        return reader.status().error();
    return settings;
}

/// Numbers of micro-batches to try, most first: the problem's samples per device, shared by 1, 2, 4 .. devices.
std::vector<std::int64_t> microBatchCounts(const Problem &problem, const Settings &settings)
{
    if (settings.microBatches > 0)
        return {settings.microBatches};
    std::set<std::int64_t, std::greater<>> counts;
    for (const std::int64_t samples : microBatchChoices(problem)) {
        for (std::int64_t share = 1; share <= static_cast<std::int64_t>(problem.subject.cluster->devices().size());
             share *= 2)
            counts.insert(std::max<std::int64_t>(1, problem.globalBatch / (samples * share)));
    }
    return {counts.begin(), counts.end()};
}

/// Devices that a window consists of: the least divisor of their number that leaves at most @p windows.
std::size_t granuleOf(std::size_t devices, std::size_t windows)
{
    std::size_t granule = 1;
    while (devices % granule != 0 || devices / granule > windows)
        ++granule;
    return granule;
}

struct Choice {
    plan::Plan plan;
    double seconds = 0; ///< T
};

/// Forwards before the first backward: the scheduler's, as far as memory and the option allow, and nowhere more than
/// the stage before.
std::vector<int> depthsOf(const DeviceLine &line, const std::vector<Part> &parts, const Settings &settings)
{
    std::vector<int> depths = warmupOf(parts.size(), static_cast<std::size_t>(line.microBatches()), settings.tie);
    for (std::size_t n = 0; n < parts.size(); ++n) {
        depths[n] = std::min(depths[n], line.mostInFlight(parts[n]));
        if (settings.maxInFlight > 0)
            depths[n] = std::min(depths[n], settings.maxInFlight);
        if (n > 0)
            depths[n] = std::min(depths[n], depths[n - 1]);
    }
    return depths;
}

Choice choiceOf(const Problem &problem, const Options &options, const Settings &settings, const DeviceLine &line,
                const Instance &instance, const Partition &partition)
{
    const Execution execution = execute(instance, partition.parts, settings.tie, settings.duplex);
    Choice choice{emptyPlan(problem, "spp", options), execution.seconds};
    plan::Plan &plan = choice.plan;
    plan.microBatches = line.microBatches();
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    plan.schedule.warmup = depthsOf(line, partition.parts, settings);
    for (const Part &part : partition.parts) {
        plan::Stage stage;
        stage.name = fmt::format("stage{}", plan.stages.size());
        stage.firstLayer = part.first;
        stage.lastLayer = part.last;
        stage.devices = line.devicesOf(part);
        stage.recompute = line.recomputes(part) ? plan::Recompute::Full : plan::Recompute::None;
        stage.zero = stage.devices.size() > 1 ? problem.zero : 0;
        plan.stages.push_back(std::move(stage));
    }
    choice.seconds = std::max(choice.seconds, sharedCoreSeconds(plan, problem.subject));
    const double one = instance.passes(0, instance.layers, 0, 1).sum() * instance.microBatches;
    plan.estimate = {{"iteration_seconds", choice.seconds},
                     {"load_seconds", partition.load},
                     {"bound_seconds", execution.bound}};
    if (one < std::numeric_limits<double>::infinity())
        plan.estimate["speedup_over_one_device"] = choice.seconds > 0 ? one / choice.seconds : 1;
    return choice;
}

class Driver {
public:
    Driver(const Problem &problem, const Options &options, const Settings &settings, Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(settings),
          m_progress(progress),
          m_memory(*problem.subject.costs, problem.optimizer, settings.reserve),
          m_counts(microBatchCounts(problem, settings))
    {
    }

    Result<PlanReport> run()
    {
        std::vector<DeviceId> devices = orderedDevices(*m_problem.subject.cluster);
        if (m_settings.byId)
            std::sort(devices.begin(), devices.end());
        for (std::size_t i = 0; i < m_counts.size() && !m_progress.stopped(); ++i) {
            m_progress.report(0.9 * static_cast<double>(i) / static_cast<double>(m_counts.size()),
                              fmt::format("{} micro-batches", m_counts[i]));
            search(devices, m_counts[i]);
        }
        if (m_choices.empty())
            return m_progress.stopped() ? cancelled("stopped before a plan was found") : nothingFits();
        return best();
    }

private:
    void search(const std::vector<DeviceId> &devices, std::int64_t microBatches)
    {
        const DeviceLine line(m_problem, devices, microBatches, m_settings.communication, m_settings.recompute,
                              m_memory);
        const Instance instance = line.instance();
        const std::size_t most = m_settings.stages > 0 ? m_settings.stages : devices.size();
        for (const Partition &partition :
             partitions(instance, most, granuleOf(devices.size(), m_settings.windows), m_progress)) {
            const bool wanted = m_settings.stages == 0 || partition.parts.size() == m_settings.stages;
            if (wanted && !partition.parts.empty())
                m_choices.push_back(choiceOf(m_problem, m_options, m_settings, line, instance, partition));
        }
    }

    /// SPP chooses by the scheduler's time; here the simulator of the whole plan decides among the ones with the
    /// least.
    Result<PlanReport> best()
    {
        std::stable_sort(m_choices.begin(), m_choices.end(),
                         [](const Choice &a, const Choice &b) { return a.seconds < b.seconds; });
        std::vector<PlanReport> reports;
        for (Choice &choice : m_choices) {
            if (reports.size() == m_settings.candidates || (!reports.empty() && m_progress.stopped()))
                break;
            Result<PlanReport> report = finish(std::move(choice.plan), m_problem);
            if (!report)
                return report.error();
            if (report->predicted.fits)
                reports.push_back(*std::move(report));
            else if (const MemoryLimit limit = limitOf(report->plan, m_problem.subject, report->predicted);
                     !m_tight || limit.factor() < m_tight->factor())
                m_tight = limit;
        }
        if (reports.empty())
            return memoryBinds(*m_problem.subject.cluster, *m_tight);
        std::stable_sort(reports.begin(), reports.end(), [](const PlanReport &a, const PlanReport &b) {
            return a.predicted.iterationSeconds < b.predicted.iterationSeconds;
        });
        PlanReport chosen = std::move(reports.front());
        for (std::size_t i = 1; i < reports.size() && i <= 10; ++i)
            chosen.alternatives.push_back({std::move(reports[i].plan), reports[i].predicted.iterationSeconds});
        chosen.complete = !m_progress.stopped();
        return chosen;
    }

    [[nodiscard]] Error nothingFits() const
    {
        const auto devices = m_problem.subject.cluster->devices();
        const double samples = static_cast<double>(m_problem.globalBatch) / static_cast<double>(m_counts.front());
        const bool again = m_settings.recompute != Recompute::Never;
        if (const auto limit = leastMemory(*m_problem.subject.costs, m_memory, samples, again);
            limit && limit->needed > limit->usable)
            return memoryBinds(*m_problem.subject.cluster, *limit);
        return infeasible(fmt::format("no way to cut {} layers onto {} devices keeps even one micro-batch on each; use "
                                      "a smaller --micro-batch{}, or let {} devices stay apart "
                                      "with windows={}",
                                      m_problem.subject.layers().size(), devices.size(),
                                      m_settings.recompute == Recompute::Never ? ", recompute=auto" : "",
                                      devices.size(), std::min<std::size_t>(64, devices.size())));
    }

    const Problem &m_problem;
    const Options &m_options;
    const Settings &m_settings;
    Progress &m_progress;
    MemoryModel m_memory;
    std::vector<std::int64_t> m_counts;
    std::vector<Choice> m_choices;
    std::optional<MemoryLimit> m_tight;
};

} // namespace

std::vector<OptionInfo> SppPlanner::options() const
{
    return {
        {"stages", "0", "pipeline stages; 0: every number is tried", "0"},
        {"micro_batches", "0", "micro-batches of an iteration; 0: several numbers are tried", "0"},
        {"order", "cuts", "line of devices: cuts (recursive minimum cuts) or ids", "", {"cuts", "ids"}},
        {"communication",
         "cluster",
         "cluster: the cluster's own model; pairs: every sender with every receiver at once, the slowest pair decides",
         "",
         {"cluster", "pairs"}},
        {"tie",
         "backward",
         "which runs first where two passes fall into one cycle: backward or forward",
         "",
         {"backward", "forward"}},
        {"duplex",
         "auto",
         "whether a channel's directions wait for each other: half, full, or auto (as the cluster's links)",
         "",
         {"auto", "half", "full"}},
        {"recompute",
         "never",
         "run forward again before backward: never, always, or auto (stages that do not fit otherwise)",
         "auto",
         {"never", "always", "auto"}},
        {"max_in_flight", "0",
         "micro-batches that a stage may keep at once; 0: as many as the schedule wants and memory holds"},
        {"windows", fmt::format("{}", kMostWindows),
         "parts that the line of devices is cut into at most; the search costs their cube"},
        {"candidates", "8", "plans that are simulated whole before the fastest is chosen"},
        {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"}};
}

Result<PlanReport> SppPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    Result<Settings> settings = read(options, this->options(), *problem.subject.cluster);
    if (!settings)
        return settings.error();
    const std::size_t windows = problem.subject.cluster->devices().size()
        / granuleOf(problem.subject.cluster->devices().size(), settings->windows);
    const std::size_t most = std::min(problem.subject.layers().size(), windows);
    if (settings->stages > most)
        return badInput(fmt::format(
            "option stages={} is more than {} layers on {} windows of devices allow; give at most {}, or more windows",
            settings->stages, problem.subject.layers().size(), windows, most));
    if (settings->microBatches > problem.globalBatch)
        return badInput(fmt::format("option micro_batches={} is more than the batch of {} samples; give at most that",
                                    settings->microBatches, problem.globalBatch));
    Result<PlanReport> report = Driver(problem, options, *settings, progress).run();
    if (report)
        progress.report(1, "done");
    return report;
}

} // namespace planloom::planners::spp
