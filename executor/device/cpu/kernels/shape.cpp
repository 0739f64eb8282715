// SPDX-License-Identifier: Apache-2.0
// Operators that move elements and compute nothing. All of them are strided copies; the strides are worked out here,
// once.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/strided.h"

#include <cstring>
#include <utility>

namespace planloom::device {

namespace {

std::int64_t bytesOf(const Argument &argument) { return graph::sizeOf(argument.type); }

Status expectSameType(const Request &request)
{
    if (request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "input and output have different data types");
    return {};
}

/// The same elements in the same order: Reshape and its kin.
Made makeCopy(const Request &request)
{
    if (auto status = expectSameType(request); !status)
        return status.error();
    const std::int64_t n = request.outputs[0].elements();
    if (n != request.inputs[0].elements())
        return wrong(request, text(request.in(0)) + " does not have as many elements as " + text(request.out()));
    const std::int64_t bytes = n * bytesOf(request.outputs[0]);
    return makeFunction([bytes](Inputs in, Outputs out) {
        const auto *from = static_cast<const char *>(in[0]);
        auto *to = static_cast<char *>(out[0]);
        parallelFor(bytes, 8 * kGrain, [=](std::int64_t begin, std::int64_t end) {
            std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        });
    });
}

Made makeStrided(const StridedCopy &copy)
{
    return makeFunction([copy](Inputs in, Outputs out) { copy.run(in[0], out[0]); });
}

/// A copy: in inference, and in training with ratio 0.
Made makeDropout(const Request &request)
{
    if (request.op.number("ratio", 0.0) != 0.0)
        return makeRandomDropout(request);
    if (!request.hasOutput(1))
        return makeCopy(request);
    auto copy = makeCopy(request);
    if (!copy)
        return copy;
    const std::int64_t kept = request.outputs[1].elements();
    return makeFunction([kernel = std::shared_ptr<Kernel>(std::move(*copy)), kept](Inputs in, Outputs out) {
        kernel->run(in, out.first(1));
        std::memset(out[1], 1, static_cast<std::size_t>(kept));
    });
}

Made makeTranspose(const Request &request)
{
    const Dims &from = request.in(0);
    Dims perm = request.op.integers("perm");
    if (perm.empty()) {
        for (std::size_t d = from.size(); d-- > 0;)
            perm.push_back(static_cast<std::int64_t>(d));
    }
    if (perm.size() != from.size() || request.out().size() != from.size())
        return wrong(request, "perm " + text(perm) + " does not fit " + text(from));
    const auto own = rowMajorStrides(from);
    Dims strides(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) {
        auto source = resolveAxis(request, perm[d], from.size());
        if (!source)
            return source.error();
        if (request.out()[d] != from[*source])
            return wrong(request, text(from) + " by " + text(perm) + " is not " + text(request.out()));
        strides[d] = own[*source];
    }
    return makeStrided({bytesOf(request.inputs[0]), request.out(), strides, rowMajorStrides(request.out())});
}

Made makeExpand(const Request &request)
{
    const auto strides = broadcastStrides(request.in(0), request.out());
    if (strides.size() != request.out().size())
        return wrong(request, text(request.in(0)) + " does not expand to " + text(request.out()));
    return makeStrided({bytesOf(request.inputs[0]), request.out(), strides, rowMajorStrides(request.out())});
}

Made makeTile(const Request &request)
{
    const Dims &from = request.in(0);
    const Dims repeats = request.op.integers("repeats");
    if (repeats.size() != from.size() || request.out().size() != from.size())
        return wrong(request, "repeats " + text(repeats) + " does not fit " + text(from));
    const auto own = rowMajorStrides(from);
    Dims dims;
    Dims strides;
    for (std::size_t d = 0; d < from.size(); ++d) { // every dimension is two: which copy, which element
        if (request.out()[d] != repeats[d] * from[d])
            return wrong(request, text(from) + " tiled by " + text(repeats) + " is not " + text(request.out()));
        dims.insert(dims.end(), {repeats[d], from[d]});
        strides.insert(strides.end(), {0, own[d]});
    }
    return makeStrided({bytesOf(request.inputs[0]), dims, strides, rowMajorStrides(dims)});
}

/// The part of a tensor that Slice takes: counts, and where it starts and how it steps, per dimension.
struct Window {
    Dims counts, starts, steps;
};

Result<Window> windowOf(const Request &request, const Dims &whole)
{
    Window window{whole, Dims(whole.size(), 0), Dims(whole.size(), 1)};
    const Dims starts = request.op.integers("starts");
    const Dims ends = request.op.integers("ends");
    Dims axes = request.op.integers("axes");
    const Dims steps = request.op.integers("steps", Dims(starts.size(), 1));
    for (std::size_t i = axes.size(); i < starts.size() && !request.op.has("axes"); ++i)
        axes.push_back(static_cast<std::int64_t>(i));
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        return wrong(request, "starts, ends, axes and steps differ in length");
    for (std::size_t i = 0; i < starts.size(); ++i) {
        auto axis = resolveAxis(request, axes[i], whole.size());
        if (!axis)
            return axis.error();
        const std::int64_t n = whole[*axis];
        const std::int64_t step = steps[i];
        if (step == 0)
            return wrong(request, "a step is 0");
        const std::int64_t lowest = step > 0 ? 0 : -1;
        const std::int64_t highest = step > 0 ? n : n - 1;
        // Ends far outside, such as the largest int64, mean "to the end".
        const std::int64_t start =
            std::clamp<std::int64_t>(starts[i] < 0 ? starts[i] + n : starts[i], step > 0 ? 0 : -1, highest);
        const std::int64_t end =
            std::clamp<std::int64_t>(ends[i] < 0 && ends[i] >= -n ? ends[i] + n : ends[i], lowest, highest);
        const std::int64_t span = step > 0 ? end - start : start - end;
        const std::int64_t stride = step > 0 ? step : -step;
        window.counts[*axis] = span <= 0 ? 0 : (span - 1) / stride + 1;
        window.starts[*axis] = start;
        window.steps[*axis] = step;
    }
    return window;
}

struct WindowStrides {
    Dims strides;
    std::int64_t offset = 0;
};

WindowStrides stridesOf(const Window &window, const Dims &whole)
{
    WindowStrides result{rowMajorStrides(whole), 0};
    for (std::size_t d = 0; d < whole.size(); ++d) {
        result.offset += window.starts[d] * result.strides[d];
        result.strides[d] *= window.steps[d];
    }
    return result;
}

Made makeSlice(const Request &request)
{
    auto window = windowOf(request, request.in(0));
    if (!window)
        return window.error();
    if (window->counts != request.out())
        return wrong(request,
                     "the slice of " + text(request.in(0)) + " is " + text(window->counts) + ", not "
                         + text(request.out()));
    const WindowStrides source = stridesOf(*window, request.in(0));
    return makeStrided(
        {bytesOf(request.inputs[0]), request.out(), source.strides, rowMajorStrides(request.out()), source.offset, 0});
}

/// Zeros, with dY where the slice was.
Made makeSliceGrad(const Request &request)
{
    auto window = windowOf(request, request.out());
    if (!window)
        return window.error();
    if (window->counts != request.in(0))
        return wrong(request,
                     "the slice of " + text(request.out()) + " is " + text(window->counts) + ", not "
                         + text(request.in(0)));
    const WindowStrides target = stridesOf(*window, request.out());
    const StridedCopy copy(sizeof(float), request.in(0), rowMajorStrides(request.in(0)), target.strides, 0,
                           target.offset);
    const std::int64_t n = request.outputs[0].elements();
    return makeFunction([copy, n](Inputs in, Outputs out) {
        std::memset(out[0], 0, static_cast<std::size_t>(n) * sizeof(float));
        copy.run(in[0], out[0]);
    });
}

template <class T>
void fillConstant(double value, std::int64_t n, void *data)
{
    std::fill_n(static_cast<T *>(data), n, static_cast<T>(value));
}

using Fill = void (*)(double, std::int64_t, void *);

Fill fillFor(graph::DType type)
{
    switch (type) {
    case graph::DType::F32: return fillConstant<float>;
    case graph::DType::F64: return fillConstant<double>;
    case graph::DType::I64: return fillConstant<std::int64_t>;
    case graph::DType::I32: return fillConstant<std::int32_t>;
    case graph::DType::I8: return fillConstant<std::int8_t>;
    case graph::DType::U8:
    case graph::DType::Bool: return fillConstant<std::uint8_t>;
    default: return nullptr;
    }
}

/// pads: how many before each dimension, then how many after; negative ones cut.
Made makePad(const Request &request)
{
    const Dims &from = request.in(0);
    const Dims pads = request.op.integers("pads");
    const Fill fill = fillFor(request.outputs[0].type);
    if (request.op.text("mode", "constant") != "constant")
        return makeMirroredPad(request);
    if (pads.size() != 2 * from.size() || request.out().size() != from.size() || fill == nullptr)
        return wrong(request, "pads " + text(pads) + " does not fit " + text(from));
    const auto sourceStrides = rowMajorStrides(from);
    const auto targetStrides = rowMajorStrides(request.out());
    Dims counts = from;
    std::int64_t sourceOffset = 0;
    std::int64_t targetOffset = 0;
    for (std::size_t d = 0; d < from.size(); ++d) {
        const std::int64_t before = pads[d];
        const std::int64_t after = pads[from.size() + d];
        if (request.out()[d] != from[d] + before + after)
            return wrong(request, text(from) + " padded by " + text(pads) + " is not " + text(request.out()));
        counts[d] =
            std::max<std::int64_t>(0, from[d] + std::min<std::int64_t>(0, before) + std::min<std::int64_t>(0, after));
        sourceOffset += std::max<std::int64_t>(0, -before) * sourceStrides[d];
        targetOffset += std::max<std::int64_t>(0, before) * targetStrides[d];
    }
    const StridedCopy copy(bytesOf(request.inputs[0]), counts, sourceStrides, targetStrides, sourceOffset,
                           targetOffset);
    return makeFunction(
        [copy, fill, value = request.op.number("value"), n = request.outputs[0].elements()](Inputs in, Outputs out) {
            fill(value, n, out[0]);
            copy.run(in[0], out[0]);
        });
}

Made makeConstantOfShape(const Request &request)
{
    const Fill fill = fillFor(request.outputs[0].type);
    if (fill == nullptr)
        return cannot(request, std::string("data type ") + graph::name(request.outputs[0].type));
    return makeFunction([fill, value = request.op.number("value"),
                         n = request.outputs[0].elements()](Inputs, Outputs out) { fill(value, n, out[0]); });
}

/// Copies of parts between a whole tensor and its pieces along an axis.
Result<std::vector<StridedCopy>> pieces(const Request &request, const Argument &whole,
                                        const std::vector<Argument> &parts, bool gather)
{
    auto axis = resolveAxis(request, request.op.integer("axis"), whole.dims.size());
    if (!axis)
        return axis.error();
    const auto strides = rowMajorStrides(whole.dims);
    std::vector<StridedCopy> copies;
    std::int64_t at = 0;
    for (const Argument &part : parts) {
        Dims expected = whole.dims;
        expected[*axis] = part.dims.size() == whole.dims.size() ? part.dims[*axis] : -1;
        if (part.dims != expected || part.type != whole.type)
            return wrong(request, text(part.dims) + " is no part of " + text(whole.dims));
        const auto own = rowMajorStrides(part.dims);
        const std::int64_t offset = at * strides[*axis];
        if (gather)
            copies.emplace_back(bytesOf(part), part.dims, own, strides, 0, offset);
        else
            copies.emplace_back(bytesOf(part), part.dims, strides, own, offset, 0);
        at += part.dims[*axis];
    }
    if (at != whole.dims[*axis])
        return wrong(request, "the parts do not make " + text(whole.dims));
    return copies;
}

Made makeConcat(const Request &request)
{
    auto copies = pieces(request, request.outputs[0], request.inputs, true);
    if (!copies)
        return copies.error();
    return makeFunction([copies = std::move(*copies)](Inputs in, Outputs out) {
        for (std::size_t i = 0; i < copies.size(); ++i)
            copies[i].run(in[i], out[0]);
    });
}

Made makeSplit(const Request &request)
{
    auto copies = pieces(request, request.inputs[0], request.outputs, false);
    if (!copies)
        return copies.error();
    return makeFunction([copies = std::move(*copies)](Inputs in, Outputs out) {
        for (std::size_t i = 0; i < copies.size(); ++i)
            copies[i].run(in[0], out[i]);
    });
}

constexpr KernelEntry kEntries[] = {
    {"Concat", "*+", "*", makeConcat},
    {"ConstantOfShape", "*?", "*", makeConstantOfShape},
    {"Dropout", "f*?*?", "fb?", makeDropout},
    {"DropoutGrad", "f", "f", makeRandomDropout},
    {"Expand", "*", "*", makeExpand},
    {"Flatten", "*", "*", makeCopy},
    {"Identity", "*", "*", makeCopy},
    {"Pad", "*", "*", makePad},
    {"PadGrad", "f", "f", makePadGrad},
    {"Reshape", "*", "*", makeCopy},
    {"Slice", "*", "*", makeSlice},
    {"SliceGrad", "f", "f", makeSliceGrad},
    {"Split", "*", "*+", makeSplit},
    {"Squeeze", "*", "*", makeCopy},
    {"Tile", "*", "*", makeTile},
    {"Transpose", "*", "*", makeTranspose},
    {"Unsqueeze", "*", "*", makeCopy},
};

} // namespace

std::span<const KernelEntry> shapeKernels() { return kEntries; }

} // namespace planloom::device
