// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "executor/remote/client.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace planloom::cli {

using nlohmann::ordered_json;

Status attach(const AttachOptions &options, Output &output)
{
    const std::string folder = absolutePath(options.folder);
    auto attached =
        remote::attach({folder, options.checkpoints}, [&output](const std::string &line) { output.note(line); });
    if (!attached)
        return attached.error();
    agent::RunEvents events;
    events.onStep = [&](const run::StepMetrics &step) {
        output.json(run::toJson(step));
        output.line(
            fmt::format("step {:>6}  loss {:<10.6g}  {:>9}", step.step, step.loss, format(Seconds(step.seconds))));
    };
    events.onValidation = [&](const run::Validation &seen) {
        output.json(run::toJson(seen));
        output.line(fmt::format("step {:>6}  validation: {}", seen.step, scores(seen)));
    };
    std::optional<run::Summary> last;
    events.onSummary = [&](const run::Summary &summary) { last = summary; };
    Status outcome;
    {
        const InterruptWatch watch([&attached] { (*attached)->stop(); });
        outcome = (*attached)->follow(events);
    }
    if (last) {
        output.line(
            fmt::format("loss          {:.6g} -> {:.6g} in {} steps", last->lossFirst, last->lossLast, last->steps));
        output.line("run           " + folder);
        output.result(ordered_json{{"summary", ordered_json::parse(run::toJson(*last))}});
    }
    return outcome;
}

} // namespace planloom::cli
