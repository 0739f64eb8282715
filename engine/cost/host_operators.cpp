// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/host_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string_view>

namespace planloom::cost {

namespace {

using graph::DType;

/// They move elements, whatever these are, or compute with indices.
constexpr std::array<std::string_view, 27> kMove{
    "Assemble", "Concat",     "ConstantOfShape", "Expand",   "Flatten",   "Gather",    "GatherElements",
    "GatherND", "Identity",   "KeepOnFirst",     "OneHot",   "Pack",      "Pad",       "Partition",
    "Reorder",  "Reshape",    "ShardGather",     "ShardPad", "Slice",     "SliceGrad", "Split",
    "Squeeze",  "ShardSlice", "ShiftIndices",    "Tile",     "Transpose", "Trilu"};

bool isOneOf(std::string_view type, std::span<const std::string_view> all)
{
    return std::ranges::find(all, type) != all.end();
}

bool isFloat(DType type) { return type == DType::F32 || type == DType::BF16; }

/// Types of the tensors @p ids that are there.
template <class F>
bool anyOf(const graph::Graph &graph, const std::vector<TensorId> &ids, const F &holds)
{
    return std::ranges::any_of(ids, [&](TensorId id) { return id.valid() && holds(graph.tensor(id).type); });
}

bool hostCasts(const graph::Graph &graph, const graph::Op &op)
{
    const DType from = graph.tensor(op.inputs[0]).type;
    const DType to = graph.tensor(op.outputs[0]).type;
    const bool readable = isFloat(from) || from == DType::Bool || from == DType::I64;
    return !readable || !(isFloat(to) || to == DType::Bool);
}

bool hostRuns(const graph::Graph &graph, const graph::Op &op)
{
    const auto half = [](DType type) { return type == DType::BF16; };
    const bool gradient = op.type.name().ends_with("Grad");
    return anyOf(graph, op.inputs, half) || anyOf(graph, op.outputs, half)
        || (gradient && (op.number("clip", 0) > 0 || op.integer("input_forget") != 0));
}

/// A product that is not one of cuBLASLt's: leading dimensions that repeat, or something else than a row added.
bool hostMultiplies(const graph::Graph &graph, const graph::Op &op)
{
    constexpr std::int64_t kSamples = 2; // any: they are equal in all shapes
    const auto a = graph.tensor(op.inputs[0]).shape.at(kSamples);
    const auto b = graph.tensor(op.inputs[1]).shape.at(kSamples);
    if (a.size() < 2 || b.size() < 2 || op.number("alpha", 1) != 1 || op.number("beta", 1) != 1)
        return true;
    const auto count = [](const std::vector<std::int64_t> &dims) {
        return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
    };
    const std::vector<std::int64_t> batchA(a.begin(), a.end() - 2);
    const std::vector<std::int64_t> batchB(b.begin(), b.end() - 2);
    const bool rows = b.size() == 2 && op.integer("transA") == 0; // leading dimensions are just rows
    if (!rows && count(batchA) != 1 && count(batchB) != 1 && batchA != batchB)
        return true;
    if (op.inputs.size() < 3 || !op.inputs[2].valid())
        return false;
    const auto added = graph.tensor(op.inputs[2]).shape.at(kSamples);
    const std::int64_t columns = op.integer("transB") != 0 ? b[b.size() - 2] : b.back();
    const bool one = rows || (count(batchA) == 1 && count(batchB) == 1);
    return !one || added.empty() || added.back() != columns || count(added) != columns;
}

} // namespace

bool hostComputes(const graph::Graph &graph, const graph::Op &op)
{
    const std::string &type = op.type.name();
    if (op.outputs.empty() || !op.outputs[0].valid() || isOneOf(type, kMove) || op.traits().communicates())
        return false;
    if (type == "Cast")
        return hostCasts(graph, op);
    if (type.starts_with("LSTM") || type.starts_with("GRU") || type.starts_with("RNN"))
        return hostRuns(graph, op);
    const auto computes = [](DType given) { return isFloat(given) || given == DType::Bool; };
    const bool names = type == "ArgMax" || type == "ArgMin";
    const bool reads = anyOf(graph, op.inputs, [](DType) { return true; });
    if ((type == "MatMul" || type == "Gemm") && anyOf(graph, op.inputs, computes) && hostMultiplies(graph, op))
        return true;
    return (reads && !anyOf(graph, op.inputs, computes)) || (!names && !computes(graph.tensor(op.outputs[0]).type));
}

HostCopies hostCopies(const graph::Graph &graph, const graph::Op &op, std::int64_t samples)
{
    HostCopies made;
    const auto add = [&](TensorId id, int times) {
        if (!id.valid())
            return;
        const graph::Tensor &tensor = graph.tensor(id);
        const std::int64_t bytes = tensor.shape.elements(samples) * graph::sizeOf(tensor.type);
        made.copies += bytes > 0 ? times : 0;
        made.bytes += times * bytes;
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
        add(op.inputs[i], op.traits().isState(i) ? 2 : 1);
    for (const TensorId id : op.outputs)
        add(id, 1);
    return made;
}

std::string hostOperators(const graph::Graph &graph)
{
    std::map<std::string, int> counts;
    for (const graph::Op &op : graph.ops())
        if (hostComputes(graph, op))
            ++counts[op.type.name()];
    std::string names;
    for (const auto &[name, count] : counts)
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, count);
    return names;
}

} // namespace planloom::cost
