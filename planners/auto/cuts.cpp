// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/cuts.h"

#include <algorithm>

namespace planloom::planners::automatic {
namespace {

/// The best suffix that begins at a chunk of layers and a device.
struct Suffix {
    double ends = kNever;             ///< from its first forward to its last backward
    double over = 0;                  ///< time of all-reduces and updates beyond that
    double trip = 0;                  ///< a micro-batch's way through it and back
    std::size_t chunk = 0, place = 0; ///< where the stage behind its first one begins
    bool recompute = false;
    [[nodiscard]] double seconds() const { return ends + over; }
};

class Programme {
public:
    Programme(Scorer &scorer, const StageTable &table, const Shape &shape, double limit, Fit fit)
        : m_scorer(scorer),
          m_table(table),
          m_shape(shape),
          m_limit(limit),
          m_fit(fit),
          m_chunks(table.chunks()),
          m_places(table.places()),
          m_unit(scorer.lines()[shape.line].unit),
          m_count(static_cast<double>(shape.microBatches))
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

    [[nodiscard]] bool memoryBinds() const { return m_memoryBinds; }

private:
    Suffix &at(std::size_t stages, std::size_t chunk, std::size_t place)
    {
        return m_suffixes[stages][chunk * (m_places + 1) + place];
    }

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

    Suffix with(const StageTable::Entry &entry, std::size_t place, std::size_t last, std::size_t end,
                const Suffix *behind)
    {
        const auto fits = [this](const Scorer::Memory &memory) {
            return memory.fixed + m_fit.kept * m_inFlight * memory.perMicroBatch <= m_fit.room;
        };
        Suffix made;
        made.recompute = !fits(entry.memory);
        m_memoryBinds = m_memoryBinds || made.recompute;
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
        const double link =
            m_scorer.transfer(m_shape, {0, cut, place * m_unit, end * m_unit},
                              {cut, m_table.layerAt(behind->chunk), end * m_unit, behind->place * m_unit});
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
            sketch.parts.push_back({m_table.layerAt(chunk), m_table.layerAt(suffix.chunk), place * m_unit,
                                    suffix.place * m_unit,
                                    suffix.recompute ? m_scorer.costs().recomputed() : plan::Recompute::None});
            chunk = suffix.chunk;
            place = suffix.place;
        }
        return sketch;
    }

    Scorer &m_scorer;
    const StageTable &m_table;
    Shape m_shape;
    double m_limit;
    Fit m_fit;
    std::size_t m_chunks;
    std::size_t m_places;
    std::size_t m_unit;
    double m_count;        ///< of micro-batches
    double m_inFlight = 1; ///< of them on the stage that is being chosen
    bool m_memoryBinds = false;
    std::vector<std::vector<Suffix>> m_suffixes; ///< per count of stages: by chunk and place
};

/// Cuts of a byte a sample whose devices before them are the units [place, end), and behind them some that begin at
/// `end`: by [place][end].
std::vector<CutTimes> leastCuts(Scorer &scorer, const Shape &shape, std::size_t places)
{
    std::vector<CutTimes> all(places * (places + 1));
    for (std::size_t place = 0; place < places; ++place) {
        for (std::size_t end = place + 1; end < places; ++end) {
            CutTimes least{kNever, kNever, kNever};
            for (std::size_t behind = end + 1; behind <= places; ++behind) {
                const CutTimes cut = scorer.leastTransfer(shape, 1, place, end, behind);
                least = {std::min(least.there, cut.there), std::min(least.back, cut.back),
                         std::min(least.lane, cut.lane)};
            }
            all[place * (places + 1) + end] = least;
        }
    }
    return all;
}

/// At ZeRO level 3, from the stage's first forward pass on. Parameters may be gathered before that, unless the stage is
/// the first one.
double sharded(const StageTimes &times, double count, bool isFirst)
{
    return std::max(times.leastSharded(count), isFirst ? count * (times.leastGather + times.leastScatter) : 0);
}

/// At the best of the levels up to @p mostZero at which every replica has all parameters.
double exchanged(const StageTimes &times, int mostZero)
{
    double least = times.leastExchanged(0);
    for (int zero = 1; zero <= std::min(mostZero, 2); ++zero)
        least = std::min(least, times.leastExchanged(zero));
    return least;
}

/// Least seconds of the work of all devices on the cores that they have, by their number: a dynamic programme over the
/// chunks and units that are used, from the first on. Cost: O(chunks^2 * units^2).
double leastShared(const Scorer &scorer, const StageTable &table, std::size_t unit)
{
    const std::size_t places = table.places();
    const auto index = [places](std::size_t chunk, std::size_t place) { return chunk * (places + 1) + place; };
    std::vector<double> work((table.chunks() + 1) * (places + 1), kNever); // of layers and devices before
    work[0] = 0;
    for (std::size_t chunk = 0; chunk < table.chunks(); ++chunk)
        for (std::size_t place = 0; place < places; ++place)
            for (std::size_t next = chunk + 1; next <= table.chunks() && work[index(chunk, place)] < kNever; ++next)
                for (std::size_t end = place + 1; end <= places; ++end)
                    if (const StageTable::Entry &entry = table.at(chunk, next, place, end); entry.possible)
                        work[index(next, end)] =
                            std::min(work[index(next, end)],
                                     work[index(chunk, place)]
                                         + entry.times.leastEach * static_cast<double>((end - place) * unit));
    double least = kNever;
    for (std::size_t place = 1; place <= places; ++place)
        least = std::min(least,
                         work[index(table.chunks(), place)]
                             / std::min(static_cast<double>(place * unit), scorer.cores().all()));
    return least < kNever ? least : 0;
}

} // namespace

