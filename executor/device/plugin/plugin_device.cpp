// SPDX-License-Identifier: Apache-2.0
#include "executor/device/plugin/plugin_device.h"

#include "executor/device/plugin/host_kernels.h"
#include "executor/device/plugin/host_work.h"
#include "executor/device/plugin/translate.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace planloom::device {

namespace {

using Table = PlanloomDeviceTable;

class PluginEvent final : public Event {
public:
    PluginEvent(const Table &table, PlanloomEvent *event) : m_table(table), m_event(event) {}
    ~PluginEvent() override { m_table.destroyEvent(m_event); }
    PluginEvent(const PluginEvent &) = delete;
    PluginEvent &operator=(const PluginEvent &) = delete;
    Result<bool> poll() override
    {
        PlanloomError why;
        const std::int32_t done = m_table.poll(m_event, &why);
        if (done < 0)
            return errorOf(why);
        return done > 0;
    }
    [[nodiscard]] PlanloomEvent *handle() const { return m_event; }

private:
    const Table &m_table;
    PlanloomEvent *m_event;
};

/// The library's, or the host's.
class PluginKernel final : public DeviceKernel {
public:
    PluginKernel(const Table &table, PlanloomKernel *kernel)
        : DeviceKernel(table.capabilities(kernel)),
          m_table(table),
          m_kernel(kernel)
    {
    }
    PluginKernel(const Table &table, std::unique_ptr<HostKernel> host)
        : DeviceKernel(host->capabilities()),
          m_table(table),
          m_host(std::move(host))
    {
    }
    ~PluginKernel() override
    {
        if (m_kernel != nullptr)
            m_table.destroyKernel(m_kernel);
    }
    PluginKernel(const PluginKernel &) = delete;
    PluginKernel &operator=(const PluginKernel &) = delete;
    [[nodiscard]] PlanloomKernel *handle() const { return m_kernel; }
    [[nodiscard]] HostKernel *host() const { return m_host.get(); }

private:
    const Table &m_table;
    PlanloomKernel *m_kernel = nullptr;
    std::unique_ptr<HostKernel> m_host;
};

class PluginUpdates final : public Updates {
public:
    PluginUpdates(const Table &table, PlanloomUpdates *updates) : m_table(table), m_updates(updates) {}
    PluginUpdates(const Table &table, std::unique_ptr<HostUpdates> host) : m_table(table), m_host(std::move(host)) {}
    ~PluginUpdates() override
    {
        if (m_updates != nullptr)
            m_table.destroyUpdates(m_updates);
    }
    PluginUpdates(const PluginUpdates &) = delete;
    PluginUpdates &operator=(const PluginUpdates &) = delete;
    [[nodiscard]] PlanloomUpdates *handle() const { return m_updates; }
    [[nodiscard]] HostUpdates *host() const { return m_host.get(); }

private:
    const Table &m_table;
    PlanloomUpdates *m_updates = nullptr;
    std::unique_ptr<HostUpdates> m_host;
};

class PluginGraph final : public CommandGraph {
public:
    PluginGraph(const Table &table, PlanloomGraph *graph) : m_table(table), m_graph(graph) {}
    ~PluginGraph() override { m_table.destroyGraph(m_graph); }
    PluginGraph(const PluginGraph &) = delete;
    PluginGraph &operator=(const PluginGraph &) = delete;
    [[nodiscard]] PlanloomGraph *handle() const { return m_graph; }

private:
    const Table &m_table;
    PlanloomGraph *m_graph;
};

class PluginQueue final : public Queue {
public:
    PluginQueue(const Table &table, PlanloomQueue *queue, HostWork &work) : m_table(table), m_queue(queue), m_work(work)
    {
    }
    ~PluginQueue() override { m_table.destroyQueue(m_queue); }
    PluginQueue(const PluginQueue &) = delete;
    PluginQueue &operator=(const PluginQueue &) = delete;

