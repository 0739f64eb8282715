// SPDX-License-Identifier: Apache-2.0
// Whale's hardware-aware balance against even shares, on nodes of unequal devices: simulated iteration times of both,
// their ratio, and the most that balance can gain (mean over minimum rate of the devices, by the cost model). Prints
// the table of resources/docs/planners/whale.md.
#include "whale_table.h"

#include <cstdio>
#include <fmt/ranges.h>

int main()
{
    using namespace planloom::bench;
    std::puts("| model | cluster | replicas: even | balanced | gain | pipeline: even | balanced | gain | bound "
              "|\n|---|---|---|---|---|---|---|---|---|");
    for (const char *model : kWhaleModels)
        for (const char *cluster : kWhaleClusters) {
            const auto row = whaleRow(model, cluster);
            if (!row) {
                std::fprintf(stderr, "%s\n", row.error().text().c_str());
                return 1;
            }
            std::puts(fmt::format("| {} | {} | {} |", model, cluster, fmt::join(row->cells(), " | ")).c_str());
            std::fflush(stdout);
        }
    return 0;
}
