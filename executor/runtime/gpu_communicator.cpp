// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/gpu_communicator.h"

#include "engine/base/backoff.h"
#include "engine/base/log.h"

#include <algorithm>

namespace planloom::runtime {

using comm::Element;
using comm::Group;
using comm::Request;
using cost::Collective;
using WorkState = TeamWork::State;

namespace {

/// Blocks of threads that a message may occupy: several directions and the collectives of a rank run at the same time,
/// beside its computation, and each waits on the device for its other end.
constexpr int kMessageBlocks = 8;

PlanloomCollective collectiveOf(Collective kind, const void *from, void *to, std::int64_t count)
{
    PlanloomCollective what{};
    what.kind = static_cast<std::int32_t>(kind);
    what.from = from;
    what.to = to;
    what.count = count;
    return what;
}

/// Requests of teams have odd numbers, those of the way of the host even ones.
std::int32_t slotOf(const std::deque<TeamWork> &works, const TeamWork &work)
{
    std::int32_t index = 0;
    while (&works[static_cast<std::size_t>(index)] != &work)
        ++index;
    return 2 * index + 1;
}

} // namespace

// --- Who reaches whom -----------------------------------------------------------------------------------------------

GpuPath pathOf(std::span<const GpuMember> members, std::span<const int> ranks)
{
    const auto of = [&](int rank) -> const GpuMember & { return members[static_cast<std::size_t>(rank)]; };
    bool library = true;
    bool copies = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const GpuMember &member = of(ranks[i]);
        library = library && member.version != 0 && member.version == of(ranks[0]).version;
        copies = copies && member.shares != 0 && member.identity == of(ranks[0]).identity;
        for (std::size_t j = 0; j < i; ++j)
            library = library && member.identity != of(ranks[j]).identity;
    }
    return library ? GpuPath::Library : copies ? GpuPath::Copies : GpuPath::Host;
}

namespace {

/// Pairs of ranks in a text.
class Pairs {
public:
    void add(std::size_t a, std::size_t b, const char *why)
    {
        constexpr int kMost = 6; // named
        if (++m_count > kMost) {
            m_more = " and " + std::to_string(m_count - kMost) + " more";
            return;
        }
        m_text += (m_text.empty() ? "" : ", ") + std::to_string(a) + " and " + std::to_string(b);
        if (why != nullptr)
            m_text += std::string(" (") + why + ")";
    }
    [[nodiscard]] bool any() const { return m_count > 0; }
    [[nodiscard]] std::string text() const { return m_text + m_more; }

private:
    int m_count = 0;
    std::string m_text, m_more;
};

} // namespace

std::string describePaths(std::span<const GpuMember> members, bool &differs)
{
    bool direct = false;
    Pairs copies;
    Pairs host;
    for (std::size_t b = 1; b < members.size(); ++b)
        for (std::size_t a = 0; a < b; ++a) {
            if (members[a].onGpu == 0 && members[b].onGpu == 0)
                continue; // has no GPU to reach
            const GpuMember &one = members[a];
            const GpuMember &other = members[b];
            const GpuPath path = pathOf(members, std::array{static_cast<int>(a), static_cast<int>(b)});
            if (path == GpuPath::Library)
                direct = true;
            else if (path == GpuPath::Copies)
                copies.add(a, b, nullptr);
            else
                host.add(a, b,
                         one.onGpu == 0 || other.onGpu == 0                              ? "a processor"
                             : one.identity == other.identity && one.identity[0] != '\0' ? "one GPU for both"
                             : one.version == 0 || other.version == 0                    ? "no NCCL"
                                                                                         : "other versions of NCCL");
        }
    differs = copies.any() || host.any();
    std::string text = direct ? "between GPUs by NCCL" : "";
    if (copies.any())
        text += (text.empty() ? "" : ", ")
            + ("on one GPU by copies, a way to try a plan, not to time it: " + copies.text());
    if (host.any())
        text += (text.empty() ? "" : ", and ") + ("through the host's memory: " + host.text());
    return "ranks exchange data " + text;
}

// --- Making ---------------------------------------------------------------------------------------------------------

