// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layers.h"
#include "engine/import/import.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, std::size_t size)
{
    const auto model =
        planloom::import::readOnnx({reinterpret_cast<const char *>(data), size}, "fuzz.onnx", "/nonexistent");
    if (model)
        planloom::graph::layersOf(*model->graph);
    return 0;
}
