// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/copy_team.h"

#include "engine/cost/collectives.h"
#include "executor/device/cuda/operator_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace planloom::cuda {

using cost::Collective;

/// Where a member's data lie: in a block, which its own process has at @p block.
struct CopyTeam::Place {
    std::uintptr_t block;
    std::int64_t offset;
    MemoryHandle handle;
};

/// What a member tells the others. Written by it alone, before the number or count that says so.
struct CopyTeam::Member {
    std::atomic<std::uint64_t> number; ///< meetings it has come to
    std::atomic<std::int32_t> reads;   ///< 1: its commands may read the others' memory
    std::int64_t process;
    Place data;
    std::int64_t pieces[kMostMembers]; ///< of an all-to-all: where the member's piece begins in `data`
    // A message at a time, of position 0, and that it has been taken, of position 1.
    std::atomic<std::uint64_t> messages;
    Place message;
};

/// Fresh shared memory is 0.
struct CopyTeam::Meeting {
    std::atomic<std::int32_t> joined, left, aborted;
    Member members[kMostMembers];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);

/// A meeting's shared memory: one mapping for all members of a process.
class CopyTeam::Mapping {
public:
    static Result<std::shared_ptr<Mapping>> of(const std::string &name)
    {
        static std::mutex mutex;
        static std::map<std::string, std::weak_ptr<Mapping>> known;
        const std::scoped_lock lock(mutex);
        std::erase_if(known, [](const auto &entry) { return entry.second.expired(); });
        std::shared_ptr<Mapping> mapping = known[name].lock();
        if (mapping == nullptr)
            known[name] = mapping = std::make_shared<Mapping>(name);
        if (mapping->m_meeting == nullptr)
            return failed(std::string("ranks that share a GPU cannot meet in shared memory (/dev/shm): ")
                          + std::strerror(mapping->m_error)
                          + "; set PLANLOOM_GPU_COPIES=off to let them exchange data by the host");
        return mapping;
    }
    explicit Mapping(std::string name) : m_name(std::move(name))
    {
        const int file = ::shm_open(m_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
        const bool sized = file >= 0 && ::ftruncate(file, sizeof(Meeting)) == 0;
        void *mapped =
            sized ? ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
        m_error = errno;
        if (mapped != MAP_FAILED)
            m_meeting = static_cast<Meeting *>(mapped);
        if (file >= 0)
            ::close(file);
    }
    ~Mapping()
    {
        unlink();
        if (m_meeting != nullptr)
            ::munmap(m_meeting, sizeof(Meeting));
    }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    [[nodiscard]] Meeting &meeting() const { return *m_meeting; }
    /// Takes the name away, once.
    void unlink()
    {
        if (!m_unlinked.exchange(true))
            ::shm_unlink(m_name.c_str());
    }

private:
    std::string m_name;
    Meeting *m_meeting = nullptr;
    int m_error = 0;
    std::atomic<bool> m_unlinked{false};
};

namespace {

constexpr const char *kName = "/planloom-gpu-";
constexpr const char *kOtherEnded = "another rank on this GPU has ended";

/// comm::Element: float32, bfloat16; doubles are not reduced here.
constexpr Kind kKinds[] = {Kind::F32, Kind::BF16};
std::int64_t bytesOf(Kind kind) { return kind == Kind::BF16 ? 2 : 4; }

bool adds(const PlanloomCollective &what)
{
    const auto kind = static_cast<Collective>(what.kind);
    return kind == Collective::AllReduce || kind == Collective::ReduceScatter;
}

} // namespace

// --- Meeting --------------------------------------------------------------------------------------------------------

Status CopyTeam::makeId(std::span<char> id)
{
    std::random_device random;
    std::string name = kName;
    for (int i = 0; i < 4; ++i)
        name += std::to_string(random()) + (i < 3 ? "-" : "");
    std::fill(id.begin(), id.end(), '\0');
    std::copy(name.begin(), name.end(), id.begin());
    return {};
}

CopyTeam::CopyTeam(CudaDevice &device, int members, int position)
    : m_device(device),
      m_members(members),
      m_position(position)
{
}

Result<std::unique_ptr<Team>> CopyTeam::join(CudaDevice &device, const PlanloomTeamOptions &how)
{
    if (how.members > kMostMembers)
        return unsupported("more than " + std::to_string(kMostMembers) + " ranks share a GPU; use fewer");
    std::unique_ptr<CopyTeam> team(new CopyTeam(device, how.members, how.position));
    auto event = device.makeEvent();
    if (!event)
        return event.error();
    team->m_ended = std::move(*event);
    auto mapping = Mapping::of(how.id);
    if (!mapping)
        return mapping.error();
    team->m_mapping = std::move(*mapping);
    team->m_meeting = &team->m_mapping->meeting();
    team->own().process = ::getpid();
    ++team->m_meeting->joined;
    return std::unique_ptr<Team>(std::move(team));
}

CopyTeam::~CopyTeam()
{
    if (m_left)
        return;
    abort();
    awaitReaders(std::chrono::steady_clock::now() + kLongestEnd);
}

CopyTeam::Member &CopyTeam::own() const { return m_meeting->members[m_position]; }

bool CopyTeam::allAt(std::uint64_t number) const
{
    for (int member = 0; member < m_members; ++member)
        if (m_meeting->members[member].number.load(std::memory_order_acquire) < number)
            return false;
    return true;
}

// --- Memory ---------------------------------------------------------------------------------------------------------

Result<bool> CopyTeam::use(void *data, std::int64_t bytes)
{
    m_device.use();
    Block block{static_cast<const std::byte *>(data), bytes, {}};
    if (const int error = m_device.api().exportMemory(&block.handle, data); error != kSuccess)
        return failed(std::string("memory of the GPU cannot be opened by other ranks: ")
                      + m_device.api().errorText(error)
                      + "; set PLANLOOM_GPU_COPIES=off to let them exchange data by the host");
    m_blocks.push_back(block);
    return true;
}

Status CopyTeam::tell(Place &place, const void *data) const
{
    const auto *at = static_cast<const std::byte *>(data);
    for (const Block &block : m_blocks)
        if (at >= block.data && at < block.data + block.bytes) {
            place = {reinterpret_cast<std::uintptr_t>(block.data), at - block.data, block.handle};
            return {};
        }
    return failed("data of a call lie in no block that was named");
}

/// A member's data as this process sees them.
Result<const std::byte *> CopyTeam::find(const Place &place)
{
    const auto isSame = [&](const Opened &known) {
        return std::memcmp(&known.handle, &place.handle, sizeof place.handle) == 0;
    };
    const auto known = std::find_if(m_opened.begin(), m_opened.end(), isSame);
    if (known != m_opened.end())
        return static_cast<const std::byte *>(known->data) + place.offset;
    Opened opened{place.handle, nullptr};
    m_device.use();
    if (const int error = m_device.api().openMemory(&opened.data, place.handle, kOpenLazily); error != kSuccess)
        return failed(std::string("the memory of another rank on this GPU cannot be opened: ")
                      + m_device.api().errorText(error)
                      + "; set PLANLOOM_GPU_COPIES=off to let them exchange data by the host");
    m_opened.push_back(opened);
    return static_cast<const std::byte *>(opened.data) + place.offset;
}

/// All members' data, by position.
Result<std::vector<const std::byte *>> CopyTeam::findAll()
{
    std::vector<const std::byte *> all;
    for (int member = 0; member < m_members; ++member) {
        const Member &other = m_meeting->members[member];
        if (other.process == ::getpid()) {
            all.push_back(reinterpret_cast<const std::byte *>(other.data.block) + other.data.offset);
            continue;
        }
        const auto found = find(other.data);
        if (!found)
            return found.error();
        all.push_back(*found);
    }
    return all;
}

void CopyTeam::closeOpened()
{
    m_device.use();
    for (const Opened &opened : m_opened)
        m_device.api().closeMemory(opened.data);
    m_opened.clear();
}

// --- Calls ----------------------------------------------------------------------------------------------------------

Status CopyTeam::collective(CudaQueue &queue, const PlanloomCollective &what)
{
    if (adds(what) && what.element >= static_cast<std::int32_t>(std::size(kKinds)))
        return unsupported("ranks that share a GPU add no numbers of this type up");
    m_queue = &queue;
    m_what = what;
    Member &here = own();
    std::int64_t begin = 0;
    for (int member = 0; member < m_members; ++member) {
        here.pieces[member] = begin;
        begin += what.bytesTo != nullptr ? what.bytesTo[member] : what.count;
    }
    if (what.bytesFrom != nullptr)
        m_bytesFrom.assign(what.bytesFrom, what.bytesFrom + m_members);
    else
        m_bytesFrom.assign(static_cast<std::size_t>(m_members), what.count);
    if (const Status told = tell(here.data, what.from); !told)
        return told;
    m_part = 0;
    m_stage = Stage::Meets;
    here.number.store(++m_number, std::memory_order_release);
    return {};
}

Status CopyTeam::messages(CudaQueue &queue, std::span<const PlanloomMessage> messages)
{
    if (m_members != 2)
        return unsupported("ranks that share a GPU exchange messages in pairs");
    m_queue = &queue;
    m_messages.assign(messages.begin(), messages.end());
    m_message = 0;
    return {};
}

Result<bool> CopyTeam::poll()
{
    if (m_meeting == nullptr || m_meeting->aborted.load() != 0)
        return failed(kOtherEnded);
    if (m_leaves)
        return m_left = m_meeting->left.load() == m_members;
    if (m_meeting->joined.load() < m_members)
        return false;
    m_mapping->unlink(); // everyone has it
    const Result<bool> moved = advanceMessages();
    return moved && *moved ? advance() : moved;
}

/// True once no collective is under way.
Result<bool> CopyTeam::advance()
{
    const int parts = static_cast<Collective>(m_what.kind) == Collective::AllReduce ? 2 : 1;
    while (m_stage != Stage::Idle) {
        if (m_stage == Stage::Meets) {
            if (!allAt(m_number))
                return false;
            if (m_part == parts) {
                m_stage = Stage::Idle;
                break;
            }
            if (!beginsToRead())
                return failed(kOtherEnded);
            if (const Status given = work(); !given)
                return given.error();
            m_queue->record(*m_ended);
            m_stage = Stage::Works;
        }
        const Result<bool> ended = m_ended->poll();
        if (!ended || !*ended)
            return ended;
        own().reads = 0;
        ++m_part;
        m_stage = Stage::Meets;
        own().number.store(++m_number, std::memory_order_release);
    }
    return true;
}

/// To be called before commands that read the others' memory; whether they may be given. A member that aborts says so
/// first and looks for readers then, here it is the other way round: one of both sees the other.
bool CopyTeam::beginsToRead()
{
    own().reads = 1;
    if (m_meeting->aborted.load() == 0)
        return true;
    own().reads = 0;
    return false;
}

/// Elements of an all-reduce before the share of @p member.
std::int64_t CopyTeam::shareOf(int member) const { return m_what.count * member / m_members; }

/// Gives the commands of a part to the queue.
Status CopyTeam::work()
{
    const auto from = findAll();
    if (!from)
        return from.error();
    auto *to = static_cast<std::byte *>(m_what.to);
    const auto take = [&](int member, std::int64_t at, std::int64_t source, std::int64_t bytes) {
        const std::byte *data = (*from)[static_cast<std::size_t>(member)] + source;
        if (bytes > 0 && data != to + at)
            m_queue->copy(to + at, data, bytes);
    };
    switch (static_cast<Collective>(m_what.kind)) {
    case Collective::AllReduce: {
        const std::int64_t each = bytesOf(kKinds[m_what.element]);
        if (m_part == 0)
            return sum(shareOf(m_position), shareOf(m_position + 1) - shareOf(m_position),
                       to + shareOf(m_position) * each, *from);
        for (int member = 0; member < m_members; ++member)
            if (member != m_position)
                take(member, shareOf(member) * each, shareOf(member) * each,
                     (shareOf(member + 1) - shareOf(member)) * each);
        return {};
    }
    case Collective::ReduceScatter: return sum(m_position * m_what.count, m_what.count, to, *from);
    case Collective::AllGather:
        for (int member = 0; member < m_members; ++member)
            take(member, member * m_what.count, 0, m_what.count);
        return {};
    case Collective::Broadcast: take(m_what.root, 0, 0, m_what.count); return {};
    case Collective::AllToAll: break;
    }
    std::int64_t at = 0;
    for (int member = 0; member < m_members; ++member) {
        const std::int64_t bytes = m_bytesFrom[static_cast<std::size_t>(member)];
        take(member, at, m_meeting->members[member].pieces[m_position], bytes);
        at += bytes;
    }
    return {};
}

/// The members' elements [first, first + count), to @p to: the own ones, where they may lie already, then the others'.
Status CopyTeam::sum(std::int64_t first, std::int64_t count, std::byte *to, const std::vector<const std::byte *> &from)
{
    const std::int64_t each = bytesOf(kKinds[m_what.element]);
    const auto at = [&](int member) { return from[static_cast<std::size_t>(member)] + first * each; };
    if (count > 0 && at(m_position) != to)
        m_queue->copy(to, at(m_position), count * each);
    for (int member = 0; member < m_members && count > 0; ++member)
        if (member != m_position)
            add(to, at(member), count);
    return {};
}

void CopyTeam::add(std::byte *to, const std::byte *more, std::int64_t count)
{
    const Kind kind = kKinds[m_what.element];
    Binary<function::Add> kernel;
    kernel.x0 = {to, kind};
    kernel.x1 = {more, kind};
    kernel.y = {to, kind, false};
    kernel.n = count;
    kernel.loops = loopsOver<2>({count}, {Dims{1}, Dims{1}});
    m_queue->items(kernel, count);
}

/// True once no message is under way.
Result<bool> CopyTeam::advanceMessages()
{
    Member &sender = m_meeting->members[0];
    Member &receiver = m_meeting->members[1];
    while (m_message < m_messages.size()) {
        const PlanloomMessage &message = m_messages[m_message];
        const std::uint64_t number = m_moved + 1;
        if (message.sends != 0) {
            if (sender.messages.load(std::memory_order_relaxed) < number) {
                if (const Status told = tell(sender.message, message.data); !told)
                    return told.error();
                sender.messages.store(number, std::memory_order_release);
            }
            if (receiver.messages.load(std::memory_order_acquire) < number)
                return false;
        } else if (!m_copies) {
            if (sender.messages.load(std::memory_order_acquire) < number)
                return false;
            const bool here = sender.process == ::getpid();
            const auto from = here ? Result<const std::byte *>(reinterpret_cast<const std::byte *>(sender.message.block)
                                                               + sender.message.offset)
                                   : find(sender.message);
            if (!from)
                return from.error();
            if (!beginsToRead())
                return failed(kOtherEnded);
            m_queue->copy(message.data, *from, message.bytes);
            m_queue->record(*m_ended);
            m_copies = true;
        }
        if (m_copies) {
            const Result<bool> ended = m_ended->poll();
            if (!ended || !*ended)
                return ended;
            m_copies = false;
            own().reads = 0;
            receiver.messages.store(number, std::memory_order_release);
        }
        m_moved = number;
        ++m_message;
    }
    return true;
}

// --- Ends -----------------------------------------------------------------------------------------------------------

Status CopyTeam::leave()
{
    closeOpened();
    m_leaves = true;
    ++m_meeting->left;
    return {};
}

void CopyTeam::abort()
{
    if (m_meeting == nullptr || std::exchange(m_aborted, true))
        return;
    m_meeting->aborted = 1;
    if (m_queue != nullptr && m_device.failure().empty())
        m_device.check(m_device.api().streamSynchronize(m_queue->stream()), "the end of copies between ranks");
    own().reads = 0;
    closeOpened();
}

/// Members give no more commands now; those that are under way end by themselves, and their member says so with its
/// next look at one of its teams.
void CopyTeam::awaitReaders(std::chrono::steady_clock::time_point end)
{
    if (m_meeting == nullptr || std::exchange(m_awaited, true))
        return;
    constexpr std::chrono::microseconds kNap{50};
    const auto reads = [](const Member &member) {
        return member.reads.load() != 0
            && (::kill(static_cast<pid_t>(member.process), 0) == 0 || errno != ESRCH); // lives
    };
    for (int member = 0; member < m_members; ++member)
        while (reads(m_meeting->members[member]) && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(kNap);
}

} // namespace planloom::cuda
