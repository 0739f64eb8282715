// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/ids.h"
#include "engine/plan/plan.h"

#include <map>
#include <optional>
#include <string>

namespace planloom::compile {

/// Names of tensors of one stage and of what takes their place in another.
using Renaming = std::map<std::string, std::string>;

/// Says whether stage @p b is stage @p a again with other tensors, as the blocks of a transformer are: the same
/// operators in the same layers on equal shapes, pinned alike on the same mesh, with the same settings. Then what is
/// worked out of operators and shapes holds for both. Nothing: they differ, or shardings are given by pattern, or the
/// order by hand. The first and the last stage are like none. Cost: O(operators).
std::optional<Renaming> renaming(const plan::Plan &plan, const plan::Subject &subject, StageId a, StageId b);

} // namespace planloom::compile
