// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/overlay.h"

#include "engine/base/statistics.h"
#include "engine/compile/compile.h"
#include "engine/overlay/calls.h"
#include "engine/overlay/expected.h"
#include "engine/overlay/matcher.h"
#include "engine/overlay/sizes.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/rounds.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace planloom::overlay {
namespace {

using program::Program;

constexpr double kHigh = 0.9;
constexpr double kMedium = 0.6;
constexpr double kMostOfKernels = 0.85; ///< confidence by the names of kernels alone
constexpr double kNs = 1e-9;            ///< in seconds

const char *passName(Phase phase)
{
    switch (phase) {
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::Recompute: return "recompute";
    case Phase::Optimizer: return "update";
    case Phase::Unknown: break;
    }
    return "unknown";
}

/// A step of a unit in one pass.
struct Measured {
    std::vector<double> seconds; ///< by step
    std::int64_t found = 0;      ///< passes
    std::int64_t wanted = 0;
};

/// Sums over steps of what has no counterpart.
using UnmatchedSums = std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, double>>;

/// Lays processes over the ranks of a Program, one after the other.
class Layer {
public:
    Layer(const trace::Trace &read, const plan::Document &document, const Program &program, Expected &expected,
          Overlay &overlay)
        : m_read(read),
          m_document(document),
          m_program(program),
          m_expected(expected),
          m_overlay(overlay)
    {
        trace::Trace &trace = overlay.trace;
        static_cast<trace::Tables &>(trace) = program::traceTables(program, *document.subject.cluster);
        trace.clock = "wall";
        m_operators = static_cast<std::int32_t>(trace.lanes.size());
        trace.lanes.push_back({"operators", trace::Work::Device, 1});
        trace.lanes.push_back({"not matched", trace::Work::Device, 1});
        m_units.resize(2 * expected.units().size());
        m_laidOn.resize(document.plan.stages.size());
    }

    /// @p steps: whole ones.
    void lay(const Process &process, const Candidate &candidate, const std::vector<std::int32_t> &steps,
             Progress &progress)
    {
        Matcher matcher(m_expected, process, candidate);
        std::vector<double> counts;
        for (const std::int32_t step : steps)
            counts.push_back(static_cast<double>(matcher.microBatchesOf(step)));
        const auto microBatches = static_cast<std::int64_t>(std::llround(median(std::move(counts))));
        matcher.setMicroBatches(microBatches);
        Laid laid;
        laid.process = process.name;
        laid.microBatches = microBatches;
        laid.hasKernels = process.hasKernels;
        laid.hasOperators = process.hasOperators;
        laid.hasTasks = microBatches == m_document.plan.microBatches;
        std::set<std::int32_t> ranks;
        for (const std::size_t stage : candidate.stages)
            ranks.insert(m_expected.rankOf(candidate, stage));
        for (const std::int32_t rank : ranks)
            laid.devices.push_back(m_overlay.trace.ranks[static_cast<std::size_t>(rank)].device);
        for (const std::size_t stage : candidate.stages)
            ++m_laidOn[stage];

        const std::size_t warmUp = steps.size() > 1 ? 1 : 0; // left out of figures, as in comparisons of runs
        m_steps = std::max<std::int64_t>(m_steps, static_cast<std::int64_t>(steps.size() - warmUp));
        double wanted = 0, found = 0, time = 0, timeFound = 0;
        for (std::size_t s = 0; s < steps.size() && !progress.stopped(); ++s) {
            const FoundStep step = matcher.match(steps[s]);
            const std::set<std::size_t> matched = matchedCalls(step);
            addRecords(process, candidate, step, matched, static_cast<std::int32_t>(s), laid.hasTasks);
            if (s < warmUp)
                continue;
            wanted += step.wanted;
            found += step.found;
            measure(process, matcher, step, s - warmUp);
            addTimes(process, steps[s], matched, time, timeFound);
            addExchanges(process, candidate, steps[s], static_cast<std::int32_t>(s));
        }
        laid.found = wanted > 0 ? found / wanted : 0;
        laid.timeMatched = time > 0 ? timeFound / time : 0;
        m_overlay.processes.push_back(std::move(laid));
        m_stepsOfProcesses += static_cast<std::int64_t>(steps.size() - warmUp);
    }

