// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, reduce over axes, or look up tables.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>

namespace planloom::cuda {

namespace {

bool sameType(const Request &request)
{
    return request.hasInput(0) && request.inputs[0].type == request.outputs[0].type;
}

std::int64_t elementBytes(const device::Argument &argument) { return graph::sizeOf(argument.type); }

Made makeCopy(const Request &request)
{
    if (!sameType(request) || request.inSize(0) != request.outSize(0))
        return onlyOnHost(request);
    const std::int64_t bytes = request.outSize(0) * elementBytes(request.outputs[0]);
    return makeFunction([bytes](CudaQueue &queue, bool, Inputs in, Outputs out) {
        if (in[0] != out[0])
            queue.copy(out[0], in[0], bytes);
    });
}

Made makeMove(StridedMove kernel)
{
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.from = in[0];
        kernel.to = out[0];
        queue.items(kernel, kernel.n);
    });
}

/// @p dims elements, read and written with these strides.
StridedMove moveOf(const Request &request, const Dims &dims, const Dims &readStrides, const Dims &writeStrides)
{
    StridedMove kernel;
    kernel.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
    kernel.n = productOf(dims);
    kernel.loops = loopsOver<2>(dims, {readStrides, writeStrides});
    return kernel;
}

Made makeTranspose(const Request &request)
{
    if (!sameType(request))
        return onlyOnHost(request);
    const Dims &dims = request.in(0);
    const auto rank = static_cast<std::int64_t>(dims.size());
    Dims perm = request.op.integers("perm");
    for (std::int64_t d = rank - 1; d >= 0 && !request.op.has("perm"); --d)
        perm.push_back(d);
    if (perm.size() != dims.size() || request.out().size() != dims.size())
        return onlyOnHost(request);
    const Dims own = rowMajor(dims);
    Dims strides(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const std::int64_t source = perm[d] < 0 ? perm[d] + rank : perm[d];
        if (source < 0 || source >= rank || request.out()[d] != dims[static_cast<std::size_t>(source)])
            return onlyOnHost(request);
        strides[d] = own[static_cast<std::size_t>(source)];
    }
    return makeMove(moveOf(request, request.out(), strides, rowMajor(request.out())));
}

Made makeExpand(const Request &request)
{
    const auto strides = sameType(request) ? broadcast(request.in(0), request.out()) : std::nullopt;
    if (!strides)
        return onlyOnHost(request);
    return makeMove(moveOf(request, request.out(), *strides, rowMajor(request.out())));
}

/// The part of a tensor that Slice takes, as counts, strides and where it begins, in elements.
struct SlicedPart {
    Dims counts, strides;
    std::int64_t offset = 0;
};

std::optional<SlicedPart> slicedPart(const Request &request, const Dims &whole)
{
    SlicedPart part{whole, rowMajor(whole), 0};
    const Dims starts = request.op.integers("starts");
    const Dims ends = request.op.integers("ends");
    Dims axes = request.op.integers("axes");
    const Dims steps = request.op.integers("steps", Dims(starts.size(), 1));
    for (std::size_t i = axes.size(); i < starts.size() && !request.op.has("axes"); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        return std::nullopt;
    const auto rank = static_cast<std::int64_t>(whole.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || steps[i] == 0)
            return std::nullopt;
        const auto d = static_cast<std::size_t>(axis);
        const std::int64_t size = whole[d];
        const std::int64_t step = steps[i];
        const auto clamped = [&](std::int64_t at) {
            at = at < 0 ? at + size : at;
            return step > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
        };
        const std::int64_t start = clamped(starts[i]);
        const std::int64_t end = clamped(ends[i]);
        const std::int64_t span = step > 0 ? end - start : start - end;
        const std::int64_t stride = part.strides[d];
        part.counts[d] = span <= 0 ? 0 : (span - 1) / std::abs(step) + 1;
        part.offset += start * stride;
        part.strides[d] = stride * step;
    }
    return part;
}

Made makeSlice(const Request &request)
{
    const auto part = sameType(request) ? slicedPart(request, request.in(0)) : std::nullopt;
    if (!part || part->counts != request.out())
        return onlyOnHost(request);
    StridedMove kernel = moveOf(request, request.out(), part->strides, rowMajor(request.out()));
    kernel.fromOffset = part->offset;
    return makeMove(kernel);
}

