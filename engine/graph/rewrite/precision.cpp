// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/precision.h"

#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace planloom::graph {
namespace {

/// The letter of argument @p i: traits.h defines the letters.
char letterOf(std::string_view letters, std::size_t i) { return letters[std::min(i, letters.size() - 1)]; }

class Lowering {
public:
    explicit Lowering(const TrainingGraph &from)
        : m_from(from),
          m_rewriter(from),
          m_half(from.graph.tensors().size()),
          m_single(m_half)
    {
        for (const auto *ids : {&from.outputs, &from.inputGradients, &from.gradients})
            m_border.insert(ids->begin(), ids->end());
        m_border.insert(from.loss);
    }

    Result<TrainingGraph> run() &&
    {
        for (const Tensor &tensor : m_from.graph.tensors()) {
            if (tensor.role == TensorRole::Parameter && isMatrixOfProducts(tensor)) {
                // Its first value is the float32 one's: data that are stored as float32 are not this copy's.
                const Initializer init = tensor.init.kind == Initializer::Kind::Data ? Initializer{} : tensor.init;
                const TensorId made = m_rewriter.builder().parameter(tensor.name, tensor.shape, init, DType::BF16);
                m_rewriter.map(tensor.id, made);
                m_half[tensor.id.index()] = made;
            }
        }
        for (const Op &op : m_from.graph.ops()) {
            if (op.id.index() == m_from.forwardOps)
                m_rewriter.beginBackward();
            lower(op);
        }
        if (m_from.forwardOps == m_from.graph.ops().size())
            m_rewriter.beginBackward();
        return std::move(m_rewriter).finish();
    }

private:
    /// A parameter that is only read where bfloat16 is computed in. Vectors stay: they are small, and sums with them
    /// gain from the digits.
    [[nodiscard]] bool isMatrixOfProducts(const Tensor &tensor) const
    {
        const auto readers = m_from.graph.consumers(tensor.id);
        if (tensor.type != DType::F32 || tensor.shape.rank() < 2 || readers.empty())
            return false;
        return std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
            const Op &op = m_from.graph.op(reader);
            for (std::size_t i = 0; i < op.inputs.size(); ++i)
                if (op.inputs[i] == tensor.id && letterOf(precisionOf(op).inputs, i) != 'h')
                    return false;
            return true;
        });
    }

    [[nodiscard]] bool isHalf(TensorId id) const { return m_half[id.index()].valid(); }

    /// True if the operator reads vectors of parameters and constants alone, such as 1 + scale of a normalisation.
    [[nodiscard]] bool readsOnlyVectors(const Op &op) const
    {
        return std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
            if (!id.valid())
                return true;
            const Tensor &tensor = m_from.graph.tensor(id);
            return tensor.shape.rank() < 2
                && (tensor.role == TensorRole::Parameter || tensor.role == TensorRole::Constant);
        });
    }

    /// True if the operator makes one number for the whole batch, such as a sum of losses: it costs nothing to keep all
    /// its digits.
    [[nodiscard]] bool makesScalar(const Op &op) const
    {
        return op.traits().elementWise != ElementWise::No && m_from.graph.tensor(op.outputs[0]).shape.rank() == 0;
    }

    /// The operator's data types, with letters that depend on its inputs resolved. Sums of contributions to the
    /// gradient of a parameter stay float32, and so do scalars and what is made of vectors of parameters alone.
    [[nodiscard]] Precision precisionOf(const Op &op) const
    {
        if ((!op.inputs.empty() && readsOnlyVectors(op)) || makesScalar(op))
            return {};
        const Precision precision = op.traits().precision;
        const char first = *precision.inputs;
        bool half = first == '=' && isHalf(op.inputs[0]);
        if (first == '+' && !m_border.contains(op.outputs[0]))
            half = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) { return isHalf(id); });
        if (first == '=' || first == '+')
            return half ? kHalf : Precision{};
        return precision;
    }

    [[nodiscard]] bool isReal(TensorId id) const { return m_from.graph.tensor(id).type == DType::F32; }

    /// @p id in the type of @p slot, with a Cast if it has to be made.
    TensorId in(TensorId id, char slot, const Op &reader)
    {
        if (!id.valid() || !isReal(id))
            return m_rewriter.to(id);
        TensorId &half = m_half[id.index()];
        TensorId &single = m_single[id.index()];
        if (!half.valid() && !single.valid())
            single = m_rewriter.to(id);
        const bool wantsHalf = slot == 'h' || (slot == '-' && half.valid());
        if (wantsHalf && !half.valid())
            half = m_rewriter.emit("Cast", {single}, {{"to", std::string(name(DType::BF16))}}, reader);
        if (!wantsHalf && !single.valid())
            single = m_rewriter.emit("Cast", {half}, {{"to", std::string(name(DType::F32))}}, reader);
        return wantsHalf ? half : single;
    }

    void lower(const Op &op)
    {
        const Precision precision = precisionOf(op);
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            inputs.push_back(in(op.inputs[i], letterOf(precision.inputs, i), op));
        std::vector<TensorId> places = op.outputs;
        for (std::size_t i = 0; i < places.size(); ++i) {
            if (crosses(op.outputs[i], letterOf(precision.outputs, i)))
                places[i] = TensorId();
        }
        const std::vector<TensorId> made =
            m_rewriter.replace(op.type, op.name, std::move(inputs), op.attributes, op, places);
        for (std::size_t i = 0; i < made.size(); ++i) {
            const TensorId id = op.outputs[i];
            if (!isReal(id))
                continue;
            (letterOf(precision.outputs, i) == 'h' ? m_half : m_single)[id.index()] = made[i];
            if (crosses(id, letterOf(precision.outputs, i)))
                m_single[id.index()] = m_rewriter
                                           .replace("Cast", op.name + "~float32", {made[i]},
                                                    {{"to", std::string(name(DType::F32))}}, op, {id})
                                           .front();
        }
    }

    /// True for a result that others expect in float32 and that the operator makes in bfloat16.
    [[nodiscard]] bool crosses(TensorId id, char slot) const
    {
        return slot == 'h' && isReal(id) && m_border.contains(id);
    }

    const TrainingGraph &m_from;
    Rewriter m_rewriter;
    std::vector<TensorId> m_half;   ///< by old tensor: its bfloat16 form, where there is one
    std::vector<TensorId> m_single; ///< its float32 form
    std::set<TensorId>
        m_border; ///< old tensors that stay float32: handed to other stages, the optimizer or the reader of the loss
};

} // namespace

Result<TrainingGraph> toBFloat16(const TrainingGraph &training) { return Lowering(training).run(); }

} // namespace planloom::graph
