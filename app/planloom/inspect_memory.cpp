// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/inspect_memory.h"

#include "engine/base/units.h"
#include "engine/import/snapshot/memory_snapshot.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

constexpr std::size_t kFrameRows = 20;       // that are printed
constexpr std::size_t kFrameRowsJson = 1000; // in --json

std::string bytesOf(std::int64_t bytes) { return format(Bytes(bytes)); }

double shareOfWhole(std::int64_t part, std::int64_t whole)
{
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Seconds from the first event to the last one of all devices.
double historySeconds(const trace::Allocations &snapshot)
{
    std::int64_t last = 0;
    for (const auto &events : snapshot.events) {
        for (const trace::Allocations::Event &event : events)
            last = std::max(last, event.time);
    }
    return static_cast<double>(last) * 1e-9;
}

/// What was in use at the device's peak, by line of the program.
ordered_json peakByFrame(const trace::Allocations &snapshot, std::int32_t device, const trace::DeviceMemory &memory,
                         Output &output)
{
    const auto alive = trace::aliveAfter(snapshot, device, memory.peakEvent);
    const auto uses = trace::byFrame(snapshot, alive);
    Table table({"BYTES", "SHARE", "BLOCKS", "ALLOCATED IN"});
    ordered_json rows = ordered_json::array();
    for (std::size_t i = 0; i < std::min(uses.size(), kFrameRowsJson); ++i) {
        const std::string where = snapshot.frameText(uses[i].frame);
        if (i < kFrameRows)
            table.row({bytesOf(uses[i].bytes), percent(shareOfWhole(uses[i].bytes, memory.peak)), count(uses[i].blocks),
                       where});
        rows.push_back(ordered_json{{"bytes", uses[i].bytes}, {"blocks", uses[i].blocks}, {"where", where}});
    }
    if (uses.empty())
        return rows;
    output.line();
    output.line(fmt::format("device {} at its peak: {} in {} blocks", device, bytesOf(memory.peak),
                            count(static_cast<std::int64_t>(alive.size()))));
    table.print(output);
    if (uses.size() > kFrameRows)
        output.line(fmt::format("and {} more lines", uses.size() - kFrameRows));
    return rows;
}

ordered_json deviceJson(std::int32_t device, const trace::DeviceMemory &memory)
{
    return ordered_json{{"device", device},
                        {"reserved_bytes", memory.reserved},
                        {"in_use_bytes", memory.inUse},
                        {"requested_bytes", memory.requested},
                        {"fragmented_bytes", memory.fragmented},
                        {"largest_free_bytes", memory.largestFree},
                        {"begin_bytes", memory.atBegin},
                        {"peak_bytes", memory.peak},
                        {"peak_reserved_bytes", memory.peakReserved},
                        {"peak_event", memory.peakEvent},
                        {"peak_seconds", static_cast<double>(memory.peakTime) * 1e-9},
                        {"segments", memory.segments},
                        {"blocks", memory.blocks},
                        {"out_of_memory", memory.outOfMemory}};
}

} // namespace

bool isMemorySnapshot(const std::string &path)
{
    std::string head(2, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return import::isPickle(path, head);
}

Status inspectMemory(const std::string &path, Output &output)
{
    const auto snapshot = import::readMemorySnapshot(path);
    if (!snapshot)
        return snapshot.error();
    std::int64_t events = 0;
    for (const auto &of : snapshot->events)
        events += static_cast<std::int64_t>(of.size());
    output.line(fmt::format("memory        {} segments, {} blocks, {} call stacks",
                            count(static_cast<std::int64_t>(snapshot->segments.size())),
                            count(static_cast<std::int64_t>(snapshot->blocks.size())),
                            count(static_cast<std::int64_t>(snapshot->stacks()))));
    output.line(events == 0 ? std::string("history       none was recorded; peaks are of the moment of the snapshot")
                            : fmt::format("history       {} events over {}", count(events),
                                          format(Seconds(historySeconds(*snapshot)))));
    Table table({"DEVICE", "RESERVED", "IN USE", "REQUESTED", "FRAGMENTED", "LARGEST FREE", "PEAK IN USE",
                 "PEAK RESERVED", "OUT OF MEMORY"});
    std::vector<std::pair<std::int32_t, trace::DeviceMemory>> devices;
    for (std::int32_t device = 0; device < snapshot->devices(); ++device) {
        const trace::DeviceMemory memory = trace::deviceMemory(*snapshot, device);
        if (memory.segments == 0 && memory.peak == 0)
            continue;
        table.row({std::to_string(device), bytesOf(memory.reserved), bytesOf(memory.inUse), bytesOf(memory.requested),
                   fmt::format("{} ({})", bytesOf(memory.fragmented),
                               percent(shareOfWhole(memory.fragmented, memory.reserved))),
                   bytesOf(memory.largestFree), bytesOf(memory.peak), bytesOf(memory.peakReserved),
                   std::to_string(memory.outOfMemory)});
        devices.emplace_back(device, memory);
    }
    table.print(output);
    ordered_json list = ordered_json::array();
    for (const auto &[device, memory] : devices) {
        list.push_back(deviceJson(device, memory));
        list.back()["at_peak"] = peakByFrame(*snapshot, device, memory, output);
    }
    output.result(ordered_json{{"kind", "memory"},
                               {"segments", snapshot->segments.size()},
                               {"blocks", snapshot->blocks.size()},
                               {"stacks", snapshot->stacks()},
                               {"events", events},
                               {"seconds", historySeconds(*snapshot)},
                               {"devices", list}});
    return {};
}

} // namespace planloom::cli