/// Zeros, with dY where the slice was.
Made makeSliceGrad(const Request &request)
{
    const auto part = sameType(request) ? slicedPart(request, request.out()) : std::nullopt;
    if (!part || part->counts != request.in(0))
        return onlyOnHost(request);
    StridedMove kernel = moveOf(request, request.in(0), rowMajor(request.in(0)), part->strides);
    kernel.toOffset = part->offset;
    const std::int64_t bytes = request.outSize(0) * elementBytes(request.outputs[0]);
    return makeFunction([kernel, bytes](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        queue.fill(out[0], 0, bytes);
        kernel.from = in[0];
        kernel.to = out[0];
        queue.items(kernel, kernel.n);
    });
}

/// Copies between a whole tensor and its parts along an axis.
Made makePieces(const Request &request, bool joins)
{
    const device::Argument &whole = joins ? request.outputs[0] : request.inputs[0];
    const std::span<const device::Argument> parts = joins ? request.inputs : request.outputs;
    const std::int64_t asked = request.op.integer("axis", 0);
    const auto rank = static_cast<std::int64_t>(whole.dims.size());
    const std::int64_t resolved = asked < 0 ? asked + rank : asked;
    if (!whole.present || resolved < 0 || resolved >= rank)
        return onlyOnHost(request);
    const auto axis = static_cast<std::size_t>(resolved);
    const Dims wholeStrides = rowMajor(whole.dims);
    std::vector<StridedMove> moves;
    std::int64_t begin = 0;
    for (const device::Argument &part : parts) {
        if (!part.present || part.type != whole.type || part.dims.size() != whole.dims.size())
            return onlyOnHost(request);
        const Dims own = rowMajor(part.dims);
        StridedMove move =
            joins ? moveOf(request, part.dims, own, wholeStrides) : moveOf(request, part.dims, wholeStrides, own);
        (joins ? move.toOffset : move.fromOffset) = begin * wholeStrides[axis];
        begin += part.dims[axis];
        moves.push_back(move);
    }
    if (begin != whole.dims[axis])
        return onlyOnHost(request);
    return makeFunction([moves, joins](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        for (std::size_t i = 0; i < moves.size(); ++i) {
            moves[i].from = joins ? in[i] : in[0];
            moves[i].to = joins ? out[0] : out[i];
            queue.items(moves[i], moves[i].n);
        }
    });
}
Made makeConcat(const Request &request) { return makePieces(request, true); }
Made makeSplit(const Request &request) { return makePieces(request, false); }

// --- Reductions -----------------------------------------------------------------------------------------------------

/// Which axes of @p dims are reduced, from the attribute; nullopt: one does not exist.
std::optional<std::vector<bool>> reducedAxesOf(const Request &request, std::size_t rank)
{
    const Dims axes = request.op.integers("axes");
    std::vector<bool> reduced(rank, axes.empty());
    for (std::int64_t axis : axes) {
        axis = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
        if (axis < 0 || axis >= static_cast<std::int64_t>(rank))
            return std::nullopt;
        reduced[static_cast<std::size_t>(axis)] = true;
    }
    return reduced;
}

struct Divided {
    Dims keptDims, keptStrides, reducedDims, reducedStrides;
};

Divided divide(const Dims &dims, const std::vector<bool> &reduced)
{
    const Dims own = rowMajor(dims);
    Divided made;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        (reduced[d] ? made.reducedDims : made.keptDims).push_back(dims[d]);
        (reduced[d] ? made.reducedStrides : made.keptStrides).push_back(own[d]);
    }
    return made;
}

Made makeReduction(const Request &request, const std::vector<bool> &reduced, Reduce::How how)
{
    const Divided divided = divide(request.in(0), reduced);
    Reduce kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.how = how;
    kernel.outputs = productOf(divided.keptDims);
    kernel.each = productOf(divided.reducedDims);
    kernel.outer = loopsOver<1>(divided.keptDims, {divided.keptStrides});
    kernel.inner = loopsOver<1>(divided.reducedDims, {divided.reducedStrides});
    if (!request.floatInputs(1) || !request.floatOutputs(1) || kernel.outputs != request.outSize(0) || kernel.each == 0)
        return onlyOnHost(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.rows(kernel, kernel.outputs);
    });
}

template <Reduce::How how>
Made makeReduce(const Request &request)
{
    const auto reduced = reducedAxesOf(request, request.in(0).size());
    if (!reduced)
        return onlyOnHost(request);
    return makeReduction(request, *reduced, how);
}

Made makeReduceSumTo(const Request &request)
{
    const Dims &whole = request.in(0);
    const Dims &target = request.out();
    if (target.size() > whole.size() || !broadcast(target, whole))
        return onlyOnHost(request);
    std::vector<bool> reduced(whole.size(), true);
    const std::size_t missing = whole.size() - target.size();
    for (std::size_t d = 0; d < target.size(); ++d)
        reduced[missing + d] = target[d] == 1;
    return makeReduction(request, reduced, Reduce::How::Sum);
}

