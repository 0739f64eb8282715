// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/overlay.h"

#include "engine/base/statistics.h"
#include "engine/compile/compile.h"
#include "engine/overlay/calls.h"
#include "engine/overlay/expected.h"
#include "engine/overlay/figures.h"
#include "engine/overlay/laid_records.h"
#include "engine/overlay/matcher.h"
#include "engine/simulate/simulate.h"
#include "engine/trace/rounds.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

namespace planloom::overlay {
namespace {

using program::Program;

constexpr double kHigh = 0.9;
constexpr double kMedium = 0.6;
constexpr double kMostOfKernels = 0.85; ///< confidence by the names of kernels alone

/// The whole steps of processes that are laid. They are numbered over all of these, in the trace's order: one that is
/// cut off in some is missing there.
struct StepsOf {
    std::vector<std::vector<std::int32_t>> ofProcess;
    std::map<std::int32_t, std::int32_t> numbers;

    StepsOf(const std::vector<Process> &processes, const std::vector<const Candidate *> &chosen)
    {
        for (std::size_t i = 0; i < processes.size(); ++i)
            ofProcess.push_back(chosen[i] != nullptr ? wholeSteps(processes[i]) : std::vector<std::int32_t>());
        for (const auto &steps : ofProcess)
            for (const std::int32_t step : steps)
                numbers[step] = 0;
        std::int32_t next = 0;
        for (auto &[step, number] : numbers)
            number = next++;
    }
    [[nodiscard]] std::size_t count() const
    {
        std::size_t sum = 0;
        for (const auto &steps : ofProcess)
            sum += steps.size();
        return sum;
    }
};

/// Reports and is asked between steps of processes.
class Way {
public:
    Way(Progress &progress, std::size_t steps) : m_progress(progress), m_steps(std::max<std::size_t>(1, steps)) {}
    /// False: it was stopped.
    bool step()
    {
        m_progress.report(kBegin + (1 - kBegin) * static_cast<double>(m_done++) / static_cast<double>(m_steps),
                          "matching operators");
        return !m_progress.stopped();
    }
    static constexpr double kBegin = 0.3;

private:
    Progress &m_progress;
    std::size_t m_steps;
    std::size_t m_done = 0;
};

/// Lays @p process over @p candidate; @p steps: whole ones; @p numbers: of steps in the new trace. Stops early where
/// @p way does.
void lay(const Process &process, const Candidate &candidate, const std::vector<std::int32_t> &steps,
         const std::map<std::int32_t, std::int32_t> &numbers, const plan::Document &document, const Program &program,
         const Expected &expected, LaidRecords &records, Figures &figures, Overlay &overlay, Way &way)
{
    Matcher matcher(expected, process, candidate);
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
    laid.hasTasks = microBatches == document.plan.microBatches;
    for (const std::int32_t rank : std::set<std::int32_t>(candidate.ranks.begin(), candidate.ranks.end()))
        laid.devices.push_back(overlay.trace.ranks[static_cast<std::size_t>(rank)].device);
    figures.addProcess(candidate);
    const ExchangeTasks tasks = exchangeTasks(program, candidate);
    Shares shares;
    std::int64_t measured = 0; // steps
    for (const std::int32_t each : steps) {
        if (!way.step())
            return;
        const FoundStep step = matcher.match(each);
        const std::set<std::size_t> matched = matchedCalls(step);
        const std::int32_t number = numbers.at(each);
        const auto exchanges = exchangesOf(tasks, process, each);
        records.addStep(process, candidate, step, matched, number, laid.hasTasks);
        records.addExchanges(exchanges, candidate.ranks.front(), number);
        if (number == 0 && steps.size() > 1) // left out of figures, as in comparisons of runs
            continue;
        figures.addStep(process, candidate, matcher, step, matched, measured++ == 0, shares);
        figures.addExchanges(exchanges);
    }
    overlay.steps = std::max(overlay.steps, measured);
    laid.found = shares.wanted > 0 ? shares.found / shares.wanted : 0;
    laid.timeMatched = shares.time > 0 ? shares.timeFound / shares.time : 0;
    overlay.processes.push_back(std::move(laid));
}

/// Median over the steady steps of what was laid.
double stepSeconds(const trace::Trace &trace)
{
    std::vector<double> lengths;
    for (const trace::Round &round : trace::steadyRounds(trace.rounds, trace::stepWindows(trace)))
        lengths.push_back(round.secondsPerStep());
    return median(std::move(lengths));
}

/// The means over processes, and the confidence.
void rate(Overlay &overlay)
{
    for (const Laid &laid : overlay.processes) {
        overlay.found += laid.found / static_cast<double>(overlay.processes.size());
        overlay.timeMatched += laid.timeMatched / static_cast<double>(overlay.processes.size());
    }
    overlay.confidence = std::min(overlay.found, overlay.timeMatched);
    if (const auto known = static_cast<double>(overlay.sizesAgree + overlay.sizesDiffer); known > 0)
        overlay.confidence = std::min(overlay.confidence, static_cast<double>(overlay.sizesAgree) / known);
    if (!std::ranges::all_of(overlay.processes, &Laid::hasOperators))
        overlay.confidence = std::min(overlay.confidence, kMostOfKernels);
}

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
    const Calls calls = callsOf(
        trace, [&](std::string_view range) { return expected.scopeOf(range); }, progress);
    if (progress.stopped())
        return cancelled();
    if (calls.processes.empty())
        return badInput("the trace has no operators and no kernels; record with PyTorch's profiler or Nsight Systems")
            .in(file);
    expected.numberScopes(calls.scopes);

    Overlay overlay;
    overlay.file = file;
    overlay.predictedStep = predicted->report.iterationSeconds;
    const auto chosen = chooseCandidates(expected, calls.processes, progress);
    if (progress.stopped())
        return cancelled();
    if (std::ranges::all_of(chosen, [](const Candidate *each) { return each == nullptr; }))
        return badInput("nothing of it fits the plan: its operators are of another model; open the plan of the model "
                        "that was traced")
            .in(file);
    LaidRecords records(document, *program, expected, overlay.trace);
    Figures figures(trace, document, *program, expected, overlay);
    const StepsOf steps(calls.processes, chosen);
    Way way(progress, steps.count());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] != nullptr)
            lay(calls.processes[i], *chosen[i], steps.ofProcess[i], steps.numbers, document, *program, expected,
                records, figures, overlay, way);
        if (progress.stopped())
            return cancelled();
    }
    overlay.trace.sort();
    figures.finish();
    overlay.measuredStep = stepSeconds(overlay.trace);
    if (records.inPieces())
        overlay.notes.emplace_back("passes that the plan cuts at collectives are laid over it as a whole: they are no "
                                   "tasks of the plan");
    rate(overlay);
    note(overlay, document, calls, chosen);
    return overlay;
}

} // namespace planloom::overlay
