// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "engine/base/files.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

constexpr std::string_view kSchemaOfChecks = "planloom.gpu-check/1";

Result<ordered_json> readCheck(const std::string &path)
{
    if (!isGpuCheck(path))
        return badInput("is no report of planloom bench gpu, and the other one is; compare two of a kind").in(path);
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto json = ordered_json::parse(*text, nullptr, false);
    if (json.is_discarded() || json.value("schema", "") != kSchemaOfChecks)
        return badInput(fmt::format("is no whole report of schema {}; make it anew with planloom bench gpu -o FILE",
                                    kSchemaOfChecks))
            .in(path);
    return json;
}

std::int64_t wrongOf(const ordered_json &rows)
{
    return std::count_if(rows.begin(), rows.end(), [](const auto &row) { return row.at("wrong") != ""; });
}

/// Operator types of which a part runs on the host.
std::vector<std::string> typesOnHost(const ordered_json &check)
{
    std::vector<std::string> types;
    for (const auto &row : check.at("operators"))
        if (row.at("on_host").get<std::int64_t>() > 0)
            types.push_back(row.at("type"));
    std::sort(types.begin(), types.end());
    return types;
}

std::vector<std::string> without(const std::vector<std::string> &all, const std::vector<std::string> &those)
{
    std::vector<std::string> rest;
    std::set_difference(all.begin(), all.end(), those.begin(), those.end(), std::back_inserter(rest));
    return rest;
}

std::string keyOf(const ordered_json &step)
{
    return fmt::format("{} {} {}/{}", step.at("model").get<std::string>(), step.at("precision").get<std::string>(),
                       step.at("batch").get<std::int64_t>(), step.at("micro_batch").get<std::int64_t>());
}

/// Steps that both have timed.
ordered_json pairsOf(const ordered_json &a, const ordered_json &b)
{
    ordered_json pairs = ordered_json::array();
    for (const auto &first : a.at("steps"))
        for (const auto &second : b.at("steps")) {
            const double seconds = second.at("seconds");
            if (keyOf(first) != keyOf(second) || !(seconds > 0))
                continue;
            pairs.push_back({{"step", keyOf(first)},
                             {"a_seconds", first.at("seconds")},
                             {"b_seconds", seconds},
                             {"speedup_of_b", first.at("seconds").get<double>() / seconds},
                             {"a_prediction_error", first.at("prediction_error")},
                             {"b_prediction_error", second.at("prediction_error")}});
        }
    return pairs;
}

void printChecks(const CompareOptions &options, const ordered_json &a, const ordered_json &b, Output &output)
{
    Table table({"", "A", "B"});
    const auto row = [&](const char *what, const auto &value) { table.row({what, value(a), value(b)}); };
    table.row({"", options.a, options.b});
    row("device", [](const ordered_json &check) { return check.at("device").get<std::string>(); });
    row("PyTorch", [](const ordered_json &check) { return check.at("pytorch").get<std::string>(); });
    row("operator types", [](const ordered_json &check) { return std::to_string(check.at("operators").size()); });
    row("partly on the host", [](const ordered_json &check) { return std::to_string(typesOnHost(check).size()); });
    row("wrong operators", [](const ordered_json &check) { return std::to_string(wrongOf(check.at("operators"))); });
    row("wrong trainings", [](const ordered_json &check) { return std::to_string(wrongOf(check.at("models"))); });
    table.print(output);
}

void printPairs(const ordered_json &pairs, Output &output)
{
    Table table({"STEP", "A", "B", "B IS FASTER BY", "PREDICTED A", "PREDICTED B"});
    for (const auto &pair : pairs)
        table.row({pair.at("step"), format(Seconds(pair.at("a_seconds").get<double>())),
                   format(Seconds(pair.at("b_seconds").get<double>())),
                   fmt::format("{:.2f} x", pair.at("speedup_of_b").get<double>()),
                   fmt::format("{:+.1f} %", pair.at("a_prediction_error").get<double>() * 100),
                   fmt::format("{:+.1f} %", pair.at("b_prediction_error").get<double>() * 100)});
    if (table.empty())
        return;
    output.line();
    table.print(output);
}

void compareChecks(const CompareOptions &options, const ordered_json &a, const ordered_json &b, Output &output)
{
    const ordered_json pairs = pairsOf(a, b);
    const auto left = without(typesOnHost(a), typesOnHost(b));
    const auto came = without(typesOnHost(b), typesOnHost(a));
    printChecks(options, a, b, output);
    printPairs(pairs, output);
    if (!left.empty())
        output.line(fmt::format("on the host in A, not in B: {}", fmt::join(left, ", ")));
    if (!came.empty())
        output.line(fmt::format("on the host in B, not in A: {}", fmt::join(came, ", ")));
    output.result(
        ordered_json{{"a", a}, {"b", b}, {"steps", pairs}, {"left_the_host", left}, {"came_to_the_host", came}});
}

} // namespace

bool isGpuCheck(const std::string &path)
{
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown))
        return false;
    char head[64] = {};
    std::ifstream(path, std::ios::binary).read(head, sizeof head - 1);
    return std::string_view(head).find(kSchemaOfChecks) != std::string_view::npos;
}

Status compareGpuChecks(const CompareOptions &options, Output &output)
{
    const auto a = readCheck(options.a);
    if (!a)
        return a.error();
    const auto b = readCheck(options.b);
    if (!b)
        return b.error();
    try {
        compareChecks(options, *a, *b, output);
    } catch (const ordered_json::exception &problem) { // a field that is missing or of another type
        return badInput(
            fmt::format("the reports {} and {} cannot be compared: {}; make them anew with planloom bench gpu",
                        options.a, options.b, problem.what()));
    }
    return {};
}

} // namespace planloom::cli
