// SPDX-License-Identifier: Apache-2.0
#include "gpu/emulated_nccl.h"

#include "engine/base/log.h"
#include "executor/device/cuda/communication_table.h"
#include "gpu/emulated_gpu.h"
#include "gpu/left_out_waits.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace planloom::test {

namespace {

constexpr int kMostMembers = 8;
constexpr std::size_t kPiece = 64 * 1024; ///< of a message, in shared memory

/// From one member to another: full, or taken.
struct Mailbox {
    std::atomic<std::uint32_t> full{0};
    std::atomic<std::uint32_t> bytes{0};
    std::byte data[kPiece];
};

/// What the members of a communicator share; fresh memory is 0.
struct Shared {
    std::atomic<std::int32_t> joined;
    std::atomic<std::int32_t> leaving;
    std::atomic<std::int32_t> closed;                ///< a member's connections are: the others meet it, too
    std::atomic<std::int32_t> devices[kMostMembers]; ///< 1 + the number of the member's GPU
    Mailbox boxes[kMostMembers][kMostMembers];
};

/// Shared memory of a name: one mapping for all members of a process.
class Mapping {
public:
    static std::shared_ptr<Mapping> of(const std::string &name)
    {
        static std::mutex mutex;
        static std::map<std::string, std::weak_ptr<Mapping>> known;
        const std::scoped_lock lock(mutex);
        std::shared_ptr<Mapping> mapping = known[name].lock();
        if (mapping == nullptr)
            known[name] = mapping = std::make_shared<Mapping>(name);
        return mapping->m_shared != nullptr ? mapping : nullptr;
    }
    explicit Mapping(std::string name) : m_name(std::move(name))
    {
        const int file = ::shm_open(m_name.c_str(), O_RDWR | O_CREAT, 0600);
        if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0)
            return;
        void *mapped = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ::close(file);
        if (mapped != MAP_FAILED)
            m_shared = static_cast<Shared *>(mapped);
    }
    ~Mapping()
    {
        if (m_shared != nullptr)
            ::munmap(m_shared, sizeof(Shared));
        ::shm_unlink(m_name.c_str()); // the first that leaves: all have it by then, or it will never be made
    }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    [[nodiscard]] Shared &shared() const { return *m_shared; }

private:
    std::string m_name;
    Shared *m_shared = nullptr;
};

} // namespace

} // namespace planloom::test

namespace planloom::cuda {

/// A communicator's end.
struct TeamObject {
    std::shared_ptr<test::Mapping> shared;
    test::EmulatedNccl::Faults faults;
    int members = 0;
    int position = 0;
    int device = 0;
    std::thread::id owner;
    bool finalizing = false;
    std::int64_t calls = 0;
    std::atomic<int> state{kTeamInProgress};
    std::atomic<bool> aborted{false};
    std::atomic<std::int64_t> given{0}, completed{0}; ///< commands of streams
    std::mt19937_64 random;
    std::thread later; ///< puts a call into its stream
    [[nodiscard]] bool isIdle() const
    {
        return completed.load(std::memory_order_acquire) == given.load(std::memory_order_relaxed);
    }
};

} // namespace planloom::cuda

