// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/activity.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace planloom::cuda {

namespace {

constexpr const char *kWithout = "; training goes on without records of kernels";
constexpr ActivityKind kOfCommands[] = {ActivityKind::Kernel, ActivityKind::Copy, ActivityKind::PeerCopy,
                                        ActivityKind::Fill};
constexpr DriverCall kCalls[] = {
    DriverCall::FillBytes,      DriverCall::FillShorts,        DriverCall::FillWords, DriverCall::CopyToDevice,
    DriverCall::CopyFromDevice, DriverCall::CopyInDevice,      DriverCall::CopyAny,   DriverCall::CopyBetweenDevices,
    DriverCall::Kernel,         DriverCall::CooperativeKernel, DriverCall::Graph,     DriverCall::KernelEx};

std::uint64_t monotonicNow()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// CUPTI's callbacks have no argument of ours.
std::atomic<ActivityBuffers *> g_buffers{nullptr};
std::atomic<Activity *> g_activity{nullptr};
thread_local std::uint64_t t_mark = 0; ///< of what this thread does

void requestBuffer(std::uint8_t **buffer, std::size_t *bytes, std::size_t *most)
{
    ActivityBuffers *buffers = g_buffers.load(std::memory_order_acquire);
    *buffer = buffers != nullptr ? buffers->request() : nullptr;
    *bytes = *buffer != nullptr ? buffers->bytes() : 0;
    *most = 0;
}

void completeBuffer(void * /*context*/, std::uint32_t /*stream*/, std::uint8_t *buffer, std::size_t /*bytes*/,
                    std::size_t valid)
{
    ActivityBuffers *buffers = g_buffers.load(std::memory_order_acquire);
    if (buffers != nullptr && buffer != nullptr)
        buffers->complete(buffer, valid);
}

} // namespace

// --- Buffers --------------------------------------------------------------------------------------------------------

ActivityBuffers::ActivityBuffers(std::size_t count, std::size_t bytes)
    : m_bytes(bytes / sizeof(std::uint64_t) * sizeof(std::uint64_t)),
      m_all(count >= kMost ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1),
      m_memory(std::min(count, kMost) * (bytes / sizeof(std::uint64_t))),
      m_free(m_all)
{
}

bool ActivityBuffers::isWhole() const
{
    return (m_free.load(std::memory_order_acquire) | m_full.load(std::memory_order_acquire)) == m_all;
}

std::uint8_t *ActivityBuffers::request()
{
    std::uint64_t free = m_free.load(std::memory_order_acquire);
    while (free != 0)
        if (m_free.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire))
            return at(static_cast<std::size_t>(__builtin_ctzll(free)));
    m_refused.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
}

void ActivityBuffers::complete(const std::uint8_t *buffer, std::size_t valid)
{
    const std::uint8_t *first = at(0);
    if (std::less<>()(buffer, first) || !std::less<>()(buffer, first + m_memory.size() * sizeof m_memory[0]))
        return; // of an earlier session
    const auto i = static_cast<std::size_t>(buffer - first) / m_bytes;
    m_valid[i] = valid;
    m_full.fetch_or(std::uint64_t{1} << i, std::memory_order_release);
}

// --- Other profilers ------------------------------------------------------------------------------------------------

Status isFreeOfProfilers()
{
    struct Profiler {
        const char *variable, *name;
    };
    for (const Profiler &profiler : {Profiler{"NSYS_PROFILING_SESSION_ID", "Nsight Systems"},
                                     {"NV_COMPUTE_PROFILER_PERFWORKS_DIR", "Nsight Compute"},
                                     {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "Nsight"},
                                     {"NV_SANITIZER_INJECTION_PORT_BASE", "compute-sanitizer"},
                                     {"CUDA_INJECTION64_PATH", "a library that CUDA loads"}})
        if (const char *value = std::getenv(profiler.variable); value != nullptr && *value != '\0')
            return failed("another profiler uses CUPTI (" + std::string(profiler.name) + ": " + profiler.variable
                          + " is set); run without it to see kernels" + kWithout);
    return {};
}

