// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace planloom::dispatch {

Versions::Versions(int workers, int barrier, int delay)
    : m_workers(workers),
      m_barrier(barrier),
      m_delay(delay),
      m_rule(workers, barrier, delay),
      m_waits(static_cast<std::size_t>(workers), false)
{
}

Status Versions::arrive(int worker)
{
    if (worker < 0 || worker >= m_workers)
        return badInput(fmt::format("worker {} arrived, and there are {} workers", worker, m_workers));
    if (m_waits[static_cast<std::size_t>(worker)])
        return badInput(fmt::format("worker {} arrived twice; it has to wait for its answer", worker));
    m_waits[static_cast<std::size_t>(worker)] = true;
    if (m_recorded.empty())
        return m_rule.arrive(worker);
    return {};
}

Result<std::vector<int>> Versions::next()
{
    if (!m_recorded.empty()) {
        const std::vector<int> &wanted = m_recorded.front();
        const auto waits = [this](int worker) { return m_waits[static_cast<std::size_t>(worker)]; };
        if (!std::all_of(wanted.begin(), wanted.end(), waits))
            return std::vector<int>();
        for (const int worker : wanted)
            if (const Status arrived = m_rule.arrive(worker); !arrived)
                return arrived.error();
        if (!m_rule.mayAdvance())
            return badInput(
                fmt::format("the recorded arrivals make a version of workers {}, which a barrier of {} and a "
                            "delay of {} do not allow; use those of the recorded run",
                            fmt::join(wanted, " "), m_barrier, m_delay));
        m_recorded.pop_front();
    } else if (!m_rule.mayAdvance()) {
        return std::vector<int>();
    }
    std::vector<int> answered = m_rule.advance();
    for (const int worker : answered)
        m_waits[static_cast<std::size_t>(worker)] = false;
    if (m_recorded.empty()) // what waited for its turn goes in from now on
        for (int worker = 0; worker < m_workers; ++worker)
            if (m_waits[static_cast<std::size_t>(worker)] && !m_rule.hasArrived(worker))
                if (const Status arrived = m_rule.arrive(worker); !arrived)
                    return arrived.error();
    return answered;
}

void Versions::beginAnew()
{
    m_rule = admm::PartialBarrier(m_workers, m_barrier, m_delay);
    m_waits.assign(m_waits.size(), false);
}

std::vector<int> Versions::waitedFor() const
{
    std::vector<int> missing;
    const std::vector<int> needed = m_recorded.empty() ? m_rule.waitedFor() : m_recorded.front();
    for (const int worker : needed)
        if (!m_waits[static_cast<std::size_t>(worker)])
            missing.push_back(worker);
    return missing;
}

namespace {
constexpr std::string_view kHeading = "version,workers";
constexpr std::string_view kPause = ",pause";
} // namespace

std::string toCsv(const Arrivals &arrivals, std::int64_t first, bool heading, const Pauses &pauses)
{
    std::string text = heading ? std::string(kHeading) + "\n" : std::string();
    for (const std::vector<int> &workers : arrivals) {
        const bool pause = std::binary_search(pauses.begin(), pauses.end(), first);
        text += fmt::format("{},{}{}\n", first++, fmt::join(workers, " "), pause ? kPause : "");
    }
    return text;
}

Result<Arrivals> arrivalsFromCsv(std::string_view text, std::int64_t first, int workers, Pauses *pauses)
{
    Arrivals arrivals;
    std::int64_t line = 0;
    std::int64_t before = -1;
    while (!text.empty()) {
        const auto end = text.find('\n');
        if (end == std::string_view::npos) // cut short while it was written
            break;
        std::string_view row = text.substr(0, end);
        text.remove_prefix(end + 1);
        const auto wrong = [&](const char *what) {
            return badInput(fmt::format("line {}: {}; give the arrivals.csv of a run of this plan", line, what));
        };
        if (++line == 1) {
            if (row != kHeading)
                return wrong("\"version,workers\" is expected");
            continue;
        }
        const bool pause = row.ends_with(kPause);
        if (pause)
            row.remove_suffix(kPause.size());
        const char *at = row.data();
        const char *const last = at + row.size();
        const auto number = [&](auto &value) {
            const auto read = std::from_chars(at, last, value);
            const bool good = read.ec == std::errc();
            at = read.ptr;
            return good;
        };
        std::int64_t version = 0;
        if (!number(version) || version <= before || (before >= 0 && version != before + 1))
            return wrong("the next version is expected");
        before = version;
        std::vector<int> made;
        while (at < last) {
            ++at; // the comma or a space
            int worker = 0;
            if (!number(worker) || worker < 0 || worker >= workers || (!made.empty() && worker <= made.back()))
                return wrong("workers of the plan are expected, ascending");
            made.push_back(worker);
        }
        if (made.empty())
            return wrong("a version of no worker");
        if (version < first)
            continue;
        arrivals.push_back(std::move(made));
        if (pause && pauses != nullptr)
            pauses->push_back(version);
    }
    return arrivals;
}

} // namespace planloom::dispatch
