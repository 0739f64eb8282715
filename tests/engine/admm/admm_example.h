// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/engine/admm/asynchronous.h"
#include "tests/engine/admm/measures.h"

#include <cmath>

/// The example with two of everything that the tests compute by hand.
namespace planloom::admm {

inline Samples exampleSamples()
{
    Samples samples{{Matrix(2, 2), Matrix(2, 2)}, {0, 1}};
    for (int t = 0; t < 2; ++t)
        for (int i = 0; i < 2; ++i)
            for (int m = 0; m < 2; ++m)
                samples.x[static_cast<std::size_t>(t)](i, m) = std::sin(1 + 3 * t + 5 * i + 7 * m);
    return samples;
}

inline Parameters exampleParameters()
{
    Parameters result{Matrix(2, 2), Matrix(2, 2), Vector::Zero(2), Matrix(2, 2), Vector::Zero(2)};
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            result.u(i, j) = 0.3 * std::cos(1 + i + 2 * j);
            result.w(i, j) = 0.3 * std::sin(2 + i + 3 * j);
            result.v(i, j) = 0.4 * std::cos(3 + 2 * i + j);
        }
    return result;
}

/// As published: one step on each sub-problem, duals at the last step, kept variables.
inline Settings publishedSettings()
{
    Settings settings;
    settings.mu = settings.gamma = 1;
    settings.rho = 2;
    settings.ridge = 0;
    settings.duals = Duals::Last;
    settings.subproblems = Subproblems::Linearised;
    settings.restart = false;
    return settings;
}

inline Settings exactSettings()
{
    Settings settings = publishedSettings();
    settings.ridge = 0.05;
    settings.duals = Duals::All;
    settings.subproblems = Subproblems::Exact;
    return settings;
}

} // namespace planloom::admm
