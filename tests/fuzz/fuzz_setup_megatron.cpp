// SPDX-License-Identifier: Apache-2.0
#include "engine/import/setup/setup.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    const auto setup = planloom::import::readMegatronArguments(text, "setup");
    // Whatever is accepted has stages, and batches that can be counted with.
    if (setup
        && (setup->pipeline < 1 || setup->tensor < 1 || setup->chunks < 1 || setup->microBatch < 0
            || setup->globalBatch < 0 || setup->microBatch + setup->globalBatch < 1))
        std::abort();
    return 0;
}
