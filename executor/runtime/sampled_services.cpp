// SPDX-License-Identifier: Apache-2.0
// Graph stores and samplers.
#include "executor/runtime/sampled_services.h"

#include "executor/runtime/sampled_messages.h"
#include "executor/runtime/sampled_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>

namespace planloom::runtime {

void packRows(const SampledSource &source, std::span<const std::int64_t> nodes, std::vector<std::byte> &rows)
{
    const std::int64_t width = source.graph().width;
    const std::int64_t each = rowBytes(1, width);
    rows.resize(nodes.size() * static_cast<std::size_t>(each));
    std::byte *to = rows.data();
    for (const std::int64_t node : nodes) {
        std::memcpy(to, &node, sizeof node);
        std::memcpy(to + sizeof node, source.features(node), static_cast<std::size_t>(4 * width));
        to += each;
    }
}

void AskedRows::ask(const SampledSource &source, const SampledDraw &draw)
{
    for (Part &part : m_parts)
        part.nodes.clear();
    for (const std::int64_t node : draw.rows)
        m_parts[static_cast<std::size_t>(source.partOf(node))].nodes.push_back(node);
}

/// Stores answer in the order of the numbers that they got.
AskedRows::Answered AskedRows::answered(const SampledSource &source, const SampledDraw &draw) const
{
    const std::int64_t bytes = rowBytes(1, source.graph().width);
    Answered next, rows;
    next.reserve(m_parts.size());
    for (const Part &part : m_parts)
        next.push_back(part.rows.data());
    rows.reserve(draw.rows.size());
    for (const std::int64_t node : draw.rows) {
        const std::byte *&at = next[static_cast<std::size_t>(source.partOf(node))];
        rows.push_back(at);
        at += bytes;
    }
    return rows;
}

void AskedRows::putTrees(const SampledSource &source, const SampledDraw &draw, const Answered &rows, std::byte *to)
{
    const auto bytes = static_cast<std::size_t>(4 * source.graph().width);
    for (const std::int32_t row : draw.rowOfPlace) {
        std::memcpy(to, rows[static_cast<std::size_t>(row)] + sizeof(std::int64_t), bytes);
        to += bytes;
    }
}

void AskedRows::putBlock(const SampledSource &source, const SampledDraw &draw, const Answered &rows,
                         plan::BatchForm form, std::byte *to)
{
    const auto bytes = static_cast<std::size_t>(rowBytes(1, source.graph().width));
    for (const std::byte *row : rows) {
        std::memcpy(to, row, bytes);
        to += bytes;
    }
    for (std::size_t i = 0; form == plan::BatchForm::WholeBlocks && i < draw.rows.size(); ++i) {
        const auto degree = static_cast<std::int32_t>(source.graph().neighbours(draw.rows[i]).size());
        std::memcpy(to, &degree, sizeof degree);
        to += sizeof degree;
    }
    std::memcpy(to, draw.rowOfPlace.data(), draw.rowOfPlace.size() * sizeof(std::int32_t));
}

void AskedRows::putTogether(const SampledSource &source, const SampledDraw &draw, const SampledRange &range,
                            const gnn::Fanout &fanout, plan::BatchForm form, std::vector<std::byte> &batch) const
{
    const std::int64_t width = source.graph().width;
    const bool trees = form == plan::BatchForm::Trees;
    batch.resize(static_cast<std::size_t>(trees ? treeBytes(range.count, fanout, width)
                                                : blockLayout(range.count, draw.counts(), width, form).end));
    std::byte *to = batch.data();
    for (const std::int64_t seed : draw.seeds) {
        const std::int64_t label = source.graph().labels[static_cast<std::size_t>(seed)];
        std::memcpy(to, &label, sizeof label);
        to += sizeof label;
    }
    if (trees)
        putTrees(source, draw, answered(source, draw), to);
    else
        putBlock(source, draw, answered(source, draw), form, to);
}

namespace {

/// A request: the iteration, SampledRange::kHeldOut or kStoreEnd, and the number of rows.
using Numbers = std::array<std::int64_t, 2>;

class GraphStoreProcess {
public:
    GraphStoreProcess(const SampledContext &context, const SampledSource &source)
        : m_context(context),
          m_link(context.link),
          m_source(source)
    {
        const SampledRanks ranks(context.plan);
        const int own = ranks.numberOf(m_link.communicator().rank());
        for (const int rank : ranks.ofKind(gnn::RoleKind::Sampler)) {
            const int sampler = ranks.numberOf(rank);
            m_peers.push_back({.rank = rank,
                               .name = ranks.nameOf(rank),
                               .requestRow = m_link.rowOf(fmt::format("s{}g{}", sampler, own)),
                               .serveRow = m_link.rowOf(fmt::format("g{}.SN.s{}", own, sampler)),
                               .rowsRow = m_link.rowOf(fmt::format("g{}s{}", own, sampler))});
        }
    }

