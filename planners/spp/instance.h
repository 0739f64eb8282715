// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/spp/order.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace planloom::planners::spp {

/// Seconds of a transfer of so many bytes.
struct Line {
    double latency = 0;
    double perByte = 0;
    [[nodiscard]] double seconds(double bytes) const { return bytes > 0 ? latency + bytes * perByte : 0; }
};

/// Seconds of one micro-batch.
struct Passes {
    double forward = 0;
    double backward = 0;
    [[nodiscard]] double sum() const { return forward + backward; }
};

/// A chain of layers, a line of devices, and the costs of placing one on the other. A window is the devices [begin,
/// end) of the line.
struct Instance {
    std::size_t layers = 0;
    std::size_t devices = 0;
    double microBatches = 1;
    std::vector<double> forwardBytes;   ///< of one micro-batch, over the boundary after each layer
    std::vector<double> backwardBytes;  ///< the same way back
    std::vector<double> parameterBytes; ///< of the layers before each layer, and of all: layers + 1 sums
    /// Seconds of layers [first, last) for one micro-batch shared by a window; infinite where that cannot be.
    std::function<Passes(std::size_t first, std::size_t last, std::size_t begin, std::size_t end)> passes;
    /// From the window [begin, middle) to its neighbour [middle, end).
    std::function<Line(std::size_t begin, std::size_t middle, std::size_t end)> channel;
    /// All-reduce among a window.
    std::function<Line(std::size_t begin, std::size_t end)> reduction;

    /// Seconds of the all-reduce of layers [first, last) within a window: A.
    [[nodiscard]] double reduce(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const
    {
        return end - begin < 2 ? 0 : reduction(begin, end).seconds(parameterBytes[last] - parameterBytes[first]);
    }
};

/// Communication as SPP has it: every sender exchanges its share with every receiver at once, and the slowest pair
/// decides; a ring's slowest pair decides too. @p order: the line, as devices of @p bandwidths. Cost of making:
/// O(devices^3).
void setPairwiseCommunication(Instance &instance, const Bandwidths &bandwidths, const std::vector<std::size_t> &order);

} // namespace planloom::planners::spp
