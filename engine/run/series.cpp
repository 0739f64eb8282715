// SPDX-License-Identifier: Apache-2.0
#include "engine/run/series.h"

#include "engine/run/csv_lines.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::run {
namespace {

constexpr const char *kLossColumns = "step,loss";
constexpr const char *kWholeColumns = "step,ids,unique";
constexpr const char *kSplitColumns = "step,ids,unique,prior,delayed";
constexpr std::string_view kExpected = "expected";
constexpr const char *kByCounts = "profile";
constexpr const char *kByZipf = "zipf";

/// Of a text that is cut at @p size, which it is not: numbers have a bounded length.
std::size_t written(std::size_t length, std::size_t size) { return std::min(length, size); }

/// A line's numbers behind its first field; false: they are none, or too few or many.
bool readCounts(const std::vector<std::string_view> &fields, bool splits, RowCounts &counts)
{
    const bool whole = fields.size() == (splits ? 5 : 3) && readCsvNumber(fields[1], counts.ids)
        && readCsvNumber(fields[2], counts.unique);
    return whole && (!splits || (readCsvNumber(fields[3], counts.prior) && readCsvNumber(fields[4], counts.delayed)));
}

std::string countsText(std::string_view first, const RowCounts &counts, bool splits)
{
    std::string text = fmt::format("{},{:.10g},{:.10g}", first, counts.ids, counts.unique);
    return text + (splits ? fmt::format(",{:.10g},{:.10g}\n", counts.prior, counts.delayed) : "\n");
}

/// The first line of a table's file: the name may have commas.
bool readTable(std::string_view line, RowSeries &series)
{
    const auto fields = csvFields(line);
    if (fields.size() < 4)
        return false;
    const std::string_view by = fields.back();
    std::size_t behind = 0;
    for (std::size_t i = fields.size() - 3; i < fields.size(); ++i)
        behind += fields[i].size() + 1;
    series.table = line.substr(0, line.size() - behind);
    series.counted = by == kByCounts;
    return (series.counted || by == kByZipf) && readCsvNumber(fields[fields.size() - 3], series.rows)
        && readCsvNumber(fields[fields.size() - 2], series.replicas);
}

} // namespace

std::string lossesFile(std::int64_t replica) { return fmt::format("{}/r{}.csv", kLossesFolder, replica); }
std::string rowsFile(std::int64_t table) { return fmt::format("{}/t{}.csv", kRowsFolder, table); }

std::string lossesHead() { return std::string(kLossColumns) + '\n'; }

std::size_t lossesLine(std::int64_t step, double loss, char *to, std::size_t size)
{
    return written(fmt::format_to_n(to, size, "{},{:.7g}\n", step, loss).size, size);
}

Result<ReplicaLosses> lossesFromCsv(std::string_view text)
{
    ReplicaLosses series;
    CsvLines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return series;
    if (line != kLossColumns)
        return lines.wrong(fmt::format("\"{}\" is expected", kLossColumns));
    while (lines.next(line)) {
        const auto fields = csvFields(line);
        std::int64_t step = 0;
        double loss = 0;
        if (fields.size() != 2 || !readCsvNumber(fields[0], step) || !readCsvNumber(fields[1], loss))
            return lines.wrong("a step and a loss are expected");
        series.steps.push_back(step);
        series.losses.push_back(loss);
    }
    return series;
}

std::string rowsHead(const RowSeries &series)
{
    return fmt::format("{},{},{},{}\n{}\n", series.table, series.rows, series.replicas,
                       series.counted ? kByCounts : kByZipf, series.splits ? kSplitColumns : kWholeColumns)
        + countsText(kExpected, series.expected, series.splits);
}

std::size_t rowsLine(std::int64_t step, const RowCounts &counts, bool splits, char *to, std::size_t size)
{
    const std::size_t length = splits
        ? fmt::format_to_n(to, size, "{},{:.10g},{:.10g},{:.10g},{:.10g}\n", step, counts.ids, counts.unique,
                           counts.prior, counts.delayed)
              .size
        : fmt::format_to_n(to, size, "{},{:.10g},{:.10g}\n", step, counts.ids, counts.unique).size;
    return written(length, size);
}

Result<RowSeries> rowsFromCsv(std::string_view text)
{
    RowSeries series;
    CsvLines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return series;
    if (!readTable(line, series))
        return lines.wrong("a table, its rows, replicas and \"profile\" or \"zipf\" are expected");
    if (!lines.next(line))
        return series;
    if (line != kSplitColumns && line != kWholeColumns)
        return lines.wrong(fmt::format("\"{}\" or \"{}\" is expected", kSplitColumns, kWholeColumns));
    series.splits = line == kSplitColumns;
    if (!lines.next(line))
        return series;
    if (!line.starts_with(kExpected) || !readCounts(csvFields(line), series.splits, series.expected))
        return lines.wrong(fmt::format("\"{}\" and what the plan expects of a step are expected", kExpected));
    while (lines.next(line)) {
        const auto fields = csvFields(line);
        std::int64_t step = 0;
        RowCounts counts;
        if (!readCsvNumber(fields.front(), step) || !readCounts(fields, series.splits, counts))
            return lines.wrong(fmt::format("a step and {} numbers are expected", series.splits ? 4 : 2));
        series.steps.push_back(step);
        series.counts.push_back(counts);
    }
    return series;
}

std::string keptBefore(std::string_view text, const std::string &head, std::int64_t firstStep)
{
    std::string kept = head;
    if (!text.starts_with(head))
        return kept;
    CsvLines lines(text.substr(head.size()));
    for (std::string_view line; lines.next(line);) {
        std::int64_t step = 0;
        if (readCsvNumber(line.substr(0, line.find(',')), step) && step < firstStep)
            kept.append(line) += '\n';
    }
    return kept;
}

} // namespace planloom::run