    /// Polls all samplers in turn: none waits for another one's messages.
    Status run()
    {
        for (Peer &peer : m_peers) {
            if (Status waits = listen(peer); !waits)
                return waits;
        }
        auto idleSince = std::chrono::steady_clock::now();
        for (std::size_t open = m_peers.size(); open > 0;) {
            bool moved = false;
            for (Peer &peer : m_peers) {
                const Result<bool> went = advance(peer);
                if (!went)
                    return went.error();
                moved = moved || *went;
                open -= *went && peer.state == State::Ended ? 1 : 0;
            }
            const auto now = std::chrono::steady_clock::now();
            if (moved)
                idleSince = now;
            else if (now - idleSince > kIdleDeadlines * m_context.deadline())
                return failed("no sampler has asked this graph store for anything for too long; look at the other "
                              "ranks' messages");
            if (!moved)
                m_link.rest();
        }
        return {};
    }

private:
    enum class State : std::uint8_t { Listens, Reads, Ended };
    struct Answer {
        std::vector<std::byte> rows;
        Ticket ticket;
    };
    struct Peer {
        int rank = 0;
        std::string name = {};
        std::int32_t requestRow = -1; ///< rows of the trace
        std::int32_t serveRow = -1;
        std::int32_t rowsRow = -1;
        State state = State::Listens;
        Numbers asked = {};
        std::vector<std::int64_t> nodes = {};
        Ticket ticket = {};
        std::deque<Answer> answers = {};               ///< under way
        std::vector<std::vector<std::byte>> free = {}; ///< memory of those that were
    };

    static Status keep(Ticket &ticket, const Result<Ticket> &made)
    {
        if (!made)
            return made.error();
        ticket = *made;
        return {};
    }

    Status listen(Peer &peer)
    {
        peer.state = State::Listens;
        return keep(peer.ticket, m_link.receive(peer.asked.data(), sizeof peer.asked, peer.rank, kRequestTag, -1, -1));
    }

    /// True if the peer's message has ended, and the next one is under way.
    Result<bool> advance(Peer &peer)
    {
        while (!peer.answers.empty()) {
            const Result<bool> left = m_link.test(peer.answers.front().ticket);
            if (!left)
                return left;
            if (!*left)
                break;
            peer.free.push_back(std::move(peer.answers.front().rows));
            peer.answers.pop_front();
        }
        if (peer.state == State::Ended)
            return false;
        const Result<bool> done = m_link.test(peer.ticket);
        if (!done || !*done)
            return done;
        const Status next = peer.state == State::Listens ? read(peer) : answer(peer);
        return next ? Result<bool>(true) : next.error();
    }

