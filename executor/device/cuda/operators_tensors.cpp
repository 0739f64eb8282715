// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, reduce over axes, or look up tables.
#include "executor/device/cuda/operator_support.h"

#include <algorithm>
#include <memory>

namespace planloom::cuda {

namespace {

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

/// Which element of a dimension of n elements stands at @p at, which may lie outside.
std::int64_t repeatedElement(const std::string &mode, std::int64_t at, std::int64_t n)
{
    if (mode == "edge")
        return std::clamp<std::int64_t>(at, 0, n - 1);
    if (mode == "wrap")
        return (at % n + n) % n;
    const std::int64_t period = std::max<std::int64_t>(1, 2 * (n - 1)); // reflect, the ends not repeated
    const std::int64_t phase = (at % period + period) % period;
    return phase < n ? phase : period - phase;
}

/// Per dimension and index of @p to, the index of @p from that it repeats; nullopt: the padding does not fit.
std::optional<std::vector<Dims>> repeatedElements(const Request &request, const Dims &from, const Dims &to)
{
    const Dims pads = request.op.integers("pads");
    const std::string mode = request.op.text("mode");
    if ((mode != "reflect" && mode != "edge" && mode != "wrap") || from.empty() || pads.size() != 2 * from.size()
        || to.size() != from.size())
        return std::nullopt;
    std::vector<Dims> sources(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (from[d] == 0 || to[d] != from[d] + pads[d] + pads[d + from.size()])
            return std::nullopt;
        for (std::int64_t i = 0; i < to[d]; ++i)
            sources[d].push_back(repeatedElement(mode, i - pads[d], from[d]));
    }
    return sources;
}

Result<std::shared_ptr<device::Memory>> uploadedNumbers(const Request &request, const Dims &numbers)
{
    return uploaded(request.device, numbers.data(), static_cast<std::int64_t>(numbers.size() * sizeof(std::int64_t)));
}

/// Padding that repeats elements.
Made makeMappedPad(const Request &request)
{
    const auto sources = repeatedElements(request, request.in(0), request.out());
    if (!sources || !sameType(request))
        return onlyOnHost(request);
    const Dims strides = rowMajor(request.in(0));
    Dims table;
    for (std::size_t d = 0; d < sources->size(); ++d)
        for (const std::int64_t source : (*sources)[d])
            table.push_back(source * strides[d]);
    auto uploadedTable = uploadedNumbers(request, table);
    if (!uploadedTable)
        return uploadedTable.error();
    MappedMove kernel;
    kernel.table = at<std::int64_t>(*uploadedTable);
    kernel.elementBytes = static_cast<int>(elementBytes(request.outputs[0]));
    kernel.rank = static_cast<int>(request.out().size());
    std::copy(request.out().begin(), request.out().end(), kernel.dims);
    kernel.n = request.outSize(0);
    return makeFunction([kernel, kept = *uploadedTable](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.from = in[0];
        kernel.to = out[0];
        queue.items(kernel, kernel.n);
    });
}

Made makePadGrad(const Request &request)
{
    const auto sources = request.floatInputs(1) && request.floatOutputs(1)
        ? repeatedElements(request, request.out(), request.in(0))
        : std::nullopt;
    if (!sources)
        return onlyOnHost(request);
    const Dims strides = rowMajor(request.in(0));
    Dims begins;
    Dims places;
    for (std::size_t d = 0; d < sources->size(); ++d) {
        for (std::int64_t element = 0; element < request.out()[d]; ++element) {
            begins.push_back(static_cast<std::int64_t>(places.size()));
            for (std::size_t i = 0; i < (*sources)[d].size(); ++i)
                if ((*sources)[d][i] == element)
                    places.push_back(static_cast<std::int64_t>(i) * strides[d]);
        }
        begins.push_back(static_cast<std::int64_t>(places.size()));
    }
    auto first = uploadedNumbers(request, begins);
    auto second = uploadedNumbers(request, places);
    if (!first || !second)
        return !first ? first.error() : second.error();
    MappedSum kernel;
    kernel.dy = from(request, 0);
    kernel.dx = to(request, 0);
    kernel.begins = at<std::int64_t>(*first);
    kernel.places = at<std::int64_t>(*second);
    kernel.rank = static_cast<int>(request.out().size());
    std::copy(request.out().begin(), request.out().end(), kernel.dims);
    kernel.n = request.outSize(0);
    return makeFunction(
        [kernel, keptFirst = *first, keptSecond = *second](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
            kernel.dy.data = in[0];
            kernel.dx.data = out[0];
            queue.items(kernel, kernel.n);
        });
}

/// A constant everywhere; nullopt: no such type.
Result<std::optional<StridedMove>> constantMove(const Request &request, double value,
                                                std::shared_ptr<device::Memory> &kept)
{
    auto constant = constantOf(request, request.outputs[0].type, value);
    if (!constant)
        return constant.error();
    if (*constant == nullptr)
        return std::optional<StridedMove>();
    kept = *constant;
    const Dims &dims = request.out();
    StridedMove move = moveOf(request, dims, Dims(dims.size(), 0), rowMajor(dims));
    move.from = kept->data();
    return std::optional(move);
}

Made makeConstantOfShape(const Request &request)
{
    std::shared_ptr<device::Memory> kept;
    auto move = constantMove(request, request.op.number("value"), kept);
    if (!move)
        return move.error();
    if (!*move)
        return onlyOnHost(request);
    return makeFunction([kernel = **move, kept](CudaQueue &queue, bool, Inputs, Outputs out) mutable {
        kernel.to = out[0];
        queue.items(kernel, kernel.n);
    });
}

/// pads: how many before each dimension, then how many after; negative ones cut.
Made makePad(const Request &request)
{
    const Dims pads = request.op.integers("pads");
    const std::size_t rank = request.hasInput(0) ? request.in(0).size() : 0;
    if (request.op.text("mode", "constant") != "constant")
        return makeMappedPad(request);
    if (!sameType(request) || pads.size() != 2 * rank || request.out().size() != rank)
        return onlyOnHost(request);
    const Dims own = rowMajor(request.in(0));
    const Dims target = rowMajor(request.out());
    Dims counts = request.in(0);
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
        const std::int64_t before = pads[d];
        const std::int64_t after = pads[rank + d];
        if (request.out()[d] != counts[d] + before + after)
            return onlyOnHost(request);
        counts[d] =
            std::max<std::int64_t>(0, counts[d] + std::min<std::int64_t>(0, before) + std::min<std::int64_t>(0, after));
        from += std::max<std::int64_t>(0, -before) * own[d];
        to += std::max<std::int64_t>(0, before) * target[d];
    }
    StridedMove move = moveOf(request, counts, own, target);
    move.fromOffset = from;
    move.toOffset = to;
    std::shared_ptr<device::Memory> kept;
    auto fill = constantMove(request, request.op.number("value"), kept);
    if (!fill)
        return fill.error();
    if (!*fill)
        return onlyOnHost(request);
    return makeFunction([fill = **fill, move, kept](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        fill.to = out[0];
        queue.items(fill, fill.n);
        move.from = in[0];
        move.to = out[0];
        queue.items(move, move.n);
    });
}

Made makeTile(const Request &request)
{
    const Dims repeats = request.op.integers("repeats");
    if (!sameType(request) || repeats.size() != request.in(0).size() || request.out().size() != repeats.size())
        return onlyOnHost(request);
    const Dims own = rowMajor(request.in(0));
    Dims dims;
    Dims strides;
    std::int64_t loops = 0;
    for (std::size_t d = 0; d < own.size(); ++d) { // every dimension is two: which copy, which element
        if (request.out()[d] != repeats[d] * request.in(0)[d])
            return onlyOnHost(request);
        dims.insert(dims.end(), {repeats[d], request.in(0)[d]});
        strides.insert(strides.end(), {0, own[d]});
        loops += (repeats[d] > 1 ? 1 : 0) + (request.in(0)[d] > 1 ? 1 : 0);
    }
    if (loops > kMostLoops)
        return onlyOnHost(request);
    return makeMove(moveOf(request, dims, strides, rowMajor(dims)));
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

/// The request with images of channels last as tensors (N, H, W, C), where the axes of the operator are axis 1.
class PixelsFirst {
public:
    explicit PixelsFirst(const Request &request)
        : m_op(request.op),
          m_inputs(turned(request.inputs)),
          m_outputs(turned(request.outputs)),
          m_request{request.device, m_op, m_inputs, m_outputs}
    {
        if (m_op.has("axis"))
            m_op.attributes["axis"] = std::int64_t{3};
        if (m_op.has("axes"))
            m_op.attributes["axes"] = Dims{3};
    }
    /// Whether all are such images, and the operator works along channels.
    [[nodiscard]] static bool fits(const Request &request)
    {
        const auto image = [](const device::Argument &argument) {
            return argument.present && areLastChannels(argument) && argument.dims.size() == 4;
        };
        return std::all_of(request.inputs.begin(), request.inputs.end(), image)
            && std::all_of(request.outputs.begin(), request.outputs.end(), image)
            && (request.op.integer("axis") == 1 || request.op.integers("axes") == Dims{1});
    }
    PixelsFirst(const PixelsFirst &) = delete;
    PixelsFirst &operator=(const PixelsFirst &) = delete;
    [[nodiscard]] const Request &get() const { return m_request; }

private:
    static std::vector<device::Argument> turned(std::span<const device::Argument> arguments)
    {
        std::vector<device::Argument> made(arguments.begin(), arguments.end());
        for (device::Argument &argument : made) {
            std::rotate(argument.dims.begin() + 1, argument.dims.begin() + 2, argument.dims.end());
            argument.layout = graph::Layout::RowMajor;
        }
        return made;
    }
    graph::Op m_op;
    std::vector<device::Argument> m_inputs, m_outputs;
    Request m_request;
};

template <Made (*make)(const Request &)>
Made makeAlongChannels(const Request &request)
{
    const auto last = [](std::span<const device::Argument> arguments) {
        return std::any_of(arguments.begin(), arguments.end(), areLastChannels);
    };
    if (!last(request.inputs) && !last(request.outputs))
        return make(request);
    return PixelsFirst::fits(request) ? make(PixelsFirst(request).get()) : onlyOnHost(request);
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

/// Sums of what does not lie together, whose results do: in parts, and then the sums of those.
Made makeNeighbourSums(const Request &request, Reduce kernel)
{
    kernel.lanes = lanesOf(request);
    kernel.parts = partsOf(request, kernel.outputs, kernel.each, kernel.lanes);
    if (kernel.parts == 1)
        return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
            kernel.x.data = in[0];
            kernel.y.data = out[0];
            queue.rows(kernel, kernel.blocks());
        });
    auto sums = scratchOf<float>(request, kernel.parts * kernel.outputs);
    if (!sums)
        return sums.error();
    Reduce join = joinedParts(request, kernel.outputs, kernel.parts);
    join.x = {(*sums)->data(), Kind::F32};
    join.y = kernel.y;
    join.divisor = kernel.divisor;
    kernel.y = {(*sums)->data(), Kind::F32, false};
    kernel.divisor = 1;
    return makeFunction([kernel, join, kept = *sums](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        join.y.data = out[0];
        queue.rows(kernel, kernel.blocks());
        queue.rows(join, join.blocks());
    });
}

/// Sums over the middle of (outer, rows, columns).
Made makeRowSums(const Request &request, const Reduce &kernel)
{
    const std::int64_t columns = kernel.outer.dims[kernel.outer.depth - 1];
    const std::int64_t outer = kernel.outer.depth > 1 ? kernel.outer.dims[0] : 1;
    auto sums = RowSums::make(request, kernel.x.kind, outer, kernel.each, columns);
    if (!sums)
        return sums.error();
    return makeFunction([sums = std::move(*sums), x = kernel.x, y = kernel.y,
                         divisor = kernel.divisor](CudaQueue &queue, bool, Inputs in, Outputs out) {
        sums.give(queue, {in[0], x.kind}, {out[0], y.kind, false}, divisor);
    });
}

Made makeReduction(const Request &request, const std::vector<bool> &reduced, Reduce::How how, bool mean = false)
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
    kernel.divisor = mean ? static_cast<float>(kernel.each) : 1.0F;
    const auto innermost = [](const Loops<1> &loops) {
        return loops.depth > 0 ? loops.strides[0][loops.depth - 1] : 0;
    };
    if (how == Reduce::How::Sum && innermost(kernel.outer) == 1 && innermost(kernel.inner) > 1) {
        if (kernel.outer.depth <= 2 && kernel.inner.depth == 1)
            return makeRowSums(request, kernel);
        return makeNeighbourSums(request, kernel);
    }
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.x.data = in[0];
        kernel.y.data = out[0];
        queue.rows(kernel, kernel.blocks());
    });
}