// --- Beginning and end ----------------------------------------------------------------------------------------------

Activity::Activity(const ActivityApi &api, const Sizes &sizes)
    : m_api(api),
      m_buffers(std::make_unique<ActivityBuffers>(sizes.buffers, sizes.bufferBytes)),
      m_most(sizes.records),
      m_marks(kMarks)
{
    m_ready.reserve(m_most);
}

Result<std::unique_ptr<Activity>> Activity::open(const ActivityApi &api, const Sizes &sizes)
{
    std::uint32_t version = 0;
    api.version(&version); // fails without a driver, as what follows does
    if (version != 0 && version < kOldestActivityVersion)
        return unsupported("CUPTI's version " + std::to_string(version) + " is too old (CUDA 12.9 has "
                           + std::to_string(kOldestActivityVersion) + "); install a newer libcupti" + kWithout);
    std::unique_ptr<Activity> activity(new Activity(api, sizes));
    ActivityBuffers *none = nullptr;
    if (!g_buffers.compare_exchange_strong(none, activity->m_buffers.get()))
        return failed(std::string("kernels are recorded already in this process") + kWithout);
    if (const Status subscribed = activity->subscribe(); !subscribed)
        return subscribed.error();
    if (const Status prepared = activity->prepare(); !prepared)
        return prepared.error();
    g_activity.store(activity.get(), std::memory_order_release);
    return activity;
}

Status Activity::subscribe()
{
    char other[128] = {};
    const int error = m_api.subscribe(&m_subscriber, kWatcher, "Planloom", other, sizeof other - 1);
    if (error == kActivitySuccess)
        return {};
    m_subscriber = nullptr;
    if (error == kActivityOtherSubscriber)
        return failed("another profiler uses CUPTI"
                      + (other[0] != '\0' ? " (" + std::string(other) + ")" : std::string()) + "; end it to see kernels"
                      + kWithout);
    return failure("subscribing", error);
}

/// The kinds are enabled once here, before modules are loaded, since the first time generates code for seconds.
Status Activity::prepare()
{
    if (const int error = m_api.registerBuffers(requestBuffer, completeBuffer); error != kActivitySuccess)
        return failure("its buffers", error);
    // Once, as CUPTI spoils the first records behind another time. Where it fails, clocks differ by what
    // compareClocks() finds.
    static std::atomic<bool> registered{false};
    if (!registered)
        registered = m_api.registerClock(monotonicNow) == kActivitySuccess;
    for (const Level level : {Level::Commands, Level::Graphs})
        if (const Status started = start(level); !started)
            return started.error();
    stop();
    // Where that fails, commands of graphs belong to their task and to no operator.
    m_api.watchNodes(m_subscriber);
    compareClocks();
    return {};
}

Error Activity::failure(const char *what, int error) const
{
    const std::string reason = error == kActivityUnknown ? "no driver answers" : std::string(m_api.errorText(error));
    return failed("CUPTI cannot record kernels: " + std::string(what) + " failed: " + reason + kWithout);
}

Activity::~Activity()
{
    stop();
    Activity *self = this;
    g_activity.compare_exchange_strong(self, nullptr); // one that was refused is none
    if (m_subscriber != nullptr) {
        m_api.flushAll(kFlushForced);
        m_api.unsubscribe(m_subscriber);
    }
    ActivityBuffers *own = m_buffers.get();
    g_buffers.compare_exchange_strong(own, nullptr);
    if (!m_buffers->isWhole()) // CUPTI keeps some, and may write into them until the process ends
        static_cast<void>(m_buffers.release());
}

Status Activity::start(Level level)
{
    const std::scoped_lock lock(m_levelMutex);
    const Status enabled = enable(level);
    m_level = enabled ? level : Level::Off;
    if (!enabled)
        disable();
    return enabled;
}

void Activity::stop()
{
    const std::scoped_lock lock(m_levelMutex);
    if (std::exchange(m_level, Level::Off) != Level::Off)
        disable();
}

