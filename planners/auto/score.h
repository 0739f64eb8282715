// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/links.h"
#include "planners/auto/stage_costs.h"
#include "planners/interface/shared_cores.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace planloom::planners::automatic {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Seconds that one stage adds to an iteration: its slowest replica's.
struct StageTimes {
    double forward = 0;   ///< one micro-batch
    double backward = 0;  ///< one micro-batch, without its recomputation, which fills the wait for the gradient
    double work = 0;      ///< all passes of the iteration
    double allReduce = 0; ///< of its gradients, and ZeRO's gathers
    double optimizer = 0;
    // Lower bounds for any overlap, order and algorithm:
    double leastForward = 0;
    double leastBackward = 0;
    double leastWork = 0;
    double leastEach = 0;    ///< work of each single device; 0: not known, and where no cores are shared
    double leastReduce = 0;  ///< of all-reduces of all gradients
    double leastScatter = 0; ///< of handing each replica its share of them, layer by layer, as ZeRO levels 2 and 3 do
                             ///< for each micro-batch
    double leastGather = 0;  ///< of gathering all parameters, likewise
    double leastAtOnce = 0;  ///< of both in one message, as ZeRO level 1 does
    /// From a stage's first forward pass until its gradients are exchanged, at ZeRO level 0, 1 or 2. All-reduces and
    /// what level 2 scatters begin with the last backward pass at the earliest; level 1 scatters, and both levels
    /// gather what was updated, after it.
    [[nodiscard]] double leastExchanged(int zero) const
    {
        const double passes = leastWork - leastBackward;
        return zero == 0 ? passes + leastReduce
            : zero == 1  ? leastWork + leastAtOnce
                         : std::max(leastWork, passes + leastScatter) + leastGather;
    }
    /// The same where gradients are handed out with every one of @p count micro-batches and nothing is left to gather.
    [[nodiscard]] double leastSharded(double count) const
    {
        return std::max(leastWork - leastBackward + leastScatter, leastForward + count * leastScatter);
    }
};

/// Lower bound of a cut for any order of passes, in seconds.
struct CutTimes {
    double there = 0; ///< the smallest micro-batch, forward
    double back = 0;  ///< and its gradient
    double lane = 0;  ///< all micro-batches of an iteration, on the lane that they keep busiest
    CutTimes operator*(double factor) const { return {there * factor, back * factor, lane * factor}; }
};

/// Estimate of a sketch before it is simulated.
struct Score {
    double seconds = kNever; ///< estimate of the simulator's time; never: does not fit, or cannot be laid out
    double bound = 0;        ///< the simulator's time is not below
    double fullest = 0;      ///< largest share of a device's usable memory, as planners bound it
};

/// Scores sketches: O(stages) each once the figures of their shape are remembered.
///
/// The estimate follows the micro-batches from the last stage to the first (DAPPLE §4.1, with every stage a candidate
/// for the pivot). For stage s:
///   e_s = max(work_s, f_s + x + e_(s+1) + x' + b_s, M x, M r_s / K_s) is the time from its first forward to its last
///   backward, where x is the transfer, r_s the way of one micro-batch to the end and back, and K_s how many of them
///   the schedule lets be on that way; the iteration ends when the last all-reduce and update do, a stage's all-reduce
///   beginning while the stages before still go backward.
/// The bound has only terms that hold for any order of passes: a stage's work or all transfers over a cut, the first
/// micro-batch's way there and the last one's way back, and the bandwidth term of a stage's all-reduce after all but
/// one backward.
class Scorer {
public:
    Scorer(const Problem &problem, StageCosts &costs, const std::vector<DeviceLine> &lines);

    Score score(const Sketch &sketch);

    /// A stage of @p shape. Nothing: it cannot be laid out so (devices that the degree does not divide, more replicas
    /// than samples).
    std::optional<StageTimes> stage(const Shape &shape, const Part &part);
    /// Shares of a device's usable memory that a stage takes: once, and for each micro-batch in flight.
    struct Memory {
        double fixed = 0;
        double perMicroBatch = 0;
    };
    [[nodiscard]] Memory memory(const Shape &shape, const Part &part) const;
    /// A micro-batch over the cut between neighbouring parts.
    double transfer(const Shape &shape, const Part &before, const Part &after);
    /// A cut of @p bytes a sample between the units [a, b) and [b, c) of the line, as bandwidth alone has it: in
    /// proportion to the bytes.
    CutTimes leastTransfer(const Shape &shape, double bytes, std::size_t a, std::size_t b, std::size_t c);
    /// Samples by which each of the replicas of [begin, end) works, as shares; empty: equal.
    std::vector<double> shares(const Shape &shape, const Part &part);

    [[nodiscard]] const Problem &problem() const { return m_problem; }
    [[nodiscard]] const std::vector<DeviceLine> &lines() const { return m_lines; }
    StageCosts &costs() { return m_costs; }
    [[nodiscard]] double microBatch(const Shape &shape) const
    {
        return static_cast<double>(m_problem.globalBatch) / static_cast<double>(shape.microBatches);
    }
    /// Micro-batches that a stage may have begun and not ended, with @p stagesFromHere stages from it to the last.
    [[nodiscard]] static std::int64_t inFlight(const Shape &shape, std::size_t stagesFromHere);
    [[nodiscard]] bool halfDuplex() const { return m_halfDuplex; }
    [[nodiscard]] const SharedCores &cores() const { return m_cores; }

private:
    /// Devices of type @p type among [begin, end).
    [[nodiscard]] std::size_t countOf(std::size_t line, std::size_t type, std::size_t begin, std::size_t end) const;
    bool passes(const Shape &shape, const Part &part, StageTimes &times);
    bool mixedPasses(const Shape &shape, const Part &part, StageTimes &times);
    void updates(const Shape &shape, const Part &part, StageTimes &times);
    void sumMessages();
    [[nodiscard]] double leastReduce(const Part &part, double bytes, Links::Exchange &exchange) const;
    [[nodiscard]] double crowd(const Shape &shape, const Part &part) const;
    void shareCores(const Sketch &sketch, const std::vector<StageTimes> &times, Score &score) const;

    /// Of the sketch that is scored, kept so that scoring allocates nothing.
    struct Room {
        std::vector<StageTimes> stages;
        std::vector<double> links;
        std::vector<CutTimes> cuts;
    };

    const Problem &m_problem;
    StageCosts &m_costs;
    const std::vector<DeviceLine> &m_lines;
    std::vector<Links> m_links;
    std::vector<std::vector<std::vector<std::uint32_t>>> m_counts; ///< per line and type: prefix sums over the line
    std::vector<double> m_usable;                                  ///< bytes, per device type
    /// Bytes of parameters that one layer reads, by the largest message that exchanges of them may be in.
    struct Messages {
        double largest = 0;
        std::vector<double> before; ///< per layer: bytes of all layers before
    };
    std::vector<Messages> m_messages; ///< least first
    double m_largest = 0;             ///< no message is larger
    double m_largestLayer = 0;        ///< no message of one layer is
    bool m_halfDuplex;
    SharedCores m_cores;
    Room m_room;
};

/// Estimate and bound of a pipeline of @p stages with transfers @p links and their lower bounds, @p cuts
/// (both one fewer), by the formulas above.
Score scoreOf(const Shape &shape, std::span<const StageTimes> stages, std::span<const double> links,
              std::span<const CutTimes> cuts, bool halfDuplex);

} // namespace planloom::planners::automatic