    Status read(Peer &peer)
    {
        if (peer.asked[0] == kStoreEnd) {
            peer.state = State::Ended;
            for (Answer &answer : peer.answers) {
                if (Status left = m_link.wait(answer.ticket, m_context.deadline(), "sampler " + peer.name); !left)
                    return left;
            }
            return {};
        }
        peer.state = State::Reads;
        peer.nodes.resize(static_cast<std::size_t>(peer.asked[1]));
        return keep(peer.ticket,
                    m_link.receive(peer.nodes.data(), 8 * peer.asked[1], peer.rank, kNumbersTag, peer.asked[0],
                                   peer.requestRow));
    }

    Status answer(Peer &peer)
    {
        const std::int64_t started = m_link.now();
        Answer &answer = peer.answers.emplace_back();
        if (!peer.free.empty()) {
            answer.rows = std::move(peer.free.back());
            peer.free.pop_back();
        }
        packRows(m_source, peer.nodes, answer.rows);
        m_link.record(peer.serveRow, peer.asked[0], started);
        const auto bytes = static_cast<std::int64_t>(answer.rows.size());
        m_context.sent.add(peer.asked[0], peer.name, bytes);
        if (Status gone =
                keep(answer.ticket,
                     m_link.send(answer.rows.data(), bytes, peer.rank, kRowsTag, peer.asked[0], peer.rowsRow));
            !gone)
            return gone;
        return listen(peer);
    }

    const SampledContext &m_context;
    RoleLink &m_link;
    const SampledSource &m_source;
    std::vector<Peer> m_peers;
};

/// Ranges in the order in which the trainer asks for them: each is drawn and its rows are asked for as soon as it is
/// known; mini-batches leave in that order.
class SamplerProcess {
public:
    SamplerProcess(const SampledContext &context, const SampledSource &source)
        : m_context(context),
          m_link(context.link),
          m_source(source)
    {
        const SampledRanks ranks(context.plan);
        const int own = ranks.numberOf(m_link.communicator().rank());
        m_trainer = ranks.roleOf(m_link.communicator().rank())->trainer;
        m_trainerName = ranks.nameOf(m_trainer);
        m_drawRow = m_link.rowOf(fmt::format("s{}.NS", own));
        m_loadRow = m_link.rowOf(fmt::format("s{}.LD", own));
        m_batchRow = m_link.rowOf(fmt::format("s{}w{}", own, m_trainer));
        for (const int rank : ranks.stores()) {
            const int store = ranks.numberOf(rank);
            m_stores.push_back({rank, ranks.nameOf(rank), m_link.rowOf(fmt::format("s{}g{}", own, store)),
                                m_link.rowOf(fmt::format("g{}s{}", store, own))});
        }
    }

    Status run()
    {
        if (Status listens = listen(); !listens)
            return listens;
        auto idleSince = std::chrono::steady_clock::now();
        while (true) {
            const Result<bool> asked = m_link.test(m_command);
            if (!asked)
                return asked.error();
            if (*asked && m_asked[0] == kEnd)
                return end();
            if (*asked) {
                if (Status drawn = draw({m_asked[1], m_asked[2], m_asked[3]}); !drawn)
                    return drawn;
            }
            const Result<bool> delivered = deliver();
            if (!delivered)
                return delivered.error();
            const auto now = std::chrono::steady_clock::now();
            if (*asked || *delivered)
                idleSince = now;
            else if (Status patient = wait(now - idleSince); !patient)
                return patient;
        }
    }

private:
    struct Store {
        int rank = 0;
        std::string name;
        std::int32_t requestRow = -1; ///< rows of the trace
        std::int32_t rowsRow = -1;
    };
    /// A range on its way to the trainer.
    struct Work {
        explicit Work(std::size_t stores) : rows(stores), requests(stores) {}
        SampledRange range;
        SampledDraw draw;
        AskedRows rows;
        struct Request {
            Numbers asks{};
            std::array<Ticket, 3> tickets{}; ///< the request, its numbers, the answer
        };
        std::vector<Request> requests; ///< by part
        BlockCounts counts;            ///< on their way ahead of a block
        Ticket counting;
        std::vector<std::byte> batch;
        bool together = false; ///< the mini-batch is made and leaves
        Ticket leaving;
    };

