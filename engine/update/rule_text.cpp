// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule_text.h"

#include <charconv>
#include <string>

namespace planloom::update {

Result<ConfiguredRule> ruleFromText(std::string_view text)
{
    const std::size_t end = text.find(',');
    auto rule = ConfiguredRule::named(text.substr(0, end));
    if (!rule)
        return rule;
    for (std::size_t begin = end; begin != std::string_view::npos;) {
        const std::size_t next = text.find(',', begin + 1);
        const std::string_view setting =
            text.substr(begin + 1, next == std::string_view::npos ? next : next - begin - 1);
        begin = next;
        const std::size_t equals = setting.find('=');
        double value = 0;
        const char *last = setting.data() + setting.size();
        const char *first = equals == std::string_view::npos ? last : setting.data() + equals + 1;
        const auto read = std::from_chars(first, last, value);
        if (read.ec != std::errc() || read.ptr != last)
            return badInput("'" + std::string(setting) + "' is no setting; write it as NAME=NUMBER");
        if (const Status known = rule->set(setting.substr(0, equals), value); !known)
            return known.error();
    }
    return rule;
}

} // namespace planloom::update
