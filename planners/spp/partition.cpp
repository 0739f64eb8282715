// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/partition.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace planloom::planners::spp {
namespace {

/// W(l, r, i) of one number of stages: the first l layers on the first i windows, the last stage on the last r of them.
/// With the choice that led there: where the stage before ended, and how many windows it had.
class Table {
public:
    struct Entry {
        double load = kInfinite;
        std::uint32_t layers = 0;
        std::uint32_t windows = 0;
    };

    Table(std::size_t layers, std::size_t windows)
        : m_windows(windows),
          m_entries((layers + 1) * (windows + 1) * (windows + 1))
    {
    }

    Entry &at(std::size_t layers, std::size_t replicas, std::size_t used)
    {
        return m_entries[(layers * (m_windows + 1) + replicas) * (m_windows + 1) + used];
    }

private:
    std::size_t m_windows;
    std::vector<Entry> m_entries;
};

class Search {
public:
    Search(const Instance &instance, std::size_t granule, Progress &progress)
        : m_instance(instance),
          m_granule(granule),
          m_windows(instance.devices / granule),
          m_progress(progress)
    {
    }

    /// False: stopped, the table of this number of stages is not complete.
    bool next()
    {
        m_tables.emplace_back(m_instance.layers, m_windows);
        const std::size_t stages = m_tables.size();
        for (std::size_t used = stages; used <= m_windows; ++used) {
            if (m_progress.stopped())
                return false;
            for (std::size_t replicas = 1; replicas + stages - 1 <= used; ++replicas) {
                for (std::size_t layers = stages; layers <= m_instance.layers; ++layers)
                    fill(stages, layers, replicas, used);
            }
        }
        return true;
    }

    Partition best()
    {
        const std::size_t stages = m_tables.size();
        Partition found;
        found.load = kInfinite;
        std::size_t replicas = 0;
        for (std::size_t r = 1; r <= m_windows; ++r) {
            const double load = m_tables.back().at(m_instance.layers, r, m_windows).load;
            if (load < found.load) {
                found.load = load;
                replicas = r;
            }
        }
        if (replicas == 0)
            return found;
        std::size_t layers = m_instance.layers;
        std::size_t used = m_windows;
        for (std::size_t stage = stages; stage > 0; --stage) {
            const Table::Entry entry = m_tables[stage - 1].at(layers, replicas, used);
            found.parts.push_back(part(entry.layers, layers, used - replicas, used));
            layers = entry.layers;
            used -= replicas;
            replicas = entry.windows;
        }
        std::reverse(found.parts.begin(), found.parts.end());
        return found;
    }

private:
    [[nodiscard]] Part part(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const
    {
        return {first, last, begin * m_granule, end * m_granule};
    }

    void fill(std::size_t stages, std::size_t layers, std::size_t replicas, std::size_t used)
    {
        Table::Entry &entry = m_tables.back().at(layers, replicas, used);
        if (stages == 1) {
            if (replicas == used)
                entry.load = stageLoad(m_instance, part(0, layers, 0, used));
            return;
        }
        Table &before = m_tables[stages - 2];
        for (std::size_t cut = layers - 1; cut + 1 >= stages; --cut) {
            const Part stage = part(cut, layers, used - replicas, used);
            const double own = stageLoad(m_instance, stage);
            if (own >= entry.load)
                break; // more layers only take longer
            for (std::size_t r = 1; r + replicas + stages - 2 <= used; ++r) {
                const double prefix = before.at(cut, r, used - replicas).load;
                if (prefix >= entry.load)
                    continue;
                const double way = channelLoad(m_instance, part(0, cut, used - replicas - r, used - replicas), stage);
                const double load = std::max({prefix, way, own});
                if (load < entry.load)
                    entry = {load, static_cast<std::uint32_t>(cut), static_cast<std::uint32_t>(r)};
            }
        }
    }

    const Instance &m_instance;
    std::size_t m_granule;
    std::size_t m_windows;
    Progress &m_progress;
    std::vector<Table> m_tables; ///< by number of stages - 1
};

} // namespace

double stageLoad(const Instance &instance, const Part &part)
{
    return instance.microBatches * instance.passes(part.first, part.last, part.begin, part.end).sum()
        + instance.reduce(part.first, part.last, part.begin, part.end);
}

double channelLoad(const Instance &instance, const Part &from, const Part &to)
{
    const Line line = instance.channel(from.begin, from.end, to.end);
    return instance.microBatches
        * (line.seconds(instance.forwardBytes[from.last - 1]) + line.seconds(instance.backwardBytes[from.last - 1]));
}

std::vector<Partition> partitions(const Instance &instance, std::size_t stages, std::size_t granule, Progress &progress)
{
    Search search(instance, granule, progress);
    std::vector<Partition> found;
    const std::size_t most = std::min({stages, instance.layers, instance.devices / granule});
    while (found.size() < most && search.next())
        found.push_back(search.best());
    return found;
}

} // namespace planloom::planners::spp
