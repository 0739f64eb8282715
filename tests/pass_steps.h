// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/schedule/schedule.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace planloom::test {

/// The passes of such ids as "s0.F.m0".
inline std::vector<schedule::PassStep> passSteps(const std::vector<std::string> &ids)
{
    std::vector<schedule::PassStep> steps;
    for (const std::string &id : ids) {
        const auto step = schedule::passStepFrom(id);
        if (!step)
            throw std::invalid_argument("'" + id + "' is no pass");
        steps.push_back(*step);
    }
    return steps;
}

} // namespace planloom::test
