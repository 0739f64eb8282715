// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/figures.h"

#include "engine/base/statistics.h"
#include "engine/overlay/sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace planloom::overlay {
namespace {

using program::Program;

constexpr double kNs = 1e-9; ///< in seconds

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

double predictedOf(const Unit &unit, bool backward) { return backward ? unit.backward : unit.forward; }

} // namespace

Figures::Figures(const trace::Trace &read, const plan::Document &document, const Program &program,
                 const Expected &expected, Overlay &overlay)
    : m_read(read),
      m_document(document),
      m_program(program),
      m_expected(expected),
      m_overlay(overlay),
      m_units(2 * expected.units().size()),
      m_laidOn(document.plan.stages.size())
{
}

void Figures::addProcess(const Candidate &candidate)
{
    for (const std::size_t stage : candidate.stages)
        ++m_laidOn[stage];
}

void Figures::addStep(const Process &process, const Candidate &candidate, const Matcher &matcher, const FoundStep &step,
                      const std::set<std::size_t> &matched, bool isFirst, Shares &shares)
{
    ++m_steps;
    shares.wanted += step.wanted;
    shares.found += step.found;
    addUnits(process, matcher, step, isFirst);
    addTimes(process, candidate, step.step, matched, shares);
}

void Figures::addExchanges(const std::vector<ExchangesOfKind> &exchanges)
{
    for (const ExchangesOfKind &kind : exchanges) {
        double seconds = 0;
        for (const Exchange *exchange : kind.found)
            seconds += static_cast<double>(exchange->end - exchange->begin) * kNs;
        const bool isKnown = static_cast<std::size_t>(kind.kind) < trace::standardKinds().size();
        if (isKnown && !kind.tasks.empty()) {
            m_work[trace::standard(kind.kind).name].push_back(seconds);
            m_byOrder = m_byOrder || kind.agree();
            m_otherExchanges = m_otherExchanges || !kind.agree();
            continue;
        }
        for (const Exchange *exchange : kind.found) {
            auto &sum = m_onlyInTrace[{"exchange", std::string(exchange->name)}];
            ++sum.first;
            sum.second += static_cast<double>(exchange->end - exchange->begin) * kNs;
        }
    }
}

void Figures::finish()
{
    sumUnits();
    sumWork();
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, m_steps));
    for (const auto &[key, sum] : m_onlyInTrace)
        m_overlay.onlyInTrace.push_back({key.second, key.first,
                                         static_cast<std::int64_t>(std::ceil(static_cast<double>(sum.first) / steps)),
                                         sum.second / steps});
    for (auto *list : {&m_overlay.onlyInTrace, &m_overlay.onlyInPlan})
        std::ranges::stable_sort(*list, std::greater(), &Unmatched::seconds);
}

void Figures::addUnits(const Process &process, const Matcher &matcher, const FoundStep &step, bool isFirst)
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
            if (isFirst && !backward)
                checkSizes(unit, process.calls[call]);
            m_overlay.byScope += isFirst && process.calls[call].scope >= 0 ? 1 : 0;
        }
        for (const std::size_t unit : units)
            ++m_units[2 * unit + (backward ? 1 : 0)].found;
        for (const auto &[call, shared] : unitsOf) {
            double all = 0;
            for (const std::size_t unit : shared)
                all += predictedOf(m_expected.units()[unit], backward);
            const double busy = static_cast<double>(process.calls[call].busy) * kNs;
            for (const std::size_t unit : shared)
                seconds[2 * unit + (backward ? 1 : 0)] += all > 0
                    ? busy * predictedOf(m_expected.units()[unit], backward) / all
                    : busy / static_cast<double>(shared.size());
        }
    }
    for (const auto &[row, sum] : seconds) {
        auto &steps = m_units[row].seconds;
        steps.push_back(sum);
    }
}

void Figures::checkSizes(std::size_t at, const Call &call)
{
    const Unit &unit = m_expected.units()[at];
    if (m_document.plan.stages[unit.stage].shards() > 1 || (call.kinds & only(unit.kind)) == 0)
        return;
    const auto agree = sizesAgree(*m_document.subject.graph, unit, m_read.details.argumentsOf(call.record));
    if (agree)
        ++(*agree ? m_overlay.sizesAgree : m_overlay.sizesDiffer);
}

void Figures::addTimes(const Process &process, const Candidate &candidate, std::int32_t step,
                       const std::set<std::size_t> &matched, Shares &shares)
{
    const bool recomputes = std::ranges::any_of(candidate.stages, [this](std::size_t stage) {
        return m_document.plan.stages[stage].recompute != plan::Recompute::None;
    });
    double update = 0;
    for (const std::size_t i : process.callsOfStep.in(step)) {
        const Call &call = process.calls[i];
        const double seconds = static_cast<double>(call.busy) * kNs;
        if (!recomputes || call.phase != Phase::Recompute)
            shares.time += seconds;
        if (call.phase == Phase::Optimizer)
            update += seconds;
        if (call.phase == Phase::Optimizer || matched.contains(i)) {
            shares.timeFound += seconds;
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

void Figures::sumUnits()
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

void Figures::sumWork()
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
}

} // namespace planloom::overlay
