// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/update/rule.h"

#include <initializer_list>
#include <memory>
#include <utility>

namespace planloom::update {

/// What a step costs in memory, for planners and cost models.
struct Footprint {
    int states = 2;  ///< tensors of the parameter's size that stay
    int streams = 8; ///< tensors of the parameter's size that a step reads or writes
};

/// A rule with its settings: a value, cheap to copy. The formula is made when a setting changes, not when it is asked
/// for.
class ConfiguredRule {
public:
    ConfiguredRule(); ///< AdamW
    explicit ConfiguredRule(const Rule &rule);
    /// With these settings, and the others as they are standard. Errors: BadInput that lists the names.
    static Result<ConfiguredRule> named(std::string_view name,
                                        std::initializer_list<std::pair<std::string_view, double>> settings = {});

    [[nodiscard]] const Rule &rule() const { return *m_made->rule; }
    [[nodiscard]] std::string_view name() const { return rule().name; }
    [[nodiscard]] const Formula &formula() const { return m_made->formula; }
    /// States in effect, in the formula's order.
    [[nodiscard]] const std::vector<State> &states() const { return m_made->states; }
    [[nodiscard]] const Footprint &footprint() const { return m_made->footprint; }

    /// 0 if the rule has no such setting.
    [[nodiscard]] double setting(std::string_view name) const { return formula().setting(name); }
    /// Takes any value; check() is who complains. Error: BadInput that lists the rule's settings.
    Status set(std::string_view name, double value);
    /// Error: BadInput, naming the first setting that is out of its range.
    [[nodiscard]] Status check() const;

    friend bool operator==(const ConfiguredRule &a, const ConfiguredRule &b)
    {
        return a.m_made == b.m_made || (&a.rule() == &b.rule() && a.formula().settings == b.formula().settings);
    }

private:
    struct Made {
        const Rule *rule;
        std::vector<State> states;
        Formula formula;
        Footprint footprint;
    };
    static std::shared_ptr<const Made> make(const Rule &rule, std::vector<std::pair<std::string, double>> settings);
    std::shared_ptr<const Made> m_made;
};

} // namespace planloom::update
