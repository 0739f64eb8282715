// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/operator_case.h"

namespace planloom::cases {

/// The second dimension carries the batch.
inline Input batchSecond(Dims dims, double low = -1, double high = 1)
{
    Input input = real(std::move(dims), low, high);
    input.batchAxis = 1;
    return input;
}

/// T steps of N = 2 samples with 3 features each, 5 hidden units, D directions.
inline std::vector<Case> recurrentCases()
{
    const auto hidden = [](Attributes more = {}) {
        more["hidden_size"] = std::int64_t{5};
        return more;
    };
    const std::string both = "bidirectional";
    const Input x = batchSecond({4, 2, 3});
    const auto weights = [](std::int64_t d, std::int64_t gates, std::int64_t n) {
        return real({d, gates * 5, n}, -0.6, 0.6);
    };
    const auto lengths = given({2}, {4, 2}, DType::I64);
    std::vector<Case> all{
        {"LSTM", "LSTM", {x, weights(1, 4, 3), weights(1, 4, 5)}, hidden(), 3},
        {"LSTM bias", "LSTM", {x, weights(1, 4, 3), weights(1, 4, 5), real({1, 40})}, hidden(), 3},
        {"LSTM reverse",
         "LSTM",
         {x, weights(1, 4, 3), weights(1, 4, 5), real({1, 40})},
         hidden({{"direction", std::string("reverse")}}),
         3},
        {"LSTM both ways with everything",
         "LSTM",
         {x, weights(2, 4, 3), weights(2, 4, 5), real({2, 40}), lengths, batchSecond({2, 2, 5}), batchSecond({2, 2, 5}),
          real({2, 15})},
         hidden({{"direction", both}}),
         3},
        {"LSTM batch first",
         "LSTM",
         {batch({2, 4, 3}), weights(2, 4, 3), weights(2, 4, 5), real({2, 40}), absent(), batch({2, 2, 5}),
          batch({2, 2, 5})},
         hidden({{"direction", both}, {"layout", std::int64_t{1}}}),
         3},
    };
    for (const std::int64_t after : {0, 1}) {
        all.push_back(
            {"GRU", "GRU", {x, weights(1, 3, 3), weights(1, 3, 5)}, hidden({{"linear_before_reset", after}}), 2});
        all.push_back({"GRU both ways with everything",
                       "GRU",
                       {x, weights(2, 3, 3), weights(2, 3, 5), real({2, 30}), lengths, batchSecond({2, 2, 5})},
                       hidden({{"direction", both}, {"linear_before_reset", after}}),
                       2});
        all.push_back(
            {"GRU batch first",
             "GRU",
             {batch({2, 4, 3}), weights(1, 3, 3), weights(1, 3, 5), real({1, 30}), absent(), batch({2, 1, 5})},
             hidden(
                 {{"direction", std::string("reverse")}, {"layout", std::int64_t{1}}, {"linear_before_reset", after}}),
             2});
    }
    all.push_back({"RNN", "RNN", {x, weights(1, 1, 3), weights(1, 1, 5)}, hidden(), 2});
    all.push_back({"RNN both ways with everything",
                   "RNN",
                   {x, weights(2, 1, 3), weights(2, 1, 5), real({2, 10}), lengths, batchSecond({2, 2, 5})},
                   hidden({{"direction", both}}),
                   2});
    all.push_back({"RNN softsign",
                   "RNN",
                   {batch({2, 4, 3}), weights(1, 1, 3), weights(1, 1, 5), real({1, 10})},
                   hidden({{"layout", std::int64_t{1}}, {"activations", std::string("Softsign")}}),
                   2});
    for (Case &c : all)
        c.trainedOutputs = c.outputs;
    return all;
}

} // namespace planloom::cases
