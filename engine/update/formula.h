// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::update {

inline constexpr int kMostStates = 4; ///< of a rule

/// What a node of a formula is. A value has one number per element of the parameter (float32), or one per parameter
/// tensor (a scalar, double precision).
enum class Operator : std::uint8_t {
    // Inputs with a number per element.
    Weight,
    Gradient, ///< as summed up; GradientScale is a factor of it
    State,    ///< Node::index says which
    // Scalar inputs.
    GradientScale, ///< below 1 where gradients are clipped
    LearningRate,  ///< of this step, times the parameter group's factor
    WeightDecay,   ///< of the parameter group
    Step,          ///< from 1
    Constant,      ///< Node::value
    // Element by element; of scalars, a scalar.
    Add,
    Subtract,
    Multiply,
    Divide,
    SquareRoot,
    Sign,          ///< -1, 0 or 1
    Power,         ///< scalars only
    WherePositive, ///< scalars only: the second argument where the first is above 0, else the third
    // The 2-norm over all elements of the tensor, on whichever ranks they lie; Node::index numbers the norms.
    Norm,
};

/// An operation of a formula; its arguments are nodes before it.
struct Node {
    Operator type = Operator::Constant;
    bool each = false;      ///< a number per element
    std::int8_t phase = 0;  ///< first one in which it can be computed
    std::int16_t index = 0; ///< of State and Norm
    std::array<std::int16_t, 3> arguments{-1, -1, -1};
    double value = 0; ///< of Constant
};

/// The new value of the weight or of a state.
struct Store {
    static constexpr std::int16_t kWeight = -1;
    std::int16_t node = -1;
    std::int16_t target = kWeight; ///< or the number of a state
};

/// What one step does to each element of a parameter, as a graph of operators. It runs in one phase, or in two where it
/// has norms: the first ends with this rank's part of the norms' squares, the second begins with their sums over all
/// ranks. A phase computes from what memory holds, then stores; the last one clears the gradients. A plain value.
struct Formula {
    std::string rule;                                     ///< by name, for devices that have a kernel for it
    std::vector<std::pair<std::string, double>> settings; ///< in effect
    int states = 0;                                       ///< float32 tensors per parameter
    std::vector<Node> nodes;                              ///< arguments before their uses
    std::vector<Store> stores;                            ///< of states, then of the weight
    int norms = 0;

    [[nodiscard]] int phases() const { return norms > 0 ? 2 : 1; }
    [[nodiscard]] const Node &node(std::int16_t id) const { return nodes[static_cast<std::size_t>(id)]; }
    [[nodiscard]] int phaseOf(const Store &store) const;
    /// The value of a setting; 0 if there is none of that name.
    [[nodiscard]] double setting(std::string_view name) const;
    /// Per phase, nodes with a number per element that it computes, in order; those that an earlier phase has stored
    /// are in memory and not among them.
    [[nodiscard]] std::vector<std::int16_t> elementNodes(int phase) const;
    /// The store of an earlier phase that @p node's value lies in; nullptr: none.
    [[nodiscard]] const Store *storedBefore(std::int16_t node, int phase) const;
    /// Tensors of the parameter's size that @p phase reads or writes, clearing the gradient included: a step is bound
    /// by memory.
    [[nodiscard]] int streams(int phase) const;
    [[nodiscard]] int streams() const { return phases() == 1 ? streams(0) : streams(0) + streams(1); }

    /// Errors (BadInput): a norm of a norm, the weight not stored once and in the last phase, a state not stored once,
    /// or read after an earlier phase has overwritten it, a scalar operator of elements.
    [[nodiscard]] Status check() const;
};

} // namespace planloom::update
