// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace planloom::remote {

/// Whether @p address, a name or an IPv4 address, is one of this machine: an interface has it, or it is of the loopback
/// network, where many systems put their own name. Asks the resolver.
bool isThisMachine(const std::string &address);

} // namespace planloom::remote
