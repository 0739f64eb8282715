// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/metrics.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::cli {

/// Options of every verb.
struct OutputOptions {
    bool json = false;  ///< the result as JSON on stdout, and nothing else there
    bool quiet = false; ///< no text for people, no progress; errors still
};

/// Exit status of a verb that was stopped and has a result all the same; shells give it to programs that Ctrl-C ended.
inline constexpr int kStoppedEarly = 130;
/// Exit status of a prediction that passes a limit of --fail-if; its result is complete.
inline constexpr int kLimitPassed = 3;

/// Where a verb's results go. Thread contract: one thread at a time.
class Output {
public:
    explicit Output(OutputOptions options) : m_options(options) {}

    /// True if text for people is wanted.
    [[nodiscard]] bool isText() const { return !m_options.json && !m_options.quiet; }
    [[nodiscard]] bool isJson() const { return m_options.json; }
    [[nodiscard]] bool showsProgress() const { return !m_options.quiet; }

    /// A line for people.
    void line(std::string_view text = {});
    /// A line of JSON, in --json mode only, at once visible to a reader.
    void json(std::string_view text);
    /// The same; text that is not UTF-8 gets replacement characters, and numbers that are none become null.
    void result(const nlohmann::ordered_json &json);
    /// A file's content on stdout, whatever the options: of -o -, with which nothing else is printed there.
    void file(std::string_view content);
    /// A note that is not an error: on stderr.
    void note(std::string_view text);

    /// The result is complete, but the best of a search that the user stopped: @p what goes to stderr, even
    /// if quiet, and the process ends with kStoppedEarly.
    void stoppedEarly(std::string_view what);
    [[nodiscard]] bool isStoppedEarly() const { return m_stoppedEarly; }

    /// The result is complete, but @p what, which goes to stderr, even if quiet: the process ends with kLimitPassed.
    void limitPassed(std::string_view what);
    [[nodiscard]] bool isLimitPassed() const { return m_limitPassed; }

    /// Error: Io, if anything could not be written.
    Status finish();

private:
    void print(std::string_view text, bool now); ///< with an end of line; @p now: at once visible to a reader
    bool m_stoppedEarly = false;
    bool m_limitPassed = false;
    OutputOptions m_options;
    bool m_failed = false;
    int m_errno = 0;
};

/// Columns under headings; a column of figures is right-aligned.
class Table {
public:
    explicit Table(std::vector<std::string> headings) : m_headings(std::move(headings)) {}
    void row(std::vector<std::string> cells) { m_rows.push_back(std::move(cells)); }
    [[nodiscard]] bool empty() const { return m_rows.empty(); }
    void print(Output &output) const;

private:
    std::vector<std::string> m_headings;
    std::vector<std::vector<std::string>> m_rows;
};

std::string percent(double fraction); ///< "12.3 %"
/// "loss 1.5, 12.3 % right, perplexity 4.4817"; "loss 1.5" where no labels are compared.
std::string scores(const run::Validation &validation);
std::string count(std::int64_t number); ///< "124,439,808"

} // namespace planloom::cli
