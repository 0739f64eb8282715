// SPDX-License-Identifier: Apache-2.0
#include "engine/update/configured_rule.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::update {

namespace {

std::vector<std::pair<std::string, double>> standardSettings(const Rule &rule)
{
    std::vector<std::pair<std::string, double>> settings;
    for (const Setting &setting : rule.settings)
        settings.emplace_back(setting.name, setting.standard);
    return settings;
}

} // namespace

ConfiguredRule::ConfiguredRule()
{
    static const ConfiguredRule standard(**findRule("adamw"));
    m_made = standard.m_made;
}

ConfiguredRule::ConfiguredRule(const Rule &rule) : m_made(make(rule, standardSettings(rule))) {}

Result<ConfiguredRule> ConfiguredRule::named(std::string_view name,
                                             std::initializer_list<std::pair<std::string_view, double>> settings)
{
    const auto found = findRule(name);
    if (!found)
        return found.error();
    ConfiguredRule rule(**found);
    for (const auto &[setting, value] : settings)
        if (const Status known = rule.set(setting, value); !known)
            return known.error();
    return rule;
}

Status ConfiguredRule::set(std::string_view name, double value)
{
    auto settings = formula().settings;
    const auto known = std::find_if(settings.begin(), settings.end(), [&](const auto &s) { return s.first == name; });
    if (known == settings.end()) {
        std::string list;
        for (const Setting &setting : rule().settings)
            list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", setting.name, setting.about);
        return badInput(
            fmt::format("\"{}\" is no setting of {}, which has {}", name, rule().name, list.empty() ? "none" : list));
    }
    known->second = value;
    m_made = make(rule(), std::move(settings));
    return {};
}

Status ConfiguredRule::check() const
{
    for (const Setting &setting : rule().settings)
        if (const double value = this->setting(setting.name); !setting.range.contains(value))
            return badInput(fmt::format("the optimizer's {} is {}; {} takes one {}", setting.name, value, rule().name,
                                        setting.range.text()));
    return {};
}

std::shared_ptr<const ConfiguredRule::Made> ConfiguredRule::make(const Rule &rule,
                                                                 std::vector<std::pair<std::string, double>> settings)
{
    const auto valueOf = [&settings](std::string_view name) {
        return std::find_if(settings.begin(), settings.end(), [&](const auto &s) { return s.first == name; })->second;
    };
    Made made{&rule, {}, {}, {}};
    std::vector<std::string_view> names;
    for (const State &state : rule.states) {
        if (!state.needs.empty() && valueOf(state.needs) == 0)
            continue;
        made.states.push_back(state);
        names.push_back(state.name);
    }
    Draft draft(std::move(settings), std::move(names));
    rule.write(draft);
    made.formula = draft.take();
    made.formula.rule = rule.name;
    made.footprint = {made.formula.states, made.formula.streams()};
    return std::make_shared<const Made>(std::move(made));
}

} // namespace planloom::update