namespace planloom::test {

namespace {

struct NcclState {
    EmulatedNccl::Faults faults;
    std::atomic<std::int64_t> living{0};
    /// Counted without synchronizing threads.
    std::atomic<std::int64_t> collectives{0}, messages{0}, groups{0}, delayed{0}, registered{0}, aborted{0}, left{0};
    std::atomic<int> ids{0};
    std::mutex mutex;
    std::string lastError; ///< guarded by mutex
    std::string problem;   ///< guarded by mutex
    /// All that were made, also those that were left: commands may still use them (emulated_gpu.cpp says why).
    std::vector<std::unique_ptr<cuda::TeamObject>> teams; ///< guarded by mutex
};

NcclState &ncclState()
{
    static NcclState kState;
    return kState;
}

void count(std::atomic<std::int64_t> &number) { number.fetch_add(1, std::memory_order_relaxed); }

int error(int code, const std::string &why)
{
    const std::scoped_lock lock(ncclState().mutex);
    ncclState().lastError = why;
    return code;
}

using cuda::Stream;
using cuda::TeamData;
using cuda::TeamHandle;

/// Part of a call: data to and from one member.
struct Move {
    int peer = 0;
    const void *from = nullptr;
    void *to = nullptr;
    std::size_t bytes = 0;
};

/// Runs a member's moves, all at once, until they are done or the communicator is aborted.
class Exchange {
public:
    explicit Exchange(cuda::TeamObject &team) : m_team(team) {}
    void send(int peer, const void *from, std::size_t bytes) { add(m_sends, {peer, from, nullptr, bytes}); }
    void receive(int peer, void *to, std::size_t bytes) { add(m_receives, {peer, nullptr, to, bytes}); }
    bool run()
    {
        while (!m_sends.empty() || !m_receives.empty()) {
            const bool moved = step();
            if (isOver())
                return false;
            if (!moved)
                EmulatedGpu::waitUntil([this] { return canMove(); });
        }
        return true;
    }

private:
    void add(std::deque<Move> &moves, const Move &move)
    {
        if (move.bytes > 0)
            moves.push_back(move);
    }
    [[nodiscard]] bool isOver() const { return m_team.aborted || EmulatedGpu::isBroken(); }
    [[nodiscard]] bool canMove() const
    {
        const auto sends = [this](const Move &move) {
            return outgoing(move).full.load(std::memory_order_acquire) == 0;
        };
        const auto comes = [this](const Move &move) {
            return incoming(move).full.load(std::memory_order_acquire) != 0;
        };
        return isOver() || std::any_of(m_sends.begin(), m_sends.end(), sends)
            || std::any_of(m_receives.begin(), m_receives.end(), comes);
    }
    [[nodiscard]] Mailbox &outgoing(const Move &move) const
    {
        return m_team.shared->shared().boxes[m_team.position][move.peer];
    }
    [[nodiscard]] Mailbox &incoming(const Move &move) const
    {
        return m_team.shared->shared().boxes[move.peer][m_team.position];
    }
    /// A piece of every first message between two members.
    bool step()
    {
        bool moved = false;
        std::uint32_t seen = 0;
        for (auto move = m_sends.begin(); move != m_sends.end();) {
            const std::uint32_t bit = 1U << static_cast<unsigned>(move->peer);
            Mailbox &box = outgoing(*move);
            if ((seen & bit) != 0 || box.full.load(std::memory_order_acquire) != 0) {
                seen |= bit;
                ++move;
                continue;
            }
            seen |= bit;
            const std::size_t bytes = std::min(move->bytes, kPiece);
            std::memcpy(box.data, move->from, bytes);
            box.bytes = static_cast<std::uint32_t>(bytes);
            box.full.store(1, std::memory_order_release);
            move->from = static_cast<const std::byte *>(move->from) + bytes;
            move->bytes -= bytes;
            moved = true;
            move = move->bytes == 0 ? m_sends.erase(move) : move + 1;
        }
        seen = 0;
        for (auto move = m_receives.begin(); move != m_receives.end();) {
            const std::uint32_t bit = 1U << static_cast<unsigned>(move->peer);
            Mailbox &box = incoming(*move);
            if ((seen & bit) != 0 || box.full.load(std::memory_order_acquire) == 0) {
                seen |= bit;
                ++move;
                continue;
            }
            seen |= bit;
            const std::size_t bytes = std::min<std::size_t>(box.bytes, move->bytes);
            std::memcpy(move->to, box.data, bytes);
            box.full.store(0, std::memory_order_release);
            move->to = static_cast<std::byte *>(move->to) + bytes;
            move->bytes -= bytes;
            moved = true;
            move = move->bytes == 0 ? m_receives.erase(move) : move + 1;
        }
        return moved;
    }

