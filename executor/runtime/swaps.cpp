// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/swaps.h"

#include "engine/base/backoff.h"
#include "engine/base/statistics.h"
#include "engine/base/units.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace planloom::runtime {
namespace {

constexpr std::int64_t kBlock = 4096;                  ///< of direct I/O: addresses, offsets and lengths
constexpr std::int64_t kPiece = std::int64_t{8} << 20; ///< of a copy through a file: its buffer

struct FreeAligned {
    void operator()(std::byte *data) const { std::free(data); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

Error ioError(const std::string &what, const std::string &folder)
{
    return Error{ErrorCode::Io,
                 fmt::format("{} in {}: {}; give host_tier another folder, or memory", what, folder,
                             std::strerror(errno)),
                 {},
                 0};
}

} // namespace

/// A file without a name: it goes with the process.
class Swaps::File {
public:
    static Result<std::shared_ptr<File>> create(const std::string &folder, std::int64_t bytes)
    {
        std::string path = folder + "/planloom-swap-XXXXXX";
        const int made = ::mkstemp(path.data());
        if (made < 0)
            return ioError("a file for swapped tensors cannot be made", folder);
        auto file = std::make_shared<File>(made, folder);
        // Without the page cache where the file system can do that: what is swapped would only take memory twice.
        if (const int direct = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC); direct >= 0) {
            ::close(made);
            file->m_file = direct;
        }
        ::unlink(path.c_str());
        if (const int error = ::posix_fallocate(file->m_file, 0, bytes); error != 0) {
            errno = error;
            return ioError(fmt::format("there is no room for {} of swapped tensors", format(Bytes(bytes))), folder);
        }
        return file;
    }
    File(int file, std::string folder) : m_file(file), m_folder(std::move(folder)) {}
    ~File() { ::close(m_file); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;

    /// Whole blocks at @p buffer, which is aligned to them.
    Status move(bool out, std::byte *buffer, std::int64_t offset, std::int64_t bytes) const
    {
        for (std::int64_t done = 0; done < bytes;) {
            const auto left = static_cast<std::size_t>(bytes - done);
            const ssize_t moved = out ? ::pwrite(m_file, buffer + done, left, offset + done)
                                      : ::pread(m_file, buffer + done, left, offset + done);
            if (moved < 0 && errno == EINTR)
                continue;
            if (moved <= 0)
                return ioError(out ? "swapped tensors cannot be written" : "swapped tensors cannot be read", m_folder);
            done += moved;
        }
        return {};
    }

private:
    int m_file;
    std::string m_folder;
};

/// One direction: a thread that does the copies that it is handed.
class Swaps::Copier {
public:
    Copier(bool out, std::byte *memory, std::shared_ptr<File> file)
        : m_out(out),
          m_memory(memory),
          m_file(std::move(file)),
          m_thread([this] { work(); })
    {
    }
    ~Copier() { hand(State::Ends); }
    Copier(const Copier &) = delete;
    Copier &operator=(const Copier &) = delete;

    void start(std::byte *device, std::int64_t host, std::int64_t bytes)
    {
        m_device = device;
        m_host = host;
        m_bytes = bytes;
        hand(State::Busy);
    }
    Result<bool> test()
    {
        if (m_state.load(std::memory_order_acquire) == State::Busy)
            return false;
        if (!m_status)
            return m_status.error();
        return true;
    }

private:
    enum class State : int { Idle, Busy, Ends };

    void hand(State state)
    {
        m_state.store(state, std::memory_order_release);
        m_state.notify_one();
    }

    void work()
    {
        while (true) {
            m_state.wait(State::Idle, std::memory_order_acquire);
            if (m_state.load(std::memory_order_acquire) == State::Ends)
                return;
            if (m_file)
                m_status = throughFile();
            else if (m_out)
                std::memcpy(m_memory + m_host, m_device, static_cast<std::size_t>(m_bytes));
            else
                std::memcpy(m_device, m_memory + m_host, static_cast<std::size_t>(m_bytes));
            State busy = State::Busy;
            m_state.compare_exchange_strong(busy, State::Idle, std::memory_order_acq_rel);
        }
    }

