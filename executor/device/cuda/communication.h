// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/communication_api.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/device/plugin/communication_abi.h"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::cuda {

/// One member's end of a team; communication_abi.h says what the calls do. Thread contract: one thread.
class Team {
public:
    Team() = default;
    virtual ~Team() = default;
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    virtual Result<bool> poll() = 0;
    virtual Result<bool> use(void *data, std::int64_t bytes) = 0;
    virtual Status collective(CudaQueue &queue, const PlanloomCollective &what) = 0;
    virtual Status messages(CudaQueue &queue, std::span<const PlanloomMessage> messages) = 0;
    virtual Status leave() = 0;
    virtual void abort() = 0;
    /// After abort(): until no member uses this one's memory any more, at most until @p end.
    virtual void awaitReaders(std::chrono::steady_clock::time_point /*end*/) {}
    /// NCCL, of its communicators.
    [[nodiscard]] virtual const CommunicationApi *library() const { return nullptr; }
    /// All of them, NCCL's communicators as one group: to abort one may wait for kernels of others. Then members may
    /// give their memory back.
    static void abortAll(std::span<Team *const> teams);

protected:
    static constexpr std::chrono::seconds kLongestEnd{2}; ///< of others, once a member aborts
};

/// A non-blocking communicator of NCCL. Errors name the call and NCCL's reason.
class LibraryTeam final : public Team {
public:
    /// Both must outlive it. Does not wait for the others.
    static Result<std::unique_ptr<Team>> join(const CommunicationApi &api, CudaDevice &device,
                                              const PlanloomTeamOptions &how);
    /// Aborts it, unless all have left.
    ~LibraryTeam() override;

    /// True once it is made, and all that was asked for lies in its queue. Error: Failed, for good.
    Result<bool> poll() override;
    /// Registers device memory; false: NCCL does not.
    Result<bool> use(void *data, std::int64_t bytes) override;
    Status collective(CudaQueue &queue, const PlanloomCollective &what) override;
    /// As one group.
    Status messages(CudaQueue &queue, std::span<const PlanloomMessage> messages) override;
    Status leave() override;
    void abort() override;
    [[nodiscard]] const CommunicationApi *library() const override { return &m_api; }

private:
    LibraryTeam(const CommunicationApi &api, CudaDevice &device, int members, int position)
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
