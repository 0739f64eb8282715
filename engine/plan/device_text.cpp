// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/device_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace planloom::plan {
namespace {

constexpr std::int32_t kMostOfRange = 65536; // devices that one "a-b" may name; no cluster has more

/// "n0:g12" as "n0:g" and 12; nothing if it does not end in a number without leading zeros.
struct Numbered {
    std::string_view prefix;
    std::int32_t number = 0;
};
std::optional<Numbered> split(std::string_view name)
{
    const std::size_t end = name.find_last_not_of("0123456789");
    const std::size_t digits = end == std::string_view::npos ? 0 : end + 1;
    if (digits == name.size() || (name[digits] == '0' && name.size() - digits > 1))
        return std::nullopt;
    Numbered result{name.substr(0, digits), 0};
    const auto [stop, error] = std::from_chars(name.data() + digits, name.data() + name.size(), result.number);
    return error == std::errc{} && stop == name.data() + name.size() ? std::optional(result) : std::nullopt;
}

std::string_view trimmed(std::string_view text)
{
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A name, or "n0:g0-3".
Status addOfNode(const cluster::Cluster &cluster, std::string_view part, std::vector<DeviceId> &devices)
{
    if (const DeviceId device = cluster.find(part); device.valid()) {
        devices.push_back(device);
        return {};
    }
    const Error unknown = notFound("there is no device \"" + std::string(part) + "\"; the cluster has "
                                   + cluster.devices().front().name + " to " + cluster.devices().back().name);
    const std::size_t dash = part.rfind('-');
    if (dash == std::string_view::npos)
        return unknown;
    const auto from = split(trimmed(part.substr(0, dash)));
    const auto to = split(trimmed(part.substr(dash + 1)));
    if (!from || !to || (!to->prefix.empty() && to->prefix != from->prefix))
        return unknown;
    if (to->number < from->number || to->number - from->number >= kMostOfRange)
        return badInput("\"" + std::string(part) + "\" runs backwards or too far; write it as n0:g0-3");
    for (std::int32_t number = from->number; number <= to->number; ++number) {
        const std::string name = std::string(from->prefix) + std::to_string(number);
        const DeviceId device = cluster.find(name);
        if (!device.valid())
            return notFound("there is no device \"" + name + "\" (in \"" + std::string(part) + "\")");
        devices.push_back(device);
    }
    return {};
}

/// The nodes of "n0-63:g0-7" as "n0" and 63, and what stands behind them.
struct NodeRange {
    Numbered first;
    std::int32_t last = 0;
    std::string_view behind; ///< ":g0-7"
};
std::optional<NodeRange> nodeRange(std::string_view part)
{
    const std::size_t colon = part.find(':');
    const std::size_t dash = part.substr(0, colon).rfind('-');
    if (colon == std::string_view::npos || dash == std::string_view::npos)
        return std::nullopt;
    const auto from = split(trimmed(part.substr(0, dash)));
    const auto to = split(trimmed(part.substr(dash + 1, colon - dash - 1)));
    const bool legal = from && to && (to->prefix.empty() || to->prefix == from->prefix) && to->number >= from->number
        && to->number - from->number < kMostOfRange;
    return legal ? std::optional(NodeRange{*from, to->number, part.substr(colon)}) : std::nullopt;
}

/// One part between commas: a name, "n0:g0-3" or "n0-63:g0-7".
Status addDevices(const cluster::Cluster &cluster, std::string_view part, std::vector<DeviceId> &devices)
{
    const std::size_t before = devices.size();
    const Status ofNode = addOfNode(cluster, part, devices);
    const auto nodes = ofNode ? std::nullopt : nodeRange(part);
    if (!nodes)
        return ofNode;
    devices.resize(before);
    for (std::int32_t node = nodes->first.number; node <= nodes->last; ++node) {
        const std::string name = std::string(nodes->first.prefix) + std::to_string(node) + std::string(nodes->behind);
        if (Status status = addOfNode(cluster, name, devices); !status)
            return status;
    }
    return {};
}

/// Runs of one node's devices as text: "n0:g0-7".
std::vector<std::string> runsOf(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    std::vector<std::string> runs;
    for (std::size_t i = 0; i < devices.size();) {
        const std::string &name = cluster.device(devices[i]).name;
        const auto first = split(name);
        std::size_t end = i + 1;
        std::int32_t number = first ? first->number : 0;
        for (; first && end < devices.size(); ++end) {
            const auto next = split(cluster.device(devices[end]).name);
            if (!next || next->prefix != first->prefix || next->number != number + 1)
                break;
            ++number;
        }
        runs.push_back(end - i > 1 ? name + "-" + std::to_string(number) : name);
        i = end;
    }
    return runs;
}

} // namespace

std::string deviceText(const cluster::Cluster &cluster, const std::vector<DeviceId> &devices)
{
    const std::vector<std::string> runs = runsOf(cluster, devices);
    const auto nodeOf = [](std::string_view run) { return run.substr(0, run.find(':')); };
    const auto behind = [&](std::string_view run) { return run.substr(nodeOf(run).size()); };
    std::string text;
    for (std::size_t i = 0; i < runs.size();) {
        const auto first = split(nodeOf(runs[i]));
        std::size_t end = i + 1;
        std::int32_t number = first ? first->number : 0;
        for (; first && !behind(runs[i]).empty() && end < runs.size(); ++end) {
            const auto next = split(nodeOf(runs[end]));
            if (!next || next->prefix != first->prefix || next->number != number + 1
                || behind(runs[end]) != behind(runs[i]))
                break;
            ++number;
        }
        text += text.empty() ? "" : ", ";
        text += nodeOf(runs[i]);
        text += end - i > 1 ? "-" + std::to_string(number) : std::string();
        text += behind(runs[i]);
        i = end;
    }
    return text;
}

Result<std::vector<DeviceId>> devicesFromText(const cluster::Cluster &cluster, const std::string &text)
{
    std::vector<DeviceId> devices;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t comma = std::min(text.find(',', begin), text.size());
        const std::string_view part = trimmed(std::string_view(text).substr(begin, comma - begin));
        begin = comma + 1;
        if (part.empty())
            return badInput("a device name is missing in \"" + text
                            + "\"; write names with commas between, such as n0:g0-3, n0:g5");
        if (Status status = addDevices(cluster, part, devices); !status)
            return status.error();
    }
    return devices;
}

} // namespace planloom::plan
