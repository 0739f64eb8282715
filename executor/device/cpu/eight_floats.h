// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace planloom::device {

/// A vector of the compiler's, taken apart where the processor's are shorter. Used inside functions only: how it is
/// passed depends on the processor.
using EightFloats = float __attribute__((vector_size(32)));

/// Eight floats of an array, wherever they begin.
[[gnu::always_inline]] inline void load(const float *from, EightFloats &to) { std::memcpy(&to, from, sizeof to); }

/// The same, in functions that are compiled for the target of the file: clang returns no vector to another target's.
[[gnu::always_inline]] inline EightFloats load(const float *from)
{
    EightFloats value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

[[gnu::always_inline]] inline void store(float *to, const EightFloats &value) { std::memcpy(to, &value, sizeof value); }

/// Eight rows of eight floats, in place of them their columns.
[[gnu::always_inline]] inline void transposeEight(EightFloats (&rows)[8])
{
    EightFloats pairs[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    EightFloats fours[8];
    for (int i = 0; i < 8; i += 4) {
        for (int j = 0; j < 2; ++j) {
            fours[i + 2 * j] = __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * j + 1] = __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; ++i) {
        rows[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        rows[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

} // namespace planloom::device
