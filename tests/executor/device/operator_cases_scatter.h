// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/operator_case.h"

namespace planloom::cases {

inline std::vector<Case> scatterCases()
{
    const std::int64_t one = 1;
    const std::int64_t zero = 0;
    const std::string add = "add";
    const Input columns = batched(given({2, 3}, {0, 2, -1, 3, 1, 0}));
    return {
        {"ScatterElements", "ScatterElements", {batch({2, 5}), columns, batch({2, 3})}, {{"axis", one}}},
        {"ScatterElements add",
         "ScatterElements",
         {real({3, 4}), given({2, 3}, {0, 0, 2, 0, 1, 2}), real({2, 3})},
         {{"axis", zero}, {"reduction", add}}},
        {"ScatterND", "ScatterND", {real({4, 3, 2}), given({2, 1}, {3, 1}), real({2, 3, 2})}},
        {"ScatterND add",
         "ScatterND",
         {real({4, 3}), given({3, 2}, {3, 1, 0, 0, 3, 1}), real({3})},
         {{"reduction", add}}},
        {"TopK", "TopK", {batch({4, 9})}, {{"k", std::int64_t{3}}}, 2},
        {"SpMM", "SpMM", {given({3}, {2, 2, 5}), given({6}, {0, 2, 1, 1, 3, 0}), real({4, 3})}},
        {"SpMM weighted mean of samples",
         "SpMM",
         {batched(given({4}, {2, 2, 5, 9})), batched(given({10}, {0, 2, 1, 1, 3, 0, 5, 4, 5, 2})), batch({6, 19}),
          batch({10})},
         {{"reduce", std::string("mean")}}},
        {"TopK smallest of a middle axis",
         "TopK",
         {batch({2, 7, 3})},
         {{"k", std::int64_t{2}}, {"axis", one}, {"largest", zero}},
         2},
        {"ConvTranspose",
         "ConvTranspose",
         {batch({2, 3, 4, 5}), real({3, 2, 3, 3})},
         {{"kernel_shape", Ints{3, 3}},
          {"strides", Ints{2, 1}},
          {"pads", Ints{1, 0, 1, 1}},
          {"shape", Ints{1, 2, 7, 6}},
          {"batch_axis", zero}}},
        {"ConvTranspose grouped",
         "ConvTranspose",
         {real({1, 4, 6}), real({4, 3, 2})},
         {{"kernel_shape", Ints{2}},
          {"strides", Ints{3}},
          {"dilations", Ints{2}},
          {"group", std::int64_t{2}},
          {"shape", Ints{1, 6, 19}},
          {"batch_axis", -one}}},
        {"BatchNormalization of fixed statistics",
         "BatchNormalization",
         {batch({4, 3, 5}), real({3}, 0.5, 2), real({3}), frozen(real({3})), frozen(real({3}, 0.5, 1))},
         {{"training_mode", zero}},
         3},
    };
}

} // namespace planloom::cases
