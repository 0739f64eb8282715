// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements by index or condition, or change their type.
#include "executor/device/adding_kernel.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/narrow_floats.h"
#include "executor/device/cpu/strided.h"

#include <cstring>
#include <limits>

namespace planloom::device {

namespace {

struct Table {
    AxisView view;            ///< of the table, at the axis that is indexed
    std::int64_t lookups = 0; ///< number of indices
};

Result<Table> tableOf(const Request &request, const Argument &table, const Argument &indices, const Argument &picked)
{
    auto axis = resolveAxis(request, request.op.integer("axis"), table.dims.size());
    if (!axis)
        return axis.error();
    const Table result{viewAt(table.dims, *axis), indices.elements()};
    if (picked.elements() != result.view.outer * result.lookups * result.view.inner)
        return wrong(request, text(table.dims) + " indexed by " + text(indices.dims) + " is not " + text(picked.dims));
    return result;
}

/// Counts from the end where negative; -1 where outside.
std::int64_t rowOf(std::int64_t index, std::int64_t rows)
{
    const std::int64_t row = index < 0 ? index + rows : index;
    return row >= 0 && row < rows ? row : -1;
}

/// A row that does not exist reads as NaN (integers: 0): it shows in the loss at once and reads nothing that is not
/// there.
void missingRow(graph::DType type, std::int64_t elements, std::int64_t elementBytes, char *target)
{
    if (type == graph::DType::F32)
        std::fill_n(reinterpret_cast<float *>(target), elements, std::numeric_limits<float>::quiet_NaN());
    else
        std::memset(target, 0, static_cast<std::size_t>(elements * elementBytes));
}

Made makeGather(const Request &request)
{
    auto made = tableOf(request, request.inputs[0], request.inputs[1], request.outputs[0]);
    if (!made)
        return made.error();
    const graph::DType type = request.inputs[0].type;
    if (type != request.outputs[0].type)
        return wrong(request, "data and output have different data types");
    return makeFunction([table = *made, type](Inputs in, Outputs out) {
        const std::int64_t size = graph::sizeOf(type);
        const std::int64_t rowBytes = table.view.inner * size;
        const auto *data = static_cast<const char *>(in[0]);
        auto *picked = static_cast<char *>(out[0]);
        parallelFor(table.view.outer * table.lookups, rowGrain(table.view.inner),
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) {
                            const std::int64_t row = rowOf(ints(in[1])[i % table.lookups], table.view.n);
                            if (row < 0)
                                missingRow(type, table.view.inner, size, picked + i * rowBytes);
                            else
                                std::memcpy(picked + i * rowBytes,
                                            data + (i / table.lookups * table.view.n + row) * rowBytes,
                                            static_cast<std::size_t>(rowBytes));
                        }
                    });
    });
}

/// Adds up rows of equal index. Threads share out the columns, so each sum is made in the order of the indices.
class GatherGradient final : public AddingKernel {
public:
    GatherGradient(const Table &table, std::int64_t elements) : m_table(table), m_elements(elements) {}

    void run(Inputs in, Outputs out) override
    {
        float *dx = floats(out[0]);
        parallelFor(m_elements, 8 * kGrain,
                    [=](std::int64_t begin, std::int64_t end) { std::fill(dx + begin, dx + end, 0.0F); });
        add(in, out);
    }

    void add(Inputs in, Outputs out) override
    {
        const AxisView &view = m_table.view;
        const float *dy = floats(in[0]);
        const std::int64_t *indices = ints(in[1]);
        float *dx = floats(out[0]);
        const std::int64_t lookups = m_table.lookups;
        const std::int64_t columns = std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(1, lookups));
        parallelFor(view.inner, columns, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = 0; i < view.outer * lookups; ++i) {
                const std::int64_t row = rowOf(indices[i % lookups], view.n);
                if (row < 0)
                    continue;
                const float *from = dy + i * view.inner;
                float *to = dx + (i / lookups * view.n + row) * view.inner;
                for (std::int64_t c = begin; c < end; ++c)
                    to[c] += from[c];
            }
        });
    }

private:
    Table m_table;
    std::int64_t m_elements;
};

Made makeGatherGrad(const Request &request)
{
    auto made = tableOf(request, request.outputs[0], request.inputs[1], request.inputs[0]);
    if (!made)
        return made.error();
    return Made(std::make_unique<GatherGradient>(*made, request.outputs[0].elements()));
}

template <class T>
Made makeWhereOf(const LoopNest<4> &nest)
{
    return makeFunction([nest](Inputs in, Outputs out) {
        const auto *condition = static_cast<const std::uint8_t *>(in[0]);
        const auto *a = static_cast<const T *>(in[1]);
        const auto *b = static_cast<const T *>(in[2]);
        auto *y = static_cast<T *>(out[0]);
        const auto step = nest.innerStrides();
        nest.run([=](const auto &at, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
                y[at[3] + i * step[3]] =
                    condition[at[0] + i * step[0]] != 0 ? a[at[1] + i * step[1]] : b[at[2] + i * step[2]];
        });
    });
}

Made makeWhere(const Request &request)
{
    std::array<std::vector<std::int64_t>, 4> strides;
    for (std::size_t i = 0; i < 3; ++i) {
        strides[i] = broadcastStrides(request.in(i), request.out());
        if (strides[i].size() != request.out().size())
            return wrong(request, text(request.in(i)) + " does not broadcast to " + text(request.out()));
    }
    strides[3] = rowMajorStrides(request.out());
    const graph::DType type = request.outputs[0].type;
    if (request.inputs[1].type != type || request.inputs[2].type != type)
        return wrong(request, "both choices and the output must have one data type");
    const LoopNest<4> nest(request.out(), strides);
    switch (graph::sizeOf(type)) {
    case 1: return makeWhereOf<std::uint8_t>(nest);
    case 2: return makeWhereOf<std::uint16_t>(nest);
    case 4: return makeWhereOf<std::uint32_t>(nest);
    default: return makeWhereOf<std::uint64_t>(nest);
    }
}

