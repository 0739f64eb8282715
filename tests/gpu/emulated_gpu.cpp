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
#include <optional>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace planloom::cuda {

struct EventObject {
    bool captured = false; ///< recorded last in a stream that captures
    std::int64_t recorded = 0;
    std::atomic<std::int64_t> completed{0};
    std::shared_ptr<EventObject> self; ///< until the event is destroyed; commands hold it longer
};

/// On the stream that runs it.
using EmulatedCommand = std::function<void(StreamHandle *)>;

struct GraphNode {
    EmulatedCommand run;
    std::optional<ActivityKind> kind; ///< of its record
    std::size_t bytes = 0;
    std::uint64_t id = 0;
};

/// Commands that were captured.
struct CapturedGraphObject {
    std::vector<GraphNode> nodes;
    std::thread::id owner;
    bool isInvalid = false;
};

struct GraphExecObject {
    std::vector<GraphNode> nodes;
    std::shared_ptr<GraphExecObject> self; ///< until it is destroyed; commands hold it longer
};

/// A thread with commands.
struct StreamHandle {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<EmulatedCommand> commands;
    bool busy = false;
    bool ends = false;
    std::unique_ptr<CapturedGraphObject> capture; ///< used by the thread that captures
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
constexpr int kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureUnmatched = 903, kCaptureIsolation = 905,
              kCapturedEvent = 907, kCaptureWrongThread = 908;
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
    std::atomic<std::int64_t> kernels{0}, products{0}, convolutions{0}, copies{0}, calls{0}, made{0}, graphs{0},
        replays{0};
    std::atomic<bool> refusesCaptures{false};
    std::atomic<std::int64_t> kernelsLeft{-1}; ///< until it breaks down; negative: it does not
    std::atomic<int> errorThen{0};
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
        cuda::EmulatedCommand command;
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
            command(stream);
    }
}

/// The stream that this thread captures.
thread_local Stream t_capturing = nullptr;

/// Of a call that a thread must not make while it captures.
int whileCapturing()
{
    if (t_capturing == nullptr)
        return cuda::kSuccess;
    t_capturing->capture->isInvalid = true;
    return kCaptureUnsupported;
}

int spoilCapture(Stream stream, int error)
{
    stream->capture->isInvalid = true;
    return error;
}

/// Something was made that takes memory.
int noteMade()
{
    ++state().made;
    return whileCapturing();
}

int give(Stream stream, cuda::EmulatedCommand command)
{
    if (state().error != 0)
        return state().error;
    const std::scoped_lock lock(stream->mutex);
    stream->commands.push_back(std::move(command));
    stream->changed.notify_all();
    return cuda::kSuccess;
}

/// @p node's command, and a record of it where it has a @p correlation.
cuda::EmulatedCommand recorded(const cuda::GraphNode &node, std::uint32_t correlation)
{
    if (correlation == 0)
        return node.run;
    return [node, correlation](Stream stream) {
        const std::uint64_t start = EmulatedActivity::now();
        node.run(stream);
        EmulatedActivity::ran({*node.kind, correlation, start, EmulatedActivity::now(), node.bytes, node.id});
    };
}

/// Gives a command that may be captured.
int submit(Stream stream, std::optional<cuda::ActivityKind> kind, std::size_t bytes, cuda::EmulatedCommand command)
{
    cuda::GraphNode node{std::move(command), kind, bytes};
    if (stream->capture == nullptr)
        return give(stream, recorded(node, kind ? EmulatedActivity::called(*kind) : 0));
    if (t_capturing != stream)
        return spoilCapture(stream, kCaptureWrongThread);
    if (state().refusesCaptures && kind == cuda::ActivityKind::Kernel)
        return spoilCapture(stream, kCaptureUnsupported);
    node.id = EmulatedActivity::nodeMade(0);
    stream->capture->nodes.push_back(std::move(node));
    return cuda::kSuccess;
}

int streamCreate(Stream *stream, unsigned int /*flags*/)
{
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
    ++state().objects;
    auto *made = new cuda::StreamHandle;
    made->random.seed(state().settings.seed * 1000 + state().streams++);
    made->thread = std::jthread([made](const std::stop_token &stop) { work(stop, made); });
    *stream = made;
    return cuda::kSuccess;
}

int streamSynchronize(Stream stream)
{
    if (stream->capture != nullptr)
        return spoilCapture(stream, kCaptureUnsupported);
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
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
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
    event->captured = stream->capture != nullptr;
    if (event->captured)
        return cuda::kSuccess;
    const std::int64_t number = ++event->recorded;
    return give(stream, [event = event->self, number](Stream) {
        const std::scoped_lock lock(state().eventMutex);
        event->completed = number;
        state().eventChanged.notify_all();
    });
}

