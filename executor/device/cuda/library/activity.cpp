// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/activity_table.h"
#include "executor/device/cuda/library/readings.h"

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <dlfcn.h>

namespace planloom::cuda {

namespace {

// --- What activity_api.h says about CUPTI ---------------------------------------------------------------------------

static_assert(kActivitySuccess == CUPTI_SUCCESS && kActivityNoMoreRecords == CUPTI_ERROR_MAX_LIMIT_REACHED
              && kActivityUnknown == CUPTI_ERROR_UNKNOWN
              && kActivityOtherSubscriber == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(static_cast<int>(ActivityKind::Copy) == CUPTI_ACTIVITY_KIND_MEMCPY
              && static_cast<int>(ActivityKind::Fill) == CUPTI_ACTIVITY_KIND_MEMSET
              && static_cast<int>(ActivityKind::Kernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
              && static_cast<int>(ActivityKind::PeerCopy) == CUPTI_ACTIVITY_KIND_MEMCPY2
              && static_cast<int>(ActivityKind::Graph) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

template <class Ours, class Theirs>
constexpr bool sameTimes()
{
    return offsetof(Ours, start) == offsetof(Theirs, start) && offsetof(Ours, end) == offsetof(Theirs, end)
        && offsetof(Ours, device) == offsetof(Theirs, deviceId) && offsetof(Ours, stream) == offsetof(Theirs, streamId)
        && offsetof(Ours, correlation) == offsetof(Theirs, correlationId);
}
static_assert(sameTimes<KernelActivity, CUpti_ActivityKernel9>() && sameTimes<KernelActivity, CUpti_ActivityKernel10>()
              && sameTimes<CopyActivity, CUpti_ActivityMemcpy5>() && sameTimes<CopyActivity, CUpti_ActivityMemcpy6>()
              && sameTimes<CopyActivity, CUpti_ActivityMemset4>()
              && sameTimes<PeerCopyActivity, CUpti_ActivityMemcpyPtoP4>());
static_assert(sameTimes<GraphActivity, CUpti_ActivityGraphTrace>()
              && sameTimes<GraphActivity, CUpti_ActivityGraphTrace2>());
static_assert(offsetof(KernelActivity, node) == offsetof(CUpti_ActivityKernel9, graphNodeId)
              && offsetof(KernelActivity, node) == offsetof(CUpti_ActivityKernel10, graphNodeId)
              && offsetof(CopyActivity, node) == offsetof(CUpti_ActivityMemcpy5, graphNodeId)
              && offsetof(CopyActivity, node) == offsetof(CUpti_ActivityMemcpy6, graphNodeId)
              && offsetof(CopyActivity, node) == offsetof(CUpti_ActivityMemset4, graphNodeId)
              && offsetof(PeerCopyActivity, node) == offsetof(CUpti_ActivityMemcpyPtoP4, graphNodeId));
static_assert(offsetof(CopyActivity, bytes) == offsetof(CUpti_ActivityMemcpy6, bytes)
              && offsetof(CopyActivity, bytes) == offsetof(CUpti_ActivityMemset4, bytes)
              && offsetof(PeerCopyActivity, bytes) == offsetof(CUpti_ActivityMemcpyPtoP4, bytes));
constexpr bool isCall(DriverCall ours, CUpti_CallbackId theirs)
{
    return static_cast<CUpti_CallbackId>(ours) == theirs;
}
static_assert(isCall(DriverCall::FillBytes, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async)
              && isCall(DriverCall::FillShorts, CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async)
              && isCall(DriverCall::FillWords, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async)
              && isCall(DriverCall::CopyToDevice, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2)
              && isCall(DriverCall::CopyFromDevice, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2)
              && isCall(DriverCall::CopyInDevice, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2)
              && isCall(DriverCall::CopyAny, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync)
              && isCall(DriverCall::CopyBetweenDevices, CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync)
              && isCall(DriverCall::Kernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel)
              && isCall(DriverCall::CooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel)
              && isCall(DriverCall::Graph, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch)
              && isCall(DriverCall::KernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx));

// --- The library ----------------------------------------------------------------------------------------------------

#define PLANLOOM_ACTIVITY_FUNCTIONS(X)                                                                                 \
    X(cuptiGetVersion)                                                                                                 \
    X(cuptiGetResultString)                                                                                            \
    X(cuptiSubscribe_v2)                                                                                               \
    X(cuptiUnsubscribe)                                                                                                \
    X(cuptiEnableCallback)                                                                                             \
    X(cuptiGetGraphNodeId)                                                                                             \
    X(cuptiActivityRegisterCallbacks)                                                                                  \
    X(cuptiActivityRegisterTimestampCallback)                                                                          \
    X(cuptiGetTimestamp)                                                                                               \
    X(cuptiActivityEnable)                                                                                             \
    X(cuptiActivityDisable)                                                                                            \
    X(cuptiActivityFlushAll)                                                                                           \
    X(cuptiActivityGetNextRecord)                                                                                      \
    X(cuptiActivityGetNumDroppedRecords)

struct ActivityLibrary {
#define X(Name) decltype(&::Name) Name = nullptr;
    PLANLOOM_ACTIVITY_FUNCTIONS(X)
#undef X

    Status open()
    {
        void *library = nullptr;
        for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
            if (library == nullptr)
                library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            return notFound("libcupti.so is not installed, so kernels are not recorded; install CUPTI (cuda-cupti), or "
                            "name its folder in LD_LIBRARY_PATH");
        const char *missing = nullptr;
#define X(Name)                                                                                                        \
    Name = reinterpret_cast<decltype(Name)>(::dlsym(library, #Name));                                                  \
    missing = Name == nullptr ? #Name : missing;
        PLANLOOM_ACTIVITY_FUNCTIONS(X)
#undef X
        if (missing != nullptr)
            return unsupported("libcupti.so has no " + std::string(missing)
                               + ", so kernels are not recorded; install the one of CUDA 12.9 or newer");
        return {};
    }
};

ActivityLibrary &activityLibrary()
{
    static ActivityLibrary kLibrary;
    return kLibrary;
}

std::atomic<const ActivityWatcher *> g_watcher{nullptr};

/// Nodes of graphs that are made, or copied when a graph is instantiated.
void seeNode(const ActivityWatcher &watcher, CUpti_CallbackId id, const CUpti_ResourceData &resource)
{
    const auto *graph = static_cast<const CUpti_GraphData *>(resource.resourceDescriptor);
    const auto number = activityLibrary().cuptiGetGraphNodeId;
    const bool isCopy = id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
    std::uint64_t node = 0;
    std::uint64_t original = 0;
    if (graph == nullptr || (!isCopy && id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED)
        || number(graph->node, &node) != CUPTI_SUCCESS
        || (isCopy && number(graph->originalNode, &original) != CUPTI_SUCCESS))
        return;
    watcher.nodeMade(node, original);
}

void see(void * /*nothing*/, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const ActivityWatcher *watcher = g_watcher.load(std::memory_order_acquire);
    if (watcher == nullptr || data == nullptr)
        return;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        seeNode(*watcher, id, *static_cast<const CUpti_ResourceData *>(data));
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API)
        return;
    const auto &call = *static_cast<const CUpti_CallbackData *>(data);
    if (call.callbackSite == CUPTI_API_ENTER)
        watcher->callBegins(call.correlationId);
}

int watchNodes(void *subscriber)
{
    int first = CUPTI_SUCCESS;
    for (const CUpti_CallbackId id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
        if (const int error = activityLibrary().cuptiEnableCallback(1, static_cast<CUpti_SubscriberHandle>(subscriber),
                                                                    CUPTI_CB_DOMAIN_RESOURCE, id);
            first == CUPTI_SUCCESS)
            first = error;
    return first;
}

int watchCall(void *subscriber, DriverCall call, bool on)
{
    return activityLibrary().cuptiEnableCallback(static_cast<std::uint32_t>(on),
                                                 static_cast<CUpti_SubscriberHandle>(subscriber),
                                                 CUPTI_CB_DOMAIN_DRIVER_API, static_cast<CUpti_CallbackId>(call));
}

int subscribe(void **subscriber, const ActivityWatcher &watcher, const char *name, char *other, std::size_t otherBytes)
{
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = name;
    params.oldSubscriberName = other;
    params.oldSubscriberSize = otherBytes;
    g_watcher.store(&watcher, std::memory_order_release);
    return activityLibrary().cuptiSubscribe_v2(reinterpret_cast<CUpti_SubscriberHandle *>(subscriber), see, nullptr,
                                               &params);
}

ActivityApi openedActivity()
{
    ActivityApi api{};
    api.version = [](std::uint32_t *version) -> int { return activityLibrary().cuptiGetVersion(version); };
    api.errorText = [](int error) {
        const char *text = nullptr;
        activityLibrary().cuptiGetResultString(static_cast<CUptiResult>(error), &text);
        return text != nullptr ? text : "unknown error";
    };
    api.subscribe = subscribe;
    api.unsubscribe = [](void *subscriber) -> int {
        return activityLibrary().cuptiUnsubscribe(static_cast<CUpti_SubscriberHandle>(subscriber));
    };
    api.watchNodes = watchNodes;
    api.watchCall = watchCall;
    api.registerBuffers = [](RequestBuffer request, CompleteBuffer complete) -> int {
        return activityLibrary().cuptiActivityRegisterCallbacks(
            request, reinterpret_cast<CUpti_BuffersCallbackCompleteFunc>(complete));
    };
    api.registerClock = [](std::uint64_t (*now)()) -> int {
        return activityLibrary().cuptiActivityRegisterTimestampCallback(now);
    };
    api.now = [](std::uint64_t *time) -> int { return activityLibrary().cuptiGetTimestamp(time); };
    api.enable = [](ActivityKind kind) -> int {
        return activityLibrary().cuptiActivityEnable(static_cast<CUpti_ActivityKind>(kind));
    };
    api.disable = [](ActivityKind kind) -> int {
        return activityLibrary().cuptiActivityDisable(static_cast<CUpti_ActivityKind>(kind));
    };
    api.flushAll = [](unsigned int flags) -> int { return activityLibrary().cuptiActivityFlushAll(flags); };
    api.nextRecord = [](std::uint8_t *buffer, std::size_t valid, ActivityHead **record) -> int {
        return activityLibrary().cuptiActivityGetNextRecord(buffer, valid, reinterpret_cast<CUpti_Activity **>(record));
    };
    api.readings = readingsOf;
    api.dropped = [](std::size_t *count) -> int {
        return activityLibrary().cuptiActivityGetNumDroppedRecords(nullptr, 0, count);
    };
    return api;
}

Result<const ActivityApi *> installedActivity()
{
    static const Status kOpened = activityLibrary().open();
    static const ActivityApi kActivity = openedActivity();
    return kOpened ? Result<const ActivityApi *>(&kActivity) : Result<const ActivityApi *>(kOpened.error());
}

} // namespace

} // namespace planloom::cuda

extern "C" __attribute__((visibility("default"))) const PlanloomActivityTable *planloomActivityTable();
const PlanloomActivityTable *planloomActivityTable()
{
    static const PlanloomActivityTable kTable = planloom::cuda::activityTableOf<planloom::cuda::installedActivity>();
    return &kTable;
}
