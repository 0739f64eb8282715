// SPDX-License-Identifier: Apache-2.0
#include "profiler/comparison.h"

#include "engine/base/statistics.h"
#include "engine/trace/rounds.h"
#include "engine/trace/waits.h"
#include "profiler/measurement.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

namespace planloom::profiler {
namespace {

/// The records of one task of one rank in the rounds that are compared.
struct Measured {
    trace::Kind kind = trace::Kind::Other;
    std::size_t order = 0; ///< row of the task table
    /// Per round in which it ran.
    struct Runs {
        std::int64_t round = 0;
        std::int64_t count = 0;
        double work = 0; ///< seconds, of all
        double waiting = 0;
    };
    std::vector<Runs> rounds; ///< by round
    [[nodiscard]] std::int64_t runs() const
    {
        std::int64_t sum = 0;
        for (const Runs &round : rounds)
            sum += round.count;
        return sum;
    }
    /// Median over the rounds of the mean over its runs in one.
    [[nodiscard]] double medianOf(double Runs::*seconds) const
    {
        std::vector<double> means;
        for (const Runs &round : rounds)
            means.push_back(round.*seconds / static_cast<double>(round.count));
        return median(std::move(means));
    }
};

/// What is compared of a trace: its steady rounds, or steps where it has no whole round.
struct Steady {
    std::map<std::pair<std::int32_t, std::string>, Measured> tasks;
    std::int64_t steps = 1; ///< of a round
    double iterationSeconds = 0;

