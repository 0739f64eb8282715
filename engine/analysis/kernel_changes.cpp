// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/kernel_changes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace planloom::analysis {
namespace {

using trace::Record;
using trace::Trace;

/// Durations of a kernel by its place in a step, over all steps and ranks.
using Places = std::vector<std::vector<double>>;

struct KernelRuns {
    std::unordered_map<std::string_view, Places> byName;
    double steps = 0; ///< of a rank, summed over ranks
};

KernelRuns runsOf(const Trace &trace)
{
    std::vector<const Record *> records; // by rank, step and start: lanes of a rank are interleaved
    const KernelFilter filter(trace);
    for (const Record &record : trace.records)
        if (filter.has(record))
            records.push_back(&record);
    std::ranges::stable_sort(records, {}, [](const Record *r) { return std::tuple(r->rank, r->step, r->start); });
    KernelRuns runs;
    std::unordered_map<std::string_view, std::size_t> placeOf;
    const Record *before = nullptr;
    for (const Record *record : records) {
        if (!before || before->rank != record->rank || before->step != record->step) {
            placeOf.clear();
            ++runs.steps;
        }
        before = record;
        const std::string_view name = trace.task(record->task)->id;
        Places &places = runs.byName[name];
        const std::size_t place = placeOf[name]++;
        if (places.size() <= place)
            places.resize(place + 1);
        places[place].push_back(static_cast<double>(record->duration));
    }
    return runs;
}

/// A mean without a tenth at either end, and the square of its standard error.
struct Trimmed {
    double mean = 0, variance = 0;
    double count = 0; ///< that the mean is of
};

Trimmed trimmed(std::vector<double> values)
{
    std::ranges::sort(values);
    const std::size_t cut = values.size() / 10;
    const auto kept = std::span(values).subspan(cut, values.size() - 2 * cut);
    Trimmed made;
    made.count = static_cast<double>(kept.size());
    for (const double value : kept)
        made.mean += value / made.count;
    double mean = 0; // of winsorized values
    const auto all = static_cast<double>(values.size());
    const auto winsorized = [&](double value) { return std::clamp(value, kept.front(), kept.back()); };
    for (const double value : values)
        mean += winsorized(value) / all;
    double squares = 0;
    for (const double value : values)
        squares += (winsorized(value) - mean) * (winsorized(value) - mean);
    if (made.count > 1)
        made.variance = squares / (made.count * (made.count - 1));
    return made;
}

bool hasPairs(const Places &places)
{
    return std::ranges::all_of(places, [](const auto &runs) { return runs.size() >= 2; });
}

Places asOne(const Places &places)
{
    Places one(1);
    for (const auto &runs : places)
        one.front().insert(one.front().end(), runs.begin(), runs.end());
    return one;
}

/// z of the 1 in 20 that any of @p kernels is called sure wrongly.
double limitOf(std::size_t kernels)
{
    return std::sqrt(2 * std::log(20.0 * static_cast<double>(std::max<std::size_t>(kernels, 1))));
}

void compareRuns(KernelChange &change, Places a, Places b, double limit)
{
    if (a.size() != b.size() || !hasPairs(a) || !hasPairs(b)) {
        a = asOne(a);
        b = asOne(b);
    }
    if (!hasPairs(a) || !hasPairs(b))
        return;
    double of = 0, difference = 0, variance = 0, freedom = 0;
    for (std::size_t place = 0; place < a.size(); ++place) {
        const Trimmed first = trimmed(std::move(a[place]));
        const Trimmed second = trimmed(std::move(b[place]));
        of += first.mean;
        difference += second.mean - first.mean;
        variance += first.variance + second.variance;
        freedom += first.count + second.count - 2;
    }
    if (of <= 0)
        return;
    change.isKnown = true;
    change.change = difference / of;
    change.error = std::sqrt(variance) / of;
    // Student's quantile of `freedom` degrees for a normal one of `limit`: the first term of its expansion.
    const double wider = limit * (1 + (limit * limit + 1) / (4 * std::max(freedom, 1.0)));
    change.isSure = std::abs(change.change) > wider * change.error && difference != 0;
}

std::map<std::string, Kernel, std::less<>> byName(const Trace &trace)
{
    std::map<std::string, Kernel, std::less<>> kernels;
    for (Kernel &kernel : kernelsOf(trace))
        kernels.emplace(kernel.name, kernel);
    return kernels;
}

} // namespace

std::vector<KernelChange> kernelChanges(const Trace &a, const Trace &b)
{
    const auto kernelsA = byName(a), kernelsB = byName(b);
    KernelRuns runsA = runsOf(a), runsB = runsOf(b);
    std::set<std::string_view> names;
    std::size_t common = 0;
    for (const auto &[name, kernel] : kernelsA) {
        names.insert(name);
        common += kernelsB.contains(name) ? 1 : 0;
    }
    for (const auto &[name, kernel] : kernelsB)
        names.insert(name);
    std::vector<KernelChange> changes;
    for (const std::string_view name : names) {
        KernelChange change;
        change.name = name;
        const auto inA = kernelsA.find(name), inB = kernelsB.find(name);
        if (inB != kernelsB.end()) {
            change.b = inB->second;
            change.kind = b.kind(change.b.kind).name;
            change.perStep += static_cast<double>(change.b.sum) / std::max(runsB.steps, 1.0);
        }
        if (inA != kernelsA.end()) {
            change.a = inA->second;
            change.kind = a.kind(change.a.kind).name;
            change.perStep -= static_cast<double>(change.a.sum) / std::max(runsA.steps, 1.0);
        }
        if (change.a.count > 0 && change.b.count > 0)
            compareRuns(change, std::move(runsA.byName[name]), std::move(runsB.byName[name]), limitOf(common));
        changes.push_back(std::move(change));
    }
    std::ranges::stable_sort(changes, [](const KernelChange &one, const KernelChange &other) {
        return std::tuple(!one.isSure, -std::abs(one.perStep)) < std::tuple(!other.isSure, -std::abs(other.perStep));
    });
    return changes;
}

} // namespace planloom::analysis
