// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/communication_api.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/device/plugin/communication_abi.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::cuda {

/// One member's end of a non-blocking communicator of NCCL. Errors name the call and NCCL's reason. Thread contract:
/// one thread.
class Team {
public:
    /// Both must outlive it. Does not wait for the others.
    static Result<std::unique_ptr<Team>> join(const CommunicationApi &api, CudaDevice &device,
                                              const PlanloomTeamOptions &how);
    /// Aborts it, unless all have left.
    ~Team();
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    /// True once it is made, and all that was asked for lies in its queue. Error: Failed, for good.
    Result<bool> poll();
    /// Registers device memory; false: NCCL does not.
    Result<bool> use(void *data, std::int64_t bytes);
    Status collective(CudaQueue &queue, const PlanloomCollective &what);
    /// As one group.
    Status messages(CudaQueue &queue, std::span<const PlanloomMessage> messages);
    Status leave();
    void abort();

private:
    Team(const CommunicationApi &api, CudaDevice &device, int members, int position)
        : m_api(api),
          m_device(device),
          m_members(members),
          m_position(position)
    {
    }
    Status check(int error, const char *what);
    Status asked(int error, const char *what);
    int exchange(CudaQueue &queue, const PlanloomCollective &what);
    int start(CudaQueue &queue, const PlanloomCollective &what);
    void deregister();

    const CommunicationApi &m_api;
    CudaDevice &m_device;
    int m_members;
    int m_position;
    TeamHandle m_handle = nullptr;
    const char *m_asked = "the start of NCCL"; ///< last
    bool m_leaves = false;
    bool m_left = false;
    std::vector<void *> m_registered;
};

} // namespace planloom::cuda
