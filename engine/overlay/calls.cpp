// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/calls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace planloom::overlay {
namespace {

using trace::Record;
using trace::Trace;
using trace::Work;

/// "stream 7 (2)" lies within "stream 7".
std::string_view threadOf(std::string_view lane)
{
    const std::size_t open = lane.rfind(" (");
    if (open == std::string_view::npos || !lane.ends_with(')') || open + 3 > lane.size() - 1)
        return lane;
    const std::string_view number = lane.substr(open + 2, lane.size() - open - 3);
    return number.find_first_not_of("0123456789") == std::string_view::npos ? lane.substr(0, open) : lane;
}

/// What a record is to a reader of operators.
enum class Sort : std::uint8_t { Host, Kernel, Exchange, None };

class CallReader {
public:
    CallReader(const Trace &trace, const std::function<std::string(std::string_view)> &scopeOf,
               const Progress &progress)
        : m_trace(trace),
          m_scopeOf(scopeOf),
          m_progress(progress),
          m_names(trace.tasks.size()),
          m_scopes(trace.tasks.size(), kNotAsked)
    {
        for (const trace::KindInfo &kind : trace.kinds) {
            const bool isKernel = kind.work == Work::Compute || kind.work == Work::Update || kind.name == "gpu_memset"
                || kind.name == "gpu_memcpy";
            m_sorts.push_back(isKernel                                                            ? Sort::Kernel
                                  : kind.work == Work::Communication                              ? Sort::Exchange
                                  : kind.work == Work::Host && kind.name != "gpu_user_annotation" ? Sort::Host
                                                                                                  : Sort::None);
        }
    }

    Calls read()
    {
        findDevices();
        for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(m_trace.ranks.size()); ++rank)
            m_processes[rank].rank = rank;
        for (const auto &[thread, records] : threads())
            readThread(thread.first, records);
        addLooseKernels();
        finish();
        return std::move(m_calls);
    }

private:
    static constexpr std::int32_t kNotAsked = -2;
    /// A range that is open on a thread.
    struct Open {
        std::int64_t start = 0, end = 0;
        std::string_view name;
        bool inBackward = false; ///< what it calls is autograd's
        bool recomputes = false; ///< and what it calls runs again
        bool inOptimizer = false;
        std::int32_t scope = -1;
        std::int32_t call = -1; ///< that it is or lies within, of m_calls of the process
    };

    [[nodiscard]] const trace::TaskInfo *taskOf(std::size_t record) const
    {
        return m_trace.task(m_trace.records[record].task);
    }
    [[nodiscard]] Sort sortOf(std::size_t record) const
    {
        const trace::TaskInfo *task = taskOf(record);
        const auto kind = task ? static_cast<std::size_t>(task->kind) : m_sorts.size();
        return kind < m_sorts.size() ? m_sorts[kind] : Sort::None;
    }

    const Named &namedOf(std::int32_t task)
    {
        auto &kept = m_names[static_cast<std::size_t>(task)];
        if (!kept)
            kept = named(m_trace.tasks[static_cast<std::size_t>(task)].id);
        return *kept;
    }

    std::int32_t scopeOf(std::int32_t task)
    {
        std::int32_t &kept = m_scopes[static_cast<std::size_t>(task)];
        if (kept != kNotAsked)
            return kept;
        const std::string scope = m_scopeOf(m_trace.tasks[static_cast<std::size_t>(task)].id);
        kept = -1;
        if (!scope.empty()) {
            kept = static_cast<std::int32_t>(m_calls.scopes.size());
            m_calls.scopes.push_back(scope);
        }
        return kept;
    }

    /// The process of each GPU: the one that launched most of what it ran.
    void findDevices()
    {
        std::map<std::int32_t, std::map<std::int32_t, std::int64_t>> launches;
        for (std::size_t i = 0; i < m_trace.records.size(); ++i) {
            const Sort sort = sortOf(i);
            if (sort != Sort::Kernel && sort != Sort::Exchange)
                continue;
            const auto caller = m_trace.details.partner(i);
            if (caller && sortOf(*caller) == Sort::Host)
                ++launches[m_trace.records[i].rank][m_trace.records[*caller].rank];
        }
        for (const auto &[device, from] : launches)
            m_processOf[device] =
                std::ranges::max_element(from, {}, [](const auto &entry) { return entry.second; })->first;
    }

    [[nodiscard]] std::int32_t processOf(std::int32_t rank) const
    {
        const auto found = m_processOf.find(rank);
        return found == m_processOf.end() ? rank : found->second;
    }

