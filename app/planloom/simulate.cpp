// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/simulate.h"

#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"
#include "engine/export/export.h"

namespace planloom::cli {

Status simulate(const SimulateOptions &options, Output &output)
{
    if (auto good = checkWritable(options.trace); !good)
        return good;
    const auto document = readPlanOrRun(options.plan);
    if (!document)
        return document.error();
    const auto simulation = simulate::simulatePlan(document->plan, document->subject, {!options.trace.empty(), false});
    if (!simulation)
        return simulation.error().in(options.plan);
    if (!options.trace.empty()) {
        const bool chrome = options.trace.ends_with(".json");
        if (auto written = chrome ? exporting::writeChromeTrace(simulation->trace, options.trace) : trace::writeTrace(simulation->trace, options.trace); !written)
            return written;
    }
    printPlan(document->plan, document->subject, output);
    output.line();
    printReport(simulation->report, output);
    if (!options.trace.empty())
        output.line("trace written to " + options.trace);
    output.json(simulate::toJson(simulation->report));
    return {};
}

} // namespace planloom::cli
