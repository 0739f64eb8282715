// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulated_gpu.h"

#include "executor/device/cuda/cuda_device.h"
#include "executor/device/cuda/cuda_table.h"
#include "gpu/emulated_activity.h"
#include "gpu/emulated_graphs.h"
#include "gpu/emulated_kernels.h"
#include "gpu/emulated_products.h"
#include "gpu/left_out_waits.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace planloom::cuda {

struct EventObject {
    std::int64_t recorded = 0;
    std::atomic<std::int64_t> completed{0};
    std::shared_ptr<EventObject> self; ///< until the event is destroyed; commands hold it longer
};

/// A thread with commands.
struct StreamHandle {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> commands;
    bool busy = false;
    bool ends = false;
    std::mt19937_64 random;
    std::jthread thread;
};

} // namespace planloom::cuda

namespace planloom::test {

namespace {

using cuda::EventHandle;
using cuda::Stream;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr std::size_t kRedZone = 4096;
constexpr std::byte kMark{0xA5};
constexpr int kGarbage = 0xCD;

/// Device memory: one mapping, open while a command runs.
class DeviceMemory {
public:
    ~DeviceMemory()
    {
        if (m_begin != nullptr)
            ::munmap(m_begin, m_size);
    }

    void *give(std::size_t bytes)
    {
        const std::scoped_lock lock(m_mutex);
        reserve();
        const std::size_t whole = (bytes + 255) / 256 * 256 + kRedZone;
        std::size_t at = kRedZone;
        for (const auto &[begin, size] : m_blocks) { // the first gap that is large enough
            if (begin - at >= whole)
                break;
            at = begin + (size + 255) / 256 * 256 + kRedZone;
        }
        if (at + whole > m_limit)
            return nullptr;
        m_blocks[at] = bytes;
        const Opened opened(*this);
        std::memset(m_begin + at - kRedZone, static_cast<int>(kMark), kRedZone);
        fillEnds(m_begin + at, bytes);
        std::memset(m_begin + at + bytes, static_cast<int>(kMark), whole - bytes);
        return m_begin + at;
    }

    bool take(void *data)
    {
        const std::scoped_lock lock(m_mutex);
        const auto at = static_cast<std::size_t>(static_cast<std::byte *>(data) - m_begin);
        const auto block = m_blocks.find(at);
        if (block == m_blocks.end())
            return false;
        const Opened opened(*this);
        for (std::size_t i = 1; i <= kRedZone; ++i)
            if (m_begin[at - i] != kMark || m_begin[at + block->second + i - 1] != kMark)
                m_problem = "a command wrote beyond a block of " + std::to_string(block->second) + " bytes";
        m_blocks.erase(block);
        return true;
    }

    void set(std::int64_t bytes, bool largePages)
    {
        const std::scoped_lock lock(m_mutex);
        m_largePages = largePages;
        m_limit = std::min(m_size, static_cast<std::size_t>(bytes));
    }
    std::string problem()
    {
        const std::scoped_lock lock(m_mutex);
        return m_problem;
    }
    std::int64_t blocks()
    {
        const std::scoped_lock lock(m_mutex);
        return static_cast<std::int64_t>(m_blocks.size());
    }

    void open()
    {
        const std::scoped_lock lock(m_opening);
        if (m_users++ == 0 && m_begin != nullptr)
            ::mprotect(m_begin, m_size, PROT_READ | PROT_WRITE);
    }
    void close()
    {
        const std::scoped_lock lock(m_opening);
        if (--m_users == 0 && m_begin != nullptr)
            ::mprotect(m_begin, m_size, PROT_NONE);
    }

private:
    struct Opened {
        explicit Opened(DeviceMemory &of) : memory(of) { memory.open(); }
        ~Opened() { memory.close(); }
        Opened(const Opened &) = delete;
        Opened &operator=(const Opened &) = delete;
        DeviceMemory &memory;
    };
    /// Garbage in all of a block, of a large one in its first and last MiB: opening and closing takes time for every
    /// page that was ever written.
    static void fillEnds(std::byte *block, std::size_t bytes)
    {
        const std::size_t part = std::min(bytes, std::size_t{1} << 20);
        std::memset(block, kGarbage, part);
        std::memset(block + bytes - part, kGarbage, part);
    }
    void reserve()
    {
        const std::scoped_lock lock(m_opening);
        if (m_begin != nullptr)
            return;
        void *mapped = ::mmap(nullptr, m_size, m_users > 0 ? PROT_READ | PROT_WRITE : PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED)
            return;
        if (m_largePages)
            ::madvise(mapped, m_size, MADV_HUGEPAGE); // fewer to open and close; refused: as without
        m_begin = static_cast<std::byte *>(mapped);
    }

