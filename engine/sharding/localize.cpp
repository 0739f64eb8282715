// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/localize.h"

#include <limits>

namespace planloom::sharding {
namespace {

using graph::Attributes;
using graph::Op;
using graph::Rewriter;
using graph::Tensor;

/// Labels that do not count, after ShiftIndices: no position of an axis can be taken for it.
constexpr std::int64_t kKept = std::numeric_limits<std::int64_t>::min() + 2;

std::vector<std::int64_t> segmentsOf(const Tensor &whole, const Sbp &sbp)
{
    if (!sbp.segments.empty())
        return sbp.segments;
    return {whole.shape[static_cast<std::size_t>(sbp.axis)].size};
}

/// Emits operators that belong to @p like on one line of the mesh.
class Emitter {
public:
    Emitter(Rewriter &to, const Op &like, const Line &line) : m_to(to), m_like(like), m_line(line)
    {
        m_like.name +=
            "@" + std::to_string(line.dimension); // names stay unique when another dimension is sharded after this one
    }

    TensorId emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes = {})
    {
        return m_to.emit(type, std::move(inputs), std::move(attributes), m_like);
    }
    std::vector<TensorId> emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes,
                               std::size_t outputs)
    {
        return m_to.emit(type, std::move(inputs), std::move(attributes), m_like, outputs);
    }

    TensorId communicate(const std::string &type, TensorId x)
    {
        return emit(type, {x}, {{"mesh_dim", std::int64_t{m_line.dimension}}, {"parts", std::int64_t{m_line.parts}}});
    }
    TensorId slice(TensorId x, const Tensor &whole, const Sbp &sbp)
    {
        return emit("ShardSlice", {x}, cut(whole, sbp, true));
    }
    TensorId pad(TensorId x, const Tensor &whole, const Sbp &sbp)
    {
        return emit("ShardPad", {x}, cut(whole, sbp, true));
    }
    TensorId partition(TensorId x, const Tensor &whole, const Sbp &sbp)
    {
        return emit("Partition", {x}, cut(whole, sbp, false));
    }
    TensorId assemble(TensorId x, const Tensor &whole, const Sbp &sbp)
    {
        Attributes attributes = cut(whole, sbp, false);
        attributes.erase("parts");
        return emit("Assemble", {x}, std::move(attributes));
    }
    TensorId keepOnFirst(TensorId x)
    {
        return emit("KeepOnFirst", {x}, {{"mesh_dim", std::int64_t{m_line.dimension}}});
    }

    /// Positions of an axis of @p size as one device of the line has them.
    TensorId shift(TensorId indices, std::int64_t size, Attributes attributes)
    {
        attributes["mesh_dim"] = std::int64_t{m_line.dimension};
        attributes["parts"] = std::int64_t{m_line.parts};
        attributes["size"] = size / m_line.parts;
        return emit("ShiftIndices", {indices}, std::move(attributes));
    }

private:
    [[nodiscard]] Attributes cut(const Tensor &whole, const Sbp &sbp, bool own) const
    {
        Attributes attributes{{"parts", std::int64_t{m_line.parts}},
                              {"axis", std::int64_t{sbp.axis}},
                              {"segments", segmentsOf(whole, sbp)}};
        if (own)
            attributes["mesh_dim"] = std::int64_t{m_line.dimension};
        return attributes;
    }

    Rewriter &m_to;
    Op m_like;
    Line m_line;
};

/// One operator with an output of the same name, on parts.
std::vector<TensorId> plain(Rewriter &to, const OpAtHand &at, const Signature &signature, std::vector<TensorId> inputs)
{
    to.copy(at.op, localAttributes(at, signature), std::move(inputs));
    std::vector<TensorId> outputs;
    for (const TensorId output : at.op.outputs)
        outputs.push_back(to.to(output));
    return outputs;
}

/// Names the replacements of the operator's outputs.
std::vector<TensorId> named(Rewriter &to, const OpAtHand &at, std::vector<TensorId> outputs)
{
    for (std::size_t i = 0; i < outputs.size() && i < at.outputs.size(); ++i)
        to.builder().rename(outputs[i], at.outputs[i]->name);
    outputs.resize(at.outputs.size());
    return outputs;
}

std::int64_t sizeAt(const Tensor &tensor, int axis) { return tensor.shape[static_cast<std::size_t>(axis)].size; }

bool splitAt(const Sbp &sbp, int axis) { return isSplit(sbp) && sbp.axis == axis; }

int gatherAxis(const OpAtHand &at, const Tensor &table)
{
    const std::int64_t axis = at.op.integer("axis");
    return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(table.shape.rank()) : axis);
}

Attributes fromEnd(const OpAtHand &at) { return {{"from_end", std::int64_t{at.op.type == "ShardGather" ? 0 : 1}}}; }

/// The same loss operator, whose labels have gone through ShiftIndices.
Attributes keeping(const Op &op) { return {{"keep", op.integer("ignore_index", -100)}}; }
const Attributes kIgnoresKept{{"ignore_index", kKept}};