namespace {

/// What @p device is to the other ranks. The reason why it has no library is logged.
GpuMember memberOf(device::PluginDevice *device, const Result<const PlanloomCommunicationTable *> &table)
{
    GpuMember own;
    if (device == nullptr || device->hostAddressable())
        return own;
    own.onGpu = 1;
    PlanloomError why{};
    const std::int32_t shares = table ? (*table)->identify(device->handle(), own.identity.data(), &why) : 0;
    own.shares = shares > 0 ? 1 : 0;
    const std::int32_t version = table && shares >= 0 ? (*table)->version(&why) : 0;
    own.version = version > 0 ? version : 0;
    if (own.version == 0)
        log(LogLevel::Info,
            "other GPUs are reached through the host only: " + (table ? device::errorOf(why) : table.error()).text());
    return own;
}

/// Whether another of @p members has the GPU of @p own: its memory is then for copies.
bool isShared(std::span<const GpuMember> members, const GpuMember &own)
{
    const auto isSame = [&](const GpuMember &member) { return member.identity == own.identity; };
    return own.shares != 0 && std::count_if(members.begin(), members.end(), isSame) > 1;
}

} // namespace

Result<std::unique_ptr<GpuCommunicator>> GpuCommunicator::create(
    comm::Communicator &inner, device::PluginDevice *device, const Result<const PlanloomCommunicationTable *> &table,
    std::chrono::nanoseconds deadline)
{
    const GpuMember own = memberOf(device, table);
    std::vector<GpuMember> members(static_cast<std::size_t>(inner.size()));
    Result<Request> request = inner.allGather(inner.world(), &own, members.data(), sizeof own);
    if (!request)
        return request.error();
    if (const Status done = inner.wait(*request, deadline, "the other ranks' devices"); !done)
        return done.error();
    const auto onGpu = [](const GpuMember &member) { return member.onGpu != 0; };
    if (inner.rank() == 0 && std::any_of(members.begin(), members.end(), onGpu)) {
        bool differs = false;
        const std::string paths = describePaths(members, differs);
        log(differs ? LogLevel::Warning : LogLevel::Info, paths);
    }
    std::unique_ptr<GpuCommunicator> made;
    if (own.onGpu == 0)
        return made;
    PlanloomError why{};
    if (own.version > 0 && !isShared(members, own) && (*table)->prepare(device->handle(), &why) < 0)
        return device::errorOf(why);
    const bool communicates = own.version > 0 || own.shares != 0;
    made.reset(new GpuCommunicator(inner, *device, communicates ? *table : nullptr, std::move(members), deadline));
    auto staged = StagedCommunicator::create(inner, *device);
    if (!staged)
        return staged.error();
    made->m_staged = std::move(*staged);
    return made;
}

GpuCommunicator::~GpuCommunicator() { abortTeams(); }

void GpuCommunicator::setMarks(KernelMarks *marks)
{
    m_marks = marks;
    m_staged->setMarks(marks);
}

Result<Group> GpuCommunicator::makeGroup(std::span<const int> ranks)
{
    const Result<Group> group = m_staged->makeGroup(ranks);
    const auto own = std::find(ranks.begin(), ranks.end(), rank());
    const GpuPath path = pathOf(m_members, ranks);
    if (!group || own == ranks.end() || ranks.size() < 2 || m_table == nullptr || path == GpuPath::Host
        || m_groups.contains(group->index))
        return group;
    auto team = GpuTeam::make({*m_table, m_device, m_deadline, path == GpuPath::Copies}, {ranks.begin(), ranks.end()},
                              static_cast<int>(own - ranks.begin()), 0);
    if (!team)
        return team.error();
    if (own == ranks.begin())
        if (const Status id = (*team)->makeId(); !id)
            return id.error();
    const Result<Request> moved = m_inner.broadcast(*group, 0, (*team)->id().data(), PLANLOOM_TEAM_ID_BYTES);
    if (!moved)
        return moved.error();
    m_groups[group->index] = {std::move(*team), *moved, true};
    return group;
}

