// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/activity_table.h"

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
static_assert(kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED && kMarkKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
static_assert(static_cast<int>(ActivityKind::Copy) == CUPTI_ACTIVITY_KIND_MEMCPY
              && static_cast<int>(ActivityKind::Fill) == CUPTI_ACTIVITY_KIND_MEMSET
              && static_cast<int>(ActivityKind::Kernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
              && static_cast<int>(ActivityKind::PeerCopy) == CUPTI_ACTIVITY_KIND_MEMCPY2
              && static_cast<int>(ActivityKind::Mark) == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION
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
static_assert(offsetof(MarkActivity, markKind) == offsetof(CUpti_ActivityExternalCorrelation, externalKind)
              && offsetof(MarkActivity, mark) == offsetof(CUpti_ActivityExternalCorrelation, externalId)
              && offsetof(MarkActivity, correlation) == offsetof(CUpti_ActivityExternalCorrelation, correlationId)
              && sizeof(MarkActivity) == sizeof(CUpti_ActivityExternalCorrelation));

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
    X(cuptiActivityEnableRuntimeApi)                                                                                   \
    X(cuptiActivityEnableDriverApi)                                                                                    \
    X(cuptiActivityPushExternalCorrelationId)                                                                          \
    X(cuptiActivityPopExternalCorrelationId)                                                                           \
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

std::atomic<NodeMade> g_nodeMade{nullptr};

/// Of resources: nodes of graphs that are made, or copied when a graph is instantiated.
void seeResource(void * /*nothing*/, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const NodeMade made = g_nodeMade.load(std::memory_order_acquire);
    if (domain != CUPTI_CB_DOMAIN_RESOURCE || data == nullptr || made == nullptr
        || (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED))
        return;
    const auto *graph =
        static_cast<const CUpti_GraphData *>(static_cast<const CUpti_ResourceData *>(data)->resourceDescriptor);
    std::uint64_t node = 0;
    std::uint64_t original = 0;
    const auto number = activityLibrary().cuptiGetGraphNodeId;
    if (graph == nullptr || number(graph->node, &node) != CUPTI_SUCCESS)
        return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED && number(graph->originalNode, &original) != CUPTI_SUCCESS)
        return;
    made(node, original);
}

int watchNodes(void *subscriber, NodeMade made)
{
    g_nodeMade.store(made, std::memory_order_release);
    int first = CUPTI_SUCCESS;
    for (const CUpti_CallbackId id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
        if (const int error = activityLibrary().cuptiEnableCallback(1, static_cast<CUpti_SubscriberHandle>(subscriber),
                                                                    CUPTI_CB_DOMAIN_RESOURCE, id);
            first == CUPTI_SUCCESS)
            first = error;
    return first;
}

int subscribe(void **subscriber, const char *name, char *other, std::size_t otherBytes)
{
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = name;
    params.oldSubscriberName = other;
    params.oldSubscriberSize = otherBytes;
    return activityLibrary().cuptiSubscribe_v2(reinterpret_cast<CUpti_SubscriberHandle *>(subscriber), seeResource,
                                               nullptr, &params);
}

/// Ours go through the runtime, cuBLASLt's through either.
int recordCalls(RecordedCalls which)
{
    const auto each = static_cast<std::uint8_t>(which == RecordedCalls::Commands);
    int first = CUPTI_SUCCESS;
    const auto keep = [&first](int error) { first = first == CUPTI_SUCCESS ? error : first; };
    keep(activityLibrary().cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
                                                         static_cast<std::uint8_t>(which != RecordedCalls::None)));
    for (const CUpti_CallbackId call :
         {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
          CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020})
        keep(activityLibrary().cuptiActivityEnableRuntimeApi(call, each));
    for (const CUpti_CallbackId call :
         {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx})
        keep(activityLibrary().cuptiActivityEnableDriverApi(call, each));
    return first;
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
    api.recordCalls = recordCalls;
    api.pushMark = [](int markKind, std::uint64_t mark) -> int {
        return activityLibrary().cuptiActivityPushExternalCorrelationId(
            static_cast<CUpti_ExternalCorrelationKind>(markKind), mark);
    };
    api.popMark = [](int markKind, std::uint64_t *mark) -> int {
        return activityLibrary().cuptiActivityPopExternalCorrelationId(
            static_cast<CUpti_ExternalCorrelationKind>(markKind), mark);
    };
    api.flushAll = [](unsigned int flags) -> int { return activityLibrary().cuptiActivityFlushAll(flags); };
    api.nextRecord = [](std::uint8_t *buffer, std::size_t valid, ActivityHead **record) -> int {
        return activityLibrary().cuptiActivityGetNextRecord(buffer, valid, reinterpret_cast<CUpti_Activity **>(record));
    };
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
