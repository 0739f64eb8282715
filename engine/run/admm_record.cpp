// SPDX-License-Identifier: Apache-2.0
#include "engine/run/admm_record.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace planloom::run {
namespace {

constexpr const char *kDualsHeader = "variable,step,dual,gradient";

/// Whole lines of a text, one after the other.
class Lines {
public:
    explicit Lines(std::string_view text) : m_text(text) {}
    bool next(std::string_view &line)
    {
        const std::size_t end = m_text.find('\n', m_at);
        if (end == std::string_view::npos)
            return false;
        line = m_text.substr(m_at, end - m_at);
        m_at = end + 1;
        ++m_number;
        return true;
    }
    [[nodiscard]] Error wrong(const std::string &what) const
    {
        return badInput(fmt::format("line {}: {}; let a new run write the file", m_number, what));
    }

private:
    std::string_view m_text;
    std::size_t m_at = 0;
    int m_number = 0;
};

std::vector<std::string_view> fieldsOf(std::string_view line)
{
    std::vector<std::string_view> fields;
    for (std::size_t at = 0; at <= line.size();) {
        const std::size_t end = std::min(line.find(',', at), line.size());
        fields.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    return fields;
}

template <class Number>
bool read(std::string_view field, Number &number)
{
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), number);
    return parsed.ec == std::errc() && parsed.ptr == field.data() + field.size();
}

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
    Lines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return residuals;
    const auto head = fieldsOf(line);
    if (head.size() < 2 || head.front() != "step")
        return lines.wrong("\"step\" and names of constraints are expected");
    for (auto name = head.begin() + 1; name != head.end(); ++name)
        residuals.names.emplace_back(*name);
    while (lines.next(line)) {
        const auto fields = fieldsOf(line);
        std::int64_t step = 0;
        bool good = fields.size() == head.size() && read(fields.front(), step);
        for (std::size_t i = 1; good && i < fields.size(); ++i) {
            double norm = 0;
            good = read(fields[i], norm);
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
    Lines lines(text);
    std::string_view line;
    if (!lines.next(line))
        return pairs;
    if (line != kDualsHeader)
        return lines.wrong(fmt::format("\"{}\" is expected", kDualsHeader));
    while (lines.next(line)) {
        const auto fields = fieldsOf(line);
        DualPair pair;
        if (fields.size() != 4 || fields[0].size() != 1 || !read(fields[1], pair.step) || !read(fields[2], pair.dual)
            || !read(fields[3], pair.gradient))
            return lines.wrong("a variable, a step and two numbers are expected");
        pair.variable = fields[0].front();
        pairs.push_back(pair);
    }
    return pairs;
}

} // namespace planloom::run
