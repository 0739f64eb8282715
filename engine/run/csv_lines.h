// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::run {

/// Whole lines of a text, one after the other; one without an end, which is being written, is none.
class CsvLines {
public:
    explicit CsvLines(std::string_view text) : m_text(text) {}
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
    /// Of the line that was last.
    [[nodiscard]] Error wrong(const std::string &what) const
    {
        return badInput("line " + std::to_string(m_number) + ": " + what + "; let a new run write the file");
    }

private:
    std::string_view m_text;
    std::size_t m_at = 0;
    int m_number = 0;
};

/// Between commas.
inline std::vector<std::string_view> csvFields(std::string_view line)
{
    std::vector<std::string_view> fields;
    for (std::size_t at = 0; at <= line.size();) {
        const std::size_t end = std::min(line.find(',', at), line.size());
        fields.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    return fields;
}

/// False if @p field is no number, or more than that.
template <class Number>
bool readCsvNumber(std::string_view field, Number &number)
{
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), number);
    return parsed.ec == std::errc() && parsed.ptr == field.data() + field.size();
}

} // namespace planloom::run