    /// Records of the host's threads, outer ranges before inner ones.
    std::map<std::pair<std::int32_t, std::string_view>, std::vector<std::size_t>> threads() const
    {
        std::map<std::pair<std::int32_t, std::string_view>, std::vector<std::size_t>> made;
        for (std::size_t i = 0; i < m_trace.records.size(); ++i) {
            if (sortOf(i) == Sort::Host)
                made[{m_trace.records[i].rank, threadOf(m_trace.lane(m_trace.records[i].lane).name)}].push_back(i);
        }
        for (auto &[thread, records] : made)
            std::ranges::sort(records, {}, [this](std::size_t i) {
                const Record &record = m_trace.records[i];
                return std::tuple(record.start, -record.duration, record.lane, i);
            });
        return made;
    }

    void readThread(std::int32_t rank, const std::vector<std::size_t> &records)
    {
        std::vector<Open> open;
        constexpr std::size_t kBetweenLooks = 1 << 14; // records
        for (std::size_t n = 0; n < records.size(); ++n) {
            if (n % kBetweenLooks == 0 && m_progress.stopped())
                return;
            const std::size_t i = records[n];
            const Record &record = m_trace.records[i];
            const std::string_view name = taskOf(i)->id;
            while (!open.empty() && open.back().end <= record.start && !isNodeOf(open.back(), name, record.start))
                open.pop_back();
            Open next = open.empty() ? Open() : open.back();
            next.start = record.start;
            next.end = record.start + record.duration;
            next.name = name;
            readRange(rank, i, next);
            open.push_back(next);
        }
    }

    /// "X" beneath "autograd::engine::evaluate_function: X", where times are too coarse to tell.
    static bool isNodeOf(const Open &outer, std::string_view name, std::int64_t start)
    {
        return start <= outer.end && outer.name.starts_with("autograd::engine::evaluate_function: ")
            && outer.name.ends_with(name) && outer.name.size() > name.size();
    }

    void readRange(std::int32_t rank, std::size_t i, Open &range)
    {
        const Record &record = m_trace.records[i];
        const Named &what = namedOf(record.task);
        Process &process = m_processes[rank];
        switch (what.role) {
        case Named::Role::Step: m_hasSteps = true; return;
        case Named::Role::Recomputes:
            range.inBackward = range.recomputes = true;
            range.call = -1;
            return;
        case Named::Role::Optimizer:
            if (!range.inOptimizer)
                addCall(process, i, Phase::Optimizer, 0, range);
            range.inOptimizer = true;
            return;
        case Named::Role::Backward:
            if (range.call < 0)
                addCall(process, i, Phase::Backward, what.kinds, range);
            range.inBackward = true;
            range.recomputes = false;
            return;
        case Named::Role::Operator:
        case Named::Role::View:
            if (range.call < 0)
                addCall(process, i,
                        range.recomputes       ? Phase::Recompute
                            : range.inBackward ? Phase::Backward
                                               : Phase::Forward,
                        what.kinds, range);
            return;
        case Named::Role::None: break;
        }
        if (const std::int32_t scope = scopeOf(record.task); scope >= 0)
            range.scope = scope;
        addKernels(process, i, range);
    }

    void addCall(Process &process, std::size_t i, Phase phase, KindSet kinds, Open &range)
    {
        const Record &record = m_trace.records[i];
        range.call = static_cast<std::int32_t>(process.calls.size());
        process.calls.push_back({taskOf(i)->id, kinds, phase, record.step, range.scope, i, record.start, record.start,
                                 record.start + record.duration, record.duration, 0});
        process.hasOperators = process.hasOperators || phase != Phase::Optimizer;
    }

    /// What the call of a runtime @p i started.
    void addKernels(Process &process, std::size_t i, const Open &range)
    {
        if (!m_trace.details.launches.isCaller(i))
            return;
        for (const std::uint32_t kernel : m_trace.details.launches.caused(i)) {
            const Sort sort = sortOf(kernel);
            if (sort == Sort::Exchange)
                m_launches[kernel] = i;
            if (sort != Sort::Kernel)
                continue;
            m_taken.insert(kernel);
            process.hasKernels = true;
            if (range.call < 0) {
                addKernel(process, kernel, m_trace.records[i], range);
                continue;
            }
            Call &call = process.calls[static_cast<std::size_t>(range.call)];
            const Record &ran = m_trace.records[kernel];
            const std::int64_t end = ran.start + ran.duration;
            call.begin = call.kernels == 0 ? ran.start : std::min(call.begin, ran.start);
            call.end = call.kernels == 0 ? end : std::max(call.end, end);
            call.busy = call.kernels == 0 ? ran.duration : call.busy + ran.duration;
            ++call.kernels;
        }
    }

