// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/critical_path.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace planloom::simulate {
namespace {

using Piece = CriticalPath::Piece;
using Reason = CriticalPath::Reason;

constexpr std::int64_t kUnset = std::numeric_limits<std::int64_t>::max();

/// A record, moved by whole periods.
struct Place {
    std::size_t record = 0;
    std::int64_t shift = 0; ///< nanoseconds, 0 or less
};

/// Goes back from the end of a stretch of steps, from each task to what it waited for last.
class PathWalk {
public:
    PathWalk(const trace::Tables &tables, const Causes &causes, std::span<const trace::Record> records,
             const PathOfSteps &steps)
        : m_tables(tables),
          m_causes(causes),
          m_records(records),
          m_steps(steps),
          m_seen(records.size(), kUnset)
    {
        for (std::size_t r = 0; r < records.size(); ++r) {
            std::vector<std::int32_t> &ofTask = m_ofStep[records[r].step];
            ofTask.resize(causes.tasks(), -1);
            ofTask[static_cast<std::size_t>(records[r].task)] = static_cast<std::int32_t>(r);
        }
    }

    Result<CriticalPath> path()
    {
        const std::optional<std::size_t> last = findWindow();
        if (!last)
            return notFound("no task of step " + std::to_string(m_steps.first)
                            + " is in the trace; choose a step that it has");
        walk(*last);
        std::reverse(m_path.pieces.begin(), m_path.pieces.end());
        return std::move(m_path);
    }

private:
    struct Candidate {
        Place place;
        std::int64_t end = std::numeric_limits<std::int64_t>::min();
        Reason reason = Reason::Beginning;
        bool found = false;
    };

    [[nodiscard]] bool isInside(std::int32_t step) const
    {
        return step >= m_steps.first && step < m_steps.first + m_steps.count;
    }
    [[nodiscard]] std::int64_t startOf(const Place &at) const { return m_records[at.record].start + at.shift; }
    [[nodiscard]] std::int64_t endOf(const Place &at) const
    {
        return m_records[at.record].start + m_records[at.record].duration + at.shift;
    }
    [[nodiscard]] bool isSameLane(std::size_t a, std::size_t b) const
    {
        return m_records[a].rank == m_records[b].rank && m_records[a].lane == m_records[b].lane;
    }

    /// The record that the walk begins with: that which ends last, or, if that is earlier, which starts the next steps
    /// (m_next).
    std::optional<std::size_t> findWindow()
    {
        std::optional<std::size_t> last;
        std::optional<std::size_t> next;
        m_path.window.begin = kUnset;
        for (std::size_t r = 0; r < m_records.size(); ++r) {
            const trace::Record &record = m_records[r];
            if (isInside(record.step)) {
                m_path.window.begin = std::min(m_path.window.begin, record.start);
                if (!last || endOf({r}) > endOf({*last}))
                    last = r;
            } else if (record.step >= m_steps.first + m_steps.count
                       && (!next || record.start < m_records[*next].start)) {
                next = r;
            }
        }
        if (!last)
            return std::nullopt;
        m_next = next && (m_steps.repeats || (m_steps.overlap && m_records[*next].start < endOf({*last})));
        m_path.window.end = m_next ? m_records[*next].start : endOf({*last});
        m_period = m_steps.repeats && m_next ? m_path.window.end - m_path.window.begin : 0;
        return m_next ? next : last;
    }

    void walk(std::size_t last)
    {
        const std::int64_t begin = m_path.window.begin;
        std::int64_t time = m_path.window.end; // what lies before it is to be explained
        Place at{last};
        if (m_next) { // itself it is not of these steps
            look(at);
            if (!m_best.found) {
                m_path.waitAtEnd = time - begin;
                return;
            }
            at = m_best.place;
        }
        m_path.waitAtEnd = waitUntil(at, time);
        while (true) {
            m_seen[at.record] = at.shift;
            Piece piece;
            piece.record = at.record;
            piece.earlier = at.shift < 0;
            piece.end = time;
            time = piece.begin = std::clamp(look(at), begin, time);
            if (time > begin && m_best.found) {
                at = m_best.place;
                piece.reason = m_best.reason;
                piece.wait = waitUntil(at, time);
            } else {
                piece.wait = std::exchange(time, begin) - begin;
            }
            m_path.pieces.push_back(piece);
            if (time == begin)
                return;
        }
    }

    /// From the end of @p at to @p time, which becomes that end.
    [[nodiscard]] std::int64_t waitUntil(const Place &at, std::int64_t &time) const
    {
        const std::int64_t end = std::clamp(endOf(at), m_path.window.begin, time);
        return std::exchange(time, end) - end;
    }

    /// When the unit of @p at could start, which is when its last member did; m_best is what that waited for.
    std::int64_t look(const Place &at)
    {
        m_best = {};
        const trace::Record &own = m_records[at.record];
        const auto members = m_causes.members(m_tables.tasks[static_cast<std::size_t>(own.task)].group);
        if (members.size() < 2) {
            lookAt(at, startOf(at));
            return startOf(at);
        }
        std::int64_t start = startOf(at);
        for (const std::int32_t member : members)
            if (const auto place = find(member, own.step, at.shift))
                start = std::max(start, startOf(*place));
        for (const std::int32_t member : members)
            if (const auto place = find(member, own.step, at.shift); place && startOf(*place) == start)
                lookAt(*place, std::min(start, endOf(at)));
        return start;
    }