/// Graphs and their commands are not recorded at once: with records of graphs CUPTI makes none of what is in them.
Status Activity::enable(Level level)
{
    const bool commands = level == Level::Commands;
    int error = watchCalls(level);
    if (error != kActivitySuccess)
        return failure("watching calls", error);
    const auto change = [&](ActivityKind kind, bool on) {
        if (!on)
            m_api.disable(kind);
        else if (error == kActivitySuccess)
            error = m_api.enable(kind);
    };
    for (const bool on : {false, true}) {
        if ((level == Level::Graphs) == on)
            change(ActivityKind::Graph, on);
        for (const ActivityKind kind : kOfCommands)
            if (commands == on)
                change(kind, on);
    }
    return error == kActivitySuccess ? Status() : failure("enabling records", error);
}

void Activity::disable()
{
    for (const ActivityKind kind : kOfCommands)
        m_api.disable(kind);
    m_api.disable(ActivityKind::Graph);
    watchCalls(Level::Off);
}

void Activity::mark(std::uint64_t mark) { t_mark = mark; }

// --- Calls ----------------------------------------------------------------------------------------------------------

const ActivityWatcher Activity::kWatcher = {
    .nodeMade =
        [](std::uint64_t node, std::uint64_t original) {
            if (Activity *activity = g_activity.load(std::memory_order_acquire); activity != nullptr && node != 0)
                activity->noteNode(node, original, t_mark);
        },
    .callBegins =
        [](std::uint32_t correlation) {
            if (Activity *activity = g_activity.load(std::memory_order_acquire); activity != nullptr && t_mark != 0)
                activity->noteCall(correlation, t_mark);
        },
};

/// Those that start what the level records.
int Activity::watchCalls(Level level)
{
    for (const DriverCall call : kCalls) {
        const bool on = level == Level::Commands || (level == Level::Graphs && call == DriverCall::Graph);
        if (const int error = m_api.watchCall(m_subscriber, call, on); error != kActivitySuccess)
            return error;
    }
    return kActivitySuccess;
}

void Activity::noteCall(std::uint32_t correlation, std::uint64_t mark)
{
    Mark &slot = m_marks[correlation % kMarks];
    slot.correlation.store(0, std::memory_order_relaxed);
    slot.mark.store(mark, std::memory_order_release); // who reads it does not find the correlation before any more
    slot.correlation.store(correlation, std::memory_order_release);
}

/// 0: it had none, or was overwritten.
std::uint64_t Activity::markOfCall(std::uint32_t correlation) const
{
    const Mark &slot = m_marks[correlation % kMarks];
    if (slot.correlation.load(std::memory_order_acquire) != correlation)
        return 0;
    const std::uint64_t mark = slot.mark.load(std::memory_order_acquire);
    return slot.correlation.load(std::memory_order_relaxed) == correlation ? mark : 0;
}

// --- Graphs ---------------------------------------------------------------------------------------------------------

Activity::Instantiation::Instantiation()
{
    Activity *activity = g_activity.load(std::memory_order_acquire);
    if (activity == nullptr)
        return;
    m_lock = std::unique_lock(activity->m_levelMutex);
    if (activity->m_level != Level::Graphs && activity->m_api.enable(ActivityKind::Graph) == kActivitySuccess)
        m_enabled = &activity->m_api;
}

Activity::Instantiation::~Instantiation()
{
    if (m_enabled != nullptr)
        m_enabled->disable(ActivityKind::Graph);
}

void Activity::noteNode(std::uint64_t node, std::uint64_t original, std::uint64_t mark)
{
    const std::scoped_lock lock(m_nodesMutex);
    const auto known = m_nodes.find(original);
    const std::uint64_t own = original == 0 ? mark : known != m_nodes.end() ? known->second : 0;
    if (own != 0)
        m_nodes[node] = own;
}

std::uint64_t Activity::markOfNode(std::uint64_t node)
{
    const std::scoped_lock lock(m_nodesMutex);
    const auto known = m_nodes.find(node);
    return known != m_nodes.end() ? known->second : 0;
}

// --- Records --------------------------------------------------------------------------------------------------------

