// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layers.h"
#include "engine/import/import.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size)
{
    const auto model =
        planloom::import::readLayerProfile({reinterpret_cast<const char *>(data), size}, "fuzz-pbs-2.txt");
    if (model)
        planloom::graph::layersOf(*model->graph);
    return 0;
}
