// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/plan_export.h"

#include "engine/compile/compile.h"

#include <map>
#include <string_view>
#include <utility>

namespace planloom::ui {
namespace {

using Text = Result<exporting::Configuration>;
using Make = Text (*)(const plan::Document &, const simulate::Simulation *);

Text text(Result<std::string> made)
{
    if (!made)
        return made.error();
    return exporting::Configuration{*std::move(made), {}};
}

template <exporting::PytorchForm form>
Text schedule(const plan::Document &document, const simulate::Simulation *)
{
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = false});
    return program ? exporting::pytorchScheduleCsv(*program, form) : Text(program.error());
}

Text timeline(const plan::Document &, const simulate::Simulation *simulation)
{
    if (simulation == nullptr)
        return badInput("there is no timeline yet; wait until the plan is simulated");
    return text(exporting::chromeTrace(simulation->trace));
}

Text tableOfTasks(const plan::Document &, const simulate::Simulation *simulation)
{
    if (simulation == nullptr)
        return badInput("there is no timeline yet; wait until the plan is simulated");
    std::string whole;
    const Status made = exporting::taskTable(simulation->trace, [&whole](std::string_view piece) -> Status {
        whole += piece;
        return {};
    });
    return made ? text(std::move(whole)) : Text(made.error());
}

struct Maker {
    const char *suffix;
    const char *title;
    bool program; ///< another framework reads the file
    Make make;
};

const std::map<std::string, Maker> &makers()
{
    static const std::map<std::string, Maker> table = {
        {"megatron",
         {"args", "Megatron-LM", true,
          [](const plan::Document &document, const simulate::Simulation *) {
              return exporting::megatronArguments(document);
          }}},
        {"deepspeed",
         {"json", "DeepSpeed", true,
          [](const plan::Document &document, const simulate::Simulation *) {
              return exporting::deepSpeedConfig(document);
          }}},
        {"torchtitan",
         {"toml", "torchtitan", true,
          [](const plan::Document &document, const simulate::Simulation *) {
              return exporting::torchtitanConfig(document);
          }}},
        {"pytorch-csv", {"csv", "PyTorch pipelining", true, schedule<exporting::PytorchForm::ComputeOnly>}},
        {"pytorch-csv-comms",
         {"csv", "PyTorch with communication", true, schedule<exporting::PytorchForm::ComputeComms>}},
        {"chrome-trace", {"trace.json", "Chrome trace", false, timeline}},
        {"task-csv", {"tasks.csv", "Table of tasks", false, tableOfTasks}},
        {"plan",
         {"plan.json", "Plan file", false,
          [](const plan::Document &document, const simulate::Simulation *) { return text(plan::toJson(document)); }}},
        {"model",
         {"graph.json", "Model", false,
          [](const plan::Document &document, const simulate::Simulation *) {
              return text(graph::toJson(*document.subject.graph) + "\n");
          }}},
        {"cluster",
         {"cluster.json", "Cluster", false,
          [](const plan::Document &document, const simulate::Simulation *) {
              return text(cluster::toJson(*document.subject.cluster) + "\n");
          }}},
        {"dot",
         {"dot", "Graphviz DOT", false,
          [](const plan::Document &document, const simulate::Simulation *) {
              return text(exporting::graphvizDot(*document.subject.graph, &document.plan, &document.subject.layers()));
          }}},
    };
    return table;
}

/// Options of the command line that remedies name, in the words of the studio's fields.
std::string inStudioWords(std::string text)
{
    static const std::pair<std::string_view, std::string_view> words[] = {
        {"plan with --no-decay 'rank<2', or --weight-decay 0",
         "in Plan > Find a plan, set \"Exempt from decay\" to \"biases and norms\" or \"Weight decay\" to 0"},
        {"plan without --no-decay", "in Plan > Find a plan, set \"Exempt from decay\" to \"no parameters\""},
        {"plan with --optimizer ", "choose in the plan's \"Optimizer\" field "},
        {"export it with --to pytorch-csv", "export it as PyTorch pipelining"},
    };
    for (const auto &[option, field] : words)
        if (const auto at = text.find(option); at != std::string::npos)
            text.replace(at, option.size(), field);
    return text;
}

} // namespace

std::vector<PlanFormat> planFormats()
{
    std::vector<PlanFormat> formats;
    for (const bool ofPrograms : {true, false}) // formats of other programs first
        for (const exporting::Format &format : exporting::formats())
            if (const auto maker = makers().find(format.name);
                maker != makers().end() && maker->second.program == ofPrograms)
                formats.push_back({format.name, format.about, maker->second.suffix, maker->second.title});
    return formats;
}

Result<exporting::Configuration> exportPlan(const std::string &format, const plan::Document &document,
                                            const simulate::Simulation *simulation)
{
    const auto maker = makers().find(format);
    if (maker == makers().end())
        return notFound("the studio cannot export a plan as " + format + "; choose another format");
    auto made = maker->second.make(document, simulation);
    if (made)
        return made;
    Error error = made.error();
    error.message = inStudioWords(std::move(error.message));
    return error;
}

} // namespace planloom::ui
