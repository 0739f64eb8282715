// SPDX-License-Identifier: Apache-2.0
// Operators that pick elements by index, or lines' elements by value.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>
#include <limits>

namespace planloom::cuda {

namespace {

std::optional<Indices> indicesOf(const device::Argument &argument, bool floats = false)
{
    Indices made;
    if (argument.present && argument.type == graph::DType::I32)
        made.type = Indices::Type::Narrow;
    else if (floats && isFull(argument))
        made.type = Indices::Type::Float;
    else if (!isInteger(argument))
        return std::nullopt;
    return made;
}

/// Rows of a table along an axis (Gather), single elements (GatherElements) or slices (GatherND) of @p data by
/// @p indices; nullopt: they do not fit together.
std::optional<Picks> picksOf(const Request &request, const std::string &how, const Dims &data,
                             const device::Argument &indices)
{
    const auto type = indicesOf(indices);
    if (!type)
        return std::nullopt;
    Picks picks;
    picks.indices = *type;
    const auto rank = static_cast<std::int64_t>(data.size());
    const std::int64_t asked = request.op.integer("axis");
    const std::int64_t axis = asked < 0 ? asked + rank : asked;
    const Dims strides = rowMajor(data);
    const Dims &dims = indices.dims;
    if (how == "ND") {
        const std::int64_t blocks = request.op.integer("batch_dims");
        if (dims.empty() || blocks < 0 || blocks >= static_cast<std::int64_t>(dims.size()) || dims.back() < 0
            || blocks + dims.back() > rank)
            return std::nullopt;
        const auto first = static_cast<std::size_t>(blocks);
        const std::size_t last = first + static_cast<std::size_t>(dims.back());
        if (productOf(dims, 0, first) != productOf(data, 0, first))
            return std::nullopt;
        picks.form = Picks::Form::Slices;
        picks.count = std::max<std::int64_t>(1, productOf(dims, first, dims.size() - 1));
        picks.block = productOf(data, first, data.size());
        picks.slice = productOf(data, last, data.size());
        picks.picks = productOf(dims, 0, dims.size() - 1);
        picks.depth = static_cast<int>(dims.back());
        std::copy(data.begin() + blocks, data.begin() + static_cast<std::ptrdiff_t>(last), picks.sizes);
        std::copy(strides.begin() + blocks, strides.begin() + static_cast<std::ptrdiff_t>(last), picks.strides);
        return picks;
    }
    if (axis < 0 || axis >= rank)
        return std::nullopt;
    const auto d = static_cast<std::size_t>(axis);
    if (how.empty()) {
        picks.form = Picks::Form::Rows;
        picks.count = std::max<std::int64_t>(1, productOf(dims));
        picks.slice = productOf(data, d + 1, data.size());
        picks.picks = productOf(data, 0, d) * productOf(dims);
        picks.sizes[0] = data[d];
        return picks;
    }
    picks.form = Picks::Form::Elements;
    picks.depth = static_cast<int>(rank);
    picks.axis = static_cast<int>(axis);
    picks.picks = productOf(dims);
    for (std::size_t i = 0; i < data.size(); ++i)
        if (dims.size() != data.size() || (i != d && dims[i] > data[i]))
            return std::nullopt;
    std::copy(dims.begin(), dims.end(), picks.dims);
    std::copy(data.begin(), data.end(), picks.sizes);
    std::copy(strides.begin(), strides.end(), picks.strides);
    return picks;
}

/// The end of an operator's name says how it picks.
std::string formOf(const graph::Op &op)
{
    const std::string &type = op.type.name();
    return type.find("ND") != std::string::npos ? "ND" : (type.find("Elements") != std::string::npos ? "Elements" : "");
}

Made makePick(const Request &request)
{
    if (!sameType(request) || request.inputs.size() != 2)
        return onlyOnHost(request);
    auto picks = picksOf(request, formOf(request.op), request.in(0), request.inputs[1]);
    if (!picks || picks->picks * picks->slice != request.outSize(0))
        return onlyOnHost(request);
    picks->sharded = request.op.type == "ShardGather" ? 1 : 0;
    PickedMove kernel;
    kernel.picks = *picks;
    kernel.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
    if (isFloat(request.outputs[0])) // shows in the loss at once
        kernel.missing = isFull(request.outputs[0]) ? 0x7fc00000U : 0x7fc0U;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x = in[0];
        kernel.picks.indices.data = in[1];
        kernel.y = out[0];
        const bool fits = kernel.picks.form == Picks::Form::Rows
            && kernel.picks.slice * kernel.elementBytes % std::int64_t{sizeof(Words)} == 0 && kernel.elementBytes <= 4
            && areAligned({in[0], out[0]});
        kernel.wide = fits ? 1 : 0;
        queue.items(kernel, kernel.items());
    });
}