    Status throughFile()
    {
        if (!m_buffer)
            m_buffer.reset(static_cast<std::byte *>(
                std::aligned_alloc(static_cast<std::size_t>(kBlock), static_cast<std::size_t>(kPiece))));
        if (!m_buffer)
            return failed("there is no memory for a copy to the file of swapped tensors; close other programs");
        for (std::int64_t done = 0; done < m_bytes; done += kPiece) {
            const std::int64_t piece = std::min(kPiece, m_bytes - done);
            const std::int64_t whole = (piece + kBlock - 1) / kBlock * kBlock;
            if (m_out)
                std::memcpy(m_buffer.get(), m_device + done, static_cast<std::size_t>(piece));
            if (const Status moved = m_file->move(m_out, m_buffer.get(), m_host + done, whole); !moved)
                return moved;
            if (!m_out)
                std::memcpy(m_device + done, m_buffer.get(), static_cast<std::size_t>(piece));
        }
        return {};
    }

    bool m_out;
    std::byte *m_memory;
    std::shared_ptr<File> m_file; ///< null: memory
    std::byte *m_device = nullptr;
    std::int64_t m_host = 0;
    std::int64_t m_bytes = 0;
    AlignedBytes m_buffer; ///< kPiece
    Status m_status;
    std::atomic<State> m_state = State::Idle;
    std::jthread m_thread; ///< the last member: it stops before the others go
};

Swaps::Threads::Threads() = default;
Swaps::Threads::~Threads() = default;
Swaps::Swaps() = default;
Swaps::~Swaps() = default;

Status Swaps::prepare(RankParts &parts)
{
    m_parts = &parts;
    const program::Rank &own = parts.own();
    if (own.hostBytes == 0)
        return {};
    std::shared_ptr<File> file;
    if (own.hostTier != "memory") {
        if (!parts.device.hostAddressable())
            return unsupported("host_tier of the memory policy is a folder, and this device copies to memory only; "
                               "give host_tier=memory");
        auto made = File::create(own.hostTier, own.hostBytes);
        if (!made)
            return made.error();
        file = *std::move(made);
    } else {
        auto memory = parts.device.allocate(device::Space::Host, own.hostBytes);
        if (!memory)
            return memory.error();
        m_memory = std::move(*memory);
    }
    if (!parts.device.hostAddressable())
        return {};
    m_threads = std::make_unique<Threads>();
    for (const bool out : {false, true})
        m_threads->copiers[out ? 1 : 0] = std::make_unique<Copier>(out, m_memory.data(), file);
    return {};
}

void Swaps::start(const program::Task &task, const program::Swap &swap)
{
    begin(swap.out, m_parts->program.body(task.body), m_parts->program.copyOf(swap));
}

void Swaps::begin(bool out, const program::Body &body, const program::HostCopy &copy)
{
    const program::Pool &pool = body.pools[static_cast<std::size_t>(program::Area::Pool)];
    std::byte *device = m_parts->arena.use(pool.begin + copy.place, copy.bytes);
    if (m_threads)
        return m_threads->copiers[out ? 1 : 0]->start(device, copy.host, copy.bytes);
    device::Queue &queue = m_parts->queue(out ? program::Lane::CopyOut : program::Lane::CopyIn);
    if (out)
        queue.copyToHost(m_memory.data() + copy.host, device, copy.bytes);
    else
        queue.copyToDevice(device, m_memory.data() + copy.host, copy.bytes);
}

Status Swaps::moveStates(bool out)
{
    const program::Rank &own = m_parts->own();
    if (own.hostedStates.bytes == 0)
        return {};
    begin(out, m_parts->program.body(own.bodies.front()), own.hostedStates);
    return finish(out);
}

/// Waits for a copy between steps.
Status Swaps::finish(bool out)
{
    const auto end = std::chrono::steady_clock::now() + m_parts->deadline;
    for (Backoff backoff; m_threads; backoff.pause()) {
        const Result<bool> done = test(out);
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end)
            return failed("a copy to or from the host tier between two steps did not end within the deadline; give the "
                          "memory policy another host_tier");
    }
    return m_parts->drain(out ? program::Lane::CopyOut : program::Lane::CopyIn);
}

Result<double> Swaps::measure(const program::Task &task, bool out)
{
    constexpr int kTimes = 5;
    const program::HostCopy &copy = m_parts->program.copyOf(*task.as<program::Swap>());
    std::vector<double> seconds;
    for (int time = 0; time < kTimes; ++time) {
        const std::int64_t begun = monotonicNanoseconds();
        begin(out, m_parts->program.body(task.body), copy);
        if (const Status done = finish(out); !done)
            return done.error();
        seconds.push_back(static_cast<double>(monotonicNanoseconds() - begun) * 1e-9);
    }
    return median(std::move(seconds));
}

Result<bool> Swaps::test(bool out) { return m_threads ? m_threads->copiers[out ? 1 : 0]->test() : Result<bool>(true); }

} // namespace planloom::runtime
