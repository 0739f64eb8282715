// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/activity_abi.h"

#include <cstddef>
#include <cstdint>

/// CUPTI's activity interface, as far as it is used: a table of functions, so that tests can put another provider in
/// their place, and the parts of its records that are read. library/activity.cpp compares all of it with the headers.
namespace planloom::cuda {

inline constexpr int kActivitySuccess = 0;
inline constexpr int kActivityNoMoreRecords = 12;   ///< CUPTI_ERROR_MAX_LIMIT_REACHED
inline constexpr int kActivityOtherSubscriber = 39; ///< CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
inline constexpr int kActivityUnknown = 999;        ///< what it answers without a driver
inline constexpr unsigned int kFlushForced = 1;
/// CUDA 12.9: older ones crash where a buffer is refused.
inline constexpr std::uint32_t kOldestActivityVersion = 27;

enum class ActivityKind : std::int32_t { Copy = 1, Fill = 2, Kernel = 10, PeerCopy = 22, Graph = 51 };

/// The driver's functions that start what is recorded, by CUPTI's numbers of them. The runtime's functions call them.
enum class DriverCall : std::uint32_t {
    FillBytes = 216,
    FillShorts = 218,
    FillWords = 220,
    CopyToDevice = 277,
    CopyFromDevice = 279,
    CopyInDevice = 281,
    CopyAny = 306,
    CopyBetweenDevices = 319,
    Kernel = 307,
    CooperativeKernel = 477,
    Graph = 514,
    KernelEx = 652
};

/// The beginning of every record.
struct ActivityHead {
    ActivityKind kind;
};
/// CUpti_ActivityKernel9 and 10, CUDA 12 and 13.
struct KernelActivity {
    ActivityKind kind;
    std::uint8_t notRead1[12];
    std::uint64_t start, end; ///< ns; 0: not known
    std::uint64_t completed;
    std::uint32_t device, context, stream;
    std::uint8_t notRead2[40];
    std::uint32_t correlation; ///< of the call, of a graph's kernel that of the graph's start
    std::uint8_t notRead3[48];
    std::uint64_t node; ///< of a graph; 0: of none
};
/// CUpti_ActivityMemcpy5 and 6; a fill, CUpti_ActivityMemset4, begins alike.
struct CopyActivity {
    ActivityKind kind;
    std::uint8_t copyKind[4]; ///< of a fill: the value
    std::uint64_t bytes;
    std::uint64_t start, end;
    std::uint32_t device, context, stream;
    std::uint32_t correlation;
    std::uint8_t notRead[16];
    std::uint64_t node;
};
/// CUpti_ActivityMemcpyPtoP4: between devices.
struct PeerCopyActivity {
    ActivityKind kind;
    std::uint8_t notRead1[4];
    std::uint64_t bytes;
    std::uint64_t start, end;
    std::uint32_t device, context, stream;
    std::uint8_t notRead2[16];
    std::uint32_t correlation;
    std::uint8_t notRead3[8];
    std::uint64_t node;
};
/// CUpti_ActivityGraphTrace and 2: all that one start of a graph ran.
struct GraphActivity {
    ActivityKind kind;
    std::uint32_t correlation;
    std::uint64_t start, end;
    std::uint32_t device, graph, context, stream;
};

/// May run on any thread, within calls that start kernels: gives a buffer, aligned to 8 bytes, or nullptr. @p most: 0,
/// as many records as fit.
using RequestBuffer = void (*)(std::uint8_t **buffer, std::size_t *bytes, std::size_t *most);
/// Takes it back. @p valid: bytes with records. The handles are not used.
using CompleteBuffer = void (*)(void *context, std::uint32_t stream, std::uint8_t *buffer, std::size_t bytes,
                                std::size_t valid);

/// What a subscriber is told, on the thread that does it. Numbers are those of records.
struct ActivityWatcher {
    /// A node of a graph was made, @p original 0, or is a copy of node @p original.
    void (*nodeMade)(std::uint64_t node, std::uint64_t original);
    /// A call that is watched begins: what it starts has this correlation.
    void (*callBegins)(std::uint32_t correlation);
};

/// Every function that returns int returns a CUptiResult.
struct ActivityApi {
    int (*version)(std::uint32_t *version);
    const char *(*errorText)(int error);
    /// Takes the one subscriber's place; where it is taken, @p other gets the name of who has it, if that is known.
    /// @p watcher must outlive the process's use of CUPTI.
    int (*subscribe)(void **subscriber, const ActivityWatcher &watcher, const char *name, char *other,
                     std::size_t otherBytes);
    int (*unsubscribe)(void *subscriber);
    int (*watchNodes)(void *subscriber); ///< every one from now on
    int (*watchCall)(void *subscriber, DriverCall call, bool on);
    int (*registerBuffers)(RequestBuffer request, CompleteBuffer complete);
    int (*registerClock)(std::uint64_t (*now)()); ///< of all records from then on
    int (*now)(std::uint64_t *time);              ///< on the records' clock
    int (*enable)(ActivityKind kind);
    int (*disable)(ActivityKind kind);
    int (*flushAll)(unsigned int flags);
    int (*nextRecord)(std::uint8_t *buffer, std::size_t valid, ActivityHead **record); ///< starts with nullptr
    PlanloomReadings (*readings)(std::int32_t device); ///< the driver's, not CUPTI's; see activity_abi.h
    int (*dropped)(std::size_t *count);                                                ///< since the last call
};

} // namespace planloom::cuda
