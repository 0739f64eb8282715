// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/gpu_team.h"

#include "engine/base/units.h"

#include <algorithm>

namespace planloom::runtime {

using WorkState = TeamWork::State;

namespace {

std::string listOf(const std::vector<int> &ranks)
{
    std::string text;
    for (const int rank : ranks)
        text += (text.empty() ? "" : ", ") + std::to_string(rank);
    return text;
}

std::int64_t bytesOf(const PlanloomCollective &what)
{
    const auto kind = static_cast<cost::Collective>(what.kind);
    const bool adds = kind == cost::Collective::AllReduce || kind == cost::Collective::ReduceScatter;
    return adds ? what.count * comm::bytesOf(static_cast<comm::Element>(what.element)) : what.count;
}

} // namespace

Result<std::unique_ptr<GpuTeam>> GpuTeam::make(const Place &place, std::vector<int> ranks, int position, int blocks)
{
    std::unique_ptr<GpuTeam> made(new GpuTeam(place, std::move(ranks), position, blocks));
    auto queue = place.device.makeQueue();
    if (!queue)
        return queue.error();
    made->m_queue = std::move(*queue);
    return made;
}

Status GpuTeam::makeId()
{
    PlanloomError why{};
    if (m_place.table.makeId(m_place.shares ? 1 : 0, m_id.data(), &why) < 0)
        return failure(nullptr, device::errorOf(why));
    return {};
}

Status GpuTeam::join()
{
    auto team = device::Team::join(m_place.table, m_place.device,
                                   {m_id.data(), static_cast<std::int32_t>(m_ranks.size()), m_position, m_blocks,
                                    m_place.shares ? 1 : 0});
    if (!team)
        return failure(nullptr, team.error());
    m_team = std::move(*team);
    return {};
}

void GpuTeam::add(TeamWork &work)
{
    work.state = WorkState::Waits;
    m_waits.push_back(&work);
}

Status GpuTeam::advance(KernelMarks *marks)
{
    if (m_team == nullptr)
        return {}; // the id is on its way
    if (!m_joined) {
        const Result<bool> joined = m_team->poll();
        if (!joined)
            return failure(nullptr, joined.error());
        m_joined = *joined;
    }
    if (m_joined)
        if (const Status status = given(marks); !status)
            return status;
    if (m_joined && m_given.empty() && !m_waits.empty()) {
        if (const Status status = give(marks); !status)
            return status;
        if (const Status status = given(marks); !status)
            return status;
    }
    return look();
}

/// The next collective, or all messages up to it as one group.
Status GpuTeam::give(KernelMarks *marks)
{
    TeamWork &first = *m_waits.front();
    const MarkScope marked(marks, first.mark);
    m_messages.clear();
    while (!m_waits.empty() && (m_given.empty() || (first.isMessage && m_waits.front()->isMessage))) {
        TeamWork &work = *m_waits.front();
        m_waits.pop_front();
        m_given.push_back(&work);
        work.state = WorkState::Given;
        for (const void *address : {static_cast<const void *>(work.message.data), work.collective.from,
                                    static_cast<const void *>(work.collective.to)})
            if (const Status used = use(address); !used)
                return failure(&work, used.error());
        if (work.isMessage)
            m_messages.push_back(work.message);
    }
    const Status asked =
        first.isMessage ? m_team->messages(*m_queue, m_messages) : m_team->collective(*m_queue, first.collective);
    return asked ? asked : failure(&first, asked.error());
}

/// Registers the block of device memory that @p address lies in, once.
Status GpuTeam::use(const void *address)
{
    const auto block = m_place.device.blockOf(address);
    if (block.empty() || std::find(m_used.begin(), m_used.end(), block.data()) != m_used.end())
        return {};
    const Result<bool> used = m_team->use(block.data(), static_cast<std::int64_t>(block.size()));
    if (!used)
        return used.error();
    m_used.push_back(block.data()); // where the library does not register it, it is not asked again
    return {};
}

/// Calls that lie in the queue by now: their ends can be recorded.
Status GpuTeam::given(KernelMarks *marks)
{
    if (m_given.empty())
        return {};
    const MarkScope marked(marks, m_given.front()->mark); // commands may be given meanwhile
    const Result<bool> all = m_team->poll();
    if (!all)
        return failure(m_given.front(), all.error());
    if (!*all)
        return {};
    for (TeamWork *work : m_given) {
        m_queue->record(*work->ended);
        work->state = WorkState::Runs;
        m_runs.push_back(work);
    }
    m_given.clear();
    return {};
}

/// For ends, errors and calls that take too long.
Status GpuTeam::look()
{
    if (!m_runs.empty())
        if (const Result<bool> fine = m_team->poll(); !fine)
            return failure(m_runs.front(), fine.error());
    for (std::size_t i = 0; i < m_runs.size();) {
        const Result<bool> ended = m_runs[i]->ended->poll();
        if (!ended)
            return failure(m_runs[i], ended.error());
        if (!*ended) {
            ++i;
            continue;
        }
        m_runs[i]->state = WorkState::Done;
        m_runs.erase(m_runs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const TeamWork *oldest = !m_runs.empty() ? m_runs.front()
        : !m_given.empty()                   ? m_given.front()
        : !m_waits.empty()                   ? m_waits.front()
                                             : nullptr;
    if (oldest != nullptr && std::chrono::steady_clock::now() - oldest->since > m_place.deadline)
        return failure(oldest,
                       failed(
                           "did not end in "
                           + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(m_place.deadline).count())
                           + " s"));
    return {};
}

// --- Words ----------------------------------------------------------------------------------------------------------

std::string GpuTeam::describe(const TeamWork &work) const
{
    if (work.isMessage)
        return "a message of " + format(Bytes(work.message.bytes))
            + (work.message.sends != 0 ? " to rank " : " from rank ")
            + std::to_string(m_ranks[static_cast<std::size_t>(work.message.peer)]);
    return std::string(cost::name(static_cast<cost::Collective>(work.collective.kind))) + " of "
        + format(Bytes(bytesOf(work.collective))) + " over ranks " + listOf(m_ranks);
}

std::string GpuTeam::joining() const
{
    return "ranks " + listOf(m_ranks) + " to join in "
        + (m_place.shares ? std::string("sharing their GPU") : "the GPUs' library (NCCL)");
}

std::string GpuTeam::underWay() const
{
    std::string text = m_joined ? "" : "joining ranks " + listOf(m_ranks);
    for (const auto *works : {&m_runs, &m_given})
        for (const TeamWork *work : *works)
            text += (text.empty() ? "" : ", ") + describe(*work);
    for (const TeamWork *work : m_waits)
        text += (text.empty() ? "" : ", ") + describe(*work);
    return text;
}

Error GpuTeam::failure(const TeamWork *work, const Error &why) const
{
    return failed("rank " + std::to_string(m_ranks[static_cast<std::size_t>(m_position)]) + ": "
                  + (work != nullptr ? describe(*work) : "joining ranks " + listOf(m_ranks)) + ": " + why.message
                  + "; look at the other ranks' messages, at the GPUs"
                  + (m_place.shares ? "" : " and at the network between the machines"));
}

// --- Ends -----------------------------------------------------------------------------------------------------------

Status GpuTeam::leave()
{
    const Status left = m_team->leave();
    return left ? left : failure(nullptr, left.error());
}

Result<bool> GpuTeam::left() { return m_team->poll(); }

void GpuTeam::abort(std::span<GpuTeam *const> teams)
{
    std::vector<device::Team *> joined;
    for (const GpuTeam *team : teams)
        if (team->m_team)
            joined.push_back(team->m_team.get());
    device::Team::abort(joined);
}

} // namespace planloom::runtime
