// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/cpu_device.h"

#include "engine/base/units.h"
#include "executor/device/adding_kernel.h"
#include "executor/device/cpu/fused_updates.h"
#include "executor/device/cpu/row_scores.h"
#include "executor/device/cpu/update_formula.h"
#include "executor/device/kernel.h"
#include "executor/device/random_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace planloom::device {

namespace {

constexpr std::int64_t kGranule = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

class CpuKernel final : public DeviceKernel {
public:
    CpuKernel(std::unique_ptr<Kernel> kernel, std::unique_ptr<Kernel> inference)
        : DeviceKernel(capabilitiesOf(*kernel, inference.get())),
          m_kernel(std::move(kernel)),
          m_inference(std::move(inference)),
          m_adding(dynamic_cast<AddingKernel *>(m_kernel.get())),
          m_random(dynamic_cast<RandomKernel *>(m_kernel.get()))
    {
    }

    void begin(const Draw &draw) { m_random->begin(draw); }
    void run(Mode mode, std::span<const void *const> inputs, std::span<void *const> outputs)
    {
        if (mode == Mode::Add)
            m_adding->add(inputs, outputs);
        else
            (mode == Mode::Infer && m_inference ? *m_inference : *m_kernel).run(inputs, outputs);
    }

private:
    static std::uint32_t capabilitiesOf(Kernel &kernel, const Kernel *inference)
    {
        return (dynamic_cast<AddingKernel *>(&kernel) != nullptr ? std::uint32_t{kAdds} : 0U)
            | (dynamic_cast<RandomKernel *>(&kernel) != nullptr ? std::uint32_t{kDraws} : 0U)
            | (inference != nullptr ? std::uint32_t{kInfers} : 0U);
    }

    std::unique_ptr<Kernel> m_kernel;
    std::unique_ptr<Kernel> m_inference;
    AddingKernel *m_adding;
    RandomKernel *m_random;
};

/// Ranges with their rule's own kernel, or else its formula.
class CpuUpdates final : public Updates {
public:
    CpuUpdates(const update::Formula &rule, std::span<const UpdateRange> ranges)
        : m_rule(rule),
          m_ranges(ranges.begin(), ranges.end()),
          m_fused(fusedUpdate(rule.rule))
    {
    }
    Status prepare()
    {
        if (m_fused != nullptr)
            return {};
        auto made = UpdateFormula::make(m_rule);
        if (!made)
            return made.error();
        m_formula = std::move(*made);
        m_sums.resize(m_formula.sumsOf(m_ranges));
        return {};
    }

