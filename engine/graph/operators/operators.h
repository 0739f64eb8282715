// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>

// The registry of operators: a row per type with its shapes, FLOPs, gradient and traits. README.md beside this file
// defines each operator and describes how to add one.
namespace planloom::graph {

class Backward;

/// Shapes and types of an operator's inputs and, after inference, of its outputs.
struct OpView {
    const Op &op;
    std::vector<const Tensor *> inputs; ///< nullptr: optional input left out
};

/// What shape inference knows of a tensor.
struct TensorInfo {
    DType type = DType::F32;
    Shape shape;
};

/// How many inputs an operator takes.
struct InputCount {
    int least = 1;
    int most = 1; ///< -1: any number
    [[nodiscard]] bool allows(int count) const { return count >= least && (most < 0 || count <= most); }
};

/// How gradients flow through an operator.
struct Gradient {
    enum class Flow : std::uint8_t {
        Unset,   ///< in the registry only where traits.origin is not Model
        Flows,   ///< `backward` writes the operators that make the inputs' gradients
        Stops,   ///< none flows and none is missed: comparisons, rounding
        Refused, ///< a model that has to train through it is refused
    };
    Flow flow = Flow::Unset;
    void (*backward)(Backward &) = nullptr;
    std::uint32_t inputs = ~0U; ///< bit i: input i may get a gradient
    bool everyOutput = false;   ///< takes gradients of outputs behind the first; dy(i) is invalid where one has none

    /// True if differentiation has an answer for the type.
    [[nodiscard]] bool known() const { return flow == Flow::Flows || flow == Flow::Stops; }
    [[nodiscard]] bool reaches(std::size_t input) const
    {
        return flow == Flow::Flows && (inputs >> (input < 31 ? input : 31U) & 1U) != 0;
    }
};
inline constexpr Gradient kNoGradient{Gradient::Flow::Stops};
inline constexpr Gradient kRefused{Gradient::Flow::Refused};
constexpr Gradient gradientBy(void (*backward)(Backward &), std::uint32_t inputs = ~0U, bool everyOutput = false)
{
    return {Gradient::Flow::Flows, backward, inputs, everyOutput};
}

/// FLOPs for @p samples; memory traffic is the bytes of inputs and outputs.
using FlopsRule = std::function<double(const OpView &, const std::vector<TensorInfo> &outputs, std::int64_t samples)>;
double noFlops(const OpView &, const std::vector<TensorInfo> &, std::int64_t);

/// Operator::backwardFlops: the forward FLOPs once for each of inputs 0 and 1 that gets a gradient.
inline constexpr double kEachFactor = -1;

/// The row of one operator type in the registry. Floors above the graph keep their own facts in an OperatorTable.
struct Operator {
    const char *type = "";
    InputCount inputs = {};
    /// Output infos from the inputs; nullptr: the outputs keep their declaration. Error: BadInput that names the input
    /// that does not fit.
    std::function<Result<std::vector<TensorInfo>>(const OpView &)> infer = nullptr;
    FlopsRule flops = noFlops;
    double backwardFlops = 1; ///< of the gradients, as a multiple of the forward ones; or kEachFactor
    Gradient gradient = {};
    OpTraits traits = {};
    std::size_t index = 0; ///< of the row; set by the registry
};

/// All rows, sorted by type. Made on first use; cost of a look-up: O(log rows). Thread-safe.
std::span<const Operator> operators();
/// nullptr if the type is unknown. An Op has its row at hand: op.type.row().
const Operator *findOperator(std::string_view type);

/// The gradient rule of an operator; nullptr if its type is unknown to differentiation.
inline const Gradient *gradientOf(const OpType &type)
{
    return type.row() != nullptr && type.row()->gradient.known() ? &type.row()->gradient : nullptr;
}

/// Facts of a floor above the graph about operator types: an entry per row of the registry, found without comparing
/// names. Entries have a member `type`. Filled before use, then constant.
template <class Entry>
class OperatorTable {
public:
    OperatorTable() : m_entries(operators().size()) {}

    /// Throws std::logic_error (a programmer's error) if the registry has no such type or the table has it already.
    void add(const Entry &entry)
    {
        const Operator *row = findOperator(entry.type);
        if (row == nullptr || m_entries[row->index])
            throw std::logic_error("table of operators: '" + std::string(entry.type)
                                   + (row == nullptr ? "' is not in the registry" : "' stands there twice"));
        m_entries[row->index] = entry;
    }
    /// nullptr if there is none.
    [[nodiscard]] const Entry *find(const Operator &row) const
    {
        return m_entries[row.index] ? &*m_entries[row.index] : nullptr;
    }
    [[nodiscard]] const Entry *find(const OpType &type) const { return type.row() ? find(*type.row()) : nullptr; }

private:
    std::vector<std::optional<Entry>> m_entries;
};

/// Cost figures of one operator of a graph for @p samples samples.
struct OpCostFigures {
    Flops forward;
    Flops backward;     ///< 0 without a gradient
    Bytes forwardBytes; ///< read + written
    Bytes backwardBytes;
};
OpCostFigures figures(const Graph &graph, OpId op, std::int64_t samples);

} // namespace planloom::graph