    void finish()
    {
        m_overlay.steps = m_steps;
        m_overlay.trace.sort();
        sumUnits();
        sumWork();
        const auto perStep = [&](const UnmatchedSums &sums, std::vector<Unmatched> &list) {
            const auto steps = static_cast<double>(std::max<std::int64_t>(1, m_stepsOfProcesses));
            for (const auto &[key, sum] : sums)
                list.push_back({key.second, key.first,
                                static_cast<std::int64_t>(std::ceil(static_cast<double>(sum.first) / steps)),
                                sum.second / steps});
        };
        perStep(m_onlyInTrace, m_overlay.onlyInTrace);
        for (auto *list : {&m_overlay.onlyInTrace, &m_overlay.onlyInPlan})
            std::ranges::stable_sort(*list, std::greater(), &Unmatched::seconds);
        std::vector<double> lengths;
        for (const trace::Round &round :
             trace::steadyRounds(m_overlay.trace.rounds, trace::stepWindows(m_overlay.trace)))
            lengths.push_back(round.secondsPerStep());
        m_overlay.measuredStep = median(std::move(lengths));
    }

private:
    static std::set<std::size_t> matchedCalls(const FoundStep &step)
    {
        std::set<std::size_t> calls;
        for (const FoundPass &pass : step.passes) {
            for (const auto &[unit, call] : pass.pairs)
                calls.insert(call);
        }
        return calls;
    }

    [[nodiscard]] double predictedOf(std::size_t unit, bool backward) const
    {
        const Unit &of = m_expected.units()[unit];
        return backward ? of.backward : of.forward;
    }

    /// The time of calls goes to the units that they were matched with, in proportion to the prediction where one call
    /// is several.
    void measure(const Process &process, const Matcher &matcher, const FoundStep &step, std::size_t number)
    {
        for (const PassOf &pass : matcher.passes()) {
            for (const std::size_t unit : pass.units)
                ++m_units[2 * unit + (pass.backward ? 1 : 0)].wanted;
        }
        std::map<std::size_t, double> seconds; // by row of m_units
        for (const FoundPass &pass : step.passes) {
            const bool backward = pass.pass->backward;
            std::map<std::size_t, std::vector<std::size_t>> unitsOf; // by call
            std::set<std::size_t> units;
            for (const auto &[unit, call] : pass.pairs) {
                unitsOf[call].push_back(unit);
                units.insert(unit);
                if (number == 0 && !backward)
                    checkSizes(unit, process.calls[call]);
                m_overlay.byScope += number == 0 && process.calls[call].scope >= 0 ? 1 : 0;
            }
            for (const std::size_t unit : units)
                ++m_units[2 * unit + (backward ? 1 : 0)].found;
            for (const auto &[call, shared] : unitsOf) {
                double all = 0;
                for (const std::size_t unit : shared)
                    all += predictedOf(unit, backward);
                const double busy = static_cast<double>(process.calls[call].busy) * kNs;
                for (const std::size_t unit : shared)
                    seconds[2 * unit + (backward ? 1 : 0)] +=
                        all > 0 ? busy * predictedOf(unit, backward) / all : busy / static_cast<double>(shared.size());
            }
        }
        for (const auto &[row, sum] : seconds) {
            auto &steps = m_units[row].seconds;
            steps.push_back(sum);
        }
    }

    /// Where devices hold parts of tensors the sizes are those of parts.
    void checkSizes(std::size_t at, const Call &call)
    {
        const Unit &unit = m_expected.units()[at];
        if (m_document.plan.stages[unit.stage].shards() > 1 || (call.kinds & only(unit.kind)) == 0)
            return;
        const auto agree = sizesAgree(*m_document.subject.graph, unit, m_read.details.argumentsOf(call.record));
        if (agree)
            ++(*agree ? m_overlay.sizesAgree : m_overlay.sizesDiffer);
    }

    void addTimes(const Process &process, std::int32_t step, const std::set<std::size_t> &matched, double &time,
                  double &timeFound)
    {
        double update = 0;
        for (std::size_t i = 0; i < process.calls.size(); ++i) {
            const Call &call = process.calls[i];
            if (call.step != step)
                continue;
            const double seconds = static_cast<double>(call.busy) * kNs;
            time += seconds;
            if (call.phase == Phase::Optimizer)
                update += seconds;
            if (call.phase == Phase::Optimizer || matched.contains(i)) {
                timeFound += seconds;
                continue;
            }
            if (call.busy == 0 && call.kinds == 0)
                continue;
            auto &sum = m_onlyInTrace[{passName(call.phase), std::string(call.name)}];
            ++sum.first;
            sum.second += seconds;
        }
        if (update > 0)
            m_work["optimizer"].push_back(update);
    }

