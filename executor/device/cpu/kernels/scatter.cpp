// SPDX-License-Identifier: Apache-2.0
// ScatterElements, ScatterND and TopK. Updates that meet in one place come in order, so a scatter is one loop.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/strided.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace planloom::device {

namespace {

enum class Reduction : std::uint8_t { None, Add, Mul };

Result<Reduction> reductionOf(const Request &request)
{
    const std::string name = request.op.text("reduction", "none");
    if (name == "none")
        return Reduction::None;
    if (name == "add")
        return Reduction::Add;
    if (name == "mul")
        return Reduction::Mul;
    return cannot(request, "attribute 'reduction' is '" + name + "'");
}

void put(Reduction how, const float *updates, std::int64_t n, float *y)
{
    for (std::int64_t i = 0; i < n; ++i) {
        switch (how) {
        case Reduction::None: y[i] = updates[i]; break;
        case Reduction::Add: y[i] += updates[i]; break;
        case Reduction::Mul: y[i] *= updates[i]; break;
        }
    }
}

/// An index that may count from the end; -1 if it lies outside.
std::int64_t within(std::int64_t index, std::int64_t size)
{
    const std::int64_t at = index < 0 ? index + size : index;
    return at >= 0 && at < size ? at : -1;
}

/// The mark of an index out of range: an error that is seen at once.
void markOutside(float *y) { *y = std::numeric_limits<float>::quiet_NaN(); }

Made makeScatterElements(const Request &request)
{
    const Dims &data = request.in(0);
    const Dims &dims = request.in(1);
    auto axis = resolveAxis(request, request.op.integer("axis"), data.size());
    auto reduction = reductionOf(request);
    if (!axis || !reduction)
        return axis ? reduction.error() : axis.error();
    bool fits = dims.size() == data.size() && request.in(2) == dims && request.out() == data;
    for (std::size_t d = 0; fits && d < dims.size(); ++d)
        fits = d == *axis || dims[d] <= data[d];
    if (!fits)
        return wrong(request,
                     "indices " + text(dims) + " and updates " + text(request.in(2)) + " do not fit the data "
                         + text(data));
    return makeFunction([data, dims, axis = *axis, how = *reduction, strides = rowMajorStrides(data),
                         elements = product(data), count = product(dims),
                         index = Dims(dims.size(), 0)](Inputs in, Outputs out) mutable {
        float *y = floats(out[0]);
        std::copy_n(floats(in[0]), elements, y);
        std::fill(index.begin(), index.end(), 0);
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t at = 0;
            for (std::size_t d = 0; d < dims.size(); ++d)
                at += d == axis ? 0 : index[d] * strides[d];
            const std::int64_t there = within(ints(in[1])[i], data[axis]);
            if (there < 0)
                markOutside(y + at);
            else
                put(how, floats(in[2]) + i, 1, y + at + there * strides[axis]);
            for (std::size_t d = dims.size(); d-- > 0;) {
                if (++index[d] < dims[d])
                    break;
                index[d] = 0;
            }
        }
    });
}

Made makeScatterNd(const Request &request)
{
    const Dims &data = request.in(0);
    const Dims &dims = request.in(1);
    auto reduction = reductionOf(request);
    if (!reduction)
        return reduction.error();
    const std::size_t depth = dims.empty() ? 0 : static_cast<std::size_t>(dims.back());
    if (dims.empty() || dims.back() < 0 || depth > data.size() || request.out() != data)
        return wrong(request, "indices " + text(dims) + " do not fit the data " + text(data));
    const std::int64_t slice = product(data, depth, data.size());
    const std::int64_t rows = product(dims, 0, dims.size() - 1);
    if (request.inputs[2].elements() != rows * slice)
        return wrong(request,
                     "updates " + text(request.in(2)) + " do not fit indices " + text(dims) + " of the data "
                         + text(data));
    return makeFunction([data, depth, slice, rows, how = *reduction, strides = rowMajorStrides(data),
                         elements = product(data)](Inputs in, Outputs out) {
        float *y = floats(out[0]);
        std::copy_n(floats(in[0]), elements, y);
        const auto width = static_cast<std::int64_t>(depth);
        for (std::int64_t row = 0; row < rows; ++row) {
            std::int64_t at = 0;
            bool inside = true;
            for (std::size_t d = 0; d < depth; ++d) {
                const std::int64_t there = within(ints(in[1])[row * width + static_cast<std::int64_t>(d)], data[d]);
                inside = inside && there >= 0;
                at += there * strides[d];
            }
            if (inside)
                put(how, floats(in[2]) + row * slice, slice, y + at);
            else if (elements > 0)
                markOutside(y);
        }
    });
}

Made makeTopK(const Request &request)
{
    const Dims &x = request.in(0);
    auto axis = resolveAxis(request, request.op.integer("axis", -1), x.size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(x, *axis);
    Dims expected = x;
    expected[*axis] = request.op.integer("k");
    if (expected[*axis] < 0 || expected[*axis] > view.n || request.out() != expected || request.out(1) != expected)
        return wrong(request,
                     text(x) + " has no " + std::to_string(expected[*axis]) + " elements along axis "
                         + std::to_string(*axis) + " for " + text(request.out()));
    const bool largest = request.op.integer("largest", 1) != 0;
    return makeFunction(
        [view, k = expected[*axis], largest,
         order = std::vector<std::int64_t>(static_cast<std::size_t>(view.n))](Inputs in, Outputs out) mutable {
            for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
                const std::int64_t outer = line / view.inner;
                const std::int64_t inner = line % view.inner;
                const float *from = floats(in[0]) + outer * view.n * view.inner + inner;
                std::iota(order.begin(), order.end(), 0);
                std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t a, std::int64_t b) {
                    const float left = from[a * view.inner];
                    const float right = from[b * view.inner];
                    if (std::isnan(left) || std::isnan(right)) // NaN comes last
                        return std::isnan(left) == std::isnan(right) ? a < b : std::isnan(right);
                    return left != right ? (largest ? left > right : left < right) : a < b;
                });
                for (std::int64_t i = 0; i < k; ++i) {
                    const std::int64_t to = (outer * k + i) * view.inner + inner;
                    floats(out[0])[to] = from[order[static_cast<std::size_t>(i)] * view.inner];
                    ints(out[1])[to] = order[static_cast<std::size_t>(i)];
                }
            }
        });
}

constexpr KernelEntry kEntries[] = {
    {"ScatterElements", "fif", "f", makeScatterElements},
    {"ScatterND", "fif", "f", makeScatterNd},
    {"TopK", "f", "fi", makeTopK},
};

} // namespace

std::span<const KernelEntry> scatterKernels() { return kEntries; }

} // namespace planloom::device