    Status listen()
    {
        auto ticket = m_link.receive(m_asked.data(), kCommandBytes, m_trainer, kCommandTag, -1, -1);
        if (!ticket)
            return ticket.error();
        m_command = *ticket;
        return {};
    }

    /// Rows that were asked for have a deadline; a trainer may take ten times as long until it asks.
    Status wait(std::chrono::nanoseconds idle)
    {
        const bool forRows = !m_works.empty() && !m_works.front()->together;
        const auto most = forRows ? m_context.deadline() : kIdleDeadlines * m_context.deadline();
        if (idle > most)
            return failed(
                fmt::format("{} sent nothing for too long; look at the other ranks' messages and at the network "
                            "between the machines",
                            forRows ? "graph store " + lateStore() : "trainer " + m_trainerName));
        m_link.rest();
        return {};
    }

    [[nodiscard]] std::string lateStore() const
    {
        const Work &first = *m_works.front();
        for (std::size_t i = 0; i < m_stores.size(); ++i) {
            if (std::ranges::any_of(first.requests[i].tickets, &Ticket::pending))
                return m_stores[i].name;
        }
        return m_stores.front().name;
    }

    Status draw(const SampledRange &range)
    {
        const std::int64_t started = m_link.now();
        if (m_free.empty())
            m_free.push_back(std::make_unique<Work>(m_stores.size()));
        m_works.push_back(std::move(m_free.back()));
        m_free.pop_back();
        Work &work = *m_works.back();
        work.together = false;
        work.range = range;
        work.draw = m_source.draw(range, m_context.form);
        work.rows.ask(m_source, work.draw);
        m_link.record(m_drawRow, range.step, started);
        if (Status told = tellCount(work); !told)
            return told;
        for (std::size_t part = 0; part < m_stores.size(); ++part) {
            if (Status asked = ask(work, part); !asked)
                return asked;
        }
        return listen();
    }

    /// So that the trainer is ready for the block before it leaves.
    Status tellCount(Work &work)
    {
        if (m_context.form == plan::BatchForm::Trees)
            return {};
        work.counts = work.draw.counts();
        const int tag = work.range.step == SampledRange::kHeldOut ? kHeldOutCountTag : kCountTag;
        auto ticket = m_link.sendAhead(&work.counts, kCountBytes, m_trainer, tag);
        if (!ticket)
            return ticket.error();
        work.counting = *ticket;
        return {};
    }

    Status ask(Work &work, std::size_t part)
    {
        const Store &store = m_stores[part];
        const std::span<const std::int64_t> nodes = work.rows.nodes(part);
        if (nodes.empty())
            return {};
        const auto rows = static_cast<std::int64_t>(nodes.size());
        const std::int64_t step = work.range.step;
        Work::Request &request = work.requests[part];
        request.asks = {step, rows};
        std::vector<std::byte> &answer = work.rows.answer(part);
        answer.resize(static_cast<std::size_t>(rowBytes(rows, m_source.graph().width)));
        const Result<Ticket> started[] = {
            m_link.send(request.asks.data(), sizeof request.asks, store.rank, kRequestTag, step, -1),
            m_link.send(nodes.data(), 8 * rows, store.rank, kNumbersTag, step, store.requestRow),
            m_link.receive(answer.data(), static_cast<std::int64_t>(answer.size()), store.rank, kRowsTag, step,
                           store.rowsRow)};
        for (std::size_t i = 0; i < std::size(started); ++i) {
            if (!started[i])
                return started[i].error();
            request.tickets[i] = *started[i];
        }
        m_context.sent.add(step, store.name, requestBytes(rows));
        return {};
    }

