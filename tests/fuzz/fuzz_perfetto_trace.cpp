// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/perfetto_trace.h"
#include "tests/fuzz/foreign_trace.h"

using namespace planloom;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    fuzz::readAsFile(data, size, import::readPerfettoTrace);
    return 0;
}
