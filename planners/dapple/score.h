// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/common/memory.h"
#include "planners/interface/shared_cores.h"
#include "planners/dapple/latency.h"
#include "planners/dapple/settings.h"
#include "planners/dapple/warmup.h"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace planloom::planners::dapple {

/// One stage of a plan in the making: layers [first, last) on devices, sorted by id.
struct Span {
    std::size_t first = 0;
    std::size_t last = 0;
    std::vector<DeviceId> devices;
    friend bool operator==(const Span &, const Span &) = default;
    friend auto operator<=>(const Span &, const Span &) = default;
};
using Spans = std::vector<Span>;

/// A plan that was scored.
struct Scored {
    Spans spans;
    std::int64_t perDevice = 1; ///< samples of a micro-batch on a device of the most replicated stage
    std::int64_t microBatches = 1;
    Warmup warmup = Warmup::A;
    std::vector<int> depths; ///< K_i
    std::vector<bool> recompute;
    Chain chain;          ///< with its network stages
    double objective = 0; ///< seconds by the chosen evaluator
    double events = 0;    ///< seconds by the event simulation of the chain
    double speedup = 0;   ///< one device's seconds / events
};

/// How far from fitting the best of the plans that did not fit was.
struct Shortage {
    double missing = std::numeric_limits<double>::infinity(); ///< bytes; infinite: nothing failed for memory
    double needed = 0;
    double usable = 0;
    double persistent = 0; ///< of `needed`
    std::size_t stages = 0;
    Span span;
};

/// Scores plans of one problem at one per-device micro-batch. Not thread-safe: it keeps sums and buffers between calls.
class Scorer {
public:
    Scorer(const Problem &problem, const Settings &settings, const MemoryModel &memory, std::int64_t perDevice);

    /// None if Settings::keep has other stages, if a device would get no sample, if the plan does not fit, or if it
    /// cannot end within @p bound seconds (simulation only).
    [[nodiscard]] std::optional<Scored> score(const Spans &spans,
                                              double bound = std::numeric_limits<double>::infinity());

    /// The same plan with at most @p most micro-batches in flight per stage.
    [[nodiscard]] Scored capped(Scored scored, const std::vector<int> &most);

    /// Seconds that the span's devices, or its way in from @p before, are busy in one iteration, whatever the
    /// micro-batches: a lower bound of any plan with that stage.
    [[nodiscard]] double load(const Span &span, const Span *before);
    /// True if weights, gradients and optimizer state alone fit, and the span is one that Settings::keep allows.
    [[nodiscard]] bool holds(const Span &span) const;

    [[nodiscard]] const Shortage &shortage() const { return m_shortage; }
    [[nodiscard]] double oneDeviceSeconds() const { return m_oneDevice; }
    [[nodiscard]] std::int64_t perDevice() const { return m_perDevice; }
    [[nodiscard]] const plan::Subject &subject() const { return m_problem->subject; }
    [[nodiscard]] std::size_t layerCount() const { return subject().layers().size(); }

    /// The released planner's estimate of the plan.
    [[nodiscard]] ShippedInput shippedInput(const Spans &spans);

private:
    struct Sums {
        std::vector<double> forward;
        std::vector<double> backward;
    };
    struct Slices {
        std::int64_t count = 0;
        double samples = 0; ///< of a micro-batch
    };

    [[nodiscard]] std::optional<Slices> slices(const Spans &spans) const;
    /// Samples of a micro-batch on each of @p replicas devices: a fraction for layer profiles, as the paper has it; for
    /// real operators, which compute whole samples, the largest slice.
    [[nodiscard]] double slice(const Slices &slices, std::size_t replicas) const;
    [[nodiscard]] const Sums &sums(std::size_t type, double samples);
    [[nodiscard]] std::pair<double, double> passes(const Span &span, double samples);
    [[nodiscard]] std::pair<double, double> sends(const Span &from, const Span &to, double samples) const;
    [[nodiscard]] Chain chainOf(const Spans &spans, const Slices &slices);
    [[nodiscard]] bool fit(const Spans &spans, const Slices &slices, Scored &scored, std::vector<int> &most);
    void noteShortage(const Spans &spans, const Span &span, double needed, double usable);
    void stretch(const Spans &spans, Chain &chain) const;
    [[nodiscard]] double sharedSeconds(const Scored &scored) const;
    void time(Scored &scored, const std::vector<int> &most, Warmup policy, bool isFirst);

    const Problem *m_problem;
    const Settings *m_settings;
    const MemoryModel *m_memory;
    std::int64_t m_perDevice;
    bool m_halfDuplex;
    bool m_sameBothWays;
    bool m_wholeSamples;
    double m_oneDevice;
    std::map<std::pair<std::size_t, double>, Sums> m_sums;
    ChainClock m_clock;
    SharedCores m_cores;
    Shortage m_shortage;
};

/// The best plans seen, at most kPerShape with the same numbers of replicas so that the rest is not of one kind, in a
/// total order that does not depend on the order of offers: objective (in parts of 1e-12 of one device's time, so that
/// rounding does not decide), fewer stages, then layers and devices.
class Pool {
public:
    Pool(std::size_t capacity, double oneDeviceSeconds)
        : m_capacity(capacity),
          m_unit(oneDeviceSeconds > 0 ? oneDeviceSeconds * 1e-12 : 1)
    {
    }

    void offer(Scored scored);
    /// The time that a plan must beat to be kept.
    [[nodiscard]] double bound() const;
    [[nodiscard]] const std::vector<Scored> &plans() const { return m_plans; }
    [[nodiscard]] bool better(double seconds, const Spans &spans, double otherSeconds, const Spans &others) const;

    static constexpr std::size_t kPerShape = 4;

private:
    void dropOneOf(const std::vector<std::size_t> &kind);

    std::size_t m_capacity;
    double m_unit;
    std::vector<Scored> m_plans;
};

} // namespace planloom::planners::dapple
