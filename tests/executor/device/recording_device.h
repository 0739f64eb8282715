// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cpu/cpu_device.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace planloom::test {

/// Counts of the calls of operator new by this thread, where a test program defines them; paused while a mock works.
inline thread_local std::int64_t t_allocations = 0;
inline thread_local int t_pauses = 0;
struct PauseCounting {
    PauseCounting() { ++t_pauses; }
    ~PauseCounting() { --t_pauses; }
    PauseCounting(const PauseCounting &) = delete;
    PauseCounting &operator=(const PauseCounting &) = delete;
};

/// A device whose queues really are asynchronous: commands are kept, and a few of them, of queues chosen by a seeded
/// generator, run whenever an event is polled. They are computed by the processor's kernels.
///
/// The addresses that it gives out lie in a mapping without any access rights, so that a host that touches device
/// memory dies; commands work on a second mapping of the same pages. Vector clocks find accesses of two commands, or of
/// a command and the transport, to the same bytes that neither queue order nor an event that was waited for or polled
/// puts in order.
///
/// Thread contract: one thread.
class RecordingDevice final : public device::Device {
public:
    explicit RecordingDevice(std::uint32_t seed = 1) : m_random(seed) {}
    ~RecordingDevice() override
    {
        for (const Block &block : m_blocks) {
            ::munmap(block.closed, block.mapped);
            ::munmap(block.open, block.mapped);
        }
    }

    // --- Observed calls
    // ------------------------------------------------------------------------------------------------

    /// The first accesses that nothing puts in order; empty: there were none.
    [[nodiscard]] const std::string &race() const { return m_race; }
    /// Commands by what they do: "run", "copyToHost", ...
    [[nodiscard]] const std::map<std::string, std::int64_t> &commands() const { return m_counts; }
    /// Memory, queues, events, kernels and updates made so far.
    [[nodiscard]] std::int64_t objectsMade() const { return m_made; }
    /// The most commands that were waiting at a time.
    [[nodiscard]] std::size_t mostPending() const { return m_mostPending; }
    /// From now on every poll fails, as after an error of the device.
    void breakDown(std::string why) { m_failure = std::move(why); }

    // --- The transport's accesses, which the device cannot see
    // --------------------------------------------------------

    struct TransportRange {
        const void *data; ///< in the mapping that transportAddress() gave, or anywhere else in the host
        std::int64_t bytes;
        bool writes;
    };
    /// Ends with transportEnds() of what is returned.
    std::int64_t transportBegins(const std::vector<TransportRange> &ranges)
    {
        const PauseCounting pause;
        std::vector<Access> accesses;
        for (const TransportRange &range : ranges) {
            const auto *at = static_cast<const std::byte *>(range.data);
            for (const Block &block : m_blocks) {
                if (at >= block.open && at < block.open + block.mapped)
                    accesses.push_back({addressOf(block.closed + (at - block.open)), range.bytes, range.writes, -1,
                                        m_nextTransport, "the transport"});
            }
        }
        for (const Access &access : accesses) {
            for (const Access &earlier : m_accesses)
                compare(earlier, access, m_host);
            for (const auto &[id, others] : m_transport) {
                for (const Access &other : others)
                    compare(other, access, m_host);
            }
        }
        m_transport[m_nextTransport] = std::move(accesses);
        return m_nextTransport++;
    }
    void transportEnds(std::int64_t id)
    {
        const PauseCounting pause;
        m_transport.erase(id);
    }

    // --- Device
    // -------------------------------------------------------------------------------------------------------

    [[nodiscard]] bool hostAddressable() const override { return false; }
    [[nodiscard]] std::byte *transportAddress(std::byte *address) override { return open(address); }

