// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

namespace planloom::program {

/// Rows of a trace for what the parameter server of a Program does (program::ParameterServer), on a rank behind the
/// Program's and behind its tasks: "S", a version is made, and for each rank k "wk", its message waits from its arrival
/// until that version answers it. Both belong to the step of the version. Plain value.
struct ServerRows {
    explicit ServerRows(const Program &program)
        : rank(static_cast<std::int32_t>(program.ranks.size())),
          solves(static_cast<std::int32_t>(program.tasks.size()))
    {
    }
    std::int32_t rank;
    std::int32_t solves; ///< a row of the task table
    [[nodiscard]] std::int32_t messageOf(int worker) const { return solves + 1 + worker; }

    static constexpr auto kSolves = static_cast<std::int32_t>(Lane::Compute);
    static constexpr auto kMessages = static_cast<std::int32_t>(Lane::Receive);
};

} // namespace planloom::program