    std::int32_t rowOf(const std::string &id, trace::Kind kind, std::int32_t rank, std::int32_t stage,
                       std::int32_t microBatch)
    {
        auto &tasks = m_overlay.trace.tasks;
        const auto [at, isNew] = m_rows.try_emplace({rank, id}, static_cast<std::int32_t>(tasks.size()));
        if (isNew)
            tasks.push_back({id, kind, stage, microBatch, -1});
        return at->second;
    }

    void addRecord(std::int64_t begin, std::int64_t end, std::int32_t task, std::int32_t step, std::int32_t rank,
                   std::int32_t lane)
    {
        m_overlay.trace.records.push_back({begin, std::max<std::int64_t>(0, end - begin), task, step, rank, lane});
    }

    /// The pass of each stage, its operators, and what is not matched.
    void addRecords(const Process &process, const Candidate &candidate, const FoundStep &step,
                    const std::set<std::size_t> &matched, std::int32_t number, bool hasTasks)
    {
        for (const FoundPass &pass : step.passes)
            addPass(process, candidate, pass, number, hasTasks);
        std::optional<std::pair<std::int64_t, std::int64_t>> update;
        const std::int32_t rank = m_expected.rankOf(candidate, candidate.stages.front());
        for (std::size_t i = 0; i < process.calls.size(); ++i) {
            const Call &call = process.calls[i];
            if (call.step != step.step || (process.hasKernels && call.kernels == 0))
                continue;
            if (call.phase == Phase::Optimizer)
                update = update ? std::pair(std::min(update->first, call.begin), std::max(update->second, call.end))
                                : std::pair(call.begin, call.end);
            else if (!matched.contains(i) && call.busy > 0)
                addRecord(call.begin, call.end,
                          rowOf(fmt::format("not matched/{}", call.name), trace::Kind::Other, rank, -1, -1), number,
                          rank, m_operators + 1);
        }
        if (update)
            addUpdate(candidate, rank, *update, number);
    }

    void addPass(const Process &process, const Candidate &candidate, const FoundPass &pass, std::int32_t number,
                 bool hasTasks)
    {
        const bool backward = pass.pass->backward;
        const trace::Kind kind = backward ? trace::Kind::Backward : trace::Kind::Forward;
        std::map<std::size_t, std::pair<std::int64_t, std::int64_t>> spans; // by stage
        std::map<std::size_t, std::vector<std::size_t>> unitsOf;            // by call
        for (const auto &[unit, call] : pass.pairs)
            unitsOf[call].push_back(unit);
        for (const auto &[at, units] : unitsOf) {
            const Call &call = process.calls[at];
            if (process.hasKernels && call.kernels == 0)
                continue;
            const Unit &unit = m_expected.units()[units.front()];
            const auto [span, isNew] = spans.try_emplace(unit.stage, call.begin, call.end);
            if (!isNew)
                span->second = {std::min(span->second.first, call.begin), std::max(span->second.second, call.end)};
            const std::int32_t rank = m_expected.rankOf(candidate, unit.stage);
            const std::string task = passId(unit.stage, backward, hasTasks ? pass.pass->microBatch : -1);
            const graph::Op &op = m_document.subject.graph->op(unit.ops.front());
            std::string id = task + "/" + op.name;
            if (units.size() > 1)
                id += fmt::format(" and {} more", units.size() - 1);
            addRecord(call.begin, call.end, rowOf(id, kind, rank, static_cast<std::int32_t>(unit.stage), -1), number,
                      rank, m_operators);
        }
        for (const auto &[stage, span] : spans) {
            const std::int32_t rank = m_expected.rankOf(candidate, stage);
            const TaskId task = hasTasks ? m_expected.task(rank, backward, stage, pass.pass->microBatch) : TaskId();
            m_inPieces = m_inPieces || (hasTasks && !task.valid());
            const std::int32_t row = task.valid()
                ? task.value
                : rowOf(passId(stage, backward, -1), kind, rank, static_cast<std::int32_t>(stage), -1);
            addRecord(span.first, span.second, row, number, rank, 0);
        }
    }

