// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/host_work.h"

#include <memory>
#include <vector>

namespace planloom::device {

/// An operator of a device that the processor's kernel computes. Thread contract: that of HostWork.
class HostKernel {
public:
    /// @p lastChannels: the device's images in blocks are (N, H, W, C). Errors: those of the processor's kernel; Failed
    /// (memory).
    static Result<std::unique_ptr<HostKernel>> make(HostWork &work, const graph::Op &op,
                                                    std::span<const Argument> inputs, std::span<const Argument> outputs,
                                                    bool lastChannels);

    [[nodiscard]] std::uint32_t capabilities() const;
    void begin(const Draw &draw)
    {
        m_draw = draw;
        m_draws = true;
    }
    void give(HostWork &work, PlanloomQueue *queue, Mode mode, std::span<const void *const> inputs,
              std::span<void *const> outputs);

private:
    struct Place {
        std::int64_t offset = 0;
        bool given = false; ///< as in the latest run: the same in all of them
        /// Above 0: images of the device's layout, channels last, whose rows the kernel computes in.
        std::int64_t samples = 0, channels = 0, pixels = 0;
        bool half = false; ///< bfloat16, else float32
    };
    HostKernel(std::unique_ptr<DeviceKernel> kernel, std::unique_ptr<Queue> queue)
        : m_kernel(std::move(kernel)),
          m_queue(std::move(queue))
    {
    }
    static void work(const HostWork::Task &task, std::byte *staging);
    void turn(std::byte *staging, bool toRows, bool outputs);

    std::unique_ptr<DeviceKernel> m_kernel;
    std::unique_ptr<Queue> m_queue;    ///< the processor's
    std::vector<StagedRange> m_ranges; ///< inputs, then outputs
    std::vector<Place> m_places;       ///< the same
    std::vector<const void *> m_inputs;
    std::vector<void *> m_outputs;
    std::vector<float> m_turned; ///< one image tensor
    Draw m_draw;
    bool m_draws = false;
};

/// Parameters of a device that the processor updates.
class HostUpdates {
public:
    static Result<std::unique_ptr<HostUpdates>> make(HostWork &work, const update::Formula &formula,
                                                     std::span<const UpdateRange> ranges);
    void update(HostWork &work, PlanloomQueue *queue, const UpdateStep &how);
    void squaredNorm(HostWork &work, PlanloomQueue *queue, double *host);

private:
    explicit HostUpdates(update::Formula formula) : m_formula(std::move(formula)) {}
    static void updateNow(const HostWork::Task &task, std::byte *staging);
    static void normNow(const HostWork::Task &task, std::byte *staging);
    /// The processor's, of ranges in @p staging.
    Updates &at(std::byte *staging);

    update::Formula m_formula;
    std::vector<UpdateRange> m_ranges; ///< addresses are offsets in the staging block, plus 1
    std::vector<StagedRange> m_all;
    std::vector<StagedRange> m_gradients;
    std::byte *m_base = nullptr; ///< of m_updates
    std::unique_ptr<Updates> m_updates;
    std::unique_ptr<Queue> m_queue;
};

/// Reserves its staging at the first call.
void scoreOnHost(HostWork &work, PlanloomQueue *queue, const ScoredRows &rows, RowScores *host);

} // namespace planloom::device
