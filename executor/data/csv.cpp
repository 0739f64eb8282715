// SPDX-License-Identifier: Apache-2.0
#include "executor/data/readers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace planloom::data {

namespace {

std::string_view trimmed(std::string_view text)
{
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
        text.remove_suffix(1);
    return text;
}

std::optional<double> numberFrom(std::string_view cell)
{
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

std::string_view takeUntil(std::string_view &text, char separator)
{
    const std::size_t at = text.find(separator);
    const std::string_view piece = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return piece;
}

/// The numbers of one line into @p row. Error: BadInput naming the cell.
Status parseLine(std::string_view line, std::vector<double> &row)
{
    row.clear();
    const auto cells = std::count(line.begin(), line.end(), ',') + 1;
    for (std::ptrdiff_t i = 0; i < cells; ++i) {
        const std::string_view cell = trimmed(takeUntil(line, ','));
        const std::optional<double> value = numberFrom(cell);
        if (!value)
            return badInput("column " + std::to_string(i + 1) + " is \"" + std::string(cell.substr(0, 40))
                            + "\", not a number; every cell must be a finite number");
        row.push_back(*value);
    }
    return {};
}

bool isHeader(std::string_view line)
{
    while (!line.empty()) {
        if (numberFrom(trimmed(takeUntil(line, ','))))
            return false;
    }
    return true;
}

Status appendRow(const std::vector<double> &row, Table &table)
{
    const std::int64_t behind = std::max<std::int64_t>(1, table.targetColumns);
    const std::int64_t columns = static_cast<std::int64_t>(row.size()) - behind;
    if (columns < 1)
        return badInput("has " + std::to_string(row.size()) + (row.size() == 1 ? " column" : " columns")
                        + "; a row is its features and, last, "
                        + (table.targetColumns > 0 ? "its " + std::to_string(behind) + " target(s)" : "its label")
                        + ", separated by commas");
    if (table.columns == 0)
        table.columns = columns;
    if (columns != table.columns)
        return badInput("has " + std::to_string(row.size()) + " columns where the rows before have "
                        + std::to_string(table.columns + behind) + "; make all rows equally long");
    const auto features = std::span<const double>(row).first(static_cast<std::size_t>(columns));
    if (const Status added = table.addTargets(std::span<const double>(row).subspan(features.size())); !added)
        return added;
    for (const double value : features)
        table.features.push_back(static_cast<float>(value));
    return {};
}

void scaleByLargest(std::vector<float> &features)
{
    float largest = 0;
    for (const float value : features)
        largest = std::max(largest, std::fabs(value));
    for (float &value : features)
        value = largest > 0 ? value / largest : value;
}

} // namespace

Result<Table> readCsv(std::string_view contents, const std::string &path, std::int64_t targetColumns)
{
    Table table;
    table.targetColumns = targetColumns;
    table.rowWord = "line";
    table.firstRow = 1;
    std::vector<double> row;
    constexpr std::string_view kMark = "\xEF\xBB\xBF"; // that a text is UTF-8, as some spreadsheets write it
    if (contents.starts_with(kMark))
        contents.remove_prefix(kMark.size());
    for (int number = 1; !contents.empty(); ++number) {
        const std::string_view line = trimmed(takeUntil(contents, '\n'));
        if (line.empty() && contents.find_first_not_of(" \t\r\n") == std::string_view::npos)
            break;
        if (line.empty())
            return badInput("is an empty line; remove it").in(path, number);
        if (number == 1 && line.find(',') == std::string_view::npos && line.find(';') != std::string_view::npos)
            return badInput(
                       "has semicolons between its cells; separate them by commas, and write decimals with a point")
                .in(path, number);
        if (number == 1 && isHeader(line)) {
            table.firstRow = 2;
            continue;
        }
        if (const Status status = parseLine(line, row); !status)
            return status.error().in(path, number);
        if (const Status status = appendRow(row, table); !status)
            return status.error().in(path, number);
    }
    scaleByLargest(table.features);
    return table;
}

} // namespace planloom::data