template <Reduce::How how, bool mean = false>
Made makeReduce(const Request &request)
{
    const auto reduced = reducedAxesOf(request, request.in(0).size());
    if (!reduced)
        return onlyOnHost(request);
    return makeReduction(request, *reduced, how, mean);
}

/// Of extremes and products: dX has the shape that was reduced.
template <bool product>
Made makeReduceGradient(const Request &request)
{
    const auto reduced = reducedAxesOf(request, request.out().size());
    if (!reduced || !request.floatInputs(3) || !request.floatOutputs(1))
        return onlyOnHost(request);
    const Divided divided = divide(request.out(), *reduced);
    ReduceGradient kernel;
    kernel.dy = from(request, 0);
    kernel.x = from(request, 1);
    kernel.y = from(request, 2);
    kernel.dx = to(request, 0);
    kernel.product = product ? 1 : 0;
    kernel.outputs = productOf(divided.keptDims);
    kernel.each = productOf(divided.reducedDims);
    kernel.outer = loopsOver<1>(divided.keptDims, {divided.keptStrides});
    kernel.inner = loopsOver<1>(divided.reducedDims, {divided.reducedStrides});
    if (request.inSize(0) != kernel.outputs || request.inSize(2) != kernel.outputs || request.in(1) != request.out())
        return onlyOnHost(request);
    return makeFunction([kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        kernel.dy.data = in[0];
        kernel.x.data = in[1];
        kernel.y.data = in[2];
        kernel.dx.data = out[0];
        queue.rows(kernel, kernel.outputs);
    });
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

constexpr OperatorEntry kTensors[] = {
    {"Concat", makeAlongChannels<makeConcat>, LastChannels::Yes},
    {"ConstantOfShape", makeConstantOfShape},
    {"Expand", makeExpand},
    {"Flatten", makeCopy},
    {"Identity", makeCopy, LastChannels::Alike},
    {"Pad", makePad},
    {"PadGrad", makePadGrad},
    {"ReduceMax", makeReduce<Reduce::How::Largest>},
    {"ReduceMaxGrad", makeReduceGradient<false>},
    {"ReduceMean", makeReduce<Reduce::How::Sum, true>},
    {"ReduceMeanGrad", makeReduceMeanGrad},
    {"ReduceMin", makeReduce<Reduce::How::Smallest>},
    {"ReduceMinGrad", makeReduceGradient<false>},
    {"ReduceProd", makeReduce<Reduce::How::Product>},
    {"ReduceProdGrad", makeReduceGradient<true>},
    {"ReduceSum", makeReduce<Reduce::How::Sum>},
    {"ReduceSumTo", makeReduceSumTo},
    {"Reshape", makeCopy},
    {"Slice", makeAlongChannels<makeSlice>, LastChannels::Yes},
    {"SliceGrad", makeAlongChannels<makeSliceGrad>, LastChannels::Yes},
    {"Split", makeSplit},
    {"Squeeze", makeCopy},
    {"Tile", makeTile},
    {"Transpose", makeTranspose},
    {"Unsqueeze", makeCopy},
};

} // namespace

std::span<const OperatorEntry> tensorOperators() { return kTensors; }

} // namespace planloom::cuda
