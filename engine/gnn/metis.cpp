// SPDX-License-Identifier: Apache-2.0
// The only file that includes METIS, which a build can be without.
#include "engine/gnn/partition.h"

#ifdef PLANLOOM_METIS
#include <metis.h>
#endif

namespace planloom::gnn {

#ifdef PLANLOOM_METIS

static_assert(sizeof(idx_t) == sizeof(std::int32_t));

bool hasMetis() { return true; }

std::vector<std::int32_t> metis::cut(const GraphData &graph, const PartitionOptions &options, bool recursive,
                                     int &failure)
{
    std::vector<idx_t> begin(graph.offsets.begin(), graph.offsets.end());
    std::vector<idx_t> arcs(graph.arcs.begin(), graph.arcs.end());
    std::vector<idx_t> weights;
    if (options.balanceTraining) {
        for (std::int64_t node = 0; node < graph.nodes(); ++node) {
            weights.push_back(graph.labels[static_cast<std::size_t>(node)] >= 0 ? 1 : 0);
            weights.push_back(static_cast<idx_t>(graph.neighbours(node).size()));
        }
    }
    idx_t settings[METIS_NOPTIONS];
    METIS_SetDefaultOptions(settings);
    settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffffU);
    settings[METIS_OPTION_NUMBERING] = 0;
    auto nodes = static_cast<idx_t>(graph.nodes());
    idx_t constraints = options.balanceTraining ? 2 : 1;
    idx_t parts = options.parts;
    idx_t cutEdges = 0;
    std::vector<std::int32_t> part(static_cast<std::size_t>(graph.nodes()));
    const auto partition = recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway;
    const int status =
        partition(&nodes, &constraints, begin.data(), arcs.data(), weights.empty() ? nullptr : weights.data(), nullptr,
                  nullptr, &parts, nullptr, nullptr, settings, &cutEdges, part.data());
    failure = status == METIS_OK ? 0 : status;
    return part;
}

#else

bool hasMetis() { return false; }

std::vector<std::int32_t> metis::cut(const GraphData &, const PartitionOptions &, bool, int &failure)
{
    failure = -1;
    return {};
}

#endif

} // namespace planloom::gnn
