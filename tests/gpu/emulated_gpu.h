// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"
#include "executor/device/plugin/abi.h"

#include <cstdint>
#include <functional>
#include <string>

// A GPU that is not there: the functions that the CUDA device uses, on threads of this process.
namespace planloom::test {

/// Streams are threads that run their commands in order, each after a pause that a seed chooses, so that what is not
/// put in order by an event runs out of order sooner or later. Device memory is a separate mapping that the host may
/// not touch while no command runs, with marked bytes between blocks; fresh memory has garbage at both ends. Kernels
/// run block by block (kernels/language.h), products by plain loops, convolutions by the processor. A stream that
/// captures takes down its commands; a graph runs them with new pauses each time. What the runtime forbids while a
/// thread captures fails here, too.
///
/// One per process. Thread contract: what the runtime's is; settings while no device is open.
class EmulatedGpu {
public:
    struct Settings {
        std::uint64_t seed = 1;
        int devices = 1;
        bool products = true;  ///< cuBLASLt is there
        bool epilogues = true; ///< and has algorithms with them
        bool graphs = true;    ///< cuDNN is there
        bool starts = true;    ///< both of them start
        int capability = 90;   ///< of the first device; the others have 9.0
        bool exports = false;  ///< ranks of this process may share a device
        bool opens = false;    ///< and so may other processes: device memory is in a file
        std::int64_t memoryBytes = std::int64_t{1} << 30;
    };
    static void set(const Settings &settings);
    [[nodiscard]] static const cuda::Provider &provider();
    /// The device table of its devices.
    [[nodiscard]] static const PlanloomDeviceTable &table();

    /// From now on every command and query fails with @p error, as after a fault of the device. 0: as before.
    static void breakDown(int error);
    /// The first write beyond a block that was seen. Looked for when blocks are given back.
    [[nodiscard]] static std::string problem();
    /// The same once so many more kernels have run.
    static void breakDownAfter(std::int64_t kernels, int error);
    /// From now on the streams cannot capture commands that start kernels. False: as before.
    static void refuseCaptures(bool refuse);
    /// Likewise no capture can begin; how many were asked for meanwhile is returned by the call with false.
    static std::int64_t refuseBegins(bool refuse);
    /// From now on device memory is refused with @p error. 0: as before.
    static void refuseMemory(int error);
    /// What has run and was made since the last call.
    struct Counts {
        std::int64_t kernels = 0, products = 0;
        std::int64_t epilogues = 0; ///< of products
        std::int64_t convolutions = 0, copies = 0, calls = 0;
        std::int64_t made = 0;    ///< blocks of memory, streams, events and graphs
        std::int64_t graphs = 0;  ///< of these
        std::int64_t replays = 0; ///< of graphs
        std::int64_t bytes = 0;   ///< of copies
    };
    [[nodiscard]] static Counts takeCounts();
    // For the emulated NCCL.
    [[nodiscard]] static std::uint64_t seed();
    /// That the calling thread has set.
    [[nodiscard]] static int currentDevice();
    [[nodiscard]] static bool isBroken();
    static int give(cuda::Stream stream, std::function<void()> command);
    /// @p command, with a record of it as of a kernel where records are wanted; on the thread that asks for it.
    [[nodiscard]] static std::function<void()> asKernel(std::function<void()> command);
    /// On a stream's thread, in a command: until @p done or the device breaks down. Device memory is closed meanwhile.
    static void waitUntil(const std::function<bool()> &done);

    /// Blocks, streams, events and graphs that were made and not given back.
    [[nodiscard]] static std::int64_t living();
};

} // namespace planloom::test