    std::mutex m_mutex;
    std::mutex m_opening;
    int m_users = 0;
    bool m_largePages = false;
    std::byte *m_begin = nullptr;
    std::size_t m_size = std::size_t{1} << 30;
    std::size_t m_limit = std::size_t{1} << 30;
    std::map<std::size_t, std::size_t> m_blocks; ///< begin, bytes
    std::string m_problem;
};

struct State {
    EmulatedGpu::Settings settings;
    DeviceMemory memory;
    std::atomic<int> error{0};
    std::atomic<std::int64_t> objects{0};
    std::atomic<std::int64_t> kernels{0}, products{0}, convolutions{0}, copies{0}, calls{0};
    std::atomic<std::uint64_t> streams{0};
    std::mutex eventMutex;
    std::condition_variable eventChanged;
    cuda::Provider provider;
};

State &state()
{
    static State kState;
    return kState;
}

// --- Streams --------------------------------------------------------------------------------------------------------

/// A pause before a command, of any length from none to one in which others run far ahead.
void pause(std::mt19937_64 &random)
{
    const std::uint64_t choice = random() % 64;
    if (choice == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    else if (choice < 16)
        std::this_thread::yield();
}

void work(const std::stop_token &stop, Stream stream)
{
    bool open = false;
    const auto close = [&] {
        if (open)
            state().memory.close();
        open = false;
    };
    while (true) {
        std::function<void()> command;
        {
            std::unique_lock lock(stream->mutex);
            if (stream->commands.empty()) {
                close();
                stream->busy = false;
                stream->changed.notify_all();
                stream->changed.wait(lock, [&] { return !stream->commands.empty() || stop.stop_requested(); });
            }
            if (stream->commands.empty())
                return;
            stream->busy = true;
            command = std::move(stream->commands.front());
            stream->commands.pop_front();
        }
        pause(stream->random);
        if (!open)
            state().memory.open();
        open = true;
        if (state().error == 0)
            command();
    }
}

int give(Stream stream, std::function<void()> command)
{
    if (state().error != 0)
        return state().error;
    const std::scoped_lock lock(stream->mutex);
    stream->commands.push_back(std::move(command));
    stream->changed.notify_all();
    return cuda::kSuccess;
}

int streamCreate(Stream *stream, unsigned int /*flags*/)
{
    ++state().objects;
    auto *made = new cuda::StreamHandle;
    made->random.seed(state().settings.seed * 1000 + state().streams++);
    made->thread = std::jthread([made](const std::stop_token &stop) { work(stop, made); });
    *stream = made;
    return cuda::kSuccess;
}

int streamSynchronize(Stream stream)
{
    std::unique_lock lock(stream->mutex);
    stream->changed.wait(lock, [&] { return stream->commands.empty() && !stream->busy; });
    return state().error;
}

int streamDestroy(Stream stream)
{
    streamSynchronize(stream);
    {
        const std::scoped_lock lock(stream->mutex);
        stream->thread.request_stop();
        stream->changed.notify_all();
    }
    delete stream; // joins
    --state().objects;
    return cuda::kSuccess;
}

// --- Events ---------------------------------------------------------------------------------------------------------

int eventCreate(EventHandle *event, unsigned int /*flags*/)
{
    ++state().objects;
    auto made = std::make_shared<cuda::EventObject>();
    made->self = made;
    *event = made.get();
    return cuda::kSuccess;
}

int eventDestroy(EventHandle event)
{
    event->self.reset();
    --state().objects;
    return cuda::kSuccess;
}

int eventRecord(EventHandle event, Stream stream)
{
    const std::int64_t number = ++event->recorded;
    return give(stream, [event = event->self, number] {
        const std::scoped_lock lock(state().eventMutex);
        event->completed = number;
        state().eventChanged.notify_all();
    });
}

int eventQuery(EventHandle event)
{
    if (state().error != 0)
        return state().error;
    return event->completed >= event->recorded || leavesOutWait() ? cuda::kSuccess : cuda::kNotReady;
}

int streamWaitEvent(Stream stream, EventHandle event, unsigned int /*flags*/)
{
    if (leavesOutWait())
        return cuda::kSuccess;
    const std::int64_t number = event->recorded;
    return give(stream, [event = event->self, number] {
        state().memory.close(); // nothing runs while it waits
        {
            std::unique_lock lock(state().eventMutex);
            state().eventChanged.wait(lock, [&] { return event->completed >= number || state().error != 0; });
        }
        state().memory.open();
    });
}

// --- Memory and commands --------------------------------------------------------------------------------------------

int allocate(void **data, std::size_t bytes)
{
    *data = state().memory.give(bytes);
    return *data != nullptr ? cuda::kSuccess : kOutOfMemory;
}

int release(void *data) { return state().memory.take(data) ? cuda::kSuccess : kInvalidValue; }

int hostAlloc(void **data, std::size_t bytes, unsigned int /*flags*/)
{
    ++state().objects;
    *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*data != nullptr)
        std::memset(*data, kGarbage, bytes);
    return *data != nullptr ? cuda::kSuccess : kOutOfMemory;
}

int freeHost(void *data)
{
    --state().objects;
    std::free(data);
    return cuda::kSuccess;
}

int clear(void *data, int value, std::size_t bytes)
{
    state().memory.open();
    std::memset(data, value, bytes);
    state().memory.close();
    return cuda::kSuccess;
}

/// @p command, and a record of it where records are wanted.
template <class F>
std::function<void()> recorded(cuda::ActivityKind kind, std::size_t bytes, F command)
{
    const std::uint32_t correlation = EmulatedActivity::called(kind);
    if (correlation == 0)
        return command;
    return [=] {
        const std::uint64_t start = EmulatedActivity::now();
        command();
        EmulatedActivity::ran({kind, correlation, start, EmulatedActivity::now(), bytes});
    };
}

int memcpyAsync(void *to, const void *from, std::size_t bytes, cuda::CopyKind /*kind*/, Stream stream)
{
    return give(stream, recorded(cuda::ActivityKind::Copy, bytes, [=] {
                    ++state().copies;
                    std::memmove(to, from, bytes);
                }));
}

int memsetAsync(void *to, int value, std::size_t bytes, Stream stream)
{
    return give(stream, recorded(cuda::ActivityKind::Fill, bytes, [=] { std::memset(to, value, bytes); }));
}

int launchHostFunc(Stream stream, void (*function)(void *), void *data)
{
    return give(stream, [=] {
        ++state().calls;
        function(data);
    });
}

int launchKernel(const void *function, cuda::Grid grid, cuda::Grid block, void **arguments, std::size_t sharedBytes,
                 Stream stream)
{
    const auto &kernel = *static_cast<const EmulatedKernel *>(function);
    if (grid.x == 0 || block.x == 0 || (block.x & (block.x - 1)) != 0 || block.x > 1024)
        return kInvalidValue;
    std::vector<std::byte> copy(kernel.bytes);
    std::memcpy(copy.data(), arguments[0], kernel.bytes);
    const auto run = [&kernel, grid, block, sharedBytes, stream, copy = std::move(copy)] {
        ++state().kernels;
        std::vector<double> shared(sharedBytes / sizeof(double) + 1);
        const bool backwards = stream->random() % 2 != 0;
        for (unsigned int i = 0; i < grid.x; ++i) {
            std::memset(shared.data(), kGarbage, sharedBytes);
            cuda::Block at;
            at.index = backwards ? grid.x - 1 - i : i;
            at.count = grid.x;
            at.threads = static_cast<int>(block.x);
            at.shared = reinterpret_cast<float *>(shared.data());
            at.extra = at.shared + 2 * std::size_t{block.x};
            at.order = static_cast<std::uint32_t>(stream->random());
            kernel.run(copy.data(), at);
        }
    };
    return give(stream, recorded(cuda::ActivityKind::Kernel, 0, run));
}

int runProduct(cuda::ProductHandle /*handle*/, cuda::ProductDescription description, const void *alpha, const void *a,
               cuda::MatrixLayout aLayout, const void *b, cuda::MatrixLayout bLayout, const void *beta, const void *c,
               cuda::MatrixLayout cLayout, void *d, cuda::MatrixLayout dLayout,
               const cuda::ProductAlgorithm * /*algorithm*/, void *workspace, std::size_t workspaceBytes, Stream stream)
{
    if (c != d || cLayout != dLayout)
        return 7; // CUBLAS_STATUS_INVALID_VALUE
    const EmulatedProduct product{*description,
                                  *aLayout,
                                  *bLayout,
                                  *dLayout,
                                  *static_cast<const float *>(alpha),
                                  *static_cast<const float *>(beta)};
    const auto run = [=] {
        ++state().products;
        // It uses its workspace: what another product leaves there spoils the result.
        const std::uint64_t mark = stream->random();
        std::memcpy(workspace, &mark, std::min(workspaceBytes, sizeof mark));
        product.run(a, b, d);
        pause(stream->random);
        if (std::memcmp(workspace, &mark, std::min(workspaceBytes, sizeof mark)) != 0)
            product.spoil(d);
    };
    return give(stream, recorded(cuda::ActivityKind::Kernel, 0, run));
}

int runGraph(cuda::GraphHandle handle, cuda::GraphDescriptor plan, cuda::GraphDescriptor pack)
{
    const auto ready = graphRun(plan, pack);
    if (ready == nullptr)
        return kBadParameter;
    Stream stream = handle->stream;
    const auto run = [ready, stream] {
        ++state().convolutions;
        const std::uint64_t mark = stream->random(); // as products do
        std::memcpy(ready->workspace, &mark, sizeof mark);
        ready->convolution.run(ready->data);
        pause(stream->random);
        if (std::memcmp(ready->workspace, &mark, sizeof mark) != 0)
            ready->convolution.spoil(ready->data);
    };
    return give(stream, recorded(cuda::ActivityKind::Kernel, 0, run));
}

thread_local int t_device = 0;

const char *errorText(int error)
{
    switch (error) {
    case kOutOfMemory: return "out of memory";
    case 35: return "CUDA driver version is insufficient for CUDA runtime version";
    case 700: return "an illegal memory access was encountered";
    default: return "unknown error";
    }
}

cuda::RuntimeApi runtimeApi()
{
    cuda::RuntimeApi api{};
    api.getDeviceCount = [](int *count) {
        *count = state().settings.devices;
        return *count > 0 ? cuda::kSuccess : 35;
    };
    api.describe = [](int, char *name, std::size_t nameBytes, std::int64_t *memoryBytes) {
        std::strncpy(name, "emulated GPU", nameBytes);
        *memoryBytes = state().settings.memoryBytes;
        return cuda::kSuccess;
    };
    api.identify = [](int device, char *text, std::size_t bytes) {
        std::snprintf(text, bytes, "emulated-%d", device);
        return cuda::kSuccess;
    };
    api.setDevice = [](int device) {
        if (device >= state().settings.devices)
            return 101;
        t_device = device;
        return cuda::kSuccess;
    };
    api.errorText = errorText;
    api.malloc = allocate;
    api.free = release;
    api.hostAlloc = hostAlloc;
    api.freeHost = freeHost;
    api.memset = clear;
    api.streamCreate = streamCreate;
    api.streamDestroy = streamDestroy;
    api.streamSynchronize = streamSynchronize;
    api.eventCreate = eventCreate;
    api.eventDestroy = eventDestroy;
    api.eventRecord = eventRecord;
    api.eventQuery = eventQuery;
    api.streamWaitEvent = streamWaitEvent;
    api.memcpyAsync = memcpyAsync;
    api.memsetAsync = memsetAsync;
    api.launchHostFunc = launchHostFunc;
    api.launchKernel = launchKernel;
    return api;
}

} // namespace

void EmulatedGpu::set(const Settings &settings)
{
    static const cuda::ProductApi kProducts = emulatedProducts(runProduct);
    state().settings = settings;
    state().memory.set(settings.memoryBytes, settings.largePages);
    state().provider.runtime = runtimeApi();
    state().provider.products = settings.products ? &kProducts : nullptr;
    static const cuda::GraphApi kGraphs = emulatedGraphs(runGraph);
    state().provider.graphs = settings.graphs ? &kGraphs : nullptr;
    state().provider.kernels = emulatedKernels();
    state().provider.rowThreads = 16;
    state().provider.leastPart = 1; // so that small sums are shared out, too
}

const cuda::Provider &EmulatedGpu::provider() { return state().provider; }

const PlanloomDeviceTable &EmulatedGpu::table()
{
    static const PlanloomDeviceTable kTable = cuda::tableOf<EmulatedGpu::provider>();
    return kTable;
}

void EmulatedGpu::breakDown(int error)
{
    state().error = error;
    const std::scoped_lock lock(state().eventMutex);
    state().eventChanged.notify_all();
}

std::uint64_t EmulatedGpu::seed() { return state().settings.seed; }

int EmulatedGpu::currentDevice() { return t_device; }

bool EmulatedGpu::isBroken() { return state().error != 0; }

int EmulatedGpu::give(Stream stream, std::function<void()> command) { return test::give(stream, std::move(command)); }

std::function<void()> EmulatedGpu::asKernel(std::function<void()> command)
{
    return recorded(cuda::ActivityKind::Kernel, 0, std::move(command));
}

void EmulatedGpu::waitUntil(const std::function<bool()> &done)
{
    for (int i = 0; i < 16; ++i) { // mostly it is soon: closing memory takes longer
        if (done() || isBroken())
            return;
        std::this_thread::yield();
    }
    state().memory.close();
    while (!done() && !isBroken())
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    state().memory.open();
}

std::string EmulatedGpu::problem() { return state().memory.problem(); }

EmulatedGpu::Counts EmulatedGpu::takeCounts()
{
    return {state().kernels.exchange(0), state().products.exchange(0), state().convolutions.exchange(0),
            state().copies.exchange(0), state().calls.exchange(0)};
}

std::int64_t EmulatedGpu::living() { return state().objects + state().memory.blocks(); }

} // namespace planloom::test
