// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/gate.h"

#include "app/planloom/output.h"
#include "engine/base/units.h"
#include "engine/import/cluster/quantity.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace planloom::cli {
namespace {

std::string_view withoutSpaces(std::string_view text)
{
    while (!text.empty() && text.front() == ' ')
        text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ')
        text.remove_suffix(1);
    return text;
}

/// "30%", "30 %" or "0.3".
std::optional<double> shareOf(std::string_view text)
{
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit = withoutSpaces(text.substr(static_cast<std::size_t>(end - text.data())));
    if (error != std::errc{} || !std::isfinite(number) || (!unit.empty() && unit != "%"))
        return std::nullopt;
    return unit.empty() ? number : number / 100;
}

Error wrongLimit(const std::string &text, const std::string &why)
{
    return badInput(fmt::format("--fail-if {}: {}", text, why));
}

Result<double> quantityOf(const std::string &text, std::string_view limit, import::QuantityKind kind)
{
    const auto read = import::parseQuantity(limit, kind);
    return read ? *read : Result<double>(wrongLimit(text, read.error().message));
}

Result<Condition> limitOf(Condition condition, std::string_view figure, std::string_view limit)
{
    Result<double> value(0.0);
    if (figure == "step") {
        condition.figure = Condition::Figure::Step;
        value = quantityOf(condition.text, limit, import::QuantityKind::Seconds);
    } else if (figure == "peak" && limit.ends_with('%')) {
        condition.figure = Condition::Figure::PeakShare;
        value = shareOf(limit) ? *shareOf(limit) : Result<double>(wrongLimit(condition.text, "write the share as 95%"));
    } else if (figure == "peak") {
        condition.figure = Condition::Figure::Peak;
        value = quantityOf(condition.text, limit, import::QuantityKind::Bytes);
    } else if (figure == "bubble") {
        condition.figure = Condition::Figure::Bubble;
        value = shareOf(limit) ? *shareOf(limit) : Result<double>(wrongLimit(condition.text, "write the share as 30%"));
    } else if (figure == "samples/s") {
        condition.figure = Condition::Figure::Samples;
        const auto number = limit.ends_with('%') ? std::nullopt : shareOf(limit);
        value =
            number ? *number : Result<double>(wrongLimit(condition.text, "write the rate as a number, such as 4000"));
    } else {
        return wrongLimit(condition.text,
                          fmt::format("there is no figure \"{}\"; there are step, peak, bubble and "
                                      "samples/s",
                                      figure));
    }
    if (!value)
        return value.error();
    if (!(*value >= 0))
        return wrongLimit(condition.text, "the limit must be zero or more");
    condition.limit = *value;
    return condition;
}

Result<Condition> parseCondition(const std::string &text)
{
    const std::size_t at = text.find_first_of("<>");
    if (at == std::string::npos)
        return wrongLimit(text, "write it as FIGURE>LIMIT or FIGURE<LIMIT, such as step>1.2s");
    Condition condition;
    condition.text = text;
    condition.isAbove = text[at] == '>';
    condition.isStrict = at + 1 >= text.size() || text[at + 1] != '=';
    const std::string_view whole(text);
    return limitOf(condition, withoutSpaces(whole.substr(0, at)),
                   withoutSpaces(whole.substr(at + (condition.isStrict ? 1 : 2))));
}

bool fails(const Condition &condition, double value)
{
    if (value == condition.limit)
        return !condition.isStrict;
    return (value > condition.limit) == condition.isAbove;
}

/// The device whose figure is the first to fail.
Verdict judgePeak(const Condition &condition, const simulate::Report &report)
{
    Verdict verdict{condition, 0, {}, false};
    for (const simulate::DeviceReport &device : report.devices) {
        const auto peak = static_cast<double>(device.peakBytes);
        const double value = condition.figure == Condition::Figure::Peak
            ? peak
            : peak / static_cast<double>(std::max<std::int64_t>(device.capacityBytes, 1));
        const bool worse = condition.isAbove ? value > verdict.value : value < verdict.value;
        if (verdict.device.empty() || worse) {
            verdict.value = value;
            verdict.device = device.id;
        }
    }
    verdict.failed = fails(condition, verdict.value);
    return verdict;
}

} // namespace

Result<std::vector<Condition>> parseConditions(const std::string &text)
{
    std::vector<Condition> conditions;
    for (std::size_t at = 0; at <= text.size() && !text.empty();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        auto condition = parseCondition(std::string(withoutSpaces(std::string_view(text).substr(at, comma - at))));
        if (!condition)
            return condition.error();
        conditions.push_back(*std::move(condition));
        at = comma + 1;
    }
    return conditions;
}

std::string Verdict::valueText() const
{
    switch (condition.figure) {
    case Condition::Figure::Step: return format(Seconds(value));
    case Condition::Figure::Peak: return fmt::format("{} on {}", format(Bytes(std::llround(value))), device);
    case Condition::Figure::PeakShare: return fmt::format("{} of {}", percent(value), device);
    case Condition::Figure::Bubble: return percent(value);
    case Condition::Figure::Samples: return fmt::format("{:.6g}", value);
    }
    return {};
}

std::vector<Verdict> judge(const std::vector<Condition> &conditions, const simulate::Report &report)
{
    std::vector<Verdict> verdicts;
    for (const Condition &condition : conditions) {
        Verdict verdict{condition, 0, {}, false};
        switch (condition.figure) {
        case Condition::Figure::Step: verdict.value = report.iterationSeconds; break;
        case Condition::Figure::Bubble: verdict.value = report.bubbleFraction; break;
        case Condition::Figure::Samples: verdict.value = report.samplesPerSecond; break;
        case Condition::Figure::Peak:
        case Condition::Figure::PeakShare: verdict = judgePeak(condition, report); break;
        }
        verdict.failed = fails(condition, verdict.value);
        verdicts.push_back(std::move(verdict));
    }
    return verdicts;
}

} // namespace planloom::cli
