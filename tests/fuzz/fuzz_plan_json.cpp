// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/plan.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto read = planloom::plan::documentFromJson(text);
    if (!read)
        return 0;
    // Accepted input must survive a round trip.
    const auto again = planloom::plan::documentFromJson(planloom::plan::toJson(*read));
    if (!again || !planloom::plan::difference(read->plan, again->plan).empty())
        std::abort();
    return 0;
}
