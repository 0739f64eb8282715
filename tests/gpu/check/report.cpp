// SPDX-License-Identifier: Apache-2.0
#include "gpu/check/report.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::check {

using nlohmann::ordered_json;
namespace {

ordered_json jsonOf(const OperatorRow &row)
{
    return {{"type", row.type},
            {"on_gpu", row.onGpu},
            {"on_host", row.onHost},
            {"worst_difference", row.worst},
            {"wrong", row.wrong}};
}

ordered_json jsonOf(const ModelRow &row)
{
    return {{"model", row.model},
            {"precision", row.precision},
            {"losses", row.losses},
            {"expected", row.expected},
            {"worst_difference", row.worst},
            {"arena_bytes_planned", row.arenaPlanned},
            {"arena_bytes_used", row.arenaUsed},
            {"same_bits", row.sameBits},
            {"on_host", row.onHost},
            {"wrong", row.wrong}};
}

ordered_json jsonOf(const StepRow &row)
{
    return {{"model", row.model},
            {"precision", row.precision},
            {"batch", row.batch},
            {"micro_batch", row.microBatch},
            {"seconds", row.seconds},
            {"seconds_with_graphs_recorded", row.graphSeconds},
            {"seconds_with_kernels_recorded", row.kernelSeconds},
            {"cost_of_recording_graphs", row.graphCost()},
            {"cost_of_recording_kernels", row.kernelCost()},
            {"predicted_seconds", row.predicted},
            {"prediction_error", row.predictionError()},
            {"samples_per_second", row.samplesPerSecond()},
            {"tokens_per_second", row.samplesPerSecond() * row.tokens},
            {"pytorch_seconds", row.peer > 0 ? ordered_json(row.peer) : ordered_json()},
            {"pytorch_note", row.peerNote},
            {"wrong", row.wrong}};
}

template <class Row>
ordered_json rowsOf(const std::vector<Row> &rows)
{
    ordered_json all = ordered_json::array();
    for (const Row &row : rows)
        all.push_back(jsonOf(row));
    return all;
}

template <class Row>
bool allRight(const std::vector<Row> &rows)
{
    return std::all_of(rows.begin(), rows.end(), [](const Row &row) { return row.wrong.empty(); });
}

std::string verdict(const std::string &wrong) { return wrong.empty() ? "ok" : "WRONG: " + wrong; }

std::string operatorsText(const std::vector<OperatorRow> &rows)
{
    std::string text = fmt::format("{:<34}{:>8}{:>9}{:>12}\n", "OPERATOR", "ON GPU", "ON HOST", "DIFFERENCE");
    for (const OperatorRow &row : rows)
        text += fmt::format("{:<34}{:>8}{:>9}{:>12.1e}  {}\n", row.type, row.onGpu, row.onHost, row.worst,
                            verdict(row.wrong));
    return text;
}

std::string modelsText(const std::vector<ModelRow> &rows)
{
    std::string text = fmt::format("{:<16}{:<10}{:>6}{:>12}{:>16}{:>16}{:>11}\n", "MODEL", "PRECISION", "STEPS",
                                   "DIFFERENCE", "ARENA PLANNED", "ARENA USED", "SAME BITS");
    for (const ModelRow &row : rows)
        text += fmt::format("{:<16}{:<10}{:>6}{:>12.1e}{:>16}{:>16}{:>11}  {}\n", row.model, row.precision,
                            row.losses.size(), row.worst, row.arenaPlanned, row.arenaUsed, row.sameBits ? "yes" : "no",
                            verdict(row.wrong));
    return text;
}

std::string rateOf(const StepRow &row)
{
    const double rate = row.samplesPerSecond() * (row.tokens > 0 ? row.tokens : 1);
    const std::string number = rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate);
    return number + (row.tokens > 0 ? " tokens/s" : " samples/s");
}

std::string peerOf(const StepRow &row)
{
    if (!(row.peer > 0))
        return row.peerNote;
    return fmt::format("{:.2f} ms, {:.2f} x", row.peer * 1e3, row.seconds > 0 ? row.peer / row.seconds : 0.0);
}

/// By how much recording makes a step longer.
std::string costOf(double seconds, double cost)
{
    return seconds > 0 ? fmt::format("{:+.1f} %", cost * 100) : std::string("none");
}

std::string stepsText(const std::vector<StepRow> &rows)
{
    std::string text =
        fmt::format("{:<24}{:<10}{:>6}{:>7}{:>12}{:>20}{:>12}{:>9}{:>10}{:>10}  {}\n", "STEP", "PRECISION", "BATCH",
                    "MICRO", "MEASURED", "", "PREDICTED", "ERROR", "GRAPHS", "KERNELS", "PYTORCH");
    for (const StepRow &row : rows)
        text += fmt::format("{:<24}{:<10}{:>6}{:>7}{:>9.2f} ms{:>20}{:>9.2f} ms{:>+7.1f} %{:>10}{:>10}  {}  {}\n",
                            row.model, row.precision, row.batch, row.microBatch, row.seconds * 1e3, rateOf(row),
                            row.predicted * 1e3, row.predictionError() * 100, costOf(row.graphSeconds, row.graphCost()),
                            costOf(row.kernelSeconds, row.kernelCost()), peerOf(row), verdict(row.wrong));
    return text;
}

} // namespace

bool Report::passed() const { return allRight(operators) && allRight(models) && allRight(steps); }

std::string toJson(const Report &report)
{
    const ordered_json json{{"schema", "planloom.gpu-check/1"},
                            {"device", report.device},
                            {"pytorch", report.peer},
                            {"passed", report.passed()},
                            {"operators", rowsOf(report.operators)},
                            {"models", rowsOf(report.models)},
                            {"steps", rowsOf(report.steps)}};
    return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string toText(const Report &report)
{
    std::string text = operatorsText(report.operators) + "\n" + modelsText(report.models);
    if (!report.steps.empty())
        text += "\n" + stepsText(report.steps);
    return text
        + fmt::format("\ndevice        {}\nPyTorch       {}\n{}\n", report.device, report.peer,
                      report.passed() ? "all of it is right" : "something is WRONG, see above");
}

} // namespace planloom::check
