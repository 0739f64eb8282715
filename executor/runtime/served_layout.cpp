// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/served_layout.h"

#include "engine/cost/collectives.h"
#include "executor/comm/add.h"

#include <algorithm>
#include <cstring>

namespace planloom::runtime {

ServedLayout::ServedLayout(const program::Program &program, std::size_t servers)
    : m_pieces(servers, std::vector<Piece>(program.buckets.size())),
      m_elements(servers, 0)
{
    std::int64_t all = 0;
    for (const program::Bucket &bucket : program.buckets)
        all += bucket.isServed() ? bucket.elements : 0;
    constexpr std::int64_t kLine = 16; // floats of a cache line
    const auto cut = [&](std::size_t server) {
        if (server == servers)
            return all;
        const std::int64_t exact = all * static_cast<std::int64_t>(server) / static_cast<std::int64_t>(servers);
        return exact - exact % kLine;
    };
    for (std::size_t server = 0; server < servers; ++server) {
        std::int64_t first = 0; // of the bucket, among all
        for (std::size_t b = 0; b < program.buckets.size(); ++b) {
            if (!program.buckets[b].isServed())
                continue;
            const std::int64_t last = first + program.buckets[b].elements;
            const std::int64_t begin = std::clamp(cut(server), first, last);
            const std::int64_t end = std::clamp(cut(server + 1), first, last);
            m_pieces[server][b] = {begin - first, end - first, m_elements[server]};
            m_elements[server] += end - begin;
            first = last;
        }
    }
}

std::int64_t ServedLayout::pieces(std::size_t server) const
{
    return std::ranges::count_if(m_pieces[server], [](const Piece &piece) { return piece.size() > 0; });
}

void addAsAllReduce(std::int64_t elements, std::int64_t begin, std::int64_t count,
                    const std::vector<const float *> &gradients, float *sum)
{
    const int workers = static_cast<int>(gradients.size());
    // Round a ring the member behind a segment's owner begins; else the owner does.
    const int ahead = cost::goesRound(cost::Collective::AllReduce, 4 * elements, workers) ? 1 : 0;
    for (int owner = 0; owner < workers; ++owner) {
        const cost::Segment segment = cost::segmentOf(elements, workers, owner);
        const std::int64_t first = std::clamp(segment.begin - begin, std::int64_t{0}, count);
        const std::int64_t last = std::clamp(segment.begin + segment.size() - begin, std::int64_t{0}, count);
        const auto bytes = static_cast<std::size_t>(4 * (last - first));
        if (bytes == 0)
            continue;
        const auto of = [&](int i) {
            return gradients[static_cast<std::size_t>((owner + ahead + i) % workers)] + first;
        };
        float *to = sum + first;
        std::memcpy(to, of(0), bytes);
        for (int i = 1; i < workers; ++i)
            comm::add(comm::Element::Float32, reinterpret_cast<const std::byte *>(to),
                      reinterpret_cast<const std::byte *>(of(i)), reinterpret_cast<std::byte *>(to), bytes);
    }
}

} // namespace planloom::runtime
