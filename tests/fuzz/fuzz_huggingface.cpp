// SPDX-License-Identifier: Apache-2.0
#include "engine/import/import.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size)
{
    const auto model =
        planloom::import::readHuggingFaceConfig({reinterpret_cast<const char *>(data), size}, "config.json");
    return model && model->graph->ops().empty() ? 1 : 0;
}
