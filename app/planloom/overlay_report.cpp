// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/overlay_report.h"

#include "app/planloom/sources.h"
#include "engine/import/trace/foreign_trace.h"
#include "engine/overlay/overlay.h"
#include "engine/simulate/simulate.h"
#include "profiler/comparison.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;

bool holdsPlan(const std::string &path)
{
    if (isRunFolder(path))
        return true;
    constexpr std::streamsize kHead = 4096;
    std::string head(kHead, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), kHead);
    head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
    return head.find("\"planloom.plan/") != std::string::npos;
}

Result<ordered_json> reportOverlay(const trace::Trace &trace, const std::string &file, const std::string &plan,
                                   Output &output)
{
    const auto document = readPlanOrRun(plan);
    if (!document)
        return document.error();
    NoProgress none;
    const auto laid = overlay::layOver(trace, *document, file, none);
    if (!laid)
        return laid.error();
    output.line(overlay::toText(*laid));
    ordered_json json = ordered_json::object();
    json["overlay"] = ordered_json::parse(overlay::toJson(*laid));
    json["tasks"] = nullptr;
    if (!std::ranges::any_of(laid->processes, &overlay::Laid::hasTasks))
        return json;
    const auto predicted = simulate::simulatePlan(document->plan, document->subject, {true, false});
    if (!predicted)
        return predicted.error();
    const profiler::Comparison tasks = profiler::compare(predicted->trace, laid->trace);
    output.line("task by task");
    output.line(profiler::toText(tasks));
    json["tasks"] = ordered_json::parse(profiler::toJson(tasks));
    return json;
}

Status compareWithTrace(const std::string &plan, const std::string &file, Output &output)
{
    NoProgress none;
    const auto read = import::readForeignTrace(file, none);
    if (!read)
        return read.error();
    for (const std::string &note : read->notes)
        output.note(file + ": " + note);
    auto json = reportOverlay(read->trace, file, plan, output);
    if (!json)
        return json.error();
    (*json)["plan"] = plan;
    (*json)["trace"] = file;
    output.result(*json);
    return {};
}

} // namespace planloom::cli
