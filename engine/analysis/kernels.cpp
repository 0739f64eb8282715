// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace planloom::analysis {
namespace {

using trace::Record;
using trace::Trace;

Kernel kernelOf(std::string_view name, trace::Kind kind, std::vector<std::int64_t> durations)
{
    std::ranges::sort(durations);
    Kernel made{std::string(name), kind, static_cast<std::int64_t>(durations.size())};
    for (const std::int64_t duration : durations)
        made.sum += duration;
    const auto count = static_cast<double>(durations.size());
    made.mean = static_cast<double>(made.sum) / count;
    double squares = 0;
    for (const std::int64_t duration : durations)
        squares += (static_cast<double>(duration) - made.mean) * (static_cast<double>(duration) - made.mean);
    made.deviation = durations.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
    made.least = durations.front();
    made.most = durations.back();
    made.p95 = durations[(durations.size() * 95 + 99) / 100 - 1];
    return made;
}

std::string quotedField(std::string_view text)
{
    if (text.find_first_of(",\"\n") == std::string_view::npos)
        return std::string(text);
    std::string quoted = "\"";
    for (const char c : text)
        quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + '"';
}

} // namespace

KernelFilter::KernelFilter(const Trace &trace) : m_trace(trace)
{
    for (const trace::KindInfo &kind : trace.kinds)
        m_isDevices.push_back(kind.work != trace::Work::Host && kind.work != trace::Work::Device);
    const auto onDevice = [this](const Record &record) {
        const trace::TaskInfo *task = m_trace.task(record.task);
        const auto kind = task ? static_cast<std::size_t>(task->kind) : m_isDevices.size();
        return kind < m_isDevices.size() && m_isDevices[kind];
    };
    m_all = std::ranges::none_of(trace.records, onDevice);
}

bool KernelFilter::has(const Record &record) const
{
    const trace::TaskInfo *task = m_trace.task(record.task);
    if (!task || m_trace.lane(record.lane).work == trace::Work::Device)
        return false;
    const auto kind = static_cast<std::size_t>(task->kind);
    return m_all || (kind < m_isDevices.size() && m_isDevices[kind]);
}

std::vector<Kernel> kernelsOf(const Trace &trace, const std::optional<trace::Window> &window)
{
    struct Runs {
        trace::Kind kind = trace::Kind::Other;
        std::vector<std::int64_t> durations;
    };
    const KernelFilter filter(trace);
    std::unordered_map<std::string_view, Runs> byName;
    for (const Record &record : trace.records) {
        if (!filter.has(record) || (window && (record.start < window->begin || record.start >= window->end)))
            continue;
        const trace::TaskInfo &task = *trace.task(record.task);
        Runs &runs = byName[task.id];
        runs.kind = task.kind;
        runs.durations.push_back(record.duration);
    }
    std::vector<Kernel> kernels;
    double all = 0;
    for (auto &[name, runs] : byName) {
        kernels.push_back(kernelOf(name, runs.kind, std::move(runs.durations)));
        all += static_cast<double>(kernels.back().sum);
    }
    for (Kernel &kernel : kernels)
        kernel.share = all > 0 ? static_cast<double>(kernel.sum) / all : 0;
    std::ranges::sort(kernels, [](const Kernel &a, const Kernel &b) {
        return a.sum != b.sum ? a.sum > b.sum : a.name < b.name;
    });
    return kernels;
}

std::string toCsv(const trace::Tables &tables, const std::vector<Kernel> &kernels)
{
    std::string text = "name,kind,count,sum_seconds,mean_seconds,p95_seconds,max_seconds,share\n";
    for (const Kernel &kernel : kernels)
        text +=
            fmt::format("{},{},{},{:.9f},{:.12f},{:.9f},{:.9f},{:.6f}\n", quotedField(kernel.name),
                        quotedField(tables.kind(kernel.kind).name), kernel.count,
                        static_cast<double>(kernel.sum) * 1e-9, kernel.mean * 1e-9,
                        static_cast<double>(kernel.p95) * 1e-9, static_cast<double>(kernel.most) * 1e-9, kernel.share);
    return text;
}

} // namespace planloom::analysis
