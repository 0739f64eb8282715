// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/automap/rules.h"

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

namespace planloom::planners::automap {

/// A game that an agent plays: from reset() on it takes legal actions until it is over; score() then rates the
/// end is. Deterministic.
class Environment {
public:
    virtual ~Environment() = default;
    [[nodiscard]] virtual std::size_t stateSize() const = 0;
    [[nodiscard]] virtual std::size_t actionCount() const = 0;
    virtual void reset() = 0;
    [[nodiscard]] virtual std::vector<float> state() const = 0;
    /// Per action; none is legal when the game is over.
    [[nodiscard]] virtual const std::vector<char> &legal() const = 0;
    /// The reward.
    virtual double act(std::size_t action) = 0;
    [[nodiscard]] virtual bool over() const = 0;
    /// Once it is over: higher is better; minus infinity: it ended in a conflict.
    [[nodiscard]] virtual double score() const = 0;
};
inline constexpr double kLost = -std::numeric_limits<double>::infinity();

/// The rules of the partitioning game.
struct PartitionSettings {
    Consistency consistency = Consistency::BreadthFirst;
    bool linkage = true;         ///< actions whose linkage group contradicts earlier decisions are illegal
    double communication = 0.05; ///< penalty of all-reduced bytes in the score, per byte of the variables
    bool countTensors = false; ///< score by split tensors (data parallelism) instead of by split bytes of the variables
};

/// Operator partitioning and automatic data parallelism: the next undecided dimension of the
/// next variable is split over all devices (action 1) or not (action 0), together with all implied decisions.
class PartitionGame final : public Environment {
public:
    PartitionGame(const RuleGraph &graph, const std::vector<int> &variables, PartitionSettings settings);

    [[nodiscard]] std::size_t stateSize() const override { return m_dims.size() + 2; }
    [[nodiscard]] std::size_t actionCount() const override { return 2; }
    void reset() override;
    [[nodiscard]] std::vector<float> state() const override;
    [[nodiscard]] const std::vector<char> &legal() const override { return m_legal; }
    double act(std::size_t action) override;
    [[nodiscard]] bool over() const override { return m_over; }
    [[nodiscard]] double score() const override { return m_score; }

    /// Per dimension of the variables in their order: -1 undecided, 0 not split, 1 split.
    [[nodiscard]] std::vector<int> decisions() const;
    /// Once it is over and not lost: all tensors.
    [[nodiscard]] const Allowed &allowed() const { return m_allowed; }
    /// Takes this dimension next, against the order. For examples.
    void choose(int variable, int dimension);
    [[nodiscard]] std::size_t dimensions() const { return m_dims.size(); }
    [[nodiscard]] const std::vector<int> &variables() const { return m_variables; }

private:
    struct Dimension {
        int variable = 0;
        int axis = 0;
    };
    void settle();
    void end();
    [[nodiscard]] bool mayBeSplit(const Dimension &dimension) const;
    [[nodiscard]] double splitBytes() const;

    const RuleGraph &m_graph;
    std::vector<int> m_variables;
    PartitionSettings m_settings;
    std::vector<Dimension> m_dims;
    std::vector<Linkage> m_groups; ///< by dimension: of splitting it
    double m_total = 0;
    Allowed m_start;
    Allowed m_allowed;
    std::size_t m_next = 0;
    std::vector<char> m_legal;
    bool m_over = false;
    double m_score = kLost;
};

} // namespace planloom::planners::automap
