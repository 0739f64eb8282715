// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What a run that trains by ADMM leaves beside its metrics: RUN/residuals.csv and RUN/duals.csv.
namespace planloom::run {

inline constexpr const char *kResidualsFile = "residuals.csv";
inline constexpr const char *kDualsFile = "duals.csv";

/// Norms of the residuals of each constraint behind each step, over all samples.
struct Residuals {
    std::vector<std::string> names; ///< "a1" of the first step's input, "h1" of its state ..., "o" of the outputs
    std::vector<std::int64_t> steps;
    std::vector<double> norms; ///< by step, then by name

    [[nodiscard]] double norm(std::size_t row, std::size_t name) const { return norms[row * names.size() + name]; }
};
/// The file's first line, and that of a step.
std::string residualsHeader(const std::vector<std::string> &names);
std::string residualsLine(std::int64_t step, const std::vector<double> &norms);
/// A last line that was cut short is left out. Error: BadInput, naming the line.
Result<Residuals> residualsFromCsv(std::string_view text);

/// A dual of a sample, and what back-propagation gives in its place.
struct DualPair {
    char variable = 'a'; ///< a, h or o
    int step = 1;        ///< in time
    double dual = 0;
    double gradient = 0;
};
std::string toCsv(const std::vector<DualPair> &pairs);
/// Error: BadInput, naming the line.
Result<std::vector<DualPair>> dualsFromCsv(std::string_view text);

} // namespace planloom::run
