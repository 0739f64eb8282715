// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::planners::automap {

/// How a tensor lies over all devices: along one of its dimensions, or kReplicated. (The agent's own states use -1 for
/// "not decided yet".)
inline constexpr int kReplicated = -1;

/// One consistent assignment of an instruction's tensors.
struct Row {
    std::vector<int> splits; ///< per tensor of the instruction
    double reduceBytes = 0;  ///< of outputs that are sums over the devices: an all-reduce that the encoding hides
    friend bool operator==(const Row &, const Row &) = default;
};

/// An operator of the rule graph, with the rows of splits that it allows.
struct Instruction {
    std::string name;
    std::vector<int> tensors; ///< operands, then outputs
    std::vector<Row> rows;
};

/// A tensor of the rule graph.
struct RuleTensor {
    std::string name;
    int rank = 0;
    double bytes = 0; ///< of all that it stands for
};

/// A graph as Auto-MAP sees it: tensors, and instructions that list which of their splits go together. Operators of
/// repeated blocks are one.
struct RuleGraph {
    std::vector<RuleTensor> tensors;
    std::vector<Instruction> instructions;
    std::vector<std::vector<int>> mentions;        ///< by tensor: instructions
    std::vector<int> trainable;                    ///< parameters with at least two elements, by first use
    std::vector<int> inputs;                       ///< fed tensors
    std::vector<std::vector<std::string>> members; ///< by tensor: names in the graph of all that it stands for
    std::vector<std::string>
        unknown; ///< types of operators that can only be replicated, as they have no row in the table
};

/// Rules for @p parts devices from the operators' signatures (engine/sharding), with the update's: a gradient lies as
/// its parameter does. Batches are left whole: data parallelism is another family. Cost: O(operators * signatures).
RuleGraph rulesOf(const graph::TrainingGraph &training, int parts);
/// The same with the batch as a dimension like any other, for @p samples samples. Only forward operators, and nothing
/// stands for anything else.
RuleGraph batchRulesOf(const graph::Graph &graph, int parts, std::int64_t samples);

/// The remaining choices of each tensor: bit 0 replicated, bit d + 1 split along d.
using Allowed = std::vector<std::uint32_t>;
inline std::uint32_t bitOf(int split) { return 1U << static_cast<unsigned>(split + 1); }
inline bool isDecided(std::uint32_t set) { return set != 0 && (set & (set - 1)) == 0; }
/// The only one left. Only where isDecided.
int splitOf(std::uint32_t set);

Allowed everything(const RuleGraph &graph);

/// How far a decision is carried on.
enum class Consistency : std::uint8_t {
    BreadthFirst, ///< sets that shrink to one are followed, others are only remembered: the published rule
    Arc,          ///< every set that shrinks is followed: implies more, never less
};
/// Fixes @p tensor at @p split and propagates it. False on a conflict; @p allowed is then half-way. Cost:
/// O(instructions * rows) at most once per tensor (breadth-first) or per option of a tensor (arc).
bool decide(const RuleGraph &graph, Allowed &allowed, int tensor, int split,
            Consistency consistency = Consistency::BreadthFirst);
/// Takes @p split away from @p tensor; decides it where one is left.
bool exclude(const RuleGraph &graph, Allowed &allowed, int tensor, int split,
             Consistency consistency = Consistency::BreadthFirst);

/// Every tensor decided, replicated where that is possible: open tensors are settled in order, without taking back
/// decisions. False: impossible. @p reduceBytes gets the all-reduces that the rows imply.
bool complete(const RuleGraph &graph, Allowed &allowed, double &reduceBytes);

/// The decisions that one implies for other variables (pruning 1): decide() from nothing but it.
struct Linkage {
    int variable = 0;
    int split = 0;
    bool feasible = true;
    std::vector<std::pair<int, int>> implied; ///< other variables and their splits
};
std::vector<Linkage> linkageGroups(const RuleGraph &graph, const std::vector<int> &variables, Consistency consistency);
/// Variables by the number of tensors that replicating them decides, most first (pruning 2).
std::vector<int> byReach(const RuleGraph &graph, std::vector<int> variables, Consistency consistency);

} // namespace planloom::planners::automap
