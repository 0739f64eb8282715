// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/update/rule.h"

namespace planloom::update {

/// The rule of trainings that make new parameters instead of gradients: a parameter becomes its gradient. It has no
/// settings or states, takes no learning rate, and is not among allRules(): no plan chooses it. Lives for ever.
const Rule &replacement();

} // namespace planloom::update
