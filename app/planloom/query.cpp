// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/trace_report.h"
#include "app/planloom/verbs.h"
#include "engine/import/trace/foreign_trace.h"
#include "engine/simulate/simulate.h"
#include "engine/store/trace_query.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// What a run has recorded, a trace of any program, or the prediction of a plan.
Result<trace::Trace> traceOf(const std::string &what, Progress &progress)
{
    if (isRunFolder(what))
        return readRunTrace(what);
    if (isTraceFile(what)) {
        auto read = import::readAnyTrace(what, progress);
        return read ? Result<trace::Trace>(std::move(read->trace)) : read.error();
    }
    const auto document = readPlanOrRun(what);
    if (!document)
        return document.error();
    auto simulation = simulate::simulatePlan(document->plan, document->subject, {true, false});
    return simulation ? Result<trace::Trace>(std::move(simulation->trace)) : simulation.error().in(what);
}

using QueryCell = store::QueryTable::Cell;

std::string cellText(const QueryCell &cell)
{
    struct Text {
        std::string operator()(std::monostate) const { return {}; }
        std::string operator()(std::int64_t number) const { return std::to_string(number); }
        std::string operator()(double number) const { return fmt::format("{:.9g}", number); }
        std::string operator()(const std::string &text) const { return text; }
    };
    return std::visit(Text{}, cell);
}

ordered_json cellJson(const QueryCell &cell)
{
    struct Json {
        ordered_json operator()(std::monostate) const { return nullptr; }
        ordered_json operator()(std::int64_t number) const { return number; }
        ordered_json operator()(double number) const { return number; }
        ordered_json operator()(const std::string &text) const { return text; }
    };
    return std::visit(Json{}, cell);
}

} // namespace

Status query(const QueryOptions &options, Output &output)
{
    TerminalProgress progress(output.showsProgress());
    const auto trace = traceOf(options.what, progress);
    if (!trace)
        return trace.error();
    const auto found = store::queryTrace(*trace, options.sql, progress);
    progress.clear();
    if (!found)
        return found.error();
    Table table(found->columns);
    ordered_json rows = ordered_json::array();
    for (const std::vector<QueryCell> &row : found->rows) {
        std::vector<std::string> cells;
        ordered_json values = ordered_json::array();
        for (const QueryCell &cell : row) {
            if (output.isJson())
                values.push_back(cellJson(cell));
            else
                cells.push_back(cellText(cell));
        }
        if (output.isJson())
            rows.push_back(std::move(values));
        else
            table.row(std::move(cells));
    }
    table.print(output);
    if (found->rows.empty())
        output.line("no rows");
    output.result(ordered_json{{"columns", found->columns}, {"rows", std::move(rows)}});
    return {};
}

} // namespace planloom::cli
