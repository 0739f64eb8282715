// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/call_list.h"

namespace planloom::runtime {

/// One of a team that executes a communicating operator together.
struct BoxingMember {
    comm::Communicator &comm;
    comm::Group group; ///< of the team
    std::size_t size;  ///< of the team
    std::size_t at;    ///< position in it
};

/// Whether what goes out has to lie where the result comes before boxing starts: of a sum, and of a shift from which
/// nothing comes to this member.
bool beginsInPlace(const program::Boxing &boxing, const BoxingMember &member);

/// Starts @p boxing on @p what, whose addresses are those that the communicator takes. Error: Failed.
Result<comm::Request> startBoxing(const program::Boxing &boxing, const Communication &what, const BoxingMember &member);

} // namespace planloom::runtime
