// SPDX-License-Identifier: Apache-2.0
#include "engine/update/replacement.h"

#include "engine/update/expression.h"

namespace planloom::update {

const Rule &replacement()
{
    static const Rule rule{.name = "replacement",
                           .title = "replacement",
                           .about = "a parameter becomes what was computed for it",
                           .learningRate = 1,
                           .weightDecay = 0,
                           .settings = {},
                           .states = {},
                           .write = [](Draft &draft) { draft.setWeight(draft.gradient()); }};
    return rule;
}

} // namespace planloom::update
