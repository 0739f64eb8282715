// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/common/memory.h"
#include "planners/joint/sketch.h"

#include <bit>
#include <map>
#include <memory>
#include <unordered_map>

namespace planloom::planners::joint {

/// Seconds of one slice through layers, as prefix sums.
struct PassTimes {
    std::vector<double> forward, backward; ///< size: layers + 1; waiting for devices that share tensors included
    std::vector<double> busyForward, busyBackward; ///< computing alone; empty: the same
    [[nodiscard]] double forwardOf(std::size_t first, std::size_t last) const { return forward[last] - forward[first]; }
    [[nodiscard]] double backwardOf(std::size_t first, std::size_t last) const { return backward[last] - backward[first]; }
    [[nodiscard]] double busyForwardOf(std::size_t first, std::size_t last) const { return busyForward.empty() ? forwardOf(first, last) : busyForward[last] - busyForward[first]; }
    [[nodiscard]] double busyBackwardOf(std::size_t first, std::size_t last) const
    {
        return busyBackward.empty() ? backwardOf(first, last) : busyBackward[last] - busyBackward[first];
    }
};

/// What layers cost, by device type, degree and slice. Figures are those that a compiled plan has: of whole replicas from the cost model, of
/// replicas that share tensors read off a compiled probe, a plan with one stage per layer. Remembered; a query is O(log of what is remembered).
class StageCosts {
public:
    StageCosts(const Problem &problem, double reserve);

    /// Error: that of the probe's compilation, for a degree that the model cannot be laid out in.
    Result<const PassTimes *> times(std::size_t type, const Degree &degree, double samples);

    [[nodiscard]] const MemoryModel &memory() const { return m_memory; }
    [[nodiscard]] std::size_t layers() const { return m_problem.subject.layers().size(); }
    /// Layer profiles: times are in proportion to samples, and slices need not be whole.
    [[nodiscard]] bool proportional() const { return m_proportional; }
    /// What recomputing means: layer by layer, or of a profile, which has no inner sizes, all of the stage.
    [[nodiscard]] plan::Recompute recomputed() const { return m_proportional ? plan::Recompute::Full : plan::Recompute::Layers; }
    /// Bytes of a sample that layers [first, last) keep where each recomputes: their inputs.
    [[nodiscard]] double inputBytes(std::size_t first, std::size_t last) const { return m_inputs[last] - m_inputs[first]; }
    /// Bytes of a sample that the largest of layers [first, last) keeps beside its input. Cost: O(layers).
    [[nodiscard]] double largestKept(std::size_t first, std::size_t last) const;
    /// Pins of the layout that @p degree means, for mesh {replicas, degree.tensor}; empty where nothing can be cut.
    const std::map<std::string, std::string> &pins(const Degree &degree);

private:
    Result<PassTimes> whole(std::size_t type, double samples) const;
    Result<PassTimes> probed(std::size_t type, const Degree &degree, std::int64_t samples);

    const Problem &m_problem;
    MemoryModel m_memory;
    bool m_proportional;
    std::vector<double> m_inputs; ///< prefix sums over layers, bytes per sample
    std::vector<double> m_kept;   ///< per layer, bytes per sample
    struct Key {
        std::size_t type;
        Degree degree;
        double samples;
        friend bool operator==(const Key &, const Key &) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key &key) const
        {
            const auto head = static_cast<std::uint64_t>(key.type * 64 + static_cast<std::size_t>(key.degree.tensor) * 2 + (key.degree.sequence ? 1 : 0));
            return static_cast<std::size_t>((std::bit_cast<std::uint64_t>(key.samples) ^ (head << 44U)) * 0x9E3779B97F4A7C15U >> 20U);
        }
    };
    std::unordered_map<Key, std::unique_ptr<Result<PassTimes>>, KeyHash> m_times;
    std::map<Degree, std::map<std::string, std::string>> m_pins;
};

} // namespace planloom::planners::joint
