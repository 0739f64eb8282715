// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/edit.h"

#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"
#include "engine/simulate/simulate.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {
namespace {

/// The plan after all @p settings, which are tried as one edit: what some of them give alone need not be valid.
Result<plan::Document> editedPlan(const plan::Document &before, const std::vector<std::string> &settings)
{
    plan::Document changed = before;
    for (const std::string &setting : settings) {
        const std::size_t equals = setting.find('=');
        if (equals == std::string::npos || equals == 0)
            return badInput(fmt::format("--set {} is not KEY=VALUE; planloom edit --help lists the keys", setting));
        auto plan = plan::withValue(changed, setting.substr(0, equals), setting.substr(equals + 1));
        if (!plan)
            return Error{plan.error().code, fmt::format("--set {}: {}", setting, plan.error().message), {}, 0};
        changed.plan = *std::move(plan);
    }
    return plan::withPlan(before, std::move(changed.plan));
}

} // namespace

Status edit(const EditOptions &options, Output &output)
{
    if (auto good = checkWritable(options.out); !good)
        return good;
    const auto before = readPlanOrRun(options.plan);
    if (!before)
        return before.error();
    auto after = editedPlan(*before, options.set);
    if (!after)
        return after.error().in(options.plan);
    const auto was = simulate::simulatePlan(before->plan, before->subject, {false, false});
    if (!was)
        return was.error().in(options.plan);
    const auto simulation = simulate::simulatePlan(after->plan, after->subject, {false, false});
    if (!simulation)
        return simulation.error().in(options.plan);
    after->plan.predictedJson = simulate::toJson(simulation->report);
    if (!options.out.empty())
        if (auto written = writePlanTo(*after, options.out, output); !written)
            return written;

    const std::vector<std::string> changes = plan::difference(before->plan, after->plan);
    const double first = was->report.iterationSeconds;
    const double second = simulation->report.iterationSeconds;
    for (const std::string &change : changes)
        output.line(change);
    if (changes.empty())
        output.line("nothing changes");
    output.line();
    printPlan(after->plan, after->subject, output);
    output.line();
    printReport(simulation->report, output);
    output.line(fmt::format("before        iteration {}, now {} ({:+.1f} %)", format(Seconds(first)),
                            format(Seconds(second)), 100 * (second / first - 1)));
    if (!options.out.empty())
        output.line("plan written to " + options.out);
    output.json(fmt::format("{{\"changes\":{},\"iteration_seconds_before\":{},\"predicted\":{}}}",
                            nlohmann::ordered_json(changes).dump(-1, ' ', false,
                                                                 nlohmann::ordered_json::error_handler_t::replace),
                            first, after->plan.predictedJson));
    return {};
}

} // namespace planloom::cli