/// By Cristian's method: what half of the shortest time for reading both cannot tell from zero is zero.
void Activity::compareClocks()
{
    constexpr int kRounds = 8;
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (int round = 0; round < kRounds; ++round) {
        std::uint64_t theirs = 0;
        const std::uint64_t before = monotonicNow();
        if (m_api.now(&theirs) != kActivitySuccess)
            return;
        const std::uint64_t after = monotonicNow();
        const auto taken = static_cast<std::int64_t>(after - before);
        if (taken >= shortest)
            continue;
        shortest = taken;
        const auto offset = static_cast<std::int64_t>(theirs - before) - taken / 2;
        m_offset = offset >= -taken / 2 - 1 && offset <= taken / 2 + 1 ? 0 : offset;
        m_counts.uncertainty = (taken + 1) / 2;
    }
}

void Activity::collect(bool last)
{
    m_ready.erase(m_ready.begin(), m_ready.begin() + static_cast<std::ptrdiff_t>(m_taken));
    m_taken = 0;
    compareClocks();
    m_api.flushAll(last ? kFlushForced : 0);
    m_buffers->drain([this](std::uint8_t *buffer, std::size_t valid) { read(buffer, valid); });
    std::size_t dropped = 0;
    if (m_api.dropped(&dropped) == kActivitySuccess)
        m_counts.dropped += static_cast<std::int64_t>(dropped);
}

void Activity::read(std::uint8_t *buffer, std::size_t valid)
{
    ActivityHead *record = nullptr;
    while (m_api.nextRecord(buffer, valid, &record) == kActivitySuccess && record != nullptr)
        read(*record);
}

void Activity::read(const ActivityHead &record)
{
    switch (record.kind) {
    case ActivityKind::Kernel: {
        const auto &kernel = reinterpret_cast<const KernelActivity &>(record);
        found(kernel, PLANLOOM_KERNEL, 0, kernel.node);
        break;
    }
    case ActivityKind::Copy: {
        const auto &copy = reinterpret_cast<const CopyActivity &>(record);
        found(copy, PLANLOOM_COPY, copy.bytes, copy.node);
        break;
    }
    case ActivityKind::Fill: {
        const auto &fill = reinterpret_cast<const CopyActivity &>(record);
        found(fill, PLANLOOM_FILL, fill.bytes, fill.node);
        break;
    }
    case ActivityKind::PeerCopy: {
        const auto &copy = reinterpret_cast<const PeerCopyActivity &>(record);
        found(copy, PLANLOOM_COPY, copy.bytes, copy.node);
        break;
    }
    case ActivityKind::Graph: found(reinterpret_cast<const GraphActivity &>(record), PLANLOOM_GRAPH, 0, 0); break;
    }
}

template <class Record>
void Activity::found(const Record &record, std::int32_t kind, std::uint64_t bytes, std::uint64_t node)
{
    if (record.start == 0 || record.end <= record.start) {
        ++m_counts.untimed;
        return;
    }
    const std::uint64_t mark = markOfCall(record.correlation);
    if (mark == 0) {
        ++m_counts.unmarked;
        return;
    }
    if (m_ready.size() == m_most) {
        ++m_counts.overrun;
        return;
    }
    m_ready.push_back({static_cast<std::int64_t>(record.start) - m_offset,
                       static_cast<std::int64_t>(record.end) - m_offset, mark + (node != 0 ? markOfNode(node) : 0),
                       static_cast<std::int64_t>(bytes), kind, static_cast<std::int32_t>(record.device)});
}

std::size_t Activity::take(std::span<PlanloomActivityRecord> records)
{
    const std::size_t count = std::min(records.size(), m_ready.size() - m_taken);
    std::copy_n(m_ready.begin() + static_cast<std::ptrdiff_t>(m_taken), count, records.begin());
    m_taken += count;
    m_counts.delivered += static_cast<std::int64_t>(count);
    return count;
}

PlanloomActivityCounts Activity::counts() const
{
    PlanloomActivityCounts counts = m_counts;
    counts.refused = m_buffers->refused();
    return counts;
}

} // namespace planloom::cuda
