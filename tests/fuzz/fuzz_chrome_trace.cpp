// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/chrome_trace.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

using namespace planloom;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    // The reader streams from a file.
    static const std::string path = "/dev/shm/planloom-fuzz-" + std::to_string(getpid()) + ".json";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
    NoProgress none;
    const auto read = import::readChromeTrace(path, none);
    if (!read)
        return 0;
    const trace::Trace &trace = read->trace;
    for (std::size_t i = 0; i < trace.records.size(); ++i) { // what is read is sound: rows exist, slices do not overlap
        const trace::Record &r = trace.records[i];
        const bool inTables = r.rank >= 0 && static_cast<std::size_t>(r.rank) < trace.ranks.size() && r.lane >= 0
            && static_cast<std::size_t>(r.lane) < trace.lanes.size() && trace.task(r.task) && r.duration >= 0;
        const bool alone = i == 0 || trace.records[i - 1].rank != r.rank || trace.records[i - 1].lane != r.lane
            || trace.records[i - 1].start + trace.records[i - 1].duration <= r.start;
        if (!inTables || !alone)
            std::abort();
    }
    return 0;
}
