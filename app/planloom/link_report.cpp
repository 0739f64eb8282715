// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/link_report.h"

#include "engine/cluster/pairs.h"
#include "engine/import/import.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

std::string rateText(double bytesPerSecond) { return format(Bytes(static_cast<std::int64_t>(bytesPerSecond))) + "/s"; }

std::string factorText(double first, double second)
{
    return first > 0 ? fmt::format("{:.3g}", second / first) : std::string("-");
}

ordered_json figuresJson(const cluster::PairFigures &figures)
{
    return {{"point_to_point", figures.pointToPoint},
            {"collective", figures.collective},
            {"latency", figures.latency.value()}};
}

} // namespace

Result<ordered_json> reportLinks(const cluster::Cluster &first, const cluster::Cluster &second,
                                 const std::vector<std::string> &names, Output &output)
{
    constexpr std::size_t kMostRows = 64;
    const auto a = cluster::pairFigures(first), b = cluster::pairFigures(second);
    if (!std::ranges::equal(a, b, {}, &cluster::PairFigures::name, &cluster::PairFigures::name))
        return badInput("the two clusters do not have the same nodes");
    ordered_json list = ordered_json::array();
    Table table({"LINK", "OF", names[0], names[1], "FACTOR"});
    for (std::size_t i = 0; i < a.size(); ++i) {
        list.push_back({{"link", a[i].name},
                        {"inside", a[i].inside},
                        {"first", figuresJson(a[i])},
                        {"second", figuresJson(b[i])}});
        if (i >= kMostRows)
            continue;
        table.row({a[i].name, "point to point", rateText(a[i].pointToPoint), rateText(b[i].pointToPoint),
                   factorText(a[i].pointToPoint, b[i].pointToPoint)});
        table.row({"", "collective", rateText(a[i].collective), rateText(b[i].collective),
                   factorText(a[i].collective, b[i].collective)});
        table.row({"", "latency", format(a[i].latency), format(b[i].latency),
                   factorText(a[i].latency.value(), b[i].latency.value())});
    }
    table.print(output);
    if (a.size() > kMostRows)
        output.line(fmt::format("the first {} of {} links; --json has all", kMostRows, a.size()));
    return list;
}

bool isCluster(const std::string &source)
{
    if (source.starts_with("preset:") || source == "local" || source.starts_with("local:"))
        return true;
    const std::string extension = std::filesystem::path(source).extension().string();
    if (extension == ".yaml" || extension == ".yml")
        return true;
    std::error_code unknown;
    return extension == ".json" && std::filesystem::is_regular_file(source, unknown)
        && import::loadCluster(source).ok();
}

Status compareClusters(const std::string &a, const std::string &b, Output &output)
{
    const auto first = import::loadCluster(a);
    const auto second = import::loadCluster(b);
    if (!first || !second)
        return first ? second.error() : first.error();
    const auto links = reportLinks(**first, **second, {"A", "B"}, output);
    if (!links)
        return links.error();
    output.result(ordered_json{{"a", a}, {"b", b}, {"links", *links}});
    return {};
}

} // namespace planloom::cli
