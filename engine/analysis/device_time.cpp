// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/device_time.h"

#include "engine/trace/waits.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>

namespace planloom::analysis {
namespace {

using trace::Record;
using trace::Trace;
using trace::Window;

enum Doing { kComputes, kMoves, kWaits };

/// From `time` on one more (or less) does `what`.
struct Change {
    std::int64_t time = 0;
    Doing what = kComputes;
    int by = 0;
    auto operator<=>(const Change &) const = default;
};

std::vector<std::int64_t> waitsOf(const Trace &trace, const Collectives &collectives)
{
    std::vector<std::int64_t> waits = trace::waits(trace);
    for (const Arrival &arrival : collectives.arrivals)
        waits[arrival.record] = std::max(waits[arrival.record], arrival.waited);
    return waits;
}

void addSpan(std::vector<Change> &changes, Window window, std::int64_t begin, std::int64_t end, Doing what)
{
    begin = std::max(begin, window.begin);
    end = std::min(end, window.end);
    if (begin >= end)
        return;
    changes.push_back({begin, what, +1});
    changes.push_back({end, what, -1});
}

void addRecord(std::vector<Change> &changes, Window window, const Record &record, trace::Work work, std::int64_t wait)
{
    const std::int64_t end = record.start + record.duration;
    if (work != trace::Work::Communication)
        return addSpan(changes, window, record.start, end, kComputes);
    addSpan(changes, window, record.start, record.start + wait, kWaits);
    addSpan(changes, window, record.start + wait, end, kMoves);
}

DeviceTime sweep(std::vector<Change> &changes, Window window)
{
    std::ranges::sort(changes);
    DeviceTime device;
    device.window = std::max<std::int64_t>(window.end - window.begin, 0);
    std::array<int, 3> running{};
    std::int64_t before = window.begin;
    for (const Change &change : changes) {
        const std::int64_t span = change.time - before;
        const bool communicates = running[kMoves] > 0 || running[kWaits] > 0;
        if (running[kComputes] > 0) {
            device.computing += span;
            device.hidden += communicates ? span : 0;
        } else if (running[kMoves] > 0) {
            device.moving += span;
        } else if (running[kWaits] > 0) {
            device.waiting += span;
        }
        device.communication += communicates ? span : 0;
        running[change.what] += change.by;
        before = change.time;
    }
    device.withoutWork = device.window - device.computing - device.moving - device.waiting;
    return device;
}

} // namespace

std::vector<DeviceTime> deviceTimes(const Trace &trace, Window window, const Collectives &collectives)
{
    struct Rank {
        std::vector<Change> changes;
        bool computes = false;
    };
    std::map<std::int32_t, Rank> ranks;
    const std::vector<std::int64_t> waits = waitsOf(trace, collectives);
    for (std::size_t i = 0; i < trace.records.size(); ++i) {
        const Record &record = trace.records[i];
        const trace::TaskInfo *task = trace.task(record.task);
        if (!task || trace.lane(record.lane).work == trace::Work::Device)
            continue;
        const trace::Work work = trace.kind(task->kind).work;
        if (work == trace::Work::Host || work == trace::Work::Device)
            continue;
        Rank &rank = ranks[record.rank];
        rank.computes = rank.computes || work != trace::Work::Communication;
        addRecord(rank.changes, window, record, work, waits[i]);
    }
    std::vector<DeviceTime> devices;
    for (auto &[number, rank] : ranks) {
        if (!rank.computes)
            continue;
        devices.push_back(sweep(rank.changes, window));
        devices.back().rank = number;
    }
    return devices;
}

DeviceTime total(const std::vector<DeviceTime> &devices)
{
    DeviceTime sum;
    sum.rank = -1;
    for (const DeviceTime &device : devices) {
        for (const auto part : {&DeviceTime::window, &DeviceTime::computing, &DeviceTime::moving, &DeviceTime::waiting,
                                &DeviceTime::withoutWork, &DeviceTime::communication, &DeviceTime::hidden})
            sum.*part += device.*part;
    }
    return sum;
}

} // namespace planloom::analysis
