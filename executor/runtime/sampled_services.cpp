// SPDX-License-Identifier: Apache-2.0
// Graph stores and samplers.
#include "executor/runtime/sampled_messages.h"
#include "executor/runtime/sampled_processes.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace planloom::runtime {
namespace {

/// A request: the iteration, SampledRange::kHeldOut or kStoreEnd, and the number of rows.
using Numbers = std::array<std::int64_t, 2>;

class GraphStoreProcess {
public:
    GraphStoreProcess(const SampledContext &context, const SampledSource &source)
        : m_context(context),
          m_source(source),
          m_width(source.graph().width)
    {
        for (const int rank : SampledRanks(context.plan).samplers())
            m_peers.push_back({.rank = rank, .name = SampledRanks(context.plan).nameOf(rank)});
    }

    /// Polls all samplers in turn: none waits for another one's messages.
    Status run(SentBytes &sent)
    {
        for (Peer &peer : m_peers) {
            if (Status waits = listen(peer); !waits)
                return waits;
        }
        auto idleSince = std::chrono::steady_clock::now();
        for (std::size_t open = m_peers.size(); open > 0;) {
            bool moved = false;
            for (Peer &peer : m_peers) {
                const Result<bool> went = advance(peer, sent);
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
            sched_yield();
        }
        return {};
    }

private:
    enum class State : std::uint8_t { Listens, Reads, Answers, Ended };
    struct Peer {
        int rank = 0;
        std::string name = {};
        State state = State::Listens;
        Numbers asked = {};
        std::vector<std::int64_t> nodes = {};
        std::vector<std::byte> rows = {};
        comm::Request request = {};
    };

    static Status keep(Peer &peer, Result<comm::Request> request)
    {
        if (!request)
            return request.error();
        peer.request = *request;
        return {};
    }

    Status listen(Peer &peer)
    {
        peer.state = State::Listens;
        return keep(peer, m_context.comm.irecv(peer.asked.data(), sizeof peer.asked, peer.rank, kRequestTag));
    }

    /// True if the peer's message has ended, and the next one is under way.
    Result<bool> advance(Peer &peer, SentBytes &sent)
    {
        if (peer.state == State::Ended)
            return false;
        const Result<bool> done = m_context.comm.test(peer.request);
        if (!done || !*done)
            return done;
        Status next;
        switch (peer.state) {
        case State::Listens: next = read(peer); break;
        case State::Reads: next = answer(peer, sent); break;
        case State::Answers: next = listen(peer); break;
        case State::Ended: break;
        }
        return next ? Result<bool>(true) : next.error();
    }

    Status read(Peer &peer)
    {
        if (peer.asked[0] == kStoreEnd) {
            peer.state = State::Ended;
            return {};
        }
        peer.state = State::Reads;
        peer.nodes.resize(static_cast<std::size_t>(peer.asked[1]));
        return keep(peer, m_context.comm.irecv(peer.nodes.data(), 8 * peer.asked[1], peer.rank, kNumbersTag));
    }

    Status answer(Peer &peer, SentBytes &sent)
    {
        peer.state = State::Answers;
        const std::int64_t each = rowBytes(1, m_width);
        peer.rows.resize(peer.nodes.size() * static_cast<std::size_t>(each));
        std::byte *to = peer.rows.data();
        for (const std::int64_t node : peer.nodes) {
            std::memcpy(to, &node, sizeof node);
            std::memcpy(to + sizeof node, m_source.features(node), static_cast<std::size_t>(4 * m_width));
            to += each;
        }
        const auto bytes = static_cast<std::int64_t>(peer.rows.size());
        sent.add(peer.asked[0], peer.name, bytes);
        return keep(peer, m_context.comm.isend(peer.rows.data(), bytes, peer.rank, kRowsTag));
    }

    const SampledContext &m_context;
    const SampledSource &m_source;
    std::int64_t m_width;
    std::vector<Peer> m_peers;
};

class SamplerProcess {
public:
    SamplerProcess(const SampledContext &context, const SampledSource &source)
        : m_context(context),
          m_source(source),
          m_width(source.graph().width),
          m_outgoing(static_cast<std::size_t>(context.plan.job->prefetch) + 2)
    {
        const SampledRanks ranks(context.plan);
        m_trainer = ranks.roleOf(context.comm.rank())->trainer;
        m_trainerName = ranks.nameOf(m_trainer);
        for (const int rank : ranks.stores())
            m_stores.push_back({.rank = rank, .name = ranks.nameOf(rank)});
    }

    Status run(SentBytes &sent)
    {
        while (true) {
            std::array<std::int64_t, 4> command{};
            auto request = m_context.comm.irecv(command.data(), kCommandBytes, m_trainer, kCommandTag);
            if (!request)
                return request.error();
            const auto patience = kIdleDeadlines * m_context.deadline();
            if (Status came = m_context.comm.wait(*request, patience, "trainer " + m_trainerName); !came)
                return came;
            if (command[0] == kEnd)
                return end();
            if (Status made = serve({command[1], command[2], command[3]}, sent); !made)
                return made;
        }
    }

private:
    struct Store {
        int rank = 0;
        std::string name = {};
        std::vector<std::int64_t> nodes = {};
        Numbers asks = {};
        std::vector<std::byte> rows = {};
        std::array<comm::Request, 3> requests = {}; ///< the request, its numbers, the answer
    };
    struct Outgoing {
        std::vector<std::byte> data;
        comm::Request request;
    };

