// SPDX-License-Identifier: Apache-2.0
#include "engine/base/known_fields.h"

#include "engine/base/json_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace planloom {

void refuseOthers(JsonReader &reader, std::initializer_list<std::string_view> known)
{
    refuseOthers(reader, std::span(known.begin(), known.size()));
}

void refuseOthers(JsonReader &reader, std::span<const std::string_view> known)
{
    if (!reader.value().is_object())
        return;
    for (const auto &[key, value] : reader.value().items())
        if (std::ranges::find(known, std::string_view(key)) == known.end())
            reader.fail(key, fmt::format("is not known; there are {}", fmt::join(known, ", ")));
}

} // namespace planloom