    /// Candidates of one task, which starts at @p start.
    void lookAt(const Place &at, std::int64_t start)
    {
        const trace::Record &own = m_records[at.record];
        m_causes.each(own.task, [&](std::int32_t cause, std::int32_t stepsBack) {
            if (const auto place = find(cause, own.step - stepsBack, at.shift))
                offer(*place, start, Reason::Dependency);
        });
        if (at.record > 0 && isSameLane(at.record - 1, at.record))
            offer({at.record - 1, at.shift}, start, Reason::Lane);
        if (m_period > 0 && m_best.end < start)
            lookAtPeriodBefore(at, start);
        if (m_causes.spansSteps() && m_best.end < start)
            lookAtStepBefore(at, start);
    }

    void offer(const Place &place, std::int64_t start, Reason reason)
    {
        const std::int64_t end = std::min(endOf(place), start);
        const bool better = !m_best.found || end > m_best.end || (end == m_best.end && reason < m_best.reason);
        if (better && m_seen[place.record] != place.shift)
            m_best = {place, end, reason, true};
    }

    /// The record of @p task in @p step; where the steps repeat and that is before them, the one some periods later.
    [[nodiscard]] std::optional<Place> find(std::int32_t task, std::int32_t step, std::int64_t shift) const
    {
        while (m_period > 0 && step < m_steps.first) {
            step += m_steps.count;
            shift -= m_period;
        }
        const auto ofTask = m_ofStep.find(step);
        if (ofTask == m_ofStep.end() || ofTask->second[static_cast<std::size_t>(task)] < 0)
            return std::nullopt;
        return Place{static_cast<std::size_t>(ofTask->second[static_cast<std::size_t>(task)]), shift};
    }

    /// The task before it on its lane may be one that the period before left open: it is what this one leaves open.
    void lookAtPeriodBefore(const Place &at, std::int64_t start)
    {
        std::optional<std::size_t> before;
        for (std::size_t r = at.record + 1; r < m_records.size() && isSameLane(r, at.record)
             && m_records[r].start < m_records[at.record].start + m_period;
             ++r)
            before = isInside(m_records[r].step) ? r : before;
        if (before)
            offer({*before, at.shift - m_period}, start, Reason::Lane);
    }

    /// A rank enters a step when all that does not stay open of the one before has ended.
    void lookAtStepBefore(const Place &at, std::int64_t start)
    {
        const trace::Record &own = m_records[at.record];
        std::int32_t step = own.step - 1;
        std::int64_t shift = at.shift;
        while (m_period > 0 && step < m_steps.first) {
            step += m_steps.count;
            shift -= m_period;
        }
        for (const std::size_t record : ofStep(own.rank, step))
            if (endOf({record, shift}) <= start)
                offer({record, shift}, start, Reason::Step);
    }

    const std::vector<std::size_t> &ofStep(std::int32_t rank, std::int32_t step)
    {
        if (m_ofRank.empty())
            for (std::size_t r = 0; r < m_records.size(); ++r)
                m_ofRank[{m_records[r].rank, m_records[r].step}].push_back(r);
        return m_ofRank[{rank, step}];
    }

    const trace::Tables &m_tables;
    const Causes &m_causes;
    std::span<const trace::Record> m_records;
    PathOfSteps m_steps;
    std::vector<std::int64_t> m_seen; ///< per record: the shift with which it was on the path last
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> m_ofStep;               ///< records by task; -1: none
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> m_ofRank; ///< records by rank and step
    CriticalPath m_path;
    Candidate m_best;
    bool m_next = false; ///< the stretch ends where the next steps start
    std::int64_t m_period = 0;
};

} // namespace

std::vector<CriticalPath::Sum> CriticalPath::sums(const trace::Tables &tables,
                                                  std::span<const trace::Record> records) const
{
    std::map<trace::Kind, Sum> byKind;
    for (const Piece &piece : pieces) {
        const trace::TaskInfo *task = tables.task(records[piece.record].task);
        const trace::Kind kind = task != nullptr ? task->kind : trace::Kind::Other;
        Sum &sum = byKind[kind];
        sum.kind = kind;
        sum.nanoseconds += piece.end - piece.begin;
        ++sum.count;
    }
    std::vector<Sum> sums;
    for (const auto &entry : byKind)
        sums.push_back(entry.second);
    std::ranges::stable_sort(sums, std::ranges::greater(), &Sum::nanoseconds);
    return sums;
}

std::int64_t CriticalPath::waits() const
{
    std::int64_t waits = waitAtEnd;
    for (const Piece &piece : pieces)
        waits += piece.wait;
    return waits;
}

Result<CriticalPath> criticalPath(const trace::Tables &tables, const Causes &causes,
                                  std::span<const trace::Record> records, const PathOfSteps &steps)
{
    if (causes.empty())
        return notFound("the trace does not say what its tasks waited for; open the plan that made it");
    return PathWalk(tables, causes, records, steps).path();
}

} // namespace planloom::simulate
