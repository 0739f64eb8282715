// SPDX-License-Identifier: Apache-2.0
// SpMM and its gradients: sums of rows by lists of indices.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"

#include <algorithm>
#include <limits>

namespace planloom::device {

namespace {

/// Which entries belong to which row of the product. Offsets and indices come with the data: whatever they are, nothing
/// outside of the tensors is read or written.
struct EntryLists {
    std::int64_t rows = 0;
    std::int64_t entries = 0;
    std::int64_t columns = 0;
    std::int64_t sources = 0; ///< rows of X
    bool mean = false;

    struct Range {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        float scale = 1;
    };
    /// Row r has the entries from where row r - 1 ends to offsets[r].
    [[nodiscard]] Range of(const std::int64_t *offsets, std::int64_t row) const
    {
        const auto inside = [this](std::int64_t at) { return std::clamp<std::int64_t>(at, 0, entries); };
        Range range;
        range.begin = row == 0 ? 0 : inside(offsets[row - 1]);
        range.end = std::max(range.begin, inside(offsets[row]));
        if (mean && range.end > range.begin)
            range.scale = 1.0F / static_cast<float>(range.end - range.begin);
        return range;
    }
    [[nodiscard]] bool has(std::int64_t source) const { return source >= 0 && source < sources; }
};

Result<EntryLists> listsOf(const Request &request, const Dims &product, const Dims &offsets, const Dims &indices,
                           const Dims &x)
{
    if (product.size() != 2 || x.size() != 2 || offsets.size() != 1 || indices.size() != 1 || product[0] != offsets[0]
        || product[1] != x[1])
        return wrong(request,
                     "offsets " + text(offsets) + ", indices " + text(indices) + " and " + text(x) + " do not make "
                         + text(product));
    return EntryLists{product[0], indices[0], product[1], x[0], request.op.text("reduce", "sum") == "mean"};
}

Made makeSpMM(const Request &request)
{
    const auto made = listsOf(request, request.out(), request.in(0), request.in(1), request.in(2));
    if (!made)
        return made.error();
    const bool weighted = request.hasInput(3);
    if (weighted && request.in(3) != request.in(1))
        return wrong(request, "weights " + text(request.in(3)) + " are not one an entry of " + text(request.in(1)));
    return makeFunction([lists = *made, weighted](Inputs in, Outputs out) {
        const std::int64_t columns = lists.columns;
        const std::int64_t perRow = 1 + lists.entries / std::max<std::int64_t>(1, lists.rows);
        parallelFor(lists.rows, rowGrain(perRow * columns), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const EntryLists::Range range = lists.of(ints(in[0]), row);
                float *y = floats(out[0]) + row * columns;
                std::fill_n(y, columns, 0.0F);
                for (std::int64_t e = range.begin; e < range.end; ++e) {
                    const std::int64_t source = ints(in[1])[e];
                    if (!lists.has(source)) { // shows in the loss at once
                        std::fill_n(y, columns, std::numeric_limits<float>::quiet_NaN());
                        break;
                    }
                    const float *x = floats(in[2]) + source * columns;
                    const float weight = weighted ? floats(in[3])[e] : 1.0F;
                    for (std::int64_t c = 0; c < columns; ++c)
                        y[c] += weight * x[c];
                }
                if (range.scale != 1.0F) {
                    for (std::int64_t c = 0; c < columns; ++c)
                        y[c] *= range.scale;
                }
            }
        });
    });
}

/// Threads share out the columns, so each sum is made in the order of the entries.
Made makeSpMMGrad(const Request &request)
{
    const auto made = listsOf(request, request.in(0), request.in(1), request.in(2), request.out());
    if (!made)
        return made.error();
    const bool weighted = request.hasInput(3);
    if (weighted && request.in(3) != request.in(2))
        return wrong(request, "weights " + text(request.in(3)) + " are not one an entry of " + text(request.in(2)));
    return makeFunction([lists = *made, weighted](Inputs in, Outputs out) {
        float *dx = floats(out[0]);
        const float *dy = floats(in[0]);
        const std::int64_t stride = lists.columns;
        parallelFor(lists.sources * stride, 8 * kGrain,
                    [=](std::int64_t begin, std::int64_t end) { std::fill(dx + begin, dx + end, 0.0F); });
        const std::int64_t columns =
            std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(1, lists.entries + lists.rows));
        parallelFor(stride, columns, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = 0; row < lists.rows; ++row) {
                const EntryLists::Range range = lists.of(ints(in[1]), row);
                const float *from = dy + row * stride;
                for (std::int64_t e = range.begin; e < range.end; ++e) {
                    const std::int64_t source = ints(in[2])[e];
                    if (!lists.has(source))
                        continue;
                    const float weight = range.scale * (weighted ? floats(in[3])[e] : 1.0F);
                    float *to = dx + source * stride;
                    for (std::int64_t c = begin; c < end; ++c)
                        to[c] += weight * from[c];
                }
            }
        });
    });
}

/// Entries behind the last row have no part in the product.
Made makeSpMMWeightGrad(const Request &request)
{
    const auto made = listsOf(request, request.in(0), request.in(1), request.in(2), request.in(3));
    if (!made)
        return made.error();
    if (request.out() != request.in(2))
        return wrong(request, text(request.out()) + " is not one an entry of " + text(request.in(2)));
    return makeFunction([lists = *made](Inputs in, Outputs out) {
        float *dw = floats(out[0]);
        std::fill_n(dw, lists.entries, 0.0F);
        for (std::int64_t row = 0; row < lists.rows; ++row) {
            const EntryLists::Range range = lists.of(ints(in[1]), row);
            const float *dy = floats(in[0]) + row * lists.columns;
            for (std::int64_t e = range.begin; e < range.end; ++e) {
                const std::int64_t source = ints(in[2])[e];
                if (!lists.has(source))
                    continue;
                const float *x = floats(in[3]) + source * lists.columns;
                float sum = 0;
                for (std::int64_t c = 0; c < lists.columns; ++c)
                    sum += dy[c] * x[c];
                dw[e] = range.scale * sum;
            }
        }
    });
}

constexpr KernelEntry kEntries[] = {
    {"SpMM", "iiff?", "f", makeSpMM},
    {"SpMMGrad", "fiif?", "f", makeSpMMGrad},
    {"SpMMWeightGrad", "fiif", "f", makeSpMMWeightGrad},
};

} // namespace

std::span<const KernelEntry> sparseKernels() { return kEntries; }

} // namespace planloom::device
