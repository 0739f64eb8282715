// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Rows of a table that a batch looks up: which ones, which of them the next batch needs, and what has to be sent (Li
/// et al., EmbRace, ICPP 2022; Planloom's documentation, exchange/embrace.md).
namespace planloom::cost {

/// In Profile::extra, of a processor core: an id read, put among those of its step and found again; a piece of a row
/// found and copied, besides its numbers; each of its numbers, without which they take what an optimizer's do; a row of
/// a member put among those of the others and added up, besides its numbers; and each of these.
inline constexpr const char *kSecondsPerRowId = "row_id_seconds";
inline constexpr const char *kSecondsPerRowPiece = "row_piece_seconds";
inline constexpr const char *kSecondsPerRowNumber = "row_number_seconds";
inline constexpr const char *kSecondsPerAddedRow = "row_added_seconds";
inline constexpr const char *kSecondsPerAddedNumber = "row_added_number_seconds";

/// Ids of rows, ascending, each once.
using RowIds = std::vector<std::int64_t>;

/// Makes @p ids ascending, each once; allocates nothing. Cost: O(n log n).
void makeUnique(std::vector<std::int64_t> &ids);
RowIds uniqueRows(std::span<const std::int64_t> ids);
/// All of @p a and @p b, to @p all.
void unite(const RowIds &a, std::span<const std::int64_t> b, RowIds &all);
RowIds unionOf(std::span<const RowIds> sets);

/// Cuts @p rows, of one worker in step t, by what the workers look up in step t + 1: @p next is the union over *all* of
/// them, as a row that another worker reads next must have this one's share by then.
void split(const RowIds &rows, const RowIds &next, RowIds &prior, RowIds &delayed);

/// The gradients of @p ids, one row of @p columns numbers each, summed by row in the order of ids: a row for each of
/// @p rows, which are the unique ids.
std::vector<float> coalesce(std::span<const std::int64_t> ids, std::span<const float> gradients, std::int64_t columns,
                            const RowIds &rows);

/// Bytes that a worker which has @p rows rows of float32 sends to each of @p workers, which hold the columns
/// segmentOf(columns, workers, k): gradients on their way to the columns' owners, its own included. As many bytes come
/// to it when it looks the rows up.
std::vector<std::int64_t> bytesToOwners(std::int64_t rows, std::int64_t columns, int workers);

/// How many rows a batch looks up whose ids follow Zipf's law: id r has the weight 1 / (r + 1).
struct ExpectedRows {
    double unique = 0; ///< of one worker's ids
    double prior = 0;  ///< those of them that some worker looks up in the next step
};
/// @p ids: of one worker in a step. Up to a part in a thousand: rare ids are counted in groups. Cost: O(1000).
ExpectedRows expectedRows(std::int64_t tableRows, std::int64_t ids, int workers);
/// Of these the rows [first, end).
ExpectedRows expectedRows(std::int64_t tableRows, std::int64_t ids, int workers, std::int64_t first, std::int64_t end);

/// Ids by Zipf's law from a 64-bit linear congruential generator, for tests and benchmarks that are repeated elsewhere.
class ZipfIds {
public:
    explicit ZipfIds(std::int64_t tableRows);
    std::int64_t next();

private:
    std::vector<double> m_upTo; ///< per id: the probability of it and those before it
    std::uint64_t m_state = 1;
};

} // namespace planloom::cost
