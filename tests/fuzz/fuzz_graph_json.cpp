// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/graph.h"
#include "engine/graph/layers.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size)
{
    const auto graph = planloom::graph::graphFromJson({reinterpret_cast<const char *>(data), size});
    if (!graph)
        return 0;
    planloom::graph::layersOf(*graph);
    // Accepted input must survive a round trip.
    if (!planloom::graph::graphFromJson(planloom::graph::toJson(*graph)))
        std::abort();
    return 0;
}
