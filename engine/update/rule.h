// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/update/expression.h"

#include <string>
#include <string_view>
#include <vector>

namespace planloom::update {

/// A number that a plan chooses for a rule.
struct Setting {
    /// From `least`, which counts if `closed`, to below `below`.
    struct Range {
        double least = 0;
        bool closed = true;
        double below = 1;
        [[nodiscard]] bool contains(double value) const; ///< no for what is not finite
        [[nodiscard]] std::string text() const;          ///< "from 0 to below 1", "above 0"
    };
    std::string_view name;
    double standard = 0; ///< where a plan says nothing
    Range range;
    std::string_view about; ///< one line
};

/// A float32 tensor that the rule keeps for each parameter, of its size; cleared before the first step.
struct State {
    std::string_view name;   ///< "exp_avg"
    std::string_view stored; ///< its kind in checkpoints; empty: the name, behind "optimizer:"
    std::string_view needs;  ///< only where this setting is not 0; empty: always

    [[nodiscard]] std::string kind() const
    {
        return stored.empty() ? "optimizer:" + std::string(name) : std::string(stored);
    }
};

/// How gradients change weights. A rule is one file in rules/, whose function is named like the file.
struct Rule {
    std::string_view name;  ///< in plans: "adamw"
    std::string_view title; ///< for people: "AdamW"
    std::string_view about; ///< one line, with the paper
    double learningRate = 1e-3;
    double weightDecay = 0; ///< of new plans, as is learningRate
    std::vector<Setting> settings;
    std::vector<State> states;
    void (*write)(Draft &) = nullptr; ///< the formula

    [[nodiscard]] const Setting *setting(std::string_view name) const; ///< nullptr: there is none
};

/// All rules, by name. Lives for ever. Thread-safe.
const std::vector<Rule> &allRules();
/// "adamw, lamb, lion, sgd"
std::string ruleNames();
/// Error: BadInput that lists the names.
Result<const Rule *> findRule(std::string_view name);

} // namespace planloom::update