    Result<device::Memory> allocate(device::Space space, std::int64_t bytes) override
    {
        const PauseCounting pause;
        ++m_made;
        if (space == device::Space::Host)
            return device::cpuDevice().allocate(space, bytes);
        constexpr std::size_t kPage = 4096;
        const std::size_t mapped =
            (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + kPage - 1) / kPage * kPage;
        const int file = ::memfd_create("device memory", MFD_CLOEXEC);
        if (file < 0 || ::ftruncate(file, static_cast<off_t>(mapped)) != 0)
            return failed("no memory for the recording device");
        void *closed = ::mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, file, 0);
        void *opened = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        if (closed == MAP_FAILED || opened == MAP_FAILED)
            return failed("no mapping for the recording device");
        m_blocks.push_back({static_cast<std::byte *>(closed), static_cast<std::byte *>(opened), mapped});
        return device::Memory(*this, space, static_cast<std::byte *>(closed), bytes);
    }
    Result<std::unique_ptr<device::Queue>> makeQueue() override
    {
        const PauseCounting pause;
        ++m_made;
        const auto index = static_cast<std::int32_t>(m_queues.size());
        m_queues.emplace_back();
        m_host.resize(m_queues.size());
        return std::unique_ptr<device::Queue>(std::make_unique<RecordingQueue>(*this, index));
    }
    Result<std::unique_ptr<device::Event>> makeEvent() override
    {
        const PauseCounting pause;
        ++m_made;
        return std::unique_ptr<device::Event>(std::make_unique<RecordingEvent>(*this));
    }
    Result<std::unique_ptr<device::DeviceKernel>> makeKernel(const graph::Op &op,
                                                             std::span<const device::Argument> inputs,
                                                             std::span<const device::Argument> outputs) override
    {
        const PauseCounting pause;
        ++m_made;
        auto kernel = device::cpuDevice().makeKernel(op, inputs, outputs);
        if (!kernel)
            return kernel.error();
        const auto sizes = [](std::span<const device::Argument> arguments) {
            std::vector<std::int64_t> bytes;
            for (const device::Argument &argument : arguments)
                bytes.push_back(argument.present ? argument.elements() * graph::sizeOf(argument.type) : 0);
            return bytes;
        };
        return std::unique_ptr<device::DeviceKernel>(
            std::make_unique<RecordingKernel>(std::move(*kernel), op.type, sizes(inputs), sizes(outputs)));
    }
    Result<std::unique_ptr<device::Updates>> makeUpdates(const update::Formula &formula,
                                                         std::span<const device::UpdateRange> ranges) override
    {
        const PauseCounting pause;
        ++m_made;
        std::vector<device::UpdateRange> opened(ranges.begin(), ranges.end());
        std::vector<Access> accesses;
        for (device::UpdateRange &range : opened) {
            std::vector<float **> all{&range.parameter, &range.gradient};
            for (float *&state : range.states)
                all.push_back(&state);
            for (float **floats : all) {
                if (*floats == nullptr)
                    continue;
                accesses.push_back(writing(*floats, range.count * 4));
                *floats = reinterpret_cast<float *>(open(*floats));
            }
            if (range.copy != nullptr) {
                accesses.push_back(writing(range.copy, range.count * 2));
                range.copy = reinterpret_cast<std::uint16_t *>(open(range.copy));
            }
        }
        auto made = device::cpuDevice().makeUpdates(formula, opened);
        if (!made)
            return made.error();
        std::int64_t rows = 0;
        for (const device::UpdateRange &range : ranges)
            rows = std::max<std::int64_t>(rows, range.tensor + 1);
        return std::unique_ptr<device::Updates>(
            std::make_unique<RecordingUpdates>(std::move(*made), std::move(accesses), rows * formula.norms * 8));
    }

