// SPDX-License-Identifier: Apache-2.0
#include "engine/import/import.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto made = planloom::import::readNcclTopology(text, "topology.xml");
    if (made && made->devices().size() < 64)
        made->route(made->devices().front().id, made->devices().back().id);
    return 0;
}
