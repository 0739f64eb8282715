// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/cost.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto read = planloom::cost::profileFromJson({reinterpret_cast<const char *>(data), size});
    if (!read)
        return 0;
    // Accepted input must survive a round trip.
    const std::string written = planloom::cost::toJson(*read);
    const auto again = planloom::cost::profileFromJson(written);
    if (!again || planloom::cost::toJson(*again) != written)
        std::abort();
    return 0;
}
