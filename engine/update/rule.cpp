// SPDX-License-Identifier: Apache-2.0
#include "engine/update/rule.h"

#include "engine/update/rule_table.h"

#include <cmath>
#include <fmt/format.h>

namespace planloom::update {

bool Setting::Range::contains(double value) const
{
    return std::isfinite(value) && (closed ? value >= least : value > least) && value < below;
}

std::string Setting::Range::text() const
{
    const std::string from = fmt::format("{} {}", closed ? "from" : "above", least);
    return std::isfinite(below) ? fmt::format("{} to below {}", from, below) : from;
}

const Setting *Rule::setting(std::string_view wanted) const
{
    for (const Setting &setting : settings)
        if (setting.name == wanted)
            return &setting;
    return nullptr;
}

const std::vector<Rule> &allRules()
{
    static const std::vector<Rule> table = makeRuleTable();
    return table;
}

std::string ruleNames()
{
    std::string names;
    for (const Rule &rule : allRules())
        names += (names.empty() ? "" : ", ") + std::string(rule.name);
    return names;
}

Result<const Rule *> findRule(std::string_view name)
{
    for (const Rule &rule : allRules())
        if (rule.name == name)
            return &rule;
    return badInput(fmt::format("\"{}\" is not known; there are {}", name, ruleNames()));
}

} // namespace planloom::update
