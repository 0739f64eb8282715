// SPDX-License-Identifier: Apache-2.0
// Comma-separated values by RFC 4180, with line feeds alone.
#include "engine/export/export.h"

#include <fmt/format.h>

namespace planloom::exporting {
namespace {

constexpr std::size_t kTableBytes = 64 * 1024;

std::string csvText(const std::string &text)
{
    if (text.find_first_of(",\"\r\n") == std::string::npos)
        return text;
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c;
        if (c == '"')
            quoted += c;
    }
    return quoted + '"';
}

/// Seconds with all nanoseconds.
std::string csvSeconds(std::int64_t nanoseconds)
{
    const bool negative = nanoseconds < 0;
    const std::uint64_t magnitude =
        negative ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
    return fmt::format("{}{}.{:09}", negative ? "-" : "", magnitude / 1'000'000'000, magnitude % 1'000'000'000);
}

/// Empty where there is none.
std::string csvNumber(std::int32_t number) { return number < 0 ? std::string() : std::to_string(number); }

} // namespace

Status taskTable(const trace::Trace &trace, const Writer &write)
{
    std::string piece = "task,kind,stage,micro_batch,rank,device,lane,step,start_seconds,seconds\n";
    std::vector<std::string> heads;
    for (const trace::TaskInfo &task : trace.tasks)
        heads.push_back(fmt::format("{},{},{},{}", csvText(task.id), csvText(trace.kind(task.kind).name),
                                    csvNumber(task.stage), csvNumber(task.microBatch)));
    for (const trace::Record &record : trace.records) {
        const auto rank = static_cast<std::size_t>(record.rank);
        piece += fmt::format("{},{},{},{},{},{},{}\n",
                             trace.task(record.task) ? heads[static_cast<std::size_t>(record.task)] : "?,other,,",
                             record.rank, csvText(rank < trace.ranks.size() ? trace.ranks[rank].device : "?"),
                             csvText(trace.lane(record.lane).name), csvNumber(record.step), csvSeconds(record.start),
                             csvSeconds(record.duration));
        if (piece.size() < kTableBytes)
            continue;
        if (Status done = write(piece); !done)
            return done;
        piece.clear();
    }
    return write(piece);
}

} // namespace planloom::exporting
