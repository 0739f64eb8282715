// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pooled_pieces.h"

#include <utility>

namespace planloom::compile {
namespace {

class PieceCutter {
public:
    PieceCutter(const StageMemory &memory, double scale, bool opens) : m_memory(memory), m_scale(scale), m_opens(opens)
    {
    }

    void add(std::int32_t e)
    {
        const memory::Event &event = m_memory.course.events[static_cast<std::size_t>(e)];
        if (event.kind == memory::Event::Kind::Out || event.kind == memory::Event::Kind::In) {
            PooledPiece copy;
            copy.copies = true;
            copy.events = {e};
            m_pieces.push_back(std::move(copy));
            return;
        }
        const bool again = event.kind == memory::Event::Kind::Again;
        if (!m_open.events.empty() && (again != m_open.again || m_memory.cutBefore[static_cast<std::size_t>(e)]))
            close(false);
        m_open.again = again;
        m_open.seconds +=
            Seconds(m_memory.seconds[static_cast<std::size_t>(event.subject)] * (again ? 1 : m_scale) + event.delay);
        m_open.events.push_back(e);
        if (m_memory.cutAfter[static_cast<std::size_t>(e)])
            close(false);
    }

    std::vector<PooledPiece> take(bool closes)
    {
        if (!m_open.events.empty() || closes || !m_hasRun)
            close(closes);
        return std::move(m_pieces);
    }

private:
    void close(bool closes)
    {
        const bool own = !m_open.again;
        m_open.opens = own && std::exchange(m_opens, m_opens && !own);
        m_open.closes = own && closes;
        m_hasRun = m_hasRun || own;
        m_pieces.push_back(std::exchange(m_open, PooledPiece()));
    }

    const StageMemory &m_memory;
    double m_scale; ///< of operators' seconds
    bool m_opens;   ///< the next run of the pass itself opens it
    bool m_hasRun = false;
    PooledPiece m_open;
    std::vector<PooledPiece> m_pieces;
};

} // namespace

std::vector<PooledPiece> piecesOf(const StageMemory &memory, Pass pass, std::int64_t m, const PassPart &part, Ends ends,
                                  Seconds whole)
{
    const std::int32_t first = memory.offsetOf(pass, static_cast<std::int32_t>(m));
    double sum = 0;
    for (std::int32_t op = part.first; op < part.last; ++op)
        sum += memory.seconds[static_cast<std::size_t>(first + op)];
    PieceCutter cutter(memory, memory.measured ? 1 : sum > 0 ? whole.value() / sum : 0, ends.opens);
    for (std::int32_t op = part.first; op < part.last; ++op)
        for (std::int32_t e = memory.firstEvent[static_cast<std::size_t>(first + op)];
             e < memory.firstEvent[static_cast<std::size_t>(first + op + 1)]; ++e)
            cutter.add(e);
    return cutter.take(ends.closes);
}

} // namespace planloom::compile