PickedUpdate updateOf(const Picks &picks, std::int64_t elements)
{
    constexpr std::int64_t kSlices = 16;  // a block's, so that few blocks look through all indices
    constexpr std::int64_t kShare = 4096; // elements, where slices are short
    PickedUpdate kernel;
    kernel.picks = picks;
    kernel.elements = elements;
    kernel.share = picks.slice * std::max(kSlices, kShare / std::max<std::int64_t>(1, picks.slice));
    return kernel;
}

void give(CudaQueue &queue, const PickedUpdate &kernel)
{
    queue.rows(kernel, (kernel.elements + kernel.share - 1) / kernel.share, PickedUpdate::kExtra, PickedUpdate::kEach);
}

/// The sums of rows, if they are such that warps can add them up; nullopt else.
std::optional<PickedRowSums> rowSumsOf(const Picks &picks, std::int64_t elements)
{
    constexpr std::int64_t kWarps = 2112;    // 16 on each processor of an H100
    constexpr std::int64_t kLeastSlice = 32; // below, most lanes have nothing to add
    if (picks.form != Picks::Form::Rows || picks.slice < kLeastSlice || picks.slice % PickedRowSums::kWidth != 0
        || picks.picks > std::numeric_limits<std::int32_t>::max() - 2 * PickedRowSums::kListed)
        return std::nullopt;
    PickedRowSums made;
    made.picks = picks;
    made.rows = elements / picks.slice;
    const std::int64_t ranges =
        std::clamp<std::int64_t>(kWarps / made.across(), 1, std::max<std::int64_t>(1, made.rows));
    made.share = std::max<std::int64_t>(1, (made.rows + ranges - 1) / ranges);
    return made;
}

void give(CudaQueue &queue, const PickedRowSums &kernel)
{
    constexpr unsigned int kThreads = 256;
    constexpr std::int64_t kWarpsOfBlock = kThreads / kWarp;
    queue.blocks(kernel, (kernel.items() + kWarpsOfBlock - 1) / kWarpsOfBlock, kThreads,
                 kWarpsOfBlock * PickedRowSums::kExtra);
}

bool fitsUpdate(const PickedUpdate &kernel)
{
    return kernel.share < std::numeric_limits<std::int32_t>::max() && kernel.picks.slice > 0;
}

/// dX += dY at what was picked.
Made makePickGradient(const Request &request)
{
    if (request.inputs.size() != 2 || !request.floatInputs(1) || request.outputs.size() != 1
        || !isFull(request.outputs[0]))
        return onlyOnHost(request);
    const auto picks = picksOf(request, formOf(request.op), request.out(), request.inputs[1]);
    if (!picks || picks->picks * picks->slice != request.inSize(0))
        return onlyOnHost(request);
    PickedUpdate kernel = updateOf(*picks, request.outSize(0));
    kernel.updates = from(request, 0);
    if (!fitsUpdate(kernel))
        return onlyOnHost(request);
    const std::uint32_t adds = request.op.traits().accumulates ? device::DeviceKernel::kAdds : 0U;
    const auto rows = rowSumsOf(*picks, request.outSize(0));
    return makeFunction(
        [kernel, rows](CudaQueue &queue, bool add, Inputs in, Outputs out) mutable {
            if (!add)
                queue.fill(out[0], 0, kernel.elements * std::int64_t{sizeof(float)});
            kernel.updates.data = in[0];
            kernel.picks.indices.data = in[1];
            kernel.y = static_cast<float *>(out[0]);
            if (!rows || !areAligned({in[0], out[0]})) {
                give(queue, kernel);
                return;
            }
            PickedRowSums sums = *rows;
            sums.picks.indices = kernel.picks.indices;
            sums.updates = kernel.updates;
            sums.y = kernel.y;
            give(queue, sums);
        },
        adds);
}

/// The data with updates where the indices say.
Made makeScatter(const Request &request)
{
    const std::string reduction = request.op.text("reduction", "none");
    if (request.inputs.size() != 3 || !isFull(request.inputs[0]) || !isFull(request.inputs[2])
        || !isFull(request.outputs[0]) || request.in(0) != request.out()
        || (reduction != "none" && reduction != "add" && reduction != "mul"))
        return onlyOnHost(request);
    const auto picks = picksOf(request, formOf(request.op), request.in(0), request.inputs[1]);
    if (!picks || picks->picks * picks->slice != request.inSize(2) || !isInteger(request.inputs[1]))
        return onlyOnHost(request);
    PickedUpdate kernel = updateOf(*picks, request.outSize(0));
    kernel.updates = from(request, 2);
    kernel.how = reduction == "none" ? PickedUpdate::How::Set
                                     : (reduction == "add" ? PickedUpdate::How::Add : PickedUpdate::How::Multiply);
    kernel.marks = 1;
    if (!fitsUpdate(kernel))
        return onlyOnHost(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        if (in[0] != out[0])
            queue.copy(out[0], in[0], kernel.elements * std::int64_t{sizeof(float)});
        kernel.updates.data = in[2];
        kernel.picks.indices.data = in[1];
        kernel.y = static_cast<float *>(out[0]);
        give(queue, kernel);
    });
}