/// Which elements of matrices are kept: those above (upper) or below a diagonal.
struct Triangle {
    std::int64_t lines, rows, columns, diagonal;
    bool upper;
};

template <class T>
Made makeTriangle(const Triangle &triangle)
{
    return makeFunction([triangle](Inputs in, Outputs out) {
        const std::int64_t columns = triangle.columns;
        parallelFor(triangle.lines, rowGrain(columns), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t line = begin; line < end; ++line) {
                const T *x = static_cast<const T *>(in[0]) + line * columns;
                T *y = static_cast<T *>(out[0]) + line * columns;
                const std::int64_t border = line % triangle.rows + triangle.diagonal; // column on the diagonal
                for (std::int64_t c = 0; c < columns; ++c)
                    y[c] = (triangle.upper ? c >= border : c <= border) ? x[c] : T{};
            }
        });
    });
}

Made makeTrilu(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() < 2 || dims != request.out() || request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "needs matrices, got " + text(dims));
    const Triangle triangle{product(dims, 0, dims.size() - 1), dims[dims.size() - 2], dims.back(),
                            request.op.integer("k"), request.op.integer("upper", 1) != 0};
    switch (graph::sizeOf(request.inputs[0].type)) {
    case 1: return makeTriangle<std::uint8_t>(triangle);
    case 2: return makeTriangle<std::uint16_t>(triangle);
    case 4: return makeTriangle<std::uint32_t>(triangle); // all bits 0 is 0.0, too
    default: return makeTriangle<std::uint64_t>(triangle);
    }
}

template <class From, class To>
void convert(const void *from, void *to, std::int64_t n)
{
    const auto *x = static_cast<const From *>(from);
    auto *y = static_cast<To *>(to);
    for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (kIsFloat<From> && std::is_integral_v<To>) {
            // Outside the integers' range, and for a NaN, the language defines nothing: take the nearest end, and 0.
            constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min());
            constexpr auto kHigh = static_cast<double>(std::numeric_limits<To>::max());
            const auto value = static_cast<double>(x[i]);
            if (value >= kHigh)
                y[i] = std::numeric_limits<To>::max();
            else
                y[i] = value > kLow ? static_cast<To>(value) : (value <= kLow ? std::numeric_limits<To>::min() : To{0});
        } else if constexpr (std::is_arithmetic_v<From>) {
            y[i] = static_cast<To>(x[i]);
        } else {
            y[i] = static_cast<To>(static_cast<float>(x[i]));
        }
    }
}

template <class From>
void toBool(const void *from, void *to, std::int64_t n)
{
    const auto *x = static_cast<const From *>(from);
    auto *y = static_cast<std::uint8_t *>(to);
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = widen(x[i]) != 0;
}

using Convert = void (*)(const void *, void *, std::int64_t);

template <class From>
Convert convertTo(graph::DType type)
{
    switch (type) {
    case graph::DType::F32: return convert<From, float>;
    case graph::DType::F64: return convert<From, double>;
    case graph::DType::F16: return convert<From, Half>;
    case graph::DType::BF16: return convert<From, BFloat16>;
    case graph::DType::I64: return convert<From, std::int64_t>;
    case graph::DType::I32: return convert<From, std::int32_t>;
    case graph::DType::I8: return convert<From, std::int8_t>;
    case graph::DType::U8: return convert<From, std::uint8_t>;
    case graph::DType::Bool: return toBool<From>;
    }
    return nullptr;
}

Convert converter(graph::DType from, graph::DType to)
{
    switch (from) {
    case graph::DType::F32: return convertTo<float>(to);
    case graph::DType::F64: return convertTo<double>(to);
    case graph::DType::F16: return convertTo<Half>(to);
    case graph::DType::BF16: return convertTo<BFloat16>(to);
    case graph::DType::I64: return convertTo<std::int64_t>(to);
    case graph::DType::I32: return convertTo<std::int32_t>(to);
    case graph::DType::I8: return convertTo<std::int8_t>(to);
    case graph::DType::U8:
    case graph::DType::Bool: return convertTo<std::uint8_t>(to);
    }
    return nullptr;
}

Made makeCast(const Request &request)
{
    const graph::DType from = request.inputs[0].type;
    const graph::DType to = request.outputs[0].type;
    const Convert function = converter(from, to);
    if (function == nullptr)
        return cannot(request, std::string("from ") + graph::name(from) + " to " + graph::name(to));
    if (request.inputs[0].elements() != request.outputs[0].elements())
        return wrong(request, "input and output differ in size");
    const std::int64_t sizeFrom = graph::sizeOf(from);
    const std::int64_t sizeTo = graph::sizeOf(to);
    return makeFunction([=, n = request.outputs[0].elements()](Inputs in, Outputs out) {
        parallelFor(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
            function(static_cast<const char *>(in[0]) + begin * sizeFrom, static_cast<char *>(out[0]) + begin * sizeTo,
                     end - begin);
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"Cast", "*", "*", makeCast},   {"Gather", "*i", "*", makeGather}, {"GatherGrad", "fi", "f", makeGatherGrad},
    {"Trilu", "*", "*", makeTrilu}, {"Where", "b**", "*", makeWhere},
};

} // namespace

std::span<const KernelEntry> indexKernels() { return kEntries; }

} // namespace planloom::device
