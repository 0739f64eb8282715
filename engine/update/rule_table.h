// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/update/rule.h"

#include <vector>

namespace planloom::update {

/// The rules of all files in rules/, by file name; the build writes it.
std::vector<Rule> makeRuleTable();

} // namespace planloom::update
