// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/part_updates.h"

#include "engine/memory/copy_load.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <utility>

namespace planloom::compile {
namespace {

/// Which part had a range of the pool last.
class PlacesOfParts {
public:
    /// Gives the place of @p part to part number @p number; returns the parts that had a piece of it. What these have
    /// left is forgotten: who comes there comes behind this part, which waits for them.
    std::vector<std::size_t> take(const PartUpdate &part, std::size_t number)
    {
        std::vector<std::size_t> met;
        const std::int64_t end = part.place + part.bytes;
        auto first = m_parts.upper_bound(part.place);
        if (first != m_parts.begin() && std::prev(first)->second.end > part.place)
            --first;
        auto last = first;
        for (; last != m_parts.end() && last->first < end; ++last)
            met.push_back(last->second.part);
        m_parts.erase(first, last);
        m_parts[part.place] = {end, number};
        return met;
    }

private:
    struct Range {
        std::int64_t end = 0;
        std::size_t part = 0;
    };
    std::map<std::int64_t, Range> m_parts; ///< by beginning
};

/// One run per object.
class PartUpdates {
public:
    PartUpdates(const std::vector<PartUpdate> &parts, double load)
        : m_parts(parts),
          m_courses(parts.size()),
          m_here(parts.size(), 0),
          m_free(parts.size(), 0),
          m_load(load)
    {
    }

    std::vector<PartCourse> run()
    {
        for (std::size_t p = 0; p < m_parts.size(); ++p) {
            fetch(p);
            const PartUpdate &part = m_parts[p];
            const double start = std::max(m_now, m_here[p]);
            countBefore(start);
            m_load.wait(start - m_now);
            countBefore(start + part.update);
            m_courses[p].delay = m_load.take(part.update);
            m_now = m_free[p] = start + part.update + m_courses[p].delay;
            if (part.out < 0)
                continue;
            const double begin = std::max(m_now, m_outFree);
            m_outFree = m_free[p] = begin + part.out;
            m_copies.push({begin, part.out});
        }
        return std::move(m_courses);
    }

private:
    /// Parts come up to the first whose place waits for a part from @p done on.
    void fetch(std::size_t done)
    {
        for (; m_next < m_parts.size(); ++m_next) {
            if (m_placed == m_next)
                await(m_placed++);
            double begin = m_inFree;
            for (const std::size_t before : m_courses[m_next].awaits) {
                if (before >= done)
                    return;
                begin = std::max(begin, m_free[before]);
            }
            m_copies.push({begin, m_parts[m_next].in});
            m_inFree = m_here[m_next] = begin + m_parts[m_next].in;
        }
    }

    void await(std::size_t p)
    {
        std::vector<std::size_t> &awaits = m_courses[p].awaits;
        std::vector<std::size_t> met = m_places.take(m_parts[p], p);
        if (met.empty())
            return;
        awaits.push_back(*std::max_element(met.begin(), met.end()));
        std::erase_if(met, [this](std::size_t before) { return m_parts[before].out < 0; });
        if (const auto leaves = std::max_element(met.begin(), met.end());
            leaves != met.end() && *leaves != awaits.front())
            awaits.push_back(*leaves);
    }

    /// Copies that begin before @p seconds take from what runs now.
    void countBefore(double seconds)
    {
        for (; !m_copies.empty() && m_copies.top().first < seconds; m_copies.pop())
            m_load.owe(m_copies.top().second);
    }

    const std::vector<PartUpdate> &m_parts;
    std::vector<PartCourse> m_courses;
    std::vector<double> m_here, m_free; ///< seconds: when a part has come, and when its place is free again
    memory::CopyLoad m_load;
    PlacesOfParts m_places;
    using BeginAndSeconds = std::pair<double, double>;
    /// That have not been counted yet.
    std::priority_queue<BeginAndSeconds, std::vector<BeginAndSeconds>, std::greater<>> m_copies;
    std::size_t m_next = 0;   ///< part that comes
    std::size_t m_placed = 0; ///< parts whose `awaits` are known
    double m_now = 0, m_inFree = 0, m_outFree = 0;
};

} // namespace

std::vector<PartCourse> updateParts(const std::vector<PartUpdate> &parts, double load)
{
    return PartUpdates(parts, load).run();
}

} // namespace planloom::compile
