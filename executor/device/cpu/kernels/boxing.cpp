// SPDX-License-Identifier: Apache-2.0
// The operators of sharding beside communication: cutting tensors for the devices of a line and putting them together
// again, and the parts of look-ups and losses whose table or classes are split.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace planloom::device {

namespace {

constexpr std::int64_t kElsewhere = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kNowhere = kElsewhere + 1;
constexpr std::int64_t kKept = kElsewhere + 2;

/// How an axis is dealt out: `rows` runs of all segments (one for each index before the axis and each sample on it).
struct Cut {
    std::int64_t rows = 1;
    std::int64_t bytes = 1; ///< of one position
    std::int64_t parts = 1;
    Dims segments;

    [[nodiscard]] std::int64_t wholeRow() const
    {
        return std::accumulate(segments.begin(), segments.end(), std::int64_t{0}) * bytes;
    }

    /// Calls copy(offset in the whole, offset in part @p part, bytes) for every run of bytes that lies together in
    /// both.
    template <class F>
    void each(std::int64_t part, F copy) const
    {
        const std::int64_t whole = wholeRow();
        for (std::int64_t row = 0; row < rows; ++row) {
            std::int64_t from = row * whole;
            std::int64_t to = row * (whole / parts);
            for (const std::int64_t segment : segments) {
                const std::int64_t own = segment / parts * bytes;
                copy(from + part * own, to, static_cast<std::size_t>(own));
                from += segment * bytes;
                to += own;
            }
        }
    }
};

/// How @p whole is cut along the attributes' axis. Error: BadInput if it does not divide.
Result<Cut> cutOf(const Request &request, const Argument &whole, std::int64_t parts)
{
    auto axis = resolveAxis(request, request.op.integer("axis"), whole.dims.size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(whole.dims, *axis);
    Cut cut{1, view.inner * graph::sizeOf(whole.type), parts, request.op.integers("segments")};
    const std::int64_t row = std::accumulate(cut.segments.begin(), cut.segments.end(), std::int64_t{0});
    if (parts < 1 || row < 1 || view.n % row != 0)
        return wrong(request, "segments do not fit an axis of " + std::to_string(view.n));
    for (const std::int64_t segment : cut.segments)
        if (segment % parts != 0)
            return wrong(request,
                         "a segment of " + std::to_string(segment) + " does not divide by " + std::to_string(parts));
    cut.rows = view.outer * (view.n / row);
    return cut;
}

/// This device's place in its line of the mesh.
Result<std::int64_t> placeOf(const Request &request, std::int64_t parts)
{
    const std::int64_t index = request.op.integer("mesh_index", -1);
    if (index < 0 || index >= parts)
        return wrong(request, "attribute 'mesh_index' is missing or out of range");
    return index;
}

Made makeShardSlice(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const auto cut = cutOf(request, request.inputs[0], parts);
    const auto place = placeOf(request, parts);
    if (!cut || !place)
        return cut ? place.error() : cut.error();
    if (request.outputs[0].elements() * parts != request.inputs[0].elements())
        return wrong(request, text(request.out()) + " is not a part of " + text(request.in(0)));
    return makeFunction([cut = *cut, place = *place](Inputs in, Outputs out) {
        cut.each(place, [&](std::int64_t from, std::int64_t to, std::size_t n) {
            std::memcpy(static_cast<char *>(out[0]) + to, static_cast<const char *>(in[0]) + from, n);
        });
    });
}

Made makeShardPad(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const auto cut = cutOf(request, request.outputs[0], parts);
    const auto place = placeOf(request, parts);
    if (!cut || !place)
        return cut ? place.error() : cut.error();
    if (request.inputs[0].elements() * parts != request.outputs[0].elements())
        return wrong(request, text(request.in(0)) + " is not a part of " + text(request.out()));
    return makeFunction([cut = *cut, place = *place](Inputs in, Outputs out) {
        std::memset(out[0], 0, static_cast<std::size_t>(cut.rows * cut.wholeRow()));
        cut.each(place, [&](std::int64_t to, std::int64_t from, std::size_t n) {
            std::memcpy(static_cast<char *>(out[0]) + to, static_cast<const char *>(in[0]) + from, n);
        });
    });
}

Made makePartition(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const auto cut = cutOf(request, request.inputs[0], parts);
    if (!cut)
        return cut.error();
    if (request.outputs[0].elements() != request.inputs[0].elements())
        return wrong(request, "input and output differ in size");
    return makeFunction([cut = *cut](Inputs in, Outputs out) {
        const std::int64_t block = cut.rows * cut.wholeRow() / cut.parts;
        for (std::int64_t part = 0; part < cut.parts; ++part)
            cut.each(part, [&](std::int64_t from, std::int64_t to, std::size_t n) {
                std::memcpy(static_cast<char *>(out[0]) + part * block + to, static_cast<const char *>(in[0]) + from,
                            n);
            });
    });
}

Made makeAssemble(const Request &request)
{
    if (request.in(0).empty())
        return wrong(request, "parts are expected along the first dimension");
    const auto cut = cutOf(request, request.outputs[0], request.in(0)[0]);
    if (!cut)
        return cut.error();
    if (request.outputs[0].elements() != request.inputs[0].elements())
        return wrong(request, "input and output differ in size");
    return makeFunction([cut = *cut](Inputs in, Outputs out) {
        const std::int64_t block = cut.rows * cut.wholeRow() / cut.parts;
        for (std::int64_t part = 0; part < cut.parts; ++part)
            cut.each(part, [&](std::int64_t to, std::int64_t from, std::size_t n) {
                std::memcpy(static_cast<char *>(out[0]) + to, static_cast<const char *>(in[0]) + part * block + from,
                            n);
            });
    });
}

Made makeKeepOnFirst(const Request &request)
{
    const auto place = placeOf(request, std::numeric_limits<std::int64_t>::max());
    if (!place)
        return place.error();
    const auto bytes = static_cast<std::size_t>(request.outputs[0].elements() * graph::sizeOf(request.outputs[0].type));
    if (request.inputs[0].elements() != request.outputs[0].elements())
        return wrong(request, "input and output differ in size");
    return makeFunction([bytes, first = *place == 0](Inputs in, Outputs out) {
        if (first)
            std::memcpy(out[0], in[0], bytes);
        else
            std::memset(out[0], 0, bytes);
    });
}

/// Where positions of a split axis lie, as one device of the line sees it.
struct Shift {
    std::int64_t size, all, first;
    std::int64_t keep = kElsewhere;
    bool fromEnd = false;

    [[nodiscard]] std::int64_t operator()(std::int64_t index) const
    {
        if (index == kElsewhere)
            return index;
        if (index == keep)
            return kKept;
        if (index < 0 && index > kKept && fromEnd)
            index += all;
        if (index < 0 || index >= all)
            return kNowhere;
        return index >= first && index < first + size ? index - first : kElsewhere;
    }
};

Made makeShiftIndices(const Request &request)
{
    const std::int64_t parts = request.op.integer("parts");
    const auto place = placeOf(request, parts);
    if (!place)
        return place.error();
    const std::int64_t size = request.op.integer("size");
    const Shift shift{size, size * parts, size * *place, request.op.integer("keep", kElsewhere),
                      request.op.integer("from_end") != 0};
    if (request.inputs[0].elements() != request.outputs[0].elements())
        return wrong(request, "input and output differ in size");
    return makeFunction([shift, n = request.outputs[0].elements()](Inputs in, Outputs out) {
        for (std::int64_t i = 0; i < n; ++i)
            ints(out[0])[i] = shift(ints(in[0])[i]);
    });
}

Made makeShardGather(const Request &request)
{
    auto axis = resolveAxis(request, request.op.integer("axis"), request.in(0).size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(request.in(0), *axis);
    const std::int64_t lookups = request.inputs[1].elements();
    if (request.outputs[0].elements() != view.outer * lookups * view.inner)
        return wrong(request,
                     text(request.in(0)) + " indexed by " + text(request.in(1)) + " is not " + text(request.out()));
    const graph::DType type = request.inputs[0].type;
    if (type != request.outputs[0].type || (type != graph::DType::F32 && type != graph::DType::BF16))
        return wrong(request, "the rows must be float32 or bfloat16");
    const std::int64_t bytes = view.inner * graph::sizeOf(type);
    return makeFunction([view, lookups, bytes, half = type == graph::DType::BF16](Inputs in, Outputs out) {
        parallelFor(view.outer * lookups, rowGrain(view.inner), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t row = ints(in[1])[i % lookups];
                std::byte *to = static_cast<std::byte *>(out[0]) + i * bytes;
                if (row >= 0 && row < view.n)
                    std::memcpy(to, static_cast<const std::byte *>(in[0]) + (i / lookups * view.n + row) * bytes,
                                static_cast<std::size_t>(bytes));
                else if (row == kElsewhere)
                    std::memset(to, 0, static_cast<std::size_t>(bytes));
                else if (half) // a row that no device has reads as NaN, as Gather's does
                    std::fill_n(reinterpret_cast<std::uint16_t *>(to), view.inner, std::uint16_t{0x7fc0});
                else
                    std::fill_n(reinterpret_cast<float *>(to), view.inner, std::numeric_limits<float>::quiet_NaN());
            }
        });
    });
}

Made makeLossStatistics(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() != 2 || dims[1] < 1 || request.inputs[1].elements() != dims[0]
        || request.outputs[0].elements() != 3 * dims[0])
        return wrong(request, "logits " + text(dims) + ", labels and statistics do not fit");
    const std::int64_t ignore = request.op.integer("ignore_index", -100);
    return makeFunction([rows = dims[0], classes = dims[1], ignore](Inputs in, Outputs out) {
        parallelFor(rows, rowGrain(classes), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
                const float *x = floats(in[0]) + r * classes;
                const std::int64_t label = ints(in[1])[r];
                float *to = floats(out[0]) + 3 * r;
                const float most = *std::max_element(x, x + classes);
                float sum = 0;
                for (std::int64_t i = 0; i < classes; ++i)
                    sum += std::exp(x[i] - most);
                const bool absent = label == kElsewhere || label == ignore;
                const bool own = !absent && label >= 0 && label < classes;
                to[0] = most;
                to[1] = sum;
                to[2] = own ? x[label] : (absent ? 0.0F : std::numeric_limits<float>::quiet_NaN());
            }
        });
    });
}

