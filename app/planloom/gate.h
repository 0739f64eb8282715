// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/simulate/simulate.h"

#include <string>
#include <vector>

namespace planloom::cli {

/// A limit that a prediction may not pass: "step>1.2s".
struct Condition {
    enum class Figure : std::uint8_t { Step, Peak, PeakShare, Bubble, Samples };
    std::string text; ///< as it was given
    Figure figure = Figure::Step;
    bool isAbove = true;  ///< fails above the limit, else below
    bool isStrict = true; ///< the limit itself does not fail
    double limit = 0;     ///< seconds, bytes, shares of one, samples a second
};

/// Conditions that commas part: FIGURE, then >, >=, < or <=, then a quantity. Figures: step (1.2s, 90ms), peak (70GiB,
/// or 95% of the device's memory), bubble (30%), samples/s (4000). Errors (BadInput): each names what is possible.
Result<std::vector<Condition>> parseConditions(const std::string &text);

/// A condition, held against a prediction.
struct Verdict {
    Condition condition;
    double value = 0;   ///< in the limit's unit; of peaks the device's that is nearest to failing
    std::string device; ///< of peaks
    bool failed = false;
    [[nodiscard]] std::string valueText() const; ///< "1.31 s", "71.2 GiB on n0:g0"
};
std::vector<Verdict> judge(const std::vector<Condition> &conditions, const simulate::Report &report);

} // namespace planloom::cli