/// Around @p axis of @p dims.
AxisLines linesOf(const Dims &dims, std::size_t axis)
{
    return {productOf(dims, 0, axis), dims[axis], productOf(dims, axis + 1, dims.size())};
}

Made makeOneHot(const Request &request)
{
    const auto indices = request.inputs.size() == 2 ? indicesOf(request.inputs[0], true) : std::nullopt;
    const auto rank = static_cast<std::int64_t>(request.out().size());
    const std::int64_t asked = request.op.integer("axis", -1);
    const std::int64_t axis = asked < 0 ? asked + rank : asked;
    if (!indices || axis < 0 || axis >= rank || request.inSize(1) != 2
        || request.inputs[1].type != request.outputs[0].type)
        return onlyOnHost(request);
    const AxisLines lines = linesOf(request.out(), static_cast<std::size_t>(axis));
    if (lines.n != request.op.integer("depth") || lines.lines() != request.inSize(0))
        return onlyOnHost(request);
    OneHot kernel;
    kernel.indices = *indices;
    kernel.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
    kernel.outer = lines.outer;
    kernel.n = lines.n;
    kernel.inner = lines.inner;
    return makeFunction([kernel, n = request.outSize(0)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.indices.data = in[0];
        kernel.values = in[1];
        kernel.y = out[0];
        queue.items(kernel, n);
    });
}

Made makeTrilu(const Request &request)
{
    if (!sameType(request) || request.in(0).size() < 2 || request.in(0) != request.out())
        return onlyOnHost(request);
    const Dims &dims = request.in(0);
    Triangle kernel;
    kernel.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
    kernel.upper = request.op.integer("upper", 1) != 0 ? 1 : 0;
    kernel.n = request.outSize(0);
    kernel.rows = dims[dims.size() - 2];
    kernel.columns = dims.back();
    kernel.diagonal = request.op.integer("k");
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x = in[0];
        kernel.y = out[0];
        queue.items(kernel, kernel.n);
    });
}

Made makeCumSum(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, 0) : std::nullopt;
    if (!axis || !request.floatInputs(1) || !request.floatOutputs(1) || request.in(0) != request.out())
        return onlyOnHost(request);
    CumulativeSum kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.axis = linesOf(request.in(0), *axis);
    kernel.reverse = request.op.integer("reverse") != 0 ? 1 : 0;
    kernel.exclusive = request.op.integer("exclusive") != 0 ? 1 : 0;
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.items(kernel, kernel.axis.lines());
    });
}

Made makeFirstOfLine(const Request &request, FirstOfLine kernel, std::size_t indices)
{
    kernel.x = from(request, 0);
    kernel.y = indices > 0 ? to(request, 0) : To();
    return makeFunction([kernel, indices](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = indices > 0 ? out[0] : nullptr;
        kernel.indices = static_cast<std::int64_t *>(out[indices]);
        queue.rows(kernel, kernel.axis.lines());
    });
}

template <bool largest>
Made makeArgExtreme(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, 0) : std::nullopt;
    if (!axis || !request.floatInputs(1) || !isInteger(request.outputs[0]))
        return onlyOnHost(request);
    FirstOfLine kernel;
    kernel.axis = linesOf(request.in(0), *axis);
    kernel.largest = largest ? 1 : 0;
    kernel.last = request.op.integer("select_last_index") != 0 ? 1 : 0;
    if (kernel.axis.n == 0 || kernel.axis.lines() != request.outSize(0))
        return onlyOnHost(request);
    return makeFirstOfLine(request, kernel, 0);
}

Made makeTopK(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, -1) : std::nullopt;
    if (!axis || !request.floatInputs(1) || !request.floatOutputs(1) || !request.hasOutput(1)
        || !isInteger(request.outputs[1]))
        return onlyOnHost(request);
    FirstOfLine kernel;
    kernel.axis = linesOf(request.in(0), *axis);
    kernel.k = request.op.integer("k");
    kernel.largest = request.op.integer("largest", 1) != 0 ? 1 : 0;
    Dims expected = request.in(0);
    expected[*axis] = kernel.k;
    if (kernel.k < 0 || kernel.k > kernel.axis.n || request.out() != expected || request.out(1) != expected)
        return onlyOnHost(request);
    return makeFirstOfLine(request, kernel, 1);
}

constexpr OperatorEntry kIndexing[] = {
    {"ArgMax", makeArgExtreme<true>},
    {"ArgMin", makeArgExtreme<false>},
    {"CumSum", makeCumSum},
    {"Gather", makePick},
    {"GatherElements", makePick},
    {"GatherElementsGrad", makePickGradient},
    {"GatherGrad", makePickGradient},
    {"GatherND", makePick},
    {"GatherNDGrad", makePickGradient},
    {"OneHot", makeOneHot},
    {"ScatterElements", makeScatter},
    {"ScatterND", makeScatter},
    {"ShardGather", makePick},
    {"TopK", makeTopK},
    {"Trilu", makeTrilu},
};

} // namespace

std::span<const OperatorEntry> indexOperators() { return kIndexing; }

} // namespace planloom::cuda
