// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace planloom::planners::automap {

/// The state from which the next search continues: the episodes that were played, and the best actions of each
/// game ("opp", "adp", "pp2" ...). As text it fits into an option: "episodes=200;opp=1.0.0;pp2=13".
struct Memory {
    std::size_t episodes = 0;
    std::map<std::string, std::vector<std::size_t>> best;
};

std::string toText(const Memory &memory);
/// "none" is an empty one. Error: BadInput that shows the form.
Result<Memory> memoryFrom(const std::string &text);

} // namespace planloom::planners::automap