    /// A kernel of no operator; @p launch: what called it, or itself.
    void addKernel(Process &process, std::size_t kernel, const Record &launch, const Open &range)
    {
        const Record &ran = m_trace.records[kernel];
        const NamedKernel what = namedKernel(taskOf(kernel)->id);
        Phase phase = what.backward ? Phase::Backward : what.forward ? Phase::Forward : Phase::Unknown;
        if (range.inBackward)
            phase = range.recomputes ? Phase::Recompute : Phase::Backward;
        if (range.inOptimizer || what.optimizer)
            phase = Phase::Optimizer;
        process.calls.push_back({taskOf(kernel)->id, what.kinds, phase, launch.step, range.scope, kernel, launch.start,
                                 ran.start, ran.start + ran.duration, ran.duration, 1});
    }

    void addLooseKernels()
    {
        for (std::size_t i = 0; i < m_trace.records.size(); ++i) {
            const Sort sort = sortOf(i);
            const Record &record = m_trace.records[i];
            Process &process = m_processes[processOf(record.rank)];
            if (sort == Sort::Exchange) {
                const auto launch = m_launches.find(i);
                const Record &issued = launch == m_launches.end() ? record : m_trace.records[launch->second];
                process.exchanges.push_back({taskOf(i)->id, taskOf(i)->kind, issued.step, issued.start, record.start,
                                             record.start + record.duration});
            }
            if (sort != Sort::Kernel || m_taken.contains(i))
                continue;
            process.hasKernels = true;
            addKernel(process, i, record, {});
        }
    }

    void finish()
    {
        for (auto &[rank, process] : m_processes) {
            if (process.calls.empty())
                continue;
            process.name = m_trace.ranks[static_cast<std::size_t>(rank)].device;
            std::ranges::stable_sort(process.calls, {}, &Call::issued);
            std::ranges::stable_sort(process.exchanges, {}, &Exchange::begin);
            for (Call &call : process.calls) {
                if (process.hasKernels && call.kernels == 0)
                    call.busy = 0; // of the host alone
            }
            if (!m_hasSteps)
                stepsByOptimizer(process);
            for (std::size_t k = 0; k < process.calls.size(); ++k)
                process.callsOfStep.all[process.calls[k].step].push_back(k);
            for (std::size_t k = 0; k < process.exchanges.size(); ++k)
                process.exchangesOfStep.all[process.exchanges[k].step].push_back(k);
            m_calls.processes.push_back(std::move(process));
        }
    }

    /// A step ends with the optimizer's.
    void stepsByOptimizer(Process &process)
    {
        std::vector<std::int64_t> ends;
        bool inOptimizer = false;
        for (const Call &call : process.calls) {
            if (call.phase == Phase::Optimizer && inOptimizer)
                ends.back() = call.issued;
            else if (call.phase == Phase::Optimizer)
                ends.push_back(call.issued);
            inOptimizer = call.phase == Phase::Optimizer;
        }
        const bool one = std::ranges::all_of(process.calls,
                                             [&](const Call &call) { return call.step == process.calls.front().step; });
        if (ends.size() < 2 || !one)
            return;
        m_calls.stepsByOptimizer = true;
        const auto stepAt = [&](std::int64_t time) {
            return static_cast<std::int32_t>(std::ranges::lower_bound(ends, time) - ends.begin());
        };
        for (Call &call : process.calls)
            call.step = stepAt(call.issued);
        for (Exchange &exchange : process.exchanges)
            exchange.step = stepAt(exchange.issued);
    }

    const Trace &m_trace;
    const std::function<std::string(std::string_view)> &m_scopeOf;
    const Progress &m_progress;
    std::vector<Sort> m_sorts; ///< by row of the table of kinds
    std::vector<std::optional<Named>> m_names;
    std::vector<std::int32_t> m_scopes; ///< by row of the table of tasks
    std::map<std::int32_t, std::int32_t> m_processOf;
    std::map<std::int32_t, Process> m_processes;             ///< by rank
    std::set<std::size_t> m_taken;                           ///< kernels of operators
    std::unordered_map<std::size_t, std::size_t> m_launches; ///< records that launched exchanges
    bool m_hasSteps = false;
    Calls m_calls;
};

} // namespace

Calls callsOf(const Trace &trace, const std::function<std::string(std::string_view)> &scopeOf, const Progress &progress)
{
    return CallReader(trace, scopeOf, progress).read();
}

} // namespace planloom::overlay
