// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/row_scores.h"

#include <bit>
#include <cmath>

namespace planloom::device {

namespace {

/// As LossStatistics has it; `first`: whether the label is the first of the largest.
struct RowStatistics {
    double most = 0;
    double sum = 0;
    double target = 0;
    bool first = false;
};

float valueOf(float value) { return value; }
float valueOf(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <class T>
RowStatistics statisticsOf(const T *logits, std::int64_t width, std::int64_t label)
{
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < width; ++i)
        best = valueOf(logits[best]) < valueOf(logits[i]) ? i : best;
    RowStatistics row{.most = valueOf(logits[best]), .target = valueOf(logits[label]), .first = best == label};
    for (std::int64_t i = 0; i < width; ++i)
        row.sum += std::exp(static_cast<double>(valueOf(logits[i])) - row.most);
    return row;
}

RowStatistics statisticsOf(const ScoredRows &rows, std::int64_t r)
{
    const auto *floats =
        static_cast<const float *>(rows.values) + (rows.form == ScoredRows::Form::HalfLogits ? 0 : r * rows.width);
    switch (rows.form) {
    case ScoredRows::Form::Logits: return statisticsOf(floats, rows.width, rows.labels[r]);
    case ScoredRows::Form::HalfLogits:
        return statisticsOf(static_cast<const std::uint16_t *>(rows.values) + r * rows.width, rows.width,
                            rows.labels[r]);
    case ScoredRows::Form::Statistics: break;
    }
    return {floats[0], floats[1], floats[2], floats[2] >= floats[0]};
}

} // namespace

RowScores scoreRows(const ScoredRows &rows)
{
    RowScores scores;
    for (std::int64_t r = 0; r < rows.rows; ++r) {
        if (rows.labels[r] == rows.ignored)
            continue;
        const RowStatistics row = statisticsOf(rows, r);
        scores.crossEntropy += std::log(row.sum) + row.most - row.target;
        scores.right += row.first ? 1 : 0;
        scores.rows += 1;
    }
    return scores;
}

} // namespace planloom::device