    static std::string passId(std::size_t stage, bool backward, std::int32_t microBatch)
    {
        std::string id = fmt::format("s{}.{}", stage, backward ? 'B' : 'F');
        return microBatch < 0 ? id : id + fmt::format(".m{}", microBatch);
    }

    /// The update of a rank, if the plan has it as one task.
    void addUpdate(const Candidate &candidate, std::int32_t rank, std::pair<std::int64_t, std::int64_t> span,
                   std::int32_t number)
    {
        std::vector<TaskId> updates;
        for (const TaskId id : m_program.ranks[static_cast<std::size_t>(rank)].tasks) {
            if (m_program.task(id).as<program::Update>() != nullptr)
                updates.push_back(id);
        }
        const bool isTask = updates.size() == 1 && !candidate.whole;
        const std::int32_t row = isTask
            ? updates.front().value
            : rowOf(fmt::format("s{}.O, of all", candidate.stages.front()), trace::Kind::Optimizer, rank, -1, -1);
        addRecord(span.first, span.second, row, number, rank, 0);
    }

    /// Collectives of a step, where the trace has as many of a kind as the plan, in order; else their time alone.
    void addExchanges(const Process &process, const Candidate &candidate, std::int32_t step, std::int32_t number)
    {
        std::map<trace::Kind, std::vector<const Exchange *>> byKind;
        for (const Exchange &exchange : process.exchanges) {
            if (exchange.step == step)
                byKind[exchange.kind].push_back(&exchange);
        }
        const std::int32_t rank = candidate.ranks.front();
        for (const auto &[kind, found] : byKind) {
            std::vector<TaskId> tasks;
            for (const TaskId id : m_program.ranks[static_cast<std::size_t>(rank)].tasks) {
                if (!candidate.whole && m_program.task(id).kind() == kind && m_program.task(id).bytes() > 0)
                    tasks.push_back(id);
            }
            double seconds = 0;
            for (std::size_t i = 0; i < found.size(); ++i) {
                seconds += static_cast<double>(found[i]->end - found[i]->begin) * kNs;
                if (tasks.size() == found.size())
                    addRecord(found[i]->begin, found[i]->end, tasks[i].value, number, rank,
                              static_cast<std::int32_t>(m_program.task(tasks[i]).lane));
            }
            const bool isKnown = static_cast<std::size_t>(kind) < trace::standardKinds().size();
            if (isKnown && !tasks.empty()) {
                m_work[trace::standard(kind).name].push_back(seconds);
                m_byOrder = m_byOrder || tasks.size() == found.size();
                m_otherExchanges = m_otherExchanges || tasks.size() != found.size();
                continue;
            }
            for (const Exchange *exchange : found) {
                auto &sum = m_onlyInTrace[{"exchange", std::string(exchange->name)}];
                ++sum.first;
                sum.second += static_cast<double>(exchange->end - exchange->begin) * kNs;
            }
        }
    }

    void sumUnits()
    {
        const graph::LayerView &layers = m_document.subject.layers();
        std::map<std::pair<std::size_t, bool>, Row> byLayer;
        std::map<std::pair<OpKind, bool>, Row> byKind;
        for (std::size_t row = 0; row < m_units.size(); ++row) {
            const Unit &unit = m_expected.units()[row / 2];
            const bool backward = row % 2 == 1;
            const Measured &of = m_units[row];
            if (of.wanted == 0)
                continue;
            const double predicted = backward ? unit.backward : unit.forward;
            const double share = static_cast<double>(of.found) / static_cast<double>(of.wanted);
            // Medians over the steps of all processes, of those that have the stage.
            const double measured = median(of.seconds);
            Row added{{}, backward ? "backward" : "forward", predicted * share, measured, predicted * (1 - share),
                      1,  2 * of.found < of.wanted ? 1 : 0};
            for (Row *to : {&byLayer[{unit.layer, backward}], &byKind[{unit.kind, backward}]}) {
                to->pass = added.pass;
                to->predicted += added.predicted;
                to->measured += added.measured;
                to->notFound += added.notFound;
                to->operators += added.operators;
                to->missing += added.missing;
            }
            if (added.missing > 0)
                m_overlay.onlyInPlan.push_back({m_document.subject.graph->op(unit.ops.front()).name, added.pass,
                                                m_document.plan.microBatches, added.notFound});
        }
        for (auto &[key, row] : byLayer) {
            row.name = layers.layers[key.first].name;
            m_overlay.layers.push_back(row);
        }
        for (auto &[key, row] : byKind) {
            row.name = name(key.first);
            m_overlay.kinds.push_back(row);
        }
        std::ranges::stable_sort(m_overlay.kinds, std::greater(), &Row::pass); // forward first
    }