Made makeCombine(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() != 3 || dims[0] < 1 || dims[2] != 3 || request.outputs[0].elements() != 3 * dims[1])
        return wrong(request, "statistics should be (P, M, 3), got " + text(dims));
    return makeFunction([parts = dims[0], rows = dims[1]](Inputs in, Outputs out) {
        for (std::int64_t r = 0; r < rows; ++r) {
            const float *x = floats(in[0]) + 3 * r;
            float most = x[0];
            for (std::int64_t p = 1; p < parts; ++p)
                most = std::max(most, x[3 * rows * p]);
            float sum = 0;
            float target = 0;
            for (std::int64_t p = 0; p < parts; ++p) {
                sum += x[3 * rows * p + 1] * std::exp(x[3 * rows * p] - most);
                target += x[3 * rows * p + 2];
            }
            float *to = floats(out[0]) + 3 * r;
            to[0] = most;
            to[1] = sum;
            to[2] = target;
        }
    });
}

/// Rows whose label counts, at least one.
double counted(const std::int64_t *labels, std::int64_t rows, std::int64_t ignore)
{
    return static_cast<double>(std::max<std::int64_t>(1, rows - std::count(labels, labels + rows, ignore)));
}

Made makeLossFromStatistics(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() != 2 || dims[1] != 3 || request.inputs[1].elements() != dims[0]
        || (request.hasOutput(1) && request.outputs[1].elements() != 2 * dims[0]))
        return wrong(request, "statistics should be (M, 3), got " + text(dims));
    const std::int64_t ignore = request.op.integer("ignore_index", -100);
    return makeFunction([rows = dims[0], ignore](Inputs in, Outputs out) {
        const float *x = floats(in[0]);
        const std::int64_t *labels = ints(in[1]);
        float *stats = out.size() > 1 ? floats(out[1]) : nullptr;
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
            const float logSumExp = x[3 * r] + std::log(x[3 * r + 1]);
            sum += labels[r] == ignore ? 0.0 : static_cast<double>(logSumExp - x[3 * r + 2]);
            if (stats != nullptr) {
                stats[2 * r] = x[3 * r];
                stats[2 * r + 1] = logSumExp;
            }
        }
        *floats(out[0]) = static_cast<float>(sum / counted(labels, rows, ignore));
    });
}