Status GpuCommunicator::connect(std::span<const int> sendsTo, std::span<const int> receivesFrom)
{
    const auto add = [&](int peer, bool sends) -> Status {
        const std::array<int, 2> pair{sends ? rank() : peer, sends ? peer : rank()};
        const GpuPath path = pathOf(m_members, pair);
        if (m_table == nullptr || channelOf(sends, peer) != nullptr || path == GpuPath::Host)
            return {};
        auto team = GpuTeam::make({*m_table, m_device, m_deadline, path == GpuPath::Copies}, {pair.begin(), pair.end()},
                                  sends ? 0 : 1, kMessageBlocks);
        if (!team)
            return team.error();
        if (sends)
            if (Status id = (*team)->makeId(); !id)
                return id;
        const int tag = m_inner.maxTag();
        char *id = (*team)->id().data();
        const Result<Request> moved = sends ? m_inner.isend(id, PLANLOOM_TEAM_ID_BYTES, peer, tag)
                                            : m_inner.irecv(id, PLANLOOM_TEAM_ID_BYTES, peer, tag);
        if (!moved)
            return moved.error();
        m_channels.push_back(std::make_unique<Channel>());
        Channel &channel = *m_channels.back();
        channel.team = std::move(*team);
        channel.idMoved = *moved;
        channel.idComes = true;
        channel.peer = peer;
        channel.sends = sends;
        return {};
    };
    for (const int peer : sendsTo)
        if (const Status added = add(peer, true); !added)
            return added;
    for (const int peer : receivesFrom)
        if (const Status added = add(peer, false); !added)
            return added;
    return {};
}

void GpuCommunicator::expect(std::span<const Expected> together)
{
    std::vector<Expected> staged;
    for (const Expected &call : together)
        if (call.peer >= 0 ? channelOf(call.sends, call.peer) == nullptr : !m_groups.contains(call.group.index))
            staged.push_back(call);
    m_staged->expect(staged);
}

Status GpuCommunicator::settle(std::chrono::nanoseconds deadline)
{
    if (const Status staged = m_staged->settle(deadline); !staged)
        return staged;
    const auto end = std::chrono::steady_clock::now() + deadline;
    const auto waiting = [this]() -> const GpuTeam * {
        for (const auto &[index, group] : m_groups)
            if (!group.team->joined())
                return group.team.get();
        for (const auto &channel : m_channels)
            if (!channel->team->joined())
                return channel->team.get();
        return nullptr;
    };
    Backoff backoff;
    while (const GpuTeam *team = waiting()) {
        if (const Status status = advance(); !status)
            return status;
        if (std::chrono::steady_clock::now() > end)
            return fail(failed("rank " + std::to_string(rank()) + " waited "
                               + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(deadline).count())
                               + " s for " + team->joining()
                               + "; look at the other ranks' messages, and set NCCL_DEBUG=INFO for NCCL's own"));
        backoff.pause();
    }
    return {};
}

// --- Calls ----------------------------------------------------------------------------------------------------------

GpuCommunicator::Channel *GpuCommunicator::channelOf(bool sends, int peer)
{
    for (const auto &channel : m_channels)
        if (channel->sends == sends && channel->peer == peer)
            return channel.get();
    return nullptr;
}

/// The team for a call on @p memory; nullptr: it takes the way of the host. All members decide alike, as their memory
/// for one call is of the same kind.
GpuTeam *GpuCommunicator::teamOf(Group group, std::initializer_list<const void *> memory)
{
    const auto found = m_groups.find(group.index);
    if (found == m_groups.end())
        return nullptr;
    for (const void *address : memory)
        if (!m_device.owns(address))
            return nullptr;
    return found->second.team.get();
}

Result<TeamWork *> GpuCommunicator::freeWork()
{
    for (TeamWork &work : m_works)
        if (work.state == WorkState::Free)
            return &work;
    auto event = m_device.makeEvent();
    if (!event)
        return event.error();
    m_works.emplace_back().ended = std::move(*event);
    return &m_works.back();
}

Result<Request> GpuCommunicator::viaHost(Result<Request> request) const
{
    if (request && request->pending())
        request->slot *= 2;
    return request;
}

