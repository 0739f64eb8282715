// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/update/configured_rule.h"

#include <string_view>

namespace planloom::update {

/// "NAME" or "NAME,SETTING=VALUE,...", settings left out as they are standard; not yet ConfiguredRule::check()ed.
/// Error: BadInput that quotes what is wrong.
Result<ConfiguredRule> ruleFromText(std::string_view text);

} // namespace planloom::update
