// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "planners/registry.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;

namespace {

/// Prints a planner and returns it for --json.
ordered_json described(const planners::Planner &planner, Output &output)
{
    output.line(fmt::format("{}: {}", planner.name(), planner.about()));
    ordered_json options = ordered_json::array();
    Table table({"  --set KEY=DEFAULT", ""});
    for (const auto &option : planner.options()) {
        table.row({fmt::format("  {}={}", option.key, option.fallback), option.about});
        options.push_back(ordered_json{{"key", option.key}, {"default", option.fallback}, {"about", option.about}});
    }
    table.print(output);
    output.line();
    return {{"name", planner.name()}, {"about", planner.about()}, {"options", options}};
}

} // namespace

Status planners(Output &output)
{
    ordered_json all = ordered_json::array();
    ordered_json ofJobs = ordered_json::array();
    for (const planners::Planner *planner : planners::allPlanners())
        all.push_back(described(*planner, output));
    for (const planners::Planner *planner : planners::jobPlanners())
        ofJobs.push_back(described(*planner, output));
    output.result(ordered_json{{"planners", all}, {"job_planners", ofJobs}});
    return {};
}

} // namespace planloom::cli
