// SPDX-License-Identifier: Apache-2.0
#include "profiler/comparison.h"

#include "engine/base/statistics.h"
#include "engine/trace/waits.h"
#include "profiler/measurement.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

namespace planloom::profiler {
namespace {

/// The records of one task of one rank in one trace.
struct Measured {
    trace::Kind kind = trace::Kind::Other;
    std::size_t order = 0;    ///< row of the task table
    std::vector<double> work; ///< seconds, per step
    std::vector<double> waiting;
};
using Tasks = std::map<std::pair<std::int32_t, std::string>, Measured>;

/// The first step that counts: where there are several, the first of them warms up.
std::int32_t firstSteady(const trace::Trace &trace)
{
    std::int32_t first = std::numeric_limits<std::int32_t>::max();
    std::int32_t last = std::numeric_limits<std::int32_t>::min();
    for (const trace::Record &record : trace.records) {
        first = std::min(first, record.step);
        last = std::max(last, record.step);
    }
    return first < last ? first + 1 : first;
}

Tasks collect(const trace::Trace &trace, std::int32_t from)
{
    Tasks tasks;
    trace::Waits waits;
    waits.append(trace, trace.records);
    for (const trace::Record &record : trace.records) {
        if (record.task < 0 || record.step < from)
            continue;
        const trace::TaskInfo &info = trace.tasks[static_cast<std::size_t>(record.task)];
        Measured &task = tasks[{record.rank, info.id}];
        task.kind = info.kind;
        task.order = static_cast<std::size_t>(record.task);
        const std::int64_t waiting = waits.of(trace, record);
        task.work.push_back(static_cast<double>(record.duration - waiting) * kNanosecond);
        task.waiting.push_back(static_cast<double>(waiting) * kNanosecond);
    }
    return tasks;
}

double iterationSeconds(const trace::Trace &trace, std::int32_t from)
{
    struct Span {
        std::int64_t begin = std::numeric_limits<std::int64_t>::max();
        std::int64_t end = std::numeric_limits<std::int64_t>::min();
    };
    std::map<std::int32_t, Span> steps;
    for (const trace::Record &record : trace.records) {
        if (record.step < from)
            continue;
        Span &span = steps[record.step];
        span.begin = std::min(span.begin, record.start);
        span.end = std::max(span.end, record.start + record.duration);
    }
    std::vector<double> seconds;
    for (const auto &[step, span] : steps)
        seconds.push_back(static_cast<double>(span.end - span.begin) * kNanosecond);
    return median(std::move(seconds));
}

std::vector<std::string> without(const Tasks &tasks, const Tasks &others)
{
    std::vector<std::string> names;
    for (const auto &[key, task] : tasks) {
        if (!others.contains(key))
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
        kind.predicted += task.predicted;
        kind.measured += task.measured;
        kind.predictedWaiting += task.predictedWaiting;
        kind.measuredWaiting += task.measuredWaiting;
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
    const std::int32_t steadyA = firstSteady(predicted);
    const std::int32_t steadyB = firstSteady(measured);
    const Tasks a = collect(predicted, steadyA);
    const Tasks b = collect(measured, steadyB);
    Comparison comparison;
    comparison.predictedIterationSeconds = iterationSeconds(predicted, steadyA);
    comparison.measuredIterationSeconds = iterationSeconds(measured, steadyB);
    comparison.onlyPredicted = without(a, b);
    comparison.onlyMeasured = without(b, a);
    comparison.dropped = measured.dropped;
    comparison.kindTable = measured.kinds;
    std::vector<std::pair<std::size_t, TaskComparison>> joined;
    for (const auto &[key, task] : b) {
        const auto partner = a.find(key);
        if (partner == a.end())
            continue;
        joined.push_back(
            {task.order,
             {key.first, key.second, task.kind, median(partner->second.work), median(task.work),
              static_cast<std::int64_t>(task.work.size()), median(partner->second.waiting), median(task.waiting)}});
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