Cuts bestCuts(Scorer &scorer, const StageTable &table, const Shape &shape, std::size_t mostStages, double limit,
              const Progress &progress, Fit fit)
{
    Programme programme(scorer, table, shape, limit, fit);
    std::vector<Sketch> sketches = programme.run(mostStages, progress);
    return {std::move(sketches), programme.memoryBinds()};
}

LeastSeconds leastSeconds(Scorer &scorer, const StageTable &table, const Shape &shape, int mostZero,
                          const Progress &progress)
{
    const std::size_t chunks = table.chunks();
    const std::size_t places = table.places();
    const std::size_t unit = scorer.lines()[shape.line].unit;
    const auto index = [places](std::size_t chunk, std::size_t place) { return chunk * (places + 1) + place; };
    const auto count = static_cast<double>(shape.microBatches);
    const std::vector<CutTimes> cuts = leastCuts(scorer, shape, places);
    // Least times of suffixes. By passes: their first stage's forward and backward pass and transfers lie around the
    // rest. By ends: the first forward and transfer lie before the rest, whose all-reduces end with it, or all weight
    // gradients that were put off.
    std::vector<double> passes((chunks + 1) * (places + 1), kNever);
    std::vector<double> ends = passes;
    for (std::size_t place = 0; place <= places; ++place) // devices at the end of the line may be left out
        passes[index(chunks, place)] = ends[index(chunks, place)] = 0;
    for (std::size_t chunk = chunks; chunk-- > 0;) {
        for (std::size_t place = 0; place < places && !progress.stopped(); ++place) {
            double &pass = passes[index(chunk, place)];
            double &last = ends[index(chunk, place)];
            for (std::size_t end = place + 1; end <= places; ++end) {
                for (std::size_t next = chunk + 1; next <= chunks; ++next) {
                    const StageTable::Entry &entry = table.at(chunk, next, place, end);
                    if (!entry.possible || passes[index(next, end)] == kNever)
                        continue;
                    const StageTimes &times = entry.times;
                    const CutTimes cut = next < chunks
                        ? cuts[index(place, end)] * scorer.costs().memory().cutBytes(table.layerAt(next))
                        : CutTimes{};
                    const double own = times.leastForward + times.leastBackward;
                    const double exposed = std::min(entry.whole ? exchanged(times, mostZero) : kNever,
                                                    mostZero == 3 ? sharded(times, count, chunk == 0) : kNever);
                    pass = std::min(pass,
                                    std::max({times.leastWork, own + cut.lane,
                                              own + cut.there + cut.back + passes[index(next, end)]}));
                    last = std::min(last,
                                    std::max({times.leastWork, exposed, times.leastForward + cut.lane,
                                              times.leastForward + cut.there + ends[index(next, end)]}));
                }
            }
        }
    }
    const double shared = scorer.cores().any() ? leastShared(scorer, table, unit) : 0;
    return {std::max({passes[0], ends[0], shared}), std::max(ends[0], shared)};
}

} // namespace planloom::planners::automatic