    cuda::TeamObject &m_team;
    std::deque<Move> m_sends, m_receives;
};

// --- Sums -----------------------------------------------------------------------------------------------------------

float widened(std::uint16_t half)
{
    const std::uint32_t bits = std::uint32_t{half} << 16U;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
std::uint16_t rounded(float value)
{
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

std::size_t bytesOf(TeamData type)
{
    switch (type) {
    case TeamData::Bytes: return 1;
    case TeamData::BFloat16: return 2;
    case TeamData::Float32: return 4;
    case TeamData::Float64: break;
    }
    return 8;
}

template <class T>
void addTo(std::byte *sum, const std::byte *more, std::size_t count)
{
    for (std::size_t i = 0; i < count; ++i) {
        T a{}, b{};
        std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
        std::memcpy(&b, more + i * sizeof(T), sizeof(T));
        if constexpr (sizeof(T) == 2)
            a = rounded(widened(a) + widened(b));
        else
            a += b;
        std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
    }
}

/// The sum of the members' @p parts, in order of position, to @p to.
void sum(const std::vector<std::vector<std::byte>> &parts, TeamData type, std::size_t count, void *to)
{
    std::vector<std::byte> all = parts[0];
    for (std::size_t member = 1; member < parts.size(); ++member) {
        if (type == TeamData::Float32)
            addTo<float>(all.data(), parts[member].data(), count);
        else if (type == TeamData::BFloat16)
            addTo<std::uint16_t>(all.data(), parts[member].data(), count);
        else
            addTo<double>(all.data(), parts[member].data(), count);
    }
    std::memcpy(to, all.data(), all.size());
}

// --- Calls ----------------------------------------------------------------------------------------------------------

struct Call {
    TeamHandle team = nullptr;
    Stream stream = nullptr;
    bool message = false;
    std::function<void(cuda::TeamObject &)> run; ///< a collective
    Move move;                                   ///< a message: to != nullptr receives
};

/// Of the thread: calls between groupStart and groupEnd.
thread_local int t_depth = 0;
thread_local std::vector<Call> t_calls;
thread_local std::vector<TeamHandle> t_dropped; ///< in the group
void drop(const std::vector<TeamHandle> &teams);

void runMessages(cuda::TeamObject &team, const std::vector<Move> &moves)
{
    Exchange exchange(team);
    for (const Move &move : moves) {
        if (move.to != nullptr)
            exchange.receive(move.peer, move.to, move.bytes);
        else
            exchange.send(move.peer, move.from, move.bytes);
    }
    exchange.run();
}

/// Gives @p calls of one communicator to its stream, now or later.
int give(std::vector<Call> calls)
{
    cuda::TeamObject &team = *calls.front().team;
    if (team.state == cuda::kTeamInProgress || team.aborted)
        return error(cuda::kTeamInvalidArgument, "a communicator was called while an earlier call was in progress");
    if (team.state != cuda::kTeamSuccess)
        return team.state;
    const std::int64_t number = team.calls++;
    if (team.position == 0 && team.faults.failsAfter >= 0 && number >= team.faults.failsAfter) {
        team.shared->shared().closed = 1; // it comes asynchronously
        return cuda::kTeamSuccess;
    }
    const bool silent = team.position == 0 && team.faults.silentAfter >= 0 && number >= team.faults.silentAfter;
    std::vector<Move> moves;
    std::function<void(cuda::TeamObject &)> collective;
    for (Call &call : calls) {
        if (call.message)
            moves.push_back(call.move);
        else
            collective = std::move(call.run);
        count(call.message ? ncclState().messages : ncclState().collectives);
    }
    if (!moves.empty())
        count(ncclState().groups);
    team.given.fetch_add(1, std::memory_order_relaxed);
    const Stream stream = calls.front().stream;
    std::function<void()> command =
        EmulatedGpu::asKernel([own = &team, silent, moves = std::move(moves), collective = std::move(collective)] {
            if (silent)
                EmulatedGpu::waitUntil([own] { return own->aborted.load(); });
            if (!own->aborted && collective)
                collective(*own);
            if (!own->aborted && !moves.empty())
                runMessages(*own, moves);
        });
    const auto enqueue = [own = &team, stream, command = std::move(command)] {
        const int given = EmulatedGpu::give(stream, [own, command] {
            command();
            own->completed.fetch_add(1, std::memory_order_release);
        });
        if (given != cuda::kSuccess)
            own->given.fetch_sub(1, std::memory_order_relaxed);
        return given;
    };
    if (team.random() % 2 == 0)
        return enqueue() == cuda::kSuccess ? cuda::kTeamSuccess : error(cuda::kTeamCudaError, "the GPU has failed");
    count(ncclState().delayed);
    team.state = cuda::kTeamInProgress;
    if (team.later.joinable())
        team.later.join();
    team.later = std::thread([&team, enqueue, pause = team.random() % 400] {
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        const bool given = enqueue() == cuda::kSuccess;
        team.state = given ? cuda::kTeamSuccess : error(cuda::kTeamCudaError, "the GPU has failed");
    });
    return cuda::kTeamInProgress;
}

int add(Call call)
{
    if (t_depth == 0)
        return give({std::move(call)});
    t_calls.push_back(std::move(call));
    return cuda::kTeamSuccess;
}

int groupStart()
{
    ++t_depth;
    return cuda::kTeamSuccess;
}

int groupEnd()
{
    if (--t_depth > 0)
        return cuda::kTeamSuccess;
    if (!t_dropped.empty())
        drop(std::exchange(t_dropped, {}));
    if (t_calls.empty())
        return cuda::kTeamSuccess;
    std::vector<Call> calls;
    calls.swap(t_calls);
    for (const Call &call : calls)
        if (call.team != calls.front().team || call.stream != calls.front().stream || !call.message)
            return error(cuda::kTeamInvalidArgument, "emulated: a group is of one communicator's messages");
    return give(std::move(calls));
}

/// Everyone's @p bytes of data to everyone.
std::vector<std::vector<std::byte>> gather(cuda::TeamObject &team, const void *from, std::size_t bytes)
{
    std::vector<std::vector<std::byte>> parts(static_cast<std::size_t>(team.members), std::vector<std::byte>(bytes));
    Exchange exchange(team);
    for (int peer = 0; peer < team.members; ++peer) {
        if (peer == team.position)
            std::memcpy(parts[static_cast<std::size_t>(peer)].data(), from, bytes);
        else {
            exchange.send(peer, from, bytes);
            exchange.receive(peer, parts[static_cast<std::size_t>(peer)].data(), bytes);
        }
    }
    exchange.run();
    return parts;
}

int allReduce(const void *from, void *to, std::size_t count, TeamData type, int /*operation*/, TeamHandle team,
              Stream stream)
{
    return add({team,
                stream,
                false,
                [=](cuda::TeamObject &own) { sum(gather(own, from, count * bytesOf(type)), type, count, to); },
                {}});
}

int reduceScatter(const void *from, void *to, std::size_t count, TeamData type, int /*operation*/, TeamHandle team,
                  Stream stream)
{
    const auto run = [=](cuda::TeamObject &own) {
        const std::size_t bytes = count * bytesOf(type);
        const auto *all = static_cast<const std::byte *>(from);
        std::vector<std::vector<std::byte>> parts(static_cast<std::size_t>(own.members), std::vector<std::byte>(bytes));
        Exchange exchange(own);
        for (int peer = 0; peer < own.members; ++peer) {
            const std::byte *part = all + static_cast<std::size_t>(peer) * bytes;
            if (peer == own.position)
                std::memcpy(parts[static_cast<std::size_t>(peer)].data(), part, bytes);
            else {
                exchange.send(peer, part, bytes);
                exchange.receive(peer, parts[static_cast<std::size_t>(peer)].data(), bytes);
            }
        }
        if (exchange.run())
            sum(parts, type, count, to);
    };
    return add({team, stream, false, run, {}});
}

int allGather(const void *from, void *to, std::size_t count, TeamData type, TeamHandle team, Stream stream)
{
    const auto run = [=](cuda::TeamObject &own) {
        const std::size_t bytes = count * bytesOf(type);
        const auto parts = gather(own, from, bytes);
        for (std::size_t member = 0; member < parts.size(); ++member)
            std::memcpy(static_cast<std::byte *>(to) + member * bytes, parts[member].data(), bytes);
    };
    return add({team, stream, false, run, {}});
}

int broadcast(const void *from, void *to, std::size_t count, TeamData type, int root, TeamHandle team, Stream stream)
{
    const auto run = [=](cuda::TeamObject &own) {
        const std::size_t bytes = count * bytesOf(type);
        Exchange exchange(own);
        for (int peer = 0; peer < own.members; ++peer)
            if (own.position == root && peer != root)
                exchange.send(peer, from, bytes);
        if (own.position != root)
            exchange.receive(root, to, bytes);
        else if (to != from)
            std::memcpy(to, from, bytes);
        exchange.run();
    };
    return add({team, stream, false, run, {}});
}

int send(const void *from, std::size_t count, TeamData type, int peer, TeamHandle team, Stream stream)
{
    return add({team, stream, true, {}, {peer, from, nullptr, count * bytesOf(type)}});
}

int receive(void *to, std::size_t count, TeamData type, int peer, TeamHandle team, Stream stream)
{
    return add({team, stream, true, {}, {peer, nullptr, to, count * bytesOf(type)}});
}

// --- Communicators --------------------------------------------------------------------------------------------------

int getUniqueId(cuda::TeamId *id)
{
    const std::string name = "/planloom-test-" + std::to_string(::getpid()) + "-" + std::to_string(ncclState().ids++);
    std::memcpy(id->bytes, name.c_str(), name.size() + 1);
    return cuda::kTeamSuccess;
}

int initRank(TeamHandle *team, int members, cuda::TeamId id, int position, cuda::TeamConfig *config)
{
    if (config->blocking != 0 || config->size != sizeof *config || members < 1 || members > kMostMembers)
        return error(cuda::kTeamInvalidArgument, "emulated: not a configuration of Planloom's");
    std::shared_ptr<Mapping> shared = Mapping::of(id.bytes);
    if (shared == nullptr)
        return error(2, "emulated: no shared memory");
    auto made = std::make_unique<cuda::TeamObject>();
    made->shared = std::move(shared);
    made->faults = ncclState().faults;
    made->members = members;
    made->position = position;
    made->device = EmulatedGpu::currentDevice();
    made->owner = std::this_thread::get_id();
    made->random.seed(EmulatedGpu::seed() * 31 + static_cast<std::uint64_t>(position) + std::strlen(id.bytes));
    Shared &all = made->shared->shared();
    all.devices[position] = 1 + EmulatedGpu::currentDevice();
    ++all.joined;
    ++ncclState().living;
    const std::scoped_lock lock(ncclState().mutex);
    *team = ncclState().teams.emplace_back(std::move(made)).get();
    return cuda::kTeamInProgress;
}

/// Its state, which goes on once all members have joined, or begun to leave.
int asyncError(TeamHandle team, int *state)
{
    Shared &all = team->shared->shared();
    if (team->state == cuda::kTeamInProgress && team->calls == 0 && !team->finalizing && !team->faults.neverReady
        && all.joined == team->members) {
        team->state = cuda::kTeamSuccess;
        for (int a = 0; a < team->members; ++a)
            for (int b = 0; b < a; ++b)
                if (all.devices[a] == all.devices[b])
                    team->state = error(5, "Duplicate GPU detected");
    }
    if (team->finalizing && team->state == cuda::kTeamInProgress && all.leaving == team->members)
        team->state = cuda::kTeamSuccess;
    if (all.closed != 0 && team->state == cuda::kTeamSuccess)
        team->state = error(cuda::kTeamRemoteError, "emulated: connection closed by a remote peer");
    *state = team->state;
    if (*state == cuda::kTeamInProgress && leavesOutWait())
        *state = cuda::kTeamSuccess;
    return cuda::kTeamSuccess;
}

int finalize(TeamHandle team)
{
    if (team->state != cuda::kTeamSuccess || !team->isIdle())
        return error(cuda::kTeamInvalidArgument, "emulated: it is left while calls are under way");
    team->finalizing = true;
    team->state = cuda::kTeamInProgress;
    ++team->shared->shared().leaving;
    return cuda::kTeamInProgress;
}

/// Those of the same thread and device.
std::vector<TeamHandle> besides(const cuda::TeamObject &team)
{
    std::vector<TeamHandle> others;
    const std::scoped_lock lock(ncclState().mutex);
    for (const auto &other : ncclState().teams)
        if (other->owner == team.owner && other->device == team.device)
            others.push_back(other.get());
    return others;
}

void drop(const std::vector<TeamHandle> &teams)
{
    constexpr std::chrono::seconds kPatience{20};
    for (const TeamHandle team : teams)
        team->aborted = true;
    for (const TeamHandle team : teams)
        if (team->later.joinable())
            team->later.join();
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (const TeamHandle team : teams) {
        for (const TeamHandle other : besides(*team))
            while (!other->isIdle() && !EmulatedGpu::isBroken() && std::chrono::steady_clock::now() < end)
                std::this_thread::sleep_for(std::chrono::microseconds(20));
        if (std::chrono::steady_clock::now() >= end) {
            const std::scoped_lock lock(ncclState().mutex);
            ncclState().problem = "a communicator was aborted while others of its device had commands under way";
        }
        --ncclState().living;
        if (team->isIdle())
            team->shared.reset();
    }
}

int destroy(TeamHandle team)
{
    if (!team->finalizing || team->state != cuda::kTeamSuccess)
        return error(cuda::kTeamInvalidArgument, "emulated: it has not been left");
    count(ncclState().left);
    drop({team});
    return cuda::kTeamSuccess;
}

int abortTeam(TeamHandle team)
{
    count(ncclState().aborted);
    log(LogLevel::Info, "emulated NCCL: a communicator is aborted");
    if (t_depth > 0)
        t_dropped.push_back(team);
    else
        drop({team});
    return cuda::kTeamSuccess;
}

int registerMemory(TeamHandle team, void * /*data*/, std::size_t /*bytes*/, void **registration)
{
    if (team->state != cuda::kTeamSuccess)
        return error(cuda::kTeamInvalidArgument, "emulated: memory is registered while a call is in progress");
    count(ncclState().registered);
    *registration = team;
    return cuda::kTeamSuccess;
}

const char *errorText(int code)
{
    switch (code) {
    case cuda::kTeamSuccess: return "no error";
    case cuda::kTeamCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case cuda::kTeamInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case cuda::kTeamRemoteError: return "remote process exited or there was a network error";
    default: return "internal error";
    }
}

const char *lastError(TeamHandle /*team*/)
{
    thread_local std::string t_text;
    const std::scoped_lock lock(ncclState().mutex);
    t_text = ncclState().lastError;
    return t_text.c_str();
}

cuda::CommunicationApi communicationApi()
{
    cuda::CommunicationApi api{};
    api.getVersion = [](int *version) {
        *version = ncclState().faults.version;
        return cuda::kTeamSuccess;
    };
    api.getUniqueId = getUniqueId;
    api.initRank = initRank;
    api.finalize = finalize;
    api.destroy = destroy;
    api.abort = abortTeam;
    api.errorText = errorText;
    api.lastError = lastError;
    api.asyncError = asyncError;
    api.registerMemory = registerMemory;
    api.deregister = [](TeamHandle, void *) { return cuda::kTeamSuccess; };
    api.malloc = [](void **data, std::size_t bytes) {
        return EmulatedGpu::provider().runtime.malloc(data, bytes) == cuda::kSuccess ? cuda::kTeamSuccess
                                                                                     : cuda::kTeamCudaError;
    };
    api.free = [](void *data) { return EmulatedGpu::provider().runtime.free(data); };
    api.groupStart = groupStart;
    api.groupEnd = groupEnd;
    api.allReduce = allReduce;
    api.reduceScatter = reduceScatter;
    api.allGather = allGather;
    api.broadcast = broadcast;
    api.send = send;
    api.receive = receive;
    return api;
}

} // namespace

void EmulatedNccl::set(const Faults &faults) { ncclState().faults = faults; }

Result<const cuda::CommunicationApi *> EmulatedNccl::provider()
{
    static const cuda::CommunicationApi kApi = communicationApi();
    if (ncclState().faults.missing)
        return notFound("libnccl.so.2 is not installed");
    return &kApi;
}

const PlanloomCommunicationTable &EmulatedNccl::table()
{
    static const PlanloomCommunicationTable kTable = cuda::communicationTableOf<EmulatedNccl::provider>();
    return kTable;
}

EmulatedNccl::Counts EmulatedNccl::takeCounts()
{
    NcclState &s = ncclState();
    return {s.collectives.exchange(0), s.messages.exchange(0), s.groups.exchange(0), s.delayed.exchange(0),
            s.registered.exchange(0),  s.aborted.exchange(0),  s.left.exchange(0)};
}

std::int64_t EmulatedNccl::living() { return ncclState().living; }

std::string EmulatedNccl::problem()
{
    const std::scoped_lock lock(ncclState().mutex);
    return std::exchange(ncclState().problem, {});
}

} // namespace planloom::test
