// SPDX-License-Identifier: Apache-2.0
#include "planners/joint/cuts.h"

#include <algorithm>

namespace planloom::planners::joint {
namespace {

/// The best suffix that begins at a chunk of layers and a device.
struct Suffix {
    double ends = kNever; ///< from its first forward to its last backward
    double over = 0;      ///< what all-reduces and updates take beyond that
    double trip = 0;      ///< a micro-batch's way through it and back
    std::size_t chunk = 0, place = 0; ///< where the stage behind its first one begins
    bool recompute = false;
    [[nodiscard]] double seconds() const { return ends + over; }
};

class Programme {
public:
    Programme(Scorer &scorer, const StageTable &table, const Shape &shape, double limit)
        : m_scorer(scorer), m_table(table), m_shape(shape), m_limit(limit), m_chunks(table.chunks()), m_places(table.places()),
          m_unit(scorer.lines()[shape.line].unit), m_count(static_cast<double>(shape.microBatches))
    {
    }

    std::vector<Sketch> run(std::size_t most, const Progress &progress)
    {
        std::vector<Sketch> sketches;
        m_suffixes.emplace_back();
        for (std::size_t stages = 1; stages <= std::min({most, m_chunks, m_places}); ++stages) {
            m_suffixes.emplace_back((m_chunks + 1) * (m_places + 1));
            m_inFlight = static_cast<double>(Scorer::inFlight(m_shape, stages));
            for (std::size_t chunk = 0; chunk + stages <= m_chunks; ++chunk)
                for (std::size_t place = 0; place + stages <= m_places; ++place) {
                    if (progress.stopped())
                        return sketches;
                    if ((chunk == 0) == (place == 0))
                        at(stages, chunk, place) = best(stages, chunk, place);
                }
            if (at(stages, 0, 0).seconds() < m_limit)
                sketches.push_back(sketchOf(stages));
        }
        return sketches;
    }

private:
    Suffix &at(std::size_t stages, std::size_t chunk, std::size_t place) { return m_suffixes[stages][chunk * (m_places + 1) + place]; }

    Suffix best(std::size_t stages, std::size_t chunk, std::size_t place)
    {
        Suffix best;
        const bool isLast = stages == 1;
        for (std::size_t end = place + 1; end + (stages - 1) <= m_places; ++end) {
            for (std::size_t last = isLast ? m_chunks : chunk + 1; last + (stages - 1) <= m_chunks; ++last) {
                const StageTable::Entry &entry = m_table.at(chunk, last, place, end);
                if (!entry.possible || entry.times.work >= best.seconds())
                    continue;
                const Suffix *behind = isLast ? nullptr : &at(stages - 1, last, end);
                if (behind != nullptr && behind->ends >= best.seconds())
                    continue;
                const Suffix found = with(entry, place, last, end, behind);
                if (found.seconds() < best.seconds() || (found.seconds() == best.seconds() && found.ends < best.ends))
                    best = found;
            }
        }
        return best.seconds() < m_limit ? best : Suffix{};
    }

    Suffix with(const StageTable::Entry &entry, std::size_t place, std::size_t last, std::size_t end, const Suffix *behind)
    {
        const auto fits = [this](const Scorer::Memory &memory) { return memory.fixed + m_inFlight * memory.perMicroBatch <= 1; };
        Suffix made;
        made.recompute = !fits(entry.memory);
        if (made.recompute && !fits(entry.recomputedMemory))
            return {};
        const StageTimes &times = entry.times;
        made.chunk = last;
        made.place = end;
        made.trip = times.forward + times.backward;
        made.over = times.allReduce + times.optimizer;
        made.ends = made.recompute ? entry.recomputedWork : times.work;
        if (behind == nullptr)
            return made;
        const std::size_t cut = m_table.layerAt(last);
        const double link = m_scorer.transfer(m_shape, {0, cut, place * m_unit, end * m_unit, false}, {cut, m_table.layerAt(behind->chunk), end * m_unit, behind->place * m_unit, false});
        made.trip += 2 * link + behind->trip;
        made.over = std::max(made.over, behind->over - times.backward - link);
        const double serial = times.forward + times.backward + 2 * link + behind->ends;
        const double line = times.forward + times.backward + m_count * link * (m_scorer.halfDuplex() ? 2 : 1);
        const double window = m_shape.schedule == plan::ScheduleKind::GPipe ? 0 : made.trip * m_count / m_inFlight;
        made.ends = std::max({made.ends, serial, line, window});
        return made;
    }

    Sketch sketchOf(std::size_t stages)
    {
        Sketch sketch{m_shape, {}};
        std::size_t chunk = 0;
        std::size_t place = 0;
        for (; stages > 0; --stages) {
            const Suffix &suffix = at(stages, chunk, place);
            sketch.parts.push_back({m_table.layerAt(chunk), m_table.layerAt(suffix.chunk), place * m_unit, suffix.place * m_unit, suffix.recompute});
            chunk = suffix.chunk;
            place = suffix.place;
        }
        return sketch;
    }

    Scorer &m_scorer;
    const StageTable &m_table;
    Shape m_shape;
    double m_limit;
    std::size_t m_chunks;
    std::size_t m_places;
    std::size_t m_unit;
    double m_count;          ///< of micro-batches
    double m_inFlight = 1;   ///< of them on the stage that is being chosen
    std::vector<std::vector<Suffix>> m_suffixes; ///< per count of stages: by chunk and place
};

} // namespace

std::vector<Sketch> bestCuts(Scorer &scorer, const StageTable &table, const Shape &shape, std::size_t mostStages, double limit, const Progress &progress)
{
    return Programme(scorer, table, shape, limit).run(mostStages, progress);
}

double leastSeconds(const StageTable &table, bool anyOrder, double reduced, const Progress &progress)
{
    const std::size_t chunks = table.chunks();
    const std::size_t places = table.places();
    // Least bounds of suffixes, for passes and for all-reduces apart: each is below what any plan has of it.
    const auto index = [places](std::size_t chunk, std::size_t place) { return chunk * (places + 1) + place; };
    std::vector<double> passes((chunks + 1) * (places + 1), kNever);
    std::vector<double> reduces = passes;
    for (std::size_t place = 0; place <= places; ++place) // devices at the end of the line may be left out
        passes[index(chunks, place)] = reduces[index(chunks, place)] = 0;
    for (std::size_t chunk = chunks; chunk-- > 0;) {
        for (std::size_t place = 0; place < places && !progress.stopped(); ++place) {
            double &pass = passes[index(chunk, place)];
            double &reduce = reduces[index(chunk, place)];
            for (std::size_t end = place + 1; end <= places; ++end) {
                for (std::size_t last = chunk + 1; last <= chunks; ++last) {
                    const StageTable::Entry &entry = table.at(chunk, last, place, end);
                    if (!entry.possible)
                        continue;
                    const StageTimes &times = entry.times;
                    pass = std::min(pass, std::max(times.leastWork, (anyOrder ? 0 : times.leastForward + times.leastBackward) + passes[index(last, end)]));
                    const double exposed = times.leastWork - times.leastBackward + reduced * times.leastReduce;
                    reduce = std::min(reduce, std::max(exposed, (anyOrder ? 0 : times.leastForward) + reduces[index(last, end)]));
                }
            }
        }
    }
    return std::max(passes[0], reduces[0]);
}

} // namespace planloom::planners::joint
