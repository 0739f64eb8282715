// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <string>

namespace planloom::agent {

/// A new folder of mode 0700 under $XDG_RUNTIME_DIR (or /tmp). Error: Io.
Result<std::string> makePrivateFolder();

/// Makes @p socketPath ready to be bound: absolute, short enough for a socket, in a folder that is ours and that no
/// other user may enter (made if it is missing), and no other agent's; a dead agent's socket is removed. Errors:
/// BadInput, Io.
Status prepareSocket(const std::string &socketPath);

/// Refuses a socket that another user could have put there. Errors: NotFound, BadInput.
Status checkSocket(const std::string &socketPath);

} // namespace planloom::agent