    Status serve(const SampledRange &range, SentBytes &sent)
    {
        const SampledDraw draw = m_source.draw(range);
        for (Store &store : m_stores)
            store.nodes.clear();
        for (const std::int64_t node : draw.rows)
            m_stores[static_cast<std::size_t>(m_source.partOf(node))].nodes.push_back(node);
        for (Store &store : m_stores) {
            if (Status asked = store.nodes.empty() ? Status() : ask(store, range.step, sent); !asked)
                return asked;
        }
        for (Store &store : m_stores) {
            for (comm::Request &request : store.requests) {
                const std::string what = "rows of graph store " + store.name;
                if (Status came = m_context.comm.wait(request, m_context.deadline(), what); !came)
                    return came;
            }
        }
        return deliver(range, draw, sent);
    }

    Status ask(Store &store, std::int64_t step, SentBytes &sent)
    {
        const auto rows = static_cast<std::int64_t>(store.nodes.size());
        store.asks = {step, rows};
        store.rows.resize(static_cast<std::size_t>(rowBytes(rows, m_width)));
        comm::Communicator &comm = m_context.comm;
        const Result<comm::Request> started[] = {
            comm.isend(store.asks.data(), sizeof store.asks, store.rank, kRequestTag),
            comm.isend(store.nodes.data(), 8 * rows, store.rank, kNumbersTag),
            comm.irecv(store.rows.data(), static_cast<std::int64_t>(store.rows.size()), store.rank, kRowsTag)};
        for (std::size_t i = 0; i < std::size(started); ++i) {
            if (!started[i])
                return started[i].error();
            store.requests[i] = *started[i];
        }
        sent.add(step, store.name, requestBytes(rows));
        return {};
    }

    /// The features of @p node, which its store has sent.
    [[nodiscard]] const std::byte *rowOf(std::int64_t node) const
    {
        const Store &store = m_stores[static_cast<std::size_t>(m_source.partOf(node))];
        const auto at = std::lower_bound(store.nodes.begin(), store.nodes.end(), node) - store.nodes.begin();
        return store.rows.data() + rowBytes(at, m_width) + 8;
    }

    Status deliver(const SampledRange &range, const SampledDraw &draw, SentBytes &sent)
    {
        Outgoing &out = m_outgoing[m_next];
        m_next = (m_next + 1) % m_outgoing.size();
        const auto patience = kIdleDeadlines * m_context.deadline();
        if (Status left = m_context.comm.wait(out.request, patience, "trainer " + m_trainerName); !left)
            return left;
        out.data.resize(static_cast<std::size_t>(batchBytes(range.count, m_context.plan.job->fanout, m_width)));
        std::byte *to = out.data.data();
        for (std::int64_t i = 0; i < range.count; ++i, to += 8) {
            const auto seed = static_cast<std::size_t>(draw.places[static_cast<std::size_t>(i)]);
            const std::int64_t label = m_source.graph().labels[seed];
            std::memcpy(to, &label, sizeof label);
        }
        for (const std::int64_t node : draw.places) {
            std::memcpy(to, rowOf(node), static_cast<std::size_t>(4 * m_width));
            to += 4 * m_width;
        }
        const int tag = range.step == SampledRange::kHeldOut ? kHeldOutTag : kBatchTag;
        const auto bytes = static_cast<std::int64_t>(out.data.size());
        auto request = m_context.comm.isend(out.data.data(), bytes, m_trainer, tag);
        if (!request)
            return request.error();
        out.request = *request;
        sent.add(range.step, m_trainerName, bytes);
        return {};
    }

    Status end()
    {
        const Numbers last{kStoreEnd, 0};
        for (Store &store : m_stores) {
            auto request = m_context.comm.isend(last.data(), sizeof last, store.rank, kRequestTag);
            if (!request)
                return request.error();
            if (Status left = m_context.comm.wait(*request, m_context.deadline(), "graph store " + store.name); !left)
                return left;
        }
        for (Outgoing &out : m_outgoing) {
            if (Status left = m_context.comm.wait(out.request, m_context.deadline(), "trainer " + m_trainerName); !left)
                return left;
        }
        return {};
    }

    const SampledContext &m_context;
    const SampledSource &m_source;
    std::int64_t m_width;
    int m_trainer = 0;
    std::string m_trainerName;
    std::vector<Store> m_stores;      ///< by part
    std::vector<Outgoing> m_outgoing; ///< taken in turn
    std::size_t m_next = 0;
};

} // namespace

Status runSampledProcess(const SampledContext &context)
{
    auto source = SampledSource::open(context.plan, context.request);
    if (!source)
        return source.error();
    const plan::PlacedRole &role = *SampledRanks(context.plan).roleOf(context.comm.rank());
    source->keepFeatures(role.part);
    SentBytes sent;
    if (Status opened = sent.open(context.runFolder, role.name, context.request.from.step > 0); !opened)
        return opened;
    const Status ran = role.kind == gnn::RoleKind::GraphStore ? GraphStoreProcess(context, *source).run(sent)
                                                              : SamplerProcess(context, *source).run(sent);
    return ran ? sent.close() : ran;
}

} // namespace planloom::runtime
