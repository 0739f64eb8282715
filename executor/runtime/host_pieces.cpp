// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/host_pieces.h"

namespace planloom::runtime {

Result<HostPieces> HostPieces::create(const ComputeContext &context)
{
    HostPieces made(context);
    auto event = context.device.makeEvent();
    if (!event)
        return event.error();
    made.m_event = std::move(*event);
    return made;
}

Status HostPieces::add(checkpoint::Piece piece, std::int64_t offset)
{
    auto staging = Staging::create(m_context.device, piece.bytes());
    if (!staging)
        return staging.error();
    m_addresses.push_back(m_context.arena.use(offset, 0));
    piece.data = staging->host(m_addresses.back());
    m_staging.push_back(std::move(*staging));
    m_pieces.push_back(std::move(piece));
    return {};
}

Status HostPieces::download()
{
    for (std::size_t i = 0; i < m_pieces.size(); ++i)
        m_staging[i].download(m_context.queue, m_addresses[i], m_pieces[i].bytes());
    return drain(m_context.queue, *m_event, m_context.deadline);
}

Status HostPieces::upload()
{
    for (std::size_t i = 0; i < m_pieces.size(); ++i)
        m_staging[i].upload(m_context.queue, m_addresses[i], m_pieces[i].bytes());
    return drain(m_context.queue, *m_event, m_context.deadline);
}

} // namespace planloom::runtime
