// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/network.h"

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace planloom::gnn {

/// Tasks that share the cores of processors (Port::processor): those at work on one together get equal parts of its
/// cores for each thread, and none more than its threads. So all run at one rate, min(1, cores / threads at work), and
/// a task ends when the sum of that rate over time has grown by its seconds. Cost: O(log tasks) an event, and
/// O(processors) for next().
class Processors {
public:
    explicit Processors(std::span<const Port> ports);

    void reset();
    /// @p seconds: with as many cores as @p threads to itself.
    void start(std::int32_t step, std::int32_t processor, double seconds, double threads, double now);
    /// When the first task ends if none starts before; infinite: none is at work.
    [[nodiscard]] double next() const;
    /// Takes a task that has ended by @p now; -1: there is none left.
    std::int32_t takeEnded(double now);

private:
    static constexpr double kNoEnd = std::numeric_limits<double>::infinity();
    struct Task {
        double end; ///< of the processor's progress
        double threads;
        std::int32_t step;
        bool operator<(const Task &other) const // earliest first in a heap
        {
            return end != other.end ? end > other.end : step > other.step;
        }
    };
    struct Processor {
        double cores = 0;
        double threads = 0;  ///< at work
        double progress = 0; ///< seconds of a task that had been at work since the beginning, at `since`
        double since = 0;
        double next = kNoEnd;
        std::vector<Task> tasks = {}; ///< heap
    };
    static double rateOf(const Processor &processor);
    static void advance(Processor &processor, double now);
    static void setNext(Processor &processor);

    std::vector<Processor> m_processors;
};

} // namespace planloom::gnn
