// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/sparse_rows.h"

#include "engine/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace planloom::cost {

void makeUnique(std::vector<std::int64_t> &ids)
{
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

RowIds uniqueRows(std::span<const std::int64_t> ids)
{
    RowIds rows(ids.begin(), ids.end());
    makeUnique(rows);
    return rows;
}

void unite(const RowIds &a, std::span<const std::int64_t> b, RowIds &all)
{
    all.clear();
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
}

RowIds unionOf(std::span<const RowIds> sets)
{
    RowIds all, sum;
    for (const RowIds &set : sets) {
        unite(all, set, sum);
        all.swap(sum);
    }
    return all;
}

void split(const RowIds &rows, const RowIds &next, RowIds &prior, RowIds &delayed)
{
    prior.clear();
    delayed.clear();
    auto needed = next.begin();
    for (const std::int64_t row : rows) {
        needed = std::lower_bound(needed, next.end(), row);
        (needed != next.end() && *needed == row ? prior : delayed).push_back(row);
    }
}

std::vector<float> coalesce(std::span<const std::int64_t> ids, std::span<const float> gradients, std::int64_t columns,
                            const RowIds &rows)
{
    const auto width = static_cast<std::size_t>(columns);
    std::vector<float> sums(rows.size() * width, 0.0F);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto row = static_cast<std::size_t>(std::lower_bound(rows.begin(), rows.end(), ids[i]) - rows.begin());
        for (std::size_t c = 0; c < width; ++c)
            sums[row * width + c] += gradients[i * width + c];
    }
    return sums;
}

std::vector<std::int64_t> bytesToOwners(std::int64_t rows, std::int64_t columns, int workers)
{
    std::vector<std::int64_t> bytes;
    for (int worker = 0; worker < workers; ++worker)
        bytes.push_back(rows * segmentOf(columns, workers, worker).size() * static_cast<std::int64_t>(sizeof(float)));
    return bytes;
}

ExpectedRows expectedRows(std::int64_t tableRows, std::int64_t ids, int workers)
{
    return expectedRows(tableRows, ids, workers, 0, tableRows);
}

ExpectedRows expectedRows(std::int64_t tableRows, std::int64_t ids, int workers, std::int64_t first, std::int64_t end)
{
    constexpr std::int64_t kOneByOne = 512;
    constexpr double kGroup = 1.02;                                        // a group's last rank over its first
    const auto each = [&](std::int64_t from, std::int64_t to, auto take) { // ranks from 1 on
        while (from <= to) {
            const auto widest = static_cast<std::int64_t>(static_cast<double>(from) * kGroup);
            const std::int64_t last = from < kOneByOne ? from : std::min(to, widest);
            const auto size = static_cast<double>(last - from + 1);
            take(size, size / 2 * (1.0 / static_cast<double>(from) + 1.0 / static_cast<double>(last)) / size);
            from = last + 1;
        }
    };
    double sum = 0;
    each(1, tableRows, [&](double size, double weight) { sum += size * weight; });
    ExpectedRows rows;
    each(first + 1, end, [&](double size, double weight) {
        const double absent = std::log1p(-std::min(weight / sum, 1 - 1e-16)); // log of: one id is another
        const double looked = -std::expm1(static_cast<double>(ids) * absent);
        rows.unique += size * looked;
        rows.prior += size * looked * -std::expm1(static_cast<double>(ids) * workers * absent);
    });
    return rows;
}

ZipfIds::ZipfIds(std::int64_t tableRows)
{
    double all = 0;
    for (std::int64_t r = 0; r < tableRows; ++r)
        all += 1.0 / static_cast<double>(r + 1);
    double upTo = 0;
    for (std::int64_t r = 0; r < tableRows; ++r)
        m_upTo.push_back(upTo += 1.0 / static_cast<double>(r + 1) / all);
}

std::int64_t ZipfIds::next()
{
    m_state = 6364136223846793005U * m_state + 1442695040888963407U;
    constexpr double kUnit = 1.0 / (std::int64_t{1} << 53);
    const double u = static_cast<double>(m_state >> 11) * kUnit;
    const auto above = std::upper_bound(m_upTo.begin(), m_upTo.end(), u);
    return std::min<std::int64_t>(above - m_upTo.begin(), std::ssize(m_upTo) - 1);
}

} // namespace planloom::cost
