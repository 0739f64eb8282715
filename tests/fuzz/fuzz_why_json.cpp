// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/why.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto read = planloom::plan::whyFromJson({reinterpret_cast<const char *>(data), size});
    if (!read)
        return 0;
    // Accepted input must survive a round trip.
    const std::string written = planloom::plan::toJson(*read);
    const auto again = planloom::plan::whyFromJson(written);
    if (!again || planloom::plan::toJson(*again) != written)
        std::abort();
    return 0;
}
