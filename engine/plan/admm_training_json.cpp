// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/admm_training_json.h"

#include "engine/base/json_reader.h"
#include "engine/base/known_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <initializer_list>
#include <vector>

namespace planloom::plan {
namespace {

constexpr const char *kAdmmKind = "admm";
constexpr std::int64_t kMostAfter = 1 << 30;
constexpr std::int64_t kMostCount = 1 << 20; // Settings::check() knows the ranges

/// One of several, by their names; the first one if there is none.
template <class Choice>
Choice choiceFrom(JsonReader &reader, const char *key, std::initializer_list<Choice> choices)
{
    const std::string text = reader.text(key, name(*choices.begin()));
    std::vector<std::string> names;
    for (const Choice choice : choices) {
        if (text == name(choice))
            return choice;
        names.emplace_back(name(choice));
    }
    reader.fail(key, fmt::format("\"{}\" is not known; there are {}", text, fmt::join(names, ", ")));
    return *choices.begin();
}

admm::Settings settingsFrom(JsonReader reader)
{
    admm::Settings settings;
    refuseOthers(reader,
                 {"kind", "penalties", "ridge", "duals", "order", "subproblems", "restart", "newton_steps",
                  "tanh_steps", "shards", "time_ranges", "parallel", "barrier", "delay", "proximal", "then"});
    if (const std::string kind = reader.text("kind"); kind != kAdmmKind)
        reader.fail("kind", fmt::format("\"{}\" is not known; there is \"{}\"", kind, kAdmmKind));
    if (reader.has("penalties")) {
        JsonReader penalties = reader.object("penalties");
        refuseOthers(penalties, {"mu", "gamma", "rho"});
        settings.mu = penalties.number("mu", settings.mu);
        settings.gamma = penalties.number("gamma", settings.gamma);
        settings.rho = penalties.number("rho", settings.rho);
    }
    settings.ridge = reader.number("ridge", settings.ridge);
    settings.duals = choiceFrom(reader, "duals", {admm::Duals::All, admm::Duals::Last});
    settings.order = choiceFrom(reader, "order", {admm::Order::Interleaved, admm::Order::Split});
    settings.subproblems =
        choiceFrom(reader, "subproblems",
                   {admm::Subproblems::Exact, admm::Subproblems::Linearised, admm::Subproblems::Released});
    settings.restart = reader.flag("restart", settings.restart);
    const auto count = [&reader](const char *key, int standard) {
        return static_cast<int>(reader.integerOr(key, standard, 0, kMostCount));
    };
    settings.newtonSteps = count("newton_steps", settings.newtonSteps);
    settings.tanhSteps = count("tanh_steps", settings.tanhSteps);
    settings.shards = count("shards", settings.shards);
    settings.timeRanges = count("time_ranges", settings.timeRanges);
    settings.parallel = choiceFrom(reader, "parallel", {admm::Parallel::Synchronous, admm::Parallel::Asynchronous});
    settings.barrier = count("barrier", settings.barrier);
    settings.delay = count("delay", settings.delay);
    settings.proximal = reader.number("proximal", settings.proximal);
    return settings;
}

} // namespace

nlohmann::json trainingToJson(const Plan &plan)
{
    const admm::Settings &settings = *plan.admm;
    nlohmann::json json{{"kind", kAdmmKind},
                        {"penalties", {{"mu", settings.mu}, {"gamma", settings.gamma}, {"rho", settings.rho}}},
                        {"ridge", settings.ridge},
                        {"duals", name(settings.duals)},
                        {"order", name(settings.order)},
                        {"subproblems", name(settings.subproblems)},
                        {"restart", settings.restart},
                        {"newton_steps", settings.newtonSteps},
                        {"tanh_steps", settings.tanhSteps},
                        {"parallel", name(settings.parallel)}};
    if (settings.shards > 1)
        json["shards"] = settings.shards;
    if (settings.timeRanges > 1)
        json["time_ranges"] = settings.timeRanges;
    if (settings.parallel == admm::Parallel::Asynchronous) {
        json["barrier"] = settings.barrier;
        json["delay"] = settings.delay;
        json["proximal"] = settings.proximal;
    }
    if (plan.then)
        json["then"] = {{"after", plan.then->after}, {"optimizer", optimizerToJson(plan.then->optimizer)}};
    return json;
}

void trainingFrom(JsonReader &top, Plan &plan)
{
    if (!top.has("training"))
        return;
    JsonReader training = top.object("training");
    plan.admm = settingsFrom(training);
    if (training.has("then")) {
        JsonReader then = training.object("then");
        refuseOthers(then, {"after", "optimizer"});
        plan.then = Continuation{then.integer("after", 1, kMostAfter), optimizerFrom(then.object("optimizer"))};
    }
    if (top.has("optimizer"))
        top.fail("optimizer", "training by ADMM has none; leave it out");
    plan.optimizer = admmOptimizer();
}

} // namespace planloom::plan