    /// Runs of @p task per step; rounds whose records of it were lost do not count.
    [[nodiscard]] double share(const Measured &task) const
    {
        return static_cast<double>(task.runs()) / static_cast<double>(steps)
            / static_cast<double>(std::max<std::size_t>(1, task.rounds.size()));
    }
};

/// The place in @p rounds of the one with @p step; nothing: it is in none.
std::optional<std::size_t> roundOf(const std::vector<trace::Round> &rounds, std::int64_t step)
{
    const auto after = std::ranges::upper_bound(rounds, step, {}, &trace::Round::first);
    if (after == rounds.begin() || step >= std::prev(after)->first + std::prev(after)->steps)
        return std::nullopt;
    return static_cast<std::size_t>(std::prev(after) - rounds.begin());
}

/// To @p task a run of it.
void add(Measured &task, std::int64_t round, double work, double waiting)
{
    const auto at = std::ranges::lower_bound(task.rounds, round, {}, &Measured::Runs::round);
    Measured::Runs &runs =
        at != task.rounds.end() && at->round == round ? *at : *task.rounds.insert(at, {round, 0, 0, 0});
    ++runs.count;
    runs.work += work;
    runs.waiting += waiting;
}

Steady steadyPart(const trace::Trace &trace)
{
    Steady steady;
    const std::vector<trace::Round> rounds = trace::steadyRounds(trace.rounds, trace::stepWindows(trace));
    trace::Waits waits;
    waits.append(trace, trace.records);
    for (const trace::Record &record : trace.records) {
        const auto round = roundOf(rounds, record.step);
        if (record.task < 0 || !round || trace.lane(record.lane).work == trace::Work::Device)
            continue;
        const trace::TaskInfo &info = trace.tasks[static_cast<std::size_t>(record.task)];
        Measured &task = steady.tasks[{record.rank, info.id}];
        task.kind = info.kind;
        task.order = static_cast<std::size_t>(record.task);
        const std::int64_t waiting = waits.of(trace, record);
        add(task, static_cast<std::int64_t>(*round), static_cast<double>(record.duration - waiting) * kNanosecond,
            static_cast<double>(waiting) * kNanosecond);
    }
    std::vector<double> seconds;
    for (const trace::Round &round : rounds) {
        steady.steps = round.steps;
        seconds.push_back(round.secondsPerStep());
    }
    steady.iterationSeconds = median(std::move(seconds));
    return steady;
}

std::vector<std::string> without(const Steady &one, const Steady &other)
{
    std::vector<std::string> names;
    for (const auto &[key, task] : one.tasks) {
        if (!other.tasks.contains(key))
            names.push_back(fmt::format("rank {}: {}", key.first, key.second));
    }
    return names;
}

void sumKinds(Comparison &comparison)
{
    std::map<std::pair<std::int32_t, trace::Kind>, KindComparison> kinds;
    for (const TaskComparison &task : comparison.tasks) {
        KindComparison &kind = kinds[{task.rank, task.kind}];
        kind.rank = task.rank;
        kind.kind = task.kind;
        ++kind.tasks;
        kind.predicted += task.predicted * task.predictedShare;
        kind.measured += task.measured * task.measuredShare;
        kind.predictedWaiting += task.predictedWaiting * task.predictedShare;
        kind.measuredWaiting += task.measuredWaiting * task.measuredShare;
    }
    for (const auto &entry : kinds)
        comparison.kinds.push_back(entry.second);
}

std::string nameOf(const Comparison &comparison, trace::Kind kind)
{
    const auto index = static_cast<std::size_t>(kind);
    return index < comparison.kindTable.size() ? comparison.kindTable[index].name : "?";
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

std::string percent(double predicted, double measured)
{
    return measured > 0 ? fmt::format("{:+.1f} %", (predicted / measured - 1) * 100) : "-";
}

} // namespace

Comparison compare(const trace::Trace &predicted, const trace::Trace &measured)
{
    const Steady a = steadyPart(predicted);
    const Steady b = steadyPart(measured);
    Comparison comparison;
    comparison.predictedIterationSeconds = a.iterationSeconds;
    comparison.measuredIterationSeconds = b.iterationSeconds;
    comparison.onlyPredicted = without(a, b);
    comparison.onlyMeasured = without(b, a);
    comparison.dropped = measured.dropped;
    comparison.kindTable = measured.kinds;
    using Runs = Measured::Runs;
    std::vector<std::pair<std::size_t, TaskComparison>> joined;
    for (const auto &[key, task] : b.tasks) {
        const auto partner = a.tasks.find(key);
        if (partner == a.tasks.end())
            continue;
        const Measured &expected = partner->second;
        joined.push_back(
            {task.order,
             {key.first, key.second, task.kind, expected.medianOf(&Runs::work), task.medianOf(&Runs::work), task.runs(),
              expected.medianOf(&Runs::waiting), task.medianOf(&Runs::waiting), a.share(expected), b.share(task)}});
    }
    std::ranges::stable_sort(joined, {}, [](const auto &entry) { return std::pair(entry.second.rank, entry.first); });
    for (auto &entry : joined)
        comparison.tasks.push_back(std::move(entry.second));
    sumKinds(comparison);
    return comparison;
}

std::string toText(const Comparison &comparison, const ComparedNames &compared, std::size_t worst)
{
    std::string text = fmt::format("iteration  {} {} ms  {} {} ms  {}\n", compared.predicted,
                                   milliseconds(comparison.predictedIterationSeconds), compared.measured,
                                   milliseconds(comparison.measuredIterationSeconds),
                                   percent(comparison.predictedIterationSeconds, comparison.measuredIterationSeconds));
    const std::string first = compared.predicted + " (ms)";
    const std::string second = compared.measured + " (ms)";
    const std::string error = compared.predicted == "predicted" ? "error" : "change";
    text += fmt::format("\n{:<6}{:<16}{:>6}{:>16}{:>16}{:>10}{:>16}\n", "rank", "kind", "tasks", first, second, error,
                        "waited (ms)");
    for (const KindComparison &kind : comparison.kinds)
        text += fmt::format("{:<6}{:<16}{:>6}{:>16}{:>16}{:>10}{:>16}\n", kind.rank, nameOf(comparison, kind.kind),
                            kind.tasks, milliseconds(kind.predicted), milliseconds(kind.measured),
                            percent(kind.predicted, kind.measured), milliseconds(kind.measuredWaiting));
    std::vector<const TaskComparison *> order;
    for (const TaskComparison &task : comparison.tasks)
        order.push_back(&task);
    std::ranges::stable_sort(order, std::greater(),
                             [](const TaskComparison *task) { return std::abs(task->predicted - task->measured); });
    order.resize(std::min(order.size(), worst));
    if (!order.empty())
        text += fmt::format("\n{:<6}{:<18}{:>16}{:>16}{:>10}\n", "rank", "task", first, second, error);
    for (const TaskComparison *task : order)
        text += fmt::format("{:<6}{:<18}{:>16}{:>16}{:>10}\n", task->rank, task->id, milliseconds(task->predicted),
                            milliseconds(task->measured), percent(task->predicted, task->measured));
    for (const auto &[names, in, notIn] :
         {std::tuple(&comparison.onlyPredicted, compared.predicted, compared.measured),
          std::tuple(&comparison.onlyMeasured, compared.measured, compared.predicted)}) {
        if (!names->empty())
            text += fmt::format("\n{} tasks {} but not {}, such as {}\n", names->size(), in, notIn, names->front());
    }
    if (comparison.dropped > 0)
        text += fmt::format("\n{} records of the run were lost\n", comparison.dropped);
    return text;
}

std::string toJson(const Comparison &comparison)
{
    using nlohmann::ordered_json;
    ordered_json kinds = ordered_json::array();
    for (const KindComparison &kind : comparison.kinds)
        kinds.push_back({{"rank", kind.rank},
                         {"kind", nameOf(comparison, kind.kind)},
                         {"tasks", kind.tasks},
                         {"predicted_seconds", kind.predicted},
                         {"measured_seconds", kind.measured},
                         {"ratio", kind.ratio()},
                         {"predicted_waiting_seconds", kind.predictedWaiting},
                         {"measured_waiting_seconds", kind.measuredWaiting}});
    ordered_json tasks = ordered_json::array();
    for (const TaskComparison &task : comparison.tasks)
        tasks.push_back({{"rank", task.rank},
                         {"id", task.id},
                         {"kind", nameOf(comparison, task.kind)},
                         {"predicted_seconds", task.predicted},
                         {"measured_seconds", task.measured},
                         {"ratio", task.ratio()},
                         {"runs", task.runs},
                         {"predicted_waiting_seconds", task.predictedWaiting},
                         {"measured_waiting_seconds", task.measuredWaiting}});
    const ordered_json json{
        {"predicted_iteration_seconds", comparison.predictedIterationSeconds},
        {"measured_iteration_seconds", comparison.measuredIterationSeconds},
        {"prediction_error", comparison.error()},
        {"kinds", std::move(kinds)},
        {"tasks", std::move(tasks)},
        {"only_predicted", comparison.onlyPredicted},
        {"only_measured", comparison.onlyMeasured},
        {"dropped", comparison.dropped},
    };
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace planloom::profiler