    /// The optimizer and collectives, by the kinds of tasks.
    void sumWork()
    {
        std::map<std::string, std::pair<double, std::set<std::int32_t>>> predicted;
        std::map<std::string, std::int64_t> tasks;
        for (const program::Task &task : m_program.tasks) {
            const bool isUpdate = task.as<program::Update>() != nullptr;
            if (!isUpdate && (task.bytes() == 0 || task.kind() == trace::Kind::Agreement))
                continue;
            if (task.stage.valid() && m_laidOn[task.stage.index()] == 0)
                continue;
            auto &sum = predicted[trace::standard(task.kind()).name];
            sum.first += task.duration.value();
            sum.second.insert(task.rank.value);
            ++tasks[trace::standard(task.kind()).name];
        }
        std::set<std::string> names;
        for (const auto &[kind, sum] : predicted)
            names.insert(kind);
        for (const auto &[kind, seconds] : m_work)
            names.insert(kind);
        for (const std::string &kind : names) {
            const auto &sum = predicted[kind];
            const auto ranks = std::max<std::size_t>(1, sum.second.size());
            const double seconds = sum.first / static_cast<double>(ranks);
            const auto count = tasks[kind] / static_cast<std::int64_t>(ranks);
            const bool isFound = m_work.contains(kind);
            const std::string pass = kind == "optimizer" ? "update" : "exchange";
            m_overlay.kinds.push_back({kind, pass, isFound ? seconds : 0, isFound ? median(m_work[kind]) : 0,
                                       isFound ? 0 : seconds, count, isFound ? 0 : count});
            if (!isFound)
                m_overlay.onlyInPlan.push_back({kind, pass, count, seconds});
        }
        if (m_byOrder)
            m_overlay.notes.emplace_back("collectives are matched by their order, and measured with the time that they "
                                         "wait for others");
        if (m_otherExchanges)
            m_overlay.notes.emplace_back("the trace has another number of collectives than the plan: their times are "
                                         "compared as a sum");
        if (m_inPieces)
            m_overlay.notes.emplace_back("passes that the plan cuts at collectives are laid over it as a whole: they "
                                         "are no tasks of the plan");
    }

