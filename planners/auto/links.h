// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/sketch.h"

#include <array>
#include <map>
#include <tuple>
#include <vector>

namespace planloom::planners::automatic {

/// Times of moving data between runs of a device line, from the cluster's own model. Places are units of the line.
/// Figures are asked for once per run and size class (a factor of four), and are in proportion within a class. A query
/// costs O(1) after that.
class Links {
public:
    Links(const cost::CostModel &costs, const DeviceLine &line);

    /// Gradients of @p bytes a device, over the replicas of units [begin, end), whose devices are in groups of @p
    /// tensor.
    double allReduce(std::size_t begin, std::size_t end, int tensor, double bytes);
    /// Seconds a byte of the same that no messages of at most some size go below, by quarters of powers of two: the
    /// time of a byte never rises where messages grow, as more of them share the latency.
    class Exchange {
    public:
        Exchange(const Links &links, std::vector<DeviceId> team);
        double reduce(double largest);  ///< an all-reduce
        double scatter(double largest); ///< a reduce-scatter
        double gather(double largest);  ///< an all-gather of as many bytes

    private:
        static constexpr std::size_t kSizes = 256;
        template <class Ask>
        double upTo(double largest, std::array<double, kSizes> &rates, const Ask &ask) const;
        double part(cost::Collective kind, double bytes) const;
        const Links &m_links;
        std::vector<DeviceId> m_team;                             ///< fewer than two: nothing is exchanged
        std::array<double, kSizes> m_reduce, m_scatter, m_gather; ///< negative: not asked for yet
    };
    /// Of a size of messages: the next quarter of a power of two.
    static std::size_t sizeClass(double bytes);
    Exchange &exchangeAtLeast(std::size_t begin, std::size_t end, int tensor);
    /// @p bytes in all, from the units [a, b) to [b, c).
    double transfer(std::size_t a, std::size_t b, std::size_t c, double bytes);
    /// Seconds a byte over the same cut, there and back, that no size of messages goes below.
    struct Crossing {
        double there = 0;
        double back = 0;
    };
    const Crossing &crossingAtLeast(std::size_t a, std::size_t b, std::size_t c);

private:
    static constexpr std::size_t kClasses = 26; ///< up to 4^26 bytes
    /// Seconds a byte by size class; negative: not asked for yet.
    using Rates = std::array<double, kClasses>;
    template <class Ask>
    static double timeOf(Rates &rates, double bytes, const Ask &ask);
    /// The least seconds a byte of any size class that is worth asking for.
    template <class Ask>
    double leastRate(Rates &rates, const Ask &ask) const;
    /// Whether the profile has measured times of messages.
    [[nodiscard]] bool measured() const;
    [[nodiscard]] double transferSeconds(std::size_t a, std::size_t b, std::size_t c, bool back, double bytes) const;
    /// The first device of each group of @p tensor of the units [begin, end).
    [[nodiscard]] std::vector<DeviceId> members(std::size_t begin, std::size_t end, int tensor) const;
    [[nodiscard]] Rates &ratesOf(std::size_t begin, std::size_t end, int tensor);
    [[nodiscard]] std::size_t triple(std::size_t a, std::size_t b, std::size_t c) const
    {
        return (a * (m_places + 1) + b) * (m_places + 1) + c;
    }

    const cost::CostModel &m_costs;
    const DeviceLine &m_line;
    std::size_t m_places;
    std::vector<std::vector<Rates>> m_reduces; ///< per power of two of `tensor`: by [begin][end]
    std::map<std::tuple<int, std::size_t, std::size_t>, Exchange> m_exchanges; ///< by `tensor`, begin, end
    std::vector<Rates> m_transfers;                                            ///< by [a][b][c]
    std::vector<Crossing> m_crossings; ///< the same; negative: not asked for yet
};

} // namespace planloom::planners::automatic
