// SPDX-License-Identifier: Apache-2.0
#include "engine/run/admm_record.h"

#include "engine/run/csv_lines.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::run {
namespace {

constexpr const char *kDualsHeader = "variable,step,dual,gradient";

} // namespace

std::string residualsHeader(const std::vector<std::string> &names)
{
    return fmt::format("step,{}\n", fmt::join(names, ","));
}

std::string residualsLine(std::int64_t step, const std::vector<double> &norms)
{
    return fmt::format("{},{:.6g}\n", step, fmt::join(norms, ","));
}

Result<Residuals> residualsFromCsv(std::string_view text)
{
    Residuals residuals;
    CsvLines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return residuals;
    const auto head = csvFields(line);
    if (head.size() < 2 || head.front() != "step")
        return lines.wrong("\"step\" and names of constraints are expected");
    for (auto name = head.begin() + 1; name != head.end(); ++name)
        residuals.names.emplace_back(*name);
    while (lines.next(line)) {
        const auto fields = csvFields(line);
        std::int64_t step = 0;
        bool good = fields.size() == head.size() && readCsvNumber(fields.front(), step);
        for (std::size_t i = 1; good && i < fields.size(); ++i) {
            double norm = 0;
            good = readCsvNumber(fields[i], norm);
            residuals.norms.push_back(norm);
        }
        if (!good)
            return lines.wrong(fmt::format("a step and {} numbers are expected", residuals.names.size()));
        residuals.steps.push_back(step);
    }
    return residuals;
}

std::string toCsv(const std::vector<DualPair> &pairs)
{
    std::string text = std::string(kDualsHeader) + '\n';
    for (const DualPair &pair : pairs)
        text += fmt::format("{},{},{:.7g},{:.7g}\n", pair.variable, pair.step, pair.dual, pair.gradient);
    return text;
}

Result<std::vector<DualPair>> dualsFromCsv(std::string_view text)
{
    std::vector<DualPair> pairs;
    CsvLines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return pairs;
    if (line != kDualsHeader)
        return lines.wrong(fmt::format("\"{}\" is expected", kDualsHeader));
    while (lines.next(line)) {
        const auto fields = csvFields(line);
        DualPair pair;
        if (fields.size() != 4 || fields[0].size() != 1 || !readCsvNumber(fields[1], pair.step)
            || !readCsvNumber(fields[2], pair.dual) || !readCsvNumber(fields[3], pair.gradient))
            return lines.wrong("a variable, a step and two numbers are expected");
        pair.variable = fields[0].front();
        pairs.push_back(pair);
    }
    return pairs;
}

} // namespace planloom::run
