// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/units.h"

namespace planloom::cost {

/// What a collective takes of a core that ranks share, as a profile measures it beside work.
struct CommunicationOnCores {
    double secondsPerByte = 0; ///< of the core, for each byte that a rank sends; 0: not measured
    /// Parts of the core that communication gets for each that computation gets, where both want more: packets that
    /// arrive interrupt what computes, and a rank that looks for messages takes all that have come. At least 1.
    double weight = 1;
    /// How much longer a collective takes whose members compute all the time: one that computes looks for messages
    /// only when it has its turn on the core, and between operators.
    Seconds delay;
};

} // namespace planloom::cost