    const trace::Trace &m_read;
    const plan::Document &m_document;
    const Program &m_program;
    Expected &m_expected;
    Overlay &m_overlay;
    std::int32_t m_operators = 0;       ///< lane
    std::vector<Measured> m_units;      ///< by unit and pass
    std::vector<std::int64_t> m_laidOn; ///< processes, by stage
    std::map<std::pair<std::int32_t, std::string>, std::int32_t> m_rows;
    std::map<std::string, std::vector<double>> m_work; ///< seconds a step, by kind of task
    UnmatchedSums m_onlyInTrace;
    std::int64_t m_steps = 0;
    std::int64_t m_stepsOfProcesses = 0;
    bool m_byOrder = false, m_otherExchanges = false, m_inPieces = false;
};

Status refuse(const trace::Trace &trace, const plan::Document &document)
{
    if (graph::isLayerProfile(*document.subject.graph))
        return unsupported(
            "the plan's model is a layer profile, without operators to match; plan for the model itself");
    if (document.plan.admm || document.plan.job)
        return unsupported("traces are laid over plans that train by gradients on their own samples");
    if (trace.records.empty())
        return badInput("the trace is empty");
    return {};
}

void note(Overlay &overlay, const plan::Document &document, const Calls &calls,
          const std::vector<const Candidate *> &chosen)
{
    const plan::Plan &plan = document.plan;
    std::vector<std::string> notes;
    for (const Laid &laid : overlay.processes) {
        if (!laid.hasTasks)
            notes.push_back(
                fmt::format("{}: {} micro-batches a step, the plan has {}: tasks are not compared, sums of a "
                            "step are",
                            laid.process, laid.microBatches, plan.microBatches));
        if (laid.devices.size() > 1)
            notes.push_back(fmt::format("{} runs the whole model, which the plan cuts over {} devices", laid.process,
                                        laid.devices.size()));
        if (!laid.hasOperators)
            notes.push_back(fmt::format("{} has kernels without operators: they are matched by their own names, and "
                                        "passes by their order",
                                        laid.process));
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] == nullptr)
            notes.push_back(fmt::format("{} is laid over no device: less than {:.0f} % of it fits any",
                                        calls.processes[i].name, 100 * kLeastFit));
    }
    if (overlay.sizesDiffer > 0)
        notes.push_back(fmt::format("{} of {} operators have other sizes than in the model", overlay.sizesDiffer,
                                    overlay.sizesAgree + overlay.sizesDiffer));
    else if (overlay.sizesAgree == 0 && !overlay.processes.empty())
        notes.emplace_back("the trace has no sizes of operators (record_shapes=True): kinds and order alone decide");
    const auto &cluster = *document.subject.cluster;
    const bool onGpus =
        std::ranges::any_of(plan::devicesOf(plan), [&](DeviceId id) { return !cluster.typeOf(id).isProcessor(); });
    if (onGpus && std::ranges::any_of(overlay.processes, [](const Laid &laid) { return !laid.hasKernels; }))
        notes.emplace_back("the trace has the times of operators on a processor, and the plan has GPUs");
    if (calls.stepsByOptimizer)
        notes.emplace_back("the trace has no marks of steps: they are counted by the optimizer's");
    overlay.notes.insert(overlay.notes.begin(), notes.begin(), notes.end());
}

} // namespace

const char *name(Certainty certainty)
{
    return certainty == Certainty::High ? "high" : certainty == Certainty::Medium ? "medium" : "low";
}

Certainty Overlay::certainty() const
{
    return confidence >= kHigh ? Certainty::High : confidence >= kMedium ? Certainty::Medium : Certainty::Low;
}

Result<Overlay> layOver(const trace::Trace &trace, const plan::Document &document, const std::string &file,
                        Progress &progress)
{
    if (const Status refused = refuse(trace, document); !refused)
        return refused.error().in(file);
    compile::Options options;
    options.bodies = false;
    const auto program = compile::compilePlan(document.plan, document.subject, options);
    if (!program)
        return program.error();
    const auto predicted = simulate::simulatePlan(document.plan, document.subject, {false, false});
    if (!predicted)
        return predicted.error();
    progress.report(0.2, "reading operators");
    Expected expected(document, *program);
    const Calls calls = callsOf(trace, [&](std::string_view range) { return expected.scopeOf(range); });
    if (calls.processes.empty())
        return badInput("the trace has no operators and no kernels; record with PyTorch's profiler or Nsight Systems")
            .in(file);
    expected.numberScopes(calls.scopes);

    Overlay overlay;
    overlay.file = file;
    overlay.predictedStep = predicted->report.iterationSeconds;
    const auto chosen = chooseCandidates(expected, calls.processes);
    Layer layer(trace, document, *program, expected, overlay);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        progress.report(0.2 + 0.8 * static_cast<double>(i) / static_cast<double>(chosen.size()), "matching operators");
        if (progress.stopped())
            return cancelled();
        if (chosen[i] != nullptr)
            layer.lay(calls.processes[i], *chosen[i], wholeSteps(calls.processes[i]), progress);
    }
    if (progress.stopped())
        return cancelled();
    layer.finish();
    for (const Laid &laid : overlay.processes) {
        overlay.found += laid.found / static_cast<double>(overlay.processes.size());
        overlay.timeMatched += laid.timeMatched / static_cast<double>(overlay.processes.size());
    }
    overlay.confidence = std::min(overlay.found, overlay.timeMatched);
    if (const auto known = static_cast<double>(overlay.sizesAgree + overlay.sizesDiffer); known > 0)
        overlay.confidence = std::min(overlay.confidence, static_cast<double>(overlay.sizesAgree) / known);
    if (!std::ranges::all_of(overlay.processes, &Laid::hasOperators))
        overlay.confidence = std::min(overlay.confidence, kMostOfKernels);
    note(overlay, document, calls, chosen);
    return overlay;
}

} // namespace planloom::overlay
