// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_communication.h"

#include "executor/runtime/parameter_server.h"

namespace planloom::runtime {
namespace {

/// The exchange of @p task with parameter servers; nullptr: it is another one.
const program::Exchange *servedExchange(const program::Task &task)
{
    const auto *exchange = task.as<program::Exchange>();
    return exchange != nullptr && exchange->policy == plan::ExchangePolicy::ParameterServer ? exchange : nullptr;
}

/// True if all members of a group do it together.
bool isCollective(const program::Task &task) { return task.team().valid() || task.as<program::Agreement>() != nullptr; }

} // namespace

Status RankCommunication::prepare()
{
    if (const Status status = m_transfers.prepare(m_parts); !status)
        return status;
    if (const Status status = m_swaps.prepare(m_parts); !status)
        return status;
    m_agreements.prepare(m_parts, m_averaging, m_options);
    // Making groups blocks until all ranks do it: see that they are all here first.
    if (const Status status = m_parts.comm.barrier(m_options.deadline); !status)
        return status;
    if (const Status status = m_collectives.prepare(m_parts); !status)
        return status;
    if (const Status status = m_averaging.prepare(m_parts); !status)
        return status;
    return m_parts.comm.settle(m_options.deadline);
}

Status RankCommunication::start(const program::Task &task, std::size_t index, std::int64_t step, comm::Request &request)
{
    if (const auto *swap = task.as<program::Swap>()) {
        m_swaps.start(task, *swap);
        return {};
    }
    if (const auto *exchange = servedExchange(task))
        return m_options.served->push(exchange->bucket, step);
    if (!isCollective(task))
        return m_transfers.start(index);
    const auto *agreement = task.as<program::Agreement>();
    const auto *rows = task.as<program::RowExchange>();
    const Result<comm::Request> begun = rows != nullptr ? m_rows.start(*rows, m_collectives)
        : agreement != nullptr                          ? m_agreements.start(agreement->subject, step)
                                                        : m_collectives.start(task);
    if (!begun)
        return begun.error();
    request = *begun;
    return {};
}

Result<bool> RankCommunication::test(const program::Task &task, std::size_t index, comm::Request &request)
{
    if (const auto *exchange = servedExchange(task))
        return m_options.served->pulled(exchange->bucket);
    if (isCollective(task))
        return m_collectives.test(task, request);
    const auto *swap = task.as<program::Swap>();
    return swap != nullptr ? m_swaps.test(swap->out) : m_transfers.test(index);
}

program::Lane RankCommunication::ended(const program::Task &task, std::int64_t step)
{
    const bool collective = isCollective(task);
    if (const auto *agreement = task.as<program::Agreement>())
        m_agreements.ended(agreement->subject);
    else if (const auto *rows = task.as<program::RowExchange>())
        m_rows.ended(*rows);
    else if (collective)
        m_collectives.ended(task);
    if (const auto *summed = task.as<program::Exchange>())
        for (StageReplica &stage : m_parts.stages)
            stage.updater.summed(summed->bucket, step);
    return collective || servedExchange(task) != nullptr ? program::Lane::Compute : task.lane;
}

} // namespace planloom::runtime
