// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/model.h"
#include "engine/base/files.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <string_view>

/// 1797 pictures of 8 x 8 as sequences: a row of pixels is a step.
namespace planloom::admm {

struct Digits {
    Samples training; ///< 1200
    Samples heldOut;  ///< 597
};

/// Empty if the text is not the table.
inline Samples digitsOf(std::string_view text)
{
    constexpr int kSide = 8;
    constexpr int kRows = 1797;
    constexpr double kWhite = 16;
    Samples all{std::vector<Matrix>(kSide, Matrix(kSide, kRows)), {}};
    const char *at = text.data();
    const char *const end = at + text.size();
    const auto next = [&] {
        int value = -1;
        const auto parsed = std::from_chars(at, end, value);
        at = parsed.ptr == end ? end : parsed.ptr + 1; // behind the comma or the line's end
        return value;
    };
    for (int row = 0; row < kRows; ++row) {
        for (int pixel = 0; pixel < kSide * kSide; ++pixel)
            all.x[static_cast<std::size_t>(pixel / kSide)](pixel % kSide, row) = next() / kWhite;
        all.labels.push_back(next());
        if (all.labels.back() < 0 || all.labels.back() > 9)
            return {};
    }
    return all;
}

inline Result<Digits> readDigits(const std::string &unpacked)
{
    const Samples all = digitsOf(unpacked);
    if (all.x.empty())
        return badInput("no table of digits");
    constexpr int kTraining = 1200;
    return Digits{all.slice(0, kTraining), all.slice(kTraining, all.count() - kTraining)};
}

/// Normal numbers over the square root of the inputs; biases are 0.
inline Parameters drawParameters(int inputs, int hidden, int classes, std::uint64_t seed, double scaleOfW = 1)
{
    std::mt19937_64 random(seed);
    const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
    const auto matrix = [&](int rows, int columns) {
        Matrix result(rows, columns);
        for (double &value : result.reshaped())
            value = std::sqrt(-2 * std::log(uniform()) / columns) * std::cos(2 * std::numbers::pi * uniform());
        return result;
    };
    Parameters result{matrix(hidden, inputs), matrix(hidden, hidden), Vector::Zero(hidden), matrix(classes, hidden),
                      Vector::Zero(classes)};
    result.w *= scaleOfW;
    return result;
}

} // namespace planloom::admm
