// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/trace/foreign_trace.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

namespace planloom::fuzz {

/// Gives a reader of traces, which reads files, the bytes in one; what it reads must be sound: rows exist, slices of a
/// lane do not overlap, partners find each other again.
template <class Read>
void readAsFile(const std::uint8_t *data, std::size_t size, Read read)
{
    static const std::string path = "/dev/shm/planloom-fuzz-" + std::to_string(getpid());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
    NoProgress none;
    const auto made = read(path, none);
    if (!made)
        return;
    const trace::Trace &trace = made->trace;
    for (std::size_t i = 0; i < trace.records.size(); ++i) {
        const trace::Record &r = trace.records[i];
        const bool inTables = r.rank >= 0 && static_cast<std::size_t>(r.rank) < trace.ranks.size() && r.lane >= 0
            && static_cast<std::size_t>(r.lane) < trace.lanes.size() && trace.task(r.task) && r.duration >= 0;
        const bool alone = i == 0 || trace.records[i - 1].rank != r.rank || trace.records[i - 1].lane != r.lane
            || trace.records[i - 1].start + trace.records[i - 1].duration <= r.start;
        if (!inTables || !alone)
            std::abort();
        const auto partner = trace.details.partner(i);
        const auto launcher = trace.details.operatorOf(i);
        if ((partner && (*partner >= trace.records.size() || !trace.details.partner(*partner)))
            || (launcher && *launcher >= trace.records.size()) || trace.details.argumentsOf(i).size() > 4096)
            std::abort();
    }
}

} // namespace planloom::fuzz