    /// True if something went on: the first range's rows are all there, or its mini-batch has left.
    Result<bool> deliver()
    {
        bool moved = false;
        while (!m_leaving.empty()) {
            Work &oldest = *m_leaving.front();
            const Result<bool> told = m_link.test(oldest.counting);
            const Result<bool> left = told ? m_link.test(oldest.leaving) : told;
            if (!left)
                return left;
            if (!*told || !*left)
                break;
            m_free.push_back(std::move(m_leaving.front()));
            m_leaving.pop_front();
            moved = true;
        }
        if (m_works.empty())
            return moved;
        Work &first = *m_works.front();
        for (Work::Request &request : first.requests) {
            for (Ticket &ticket : request.tickets) {
                const Result<bool> came = m_link.test(ticket);
                if (!came)
                    return came;
                if (!*came)
                    return moved;
            }
        }
        if (Status gone = send(first); !gone)
            return gone.error();
        m_leaving.push_back(std::move(m_works.front()));
        m_works.pop_front();
        return true;
    }

    Status send(Work &work)
    {
        const std::int64_t started = m_link.now();
        work.rows.putTogether(m_source, work.draw, work.range, m_context.plan.job->fanout, m_context.form, work.batch);
        work.together = true;
        m_link.record(m_loadRow, work.range.step, started);
        const int tag = work.range.step == SampledRange::kHeldOut ? kHeldOutTag : kBatchTag;
        const auto bytes = static_cast<std::int64_t>(work.batch.size());
        auto ticket = m_link.send(work.batch.data(), bytes, m_trainer, tag, work.range.step, m_batchRow);
        if (!ticket)
            return ticket.error();
        work.leaving = *ticket;
        m_context.sent.add(work.range.step, m_trainerName,
                           bytes + (m_context.form == plan::BatchForm::Trees ? 0 : kCountBytes));
        return {};
    }

    /// The trainer has taken all that it asked for.
    Status end()
    {
        if (!m_works.empty())
            return failed(fmt::format("trainer {} ends before it has its mini-batches", m_trainerName));
        const Numbers last{kStoreEnd, 0};
        for (const Store &store : m_stores) {
            auto ticket = m_link.send(last.data(), sizeof last, store.rank, kRequestTag, SampledRange::kHeldOut, -1);
            if (!ticket)
                return ticket.error();
            if (Status left = m_link.wait(*ticket, m_context.deadline(), "graph store " + store.name); !left)
                return left;
        }
        for (const auto &work : m_leaving) {
            for (Ticket *ticket : {&work->counting, &work->leaving}) {
                if (Status left = m_link.wait(*ticket, m_context.deadline(), "trainer " + m_trainerName); !left)
                    return left;
            }
        }
        return {};
    }

    const SampledContext &m_context;
    RoleLink &m_link;
    const SampledSource &m_source;
    int m_trainer = 0;
    std::string m_trainerName;
    std::int32_t m_drawRow = -1; ///< rows of the trace
    std::int32_t m_loadRow = -1;
    std::int32_t m_batchRow = -1;
    std::vector<Store> m_stores; ///< by part
    std::array<std::int64_t, 4> m_asked{};
    Ticket m_command;
    std::deque<std::unique_ptr<Work>> m_works;   ///< whose rows are on their way
    std::deque<std::unique_ptr<Work>> m_leaving; ///< on their way to the trainer
    std::vector<std::unique_ptr<Work>> m_free;   ///< whose memory further ones take
};

} // namespace

Status runSampledProcess(const SampledContext &context)
{
    auto source = SampledSource::open(context.plan, context.request);
    if (!source)
        return source.error();
    const plan::PlacedRole &role = *SampledRanks(context.plan).roleOf(context.link.communicator().rank());
    source->keepFeatures(role.part);
    return role.kind == gnn::RoleKind::GraphStore ? GraphStoreProcess(context, *source).run()
                                                  : SamplerProcess(context, *source).run();
}

} // namespace planloom::runtime
