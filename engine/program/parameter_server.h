// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::program {

/// A process beside the ranks of a Program, the last one, with which they exchange what they would else exchange among
/// themselves (Boxing::served): each sends a message and goes on with the answer, when dispatch::Versions has given it
/// one. A step is a version of the parameters; a rank's iteration belongs to the step whose version it was given, and
/// ranks leave out those steps of which they were not.
struct ParameterServer {
    int barrier = 1;              ///< ranks that a version waits for
    int delay = 1;                ///< versions that a rank may be late
    std::int64_t answerBytes = 0; ///< of which `messageBytes` are the other way
    std::int64_t messageBytes = 0;
    double seconds = 0; ///< that a version takes, by the cost model
};

} // namespace planloom::program
