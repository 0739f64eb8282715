// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/plugin/host_calls.h"
#include "executor/device/plugin/translate.h"

#include <exception>
#include <new>

// For libraries: the table of any Device. Handles are pointers to the classes of device.h.
namespace planloom::device::table {

inline Device &of(PlanloomDevice *handle) { return *reinterpret_cast<Device *>(handle); }
inline Queue &of(PlanloomQueue *handle) { return *reinterpret_cast<Queue *>(handle); }
inline Event &of(PlanloomEvent *handle) { return *reinterpret_cast<Event *>(handle); }
inline DeviceKernel &of(PlanloomKernel *handle) { return *reinterpret_cast<DeviceKernel *>(handle); }
inline Updates &of(PlanloomUpdates *handle) { return *reinterpret_cast<Updates *>(handle); }
inline CommandGraph &of(PlanloomGraph *handle) { return *reinterpret_cast<CommandGraph *>(handle); }

/// The handle of what @p make() made; an error or exception goes to @p why.
template <class Handle, class F>
Handle *made(PlanloomError *why, F make) noexcept
{
    try {
        auto result = make();
        if (result)
            return reinterpret_cast<Handle *>((*result).release());
        setError(*why, result.error());
    } catch (const std::exception &error) {
        setError(*why, failed(error.what()));
    }
    return nullptr;
}

/// A block whose owner is beyond the table: released by release().
union Given {
    explicit Given(Memory &&memory) : block(std::move(memory)) {}
    ~Given() {} // NOLINT: does not release
    Memory block;
};

inline void *allocate(PlanloomDevice *device, int32_t space, int64_t bytes, PlanloomError *why) noexcept
{
    try {
        auto memory = of(device).allocate(static_cast<Space>(space), bytes);
        if (memory)
            return Given(std::move(*memory)).block.data();
        setError(*why, memory.error());
    } catch (const std::exception &error) {
        setError(*why, failed(error.what()));
    }
    return nullptr;
}
inline void release(PlanloomDevice *device, int32_t space, void *data, int64_t bytes) noexcept
{
    const Memory taken(of(device), static_cast<Space>(space), static_cast<std::byte *>(data), bytes);
}

inline int32_t poll(PlanloomEvent *event, PlanloomError *why) noexcept
{
    const Result<bool> done = of(event).poll();
    if (done)
        return *done ? 1 : 0;
    setError(*why, done.error());
    return -1;
}

inline PlanloomKernel *makeKernel(PlanloomDevice *device, const PlanloomOperator *what, PlanloomError *why) noexcept
{
    return made<PlanloomKernel>(why, [&] {
        return of(device).makeKernel(operatorOf(*what), argumentsOf(what->inputs, what->inputCount),
                                     argumentsOf(what->outputs, what->outputCount));
    });
}
inline uint32_t capabilities(PlanloomKernel *kernel)
{
    std::uint32_t all = 0;
    for (const auto each : {DeviceKernel::kAdds, DeviceKernel::kDraws, DeviceKernel::kInfers, DeviceKernel::kCaptures})
        all |= of(kernel).has(each) ? each : 0U;
    return all;
}

inline PlanloomUpdates *makeUpdates(PlanloomDevice *device, const PlanloomFormula *formula,
                                    const PlanloomUpdateRange *ranges, int64_t count, PlanloomError *why) noexcept
{
    return made<PlanloomUpdates>(why, [&] {
        std::vector<UpdateRange> all;
        for (const PlanloomUpdateRange *at = ranges; at < ranges + count; ++at)
            all.push_back(fromTable(*at));
        return of(device).makeUpdates(formulaOf(*formula), all);
    });
}

inline void run(PlanloomQueue *queue, PlanloomKernel *kernel, int32_t mode, const void *const *inputs,
                int64_t inputCount, void *const *outputs, int64_t outputCount)
{
    of(queue).run(of(kernel), static_cast<Mode>(mode), {inputs, static_cast<std::size_t>(inputCount)},
                  {outputs, static_cast<std::size_t>(outputCount)});
}

/// Queues that are no HostCalls run commands during the call.
inline void call(PlanloomQueue *queue, void (*function)(void *), void *data)
{
    if (auto *calls = dynamic_cast<HostCalls *>(&of(queue)))
        calls->call(function, data);
    else
        function(data);
}

/// All but devices, describe, open and close, which the library adds. @p scores: queues of the devices can score.
inline PlanloomDeviceTable tableOfDevices(bool scores)
{
    PlanloomDeviceTable t{};
    t.abi = PLANLOOM_DEVICE_ABI;
    t.bytes = sizeof t;
    t.hostAddressable = [](PlanloomDevice *d) { return static_cast<int32_t>(of(d).hostAddressable()); };
    t.transportAddress = [](PlanloomDevice *d, void *address) {
        return static_cast<void *>(of(d).transportAddress(static_cast<std::byte *>(address)));
    };
    t.allocate = allocate;
    t.release = release;
    t.makeEvent = [](PlanloomDevice *d, PlanloomError *why) {
        return made<PlanloomEvent>(why, [&] { return of(d).makeEvent(); });
    };
    t.destroyEvent = [](PlanloomEvent *event) { delete &of(event); };
    t.poll = poll;
    t.makeKernel = makeKernel;
    t.capabilities = capabilities;
    t.destroyKernel = [](PlanloomKernel *kernel) { delete &of(kernel); };
    t.makeUpdates = makeUpdates;
    t.destroyUpdates = [](PlanloomUpdates *updates) { delete &of(updates); };
    t.makeQueue = [](PlanloomDevice *d, PlanloomError *why) {
        return made<PlanloomQueue>(why, [&] { return of(d).makeQueue(); });
    };
    t.destroyQueue = [](PlanloomQueue *queue) { delete &of(queue); };
    t.begin = [](PlanloomQueue *q, PlanloomKernel *kernel, const PlanloomDraw *draw) {
        of(q).begin(of(kernel), fromTable(*draw));
    };
    t.run = run;
    t.accumulate = [](PlanloomQueue *q, const float *x, float *y, int64_t n) { of(q).accumulate(x, y, n); };
    t.copyToDevice = [](PlanloomQueue *q, void *to, const void *from, int64_t n) { of(q).copyToDevice(to, from, n); };
    t.copyToHost = [](PlanloomQueue *q, void *to, const void *from, int64_t n) { of(q).copyToHost(to, from, n); };
    t.copy = [](PlanloomQueue *q, void *to, const void *from, int64_t n) { of(q).copy(to, from, n); };
    t.fill = [](PlanloomQueue *q, void *to, uint32_t pattern, int64_t n) { of(q).fill(to, pattern, n); };
    t.update = [](PlanloomQueue *q, PlanloomUpdates *updates, const PlanloomUpdateStep *how) {
        of(q).update(of(updates), fromTable(*how));
    };
    t.squaredNorm = [](PlanloomQueue *q, PlanloomUpdates *updates, double *host) {
        of(q).squaredNorm(of(updates), host);
    };
    if (scores)
        t.score = [](PlanloomQueue *q, const PlanloomScoredRows *rows, PlanloomRowScores *host) {
            of(q).score(fromTable(*rows), reinterpret_cast<RowScores *>(host));
        };
    t.record = [](PlanloomQueue *q, PlanloomEvent *event) { of(q).record(of(event)); };
    t.wait = [](PlanloomQueue *q, PlanloomEvent *event) { of(q).wait(of(event)); };
    t.call = call;
    t.beginCapture = [](PlanloomQueue *q) { return static_cast<int32_t>(of(q).beginCapture()); };
    t.endCapture = [](PlanloomQueue *q, PlanloomError *why) {
        return made<PlanloomGraph>(why, [&] { return of(q).endCapture(); });
    };
    t.destroyGraph = [](PlanloomGraph *graph) { delete &of(graph); };
    t.replay = [](PlanloomQueue *q, PlanloomGraph *graph) { of(q).replay(of(graph)); };
    return t;
}

} // namespace planloom::device::table
