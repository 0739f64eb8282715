// SPDX-License-Identifier: Apache-2.0
#include "engine/overlay/overlay.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace planloom::overlay {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostLines = 12; ///< of unmatched names, in text

std::string inMilliseconds(double seconds) { return fmt::format("{:.3f}", seconds * 1e3); }

std::string inPercent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void addRows(std::string &text, const char *what, const std::vector<Row> &rows)
{
    if (rows.empty())
        return;
    std::size_t width = std::string_view(what).size();
    for (const Row &row : rows)
        width = std::max(width, row.name.size());
    text += fmt::format("\n{:<{}}  {:<9}{:>15}{:>14}{:>8}{:>16}{:>12}\n", what, width, "pass", "predicted (ms)",
                        "measured (ms)", "ratio", "not found (ms)", "operators");
    for (const Row &row : rows) {
        const bool isFound = row.missing < row.operators || row.predicted > 0;
        text += fmt::format("{:<{}}  {:<9}{:>15}{:>14}{:>8}{:>16}{:>12}\n", row.name, width, row.pass,
                            isFound ? inMilliseconds(row.predicted) : "-", isFound ? inMilliseconds(row.measured) : "-",
                            row.measured > 0 ? fmt::format("{:.2f}", row.ratio()) : "-",
                            row.notFound > 0 ? inMilliseconds(row.notFound) : "-",
                            row.missing > 0 ? fmt::format("{} of {}", row.operators - row.missing, row.operators)
                                            : fmt::format("{}", row.operators));
    }
}

void addUnmatched(std::string &text, const char *title, const std::vector<Unmatched> &list)
{
    if (list.empty())
        return;
    double seconds = 0;
    for (const Unmatched &one : list)
        seconds += one.seconds;
    text += fmt::format("\n{}: {} names, {} ms a step\n", title, list.size(), inMilliseconds(seconds));
    for (std::size_t i = 0; i < std::min(list.size(), kMostLines); ++i)
        text += fmt::format("  {:>10} ms {:>6} x  {:<9}  {}\n", inMilliseconds(list[i].seconds), list[i].count,
                            list[i].pass, list[i].name);
    if (list.size() > kMostLines)
        text += fmt::format("  and {} more names\n", list.size() - kMostLines);
}

ordered_json rowsJson(const std::vector<Row> &rows)
{
    ordered_json made = ordered_json::array();
    for (const Row &row : rows)
        made.push_back({{"name", row.name},
                        {"pass", row.pass},
                        {"predicted_seconds", row.predicted},
                        {"measured_seconds", row.measured},
                        {"ratio", row.ratio()},
                        {"not_found_seconds", row.notFound},
                        {"operators", row.operators},
                        {"missing", row.missing}});
    return made;
}

ordered_json unmatchedJson(const std::vector<Unmatched> &list)
{
    ordered_json made = ordered_json::array();
    for (const Unmatched &one : list)
        made.push_back({{"name", one.name}, {"pass", one.pass}, {"count", one.count}, {"seconds", one.seconds}});
    return made;
}

} // namespace

std::string confidenceText(const Overlay &overlay)
{
    const std::int64_t known = overlay.sizesAgree + overlay.sizesDiffer;
    return fmt::format("{} confidence ({:.2f}): {} of the operators found, {} of the measured time matched{}",
                       name(overlay.certainty()), overlay.confidence, inPercent(overlay.found),
                       inPercent(overlay.timeMatched),
                       known > 0 ? fmt::format(", sizes of {} of {} agree", overlay.sizesAgree, known) : "");
}

std::string toText(const Overlay &overlay)
{
    std::string text = fmt::format("trace of another program  {}\nmatched by kinds and order{}  {}\n", overlay.file,
                                   overlay.byScope > 0 ? " and the names of ranges" : "", confidenceText(overlay));
    text += fmt::format("step  predicted {} ms  measured {} ms  of {} steps\n", inMilliseconds(overlay.predictedStep),
                        inMilliseconds(overlay.measuredStep), overlay.steps);
    for (const Laid &laid : overlay.processes)
        text += fmt::format("{} on {}{}: {} of the operators, {} of {} time\n", laid.process, laid.devices.front(),
                            laid.devices.size() > 1 ? fmt::format(" and {} more", laid.devices.size() - 1) : "",
                            inPercent(laid.found), inPercent(laid.timeMatched),
                            laid.hasKernels ? "the GPU's" : "the processor's");
    for (const std::string &note : overlay.notes)
        text += note + "\n";
    addRows(text, "layer", overlay.layers);
    addRows(text, "kind", overlay.kinds);
    addUnmatched(text, "in the trace, not in the plan", overlay.onlyInTrace);
    addUnmatched(text, "in the plan, not in the trace", overlay.onlyInPlan);
    return text;
}

std::string toJson(const Overlay &overlay)
{
    ordered_json processes = ordered_json::array();
    for (const Laid &laid : overlay.processes)
        processes.push_back({{"process", laid.process},
                             {"devices", laid.devices},
                             {"operators_found", laid.found},
                             {"time_matched", laid.timeMatched},
                             {"micro_batches", laid.microBatches},
                             {"has_kernels", laid.hasKernels},
                             {"has_operators", laid.hasOperators},
                             {"has_tasks", laid.hasTasks}});
    const ordered_json json{{"file", overlay.file},
                            {"confidence", overlay.confidence},
                            {"certainty", name(overlay.certainty())},
                            {"operators_found", overlay.found},
                            {"time_matched", overlay.timeMatched},
                            {"sizes_agree", overlay.sizesAgree},
                            {"sizes_differ", overlay.sizesDiffer},
                            {"matched_by_scope", overlay.byScope},
                            {"steps", overlay.steps},
                            {"predicted_step_seconds", overlay.predictedStep},
                            {"measured_step_seconds", overlay.measuredStep},
                            {"processes", std::move(processes)},
                            {"layers", rowsJson(overlay.layers)},
                            {"kinds", rowsJson(overlay.kinds)},
                            {"only_in_trace", unmatchedJson(overlay.onlyInTrace)},
                            {"only_in_plan", unmatchedJson(overlay.onlyInPlan)},
                            {"notes", overlay.notes}};
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace planloom::overlay
