// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/device/cuda/communication_api.h"
#include "executor/device/plugin/communication_abi.h"

#include <cstdint>
#include <string>

// NCCL as far as it is used, between the emulated GPUs of threads and processes of this machine.
namespace planloom::test {

/// Members exchange data through shared memory, on their streams, each waiting for the others as NCCL's kernels do.
/// Communicators are non-blocking ones: a call may go on after it returned (in progress), and its work comes into the
/// stream later, after a pause that the GPU's seed chooses. To call one that is in progress is an error, as is to put
/// two members on one GPU. To abort or destroy one waits for all commands of its thread's communicators on its GPU,
/// unless those are aborted in the same group.
///
/// Thread contract: what NCCL's is; settings while there is no communicator.
class EmulatedNccl {
public:
    /// What goes wrong, with communicators that begin from then on.
    struct Faults {
        bool missing = false; ///< there is no library
        int version = 22809;
        bool neverReady = false; ///< communicators stay in progress
        int failsAfter = -1;     ///< at this call of the member at position 0 of a communicator all its members meet an
                                 ///< asynchronous error with this number; -1: none
        int silentAfter = -1;    ///< its work never ends from this call on: a member that is gone
    };
    static void set(const Faults &faults);
    /// Error: the library is missing.
    static Result<const cuda::CommunicationApi *> provider();
    static const PlanloomCommunicationTable &table();

    /// Since the last call.
    struct Counts {
        std::int64_t collectives = 0, messages = 0;
        std::int64_t groups = 0;  ///< of messages
        std::int64_t delayed = 0; ///< calls that went on after they returned
        std::int64_t registered = 0, aborted = 0, left = 0;
    };
    [[nodiscard]] static Counts takeCounts();
    /// Communicators and registrations that were made and not given back.
    [[nodiscard]] static std::int64_t living();
    /// What would have waited for ever: empty, nothing.
    [[nodiscard]] static std::string problem();
};

} // namespace planloom::test
