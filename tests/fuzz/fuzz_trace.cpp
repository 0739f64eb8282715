// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdlib>
#include <unistd.h>

using namespace planloom;

/// Any bytes as a trace file: an error or a trace that can be indexed, drawn and written again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    ::setenv("PLANLOOM_LOG", "off", 0);
    const std::string path = "/tmp/fuzz_trace." + std::to_string(::getpid());
    if (!writeFileAtomically(path, {reinterpret_cast<const char *>(data), size}))
        std::abort();
    const auto trace = trace::readTrace(path);
    ::unlink(path.c_str());
    if (!trace)
        return 0;
    const trace::LevelOfDetail index(*trace);
    std::vector<trace::Bar> bars;
    for (const trace::Row &row : index.rows())
        row.query({index.begin(), index.end()}, 50, bars);
    return 0;
}