    void begin(DeviceKernel &kernel, const Draw &draw) override
    {
        auto &own = static_cast<PluginKernel &>(kernel);
        const PlanloomDraw drawn = toTable(draw);
        if (own.host() != nullptr)
            own.host()->begin(draw);
        else
            m_table.begin(m_queue, own.handle(), &drawn);
    }
    void run(DeviceKernel &kernel, Mode mode, std::span<const void *const> inputs,
             std::span<void *const> outputs) override
    {
        auto &own = static_cast<PluginKernel &>(kernel);
        if (own.host() != nullptr)
            own.host()->give(m_work, m_queue, mode, inputs, outputs);
        else
            m_table.run(m_queue, own.handle(), static_cast<std::int32_t>(mode), inputs.data(),
                        static_cast<std::int64_t>(inputs.size()), outputs.data(),
                        static_cast<std::int64_t>(outputs.size()));
    }
    void accumulate(const float *x, float *y, std::int64_t count) override { m_table.accumulate(m_queue, x, y, count); }
    void copyToDevice(void *to, const void *from, std::int64_t bytes) override
    {
        m_table.copyToDevice(m_queue, to, from, bytes);
    }
    void copyToHost(void *to, const void *from, std::int64_t bytes) override
    {
        m_table.copyToHost(m_queue, to, from, bytes);
    }
    void copy(void *to, const void *from, std::int64_t bytes) override { m_table.copy(m_queue, to, from, bytes); }
    void fill(void *to, std::uint32_t pattern, std::int64_t bytes) override
    {
        m_table.fill(m_queue, to, pattern, bytes);
    }

    void update(Updates &updates, const UpdateStep &how) override
    {
        auto &own = static_cast<PluginUpdates &>(updates);
        const PlanloomUpdateStep step = toTable(how);
        if (own.host() != nullptr)
            own.host()->update(m_work, m_queue, how);
        else
            m_table.update(m_queue, own.handle(), &step);
    }
    void squaredNorm(Updates &updates, double *host) override
    {
        auto &own = static_cast<PluginUpdates &>(updates);
        if (own.host() != nullptr)
            own.host()->squaredNorm(m_work, m_queue, host);
        else
            m_table.squaredNorm(m_queue, own.handle(), host);
    }
    void score(const ScoredRows &rows, RowScores *host) override
    {
        const PlanloomScoredRows scored = toTable(rows);
        if (m_table.score == nullptr)
            scoreOnHost(m_work, m_queue, rows, host);
        else
            m_table.score(m_queue, &scored, reinterpret_cast<PlanloomRowScores *>(host));
    }

    bool beginCapture() override { return m_table.beginCapture(m_queue) != 0; }
    Result<std::unique_ptr<CommandGraph>> endCapture() override
    {
        PlanloomError why;
        PlanloomGraph *graph = m_table.endCapture(m_queue, &why);
        if (graph == nullptr)
            return errorOf(why);
        return std::unique_ptr<CommandGraph>(std::make_unique<PluginGraph>(m_table, graph));
    }
    void replay(CommandGraph &graph) override { m_table.replay(m_queue, static_cast<PluginGraph &>(graph).handle()); }

    void record(Event &event) override { m_table.record(m_queue, static_cast<PluginEvent &>(event).handle()); }
    void wait(Event &event) override { m_table.wait(m_queue, static_cast<PluginEvent &>(event).handle()); }

private:
    const Table &m_table;
    PlanloomQueue *m_queue;
    HostWork &m_work;
};

class OpenDevice final : public PluginDevice {
public:
    OpenDevice(const Table &table, PlanloomDevice *device, std::string name)
        : m_table(table),
          m_device(device),
          m_name(std::move(name)),
          m_work(std::make_unique<HostWork>(table, device))
    {
    }
    ~OpenDevice() override
    {
        m_work.reset();
        m_table.close(m_device);
    }
    OpenDevice(const OpenDevice &) = delete;
    OpenDevice &operator=(const OpenDevice &) = delete;

    [[nodiscard]] const std::string &name() const override { return m_name; }
    [[nodiscard]] bool owns(const void *address) const override
    {
        const std::scoped_lock lock(m_mutex);
        const auto *at = static_cast<const std::byte *>(address);
        const auto next = m_blocks.upper_bound(at);
        return next != m_blocks.begin() && at < std::prev(next)->first + std::prev(next)->second;
    }
    [[nodiscard]] std::map<std::string, std::int64_t> onHost() const override { return m_work->listed(); }

