// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/setup.h"

#include <charconv>
#include <fmt/format.h>
#include <set>

namespace planloom::plan {
namespace {

constexpr std::string_view kPlacementMark = "planloom.devices:";
/// More than any cluster has; keeps a hostile file from asking for lists without end.
constexpr std::size_t kMostDevicesPlaced = std::size_t{1} << 20;

std::optional<std::size_t> takeNumber(std::string_view &text)
{
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > kMostDevicesPlaced)
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

/// "3" or "3-7" at the front of @p text.
std::optional<std::pair<std::size_t, std::size_t>> takeRange(std::string_view &text)
{
    const auto first = takeNumber(text);
    if (!first)
        return std::nullopt;
    if (!text.starts_with('-'))
        return std::pair(*first, *first);
    text.remove_prefix(1);
    const auto last = takeNumber(text);
    if (!last || *last < *first)
        return std::nullopt;
    return std::pair(*first, *last);
}

} // namespace

std::string rangesText(std::span<const DeviceId> devices)
{
    std::string text;
    for (std::size_t i = 0; i < devices.size();) {
        std::size_t next = i + 1;
        while (next < devices.size() && devices[next].value == devices[next - 1].value + 1)
            ++next;
        text += fmt::format("{}{}", i == 0 ? "" : ",", devices[i].value);
        if (next - i > 1)
            text += fmt::format("-{}", devices[next - 1].value);
        i = next;
    }
    return text;
}

Result<std::vector<DeviceId>> rangesFromText(std::string_view text, std::size_t most)
{
    std::vector<DeviceId> devices;
    std::set<std::size_t> seen;
    std::string_view rest = text;
    while (true) {
        const auto range = takeRange(rest);
        if (!range || (!rest.empty() && !rest.starts_with(',')))
            return badInput(fmt::format("'{}' is not a list of device numbers, such as 8-15 or 0,2,5-7", text));
        if (range->second > most)
            return badInput(fmt::format("'{}' names device {}, but the last one is {}", text, range->second, most));
        for (std::size_t device = range->first; device <= range->second; ++device) {
            if (!seen.insert(device).second)
                return badInput(fmt::format("'{}' names device {} twice", text, device));
            devices.emplace_back(static_cast<std::int64_t>(device));
        }
        if (rest.empty())
            return devices;
        rest.remove_prefix(1);
    }
}

std::string placementText(const Placement &placement)
{
    return fmt::format("{}{}/{}", kPlacementMark, rangesText(placement.devices), placement.clusterDevices);
}

Result<std::optional<Placement>> placementFromText(std::string_view text)
{
    if (!text.starts_with(kPlacementMark))
        return std::optional<Placement>();
    const auto wrong = [text](const std::string &why) {
        return badInput(
            fmt::format("'{}' is not a placement: {}; write {}8-15/16, devices and the number of those that "
                        "the cluster has, or leave it out",
                        text, why, kPlacementMark));
    };
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos)
        return wrong("it has no /");
    std::string_view count = text.substr(slash + 1);
    const auto all = takeNumber(count);
    if (!all || *all == 0 || !count.empty())
        return wrong(fmt::format("'{}' is not a number of devices", text.substr(slash + 1)));
    auto devices = rangesFromText(text.substr(kPlacementMark.size(), slash - kPlacementMark.size()), *all - 1);
    if (!devices)
        return wrong(devices.error().message);
    return std::optional(Placement{*std::move(devices), *all});
}

} // namespace planloom::plan