Result<Request> GpuCommunicator::begin(GpuTeam &team, const PlanloomCollective &what)
{
    if (!m_status)
        return m_status.error();
    const Result<TeamWork *> work = freeWork();
    if (!work)
        return work.error();
    TeamWork &begun = **work;
    begun.isMessage = false;
    begun.collective = what;
    begun.message = {};
    if (what.bytesTo != nullptr) {
        begun.bytesTo.assign(what.bytesTo, what.bytesTo + team.ranks().size());
        begun.bytesFrom.assign(what.bytesFrom, what.bytesFrom + team.ranks().size());
        begun.collective.bytesTo = begun.bytesTo.data();
        begun.collective.bytesFrom = begun.bytesFrom.data();
    }
    begun.mark = m_marks != nullptr ? m_marks->current() : 0;
    begun.since = std::chrono::steady_clock::now();
    const auto kind = static_cast<Collective>(what.kind);
    const auto element = static_cast<Element>(what.element);
    const bool adds = kind == Collective::AllReduce || kind == Collective::ReduceScatter;
    m_bytesSent[static_cast<std::size_t>(kind)] += what.bytesTo != nullptr
        ? cost::unequalAllToAllBytesOf(begun.bytesTo, team.position())
        : cost::collectiveBytesOf(kind, adds ? what.count * comm::bytesOf(element) : what.count,
                                  static_cast<int>(team.ranks().size()), team.position(), comm::bytesOf(element),
                                  what.root);
    team.add(begun);
    if (const Status status = advance(); !status)
        return status.error();
    return Request{slotOf(m_works, begun), false};
}

Result<Request> GpuCommunicator::allReduce(Group group, Element element, void *data, std::int64_t count)
{
    GpuTeam *team = teamOf(group, {data});
    if (team == nullptr || !team->reduces(element))
        return viaHost(m_staged->allReduce(group, element, data, count));
    PlanloomCollective what = collectiveOf(Collective::AllReduce, data, data, count);
    what.element = static_cast<std::int32_t>(element);
    return begin(*team, what);
}

Result<Request> GpuCommunicator::reduceScatter(Group group, Element element, const void *all, void *mine,
                                               std::int64_t countEach)
{
    GpuTeam *team = teamOf(group, {all, mine});
    if (team == nullptr || !team->reduces(element))
        return viaHost(m_staged->reduceScatter(group, element, all, mine, countEach));
    PlanloomCollective what = collectiveOf(Collective::ReduceScatter, all, mine, countEach);
    what.element = static_cast<std::int32_t>(element);
    return begin(*team, what);
}

Result<Request> GpuCommunicator::allGather(Group group, const void *mine, void *all, std::int64_t bytesEach)
{
    GpuTeam *team = teamOf(group, {mine, all});
    if (team == nullptr)
        return viaHost(m_staged->allGather(group, mine, all, bytesEach));
    return begin(*team, collectiveOf(Collective::AllGather, mine, all, bytesEach));
}

Result<Request> GpuCommunicator::allToAll(Group group, const void *from, void *to, std::int64_t bytesEach)
{
    GpuTeam *team = teamOf(group, {from, to});
    if (team == nullptr)
        return viaHost(m_staged->allToAll(group, from, to, bytesEach));
    return begin(*team, collectiveOf(Collective::AllToAll, from, to, bytesEach));
}

Result<Request> GpuCommunicator::allToAll(Group group, const void *from, std::span<const std::int64_t> bytesTo,
                                          void *to, std::span<const std::int64_t> bytesFrom)
{
    GpuTeam *team = teamOf(group, {from, to});
    if (team == nullptr)
        return viaHost(m_staged->allToAll(group, from, bytesTo, to, bytesFrom));
    PlanloomCollective what = collectiveOf(Collective::AllToAll, from, to, 0);
    what.bytesTo = bytesTo.data();
    what.bytesFrom = bytesFrom.data();
    return begin(*team, what);
}

Result<Request> GpuCommunicator::broadcast(Group group, int root, void *data, std::int64_t bytes)
{
    GpuTeam *team = teamOf(group, {data});
    if (team == nullptr)
        return viaHost(m_staged->broadcast(group, root, data, bytes));
    PlanloomCollective what = collectiveOf(Collective::Broadcast, data, data, bytes);
    what.root = root;
    return begin(*team, what);
}