    [[nodiscard]] bool hostAddressable() const override { return m_table.hostAddressable(m_device) != 0; }
    [[nodiscard]] std::byte *transportAddress(std::byte *address) override
    {
        return static_cast<std::byte *>(m_table.transportAddress(m_device, address));
    }
    Result<Memory> allocate(Space space, std::int64_t bytes) override
    {
        PlanloomError why;
        void *data = m_table.allocate(m_device, static_cast<std::int32_t>(space), bytes, &why);
        if (data == nullptr)
            return errorOf(why);
        if (space == Space::Device) {
            const std::scoped_lock lock(m_mutex);
            m_blocks[static_cast<std::byte *>(data)] = bytes;
        }
        return Memory(*this, space, static_cast<std::byte *>(data), bytes);
    }
    Result<std::unique_ptr<Queue>> makeQueue() override
    {
        PlanloomError why;
        PlanloomQueue *queue = m_table.makeQueue(m_device, &why);
        if (queue == nullptr)
            return errorOf(why);
        return std::unique_ptr<Queue>(std::make_unique<PluginQueue>(m_table, queue, *m_work));
    }
    Result<std::unique_ptr<Event>> makeEvent() override
    {
        PlanloomError why;
        PlanloomEvent *event = m_table.makeEvent(m_device, &why);
        if (event == nullptr)
            return errorOf(why);
        return std::unique_ptr<Event>(std::make_unique<PluginEvent>(m_table, event));
    }
    Result<std::unique_ptr<DeviceKernel>> makeKernel(const graph::Op &op, std::span<const Argument> inputs,
                                                     std::span<const Argument> outputs) override
    {
        const OperatorText text(op, inputs, outputs);
        PlanloomError why;
        if (PlanloomKernel *kernel = m_table.makeKernel(m_device, &text.get(), &why))
            return std::unique_ptr<DeviceKernel>(std::make_unique<PluginKernel>(m_table, kernel));
        if (const Error error = errorOf(why); error.code != ErrorCode::Unsupported)
            return error;
        auto host = HostKernel::make(*m_work, op, inputs, outputs, !hostAddressable());
        if (!host)
            return host.error();
        return std::unique_ptr<DeviceKernel>(std::make_unique<PluginKernel>(m_table, std::move(*host)));
    }
    Result<std::unique_ptr<Updates>> makeUpdates(const update::Formula &formula,
                                                 std::span<const UpdateRange> ranges) override
    {
        const FormulaText text(formula);
        std::vector<PlanloomUpdateRange> all;
        for (const UpdateRange &range : ranges)
            all.push_back(toTable(range));
        PlanloomError why;
        PlanloomUpdates *updates =
            m_table.makeUpdates(m_device, &text.get(), all.data(), static_cast<std::int64_t>(all.size()), &why);
        if (updates != nullptr)
            return std::unique_ptr<Updates>(std::make_unique<PluginUpdates>(m_table, updates));
        if (const Error error = errorOf(why); error.code != ErrorCode::Unsupported)
            return error;
        auto host = HostUpdates::make(*m_work, formula, ranges);
        if (!host)
            return host.error();
        return std::unique_ptr<Updates>(std::make_unique<PluginUpdates>(m_table, std::move(*host)));
    }

private:
    void release(Space space, std::byte *data, std::int64_t bytes) override
    {
        if (space == Space::Device) {
            const std::scoped_lock lock(m_mutex);
            m_blocks.erase(data);
        }
        m_table.release(m_device, static_cast<std::int32_t>(space), data, bytes);
    }

    const Table &m_table;
    PlanloomDevice *m_device;
    std::string m_name;
    std::unique_ptr<HostWork> m_work;
    mutable std::mutex m_mutex;
    std::map<const std::byte *, std::int64_t> m_blocks; ///< of Space::Device
};

} // namespace

Result<std::unique_ptr<PluginDevice>> PluginDevice::open(const PlanloomDeviceTable &table, int index)
{
    PlanloomError why;
    PlanloomDescription description{};
    if (table.describe(index, &description, &why) < 0)
        return errorOf(why);
    PlanloomDevice *device = table.open(index, &why);
    if (device == nullptr)
        return errorOf(why);
    return std::unique_ptr<PluginDevice>(std::make_unique<OpenDevice>(
        table, device, std::string(description.name, ::strnlen(description.name, sizeof description.name))));
}

} // namespace planloom::device
