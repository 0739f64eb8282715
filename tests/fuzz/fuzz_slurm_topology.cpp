// SPDX-License-Identifier: Apache-2.0
#include "engine/import/import.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    planloom::import::ClusterSettings settings;
    settings.gpu = "T4";
    settings.gpus = 2;
    settings.network = 1e9;
    const auto made = planloom::import::readSlurmTopology(text, "topology.conf", settings);
    // Whatever is accepted has a way between any two devices.
    if (made && made->route(made->devices().front().id, made->devices().back().id).empty())
        std::abort();
    return 0;
}
