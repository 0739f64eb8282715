// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/device/cuda/activity_api.h"
#include "executor/device/plugin/activity_abi.h"

#include <cstdint>
#include <string>

// CUPTI as far as it is used, with records of what the emulated GPU ran.
namespace planloom::test {

/// Calls that are watched are told of on their thread; records come in buffers, which come back when they are
/// full or flushed. A clock that is registered a second time spoils the records behind it. A graph that was
/// instantiated while graphs are not recorded as a whole crashes the process when it is started while they are. The
/// power that device 0 takes varies. One per process, like the emulated GPU. Thread contract: any thread; settings
/// while nothing is recorded.
class EmulatedActivity {
public:
    /// What goes wrong.
    struct Faults {
        bool missing = false;        ///< there is no library
        bool driverMissing = false;  ///< calls fail as they do without a driver
        std::string otherSubscriber; ///< has the place already
        std::uint32_t version = 130001;
        int dropEach = 0;            ///< of so many records one is dropped; 0: none
        int untimedEach = 0;         ///< one has no times
        std::int64_t clockAhead = 0; ///< ns; not 0: no clock can be registered, and the records' own is so far ahead
    };
    static void set(const Faults &faults);
    /// Error: the library is missing.
    static Result<const cuda::ActivityApi *> provider();
    static const PlanloomActivityTable &table();

    // For the emulated GPU.
    struct Ran {
        cuda::ActivityKind kind;
        std::uint32_t correlation;
        std::uint64_t start, end; ///< now()
        std::uint64_t bytes;
        std::uint64_t node = 0; ///< of a graph
    };
    /// A call of this thread that starts something: its correlation, 0 if nothing is recorded.
    static std::uint32_t called(cuda::ActivityKind kind, cuda::DriverCall call);
    /// A graph is started: a correlation if it is recorded as a whole, then @p whole, or command by command.
    static std::uint32_t startsGraph(bool &whole);
    static bool recordsGraphs(); ///< as a whole
    static void ran(const Ran &what);
    /// A node is made, or, of one that is not 0, copied: its number.
    static std::uint64_t nodeMade(std::uint64_t original);
    static std::uint64_t now();
};

} // namespace planloom::test
