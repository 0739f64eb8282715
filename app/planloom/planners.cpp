// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/json_text.h"
#include "app/planloom/verbs.h"
#include "planners/planner.h"

#include <fmt/format.h>

namespace planloom::cli {

Status planners(Output &output)
{
    JsonArray all;
    for (const planners::Planner *planner : planners::allPlanners()) {
        output.line(fmt::format("{}: {}", planner->name(), planner->about()));
        JsonArray options;
        Table table({"  --set KEY=DEFAULT", ""});
        for (const auto &option : planner->options()) {
            table.row({fmt::format("  {}={}", option.key, option.fallback), option.about});
            options.raw(JsonObject().add("key", option.key).add("default", option.fallback).add("about", option.about).text());
        }
        table.print(output);
        output.line();
        all.raw(JsonObject().add("name", planner->name()).add("about", planner->about()).raw("options", options.text()).text());
    }
    output.json(JsonObject().raw("planners", all.text()).text());
    return {};
}

} // namespace planloom::cli