Made makeLossRowShare(const Request &request)
{
    if (request.inputs[0].elements() != 1)
        return wrong(request, "dLoss should be a scalar");
    const std::int64_t ignore = request.op.integer("ignore_index", -100);
    return makeFunction(
        [own = request.inputs[1].elements(), all = request.inputs[2].elements(), ignore](Inputs in, Outputs out) {
            const double share = counted(ints(in[1]), own, ignore) / counted(ints(in[2]), all, ignore);
            *floats(out[0]) = static_cast<float>(static_cast<double>(*floats(in[0])) * share);
        });
}

constexpr KernelEntry kEntries[] = {
    {"ShardSlice", "*", "*", makeShardSlice},         {"ShardPad", "*", "*", makeShardPad},
    {"Partition", "*", "*", makePartition},           {"Assemble", "*", "*", makeAssemble},
    {"KeepOnFirst", "*", "*", makeKeepOnFirst},       {"ShiftIndices", "i", "i", makeShiftIndices},
    {"ShardGather", "*i", "*", makeShardGather},      {"LossStatistics", "fi", "f", makeLossStatistics},
    {"CombineLossStatistics", "f", "f", makeCombine}, {"LossFromStatistics", "fi", "ff?", makeLossFromStatistics},
    {"LossRowShare", "fii", "f", makeLossRowShare},
};

} // namespace

std::span<const KernelEntry> boxingKernels() { return kEntries; }

} // namespace planloom::device
