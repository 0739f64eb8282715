// SPDX-License-Identifier: Apache-2.0
#include "profiler/transport.h"

#include "engine/base/files.h"
#include "engine/base/statistics.h"
#include "executor/comm/mpi_communicator.h"
#include "executor/runtime/affinity.h"
#include "executor/runtime/rest.h"
#include "profiler/link_times.h"
#include "profiler/measurement.h"
#include "profiler/shared_core_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>
#include <set>

namespace planloom::profiler {
namespace {

using Clock = std::chrono::steady_clock;
using cost::Collective;

constexpr std::chrono::seconds kDeadline{60};
constexpr std::int64_t kFirstBytes = 64;
constexpr std::int64_t kFactor = 4;
constexpr int kFewestRounds = 5;
constexpr int kFewestLongRounds = 3;
constexpr int kMostRounds = 200;
constexpr int kTag = 1;
constexpr double kShortest = 1e-7; ///< seconds of a collective
constexpr int kPiecesBefore = 2;   ///< of work, before a collective of ranks that share cores
/// Collectives of a round, one behind the other, as a run's lane has them: a network that lets more through after a
/// pause (a token bucket, a switch's buffer) does so for the first one only.
constexpr int kInARow = 4;
constexpr double kLongestBeside = 0.1; ///< seconds of an all-reduce beside work
constexpr int kFewPieces = 64;
constexpr int kPiecesOfDelay = 256; ///< of work beside a short collective
constexpr int kRoundsOfDelay = 25;

double secondsFrom(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Processor seconds of this thread.
double computedSeconds()
{
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class Transport {
public:
    Transport(comm::Communicator &communicator, const TransportOptions &options)
        : m_comm(communicator),
          m_options(options)
    {
        m_data.resize(static_cast<std::size_t>(options.mostBytes) / sizeof(float));
        m_more.resize(m_data.size());
    }

    Result<TransportFigures> run()
    {
        std::set<int> meshes;
        for (int members = 2; members < m_comm.size(); members *= 2)
            meshes.insert(members);
        if (m_comm.size() > 1)
            meshes.insert(m_comm.size());
        if (const Status status = m_comm.size() > 1 ? sizePieces() : Status(); !status)
            return status.error();
        for (const int members : meshes) {
            const Result<comm::Group> group = makeGroups(members);
            if (!group)
                return group.error();
            for (std::size_t kind = 0; kind < cost::kCollectives; ++kind) {
                const auto which = static_cast<Collective>(kind);
                const std::string curve = cost::curveName(which, static_cast<std::size_t>(members));
                if (const Status status = collective(which, *group, members, curve); !status)
                    return status.error();
            }
        }
        if (const Status status = m_comm.size() > 1 ? messages(0, 1, cost::kMessageCurve) : Status(); !status)
            return status.error();
        if (const Status status = m_comm.size() > 1 ? besideWork() : Status(); !status)
            return status.error();
        return m_comm.rank() == 0 ? TransportFigures{std::move(m_curves), m_onCores} : TransportFigures{};
    }

    /// Of measureLinks().
    Result<LinkTimes> links(std::span<const int> nodes)
    {
        std::map<int, std::vector<int>> ranks; // of each machine
        for (std::size_t rank = 0; rank < nodes.size(); ++rank)
            ranks[nodes[rank]].push_back(static_cast<int>(rank));
        if (const Status status = m_comm.size() > 1 ? sizePieces() : Status(); !status)
            return status.error();
        LinkTimes times;
        std::vector<int> firsts;
        for (const auto &[node, own] : ranks) {
            firsts.push_back(own.front());
            if (own.size() < 2)
                continue;
            if (const Status status = ring(own, {node}, times); !status)
                return status.error();
            if (const Status status = pair(own[0], own[1], node, node, times); !status)
                return status.error();
        }
        std::vector<int> all;
        for (const auto &[node, own] : ranks)
            all.push_back(node);
        if (const Status status = all.size() > 1 ? ring(firsts, all, times) : Status(); !status)
            return status.error();
        for (std::size_t i = 0; i < all.size(); ++i) {
            for (std::size_t j = i + 1; j < all.size(); ++j) {
                if (const Status status = pair(firsts[i], firsts[j], all[i], all[j], times); !status)
                    return status.error();
            }
        }
        return m_comm.rank() == 0 ? times : LinkTimes{};
    }

private:
    Status ring(const std::vector<int> &ranks, const std::vector<int> &nodes, LinkTimes &times)
    {
        const Result<comm::Group> made = m_comm.makeGroup(ranks);
        if (!made)
            return made.error();
        const bool member = std::ranges::find(ranks, m_comm.rank()) != ranks.end();
        const auto members = static_cast<int>(ranks.size());
        m_curves.clear();
        const Status measured = collective(Collective::AllReduce, member ? *made : comm::Group{}, members, {});
        times.rings.push_back({nodes, members, std::move(m_curves[std::string()])});
        return measured;
    }

    Status pair(int a, int b, int nodeA, int nodeB, LinkTimes &times)
    {
        m_curves.clear();
        const Status measured = messages(a, b, {});
        times.pairs.push_back({nodeA, nodeB, std::move(m_curves[std::string()])});
        return measured;
    }

    /// The own one; without an index: none. Where ranks share cores all of them are in one, as each core's other ranks
    /// are at work, too, in a run; else one group has the machine for itself.
    Result<comm::Group> makeGroups(int members)
    {
        comm::Group own{};
        for (int first = 0; first + members <= (sharesCores() ? m_comm.size() : members); first += members) {
            std::vector<int> ranks(static_cast<std::size_t>(members));
            std::iota(ranks.begin(), ranks.end(), first);
            const Result<comm::Group> group = m_comm.makeGroup(ranks);
            if (!group)
                return group;
            if (m_comm.rank() >= first && m_comm.rank() < first + members)
                own = *group;
        }
        return own;
    }

    [[nodiscard]] bool sharesCores() const { return m_options.cores > 0 && m_comm.size() > m_options.cores; }

    Status collective(Collective kind, comm::Group group, int members, const std::string &curve)
    {
        const bool parts =
            kind != Collective::AllReduce && kind != Collective::Broadcast; // the whole data is a part of each member
        for (std::int64_t bytes = kFirstBytes; bytes * (parts ? members : 1) <= m_options.mostBytes; bytes *= kFactor) {
            const auto once = [&]() -> Status {
                if (group.index < 0)
                    return {};
                Result<comm::Request> request = start(kind, group, bytes);
                return request ? m_comm.wait(*request, kDeadline, cost::name(kind)) : Status(request.error());
            };
            const int inARow = kind == Collective::Broadcast ? 1 : kInARow; // its root does not wait for the others
            const Point point{curve, bytes, sharesCores(), inARow, 1};
            const Result<double> round = measure(point, once);
            if (!round)
                return round.error();
            if (*round > m_options.longRound)
                break;
        }
        return {};
    }

    Result<comm::Request> start(Collective kind, comm::Group group, std::int64_t bytes)
    {
        const std::int64_t floats = bytes / static_cast<std::int64_t>(sizeof(float));
        switch (kind) {
        case Collective::AllReduce: return m_comm.allReduce(group, m_data.data(), floats);
        case Collective::ReduceScatter:
            return m_comm.reduceScatter(group, comm::Element::Float32, m_data.data(), m_more.data(), floats);
        case Collective::AllGather: return m_comm.allGather(group, m_more.data(), m_data.data(), bytes);
        case Collective::AllToAll: return m_comm.allToAll(group, m_data.data(), m_more.data(), bytes);
        default: return m_comm.broadcast(group, 0, m_data.data(), bytes);
        }
    }

    /// There and back between two ranks; half of it is a message.
    Status messages(int first, int second, const std::string &curve)
    {
        for (std::int64_t bytes = kFirstBytes; bytes <= m_options.mostBytes; bytes *= kFactor) {
            const auto once = [&]() -> Status {
                const int own = m_comm.rank();
                if (own != first && own != second)
                    return {};
                const int other = own == first ? second : first;
                for (const int from : {first, second}) {
                    Result<comm::Request> request = own == from ? m_comm.isend(m_data.data(), bytes, other, kTag)
                                                                : m_comm.irecv(m_more.data(), bytes, other, kTag);
                    if (const Status status =
                            request ? m_comm.wait(*request, kDeadline, "a message") : Status(request.error());
                        !status)
                        return status;
                }
                return {};
            };
            const Result<double> round = measure({curve, bytes, false, 1, 2}, once);
            if (!round)
                return round.error();
            if (*round > m_options.longRound)
                break;
        }
        return {};
    }

    const std::vector<cost::CurvePoint> &curveOf(Collective kind)
    {
        return m_curves[cost::curveName(kind, static_cast<std::size_t>(m_comm.size()))];
    }

    /// An all-reduce beside work that covers it, and the work without it; and a short all-gather beside work.
    Status besideWork()
    {
        const std::vector<cost::CurvePoint> &curve = curveOf(Collective::AllReduce);
        double bytes = 0, alone = 0;
        for (const cost::CurvePoint &point : curve)
            if (bytes == 0 || point.seconds.value() <= kLongestBeside)
                bytes = point.bytes, alone = point.seconds.value();
        const Result<WorkTimes> few = work(kFewPieces, 0);
        if (!few)
            return few.error();
        SharedCoreWork shared(*few, kFewPieces, alone);
        while (shared.sharesCore() && shared.wantsMore()) {
            const Result<WorkTimes> without = work(shared.pieces(), 0);
            const Result<WorkTimes> with =
                without ? work(shared.pieces(), static_cast<std::int64_t>(bytes), Collective::AllReduce) : without;
            if (!with)
                return with.error();
            shared.add(*without, *with);
        }
        if (!shared.sharesCore())
            return {};
        m_onCores.secondsPerByte =
            shared.coreSecondsPerByte(cost::collectiveBytesOf(Collective::AllReduce, static_cast<std::int64_t>(bytes),
                                                              m_comm.size(), m_comm.rank()));
        m_onCores.weight = shared.weight();
        return delayBesideWork();
    }

    Status delayBesideWork()
    {
        const cost::CurvePoint &alone = curveOf(Collective::AllGather).front();
        std::vector<double> seconds;
        for (int round = 0; round < kRoundsOfDelay; ++round) {
            const Result<WorkTimes> with =
                work(kPiecesOfDelay, static_cast<std::int64_t>(alone.bytes), Collective::AllGather);
            if (!with)
                return with.error();
            seconds.push_back(with->collective);
        }
        m_onCores.delay = Seconds(std::max(median(std::move(seconds)) - alone.seconds.value(), 0.0));
        return {};
    }

    /// The most of any rank: @p pieces of work, between which a collective of @p bytes goes on; 0: there is none.
    Result<WorkTimes> work(int pieces, std::int64_t bytes, Collective kind = Collective::AllReduce)
    {
        if (const Status status = m_comm.barrier(kDeadline); !status)
            return status.error();
        const auto begin = Clock::now();
        const double before = computedSeconds();
        Result<comm::Request> sum = comm::Request{};
        bool ended = bytes == 0;
        if (!ended)
            sum = start(kind, m_comm.world(), bytes);
        WorkTimes spent;
        for (int piece = 0; piece < pieces && sum; ++piece) {
            computePiece();
            const Result<bool> tested = ended ? true : m_comm.test(*sum);
            if (!tested)
                return tested.error();
            if (*tested && !ended)
                spent.collective = secondsFrom(begin);
            ended = *tested;
        }
        spent.computed = computedSeconds() - before;
        const auto done = Clock::now();
        if (!sum)
            return sum.error();
        if (const Status status = ended ? Status() : m_comm.wait(*sum, kDeadline, "a collective beside work"); !status)
            return status.error();
        spent.seconds = secondsFrom(begin);
        if (!ended)
            spent.collective = spent.seconds;
        spent.waited = ended ? 0 : secondsFrom(done);
        for (double *each : {&spent.seconds, &spent.computed, &spent.waited, &spent.collective})
            if (const Status status = slowest(*each); !status)
                return status.error();
        return spent;
    }

    /// Pieces of work as long as many an operator, the same on every rank.
    Status sizePieces()
    {
        constexpr double kPiece = 1e-4;
        for (double seconds = 0; seconds < kPiece; m_passes *= seconds < kPiece ? 2 : 1) {
            const double before = computedSeconds();
            computePiece();
            seconds = computedSeconds() - before;
        }
        return slowest(m_passes);
    }

    /// Products in the first cache.
    void computePiece()
    {
        constexpr std::size_t kFloats = 1024;
        const std::size_t count = std::min(kFloats, m_more.size());
        for (double pass = 0; pass < m_passes; ++pass)
            for (std::size_t i = 0; i < count; ++i)
                m_more[i] = m_more[i] * 0.999F + 1e-3F;
    }

    struct Point {
        std::string curve;
        std::int64_t bytes;
        bool afterWork; ///< ranks come from work, as in a run: those of a core one after the other
        int inARow;     ///< times of a round
        double share;   ///< of one of these times
    };
    /// Medians over rounds that all ranks begin together; how many is agreed on after the first. Seconds of a round,
    /// the same on all.
    template <class Once>
    Result<double> measure(const Point &point, const Once &once)
    {
        double rounds = kFewestRounds, spent = 0;
        std::vector<double> seconds;
        for (int round = 0; round < static_cast<int>(rounds); ++round) {
            if (const Status status = m_comm.barrier(kDeadline); !status)
                return status.error();
            const auto begin = Clock::now();
            const double before = computedSeconds();
            for (int piece = 0; piece < kPiecesBefore && point.afterWork; ++piece)
                computePiece();
            double worked = computedSeconds() - before;
            for (int time = 0; time < point.inARow; ++time)
                if (const Status status = once(); !status)
                    return status.error();
            spent = secondsFrom(begin);
            if (const Status status = slowest(spent); !status)
                return status.error();
            if (const Status status = point.afterWork ? busiestCore(worked) : Status(); !status)
                return status.error();
            if (round > 0) // the first one is for setup
                seconds.push_back((point.afterWork ? spent - worked : spent) / point.inARow);
            if (round == 1)
                rounds =
                    std::clamp(m_options.secondsPerPoint / std::max(spent, 1e-9),
                               static_cast<double>(spent > m_options.longRound ? kFewestLongRounds : kFewestRounds),
                               static_cast<double>(kMostRounds));
        }
        m_curves[point.curve].push_back(
            {static_cast<double>(point.bytes), Seconds(std::max(median(std::move(seconds)), kShortest) / point.share)});
        return spent;
    }

    /// The processor seconds of every rank become those of the core whose ranks have the most of them together.
    Status busiestCore(double &seconds)
    {
        const Result<std::vector<double>> all = ofAllRanks(seconds);
        if (!all)
            return all.error();
        std::vector<double> cores(static_cast<std::size_t>(m_options.cores));
        for (std::size_t rank = 0; rank < all->size(); ++rank)
            cores[rank % cores.size()] += (*all)[rank];
        seconds = *std::max_element(cores.begin(), cores.end());
        return {};
    }

    Status slowest(double &seconds)
    {
        const Result<std::vector<double>> all = ofAllRanks(seconds);
        if (!all)
            return all.error();
        seconds = *std::max_element(all->begin(), all->end());
        return {};
    }

    Result<std::vector<double>> ofAllRanks(double seconds)
    {
        std::vector<double> all(static_cast<std::size_t>(m_comm.size()));
        Result<comm::Request> request = m_comm.allGather(m_comm.world(), &seconds, all.data(), sizeof(double));
        if (!request)
            return request.error();
        if (const Status status = m_comm.wait(*request, kDeadline, "the other ranks' times"); !status)
            return status.error();
        return all;
    }

    comm::Communicator &m_comm;
    TransportOptions m_options;
    std::vector<float> m_data;
    std::vector<float> m_more;
    Curves m_curves;
    double m_passes = 1; ///< of a piece of work
    cost::CommunicationOnCores m_onCores;
};

} // namespace

Result<TransportFigures> measureTransport(comm::Communicator &communicator, const TransportOptions &options)
{
    return Transport(communicator, options).run();
}

Result<LinkTimes> measureLinks(comm::Communicator &communicator, std::span<const int> nodes,
                               const TransportOptions &options)
{
    if (std::ssize(nodes) != communicator.size())
        return badInput("a machine is to be named for each rank");
    return Transport(communicator, options).links(nodes);
}

std::string transportText(const TransportFigures &figures)
{
    cost::Profile profile;
    addTransport(profile, figures);
    return cost::toJson(profile);
}

Result<TransportFigures> transportFromText(const std::string &text)
{
    auto profile = cost::profileFromJson(text);
    if (!profile)
        return profile.error();
    const auto figure = [&](const char *name, double otherwise) {
        const auto found = profile->extra.find(name);
        return found != profile->extra.end() ? found->second : otherwise;
    };
    const cost::CommunicationOnCores onCores{figure(cost::kCoreSecondsPerByte, 0), figure(cost::kCoreWeight, 1),
                                             Seconds(figure(cost::kCoreDelay, 0))};
    return TransportFigures{std::move(profile->curves), onCores};
}

void addTransport(cost::Profile &profile, TransportFigures figures)
{
    profile.curves = std::move(figures.curves);
    if (!(figures.onCores.secondsPerByte > 0))
        return;
    profile.extra[cost::kCoreSecondsPerByte] = figures.onCores.secondsPerByte;
    profile.extra[cost::kCoreWeight] = figures.onCores.weight;
    profile.extra[cost::kCoreDelay] = figures.onCores.delay.value();
}

Status measureTransportAsRank(const std::string &file, std::span<const int> nodes)
{
    auto communicator = comm::joinMpi();
    if (!communicator)
        return communicator.error();
    TransportOptions options;
    options.cores = runtime::coresHere(); // before this rank has a part of them alone
    // Ranks that are machines apart share no cores, however many they are.
    if (std::ssize((*communicator)->sharers()) <= options.cores)
        options.cores = 0;
    runtime::pinToShare((*communicator)->rank(), (*communicator)->sharers());
    runtime::sleepExactly(); // as ranks of a run
    Result<std::string> text = std::string();
    if (nodes.empty()) {
        const auto figures = measureTransport(**communicator, options);
        text = figures ? Result<std::string>(transportText(*figures)) : figures.error();
    } else {
        const auto times = measureLinks(**communicator, nodes, options);
        text = times ? Result<std::string>(linksText(*times)) : times.error();
    }
    Status status = text ? Status() : text.error();
    if (status && (*communicator)->rank() == 0)
        status = writeFileAtomically(file, *text);
    if (status)
        status = (*communicator)->barrier(kDeadline);
    if (!status)
        (*communicator)->abort(status.error().text());
    return status;
}

} // namespace planloom::profiler
