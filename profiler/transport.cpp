// SPDX-License-Identifier: Apache-2.0
#include "profiler/transport.h"

#include "engine/base/files.h"
#include "engine/base/statistics.h"
#include "executor/comm/mpi_communicator.h"
#include "executor/runtime/affinity.h"
#include "profiler/measurement.h"

#include <algorithm>
#include <chrono>
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
constexpr int kMostRounds = 200;
constexpr int kTag = 1;

class Transport {
public:
    Transport(comm::Communicator &communicator, const TransportOptions &options)
        : m_comm(communicator),
          m_options(options)
    {
        m_data.resize(static_cast<std::size_t>(options.mostBytes) / sizeof(float));
        m_more.resize(m_data.size());
    }

    Result<Curves> run()
    {
        std::set<int> meshes;
        for (int members = 2; members < m_comm.size(); members *= 2)
            meshes.insert(members);
        if (m_comm.size() > 1)
            meshes.insert(m_comm.size());
        for (const int members : meshes) {
            std::vector<int> ranks(static_cast<std::size_t>(members));
            std::iota(ranks.begin(), ranks.end(), 0);
            const Result<comm::Group> group = m_comm.makeGroup(ranks);
            if (!group)
                return group.error();
            for (std::size_t kind = 0; kind < cost::kCollectives; ++kind) {
                if (const Status status = collective(static_cast<Collective>(kind), *group, members); !status)
                    return status.error();
            }
        }
        if (const Status status = m_comm.size() > 1 ? messages() : Status(); !status)
            return status.error();
        return m_comm.rank() == 0 ? m_curves : Curves{};
    }

private:
    Status collective(Collective kind, comm::Group group, int members)
    {
        const bool parts =
            kind != Collective::AllReduce && kind != Collective::Broadcast; // the whole data is a part of each member
        for (std::int64_t bytes = kFirstBytes; bytes * (parts ? members : 1) <= m_options.mostBytes; bytes *= kFactor) {
            const auto once = [&]() -> Status {
                if (m_comm.rank() >= members)
                    return {};
                Result<comm::Request> request = start(kind, group, bytes);
                return request ? m_comm.wait(*request, kDeadline, cost::name(kind)) : Status(request.error());
            };
            if (const Status status = measure(cost::curveName(kind, static_cast<std::size_t>(members)), bytes, once, 1);
                !status)
                return status;
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
    Status messages()
    {
        for (std::int64_t bytes = kFirstBytes; bytes <= m_options.mostBytes; bytes *= kFactor) {
            const auto once = [&]() -> Status {
                for (int turn = 0; turn < 2 && m_comm.rank() < 2; ++turn) {
                    const bool sends = m_comm.rank() == turn;
                    Result<comm::Request> request = sends ? m_comm.isend(m_data.data(), bytes, 1 - m_comm.rank(), kTag)
                                                          : m_comm.irecv(m_more.data(), bytes, 1 - m_comm.rank(), kTag);
                    if (const Status status =
                            request ? m_comm.wait(*request, kDeadline, "a message") : Status(request.error());
                        !status)
                        return status;
                }
                return {};
            };
            if (const Status status = measure(cost::kMessageCurve, bytes, once, 2); !status)
                return status;
        }
        return {};
    }

    /// Medians over rounds that all ranks begin together; how many is agreed on after the first.
    template <class Once>
    Status measure(const std::string &curve, std::int64_t bytes, const Once &once, double share)
    {
        double rounds = kFewestRounds;
        std::vector<double> seconds;
        for (int round = 0; round < static_cast<int>(rounds); ++round) {
            if (const Status status = m_comm.barrier(kDeadline); !status)
                return status;
            const auto begin = Clock::now();
            if (const Status status = once(); !status)
                return status;
            double spent = std::chrono::duration<double>(Clock::now() - begin).count();
            if (const Status status = slowest(spent); !status)
                return status;
            if (round > 0) // the first one is for setup
                seconds.push_back(spent);
            if (round == 1)
                rounds = std::clamp(m_options.secondsPerPoint / std::max(spent, 1e-9),
                                    static_cast<double>(kFewestRounds), static_cast<double>(kMostRounds));
        }
        m_curves[curve].push_back({static_cast<double>(bytes), Seconds(median(std::move(seconds)) / share)});
        return {};
    }

    Status slowest(double &seconds)
    {
        std::vector<double> all(static_cast<std::size_t>(m_comm.size()));
        Result<comm::Request> request = m_comm.allGather(m_comm.world(), &seconds, all.data(), sizeof(double));
        if (!request)
            return request.error();
        const Status status = m_comm.wait(*request, kDeadline, "the other ranks' times");
        seconds = *std::max_element(all.begin(), all.end());
        return status;
    }

    comm::Communicator &m_comm;
    TransportOptions m_options;
    std::vector<float> m_data;
    std::vector<float> m_more;
    Curves m_curves;
};

} // namespace

Result<Curves> measureTransport(comm::Communicator &communicator, const TransportOptions &options)
{
    return Transport(communicator, options).run();
}

std::string curvesText(const Curves &curves)
{
    cost::Profile profile;
    profile.curves = curves;
    return cost::toJson(profile);
}

Result<Curves> curvesFromText(const std::string &text)
{
    auto profile = cost::profileFromJson(text);
    if (!profile)
        return profile.error();
    return std::move(profile->curves);
}

Status measureTransportAsRank(const std::string &file)
{
    auto communicator = comm::joinMpi();
    if (!communicator)
        return communicator.error();
    runtime::pinToShare((*communicator)->localRank(), (*communicator)->localSize());
    Status status;
    const auto curves = measureTransport(**communicator);
    if (!curves)
        status = curves.error();
    else if ((*communicator)->rank() == 0)
        status = writeFileAtomically(file, curvesText(*curves));
    if (status)
        status = (*communicator)->barrier(kDeadline);
    if (!status)
        (*communicator)->abort(status.error().text());
    return status;
}

} // namespace planloom::profiler
