// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster/cluster.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto read = planloom::cluster::clusterFromJson({reinterpret_cast<const char *>(data), size});
    if (!read)
        return 0;
    // Accepted input must survive a round trip.
    const std::string written = planloom::cluster::toJson(*read);
    const auto again = planloom::cluster::clusterFromJson(written);
    if (!again || planloom::cluster::toJson(*again) != written)
        std::abort();
    return 0;
}
