// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

/// Tables of resources/docs that a benchmark prints. The text in front of such a table names the benchmark; a test that
/// works out the same figures compares them.
namespace planloom::test {

/// Rows of the first table behind the words @p mark, by their first cell; empty if there is none.
inline std::multimap<std::string, std::vector<std::string>> docsTable(const std::string &path, const std::string &mark)
{
    std::ifstream file(path);
    std::multimap<std::string, std::vector<std::string>> rows;
    bool behind = false;
    for (std::string line; std::getline(file, line);) {
        behind = behind || line.find(mark) != std::string::npos;
        const bool isRow = line.starts_with("|");
        if (!behind || (!isRow && rows.empty()))
            continue;
        if (!isRow)
            break;
        std::vector<std::string> cells;
        std::istringstream words(line.substr(1));
        for (std::string cell; std::getline(words, cell, '|');) {
            const std::size_t first = cell.find_first_not_of(' ');
            cells.push_back(first == std::string::npos ? ""
                                                       : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
        }
        if (!cells.empty())
            rows.emplace(cells.front(), std::vector<std::string>(cells.begin() + 1, cells.end()));
    }
    return rows;
}

/// True if @p cell begins with @p value as it is rounded to the cell's decimals.
inline bool isPrinted(const std::string &cell, double value)
{
    char *end = nullptr;
    const double printed = std::strtod(cell.c_str(), &end);
    const std::size_t point = cell.find('.');
    const auto digits = static_cast<std::size_t>(end - cell.c_str());
    const double decimals = point < digits ? static_cast<double>(digits - point - 1) : 0;
    return digits > 0 && std::abs(printed - value) <= 0.5 * std::pow(10, -decimals) * (1 + 1e-6);
}

} // namespace planloom::test
