// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/output.h"

#include "app/planloom/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {
namespace {

/// Characters, not bytes: device names may have umlauts.
std::size_t width(const std::string &text)
{
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    }));
}

/// Figures, with or without a unit.
bool isNumber(const std::string &text)
{
    return !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
}

std::string padded(const std::string &text, std::size_t columns, bool right)
{
    const std::string space(columns - std::min(columns, width(text)), ' ');
    return right ? space + text : text + space;
}

} // namespace

void Output::line(std::string_view text)
{
    if (!isText())
        return;
    const std::string shown = printable(text);
    const bool written =
        std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fputc('\n', stdout) != EOF;
    if (!written && !m_failed) {
        m_failed = true;
        m_errno = errno;
    }
}

void Output::json(std::string_view text)
{
    if (!m_options.json)
        return;
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size()
        && std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0;
    if (!written && !m_failed) {
        m_failed = true;
        m_errno = errno;
    }
}

void Output::result(const nlohmann::ordered_json &json)
{
    if (m_options.json)
        this->json(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void Output::note(std::string_view text)
{
    if (!m_options.quiet)
        say(fmt::format("planloom: {}\n", printable(text)));
}

void Output::stoppedEarly(std::string_view what)
{
    m_stoppedEarly = true;
    say(fmt::format("planloom: {}\n", printable(what)));
}

void Output::limitPassed(std::string_view what)
{
    m_limitPassed = true;
    say(fmt::format("planloom: {}\n", printable(what)));
}

Status Output::finish()
{
    if (std::fflush(stdout) != 0 && !m_failed) {
        m_failed = true;
        m_errno = errno;
    }
    if (m_failed)
        return ioError(fmt::format("the result cannot be written: {}", std::strerror(m_errno)));
    return {};
}

void Table::print(Output &output) const
{
    std::vector<std::size_t> widths;
    std::vector<bool> right;
    for (std::size_t column = 0; column < m_headings.size(); ++column) {
        std::size_t widest = width(m_headings[column]);
        for (const auto &row : m_rows)
            widest = std::max(widest, width(row[column]));
        widths.push_back(widest);
        right.push_back(
            std::all_of(m_rows.begin(), m_rows.end(), [&](const auto &row) { return isNumber(row[column]); }));
    }
    const auto printRow = [&](const std::vector<std::string> &cells) {
        std::string line;
        for (std::size_t column = 0; column < cells.size(); ++column)
            line += (column ? "  " : "") + padded(cells[column], widths[column], right[column]);
        line.erase(line.find_last_not_of(' ') + 1);
        output.line(line);
    };
    printRow(m_headings);
    for (const auto &row : m_rows)
        printRow(row);
}

std::string scores(const run::Validation &validation)
{
    if (std::isnan(validation.accuracy))
        return fmt::format("loss {:.6g}", validation.loss);
    return fmt::format("loss {:.6g}, {} right, perplexity {:.5g}", validation.loss, percent(validation.accuracy),
                       validation.perplexity());
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

std::string count(std::int64_t number)
{
    std::string text = std::to_string(number);
    for (int at = static_cast<int>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
        text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

} // namespace planloom::cli
