// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/operator_case.h"

namespace planloom::cases {

/// Picking by index, padding, extremes, and element-wise operators that exporters use seldom.
inline std::vector<Case> indexingCases()
{
    constexpr std::int64_t kOne = 1;
    const auto mode = [](const char *name) {
        return Attributes{{"mode", std::string(name)}, {"pads", Ints{0, 2, 3, 0, 1, 4}}};
    };
    std::vector<Case> all{
        {"GatherElements", "GatherElements", {real({3, 4}), given({2, 4}, {0, 2, 1, -1, 1, 1, 0, 2})}},
        {"GatherElements axis",
         "GatherElements",
         {batch({4, 3, 2}), batched(given({4, 1, 2}, {0, 2, 1, -1, 1, 1, 0, 2}))},
         {{"axis", kOne}}},
        {"GatherElements repeats",
         "GatherElements",
         {real({2, 3}), given({2, 5}, {0, 0, 0, 1, 2, 2, 2, -3, 0, 1})},
         {{"axis", kOne}}},
        {"GatherElements of int32", "GatherElements", {real({3, 4}), given({1, 4}, {0, 2, 1, 2}, DType::I32)}},
        {"GatherND elements", "GatherND", {real({3, 4}), given({3, 2}, {0, 1, 2, -1, 0, 1})}},
        {"GatherND slices", "GatherND", {real({3, 4, 2}), given({2, 2, 1}, {0, 2, -1, 2})}},
        {"GatherND blocks",
         "GatherND",
         {batch({2, 3, 4}), batched(given({2, 2, 1}, {0, 2, 1, 1}))},
         {{"batch_dims", kOne}}},
        {"OneHot", "OneHot", {batched(given({4}, {0, 2, -1, 7})), fixed({2}, {0, 1})}, {{"depth", std::int64_t{3}}}},
        {"OneHot first axis",
         "OneHot",
         {given({2, 3}, {0, 2, 1, 1, 0, 3}), fixed({2}, {-1, 5})},
         {{"depth", std::int64_t{4}}, {"axis", std::int64_t{0}}}},
        {"Pad reflect", "Pad", {batch({2, 4, 6})}, mode("reflect")},
        {"Pad edge", "Pad", {batch({2, 4, 6})}, mode("edge")},
        {"Pad wrap", "Pad", {batch({2, 4, 6})}, mode("wrap")},
        {"Pad far", "Pad", {real({3})}, {{"mode", std::string("reflect")}, {"pads", Ints{7, 9}}}},
        {"Pad and cut", "Pad", {real({2, 5})}, {{"mode", std::string("edge")}, {"pads", Ints{1, -2, 0, 3}}}},
        {"ArgMin", "ArgMin", {real({3, 5, 2})}, {{"axis", kOne}, {"keepdims", std::int64_t{0}}}},
        {"ArgMin last",
         "ArgMin",
         {frozen(fixed({2, 4}, {2, 1, 1, 3, 0, 0, 5, 0}))},
         {{"axis", kOne}, {"select_last_index", kOne}}},
        {"ArgMax last",
         "ArgMax",
         {frozen(fixed({2, 4}, {2, 3, 1, 3, 0, 0, -5, 0}))},
         {{"axis", kOne}, {"select_last_index", kOne}}},
        {"Xor", "Xor", {truth({3, 4}), truth({4})}},
        {"LessOrEqual", "LessOrEqual", {frozen(fixed({4}, {1, 2, 3, 4})), frozen(fixed({4}, {1, 0, 3, 9}))}},
        {"GreaterOrEqual", "GreaterOrEqual", {frozen(fixed({4}, {1, 2, 3, 4})), frozen(fixed({4}, {1, 0, 3, 9}))}},
        {"Mod", "Mod", {batched(fixed({4}, {0.25, 1.5, 2.75, -0.75})), frozen(fixed({1}, {1}))}, {{"fmod", kOne}}},
        {"Mod floor", "Mod", {fixed({2, 2}, {5.5, -5.5, 2.5, -7.25}), frozen(fixed({2}, {3, -3}))}},
    };
    for (const char *type : {"Acos", "Asin", "Atan", "Atanh", "Asinh", "Sinh", "Cosh"})
        all.push_back({type, type, {batch({4, 9}, -0.9, 0.9)}});
    all.push_back({"Acosh", "Acosh", {batch({4, 9}, 1.2, 4)}});
    return all;
}

} // namespace planloom::cases