Result<Request> GpuCommunicator::isend(const void *data, std::int64_t bytes, int peer, int tag)
{
    Channel *channel = m_device.owns(data) ? channelOf(true, peer) : nullptr;
    if (channel == nullptr)
        return viaHost(m_staged->isend(data, bytes, peer, tag));
    return message(*channel, const_cast<void *>(data), bytes, tag);
}

Result<Request> GpuCommunicator::irecv(void *data, std::int64_t bytes, int peer, int tag)
{
    Channel *channel = m_device.owns(data) ? channelOf(false, peer) : nullptr;
    if (channel == nullptr)
        return viaHost(m_staged->irecv(data, bytes, peer, tag));
    return message(*channel, data, bytes, tag);
}

/// It is given to the library with the next test(), together with the others of its task.
Result<Request> GpuCommunicator::message(Channel &channel, void *data, std::int64_t bytes, int tag)
{
    if (!m_status)
        return m_status.error();
    const Result<TeamWork *> work = freeWork();
    if (!work)
        return work.error();
    TeamWork &begun = **work;
    begun.isMessage = true;
    begun.collective = {};
    begun.message = {data, bytes, channel.sends ? 1 : 0, channel.sends ? 1 : 0}; // peer's position, direction
    begun.tag = tag;
    begun.mark = m_marks != nullptr ? m_marks->current() : 0;
    begun.since = std::chrono::steady_clock::now();
    if (!channel.sends) {
        begun.state = WorkState::Waits;
        channel.expected.push_back(&begun);
        return Request{slotOf(m_works, begun), false};
    }
    begun.header = {tag, bytes};
    const Result<Request> sent =
        m_inner.isend(begun.header.data(), sizeof begun.header, channel.peer, m_inner.maxTag() - 1);
    if (!sent)
        return sent.error();
    begun.headerSent = *sent;
    channel.team->add(begun);
    return Request{slotOf(m_works, begun), false};
}

// --- Their way ------------------------------------------------------------------------------------------------------

Result<bool> GpuCommunicator::test(Request &request)
{
    if (!request.pending())
        return true;
    if (request.slot % 2 == 0) {
        Request host{request.slot / 2, request.collective};
        const Result<bool> done = m_staged->test(host);
        if (done && *done)
            request = {};
        return done;
    }
    if (const Status status = advance(); !status)
        return status.error();
    TeamWork &work = m_works[static_cast<std::size_t>(request.slot / 2)];
    if (work.state != WorkState::Done)
        return false;
    if (work.headerSent.pending()) {
        const Result<bool> sent = m_inner.test(work.headerSent);
        if (!sent)
            return sent;
        if (!*sent)
            return false;
        work.headerSent = {};
    }
    work.state = WorkState::Free;
    request = {};
    return true;
}

Status GpuCommunicator::advance()
{
    if (!m_status)
        return m_status;
    const Status status = advanceAll();
    return status ? status : fail(status.error());
}

Status GpuCommunicator::advanceAll()
{
    for (auto &[index, group] : m_groups) {
        if (group.team->isIdle())
            continue;
        if (const Status joined = joinWith(*group.team, group.idMoved, group.idComes); !joined)
            return joined;
        if (const Status status = group.team->advance(m_marks); !status)
            return status;
    }
    for (const auto &channel : m_channels) {
        if (const Status joined = joinWith(*channel->team, channel->idMoved, channel->idComes); !joined)
            return joined;
        if (const Status announced = announce(*channel); !announced)
            return announced;
        if (channel->team->isIdle())
            continue;
        if (const Status status = channel->team->advance(m_marks); !status)
            return status;
    }
    return {};
}

/// Once the team's id has come.
Status GpuCommunicator::joinWith(GpuTeam &team, Request &idMoved, bool &idComes)
{
    if (!idComes)
        return {};
    if (idMoved.pending()) {
        const Result<bool> moved = m_inner.test(idMoved);
        if (!moved)
            return moved.error();
        if (!*moved)
            return {};
    }
    idComes = false;
    return team.join();
}