private:
    using Clock = std::vector<std::int64_t>; ///< per queue: commands that are known to have ended

    struct Block {
        std::byte *closed;
        std::byte *open;
        std::size_t mapped;
    };
    struct Access {
        std::uintptr_t begin = 0;
        std::int64_t bytes = 0;
        bool writes = false;
        std::int32_t queue = -1; ///< -1: the transport
        std::int64_t number = 0; ///< of the command in its queue, from 1
        const char *what = "";
    };
    struct RecordingEvent;
    struct Command {
        std::function<void()> work;
        std::int32_t waitQueue = -1; ///< unless -1: runs when waitNumber commands of that queue have ended
        std::int64_t waitNumber = 0;
    };
    struct QueueState {
        std::deque<Command> commands;
        std::int64_t given = 0;
        std::int64_t ended = 0;
        Clock clock; ///< of the latest command
    };

    struct RecordingKernel final : device::DeviceKernel {
        RecordingKernel(std::unique_ptr<device::DeviceKernel> made, std::string op, std::vector<std::int64_t> in,
                        std::vector<std::int64_t> out)
            : DeviceKernel((made->has(kAdds) ? std::uint32_t{kAdds} : 0U)
                           | (made->has(kDraws) ? std::uint32_t{kDraws} : 0U)
                           | (made->has(kInfers) ? std::uint32_t{kInfers} : 0U)),
              kernel(std::move(made)),
              type(std::move(op)),
              inputBytes(std::move(in)),
              outputBytes(std::move(out))
        {
        }
        std::unique_ptr<device::DeviceKernel> kernel;
        std::string type;
        std::vector<std::int64_t> inputBytes, outputBytes;
    };
    struct RecordingUpdates final : device::Updates {
        RecordingUpdates(std::unique_ptr<device::Updates> made, std::vector<Access> all, std::int64_t table)
            : updates(std::move(made)),
              accesses(std::move(all)),
              tableBytes(table)
        {
        }
        std::unique_ptr<device::Updates> updates;
        std::vector<Access> accesses;
        std::int64_t tableBytes; ///< of norms, on the host
    };
    struct RecordingEvent final : device::Event {
        explicit RecordingEvent(RecordingDevice &owner) : device(owner) {}
        Result<bool> poll() override { return device.poll(*this); }
        RecordingDevice &device;
        std::int32_t queue = -1; ///< not recorded yet
        std::int64_t number = 0;
        Clock clock;
    };

    class RecordingQueue final : public device::Queue {
    public:
        RecordingQueue(RecordingDevice &device, std::int32_t index)
            : m_device(device),
              m_index(index),
              m_cpu(*device::cpuDevice().makeQueue())
        {
        }

        void begin(device::DeviceKernel &kernel, const device::Draw &draw) override
        {
            const PauseCounting pause;
            auto *own = static_cast<RecordingKernel &>(kernel).kernel.get();
            m_device.give(m_index, "begin", {}, [this, own, draw] { m_cpu->begin(*own, draw); });
        }
        void run(device::DeviceKernel &kernel, device::Mode mode, std::span<const void *const> inputs,
                 std::span<void *const> outputs) override
        {
            const PauseCounting pause;
            auto &own = static_cast<RecordingKernel &>(kernel);
            std::vector<Access> accesses;
            std::vector<const void *> from;
            std::vector<void *> to;
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                from.push_back(m_device.open(inputs[i]));
                if (inputs[i] != nullptr)
                    accesses.push_back(reading(inputs[i], own.inputBytes[i]));
            }
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                to.push_back(m_device.open(outputs[i]));
                if (outputs[i] != nullptr)
                    accesses.push_back(writing(outputs[i], own.outputBytes[i]));
            }
            for (Access &access : accesses)
                access.what = own.type.c_str();
            m_device.give(m_index, "run", std::move(accesses),
                          [this, &own, mode, from = std::move(from), to = std::move(to)] {
                              m_cpu->run(*own.kernel, mode, from, to);
                          });
        }
        void accumulate(const float *x, float *y, std::int64_t count) override
        {
            const PauseCounting pause;
            const auto *from = reinterpret_cast<const float *>(m_device.open(x));
            auto *to = reinterpret_cast<float *>(m_device.open(y));
            m_device.give(m_index, "accumulate", {reading(x, count * 4), writing(y, count * 4)},
                          [this, from, to, count] { m_cpu->accumulate(from, to, count); });
        }
        void copyToDevice(void *to, const void *host, std::int64_t bytes) override
        {
            const PauseCounting pause;
            void *opened = m_device.open(to);
            m_device.give(m_index, "copyToDevice", {writing(to, bytes), reading(host, bytes)},
                          [this, opened, host, bytes] { m_cpu->copy(opened, host, bytes); });
        }
        void copyToHost(void *host, const void *from, std::int64_t bytes) override
        {
            const PauseCounting pause;
            const void *opened = m_device.open(from);
            m_device.give(m_index, "copyToHost", {writing(host, bytes), reading(from, bytes)},
                          [this, opened, host, bytes] { m_cpu->copy(host, opened, bytes); });
        }
        void copy(void *to, const void *from, std::int64_t bytes) override
        {
            const PauseCounting pause;
            void *target = m_device.open(to);
            const void *source = m_device.open(from);
            m_device.give(m_index, "copy", {writing(to, bytes), reading(from, bytes)},
                          [this, target, source, bytes] { m_cpu->copy(target, source, bytes); });
        }
        void fill(void *to, std::uint32_t pattern, std::int64_t bytes) override
        {
            const PauseCounting pause;
            void *opened = m_device.open(to);
            m_device.give(m_index, "fill", {writing(to, bytes)},
                          [this, opened, pattern, bytes] { m_cpu->fill(opened, pattern, bytes); });
        }
        void update(device::Updates &updates, const device::UpdateStep &how) override
        {
            const PauseCounting pause;
            auto &own = static_cast<RecordingUpdates &>(updates);
            std::vector<Access> accesses = own.accesses;
            if (how.squares != nullptr && how.phase == 0)
                accesses.push_back(writing(how.squares, own.tableBytes));
            if (how.allSquares != nullptr && how.phase > 0)
                accesses.push_back(reading(how.allSquares, own.tableBytes));
            m_device.give(m_index, "update", std::move(accesses),
                          [this, &own, how] { m_cpu->update(*own.updates, how); });
        }
        void squaredNorm(device::Updates &updates, double *host) override
        {
            const PauseCounting pause;
            auto &own = static_cast<RecordingUpdates &>(updates);
            std::vector<Access> accesses = own.accesses;
            for (Access &access : accesses)
                access.writes = false;
            accesses.push_back(writing(host, sizeof *host));
            m_device.give(m_index, "squaredNorm", std::move(accesses),
                          [this, &own, host] { m_cpu->squaredNorm(*own.updates, host); });
        }
        void score(const device::ScoredRows &rows, device::RowScores *host) override
        {
            const PauseCounting pause;
            device::ScoredRows opened = rows;
            opened.values = m_device.open(rows.values);
            opened.labels = reinterpret_cast<const std::int64_t *>(m_device.open(rows.labels));
            const std::int64_t size = rows.form == device::ScoredRows::Form::HalfLogits ? 2 : 4;
            m_device.give(m_index, "score",
                          {reading(rows.values, rows.rows * rows.width * size), reading(rows.labels, rows.rows * 8),
                           writing(host, sizeof *host)},
                          [this, opened, host] { m_cpu->score(opened, host); });
        }

        void record(device::Event &event) override
        {
            const PauseCounting pause;
            auto &own = static_cast<RecordingEvent &>(event);
            m_device.give(m_index, "record", {}, [] {});
            const QueueState &queue = m_device.state(m_index);
            own.queue = m_index;
            own.number = queue.given;
            own.clock = queue.clock;
        }
        void wait(device::Event &event) override
        {
            const PauseCounting pause;
            const auto &own = static_cast<RecordingEvent &>(event);
            if (own.queue < 0)
                return;
            QueueState &queue = m_device.state(m_index);
            m_device.merge(queue.clock, own.clock);
            m_device.give(m_index, "wait", {}, [] {});
            queue.commands.back().waitQueue = own.queue;
            queue.commands.back().waitNumber = own.number;
        }

    private:
        RecordingDevice &m_device;
        std::int32_t m_index;
        std::unique_ptr<device::Queue> m_cpu;
    };

    void release(device::Space /*space*/, std::byte * /*data*/, std::int64_t /*bytes*/) override {}

    static std::uintptr_t addressOf(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }
    static Access reading(const void *address, std::int64_t bytes) { return {addressOf(address), bytes, false}; }
    static Access writing(const void *address, std::int64_t bytes) { return {addressOf(address), bytes, true}; }

    /// Where the commands find @p address; host memory stays as it is.
    [[nodiscard]] std::byte *open(const void *address) const
    {
        auto *at = static_cast<std::byte *>(const_cast<void *>(address));
        for (const Block &block : m_blocks) {
            if (at >= block.closed && at < block.closed + block.mapped)
                return block.open + (at - block.closed);
        }
        return at;
    }

    QueueState &state(std::int32_t queue) { return m_queues[static_cast<std::size_t>(queue)]; }

    static void merge(Clock &clock, const Clock &other)
    {
        clock.resize(std::max(clock.size(), other.size()));
        for (std::size_t i = 0; i < other.size(); ++i)
            clock[i] = std::max(clock[i], other[i]);
    }

    void give(std::int32_t index, const char *what, std::vector<Access> accesses, std::function<void()> work)
    {
        ++m_counts[what];
        QueueState &queue = state(index);
        merge(queue.clock, m_host);
        queue.clock.resize(m_queues.size());
        const Clock before = queue.clock; // its own earlier commands are in it
        ++queue.given;
        queue.clock[static_cast<std::size_t>(index)] = queue.given;
        for (Access &access : accesses) {
            access.queue = index;
            access.number = queue.given;
            if (*access.what == 0)
                access.what = what;
            for (const Access &earlier : m_accesses)
                compare(earlier, access, before);
            for (const auto &[id, transfers] : m_transport) {
                for (const Access &transfer : transfers)
                    compare(transfer, access, before);
            }
        }
        m_accesses.insert(m_accesses.end(), accesses.begin(), accesses.end());
        queue.commands.push_back({std::move(work)});
        std::size_t pending = 0;
        for (const QueueState &each : m_queues)
            pending += each.commands.size();
        m_mostPending = std::max(m_mostPending, pending);
    }

    /// Notes a race unless @p earlier has ended before a command with @p clock begins.
    void compare(const Access &earlier, const Access &later, const Clock &clock)
    {
        const auto queue = static_cast<std::size_t>(earlier.queue);
        const bool ordered = earlier.queue >= 0 && queue < clock.size() && clock[queue] >= earlier.number;
        const bool overlaps = earlier.begin < later.begin + static_cast<std::uintptr_t>(later.bytes)
            && later.begin < earlier.begin + static_cast<std::uintptr_t>(earlier.bytes);
        const bool same = earlier.queue == later.queue && earlier.number == later.number;
        if (ordered || same || !overlaps || (!earlier.writes && !later.writes) || !m_race.empty())
            return;
        m_race = std::string(later.what) + (later.writes ? " writes" : " reads") + " what " + earlier.what
            + (earlier.writes ? " writes" : " reads") + ", and nothing puts the two in order";
    }

    /// Runs the first command of a queue, if it may.
    bool runOne(QueueState &queue)
    {
        if (queue.commands.empty())
            return false;
        const Command &command = queue.commands.front();
        if (command.waitQueue >= 0 && state(command.waitQueue).ended < command.waitNumber)
            return false;
        command.work();
        queue.commands.pop_front();
        ++queue.ended;
        return true;
    }

    Result<bool> poll(const RecordingEvent &event)
    {
        const PauseCounting pause;
        if (!m_failure.empty())
            return failed(m_failure);
        if (event.queue < 0)
            return true;
        // At times nothing moves, at times one queue runs far ahead of another.
        for (std::uint32_t bursts = m_random() % 8; bursts > 0; --bursts) {
            QueueState &chosen = m_queues[m_random() % m_queues.size()];
            for (std::uint32_t steps = m_random() % 100; steps > 0 && runOne(chosen); --steps) {
            }
        }
        if (state(event.queue).ended < event.number)
            return false;
        merge(m_host, event.clock);
        std::erase_if(m_accesses, [this](const Access &access) {
            return m_host[static_cast<std::size_t>(access.queue)] >= access.number;
        });
        return true;
    }

    std::mt19937 m_random;
    std::vector<Block> m_blocks;
    std::vector<QueueState> m_queues;
    std::vector<Access> m_accesses; ///< that the host does not know to have ended
    std::map<std::int64_t, std::vector<Access>> m_transport;
    std::int64_t m_nextTransport = 0;
    Clock m_host;
    std::string m_race;
    std::string m_failure;
    std::map<std::string, std::int64_t> m_counts;
    std::int64_t m_made = 0;
    std::size_t m_mostPending = 0;
};

} // namespace planloom::test
