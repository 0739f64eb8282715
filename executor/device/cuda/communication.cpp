// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/communication.h"

#include "engine/cost/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace planloom::cuda {

namespace {

using cost::Collective;

/// comm::Element, in its order.
constexpr TeamData kElements[] = {TeamData::Float32, TeamData::BFloat16, TeamData::Float64};

const std::byte *pieceAt(const void *data, std::int64_t bytes) { return static_cast<const std::byte *>(data) + bytes; }
std::byte *pieceAt(void *data, std::int64_t bytes) { return static_cast<std::byte *>(data) + bytes; }

/// Calls of one group, by @p calls(keep), which keeps their errors: the first one, of the calls or the group.
template <class F>
int inGroup(const CommunicationApi &api, const F &calls)
{
    if (const int opened = api.groupStart(); opened != kTeamSuccess)
        return opened;
    int first = kTeamSuccess;
    const auto fine = [&first] { return first == kTeamSuccess || first == kTeamInProgress; };
    calls([&](int error) { first = fine() ? error : first; });
    const int closed = api.groupEnd();
    return fine() ? closed : first;
}

} // namespace

Result<std::unique_ptr<Team>> LibraryTeam::join(const CommunicationApi &api, CudaDevice &device,
                                                const PlanloomTeamOptions &how)
{
    device.use();
    TeamId id{};
    std::memcpy(id.bytes, how.id, sizeof id.bytes);
    TeamConfig config;
    if (how.blocks > 0)
        config.mostBlocks = how.blocks;
    std::unique_ptr<LibraryTeam> team(new LibraryTeam(api, device, how.members, how.position));
    const int error = api.initRank(&team->m_handle, how.members, id, how.position, &config);
    if (const Status joined = team->asked(error, "the start of NCCL"); !joined)
        return joined.error();
    return std::unique_ptr<Team>(std::move(team));
}

LibraryTeam::~LibraryTeam()
{
    if (m_handle == nullptr)
        return;
    if (!m_left) {
        abort();
        return;
    }
    m_device.use();
    deregister();
    m_api.destroy(m_handle);
}

void Team::abortAll(std::span<Team *const> teams)
{
    const auto first = std::find_if(teams.begin(), teams.end(), [](Team *team) { return team->library() != nullptr; });
    const auto abortEach = [teams] {
        for (Team *team : teams)
            team->abort();
    };
    if (first == teams.end())
        abortEach();
    else
        inGroup(*(*first)->library(), [&](const auto & /*keep*/) { abortEach(); });
    const auto end = std::chrono::steady_clock::now() + kLongestEnd;
    for (Team *team : teams)
        team->awaitReaders(end);
}

void LibraryTeam::abort()
{
    if (m_handle == nullptr)
        return;
    m_device.use();
    m_api.abort(std::exchange(m_handle, nullptr)); // what it registered goes with it
    m_registered.clear();
}

void LibraryTeam::deregister()
{
    for (void *registration : m_registered)
        m_api.deregister(m_handle, registration);
    m_registered.clear();
}

/// NCCL's text for @p error. Its last error is of the process, and may be of an earlier call: it is said as what it is.
Status LibraryTeam::check(int error, const char *what)
{
    if (error == kTeamSuccess)
        return {};
    const char *last = m_api.lastError(m_handle);
    std::string text = std::string(what) + " failed: NCCL: " + m_api.errorText(error);
    if (last != nullptr && *last != '\0')
        text += " (its last error: " + std::string(last) + ")";
    return failed(text);
}

/// Of calls that may go on after they return.
Status LibraryTeam::asked(int error, const char *what)
{
    m_asked = what;
    return error == kTeamInProgress ? Status() : check(error, what);
}

Result<bool> LibraryTeam::poll()
{
    if (m_handle == nullptr)
        return failed("NCCL's communicator was aborted");
    int state = kTeamSuccess;
    if (const Status asking = check(m_api.asyncError(m_handle, &state), "the question for NCCL's state"); !asking)
        return asking.error();
    if (state == kTeamInProgress)
        return false;
    if (const Status fine = check(state, m_asked); !fine)
        return fine.error();
    m_left = m_leaves;
    return true;
}

Result<bool> LibraryTeam::use(void *data, std::int64_t bytes)
{
    m_device.use();
    void *registration = nullptr;
    const int error = m_api.registerMemory(m_handle, data, static_cast<std::size_t>(bytes), &registration);
    if (const Status registered = check(error, "registering memory"); !registered)
        return registered.error();
    if (registration == nullptr)
        return false;
    m_registered.push_back(registration);
    return true;
}

Status LibraryTeam::collective(CudaQueue &queue, const PlanloomCollective &what)
{
    m_device.use();
    return asked(start(queue, what), cost::name(static_cast<Collective>(what.kind)));
}

int LibraryTeam::start(CudaQueue &queue, const PlanloomCollective &what)
{
    const auto count = static_cast<std::size_t>(what.count);
    const TeamData type = kElements[what.element];
    Stream stream = queue.stream();
    switch (static_cast<Collective>(what.kind)) {
    case Collective::AllReduce: return m_api.allReduce(what.from, what.to, count, type, kTeamSum, m_handle, stream);
    case Collective::ReduceScatter:
        return m_api.reduceScatter(what.from, what.to, count, type, kTeamSum, m_handle, stream);
    case Collective::AllGather: return m_api.allGather(what.from, what.to, count, TeamData::Bytes, m_handle, stream);
    case Collective::Broadcast:
        return m_api.broadcast(what.from, what.to, count, TeamData::Bytes, what.root, m_handle, stream);
    case Collective::AllToAll: break;
    }
    return exchange(queue, what);
}

/// An all-to-all: a group of messages; the own piece is copied.
int LibraryTeam::exchange(CudaQueue &queue, const PlanloomCollective &what)
{
    return inGroup(m_api, [&](const auto &keep) {
        std::int64_t to = 0;
        std::int64_t from = 0;
        for (int peer = 0; peer < m_members; ++peer) {
            const std::int64_t sent = what.bytesTo != nullptr ? what.bytesTo[peer] : what.count;
            const std::int64_t received = what.bytesFrom != nullptr ? what.bytesFrom[peer] : what.count;
            if (peer == m_position)
                queue.copy(pieceAt(what.to, from), pieceAt(what.from, to), received);
            if (peer != m_position && sent > 0)
                keep(m_api.send(pieceAt(what.from, to), static_cast<std::size_t>(sent), TeamData::Bytes, peer, m_handle,
                                queue.stream()));
            if (peer != m_position && received > 0)
                keep(m_api.receive(pieceAt(what.to, from), static_cast<std::size_t>(received), TeamData::Bytes, peer,
                                   m_handle, queue.stream()));
            to += sent;
            from += received;
        }
    });
}

Status LibraryTeam::messages(CudaQueue &queue, std::span<const PlanloomMessage> messages)
{
    m_device.use();
    return asked(inGroup(m_api,
                         [&](const auto &keep) {
                             for (const PlanloomMessage &message : messages) {
                                 const auto bytes = static_cast<std::size_t>(message.bytes);
                                 keep(message.sends != 0 ? m_api.send(message.data, bytes, TeamData::Bytes,
                                                                      message.peer, m_handle, queue.stream())
                                                         : m_api.receive(message.data, bytes, TeamData::Bytes,
                                                                         message.peer, m_handle, queue.stream()));
                             }
                         }),
                 "a message");
}

Status LibraryTeam::leave()
{
    m_device.use();
    deregister();
    m_leaves = true;
    return asked(m_api.finalize(m_handle), "the end of NCCL");
}

} // namespace planloom::cuda