/// Of a receiver: puts the receives into the order in which the sender sends.
Status GpuCommunicator::announce(Channel &channel)
{
    while (!channel.expected.empty()) {
        if (!channel.announced && !channel.headerComes.pending()) {
            const Result<Request> comes =
                m_inner.irecv(channel.header.data(), sizeof channel.header, channel.peer, m_inner.maxTag() - 1);
            if (!comes)
                return comes.error();
            channel.headerComes = *comes;
        }
        if (!channel.announced) {
            const Result<bool> came = m_inner.test(channel.headerComes);
            if (!came)
                return came.error();
            if (!*came)
                return late(channel);
            channel.headerComes = {};
            channel.announced = true;
        }
        const auto [tag, bytes] = channel.header;
        const auto found = std::find_if(channel.expected.begin(), channel.expected.end(),
                                        [tag = tag](const TeamWork *work) { return work->tag == tag; });
        if (found == channel.expected.end())
            return late(channel);
        if ((*found)->message.bytes != bytes)
            return failed("rank " + std::to_string(channel.peer) + " sent " + std::to_string(bytes) + " bytes and rank "
                          + std::to_string(rank()) + " expected " + std::to_string((*found)->message.bytes));
        channel.announced = false;
        channel.team->add(**found);
        channel.expected.erase(found);
    }
    return {};
}

/// Error: a message that is expected has not been announced within the deadline.
Status GpuCommunicator::late(const Channel &channel) const
{
    const TeamWork &first = *channel.expected.front();
    if (std::chrono::steady_clock::now() - first.since <= m_deadline)
        return {};
    return failed("rank " + std::to_string(rank()) + ": " + channel.team->describe(first) + " was not sent within "
                  + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(m_deadline).count())
                  + " s; look at the other ranks' messages");
}

// --- Ends -----------------------------------------------------------------------------------------------------------

/// The device's own failure, which the library that communicates only knows as an error of CUDA; empty: it has none.
std::string GpuCommunicator::failureOfDevice() const
{
    const auto event = m_device.makeEvent();
    if (!event)
        return event.error().message;
    const Result<bool> ended = (*event)->poll();
    return ended ? std::string() : ended.error().message;
}

/// An error of one team is the end of all: kernels that wait on the device for a member that is gone would stay there.
Status GpuCommunicator::fail(const Error &error)
{
    const std::string device = failureOfDevice();
    m_status = device.empty() ? error : failed(error.message + "; its GPU: " + device);
    abortTeams();
    return m_status;
}

std::string GpuCommunicator::underWay() const
{
    std::string text;
    const auto add = [&text](const GpuTeam &team) {
        if (const std::string own = team.underWay(); !own.empty())
            text += (text.empty() ? "" : ", ") + own;
    };
    for (const auto &[index, group] : m_groups)
        add(*group.team);
    for (const auto &channel : m_channels) {
        add(*channel->team);
        for (const TeamWork *work : channel->expected)
            text += (text.empty() ? "" : ", ") + channel->team->describe(*work);
    }
    return text;
}

void GpuCommunicator::abort(std::string_view reason)
{
    abortTeams();
    m_inner.abort(reason);
}

void GpuCommunicator::abortTeams()
{
    if (m_status)
        m_status = failed("communication between the GPUs has ended");
    GpuTeam::abort(teams());
}

std::vector<GpuTeam *> GpuCommunicator::teams() const
{
    std::vector<GpuTeam *> all;
    for (const auto &[index, group] : m_groups)
        all.push_back(group.team.get());
    for (const auto &channel : m_channels)
        all.push_back(channel->team.get());
    return all;
}

void GpuCommunicator::leave(std::chrono::nanoseconds deadline)
{
    if (!m_status)
        return;
    std::vector<GpuTeam *> leaving = teams();
    bool fine = std::all_of(leaving.begin(), leaving.end(), [](GpuTeam *team) { return team->leave().ok(); });
    const auto end = std::chrono::steady_clock::now() + deadline;
    Backoff backoff;
    while (fine && !leaving.empty()) {
        const Result<bool> left = leaving.back()->left();
        if (left && *left)
            leaving.pop_back();
        else if (!left || std::chrono::steady_clock::now() > end)
            fine = false;
        else
            backoff.pause();
    }
    m_status = failed("communication between the GPUs has ended");
    if (!fine)
        abortTeams();
    m_groups.clear();
    m_channels.clear();
}

} // namespace planloom::runtime
