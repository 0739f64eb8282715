// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

namespace planloom {

class JsonReader;

/// Refuses a field of the object @p reader that is not among @p known: a slip of the pen would leave its setting as it
/// is by default, without a word.
void refuseOthers(JsonReader &reader, std::initializer_list<std::string_view> known);
void refuseOthers(JsonReader &reader, std::span<const std::string_view> known);

} // namespace planloom
