// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/pass_clock.h"
#include "engine/compile/stage_cache.h"
#include "planners/common/memory.h"
#include "planners/auto/sketch.h"

#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

namespace planloom::planners::automatic {

/// Seconds of one slice through a run of layers, with and without waiting for devices that share tensors.
struct PassSeconds {
    double forward = 0;
    double backward = 0;
    double busyForward = 0;
    double busyBackward = 0;
};

/// The same of any run of layers. A run may take less than its layers one by one, as operators are fused over the cuts
/// between them: the savings of each cut are part of the sums. The figures of one layer lie in one cache line, as
/// scoring a stage reads those of its two ends.
class PassTimes {
public:
    /// @p layers: each layer by itself; @p saved: the saving of joining layer i to the one before it (0 for the first).
    PassTimes(const std::vector<PassSeconds> &layers, const std::vector<PassSeconds> &saved);
    explicit PassTimes(const std::vector<PassSeconds> &layers)
        : PassTimes(layers, std::vector<PassSeconds>(layers.size()))
    {
    }
    /// Of layers [first, last).
    [[nodiscard]] PassSeconds of(std::size_t first, std::size_t last) const
    {
        const Row &begin = m_rows[first];
        const PassSeconds &end = m_rows[last].sums;
        return {end.forward - begin.sums.forward + begin.saved.forward,
                end.backward - begin.sums.backward + begin.saved.backward,
                end.busyForward - begin.sums.busyForward + begin.saved.busyForward,
                end.busyBackward - begin.sums.busyBackward + begin.saved.busyBackward};
    }
    /// With the busy times of @p other.
    void setBusy(const PassTimes &other);

private:
    struct alignas(64) Row {
        PassSeconds sums; ///< of all layers before
        PassSeconds saved;
    };
    std::vector<Row> m_rows; ///< layers + 1
};

/// The passes of one slice.
struct LayerTimes {
    PassTimes plain;
    std::optional<PassTimes> selective; ///< of stages that recompute the core of attention, where the model has any:
                                        ///< that may be faster than to keep it

    /// Least busy seconds of layers [first, last): without recomputation, or with the core of attention recomputed.
    struct Least {
        double forward = 0;
        double backward = 0;
        double both = 0;
    };
    [[nodiscard]] Least least(std::size_t first, std::size_t last) const;
};

/// Costs of layers, by device type, degree and slice. Figures are those of a compiled plan: of a layer profile
/// the cost model's own, of operators read off probes, plans with one or two layers a stage, all on the same devices.
/// Remembered; a query costs O(1) after that.
class StageCosts {
public:
    /// @p stages, which must outlive it: where probes remember their stages.
    StageCosts(const Problem &problem, double reserve, compile::StageCache &stages);

    /// Error: that of the probe's compilation, for a degree that the model cannot be laid out in.
    Result<const LayerTimes *> times(std::size_t type, const Degree &degree, double samples);

    [[nodiscard]] const MemoryModel &memory() const { return m_memory; }
    [[nodiscard]] std::size_t layers() const { return m_problem.subject.layers().size(); }
    /// Layer profiles: times are in proportion to samples, and slices need not be whole.
    [[nodiscard]] bool proportional() const { return m_proportional; }
    /// The kind of recomputation: layer by layer, or of a profile, which has no inner sizes, all of the stage.
    [[nodiscard]] plan::Recompute recomputed() const
    {
        return m_proportional ? plan::Recompute::Full : plan::Recompute::Layers;
    }
    /// The choices of a stage, none first: recomputed(), and the core of attention where the model has any.
    [[nodiscard]] std::vector<plan::Recompute> recomputations() const
    {
        std::vector<plan::Recompute> all{plan::Recompute::None, recomputed()};
        if (m_attention)
            all.push_back(plan::Recompute::Selective);
        return all;
    }
    /// Memory of a run of layers, as MemoryModel bounds it: bytes, once and for each sample.
    struct RunBytes {
        double persistent = 0;
        double once = 0;          ///< beside persistent memory
        double perSample = 0;     ///< once for each sample of a slice
        double keptPerSample = 0; ///< for each micro-batch in flight
    };
    /// Of layers [first, last), without recomputation and with it (recomputed()); with the core of attention recomputed
    /// as without: an upper bound. O(1).
    [[nodiscard]] const RunBytes &bytes(std::size_t first, std::size_t last, plan::Recompute recompute) const
    {
        return m_bytes[recompute == recomputed() ? 1 : 0][first * layers() + last - 1];
    }
    /// Pins of the layout that @p degree means, for mesh {replicas, degree.tensor}; empty where nothing can be cut.
    const std::map<std::string, std::string> &pins(const Degree &degree);

private:
    void sumBytes();
    LayerTimes whole(std::size_t type, double samples) const;
    /// Plans for one machine whose stages have a layer each, and two layers each, so that every cut is inside a stage
    /// once.
    struct Probes {
        struct Joined {
            std::vector<std::size_t> begins; ///< of stages
            compile::PassClock clock;
        };
        compile::PassClock single;
        std::vector<Joined> joined;
    };
    /// What is probed: a device type, a degree, whether stages recompute the core of attention.
    struct Setting {
        std::size_t type = 0;
        Degree degree;
        plan::Recompute recompute = plan::Recompute::None;
        bool launched = true; ///< false: kernels need not wait for their launches
        friend auto operator<=>(const Setting &, const Setting &) = default;
    };
    Result<LayerTimes> probed(const Setting &setting, double samples);
    /// With busy times that sums of layers do not exceed: where kernels wait for their launches, those of the kernels
    /// alone, as a stage of several layers takes the longer of two sums.
    Result<LayerTimes> probedAsBound(Setting setting, double samples);
    Result<LayerTimes> probedWithSelective(std::size_t type, const Degree &degree, double samples);
    Result<Probes> makeProbes(const Setting &setting);
    Result<compile::PassClock> probe(const Setting &setting, const std::vector<std::size_t> &begins);

    const Problem &m_problem;
    compile::StageCache &m_stages;
    MemoryModel m_memory;
    bool m_proportional;
    std::optional<plan::Subject> m_unlaunched;    ///< the subject without launches, where its profile has any
    bool m_attention;                             ///< the model has operators of attention
    std::array<std::vector<RunBytes>, 2> m_bytes; ///< by recomputation: by first and last layer
    struct Key {
        std::size_t type;
        Degree degree;
        double samples;
        friend bool operator==(const Key &, const Key &) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key &key) const
        {
            const auto head = static_cast<std::uint64_t>(key.type * 64 + static_cast<std::size_t>(key.degree.tensor) * 2
                                                         + (key.degree.sequence ? 1 : 0));
            return static_cast<std::size_t>(
                (std::bit_cast<std::uint64_t>(key.samples) ^ (head << 44U)) * 0x9E3779B97F4A7C15U >> 20U);
        }
    };
    std::unordered_map<Key, std::unique_ptr<Result<LayerTimes>>, KeyHash> m_times;
    std::map<Degree, std::map<std::string, std::string>> m_pins;
    std::map<Setting, Result<Probes>> m_probes;
};

} // namespace planloom::planners::automatic
