// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/host_pieces.h"

#include <utility>

namespace planloom::runtime {

Result<HostPieces> HostPieces::create(const ComputeContext &context, OfFiles ofFiles)
{
    HostPieces made(context, ofFiles);
    auto event = context.device.makeEvent();
    if (!event)
        return event.error();
    made.m_event = std::move(*event);
    return made;
}

Status HostPieces::add(checkpoint::Piece piece, const program::PersistentTensor &held, std::int64_t offset)
{
    m_staging.emplace_back();
    m_addresses.push_back(nullptr);
    if (const std::int64_t host = m_context.hostPlaceOf(held, offset); host >= 0) {
        if (m_context.host->isFile() && m_ofFiles == OfFiles::Read) {
            piece.read = [tier = m_context.host, host](std::byte *to, std::int64_t begin, std::int64_t bytes) {
                return tier->copyAnywhere(false, to, host + begin, bytes);
            };
        } else if (m_context.host->isFile()) {
            m_hosted.push_back(
                {m_pieces.size(), host, std::vector<std::byte>(static_cast<std::size_t>(piece.bytes()))});
            piece.data = m_hosted.back().data.data();
        } else {
            piece.data = m_context.host->memory(host);
        }
        m_pieces.push_back(std::move(piece));
        return {};
    }
    auto staging = Staging::create(m_context.device, piece.bytes());
    if (!staging)
        return staging.error();
    m_addresses.back() = m_context.arena.use(offset, 0);
    piece.data = staging->host(m_addresses.back());
    m_staging.back() = std::move(*staging);
    m_pieces.push_back(std::move(piece));
    return {};
}

Status HostPieces::download()
{
    for (std::size_t i = 0; i < m_pieces.size(); ++i)
        if (m_addresses[i] != nullptr)
            m_staging[i].download(m_context.queue, m_addresses[i], m_pieces[i].bytes());
    if (const Status read = copyHosted(false); !read)
        return read;
    return drain(m_context.queue, *m_event, m_context.deadline);
}

Status HostPieces::upload()
{
    for (std::size_t i = 0; i < m_pieces.size(); ++i)
        if (m_addresses[i] != nullptr)
            m_staging[i].upload(m_context.queue, m_addresses[i], m_pieces[i].bytes());
    if (const Status written = copyHosted(true); !written)
        return written;
    return drain(m_context.queue, *m_event, m_context.deadline);
}

Status HostPieces::copyHosted(bool out)
{
    for (Hosted &hosted : m_hosted)
        if (const Status copied =
                m_context.host->copyAnywhere(out, hosted.data.data(), hosted.host, m_pieces[hosted.piece].bytes());
            !copied)
            return copied;
    return {};
}

} // namespace planloom::runtime
