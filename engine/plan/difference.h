// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::plan {

/// What models, clusters and profiles differ in, a line each, for people. (What plans differ in: plan.h.) Cost: that of
/// writing both as JSON.
std::vector<std::string> difference(const Subject &a, const Subject &b);

} // namespace planloom::plan
