// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/whale.h"

#include "planners/common/micro_batch.h"
#include "planners/whale/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

namespace planloom::planners::whale {
namespace {

/// Numbers of task graphs that are tried by default; more were slower in the paper (Fig. 12).
constexpr std::array<std::size_t, 5> kTaskGraphs{1, 2, 4, 8, 16};
constexpr int kMostRepairs = 6; ///< compiled plans that do not fit are laid out anew so often
constexpr double kRepairMargin = 0.995;
constexpr std::size_t kAlternatives = 10;

using Copies = std::vector<std::vector<std::vector<DeviceId>>>; ///< per task graph, per copy of the model

/// One way to give devices to task graphs, for one number of micro-batches.
struct Attempt {
    std::vector<TaskGraph> taskGraphs; ///< empty: to be cut
    Copies devices;
    std::int64_t microBatches = 1;
    Laid laid;
};

std::vector<double> sharesOf(const Placed &placed)
{
    if (std::adjacent_find(placed.units.begin(), placed.units.end(), std::not_equal_to<>()) == placed.units.end())
        return {};
    const auto all = static_cast<double>(std::accumulate(placed.units.begin(), placed.units.end(), std::int64_t{0}));
    std::vector<double> shares;
    for (const std::int64_t units : placed.units)
        shares.push_back(static_cast<double>(units) / all);
    return shares;
}

class Run {
public:
    Run(const Problem &problem, const Options &options, const Settings &settings, Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(settings),
          m_progress(progress),
          m_layouter(problem, settings)
    {
    }

    Result<PlanReport> run()
    {
        const Status made = m_problem.annotations.empty() ? cutAttempts() : annotatedAttempts();
        if (!made)
            return made.error();
        for (std::size_t i = 0; i < m_attempts.size() && !m_progress.stopped(); ++i) {
            m_progress.report(0.5 * static_cast<double>(i) / static_cast<double>(m_attempts.size()),
                              fmt::format("layout {} of {}", i + 1, m_attempts.size()));
            if (auto laid = lay(m_attempts[i])) {
                m_attempts[i].laid = *std::move(laid);
                m_good.push_back(i);
            }
        }
        if (m_good.empty())
            return nothingFits();
        return choose();
    }

private:
    /// Without annotations: several numbers of task graphs of one device each.
    Status cutAttempts()
    {
        const std::size_t devices = m_problem.subject.cluster->devices().size();
        std::vector<std::size_t> counts(kTaskGraphs.begin(), kTaskGraphs.end());
        if (m_settings.taskGraphs > 0)
            counts = {m_settings.taskGraphs};
        for (const std::size_t count : counts) {
            if (m_settings.taskGraphs == 0 && (count > m_problem.subject.layers().size() || devices % count != 0))
                continue;
            if (const Status added = add({}, std::vector<int>(count, 1)); !added)
                return added;
        }
        return {};
    }

    Status annotatedAttempts()
    {
        auto taskGraphs = annotatedTaskGraphs(m_problem);
        if (!taskGraphs)
            return taskGraphs.error();
        if (const Status resolved =
                resolveDevices(*taskGraphs, static_cast<int>(m_problem.subject.cluster->devices().size()));
            !resolved)
            return resolved;
        if (const Status alike = tiedAlike(*taskGraphs); !alike)
            return alike;
        std::vector<int> counts;
        for (const TaskGraph &each : *taskGraphs) {
            counts.push_back(each.devices);
            if (each.kind != plan::Annotation::Kind::Split || each.devices == 1)
                continue;
            auto patterns = choosePatterns(*m_problem.subject.graph, m_problem.subject.layers(), each.first, each.last,
                                           each.devices, m_settings.pattern, each.name,
                                           sharedParameters(*m_problem.subject.graph, m_problem.subject.layers(),
                                                            each.first, each.last));
            if (!patterns)
                return patterns.error();
            m_splitShares[each.name] = patterns->splitShare;
            m_patterns[each.name] = *std::move(patterns);
        }
        return add(*taskGraphs, counts);
    }

    /// Task graphs that share a parameter hold the same parts of it, or its gradients could not be added up.
    [[nodiscard]] Status tiedAlike(const std::vector<TaskGraph> &taskGraphs) const
    {
        std::map<std::string, std::size_t> known;
        const auto partsOf = [&](std::size_t i) {
            return taskGraphs[i].kind == plan::Annotation::Kind::Split ? taskGraphs[i].devices : 1;
        };
        for (std::size_t i = 0; i < taskGraphs.size(); ++i) {
            for (const std::string &parameter : sharedParameters(*m_problem.subject.graph, m_problem.subject.layers(),
                                                                 taskGraphs[i].first, taskGraphs[i].last)) {
                const auto [first, isNew] = known.emplace(parameter, i);
                if (isNew || partsOf(first->second) == partsOf(i))
                    continue;
                return unsupported(fmt::format("task graphs {} and {} share the parameter {}, so that both must be cut "
                                               "into as many parts; split both alike, or put them "
                                               "under one annotation",
                                               taskGraphs[first->second].name, taskGraphs[i].name, parameter));
            }
        }
        return {};
    }

    /// Every placement and number of micro-batches.
    Status add(const std::vector<TaskGraph> &taskGraphs, const std::vector<int> &counts)
    {
        std::vector<Copies> known;
        for (const bool intraNode : m_settings.intraNode) {
            auto devices = virtualDevices(*m_problem.subject.cluster, counts, {intraNode, counts.size() > 1});
            if (!devices)
                return devices.error();
            if (std::find(known.begin(), known.end(), *devices) != known.end())
                continue;
            known.push_back(*devices);
            for (const std::int64_t microBatches : microBatchCounts(taskGraphs, *devices))
                m_attempts.push_back({taskGraphs, *devices, microBatches, {}});
        }
        return {};
    }

    /// Most samples at a time first: shares are then cut finest.
    [[nodiscard]] std::set<std::int64_t> microBatchCounts(const std::vector<TaskGraph> &taskGraphs,
                                                          const Copies &devices) const
    {
        if (m_settings.microBatches > 0)
            return {m_settings.microBatches};
        std::size_t replicas = 1;
        for (std::size_t i = 0; i < devices.size(); ++i) {
            const bool split = !taskGraphs.empty() && taskGraphs[i].kind == plan::Annotation::Kind::Split;
            replicas = std::max(replicas, devices[i].size() * (split ? 1 : devices[i].front().size()));
        }
        std::set<std::int64_t> counts;
        if (!m_problem.microBatch && devices.size() == 1)
            counts.insert(1);
        // Unequal devices get unequal shares of whole samples: a few at a time cannot be shared out finely, whatever a
        // profile was measured at.
        const bool finer = !m_problem.microBatch && m_problem.subject.cluster->types().size() > 1;
        for (const std::int64_t samples : microBatchChoices(m_problem))
            for (const std::int64_t more : {1, 2, 4})
                if (finer || more == 1)
                    counts.insert(std::max<std::int64_t>(
                        1, m_problem.globalBatch / (more * samples * static_cast<std::int64_t>(replicas))));
        return counts;
    }

    std::optional<Laid> lay(const Attempt &attempt)
    {
        if (!attempt.taskGraphs.empty())
            return m_layouter.lay(attempt.taskGraphs, attempt.devices, attempt.microBatches, m_splitShares);
        const auto taskGraphs = m_layouter.cut(attempt.devices, attempt.microBatches);
        return taskGraphs ? m_layouter.lay(*taskGraphs, attempt.devices, attempt.microBatches, m_splitShares)
                          : std::nullopt;
    }

    [[nodiscard]] plan::Stage stageOf(const Placed &placed) const
    {
        plan::Stage stage;
        stage.name = placed.taskGraph.name;
        stage.firstLayer = placed.taskGraph.first;
        stage.lastLayer = placed.taskGraph.last;
        for (const std::vector<DeviceId> &replica : placed.replicas)
            stage.devices.insert(stage.devices.end(), replica.begin(), replica.end());
        stage.replicaShares = sharesOf(placed);
        stage.recompute = placed.recompute ? plan::Recompute::Full : plan::Recompute::None;
        stage.zero = placed.replicas.size() > 1 ? m_problem.zero : 0;
        if (placed.parts == 1)
            return stage;
        stage.mesh = {static_cast<int>(placed.replicas.size()), placed.parts};
        for (const auto &[tensor, sbp] : m_patterns.at(placed.taskGraph.name).pins)
            stage.shardings[tensor] = sharding::toText(sbp);
        return stage;
    }

    [[nodiscard]] plan::Plan planOf(const Laid &laid) const
    {
        plan::Plan plan = emptyPlan(m_problem, "whale", m_options);
        plan.microBatches = laid.microBatches;
        double sharding = 0;
        for (std::size_t i = 0; i < laid.placed.size(); ++i) {
            plan.stages.push_back(stageOf(laid.placed[i]));
            const auto patterns = m_patterns.find(laid.placed[i].taskGraph.name);
            sharding +=
                patterns == m_patterns.end() ? 0 : patterns->second.bytes * static_cast<double>(m_problem.globalBatch);
        }
        plan.schedule.kind =
            m_settings.order == Order::ForwardFirst ? plan::ScheduleKind::GPipe : plan::ScheduleKind::OneF1B;
        if (m_settings.order == Order::Optimizer && laid.placed.size() > 1) {
            plan.schedule.kind = plan::ScheduleKind::DappleB; // deep enough for one more; the caps limit it
            for (std::size_t i = 0; i < laid.placed.size(); ++i)
                plan.schedule.warmup.push_back(inFlight(m_settings.order, i, laid.placed.size(), laid.microBatches));
        }
        const cost::CostModel &costs = *m_problem.subject.costs;
        const std::size_t type = m_problem.subject.cluster->device(plan.stages.front().devices.front()).type;
        const auto batch = static_cast<double>(m_problem.globalBatch);
        const double one = (costs.forward(0, costs.layers().size(), batch, type)
                            + costs.backward(0, costs.layers().size(), batch, type))
                               .value();
        plan.estimate = {{"iteration_seconds", laid.seconds},
                         {"speedup_over_one_device", laid.seconds > 0 ? one / laid.seconds : 1},
                         {"speedup_over_even_shares", laid.seconds > 0 ? laid.evenSeconds / laid.seconds : 1},
                         {"task_graphs", static_cast<double>(laid.placed.size())},
                         {"bridge_bytes", laid.bridgeBytes * static_cast<double>(laid.microBatches)},
                         {"bridges_fused", static_cast<double>(laid.fusedBridges)},
                         {"sharding_bytes", sharding}};
        return plan;
    }

    /// The compiler knows memory to the byte: where a device's part does not fit after all, its budget shrinks by
    /// as much.
    Result<PlanReport> fitted(const Attempt &attempt)
    {
        Result<PlanReport> report = finish(planOf(attempt.laid), m_problem);
        Layouter fresh = m_layouter;
        for (int repair = 0; repair < kMostRepairs && report && !report->predicted.fits && !m_progress.stopped();
             ++repair) {
            for (const simulate::DeviceReport &device : report->predicted.devices)
                if (device.peakBytes > device.capacityBytes)
                    m_layouter.tighten(m_problem.subject.cluster->find(device.id),
                                       kRepairMargin * static_cast<double>(device.capacityBytes)
                                           / static_cast<double>(device.peakBytes));
            const auto laid = lay(attempt);
            if (!laid)
                break;
            report = finish(planOf(*laid), m_problem);
        }
        if (report && !report->predicted.fits) // the closest of the compiled ones
            if (const MemoryLimit limit = limitOf(report->plan, m_problem.subject, report->predicted);
                !m_misfit || limit.factor() < m_misfit->factor())
                m_misfit = limit;
        m_layouter = std::move(fresh);
        return report;
    }

    Result<PlanReport> choose()
    {
        std::stable_sort(m_good.begin(), m_good.end(), [this](std::size_t a, std::size_t b) {
            return m_attempts[a].laid.seconds < m_attempts[b].laid.seconds;
        });
        std::vector<PlanReport> reports;
        std::size_t tried = 0;
        for (const std::size_t index : m_good) {
            if (tried >= m_settings.candidates && !reports.empty())
                break;
            if (m_progress.stopped() && !reports.empty())
                break;
            m_progress.report(
                std::min(1.0, 0.5 + 0.5 * static_cast<double>(tried) / static_cast<double>(m_settings.candidates)),
                fmt::format("simulating plan {}", tried + 1));
            ++tried;
            Result<PlanReport> report = fitted(m_attempts[index]);
            if (!report)
                return report.error();
            if (report->predicted.fits)
                reports.push_back(*std::move(report));
        }
        if (reports.empty())
            return nothingFits();
        std::stable_sort(reports.begin(), reports.end(), [](const PlanReport &a, const PlanReport &b) {
            return a.predicted.iterationSeconds < b.predicted.iterationSeconds;
        });
        PlanReport best = std::move(reports.front());
        for (std::size_t i = 1; i < std::min(reports.size(), 1 + kAlternatives); ++i)
            best.alternatives.push_back({std::move(reports[i].plan), reports[i].predicted.iterationSeconds});
        best.complete = !m_progress.stopped();
        return best;
    }

    [[nodiscard]] Error nothingFits() const
    {
        if (m_progress.stopped())
            return cancelled("stopped before a plan was found");
        const std::optional<MemoryLimit> &limit = m_misfit ? m_misfit : m_layouter.shortage();
        if (limit)
            return memoryBinds(*m_problem.subject.cluster, *limit);
        return infeasible(fmt::format("a batch of {} leaves some replica of {} devices without a sample of a "
                                      "micro-batch; use a larger batch, fewer micro-batches, or "
                                      "annotations with more devices each",
                                      m_problem.globalBatch, m_problem.subject.cluster->devices().size()));
    }

    const Problem &m_problem;
    const Options &m_options;
    const Settings &m_settings;
    Progress &m_progress;
    Layouter m_layouter;
    std::vector<Attempt> m_attempts;
    std::vector<std::size_t> m_good;
    std::map<std::string, double> m_splitShares;
    std::map<std::string, Patterns> m_patterns;
    std::optional<MemoryLimit> m_misfit;
};

} // namespace

std::vector<OptionInfo> WhalePlanner::options() const { return optionList(); }

Result<PlanReport> WhalePlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem, Annotations::Taken); !status)
        return status.error();
    const Result<Settings> settings = readSettings(options, problem);
    if (!settings)
        return settings.error();
    Result<PlanReport> report = Run(problem, options, *settings, progress).run();
    if (report)
        progress.report(1, "done");
    return report;
}

} // namespace planloom::planners::whale