int eventQuery(EventHandle event)
{
    if (event->captured)
        return kCapturedEvent;
    if (const int error = whileCapturing(); error != cuda::kSuccess)
        return error;
    if (state().error != 0)
        return state().error;
    return event->completed >= event->recorded || leavesOutWait() ? cuda::kSuccess : cuda::kNotReady;
}

int streamWaitEvent(Stream stream, EventHandle event, unsigned int /*flags*/)
{
    if (leavesOutWait())
        return cuda::kSuccess;
    if (stream->capture != nullptr)
        return event->captured ? cuda::kSuccess : spoilCapture(stream, kCaptureIsolation);
    const std::int64_t number = event->recorded;
    return give(stream, [event = event->self, number](Stream) {
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
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
    *data = state().memory.give(bytes);
    return *data != nullptr ? cuda::kSuccess : kOutOfMemory;
}

int release(void *data)
{
    if (const int error = whileCapturing(); error != cuda::kSuccess)
        return error;
    return state().memory.take(data) ? cuda::kSuccess : kInvalidValue;
}

int hostAlloc(void **data, std::size_t bytes, unsigned int /*flags*/)
{
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
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
    if (const int error = whileCapturing(); error != cuda::kSuccess)
        return error;
    state().memory.open();
    std::memset(data, value, bytes);
    state().memory.close();
    return cuda::kSuccess;
}

int memcpyAsync(void *to, const void *from, std::size_t bytes, cuda::CopyKind /*kind*/, Stream stream)
{
    return submit(stream, cuda::ActivityKind::Copy, bytes, [=](Stream) {
        ++state().copies;
        std::memmove(to, from, bytes);
    });
}

int memsetAsync(void *to, int value, std::size_t bytes, Stream stream)
{
    return submit(stream, cuda::ActivityKind::Fill, bytes, [=](Stream) { std::memset(to, value, bytes); });
}

int launchHostFunc(Stream stream, void (*function)(void *), void *data)
{
    return submit(stream, std::nullopt, 0, [=](Stream) {
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
    const auto run = [&kernel, grid, block, sharedBytes, copy = std::move(copy)](Stream on) {
        ++state().kernels;
        if (state().kernelsLeft >= 0 && state().kernelsLeft-- == 0)
            EmulatedGpu::breakDown(state().errorThen);
        std::vector<double> shared(sharedBytes / sizeof(double) + 1);
        const bool backwards = on->random() % 2 != 0;
        for (unsigned int i = 0; i < grid.x; ++i) {
            std::memset(shared.data(), kGarbage, sharedBytes);
            cuda::Block at;
            at.index = backwards ? grid.x - 1 - i : i;
            at.count = grid.x;
            at.threads = static_cast<int>(block.x);
            at.shared = reinterpret_cast<float *>(shared.data());
            at.extra = at.shared + 2 * std::size_t{block.x};
            at.order = static_cast<std::uint32_t>(on->random());
            kernel.run(copy.data(), at);
        }
    };
    return submit(stream, cuda::ActivityKind::Kernel, 0, run);
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
    const auto run = [=](Stream on) {
        ++state().products;
        // It uses its workspace: what another product leaves there spoils the result.
        const std::uint64_t mark = on->random();
        std::memcpy(workspace, &mark, std::min(workspaceBytes, sizeof mark));
        product.run(a, b, d);
        pause(on->random);
        if (std::memcmp(workspace, &mark, std::min(workspaceBytes, sizeof mark)) != 0)
            product.spoil(d);
    };
    return submit(stream, cuda::ActivityKind::Kernel, 0, run);
}

int runGraph(cuda::GraphHandle handle, cuda::GraphDescriptor plan, cuda::GraphDescriptor pack)
{
    const auto ready = graphRun(plan, pack);
    if (ready == nullptr)
        return kBadParameter;
    const auto run = [ready](Stream on) {
        ++state().convolutions;
        const std::uint64_t mark = on->random(); // as products do
        std::memcpy(ready->workspace, &mark, sizeof mark);
        ready->convolution.run(ready->data);
        pause(on->random);
        if (std::memcmp(ready->workspace, &mark, sizeof mark) != 0)
            ready->convolution.spoil(ready->data);
    };
    return submit(handle->stream, cuda::ActivityKind::Kernel, 0, run);
}

// --- Graphs ---------------------------------------------------------------------------------------------------------

int streamBeginCapture(Stream stream, int mode)
{
    if (state().error != 0)
        return state().error;
    if (stream->capture != nullptr || t_capturing != nullptr || mode != cuda::kCaptureThreadLocal)
        return kInvalidValue;
    stream->capture = std::make_unique<cuda::CapturedGraphObject>();
    stream->capture->owner = std::this_thread::get_id();
    t_capturing = stream;
    return cuda::kSuccess;
}

int streamEndCapture(Stream stream, cuda::CapturedGraph *graph)
{
    *graph = nullptr;
    if (stream->capture == nullptr)
        return kCaptureUnmatched;
    if (stream->capture->owner != std::this_thread::get_id())
        return spoilCapture(stream, kCaptureWrongThread);
    t_capturing = nullptr;
    const auto captured = std::move(stream->capture);
    if (captured->isInvalid)
        return kCaptureInvalidated;
    ++state().objects;
    *graph = new cuda::CapturedGraphObject(std::move(*captured));
    return cuda::kSuccess;
}

int graphDestroy(cuda::CapturedGraph graph)
{
    --state().objects;
    delete graph;
    return cuda::kSuccess;
}

int graphInstantiate(cuda::GraphExec *exec, cuda::CapturedGraph graph)
{
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
    ++state().objects;
    ++state().graphs;
    auto made = std::make_shared<cuda::GraphExecObject>();
    made->self = made;
    made->nodes = graph->nodes;
    for (cuda::GraphNode &node : made->nodes)
        node.id = EmulatedActivity::nodeMade(node.id);
    *exec = made.get();
    return cuda::kSuccess;
}

int graphLaunch(cuda::GraphExec exec, Stream stream)
{
    if (stream->capture != nullptr)
        return spoilCapture(stream, kCaptureUnsupported);
    ++state().replays;
    bool whole = false;
    const std::uint32_t correlation = EmulatedActivity::startsGraph(whole);
    const auto began = std::make_shared<std::uint64_t>(0);
    const auto *last = exec->nodes.empty() ? nullptr : &exec->nodes.back();
    for (const cuda::GraphNode &node : exec->nodes) {
        auto command = recorded(node, whole || !node.kind ? 0 : correlation);
        if (whole && correlation != 0)
            command = [command = std::move(command), correlation, began, ends = &node == last](Stream at) {
                *began = *began == 0 ? EmulatedActivity::now() : *began;
                command(at);
                if (ends)
                    EmulatedActivity::ran({cuda::ActivityKind::Graph, correlation, *began, EmulatedActivity::now(), 0});
            };
        const int error = give(stream, [held = exec->self, command = std::move(command)](Stream at) { command(at); });
        if (error != cuda::kSuccess)
            return error;
    }
    return cuda::kSuccess;
}

int graphExecDestroy(cuda::GraphExec exec)
{
    if (const int error = whileCapturing(); error != cuda::kSuccess)
        return error;
    exec->self.reset();
    --state().objects;
    return cuda::kSuccess;
}

// --- The tables -----------------------------------------------------------------------------------------------------

const char *errorText(int error)
{
    switch (error) {
    case kOutOfMemory: return "out of memory";
    case 35: return "CUDA driver version is insufficient for CUDA runtime version";
    case 700: return "an illegal memory access was encountered";
    case kCaptureUnsupported: return "operation not permitted when stream is capturing";
    case kCaptureInvalidated: return "operation failed due to a previous error during capture";
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
    api.setDevice = [](int device) { return device < state().settings.devices ? cuda::kSuccess : 101; };
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
    api.streamBeginCapture = streamBeginCapture;
    api.streamEndCapture = streamEndCapture;
    api.graphInstantiate = graphInstantiate;
    api.graphDestroy = graphDestroy;
    api.graphLaunch = graphLaunch;
    api.graphExecDestroy = graphExecDestroy;
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

void EmulatedGpu::refuseCaptures(bool refuse) { state().refusesCaptures = refuse; }

void EmulatedGpu::breakDownAfter(std::int64_t kernels, int error)
{
    state().errorThen = error;
    state().kernelsLeft = kernels;
}

std::string EmulatedGpu::problem() { return state().memory.problem(); }

EmulatedGpu::Counts EmulatedGpu::takeCounts()
{
    return {state().kernels.exchange(0), state().products.exchange(0), state().convolutions.exchange(0),
            state().copies.exchange(0),  state().calls.exchange(0),    state().made.exchange(0),
            state().graphs.exchange(0),  state().replays.exchange(0)};
}

std::int64_t EmulatedGpu::living() { return state().objects + state().memory.blocks(); }

} // namespace planloom::test