    void run(const UpdateStep &how)
    {
        if (m_fused != nullptr)
            m_fused(m_rule, how, m_ranges);
        else
            m_formula.run(how, m_ranges, m_sums);
    }
    [[nodiscard]] std::span<const UpdateRange> ranges() const { return m_ranges; }

private:
    update::Formula m_rule;
    std::vector<UpdateRange> m_ranges;
    FusedUpdate m_fused;
    UpdateFormula m_formula;
    std::vector<double> m_sums;
};

void copyBytes(void *to, const void *from, std::int64_t bytes)
{
    if (bytes > 0)
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

class CpuEvent final : public Event {
public:
    Result<bool> poll() override { return true; }
};

class CpuQueue final : public Queue {
public:
    void begin(DeviceKernel &kernel, const Draw &draw) override { static_cast<CpuKernel &>(kernel).begin(draw); }
    void run(DeviceKernel &kernel, Mode mode, std::span<const void *const> inputs,
             std::span<void *const> outputs) override
    {
        static_cast<CpuKernel &>(kernel).run(mode, inputs, outputs);
    }
    void accumulate(const float *x, float *y, std::int64_t count) override { device::accumulate(x, y, count); }

    void copyToDevice(void *device, const void *host, std::int64_t bytes) override { copyBytes(device, host, bytes); }
    void copyToHost(void *host, const void *device, std::int64_t bytes) override { copyBytes(host, device, bytes); }
    void copy(void *to, const void *from, std::int64_t bytes) override { copyBytes(to, from, bytes); }
    void fill(void *to, std::uint32_t pattern, std::int64_t bytes) override
    {
        if (pattern == 0) {
            std::memset(to, 0, static_cast<std::size_t>(bytes));
            return;
        }
        auto *at = static_cast<std::byte *>(to);
        for (constexpr std::int64_t kSize = sizeof pattern; bytes > 0; at += kSize, bytes -= kSize)
            std::memcpy(at, &pattern, static_cast<std::size_t>(std::min(bytes, kSize)));
    }

    void update(Updates &updates, const UpdateStep &how) override { static_cast<CpuUpdates &>(updates).run(how); }
    void squaredNorm(Updates &updates, double *host) override
    {
        *host = device::squaredNorm(static_cast<CpuUpdates &>(updates).ranges());
    }
    void score(const ScoredRows &rows, RowScores *host) override { *host = scoreRows(rows); }

    void record(Event & /*event*/) override {}
    void wait(Event & /*event*/) override {}
};

/// The kernel to use where nothing is trained, where that is another one; otherwise none.
Result<std::unique_ptr<Kernel>> makeInference(const graph::Op &op, const std::vector<Argument> &inputs,
                                              const std::vector<Argument> &outputs)
{
    if (op.traits().states == 0 || op.integer("training_mode", 1) == 0)
        return std::unique_ptr<Kernel>();
    graph::Op running = op;
    running.attributes["training_mode"] = std::int64_t{0};
    return makeKernel(running, inputs, outputs);
}

class CpuDevice final : public Device {
public:
    [[nodiscard]] bool hostAddressable() const override { return true; }
    [[nodiscard]] std::byte *transportAddress(std::byte *address) override { return address; }

    Result<Memory> allocate(Space space, std::int64_t bytes) override
    {
        const std::int64_t alignment = bytes >= kHugePage ? kHugePage : kGranule;
        const auto whole =
            static_cast<std::size_t>((std::max(bytes, alignment) + alignment - 1) / alignment * alignment);
        auto *data = static_cast<std::byte *>(std::aligned_alloc(static_cast<std::size_t>(alignment), whole));
        if (data == nullptr)
            return failed("this rank needs " + format(Bytes(bytes))
                          + " of memory, which the machine does not have free; use more stages, recompute or a smaller "
                            "batch");
#ifdef MADV_HUGEPAGE
        // Fewer page faults while it is cleared and fewer misses of the address cache ever after; where the system
        // refuses, nothing is lost.
        if (alignment == kHugePage)
            ::madvise(data, whole, MADV_HUGEPAGE);
#endif
        std::memset(data, 0, whole);
        return Memory(*this, space, data, bytes);
    }
    Result<std::unique_ptr<Queue>> makeQueue() override { return std::unique_ptr<Queue>(std::make_unique<CpuQueue>()); }
    Result<std::unique_ptr<Event>> makeEvent() override { return std::unique_ptr<Event>(std::make_unique<CpuEvent>()); }
    Result<std::unique_ptr<DeviceKernel>> makeKernel(const graph::Op &op, std::span<const Argument> inputs,
                                                     std::span<const Argument> outputs) override
    {
        const std::vector<Argument> in(inputs.begin(), inputs.end());
        const std::vector<Argument> out(outputs.begin(), outputs.end());
        auto kernel = device::makeKernel(op, in, out);
        if (!kernel)
            return kernel.error();
        auto inference = makeInference(op, in, out);
        if (!inference)
            return inference.error();
        return std::unique_ptr<DeviceKernel>(std::make_unique<CpuKernel>(std::move(*kernel), std::move(*inference)));
    }
    Result<std::unique_ptr<Updates>> makeUpdates(const update::Formula &formula,
                                                 std::span<const UpdateRange> ranges) override
    {
        auto updates = std::make_unique<CpuUpdates>(formula, ranges);
        if (const Status prepared = updates->prepare(); !prepared)
            return prepared.error();
        return std::unique_ptr<Updates>(std::move(updates));
    }

private:
    void release(Space /*space*/, std::byte *data, std::int64_t /*bytes*/) override { std::free(data); }
};

} // namespace

Device &cpuDevice()
{
    static CpuDevice kDevice;
    return kDevice;
}

} // namespace planloom::device