/// (M, 3) of all classes from logits of some.
TensorId statisticsOverClasses(Emitter &emitter, const OpAtHand &at, const std::vector<TensorId> &inputs)
{
    const TensorId own = emitter.shift(inputs[1], sizeAt(*at.inputs[0], 1), keeping(at.op));
    const TensorId statistics = emitter.emit("LossStatistics", {inputs[0], own}, kIgnoresKept);
    return emitter.emit("CombineLossStatistics", {emitter.communicate("AllGather", statistics)});
}

std::vector<TensorId> crossEntropy(Rewriter &to, const OpAtHand &at, const Signature &signature,
                                   const std::vector<TensorId> &inputs, Emitter &emitter)
{
    const Attributes ignored{{"ignore_index", at.op.integer("ignore_index", -100)}};
    TensorId statistics;
    if (splitAt(signature.inputs[0], 1)) {
        statistics = statisticsOverClasses(emitter, at, inputs);
    } else {
        const TensorId own = emitter.slice(inputs[1], *at.inputs[1], split(0));
        const TensorId rows = emitter.emit("LossStatistics", {inputs[0], own}, ignored);
        statistics = emitter.assemble(emitter.communicate("AllGather", rows), *at.inputs[0], split(0));
    }
    return named(to, at, emitter.emit("LossFromStatistics", {statistics, inputs[1]}, ignored, 2));
}

std::vector<TensorId> crossEntropyGrad(Rewriter &to, const OpAtHand &at, const Signature &signature,
                                       std::vector<TensorId> inputs, Emitter &emitter)
{
    if (splitAt(signature.outputs[0], 1)) {
        inputs[2] = emitter.shift(inputs[2], sizeAt(*at.outputs[0], 1), keeping(at.op));
        to.copy(at.op, kIgnoresKept, std::move(inputs));
        return {to.to(at.op.outputs[0])};
    }
    const TensorId own = emitter.slice(inputs[2], *at.inputs[2], split(0));
    inputs[0] = emitter.emit("LossRowShare", {inputs[0], own, inputs[2]},
                             {{"ignore_index", at.op.integer("ignore_index", -100)}});
    inputs[2] = own;
    return plain(to, at, signature, std::move(inputs));
}

} // namespace

std::vector<TensorId> localize(Rewriter &to, const OpAtHand &at, const Signature &signature,
                               const std::vector<TensorId> &inputs, const Line &line)
{
    const std::string &type = at.op.type;
    Emitter emitter(to, at.op, line);
    const bool gathers = type == "Gather" || type == "ShardGather";
    if (gathers && splitAt(signature.inputs[0], gatherAxis(at, *at.inputs[0]))) {
        const int axis = gatherAxis(at, *at.inputs[0]);
        const TensorId own = emitter.shift(inputs[1], sizeAt(*at.inputs[0], axis), fromEnd(at));
        return named(to, at, {emitter.emit("ShardGather", {inputs[0], own}, {{"axis", std::int64_t{axis}}})});
    }
    if (type == "GatherGrad" && splitAt(signature.outputs[0], gatherAxis(at, *at.outputs[0]))) {
        const TensorId own =
            emitter.shift(inputs[1], sizeAt(*at.outputs[0], gatherAxis(at, *at.outputs[0])), fromEnd(at));
        return plain(to, at, signature, {inputs[0], own});
    }
    if (type == "SoftmaxCrossEntropyLoss" && isSplit(signature.inputs[0]))
        return crossEntropy(to, at, signature, inputs, emitter);
    if (type == "SoftmaxCrossEntropyLossGrad" && isSplit(signature.outputs[0]))
        return crossEntropyGrad(to, at, signature, inputs, emitter);
    if (type == "LossStatistics" && splitAt(signature.inputs[0], 1))
        return named(to, at, {statisticsOverClasses(emitter, at, inputs)});
    return plain(to, at, signature, inputs);
}

TensorId convert(Rewriter &to, TensorId value, const Tensor &whole, const Sbp &from, const Sbp &want, const Line &line,
                 const Op &like)
{
    if (from == want)
        return value;
    Emitter emitter(to, like, line);
    if (isBroadcast(from))
        return isSplit(want) ? emitter.slice(value, whole, want) : emitter.keepOnFirst(value);
    if (isPartial(from)) {
        if (isBroadcast(want))
            return emitter.communicate("AllReduce", value);
        return emitter.communicate("ReduceScatter", emitter.partition(value, whole, want));
    }
    if (isPartial(want))
        return emitter.pad(value, whole, from);
    if (isSplit(want) && want.axis != from.axis)
        return emitter.assemble(emitter.communicate("AllToAll", emitter.partition(value, whole, want)), whole, from);
    const TensorId all = emitter.assemble(emitter.communicate("AllGather", value), whole, from);
    return isSplit(want) ? emitter.slice(all, whole, want) : all;
}

} // namespace planloom::sharding
