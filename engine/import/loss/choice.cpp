// SPDX-License-Identifier: Apache-2.0
#include "engine/import/loss/choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <vector>

namespace planloom::import {
namespace {

constexpr LossKind kKinds[] = {
    {"cross-entropy", "SoftmaxCrossEntropyLoss", "softmax cross-entropy", "axis ignore"},
    {"binary-cross-entropy", "SigmoidCrossEntropyLoss", "binary cross-entropy", "mask"},
    {"mse", "MeanSquaredErrorLoss", "mean squared error", "mask"},
    {"l1", "MeanAbsoluteErrorLoss", "mean absolute error", "mask"},
    {"huber", "HuberLoss", "Huber loss", "delta mask"},
    {"own", "", "computed by the model", ""},
};

std::vector<std::string> pieces(const std::string &text, char separator)
{
    std::vector<std::string> found(1);
    for (const char letter : text) {
        if (letter == separator)
            found.emplace_back();
        else
            found.back() += letter;
    }
    return found;
}

template <class Number>
bool parse(const std::string &text, Number &value)
{
    const char *end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    return read.ec == std::errc() && read.ptr == end;
}

bool positive(const std::string &text, double &value) { return parse(text, value) && value > 0 && value < 1e30; }

/// Whether @p value is one that @p setting can have.
bool take(LossChoice &choice, const std::string &setting, const std::string &value)
{
    if (setting == "weight")
        return positive(value, choice.weight);
    if (setting == "delta")
        return positive(value, choice.delta);
    if (setting == "ignore")
        return parse(value, choice.ignored);
    if (setting == "mask") {
        choice.mask = true;
        return value.empty();
    }
    return parse(value, choice.axis.emplace());
}

Status readSetting(LossChoice &choice, const std::string &text)
{
    const std::size_t equals = text.find('=');
    const std::string setting = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? std::string() : text.substr(equals + 1);
    const std::vector<std::string> known = pieces(choice.kind->settings, ' ');
    const bool has = setting == "weight" || std::find(known.begin(), known.end(), setting) != known.end();
    if (!has || setting.empty())
        return badInput(fmt::format("'{}' is no setting of {}; it has: weight {}", setting, choice.kind->name,
                                    choice.kind->settings));
    if (!take(choice, setting, value))
        return badInput(fmt::format("'{}' is no value of '{}'", value, setting));
    return {};
}

} // namespace

std::span<const LossKind> lossKinds() { return kKinds; }

std::string lossNames()
{
    std::string names;
    for (const LossKind &kind : kKinds)
        names += (names.empty() ? "" : ", ") + std::string(kind.name);
    return names;
}

const LossKind &lossKind(std::string_view name)
{
    return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const LossKind &kind) { return kind.name == name; });
}

Result<LossChoice> lossFromText(const std::string &text)
{
    const std::vector<std::string> parts = pieces(text, ',');
    const std::size_t equals = parts[0].rfind('=');
    const std::string name = equals == std::string::npos ? parts[0] : parts[0].substr(equals + 1);
    const auto *const kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const LossKind &known) { return known.name == name; });
    if (kind == std::end(kKinds))
        return badInput(fmt::format("'{}' is no loss; choose one of {}", name, lossNames()));
    LossChoice choice;
    choice.kind = kind;
    if (equals != std::string::npos)
        choice.output = parts[0].substr(0, equals);
    std::set<std::string> given;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const std::string setting = parts[i].substr(0, parts[i].find('='));
        if (const Status read = readSetting(choice, parts[i]); !read)
            return badInput(fmt::format("'{}': {}", text, read.error().message));
        if (!given.insert(setting).second)
            return badInput(fmt::format("'{}': '{}' is given twice; leave one out", text, setting));
    }
    return choice;
}

std::string toText(const LossChoice &choice)
{
    const LossChoice untouched;
    std::string text = choice.output.empty() ? choice.kind->name : choice.output + "=" + choice.kind->name;
    if (choice.weight != untouched.weight)
        text += fmt::format(",weight={}", choice.weight);
    if (choice.delta != untouched.delta)
        text += fmt::format(",delta={}", choice.delta);
    if (choice.ignored != untouched.ignored)
        text += fmt::format(",ignore={}", choice.ignored);
    if (choice.axis)
        text += fmt::format(",axis={}", *choice.axis);
    return choice.mask ? text + ",mask" : text;
}

} // namespace planloom::import
