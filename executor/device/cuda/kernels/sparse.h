// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Products of a sparse matrix, given as lists of column indices, and a dense one.
namespace planloom::cuda {

/// Which entries belong to which row of the product. Offsets and indices come with the data: whatever they are, nothing
/// outside of the tensors is read or written.
struct EntryLists {
    const std::int64_t *offsets = nullptr;
    const std::int64_t *indices = nullptr;
    const float *weights = nullptr; ///< nullptr: all are 1
    std::int64_t rows = 0;
    std::int64_t entries = 0;
    std::int64_t columns = 0;
    std::int64_t sources = 0; ///< rows of the dense matrix
    int mean = 0;

    /// Row @p row has the entries from where the one before ends to its offset.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t begin(std::int64_t row) const
    {
        return row == 0 ? 0 : inside(offsets[row - 1]);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t end(std::int64_t row) const
    {
        const std::int64_t first = begin(row);
        const std::int64_t last = inside(offsets[row]);
        return last < first ? first : last;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float scale(std::int64_t count) const
    {
        return mean != 0 && count > 0 ? 1.0F / static_cast<float>(count) : 1.0F;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float weight(std::int64_t entry) const
    {
        return weights != nullptr ? weights[entry] : 1.0F;
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool has(std::int64_t source) const { return source >= 0 && source < sources; }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t inside(std::int64_t at) const
    {
        return at < 0 ? 0 : (at > entries ? entries : at);
    }
};

/// y = the product with x, (sources, columns). NaN where an index names no row of x.
struct SparseProduct {
    EntryLists lists;
    const float *x = nullptr;
    float *y = nullptr;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(lists.rows * lists.columns, [&](std::int64_t i) {
            const std::int64_t row = i / lists.columns;
            const std::int64_t column = i % lists.columns;
            const std::int64_t first = lists.begin(row);
            const std::int64_t last = lists.end(row);
            float sum = 0;
            for (std::int64_t e = first; e < last; ++e) {
                const std::int64_t source = lists.indices[e];
                sum += lists.has(source) ? lists.weight(e) * x[source * lists.columns + column] : NAN;
            }
            y[i] = sum * lists.scale(last - first);
        });
    }
};

/// dx = the product of the transposed matrix and dy. A block has kSources rows of dx and looks through all entries for
/// them, so that each sum is made in the order of the entries.
struct SparseProductGradient {
    static constexpr std::int64_t kSources = 64;
    EntryLists lists;
    const float *dy = nullptr;
    float *dx = nullptr;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const std::int64_t groups = (lists.sources + kSources - 1) / kSources;
        for (std::int64_t group = block.index; group < groups; group += block.count) {
            const std::int64_t from = group * kSources;
            const std::int64_t to = from + kSources < lists.sources ? from + kSources : lists.sources;
            block.items(lists.columns, [&](std::int64_t column) { add(from, to, column); });
        }
    }

private:
    PLANLOOM_KERNEL_CODE void add(std::int64_t from, std::int64_t to, std::int64_t column) const
    {
        for (std::int64_t source = from; source < to; ++source)
            dx[source * lists.columns + column] = 0;
        for (std::int64_t row = 0; row < lists.rows; ++row) {
            const std::int64_t first = lists.begin(row);
            const std::int64_t last = lists.end(row);
            for (std::int64_t e = first; e < last; ++e) {
                const std::int64_t source = lists.indices[e];
                if (source >= from && source < to)
                    dx[source * lists.columns + column] +=
                        lists.scale(last - first) * lists.weight(e) * dy[row * lists.columns + column];
            }
        }
    }
};

/// dw of the entries that belong to a row; the others keep what they have. A block has a row at a time.
struct SparseWeightGradient {
    EntryLists lists;
    const float *dy = nullptr;
    const float *x = nullptr;
    float *dw = nullptr;

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        for (std::int64_t row = block.index; row < lists.rows; row += block.count) {
            const std::int64_t first = lists.begin(row);
            const std::int64_t count = lists.end(row) - first;
            block.items(count, [&](std::int64_t i) {
                const std::int64_t source = lists.indices[first + i];
                if (!lists.has(source))
                    return;
                float sum = 0;
                for (std::int64_t column = 0; column < lists.columns; ++column)
                    sum += dy[row * lists.columns + column] * x[source * lists.columns + column];
                dw[first + i] = lists.scale(count) * sum;
            });
        }
    }
};

} // namespace planloom::cuda
