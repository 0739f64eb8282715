// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/auto.h"

#include "engine/base/log.h"
#include "planners/common/kept_stages.h"
#include "planners/common/micro_batch.h"
#include "planners/common/unlimited_memory.h"
#include "planners/auto/cuts.h"
#include "planners/auto/edits.h"
#include "planners/auto/enumerate.h"
#include "planners/auto/policies.h"
#include "planners/auto/simulations.h"
#include "planners/auto/space.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace planloom::planners::automatic {
namespace {

std::vector<std::string> namesOf(const std::vector<const Planner *> &planners)
{
    std::vector<std::string> names;
    for (const Planner *planner : planners)
        names.push_back(planner->name());
    return names;
}

/// A part of the whole's progress.
class Portion final : public Progress {
public:
    Portion(Progress &whole, double from, double to) : m_whole(whole), m_from(from), m_to(to) {}
    void report(double fraction, std::string_view what) override
    {
        m_whole.report(m_from + (m_to - m_from) * std::clamp(fraction, 0.0, 1.0), what);
    }
    [[nodiscard]] bool stopped() const override { return m_whole.stopped(); }

private:
    Progress &m_whole;
    double m_from;
    double m_to;
};

/// On more devices only the planners that answer within seconds there are asked, and edits of one field are not tried.
constexpr std::size_t kFewDevices = 64;

/// Share of the activations that stays on a device under a memory policy whose costs are small: Tang et al., DELTA,
/// 2022, save 40 to 70 %.
constexpr double kLeastKept = 0.3;

/// Chunks of layers that a model with more than twice as many is cut between at first.
constexpr std::size_t kCoarse = 32;

struct Scored {
    Sketch sketch;
    Score score;
};

class Driver {
public:
    /// @p seeds: the planners of Settings::seeds, at least.
    Driver(const Problem &problem, const Options &options, Settings settings, const std::vector<const Planner *> &seeds,
           Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(std::move(settings)),
          m_seeds(seeds),
          m_progress(progress),
          m_costs(problem, m_settings.reserve, m_stages),
          m_lines(deviceLines(*problem.subject.cluster, m_settings.windows)),
          m_scorer(problem, m_costs, m_lines),
          m_simulations(problem.subject, std::numeric_limits<std::size_t>::max(), m_stages, m_settings.keep)
    {
    }

    Result<PlanReport> run()
    {
        if (const MemoryLimit limit = spread(); limit.factor() * leastPersistent() > 1)
            return memoryBinds(*m_problem.subject.cluster, limit);
        makeShapes();
        seed(0, 0.3);
        if (countAll() <= static_cast<double>(m_settings.exact))
            searchWhole(0.3, 1);
        else
            searchLarge(0.3, 1);
        if (m_problem.subject.cluster->devices().size() <= kFewDevices)
            polish();
        if (m_simulations.best() == nullptr && !m_progress.stopped() && findsAny())
            improve(m_settings.simulations / 2, 1, 1);
        if (takesPolicies())
            limitMemory();
        return report();
    }

    /// True if some plan fits; the first that does ends the search.
    bool findsAny()
    {
        if (spread().factor() > 1)
            return false;
        const LayerGrid grid = withEdges(coarseLayers(*m_problem.subject.costs, kCoarse), m_settings.keep);
        for (const int zero : zeroLevels(m_problem, m_settings))
            for (std::size_t line = 0; line < m_lines.size(); ++line)
                for (const Degree &degree : automatic::degrees(m_problem, m_costs, m_settings.mostTensor))
                    for (const std::int64_t count : microBatchCounts(m_problem)) {
                        std::vector<Scored> sketches;
                        sketchGroup(grid, {line, degree, count, plan::ScheduleKind::OneF1B, zero}, sketches);
                        std::stable_sort(sketches.begin(), sketches.end(), [](const Scored &a, const Scored &b) {
                            return a.score.fullest < b.score.fullest;
                        });
                        constexpr std::size_t kEmptiest = 2;
                        simulate(sketches, 0, std::min(kEmptiest, sketches.size()));
                        if (m_simulations.best() != nullptr || m_progress.stopped())
                            return m_simulations.best() != nullptr;
                    }
        return false;
    }

private:
    void makeShapes()
    {
        for (std::size_t line = 0; line < m_lines.size(); ++line)
            for (const Degree &degree : degrees(m_problem, m_costs, m_settings.mostTensor))
                for (const std::int64_t count : microBatchCounts(m_problem))
                    for (const plan::ScheduleKind schedule : m_settings.cutSchedules())
                        for (const int zero : zeroLevels(m_problem, m_settings))
                            m_shapes.push_back({line, degree, count, schedule, zero});
    }

    [[nodiscard]] double countAll() const
    {
        double count = 0;
        for (const Shape &shape : m_shapes)
            count += sketchCount(m_costs.layers(), m_lines[shape.line].devices.size() / m_lines[shape.line].unit,
                                 m_costs.recomputations().size());
        return count;
    }

    /// The other planners' answers. Where one finds none the search goes on without it.
    void seed(double from, double to)
    {
        for (std::size_t i = 0; i < m_settings.seeds.size() && !m_progress.stopped(); ++i) {
            const std::string &name = m_settings.seeds[i];
            const auto planner =
                std::find_if(m_seeds.begin(), m_seeds.end(), [&](const Planner *seed) { return seed->name() == name; });
            const double step = (to - from) / static_cast<double>(m_settings.seeds.size());
            Portion portion(m_progress, from + step * static_cast<double>(i), from + step * static_cast<double>(i + 1));
            auto found = (*planner)->plan(m_problem, optionsOf(**planner), portion);
            if (found)
                m_simulations.add({std::move(found->plan), std::move(found->predicted), name, 0});
        }
    }

    /// What is to be kept, for planners that can.
    [[nodiscard]] Options optionsOf(const Planner &planner) const
    {
        const std::vector<OptionInfo> known = planner.options();
        const bool takes =
            std::any_of(known.begin(), known.end(), [](const OptionInfo &option) { return option.key == kKeepOption; });
        return takes && !m_settings.keep.empty() ? Options{{kKeepOption, textOf(m_settings.keep)}} : Options{};
    }

    [[nodiscard]] bool keeps(const Sketch &sketch) const
    {
        return std::all_of(sketch.parts.begin(), sketch.parts.end(), [this](const Part &part) {
            return m_settings.keep.allows(part.first, part.last, part.devices());
        });
    }

    // --- Small problems: every plan, those first that may be fastest -----------------------------------------------

    void searchWhole(double from, double to)
    {
        std::vector<Scored> all;
        const std::vector<plan::Recompute> recomputations = m_costs.recomputations();
        for (const Shape &shape : m_shapes)
            everySketch(shape, m_lines[shape.line], m_costs.layers(), recomputations, [&](const Sketch &sketch) {
                if ((m_settings.mostStages == 0 || sketch.parts.size() <= m_settings.mostStages) && keeps(sketch))
                    if (const Score score = m_scorer.score(sketch); score.seconds < kNever)
                        all.push_back({sketch, score});
                return !m_progress.stopped();
            });
        m_scored += all.size();
        std::stable_sort(all.begin(), all.end(),
                         [](const Scored &a, const Scored &b) { return a.score.bound < b.score.bound; });
        constexpr std::size_t kBatch = 64;
        std::size_t next = 0;
        for (; next < all.size() && all[next].score.bound < m_simulations.bestSeconds() && !m_progress.stopped();
             next += kBatch) {
            m_progress.report(from + (to - from) * static_cast<double>(next) / static_cast<double>(all.size()),
                              describe());
            simulate(all, next, std::min(all.size(), next + kBatch));
        }
        m_exact = !m_progress.stopped();
        m_bound = m_exact ? m_simulations.bestSeconds() : next < all.size() ? all[next].score.bound : 0;
        if (m_exact && m_settings.anyOrder()) // orders that were not enumerated, from the best that were
            improve(m_settings.simulations / 2, to, to);
    }

    void simulate(const std::vector<Scored> &scored, std::size_t begin, std::size_t end)
    {
        std::vector<plan::Plan> plans;
        for (std::size_t i = begin; i < end; ++i)
            plans.push_back(planOf(scored[i].sketch, m_scorer, m_options));
        m_simulations.run(std::move(plans), "auto", m_progress);
    }

    // --- Large problems: best cuts per shape, then steps from the best --------------------------------------------

    void searchLarge(double from, double to)
    {
        double early = from;
        if (m_costs.layers() > 2 * kCoarse) {
            early = from + 0.2 * (to - from);
            searchPromising(from, early);
        }
        m_bounds = true;
        const double middle = early + 0.6 * (to - early);
        const std::vector<Scored> sketches = sketchShapes(everyLayer(m_costs.layers()), early, middle);
        simulateBest(sketches, m_settings.simulations / 2, middle, 0.5 * (middle + to));
        improve(m_settings.simulations / 2, 0.5 * (middle + to), to);
    }

    /// An answer soon, that the rest of the search has to beat: the shapes that look best on coarse layers, cut
    /// exactly.
    void searchPromising(double from, double to)
    {
        constexpr std::size_t kShapes = 8;
        std::vector<Scored> coarse =
            sketchShapes(withEdges(coarseLayers(*m_problem.subject.costs, kCoarse), m_settings.keep), from,
                         0.5 * (from + to));
        sortByEstimate(coarse);
        std::set<Shape> shapes;
        std::vector<Scored> sketches;
        for (auto scored = coarse.begin(); scored != coarse.end() && shapes.size() < kShapes && !m_progress.stopped();
             ++scored) {
            Shape shape = scored->sketch.shape;
            shape.schedule = plan::ScheduleKind::OneF1B; // the table is for all of them
            if (shapes.insert(shape).second)
                sketchGroup(everyLayer(m_costs.layers()), shape, sketches);
        }
        simulateBest(sketches, m_settings.simulations / 16, 0.5 * (from + to), to);
        improve(m_settings.simulations / 8, to, to);
    }

    static void sortByEstimate(std::vector<Scored> &sketches)
    {
        std::stable_sort(sketches.begin(), sketches.end(),
                         [](const Scored &a, const Scored &b) { return a.score.seconds < b.score.seconds; });
    }

    void simulateBest(std::vector<Scored> sketches, std::size_t simulations, double from, double to)
    {
        sortByEstimate(sketches);
        constexpr std::size_t kBatch = 16;
        const std::size_t most = std::min(sketches.size(), simulations);
        for (std::size_t i = 0; i < most && !m_progress.stopped(); i += kBatch) {
            m_progress.report(from + (to - from) * static_cast<double>(i) / static_cast<double>(most), describe());
            simulate(sketches, i, std::min(most, i + kBatch));
        }
    }

    /// Best cuts of every shape that may beat the best so far, at the problem's ZeRO level; at higher ones where that
    /// leaves devices too full.
    std::vector<Scored> sketchShapes(const LayerGrid &grid, double from, double to)
    {
        std::vector<Scored> sketches;
        m_bound = m_bounds ? kNever : 0;
        for (const int zero : zeroLevels(m_problem, m_settings)) {
            sketchLevel(grid, zero, from, to, sketches);
            const auto recomputes = [](const Scored &scored) {
                return std::any_of(scored.sketch.parts.begin(), scored.sketch.parts.end(),
                                   [](const Part &part) { return part.recompute != plan::Recompute::None; });
            };
            if (m_progress.stopped() || std::any_of(sketches.begin(), sketches.end(), [&](const Scored &scored) {
                    return !recomputes(scored);
                }))
                break;
        }
        if (m_progress.stopped())
            m_bound = 0;
        return sketches;
    }

    void sketchLevel(const LayerGrid &grid, int zero, double from, double to, std::vector<Scored> &sketches)
    {
        const std::vector<Degree> degrees = automatic::degrees(m_problem, m_costs, m_settings.mostTensor);
        const std::vector<std::int64_t> counts = microBatchCounts(m_problem);
        const double groups = static_cast<double>(m_lines.size() * degrees.size() * counts.size());
        double done = 0;
        for (std::size_t line = 0; line < m_lines.size(); ++line)
            for (const Degree &degree : degrees)
                for (const std::int64_t count : counts) {
                    m_progress.report(from + (to - from) * done++ / groups, describe());
                    if (m_progress.stopped())
                        return;
                    sketchGroup(grid, {line, degree, count, plan::ScheduleKind::OneF1B, zero}, sketches);
                }
    }

    /// Shapes that differ in the schedule only share a table.
    void sketchGroup(const LayerGrid &grid, Shape shape, std::vector<Scored> &sketches)
    {
        const int mostZero = m_bounds ? zeroLevels(m_problem, m_settings).back() : shape.zero;
        const StageTable table(m_scorer, shape, mostZero, grid, m_progress, m_settings.keep);
        m_tableBytes = std::max(m_tableBytes, table.bytes());
        if (m_bounds) {
            const LeastSeconds least = leastSeconds(m_scorer, table, shape, mostZero, m_progress);
            m_bound = std::min(m_bound, m_settings.anyOrder() ? least.anyOrder : least.inOrder);
            if (least.inOrder >= m_simulations.bestSeconds())
                return;
        }
        const std::size_t most = m_settings.mostStages > 0 ? m_settings.mostStages : m_costs.layers();
        for (const plan::ScheduleKind schedule : m_settings.cutSchedules()) {
            shape.schedule = schedule;
            // Sketches estimated far above the best so far will not be simulated.
            constexpr double kFar = 1.2;
            Cuts cuts = bestCuts(m_scorer, table, shape, most, kFar * m_simulations.bestSeconds(), m_progress);
            for (Sketch &sketch : cuts.sketches)
                sketches.push_back(scored(std::move(sketch)));
            if (cuts.memoryBinds && takesPolicies()) {
                limit(table, shape, most, {kLeastKept, 1});
                if (m_simulations.best() == nullptr)
                    limit(table, shape, most, {0, kFarTooFull});
            }
        }
    }

    /// Cuts that a memory policy may make room for.
    void limit(const StageTable &table, const Shape &shape, std::size_t most, Fit fit)
    {
        Cuts cuts = bestCuts(m_scorer, table, shape, most, m_simulations.bestSeconds(), m_progress, fit);
        for (Sketch &sketch : cuts.sketches)
            if (Scored each = scored(std::move(sketch)); each.score.fullest > 1)
                m_limitable.push_back(std::move(each));
    }

    Scored scored(Sketch sketch)
    {
        ++m_scored;
        const Score score = m_scorer.score(sketch);
        return {std::move(sketch), score};
    }

    /// Steps from the best few plans as long as one helps and @p simulations last: first changes of the whole plan,
    /// then of a stage or a boundary.
    void improve(std::size_t simulations, double from, double to)
    {
        const std::size_t budget = m_simulations.count() + simulations;
        bool better = true;
        for (std::size_t round = 0; better && !m_progress.stopped() && m_simulations.count() < budget; ++round) {
            m_progress.report(from + (to - from) * static_cast<double>(round) / static_cast<double>(round + 4),
                              describe());
            better = false;
            for (const auto &changed : {variants, neighbours}) {
                constexpr std::size_t kFrom = 4;
                std::vector<plan::Plan> starts;
                for (std::size_t i = 0; i < std::min(kFrom, m_simulations.kept().size()); ++i)
                    starts.push_back(m_simulations.kept()[i].plan);
                for (const plan::Plan &start : starts)
                    if (m_simulations.count() < budget)
                        better = m_simulations.run(changed(start, m_problem, m_settings), "auto", m_progress) || better;
            }
        }
    }

    // --- Last steps of small problems ------------------------------------------------------------------------------

    /// Edits of one field of the best plan, as long as one helps; where that is the number of micro-batches, the best
    /// cuts for the new number, too.
    void polish()
    {
        const std::size_t budget = m_simulations.count() + m_settings.simulations;
        double before = kNever;
        while (m_simulations.best() != nullptr && m_simulations.bestSeconds() < before && m_simulations.count() < budget
               && !m_progress.stopped()) {
            m_progress.report(1, describe());
            before = m_simulations.bestSeconds();
            const std::int64_t count = m_simulations.best()->plan.microBatches;
            m_simulations.run(edits(m_simulations.best()->plan, m_problem, m_settings), "auto", m_progress);
            if (const std::int64_t now = m_simulations.best()->plan.microBatches; now != count)
                cutAnew(now);
        }
    }

    /// The best cuts of all shapes with @p count micro-batches, if that number is new.
    void cutAnew(std::int64_t count)
    {
        const std::vector<std::int64_t> known = microBatchCounts(m_problem);
        if (std::find(known.begin(), known.end(), count) != known.end() || !m_cutCounts.insert(count).second)
            return;
        const bool bounds = std::exchange(m_bounds, false); // they are of the space, which has not this number
        std::vector<Scored> sketches;
        for (std::size_t line = 0; line < m_lines.size(); ++line)
            for (const Degree &degree : automatic::degrees(m_problem, m_costs, m_settings.mostTensor))
                sketchGroup(everyLayer(m_costs.layers()),
                            {line, degree, count, plan::ScheduleKind::OneF1B, m_problem.zero}, sketches);
        m_bounds = bounds;
        constexpr std::size_t kShare = 16; // of the simulations
        simulateBest(std::move(sketches), std::max<std::size_t>(kShare, m_settings.simulations / kShare), 1, 1);
    }

    // --- Where memory binds ----------------------------------------------------------------------------------------

    [[nodiscard]] bool takesPolicies() const
    {
        return m_settings.policies && m_problem.subject.cluster->devices().size() <= kFewDevices
            && !graph::isLayerProfile(*m_problem.subject.graph);
    }

    /// Share of weights, gradients and optimizer state that has to stay on devices.
    [[nodiscard]] double leastPersistent() const
    {
        constexpr double kCopies = 2; // of parameters: themselves and their gradients
        return takesPolicies() ? kCopies / (kCopies + m_problem.optimizer.rule.footprint().states) : 1;
    }

    /// Memory policies on the best plans of those that recompute, and of those that would be faster but do not fit;
    /// where one helps, other policies for each stage, and other numbers of micro-batches and schedules.
    void limitMemory()
    {
        constexpr std::size_t kFrom = 4;
        std::vector<Simulated> emptiest;
        if (m_simulations.best() == nullptr)
            emptiest = limitable([](const Scored &a, const Scored &b) { return a.score.fullest < b.score.fullest; });
        const std::vector<Simulated> fastest =
            limitable([](const Scored &a, const Scored &b) { return a.score.seconds < b.score.seconds; });
        std::vector<Simulated> starts(m_simulations.kept().begin(),
                                      m_simulations.kept().begin()
                                          + static_cast<std::ptrdiff_t>(std::min(kFrom, m_simulations.kept().size())));
        starts.insert(starts.end(), fastest.begin(), fastest.end());
        starts.insert(starts.end(), emptiest.begin(), emptiest.end());
        for (std::size_t begin = 0; begin < starts.size() && !m_progress.stopped(); begin += 2 * kFrom) {
            std::vector<plan::Plan> plans;
            for (std::size_t i = begin; i < std::min(begin + 2 * kFrom, starts.size()); ++i)
                for (plan::Plan &plan : withPolicies(starts[i], m_problem))
                    plans.push_back(std::move(plan));
            m_progress.report(1, describe());
            m_simulations.run(std::move(plans), "auto", m_progress);
            if (m_simulations.best() != nullptr && hasPolicies(m_simulations.best()->plan))
                break;
        }
        if (m_simulations.best() == nullptr && !m_progress.stopped())
            limitSimplest();
        bool better = true;
        while (better && !m_progress.stopped() && m_simulations.best() != nullptr
               && hasPolicies(m_simulations.best()->plan)) {
            m_progress.report(1, describe());
            better = m_simulations.run(otherPolicies(m_simulations.best()->plan, m_problem), "auto", m_progress);
            better = m_simulations.run(withBudgetsAnew(variants(m_simulations.best()->plan, m_problem, m_settings),
                                                       m_problem),
                                       "auto", m_progress)
                || better;
        }
    }

    /// Memory policies on the answers of the simplest planners, searched as if devices held every plan: estimates leave
    /// out cuts that are far too full, and a policy may make room in them all the same.
    void limitSimplest()
    {
        if (m_settings.seeds.empty()) // other planners' answers are not wanted
            return;
        m_progress.report(0, "nothing fits; trying memory policies on simple plans");
        const Result<Problem> unlimited = withoutMemoryLimit(m_problem);
        std::vector<plan::Plan> plans;
        for (const Planner *seed : m_seeds) {
            if (!unlimited || (seed->name() != "gpipe" && seed->name() != "data-parallel"))
                continue;
            Portion portion(m_progress, 1, 1);
            auto found = seed->plan(*unlimited, {}, portion);
            if (!found)
                continue;
            found->alternatives.clear();
            const auto real = onDevicesOf(m_problem, *std::move(found));
            if (!real)
                continue;
            for (plan::Plan &plan :
                 withPolicies({real->plan, real->predicted, seed->name(), 0}, m_problem, Policies::All))
                plans.push_back(std::move(plan));
        }
        m_simulations.run(std::move(plans), "auto", m_progress);
    }

    /// Plans without policies that do not fit and would be faster than the best: the first in @p order of those that a
    /// policy may make room for are simulated, too.
    template <class Order>
    std::vector<Simulated> limitable(const Order &order)
    {
        constexpr std::size_t kMost = 16;
        std::erase_if(m_limitable,
                      [this](const Scored &each) { return each.score.seconds >= m_simulations.bestSeconds(); });
        std::stable_sort(m_limitable.begin(), m_limitable.end(), order);
        simulate(m_limitable, 0, std::min(kMost, m_limitable.size()));
        std::vector<Simulated> faster = m_simulations.crowded();
        std::erase_if(faster, [this](const Simulated &each) { return each.seconds() >= m_simulations.bestSeconds(); });
        return faster;
    }

    // --- The answer ------------------------------------------------------------------------------------------------

    [[nodiscard]] std::string describe() const
    {
        const Simulated *best = m_simulations.best();
        return best != nullptr
            ? fmt::format("best so far {} ({})", format(Seconds(best->seconds())), plan::notation(best->plan))
            : "nothing that fits yet";
    }

    Result<PlanReport> report()
    {
        const Simulated *best = m_simulations.best();
        if (best == nullptr) {
            if (m_progress.stopped())
                return cancelled("stopped before a plan was found");
            if (const MemoryLimit limit = spread(); limit.factor() > 1)
                return memoryBinds(*m_problem.subject.cluster, limit);
            if (m_simulations.tightest())
                return memoryBinds(*m_problem.subject.cluster, *m_simulations.tightest());
            if (!m_settings.keep.empty())
                return infeasible(fmt::format("no plan fits and keeps {}; keep less, or use more devices or a smaller "
                                              "--micro-batch",
                                              textOf(m_settings.keep)));
            return infeasible("no plan fits: by the estimate every cut of the layers leaves a device too full; use "
                              "more devices, a smaller --micro-batch or a larger max_tensor");
        }
        PlanReport report;
        report.plan = best->plan;
        report.plan.planner = emptyPlan(m_problem, "auto", m_options).planner;
        report.plan.predictedJson = simulate::toJson(best->report);
        report.predicted = best->report;
        report.plan.estimate = {{"iteration_seconds", best->seconds()},
                                {"exact", m_exact ? 1 : 0},
                                {"plans_scored", static_cast<double>(m_scored)},
                                {"plans_simulated", static_cast<double>(m_simulations.count())},
                                {"search_bytes", static_cast<double>(m_tableBytes)},
                                {"speedup_over_one_device", best->report.speedupOverOneDevice}};
        if (Status proven = addBound(*best, report); !proven)
            return proven.error();
        for (std::size_t i = 1; i < m_simulations.kept().size() && i <= 10; ++i)
            report.alternatives.push_back({m_simulations.kept()[i].plan, m_simulations.kept()[i].seconds()});
        for (const Simulated &known : m_simulations.front())
            report.pareto.push_back({known.plan, known.seconds(), known.peakBytes});
        report.complete = !m_progress.stopped();
        return report;
    }

    /// What is proven of @p best, if anything is: nothing is of a search that was stopped. Plans from outside of the
    /// space may be below the space's bound. One of the space, among the best that are kept, may not: that is a
    /// defect, an error in debug builds and a warning in others.
    Status addBound(const Simulated &best, PlanReport &report)
    {
        plan::Estimate &estimate = report.plan.estimate;
        if (m_bound <= 0 || m_bound >= kNever)
            return {};
        report.space = describeSpace(orders(), !m_bounds, m_settings, m_scorer);
        const bool inside = isInside(best.plan);
        estimate["in_space"] = inside ? 1 : 0;
        if (!isBelow(best)) {
            estimate["lower_bound_seconds"] = m_bound;
            estimate["gap"] = best.seconds() / m_bound - 1;
            return {};
        }
        if (!inside)
            estimate["space_bound_seconds"] = m_bound;
        for (const Simulated &known : m_simulations.kept())
            if (isBelow(known) && isInside(known.plan))
                return defect(known);
        return {};
    }

    /// Orders of passes that the bound is of.
    [[nodiscard]] std::vector<plan::ScheduleKind> orders() const
    {
        return m_bounds ? m_settings.schedules : m_settings.cutSchedules();
    }
    bool isInside(const plan::Plan &plan) { return inSpace(plan, orders(), !m_bounds, m_settings, m_scorer); }
    [[nodiscard]] bool isBelow(const Simulated &known) const
    {
        constexpr double kRounding = 1e-9;
        return known.seconds() < m_bound * (1 - kRounding);
    }

    /// A plan of the space that is faster than the bound: with what repeats the search.
    [[nodiscard]] Status defect(const Simulated &known) const
    {
        std::string options;
        for (const auto &[key, value] : m_options)
            options += fmt::format(" --set {}={}", key, value);
        const std::string text = fmt::format(
            "auto: the plan {} (micro-batches {}, {}) takes {} s, below the lower bound of its space, {} s; please "
            "report this with the model and the cluster: planloom plan --model {} --cluster {} --batch {}{} --zero {} "
            "--precision {} --planner auto{}",
            plan::notation(known.plan), known.plan.microBatches, plan::name(known.plan.schedule.kind), known.seconds(),
            m_bound, m_problem.subject.modelSource, m_problem.subject.cluster->name(), m_problem.globalBatch,
            m_problem.microBatch ? fmt::format(" --micro-batch {}", *m_problem.microBatch) : "", m_problem.zero,
            plan::name(m_problem.precision), options);
#ifdef NDEBUG
        log(LogLevel::Warning, text);
        return {};
#else
        return Error{ErrorCode::Failed, text, {}, 0};
#endif
    }

    /// The lower bound of all plans.
    [[nodiscard]] MemoryLimit spread() const
    {
        std::vector<DeviceId> devices;
        for (const cluster::Device &device : m_problem.subject.cluster->devices())
            devices.push_back(device.id);
        return spreadMemory(*m_problem.subject.costs, m_costs.memory(), devices);
    }

    const Problem &m_problem;
    const Options &m_options;
    Settings m_settings;
    const std::vector<const Planner *> &m_seeds;
    Progress &m_progress;
    compile::StageCache m_stages;
    StageCosts m_costs;
    std::vector<DeviceLine> m_lines;
    Scorer m_scorer;
    Simulations m_simulations;
    std::vector<Shape> m_shapes;
    std::vector<Scored> m_limitable;    ///< would fit if kLeastKept of their activations stayed
    std::set<std::int64_t> m_cutCounts; ///< numbers of micro-batches outside of the space that were cut for
    std::size_t m_scored = 0;
    double m_bound = 0;
    std::size_t m_tableBytes = 0;
    bool m_bounds = false; ///< the current search gives bounds, too
    bool m_exact = false;
};

Result<Settings> read(const Options &options, const std::vector<OptionInfo> &known,
                      const std::vector<const Planner *> &planners, const plan::Subject &subject)
{
    const std::size_t devices = subject.cluster->devices().size();
    OptionReader reader(options, known);
    Settings settings;
    std::vector<std::string> seeds = namesOf(planners);
    seeds.insert(seeds.end(), {"auto", "none"});
    settings.seeds = reader.choices("seeds", seeds);
    std::erase(settings.seeds, "none");
    if (std::erase(settings.seeds, "auto") > 0)
        settings.seeds = devices <= kFewDevices
            ? namesOf(planners)
            : std::vector<std::string>{"data-parallel", "gpipe", "pipedream", "spp", "whale"};
    for (const std::string &name :
         reader.choices("schedules", {"gpipe", "1f1b", "dapple-a", "dapple-b", "zb-h1", "interleaved-1f1b"}))
        settings.schedules.push_back(*plan::scheduleFromName(name));
    settings.interleave = std::erase(settings.schedules, plan::ScheduleKind::Interleaved1F1B) > 0;
    if (settings.cutSchedules().empty())
        return badInput("option schedules needs one of gpipe, 1f1b, dapple-a and dapple-b, from which zero-bubble and "
                        "interleaved plans are made; add 1f1b");
    settings.mostStages = static_cast<std::size_t>(reader.integer("max_stages", 0, 1 << 20));
    settings.mostTensor = static_cast<int>(reader.integer("max_tensor", 0, 1 << 20));
    settings.zero = reader.choice("zero") == "search";
    settings.policies = reader.choice("policies") == "search";
    settings.windows = static_cast<std::size_t>(reader.integer("windows", 1, 64));
    settings.simulations = static_cast<std::size_t>(reader.integer("simulations", 2, 1 << 30));
    settings.exact = static_cast<std::size_t>(reader.integer("exact", 0, 1 << 30));
    settings.reserve = reader.number("memory_reserve", 0, 0.9);
    if (!reader.status())
        return reader.status().error();
    Result<KeptStages> keep = keptStages(options, subject.layers().size());
    if (!keep)
        return keep.error();
    settings.keep = *std::move(keep);
    return settings;
}

} // namespace

std::vector<OptionInfo> AutoPlanner::options() const
{
    return {
        {"seeds", "auto",
         fmt::format("planners whose answers begin the search, by commas, or none; auto: all of them, on more than "
                     "{} devices the quick ones",
                     kFewDevices)},
        {"schedules", "1f1b,dapple-b,zb-h1,interleaved-1f1b",
         "orders of passes to search, by commas: gpipe, 1f1b, dapple-a, dapple-b, zb-h1, interleaved-1f1b; or all"},
        {"max_stages", "0", "most pipeline stages; 0: any number", "0"},
        {"max_tensor", "0", "most devices that share the tensors of a replica; 0: those of a machine", "0"},
        {"zero", "search", "search: levels from --zero up to 3; keep: --zero as it is", "search", {"search", "keep"}},
        {"policies",
         "search",
         "search: memory policies where a plan recomputes or does not fit; none: recomputation by stage alone",
         "search",
         {"search", "none"}},
        {"windows", "16", "parts that the line of devices is cut into at most; the search costs their square"},
        {"simulations", "512", "plans that are simulated beside the seeds"},
        {"exact", "20000", "a space of at most this many plans is searched whole"},
        {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"},
        keepOption()};
}

Result<PlanReport> AutoPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    Result<Settings> settings = read(options, this->options(), m_seeds, problem.subject);
    if (!settings)
        return settings.error();
    Result<PlanReport> report = Driver(problem, options, *std::move(settings), m_seeds, progress).run();
    if (report)
        progress.report(1, "done");
    return report;
}

bool AutoPlanner::fits(const Problem &problem, const Options &options, Progress &progress) const
{
    if (!validate(problem))
        return false;
    const Result<Settings> settings = read(options, this->options(), m_seeds, problem.subject);
    return settings && Driver(problem, options, *settings, m_seeds, progress).findsAny();
}

} // namespace planloom::planners::automatic
