// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json_reader.h"
#include "engine/plan/why.h"

#include <array>
#include <cmath>
#include <utility>

namespace planloom::plan {
namespace {

using nlohmann::json;

constexpr std::array kSeconds{
    std::pair{"forward_seconds", &StageWhy::forwardSeconds},
    std::pair{"backward_seconds", &StageWhy::backwardSeconds},
    std::pair{"recompute_seconds", &StageWhy::recomputeSeconds},
    std::pair{"optimizer_seconds", &StageWhy::optimizerSeconds},
    std::pair{"boxing_seconds", &StageWhy::boxingSeconds},
    std::pair{"transfer_seconds", &StageWhy::transferSeconds},
    std::pair{"exchange_seconds", &StageWhy::exchangeSeconds},
    std::pair{"exposed_exchange_seconds", &StageWhy::exposedExchangeSeconds},
    std::pair{"idle_seconds", &StageWhy::idleSeconds},
};
constexpr std::array kBytes{
    std::pair{"parameter_bytes", &StageWhy::parameterBytes}, std::pair{"gradient_bytes", &StageWhy::gradientBytes},
    std::pair{"optimizer_bytes", &StageWhy::optimizerBytes}, std::pair{"activation_bytes", &StageWhy::activationBytes},
    std::pair{"other_bytes", &StageWhy::otherBytes},         std::pair{"capacity_bytes", &StageWhy::capacityBytes},
};

json stageToJson(const StageWhy &stage)
{
    json made{{"device", stage.device}, {"limit", stage.limit}, {"detail", stage.detail}};
    for (const auto &[key, member] : kSeconds)
        made[key] = std::isfinite(stage.*member) ? stage.*member : 0.0;
    for (const auto &[key, member] : kBytes)
        made[key] = stage.*member;
    return made;
}

StageWhy stageFrom(JsonReader &reader)
{
    StageWhy stage;
    stage.device = reader.text("device", std::string());
    stage.limit = reader.text("limit", std::string());
    stage.detail = reader.text("detail", std::string());
    for (const auto &[key, member] : kSeconds)
        stage.*member = reader.number(key, 0.0);
    for (const auto &[key, member] : kBytes)
        stage.*member = reader.integerOr(key, 0, 0, std::numeric_limits<std::int64_t>::max());
    return stage;
}

} // namespace

std::string toJson(const Why &why)
{
    json stages = json::array();
    for (const StageWhy &stage : why.stages)
        stages.push_back(stageToJson(stage));
    json made{{"stages", std::move(stages)}, {"limit", why.limit}, {"detail", why.detail}};
    if (why.runnerUp)
        made["runner_up"] = {{"notation", why.runnerUp->notation},
                             {"iteration_seconds", why.runnerUp->iterationSeconds},
                             {"differences", why.runnerUp->differences}};
    return made.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Why> whyFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader top(*document);
    Why why;
    top.each("stages", [&why](JsonReader &entry) { why.stages.push_back(stageFrom(entry)); });
    why.limit = top.text("limit", std::string());
    why.detail = top.text("detail", std::string());
    if (top.has("runner_up")) {
        JsonReader reader = top.object("runner_up");
        RunnerUp other{reader.text("notation", std::string()), reader.number("iteration_seconds", 0.0), {}};
        reader.each("differences", [&other](JsonReader &entry) { other.differences.push_back(entry.asText()); });
        why.runnerUp = std::move(other);
    }
    if (Status status = top.failure(); !status)
        return status.error();
    return why;
}

} // namespace planloom::plan
