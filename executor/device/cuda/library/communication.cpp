// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/communication_table.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <dlfcn.h>

namespace planloom::cuda {

namespace {

// --- What communication_api.h says about NCCL -----------------------------------------------------------------------

#ifdef NCCL_VERSION_CODE
static_assert(kTeamSuccess == ncclSuccess && kTeamCudaError == ncclUnhandledCudaError
              && kTeamInvalidArgument == ncclInvalidArgument && kTeamRemoteError == ncclRemoteError
              && kTeamInProgress == ncclInProgress && kTeamSum == ncclSum);
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(TeamData));
static_assert(static_cast<int>(TeamData::Bytes) == ncclUint8 && static_cast<int>(TeamData::Float32) == ncclFloat32
              && static_cast<int>(TeamData::Float64) == ncclFloat64
              && static_cast<int>(TeamData::BFloat16) == ncclBfloat16);
static_assert(sizeof(TeamId) == sizeof(ncclUniqueId));
static_assert(sizeof(TeamConfig) <= sizeof(ncclConfig_t)
              && offsetof(TeamConfig, blocking) == offsetof(ncclConfig_t, blocking)
              && offsetof(TeamConfig, mostBlocks) == offsetof(ncclConfig_t, maxCTAs)
              && offsetof(TeamConfig, splitShare) == offsetof(ncclConfig_t, splitShare)
              && offsetof(TeamConfig, trafficClass) == offsetof(ncclConfig_t, trafficClass));
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);
#endif

// --- The library ----------------------------------------------------------------------------------------------------

Result<CommunicationApi> openCommunication()
{
    void *library = nullptr;
    for (const char *name : {"libnccl.so.2", "libnccl.so"})
        if (library == nullptr)
            library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return notFound(
            "libnccl.so.2 is not installed; install NCCL (libnccl2), or name its folder in LD_LIBRARY_PATH");
    CommunicationApi api{};
    std::string missing;
    const auto take = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
        if (function == nullptr && missing.empty())
            missing = name;
    };
    take(api.getVersion, "ncclGetVersion");
    take(api.getUniqueId, "ncclGetUniqueId");
    take(api.initRank, "ncclCommInitRankConfig");
    take(api.finalize, "ncclCommFinalize");
    take(api.destroy, "ncclCommDestroy");
    take(api.abort, "ncclCommAbort");
    take(api.errorText, "ncclGetErrorString");
    take(api.lastError, "ncclGetLastError");
    take(api.asyncError, "ncclCommGetAsyncError");
    take(api.registerMemory, "ncclCommRegister");
    take(api.deregister, "ncclCommDeregister");
    take(api.malloc, "ncclMemAlloc");
    take(api.free, "ncclMemFree");
    take(api.groupStart, "ncclGroupStart");
    take(api.groupEnd, "ncclGroupEnd");
    take(api.allReduce, "ncclAllReduce");
    take(api.reduceScatter, "ncclReduceScatter");
    take(api.allGather, "ncclAllGather");
    take(api.broadcast, "ncclBroadcast");
    take(api.send, "ncclSend");
    take(api.receive, "ncclRecv");
    if (!missing.empty())
        return unsupported("libnccl.so.2 has no " + missing + "; install NCCL 2.22 or newer");
    return api;
}

Result<const CommunicationApi *> installedCommunication()
{
    static const Result<CommunicationApi> kApi = openCommunication();
    if (!kApi)
        return kApi.error();
    return &*kApi;
}

} // namespace

} // namespace planloom::cuda

extern "C" __attribute__((visibility("default"))) const PlanloomCommunicationTable *planloomCommunicationTable();
const PlanloomCommunicationTable *planloomCommunicationTable()
{
    static const PlanloomCommunicationTable kTable =
        planloom::cuda::communicationTableOf<planloom::cuda::installedCommunication>();
    return &kTable;
}
