// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::import {

/// The names that Slurm's host list @p text stands for, in its order: "n[01-03,20]" is n01, n02, n03, n20; "a1,b[2-3]"
/// and several brackets in one name are read, too. Numbers keep the width of a range's first one. Errors (BadInput): a
/// bracket without its other one, a range that is none or runs down, more than @p most names.
Result<std::vector<std::string>> expandHostList(std::string_view text, std::size_t most);

} // namespace planloom::import
