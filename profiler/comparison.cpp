// SPDX-License-Identifier: Apache-2.0
#include "profiler/comparison.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

namespace planloom::profiler {
namespace {

constexpr double kNanosecond = 1e-9;

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    if (values.size() % 2 == 1)
        return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// What one trace says of one task of one rank.
struct Measured {
    trace::Kind kind = trace::Kind::Other;
    std::size_t order = 0; ///< row of the task table
    std::vector<double> seconds;
};
using Tasks = std::map<std::pair<std::int16_t, std::string>, Measured>;

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
    for (const trace::Record &record : trace.records) {
        if (record.task < 0 || record.step < from)
            continue;
        const trace::TaskInfo &info = trace.tasks[static_cast<std::size_t>(record.task)];
        Measured &task = tasks[{record.rank, info.id}];
        task.kind = info.kind;
        task.order = static_cast<std::size_t>(record.task);
        task.seconds.push_back(static_cast<double>(record.duration) * kNanosecond);
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
    std::map<std::pair<std::int16_t, trace::Kind>, KindComparison> kinds;
    for (const TaskComparison &task : comparison.tasks) {
        KindComparison &kind = kinds[{task.rank, task.kind}];
        kind.rank = task.rank;
        kind.kind = task.kind;
        ++kind.tasks;
        kind.predicted += task.predicted;
        kind.measured += task.measured;
    }
    for (const auto &entry : kinds)
        comparison.kinds.push_back(entry.second);
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
    std::vector<std::pair<std::size_t, TaskComparison>> joined;
    for (const auto &[key, task] : b) {
        const auto partner = a.find(key);
        if (partner == a.end())
            continue;
        joined.push_back({task.order, {key.first, key.second, task.kind, median(partner->second.seconds), median(task.seconds), static_cast<std::int64_t>(task.seconds.size())}});
    }
    std::ranges::stable_sort(joined, {}, [](const auto &entry) { return std::pair(entry.second.rank, entry.first); });
    for (auto &entry : joined)
        comparison.tasks.push_back(std::move(entry.second));
    sumKinds(comparison);
    return comparison;
}

std::string toText(const Comparison &comparison, std::size_t worst)
{
    std::string text = fmt::format("iteration  predicted {} ms  measured {} ms  {}\n", milliseconds(comparison.predictedIterationSeconds),
                                   milliseconds(comparison.measuredIterationSeconds), percent(comparison.predictedIterationSeconds, comparison.measuredIterationSeconds));
    text += fmt::format("\n{:<6}{:<12}{:>6}{:>16}{:>16}{:>10}\n", "rank", "kind", "tasks", "predicted (ms)", "measured (ms)", "error");
    for (const KindComparison &kind : comparison.kinds)
        text += fmt::format("{:<6}{:<12}{:>6}{:>16}{:>16}{:>10}\n", kind.rank, trace::name(kind.kind), kind.tasks, milliseconds(kind.predicted), milliseconds(kind.measured), percent(kind.predicted, kind.measured));
    std::vector<const TaskComparison *> order;
    for (const TaskComparison &task : comparison.tasks)
        order.push_back(&task);
    std::ranges::stable_sort(order, std::greater(), [](const TaskComparison *task) { return std::abs(task->predicted - task->measured); });
    order.resize(std::min(order.size(), worst));
    if (!order.empty())
        text += fmt::format("\n{:<6}{:<18}{:>16}{:>16}{:>10}\n", "rank", "task", "predicted (ms)", "measured (ms)", "error");
    for (const TaskComparison *task : order)
        text += fmt::format("{:<6}{:<18}{:>16}{:>16}{:>10}\n", task->rank, task->id, milliseconds(task->predicted), milliseconds(task->measured), percent(task->predicted, task->measured));
    for (const auto &[names, what] : {std::pair(&comparison.onlyPredicted, "predicted but not measured"), std::pair(&comparison.onlyMeasured, "measured but not predicted")}) {
        if (!names->empty())
            text += fmt::format("\n{} tasks {}, such as {}\n", names->size(), what, names->front());
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
        kinds.push_back({{"rank", kind.rank}, {"kind", trace::name(kind.kind)}, {"tasks", kind.tasks}, {"predicted_seconds", kind.predicted}, {"measured_seconds", kind.measured}, {"ratio", kind.ratio()}});
    ordered_json tasks = ordered_json::array();
    for (const TaskComparison &task : comparison.tasks)
        tasks.push_back({{"rank", task.rank}, {"id", task.id}, {"kind", trace::name(task.kind)}, {"predicted_seconds", task.predicted}, {"measured_seconds", task.measured}, {"ratio", task.ratio()}, {"runs", task.runs}});
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
