// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulated_activity.h"

#include "executor/device/cuda/activity_table.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

namespace planloom::test {

namespace {

using cuda::ActivityKind;

/// Of a record of CUDA 13.0.
std::size_t bytesOf(ActivityKind kind)
{
    switch (kind) {
    case ActivityKind::Kernel: return 216;
    case ActivityKind::Fill: return 88;
    case ActivityKind::Graph: return 56;
    case ActivityKind::Copy:
    case ActivityKind::PeerCopy: break;
    }
    return 96;
}

/// A buffer that is being filled.
struct Filling {
    std::uint8_t *data = nullptr;
    std::size_t bytes = 0;
    std::size_t used = 0;
};

struct Library {
    EmulatedActivity::Faults faults;
    std::mutex mutex; ///< guards what follows
    cuda::RequestBuffer request = nullptr;
    cuda::CompleteBuffer complete = nullptr;
    std::set<ActivityKind> enabled;
    Filling filling;
    std::set<cuda::DriverCall> watched;
    std::size_t dropped = 0;
    int written = 0;
    std::atomic<int> readings{0};
    bool subscribed = false;
    std::atomic<bool> any{false}; ///< kinds are enabled
    std::atomic<bool> nodesWatched{false};
    std::atomic<const cuda::ActivityWatcher *> watcher{nullptr};
    std::atomic<std::uint64_t> nodes{0};
    std::atomic<std::uint64_t (*)()> clock{nullptr};
    std::atomic<int> clocks{0};  ///< that were registered in this process
    std::atomic<int> spoiled{0}; ///< records still to come with wrong times
    std::atomic<std::uint32_t> correlations{0};
};

Library &library()
{
    static Library kLibrary;
    return kLibrary;
}

void giveBack(Filling &filling)
{
    if (filling.data != nullptr)
        library().complete(nullptr, 0, filling.data, filling.bytes, filling.used);
    filling = {};
}

/// Room for @p bytes; nullptr: there is no buffer, and the record is dropped.
std::uint8_t *room(Filling &filling, std::size_t bytes)
{
    if (filling.used + bytes > filling.bytes)
        giveBack(filling);
    if (filling.data == nullptr) {
        std::size_t most = 0;
        library().request(&filling.data, &filling.bytes, &most);
    }
    if (filling.data == nullptr) {
        ++library().dropped;
        return nullptr;
    }
    std::uint8_t *at = filling.data + filling.used;
    filling.used += bytes;
    std::memset(at, 0, bytes);
    return at;
}

template <class Record>
void write(Filling &filling, const Record &record)
{
    if (std::uint8_t *at = room(filling, bytesOf(record.kind)))
        std::memcpy(at, &record, std::min(sizeof record, bytesOf(record.kind)));
}

template <class Record>
Record timed(const EmulatedActivity::Ran &what, bool hasTimes)
{
    Record record{};
    record.kind = what.kind;
    record.correlation = what.correlation;
    if (hasTimes) {
        const std::uint64_t wrong = library().spoiled > 0 && library().spoiled-- > 0 ? 100'000'000'000'000 : 0;
        record.start = what.start + wrong;
        record.end = std::max(what.end, what.start + 1) + wrong;
    }
    return record;
}

/// Tells of the call where it is watched. Nothing is held.
std::uint32_t begin(bool isWatched)
{
    const std::uint32_t correlation = ++library().correlations;
    if (isWatched)
        library().watcher.load()->callBegins(correlation);
    return correlation;
}

bool isEnabled(ActivityKind kind)
{
    const std::scoped_lock lock(library().mutex);
    return library().enabled.contains(kind);
}

int failing() { return library().faults.driverMissing ? cuda::kActivityUnknown : cuda::kActivitySuccess; }

int subscribe(void **subscriber, const cuda::ActivityWatcher &watcher, const char * /*name*/, char *other,
              std::size_t otherBytes)
{
    const std::scoped_lock lock(library().mutex);
    if (library().subscribed || !library().faults.otherSubscriber.empty()) {
        std::strncpy(other, library().faults.otherSubscriber.c_str(), otherBytes);
        return cuda::kActivityOtherSubscriber;
    }
    if (failing() != 0)
        return failing();
    library().subscribed = true;
    library().watcher = &watcher;
    *subscriber = &library();
    return cuda::kActivitySuccess;
}

int registerBuffers(cuda::RequestBuffer request, cuda::CompleteBuffer complete)
{
    const std::scoped_lock lock(library().mutex);
    library().request = request;
    library().complete = complete;
    return failing();
}

int enable(ActivityKind kind)
{
    const std::scoped_lock lock(library().mutex);
    library().enabled.insert(kind);
    library().any = true;
    return failing();
}

int disable(ActivityKind kind)
{
    const std::scoped_lock lock(library().mutex);
    library().enabled.erase(kind);
    library().any = !library().enabled.empty();
    return failing();
}

int flushAll(unsigned int /*flags*/)
{
    const std::scoped_lock lock(library().mutex);
    giveBack(library().filling);
    return failing();
}

int nextRecord(std::uint8_t *buffer, std::size_t valid, cuda::ActivityHead **record)
{
    auto *next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t *>(*record) + bytesOf((*record)->kind);
    if (next >= buffer + valid)
        return cuda::kActivityNoMoreRecords;
    *record = reinterpret_cast<cuda::ActivityHead *>(next);
    return cuda::kActivitySuccess;
}

int takeDropped(std::size_t *count)
{
    const std::scoped_lock lock(library().mutex);
    *count = library().dropped;
    library().dropped = 0;
    return failing();
}

cuda::ActivityApi emulatedApi()
{
    cuda::ActivityApi api{};
    api.version = [](std::uint32_t *version) {
        *version = library().faults.driverMissing ? 0 : library().faults.version;
        return failing();
    };
    api.errorText = [](int) { return "an error of the emulated library"; };
    api.subscribe = subscribe;
    api.unsubscribe = [](void *) {
        const std::scoped_lock lock(library().mutex);
        library().subscribed = false;
        library().nodesWatched = false;
        library().watched.clear();
        return cuda::kActivitySuccess;
    };
    api.watchNodes = [](void *) {
        library().nodesWatched = true;
        return failing();
    };
    api.watchCall = [](void *, cuda::DriverCall call, bool on) {
        const std::scoped_lock lock(library().mutex);
        if (on)
            library().watched.insert(call);
        else
            library().watched.erase(call);
        return failing();
    };
    api.registerBuffers = registerBuffers;
    api.registerClock = [](std::uint64_t (*now)()) {
        if (library().faults.clockAhead != 0)
            return 1;
        library().clock = now;
        if (++library().clocks > 1)
            library().spoiled = 100;
        return cuda::kActivitySuccess;
    };
    api.now = [](std::uint64_t *time) {
        *time = EmulatedActivity::now();
        return cuda::kActivitySuccess;
    };
    api.enable = enable;
    api.disable = disable;
    api.readings = [](std::int32_t device) -> PlanloomReadings {
        const int power = 340 + 10 * (library().readings++ % 3);
        return device == 0 ? PlanloomReadings{1980, 2619, power, 45} : PlanloomReadings{-1, -1, -1, -1};
    };
    api.flushAll = flushAll;
    api.nextRecord = nextRecord;
    api.dropped = takeDropped;
    return api;
}

} // namespace

void EmulatedActivity::set(const Faults &faults)
{
    library().faults = faults;
    library().clock = nullptr;
}

Result<const cuda::ActivityApi *> EmulatedActivity::provider()
{
    static const cuda::ActivityApi kApi = emulatedApi();
    if (library().faults.missing)
        return notFound("libcupti.so is not installed");
    return &kApi;
}

const PlanloomActivityTable &EmulatedActivity::table()
{
    static const PlanloomActivityTable kTable = cuda::activityTableOf<EmulatedActivity::provider>();
    return kTable;
}

std::uint64_t EmulatedActivity::now()
{
    if (std::uint64_t(*clock)() = library().clock)
        return clock();
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()
                                      + library().faults.clockAhead);
}

