// SPDX-License-Identifier: Apache-2.0
#include "engine/import/graphs/debian_packages.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    constexpr std::int64_t kWidth = 4;
    const auto graph =
        planloom::import::debianDependencyGraph({reinterpret_cast<const char *>(data), size}, "list", kWidth);
    // What is made is a graph, but that it may have no edges.
    if (graph && !graph->arcs.empty() && !planloom::gnn::checkGraph(*graph))
        std::abort();
    return 0;
}
