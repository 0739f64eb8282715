// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/run_fields.h"

#include <string>
#include <string_view>
#include <vector>

namespace planloom::store {

/// What a list of runs is narrowed to. A text of terms apart by blanks, all of which must hold:
///
///     nano                   some text of the run contains it, whatever the case
///     model:gpt tags:"a b"   the field contains it; of a figure: it is equal to half a percent
///     iteration>50ms mfu>=30%  loss<2.5  samples>1k  started>2026-11-01
///
/// Keys are those of runFields(). Figures take s, ms, us, %, k, M or G behind them; dates compare from their beginning
/// on. A field that is not known holds for no comparison.
class RunFilter {
public:
    /// Errors: BadInput, naming the term.
    static Result<RunFilter> parse(std::string_view text);
    [[nodiscard]] bool matches(const Run &run) const;
    [[nodiscard]] bool empty() const { return m_terms.empty(); }

private:
    enum class Compare : std::uint8_t { Contains, Less, AtMost, More, AtLeast };
    struct Term {
        const RunField *field = nullptr; ///< null: any text
        Compare compare = Compare::Contains;
        std::string text; ///< in small letters
        double number = 0;
    };
    static Result<Term> termOf(const std::string &word);
    static bool holds(const Term &term, const Run &run);
    std::vector<Term> m_terms;
};

} // namespace planloom::store