std::uint32_t EmulatedActivity::called(ActivityKind kind, cuda::DriverCall call)
{
    if (!library().any)
        return 0;
    std::unique_lock lock(library().mutex);
    const bool isRecorded = library().enabled.contains(kind);
    const bool isWatched = library().watched.contains(call);
    lock.unlock();
    const std::uint32_t correlation = begin(isWatched);
    return isRecorded ? correlation : 0;
}

std::uint32_t EmulatedActivity::startsGraph(bool &whole)
{
    if (!library().any)
        return 0;
    whole = isEnabled(ActivityKind::Graph);
    return called(whole ? ActivityKind::Graph : ActivityKind::Kernel, cuda::DriverCall::Graph);
}

bool EmulatedActivity::recordsGraphs() { return library().any && isEnabled(ActivityKind::Graph); }

std::uint64_t EmulatedActivity::nodeMade(std::uint64_t original)
{
    const std::uint64_t node = ++library().nodes;
    if (library().nodesWatched)
        library().watcher.load()->nodeMade(node, original);
    return node;
}

void EmulatedActivity::ran(const Ran &what)
{
    const std::scoped_lock lock(library().mutex);
    if (!library().enabled.contains(what.kind))
        return;
    const int number = ++library().written;
    const Faults &faults = library().faults;
    if (faults.dropEach != 0 && number % faults.dropEach == 0) {
        ++library().dropped;
        return;
    }
    const bool hasTimes = faults.untimedEach == 0 || number % faults.untimedEach != 0;
    if (what.kind == ActivityKind::Graph) {
        write(library().filling, timed<cuda::GraphActivity>(what, hasTimes));
        return;
    }
    if (what.kind == ActivityKind::Kernel) {
        auto kernel = timed<cuda::KernelActivity>(what, hasTimes);
        kernel.node = what.node;
        write(library().filling, kernel);
        return;
    }
    auto copy = timed<cuda::CopyActivity>(what, hasTimes);
    copy.bytes = what.bytes;
    copy.node = what.node;
    write(library().filling, copy);
}

} // namespace planloom::test
