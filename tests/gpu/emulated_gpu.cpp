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
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <linux/futex.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace planloom::cuda {

struct EventObject {
    bool captured = false;      ///< recorded last in a stream that captures
    std::uint32_t recorded = 0; ///< times
    std::atomic<std::uint32_t> completed{0};
    /// Recording @p number, or a later one.
    [[nodiscard]] bool hasCompleted(std::uint32_t number) const
    {
        return static_cast<std::int32_t>(completed.load(std::memory_order_acquire) - number) >= 0;
    }
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
    bool recordable = false;    ///< as a whole
    std::uint32_t launched = 0; ///< times
    std::atomic<std::uint32_t> completed{0};
};

/// A command in its stream's list.
struct StreamItem {
    EmulatedCommand run; ///< none: the stream ends
    std::atomic<StreamItem *> next{nullptr};
};

/// A thread with commands. Those who give them put them in a list that the thread walks behind: nothing that the thread
/// does is seen by others but through events and synchronization.
struct StreamHandle {
    std::mutex giving;             ///< of those who give
    StreamItem *last = nullptr;    ///< guarded by giving
    StreamItem *current = nullptr; ///< the thread's: has run
    std::atomic<std::uint32_t> given{0}, completed{0};
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
constexpr int kInvalidDevice = 201;
constexpr int kUnsupported = 801;
constexpr int kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureUnmatched = 903, kCaptureIsolation = 905,
              kCapturedEvent = 907, kCaptureWrongThread = 908;
constexpr std::size_t kRedZone = 4096;
constexpr std::size_t kMostShared = 48 << 10; ///< bytes of a block
constexpr std::byte kMark{0xA5};
constexpr int kGarbage = 0xCD;

/// Opening and closing synchronize streams; with ThreadSanitizer a host that touches the memory is a race.
#ifdef __SANITIZE_THREAD__
constexpr bool kAlwaysOpen = true;
#else
constexpr bool kAlwaysOpen = false;
#endif

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

    /// From the first block on: for other processes, too.
    void useFile(bool file) { m_useFile = file; }
    /// Where @p data lie, for another process.
    int exported(cuda::MemoryHandle &handle, const void *data)
    {
        const std::scoped_lock lock(m_mutex);
        const Exported where{::getpid(), m_file, static_cast<const std::byte *>(data) - m_begin};
        std::memcpy(&handle, &where, sizeof where);
        return cuda::kSuccess;
    }
    /// Another process's memory, opened here as a whole.
    int openOther(void **data, const cuda::MemoryHandle &handle)
    {
        Exported where{};
        std::memcpy(&where, &handle, sizeof where);
        const std::scoped_lock lock(m_mutex);
        void *&whole = m_others[where.process];
        if (whole == nullptr && where.process != ::getpid()) {
            const std::string path = "/proc/" + std::to_string(where.process) + "/fd/" + std::to_string(where.file);
            const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
            void *mapped =
                file >= 0 ? ::mmap(nullptr, m_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
            ::close(file);
            whole = mapped == MAP_FAILED ? nullptr : mapped;
        }
        *data = whole == nullptr ? nullptr : static_cast<std::byte *>(whole) + where.at;
        return whole == nullptr ? kInvalidDevice : cuda::kSuccess; // that of this process is not opened
    }

    void limit(std::int64_t bytes)
    {
        const std::scoped_lock lock(m_mutex);
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
        if (kAlwaysOpen)
            return;
        const std::scoped_lock lock(m_opening);
        if (m_users++ == 0 && m_begin != nullptr)
            ::mprotect(m_begin, m_size, PROT_READ | PROT_WRITE);
    }
    void close()
    {
        if (kAlwaysOpen)
            return;
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
        void *mapped = ::mmap(nullptr, m_size, m_users > 0 || kAlwaysOpen ? PROT_READ | PROT_WRITE : PROT_NONE,
                              m_useFile ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, fileOfMemory(), 0);
        if (mapped == MAP_FAILED)
            return;
        ::madvise(mapped, m_size, MADV_HUGEPAGE); // fewer to open and close; refused: as without
        m_begin = static_cast<std::byte *>(mapped);
    }

    struct Exported {
        int process;
        int file;
        std::ptrdiff_t at;
    };
    /// -1: none is used.
    int fileOfMemory()
    {
        if (!m_useFile)
            return -1;
        m_file = ::memfd_create("emulated-gpu", MFD_CLOEXEC);
        return m_file >= 0 && ::ftruncate(m_file, static_cast<off_t>(m_size)) == 0 ? m_file : -1;
    }

    std::mutex m_mutex;
    std::mutex m_opening;
    bool m_useFile = false;
    int m_file = -1;
    std::map<int, void *> m_others; ///< by process
    int m_users = 0;
    std::byte *m_begin = nullptr;
    std::size_t m_size = std::size_t{1} << 30;
    std::size_t m_limit = std::size_t{1} << 30;
    std::map<std::size_t, std::size_t> m_blocks; ///< begin, bytes
    std::string m_problem;
};

/// A counter that synchronizes no threads.
class Count {
public:
    std::int64_t operator++() { return m_value.fetch_add(1, std::memory_order_relaxed) + 1; }
    void operator+=(std::int64_t more) { m_value.fetch_add(more, std::memory_order_relaxed); }
    std::int64_t operator--() { return m_value.fetch_sub(1, std::memory_order_relaxed) - 1; }
    std::int64_t take() { return m_value.exchange(0, std::memory_order_relaxed); }
    [[nodiscard]] std::int64_t value() const { return m_value.load(std::memory_order_relaxed); }

private:
    std::atomic<std::int64_t> m_value{0};
};

struct State {
    EmulatedGpu::Settings settings;
    DeviceMemory memory;
    std::atomic<int> error{0};
    Count objects, kernels, products, epilogues, convolutions, copies, bytes, calls, made, graphs, replays;
    std::atomic<bool> refusesCaptures{false}, refusesBegins{false};
    std::atomic<std::int64_t> begins{0}; ///< that were refused
    std::atomic<int> memoryError{0};
    std::atomic<std::int64_t> kernelsLeft{-1}; ///< until it breaks down; negative: it does not
    std::atomic<int> errorThen{0};
    std::atomic<std::uint64_t> streams{0};
    std::mutex mutex; ///< guards what follows
    /// All that were made, also those that are destroyed: commands may still use them. Counting who does would put the
    /// host and streams in an order that a GPU does not.
    std::vector<std::unique_ptr<cuda::EventObject>> events;
    std::vector<std::unique_ptr<cuda::GraphExecObject>> execs;
    std::vector<Stream> live; ///< streams
    cuda::Provider provider;
};

State &state()
{
    static State kState;
    return kState;
}

// --- Streams --------------------------------------------------------------------------------------------------------

/// Waits while @p word is @p value, at most @p longest. Not a condition variable: its mutex would put all who take it
/// in an order, and ThreadSanitizer could not see where a wait for an event is missing.
void sleepWhile(const std::atomic<std::uint32_t> &word, std::uint32_t value, std::chrono::microseconds longest)
{
    const timespec most{longest.count() / 1'000'000, longest.count() % 1'000'000 * 1000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &most, nullptr, 0);
}
void wake(const std::atomic<std::uint32_t> &word)
{
    constexpr int kAll = 1 << 30;
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, kAll, nullptr, nullptr, 0);
}

/// A pause before a command, of any length from none to one in which others run far ahead.
void pause(std::mt19937_64 &random)
{
    const std::uint64_t choice = random() % 64;
    if (choice == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    else if (choice < 16)
        std::this_thread::yield();
}

/// Device memory is open while commands of a stream run. It is closed when the stream has been idle for a while, and
/// now and then at once: closing and opening take longer than most commands.
class OpenMemory {
public:
    ~OpenMemory() { close(); }
    void open()
    {
        if (!m_open)
            state().memory.open();
        m_open = true;
    }
    void close()
    {
        if (m_open)
            state().memory.close();
        m_open = false;
    }
    /// Returns when @p done, or when the device breaks down. @p nap: lets some time pass, at most that much.
    template <class Done, class Nap>
    void idle(std::mt19937_64 *random, const Done &done, const Nap &nap)
    {
        constexpr std::chrono::microseconds kPatience{500};
        constexpr std::chrono::microseconds kLongest{100000};
        constexpr unsigned int kAtOnce = 8;
        if (random != nullptr && (*random)() % kAtOnce == 0)
            close();
        const auto begin = std::chrono::steady_clock::now();
        while (!done()) {
            nap(m_open ? kPatience : kLongest);
            if (m_open && std::chrono::steady_clock::now() - begin >= kPatience)
                close();
        }
    }

private:
    bool m_open = false;
};
thread_local OpenMemory t_memory; ///< of streams' threads

void work(Stream stream)
{
    while (true) {
        std::uint32_t given = 0;
        cuda::StreamItem *next = nullptr;
        const auto comes = [&] {
            given = stream->given.load(std::memory_order_acquire);
            next = stream->current->next.load(std::memory_order_acquire);
            return next != nullptr;
        };
        if (!comes())
            t_memory.idle(&stream->random, comes, [&](auto longest) { sleepWhile(stream->given, given, longest); });
        delete stream->current;
        stream->current = next;
        if (next->run == nullptr)
            return;
        pause(stream->random);
        t_memory.open();
        if (state().error == 0)
            next->run(stream);
        next->run = nullptr;
        stream->completed.fetch_add(1, std::memory_order_release);
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

/// None: the stream ends.
void append(Stream stream, cuda::EmulatedCommand command)
{
    {
        const std::scoped_lock lock(stream->giving);
        auto *item = new cuda::StreamItem{std::move(command)};
        stream->last->next.store(item, std::memory_order_release);
        stream->last = item;
        stream->given.fetch_add(1, std::memory_order_release);
    }
    wake(stream->given);
}

int give(Stream stream, cuda::EmulatedCommand command)
{
    if (state().error != 0)
        return state().error;
    append(stream, std::move(command));
    return cuda::kSuccess;
}

/// @p node's command, with a record of it if there is a @p correlation.
void runNode(const cuda::GraphNode &node, std::uint32_t correlation, Stream stream)
{
    const std::uint64_t start = correlation != 0 ? EmulatedActivity::now() : 0;
    node.run(stream);
    if (correlation != 0)
        EmulatedActivity::ran({*node.kind, correlation, start, EmulatedActivity::now(), node.bytes, node.id});
}
cuda::EmulatedCommand recorded(const cuda::GraphNode &node, std::uint32_t correlation)
{
    if (correlation == 0)
        return node.run;
    return [node, correlation](Stream stream) { runNode(node, correlation, stream); };
}

/// As the real libraries do.
[[noreturn]] void crash(const char *why)
{
    std::fprintf(stderr, "the emulated GPU crashes: %s\n", why);
    std::abort();
}

/// Gives a command that may be captured. @p call: that starts it in the driver.
int submit(Stream stream, std::optional<cuda::ActivityKind> kind, cuda::DriverCall call, std::size_t bytes,
           cuda::EmulatedCommand command)
{
    cuda::GraphNode node{std::move(command), kind, bytes};
    if (stream->capture == nullptr)
        return give(stream, recorded(node, kind ? EmulatedActivity::called(*kind, call) : 0));
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
    made->current = made->last = new cuda::StreamItem;
    made->thread = std::jthread([made] { work(made); });
    {
        const std::lock_guard lock(state().mutex);
        state().live.push_back(made);
    }
    *stream = made;
    return cuda::kSuccess;
}

int streamSynchronize(Stream stream)
{
    constexpr std::chrono::microseconds kNap{20};
    if (stream->capture != nullptr)
        return spoilCapture(stream, kCaptureUnsupported);
    while (stream->completed.load(std::memory_order_acquire) != stream->given.load(std::memory_order_relaxed))
        std::this_thread::sleep_for(kNap);
    return state().error;
}

int streamDestroy(Stream stream)
{
    streamSynchronize(stream);
    {
        const std::lock_guard lock(state().mutex);
        std::erase(state().live, stream);
    }
    append(stream, nullptr);
    stream->thread.join();
    delete stream->current;
    delete stream;
    --state().objects;
    return cuda::kSuccess;
}

// --- Events ---------------------------------------------------------------------------------------------------------

int eventCreate(EventHandle *event, unsigned int /*flags*/)
{
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
    ++state().objects;
    const std::scoped_lock lock(state().mutex);
    *event = state().events.emplace_back(std::make_unique<cuda::EventObject>()).get();
    return cuda::kSuccess;
}

int eventDestroy(EventHandle /*event*/)
{
    --state().objects;
    return cuda::kSuccess;
}

int eventRecord(EventHandle event, Stream stream)
{
    event->captured = stream->capture != nullptr;
    if (event->captured)
        return cuda::kSuccess;
    const std::uint32_t number = ++event->recorded;
    return give(stream, [event, number](Stream) {
        event->completed.store(number, std::memory_order_release);
        wake(event->completed);
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
    return leavesOutWait() || event->hasCompleted(event->recorded) ? cuda::kSuccess : cuda::kNotReady;
}

int streamWaitEvent(Stream stream, EventHandle event, unsigned int /*flags*/)
{
    if (leavesOutWait())
        return cuda::kSuccess;
    if (stream->capture != nullptr)
        return event->captured ? cuda::kSuccess : spoilCapture(stream, kCaptureIsolation);
    return give(stream, [event, number = event->recorded](Stream on) {
        if (event->hasCompleted(number))
            return;
        std::uint32_t seen = 0;
        const auto completed = [&] {
            seen = event->completed.load(std::memory_order_relaxed);
            return event->hasCompleted(number) || state().error != 0;
        };
        t_memory.idle(&on->random, completed, [&](auto longest) { sleepWhile(event->completed, seen, longest); });
        t_memory.open();
    });
}

// --- Memory and commands --------------------------------------------------------------------------------------------

int allocate(void **data, std::size_t bytes)
{
    if (const int error = noteMade(); error != cuda::kSuccess)
        return error;
    if (state().memoryError != 0)
        return state().memoryError;
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
    if (state().error != 0) { // a GPU that broke down stops at once; here what runs comes to its end
        const std::lock_guard lock(state().mutex);
        for (const Stream stream : state().live)
            while (stream->completed.load(std::memory_order_acquire) != stream->given.load(std::memory_order_relaxed))
                std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
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

int memcpyAsync(void *to, const void *from, std::size_t bytes, cuda::CopyKind kind, Stream stream)
{
    const auto call = kind == cuda::CopyKind::HostToDevice ? cuda::DriverCall::CopyToDevice
        : kind == cuda::CopyKind::DeviceToHost             ? cuda::DriverCall::CopyFromDevice
                                                           : cuda::DriverCall::CopyInDevice;
    return submit(stream, cuda::ActivityKind::Copy, call, bytes, [=](Stream) {
        ++state().copies;
        state().bytes += static_cast<std::int64_t>(bytes);
        std::memmove(to, from, bytes);
    });
}

int memsetAsync(void *to, int value, std::size_t bytes, Stream stream)
{
    return submit(stream, cuda::ActivityKind::Fill, cuda::DriverCall::FillBytes, bytes,
                  [=](Stream) { std::memset(to, value, bytes); });
}

int launchHostFunc(Stream stream, void (*function)(void *), void *data)
{
    return submit(stream, std::nullopt, {}, 0, [=](Stream) {
        ++state().calls;
        function(data);
    });
}

int launchKernel(const void *function, cuda::Grid grid, cuda::Grid block, void **arguments, std::size_t sharedBytes,
                 Stream stream)
{
    const auto &kernel = *static_cast<const EmulatedKernel *>(function);
    if (grid.x == 0 || block.x == 0 || (block.x & (block.x - 1)) != 0 || block.x > 1024 || sharedBytes > kMostShared)
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
    return submit(stream, cuda::ActivityKind::Kernel, cuda::DriverCall::Kernel, 0, run);
}

int runProduct(cuda::ProductHandle /*handle*/, cuda::ProductDescription description, const void *alpha, const void *a,
               cuda::MatrixLayout aLayout, const void *b, cuda::MatrixLayout bLayout, const void *beta, const void *c,
               cuda::MatrixLayout cLayout, void *d, cuda::MatrixLayout dLayout, const cuda::ProductAlgorithm *algorithm,
               void *workspace, std::size_t workspaceBytes, Stream stream)
{
    if (c != d || cLayout != dLayout)
        return kWrongValue;
    const EmulatedProduct product{*description,
                                  *aLayout,
                                  *bLayout,
                                  *dLayout,
                                  *static_cast<const float *>(alpha),
                                  *static_cast<const float *>(beta)};
    const void *const matrices[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i)
        if (!EmulatedProduct::isAligned(matrices[i], algorithm->data[i]))
            return kUnaligned;
    if (!product.epilogueFits())
        return kWrongValue;
    const auto run = [=](Stream on) {
        ++state().products;
        if (product.description.epilogue != cuda::Epilogue::None)
            ++state().epilogues;
        // It uses its workspace: what another product leaves there spoils the result.
        const std::uint64_t mark = on->random();
        std::memcpy(workspace, &mark, std::min(workspaceBytes, sizeof mark));
        product.run(a, b, d);
        pause(on->random);
        if (std::memcmp(workspace, &mark, std::min(workspaceBytes, sizeof mark)) != 0)
            product.spoil(d);
    };
    return submit(stream, cuda::ActivityKind::Kernel, cuda::DriverCall::KernelEx, 0, run);
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
    return submit(handle->stream, cuda::ActivityKind::Kernel, cuda::DriverCall::KernelEx, 0, run);
}

// --- Graphs ---------------------------------------------------------------------------------------------------------

int streamBeginCapture(Stream stream, int mode)
{
    if (state().error != 0)
        return state().error;
    if (state().refusesBegins) {
        ++state().begins;
        return kCaptureUnsupported;
    }
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
    auto made = std::make_unique<cuda::GraphExecObject>();
    made->nodes = graph->nodes;
    made->recordable = EmulatedActivity::recordsGraphs();
    for (cuda::GraphNode &node : made->nodes)
        node.id = EmulatedActivity::nodeMade(node.id);
    const std::scoped_lock lock(state().mutex);
    *exec = state().execs.emplace_back(std::move(made)).get();
    return cuda::kSuccess;
}

int graphLaunch(cuda::GraphExec exec, Stream stream)
{
    if (stream->capture != nullptr)
        return spoilCapture(stream, kCaptureUnsupported);
    ++state().replays;
    bool whole = false;
    const std::uint32_t correlation = EmulatedActivity::startsGraph(whole);
    if (whole && !exec->recordable)
        crash("a graph is recorded that was instantiated while none was");
    ++exec->launched;
    return give(stream, [exec, whole, correlation](Stream at) {
        const std::uint64_t began = correlation != 0 ? EmulatedActivity::now() : 0;
        for (const cuda::GraphNode &node : exec->nodes) {
            if (&node != exec->nodes.data())
                pause(at->random);
            if (state().error != 0)
                return;
            runNode(node, whole || !node.kind ? 0 : correlation, at);
        }
        if (whole && correlation != 0 && !exec->nodes.empty())
            EmulatedActivity::ran({cuda::ActivityKind::Graph, correlation, began, EmulatedActivity::now(), 0});
        exec->completed.fetch_add(1, std::memory_order_release);
    });
}

int graphExecDestroy(cuda::GraphExec exec)
{
    if (const int error = whileCapturing(); error != cuda::kSuccess)
        return error;
    if (exec->completed.load(std::memory_order_acquire) == exec->launched)
        exec->nodes = {};
    --state().objects;
    return cuda::kSuccess;
}

thread_local int t_device = 0;

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
    api.identify = [](int device, char *text, std::size_t bytes) {
        std::snprintf(text, bytes, "emulated-%d", device);
        return cuda::kSuccess;
    };
    api.capabilityOf = [](int device, int *capability) {
        *capability = device == 0 ? state().settings.capability : 90;
        return cuda::kSuccess;
    };
    api.setDevice = [](int device) {
        if (device < 0 || device >= state().settings.devices)
            return 101;
        t_device = device;
        return cuda::kSuccess;
    };
    api.errorText = errorText;
    api.malloc = allocate;
    api.free = release;
    api.exportMemory = [](cuda::MemoryHandle *handle, void *data) {
        return state().settings.exports ? state().memory.exported(*handle, data) : kUnsupported;
    };
    api.openMemory = [](void **data, cuda::MemoryHandle handle, unsigned int flags) {
        return flags == cuda::kOpenLazily ? state().memory.openOther(data, handle) : kInvalidValue;
    };
    api.closeMemory = [](void *) { return cuda::kSuccess; };
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
    static cuda::ProductApi kProducts;
    kProducts = emulatedProducts(runProduct, settings.epilogues);
    state().settings = settings;
    state().memory.limit(settings.memoryBytes);
    state().memory.useFile(settings.opens);
    state().provider.runtime = runtimeApi();
    state().provider.products = settings.products ? &kProducts : nullptr;
    static cuda::GraphApi kGraphs;
    kGraphs = emulatedGraphs(runGraph);
    if (!settings.starts) {
        kProducts.create = [](cuda::ProductHandle *) { return 1; };
        kGraphs.create = [](cuda::GraphHandle *) { return 1; };
    }
    state().provider.graphs = settings.graphs ? &kGraphs : nullptr;
    state().provider.kernels = emulatedKernels();
    state().provider.rowThreads = 16;
    state().provider.mostBlocks = 5; // so that blocks walk
    state().provider.leastPart = 1; // so that small sums are shared out, too
    state().provider.leastUnaligned = 1;
    state().provider.pieceBytes = state().provider.sumBytes = 1024; // and small products are made of several pieces
}

const cuda::Provider &EmulatedGpu::provider() { return state().provider; }

const PlanloomDeviceTable &EmulatedGpu::table()
{
    static const PlanloomDeviceTable kTable = cuda::tableOf<EmulatedGpu::provider>();
    return kTable;
}

void EmulatedGpu::breakDown(int error) { state().error = error; }

void EmulatedGpu::refuseCaptures(bool refuse) { state().refusesCaptures = refuse; }

std::int64_t EmulatedGpu::refuseBegins(bool refuse)
{
    state().refusesBegins = refuse;
    return state().begins.exchange(0);
}

void EmulatedGpu::refuseMemory(int error) { state().memoryError = error; }

void EmulatedGpu::breakDownAfter(std::int64_t kernels, int error)
{
    state().errorThen = error;
    state().kernelsLeft = kernels;
}

std::uint64_t EmulatedGpu::seed() { return state().settings.seed; }

int EmulatedGpu::currentDevice() { return t_device; }

bool EmulatedGpu::isBroken() { return state().error != 0; }

int EmulatedGpu::give(Stream stream, std::function<void()> command)
{
    return test::give(stream, [command = std::move(command)](Stream) { command(); });
}

std::function<void()> EmulatedGpu::asKernel(std::function<void()> command)
{
    const cuda::GraphNode node{[command = std::move(command)](Stream) { command(); }, cuda::ActivityKind::Kernel, 0};
    const std::uint32_t correlation = EmulatedActivity::called(cuda::ActivityKind::Kernel, cuda::DriverCall::KernelEx);
    return [run = recorded(node, correlation)] { run(nullptr); };
}

void EmulatedGpu::waitUntil(const std::function<bool()> &done)
{
    constexpr std::chrono::microseconds kNap{20};
    for (int i = 0; i < 16; ++i) { // mostly it is soon
        if (done() || isBroken())
            return;
        std::this_thread::yield();
    }
    t_memory.idle(
        nullptr, [&] { return done() || isBroken(); }, [&](auto) { std::this_thread::sleep_for(kNap); });
    t_memory.open();
}

std::string EmulatedGpu::problem() { return state().memory.problem(); }

EmulatedGpu::Counts EmulatedGpu::takeCounts()
{
    State &s = state();
    return {s.kernels.take(), s.products.take(), s.epilogues.take(), s.convolutions.take(), s.copies.take(),
            s.calls.take(),   s.made.take(),     s.graphs.take(),    s.replays.take(),      s.bytes.take()};
}

std::int64_t EmulatedGpu::living() { return state().objects.value() + state().memory.blocks(); }

} // namespace planloom::test