Made makeReduceMeanGrad(const Request &request)
{
    const Dims &dims = request.out();
    const auto reduced = reducedAxesOf(request, dims.size());
    if (!reduced || !request.floatInputs(1) || !request.floatOutputs(1))
        return onlyOnHost(request);
    Dims kept;
    std::int64_t each = 1;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        kept.push_back((*reduced)[d] ? 1 : dims[d]);
        each *= (*reduced)[d] ? dims[d] : 1;
    }
    if (productOf(kept) != request.inSize(0))
        return onlyOnHost(request);
    SpreadMean kernel;
    kernel.dy = from(request, 0);
    kernel.dx = to(request, 0);
    kernel.share = 1.0F / static_cast<float>(std::max<std::int64_t>(1, each));
    kernel.n = productOf(dims);
    kernel.loops = loopsOver<1>(dims, {*broadcast(kept, dims)});
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.dx.data = out[0];
        queue.items(kernel, kernel.n);
    });
}

// --- Tables ---------------------------------------------------------------------------------------------------------

Made makeGather(const Request &request)
{
    const auto axis = request.hasInput(0) ? request.axis(0, 0) : std::nullopt;
    if (!axis || !request.floatInputs(1) || request.inputs.size() != 2 || !isInteger(request.inputs[1])
        || !request.floatOutputs(1))
        return onlyOnHost(request);
    Gather kernel;
    kernel.x = from(request, 0);
    kernel.y = to(request, 0);
    kernel.outer = productOf(request.in(0), 0, *axis);
    kernel.size = request.in(0)[*axis];
    kernel.inner = productOf(request.in(0), *axis + 1, request.in(0).size());
    kernel.count = request.inSize(1);
    kernel.zeros = request.op.type == "ShardGather" ? 1 : 0;
    const std::int64_t n = kernel.outer * kernel.count * kernel.inner;
    if (n != request.outSize(0))
        return onlyOnHost(request);
    return makeFunction([kernel, n](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.indices = static_cast<const std::int64_t *>(in[1]);
        kernel.y.data = out[0];
        queue.items(kernel, n);
    });
}

Made makeGatherGrad(const Request &request)
{
    const Dims &table = request.out();
    if (request.op.integer("axis", 0) != 0 || table.empty() || !request.floatInputs(1) || request.inputs.size() != 2
        || !isInteger(request.inputs[1]) || !request.floatOutputs(1))
        return onlyOnHost(request);
    GatherGradient kernel;
    kernel.dy = from(request, 0);
    kernel.dx = to(request, 0);
    kernel.size = table[0];
    kernel.inner = productOf(table, 1, table.size());
    kernel.count = request.inSize(1);
    if (kernel.count * kernel.inner != request.inSize(0))
        return onlyOnHost(request);
    const std::uint32_t adds = isFull(request.outputs[0]) ? device::DeviceKernel::kAdds : 0U;
    return makeFunction(
        [kernel](CudaQueue &queue, bool add, Inputs in, Outputs out) mutable {
            kernel.dy.data = in[0];
            kernel.indices = static_cast<const std::int64_t *>(in[1]);
            kernel.dx.data = out[0];
            kernel.dx.adds = add;
            queue.rows(kernel, kernel.size);
        },
        adds);
}

constexpr OperatorEntry kTensors[] = {
    {"Concat", makeConcat},
    {"Expand", makeExpand},
    {"Flatten", makeCopy},
    {"Gather", makeGather},
    {"GatherGrad", makeGatherGrad},
    {"Identity", makeCopy},
    {"ReduceMax", makeReduce<Reduce::How::Largest>},
    {"ReduceMean", makeReduce<Reduce::How::Mean>},
    {"ReduceMeanGrad", makeReduceMeanGrad},
    {"ReduceMin", makeReduce<Reduce::How::Smallest>},
    {"ReduceSum", makeReduce<Reduce::How::Sum>},
    {"ReduceSumTo", makeReduceSumTo},
    {"Reshape", makeCopy},
    {"ShardGather", makeGather},
    {"Slice", makeSlice},
    {"SliceGrad", makeSliceGrad},
    {"Split", makeSplit},
    {"Squeeze", makeCopy},
    {"Transpose", makeTranspose},
    {"Unsqueeze", makeCopy},
};

} // namespace

std::span<const OperatorEntry> tensorOperators() { return kTensors; }

} // namespace planloom::cuda
