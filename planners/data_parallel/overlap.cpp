// SPDX-License-Identifier: Apache-2.0
#include "planners/data_parallel/overlap.h"

#include <vector>

namespace planloom::planners::data_parallel {

double exposedExchange(std::span<const double> exchange, std::span<const double> backward)
{
    if (exchange.empty())
        return 0;
    double exposed = exchange[0]; // the first layer's gradients come last: nothing hides them
    double slack = 0;
    for (std::size_t layer = 1; layer < exchange.size(); ++layer) {
        const double window = backward[layer - 1];
        if (window >= exchange[layer]) {
            slack += window - exchange[layer];
            continue;
        }
        const double deficit = exchange[layer] - window;
        if (slack >= deficit) {
            slack -= deficit;
            continue;
        }
        exposed += deficit - slack;
        slack = 0;
    }
    return exposed;
}

double exposedExchange(const cost::CostModel &costs, double samples)
{
    std::vector<DeviceId> devices;
    for (const cluster::Device &device : costs.cluster().devices())
        devices.push_back(device.id);
    const std::size_t type = costs.cluster().devices().front().type;
    std::vector<double> exchange;
    std::vector<double> backward;
    for (std::size_t layer = 0; layer < costs.layers().size(); ++layer) {
        const auto bytes = static_cast<double>(costs.parameterBytes(layer, layer + 1).value());
        exchange.push_back(costs.allReduce(devices, bytes).value());
        backward.push_back(
            (costs.forward(layer, layer + 1, samples, type) + costs.backward(layer, layer + 1, samples, type)).value()
            / 2);
    }
    return exposedExchange(exchange, backward);
}

} // namespace planloom::planners::data_parallel
