// SPDX-License-Identifier: Apache-2.0
// Written for DeepSpeed 0.16; resources/docs/formats/exports.md maps each field.
#include "engine/export/export.h"
#include "engine/export/uniform.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace planloom::exporting {
namespace {

using Json = nlohmann::ordered_json;
const std::string kDeepSpeed = "DeepSpeed";
/// Warmup schedules there count at least two steps.
constexpr std::int64_t kLeastWarmup = 2;

Status checkLayout(const plan::Plan &plan, const Uniform &uniform)
{
    if (plan.stages.size() > 1)
        return unsupported(fmt::format("the plan is a pipeline of {} stages, and DeepSpeed's pipelines are made in "
                                       "code (PipelineModule), not in its configuration; plan with one stage, or "
                                       "export another format",
                                       plan.stages.size()));
    if (uniform.tensor > 1)
        return unsupported(fmt::format("the plan splits tensors over {} devices, and DeepSpeed trains models that do "
                                       "so in their own code; plan with whole tensors, or export another "
                                       "format",
                                       uniform.tensor));
    if (uniform.recompute != plan::Recompute::None)
        return unsupported(fmt::format("the plan recomputes ('{}'), and with DeepSpeed the model's own code calls for "
                                       "that; plan without recomputation",
                                       plan::name(uniform.recompute)));
    if (uniform.order != Uniform::Order::OneF1B)
        return unsupported(fmt::format("the plan runs passes in another order ({}) than a backward after each forward, "
                                       "which is DeepSpeed's; use schedule 1f1b",
                                       plan::name(plan.schedule.kind)));
    constexpr std::array kKnown{"adamw", "sgd", "lion"};
    if (std::find(kKnown.begin(), kKnown.end(), plan.optimizer.rule.name()) == kKnown.end())
        return unsupported(fmt::format("the optimizer is {}, which DeepSpeed has not in this form; plan with "
                                       "--optimizer {}",
                                       plan.optimizer.rule.rule().title, fmt::join(kKnown, " or ")));
    if (!plan.optimizer.groups.empty())
        return unsupported(fmt::format("the optimizer has separate settings for parameters '{}', and DeepSpeed is "
                                       "given groups of parameters in code; plan without --no-decay",
                                       plan.optimizer.groups.front().match));
    return {};
}

Json optimizerOf(const plan::Optimizer &optimizer)
{
    const update::ConfiguredRule &rule = optimizer.rule;
    Json params{{"lr", optimizer.learningRate}};
    if (rule.name() == "sgd")
        params["momentum"] = rule.setting("momentum");
    else
        params["betas"] = {rule.setting("beta1"), rule.setting("beta2")};
    if (rule.name() == "adamw")
        params["eps"] = rule.setting("epsilon");
    params["weight_decay"] = optimizer.weightDecay;
    return {{"type", rule.rule().title}, {"params", params}};
}

/// Nothing for a constant rate without warm-up.
Result<Json> schedulerOf(const plan::Optimizer &optimizer)
{
    using Kind = plan::LearningRateSchedule::Kind;
    const plan::LearningRateSchedule &schedule = optimizer.schedule;
    if (schedule.kind == Kind::Constant && schedule.warmupSteps == 0)
        return Json{};
    if (schedule.warmupSteps < kLeastWarmup)
        return unsupported(fmt::format("the learning rate warms up for {} steps, and DeepSpeed's schedules for at "
                                       "least {}; plan with --warmup-steps {}",
                                       schedule.warmupSteps, kLeastWarmup, kLeastWarmup));
    if (schedule.kind != Kind::Constant && schedule.totalSteps == 0)
        return unsupported("the learning rate falls until the run's last step, and DeepSpeed's schedules must know "
                           "which that is; plan with --decay-steps");
    if (schedule.kind == Kind::Linear && schedule.minimum != 0)
        return unsupported(fmt::format("the learning rate falls in a line to {} of its full, and DeepSpeed's linear "
                                       "schedule falls to 0; plan with --lr-minimum 0, or cosine",
                                       numberText(schedule.minimum)));
    const double first = 1 / static_cast<double>(schedule.warmupSteps + 1);
    Json params;
    if (schedule.kind != Kind::Constant)
        params["total_num_steps"] = schedule.totalSteps;
    if (schedule.kind == Kind::Cosine) {
        params["warmup_min_ratio"] = first;
        params["cos_min_ratio"] = schedule.minimum;
    } else {
        params["warmup_min_lr"] = optimizer.learningRate * first;
        params["warmup_max_lr"] = optimizer.learningRate;
    }
    params["warmup_num_steps"] = schedule.warmupSteps;
    params["warmup_type"] = "linear";
    const char *type = schedule.kind == Kind::Constant ? "WarmupLR"
        : schedule.kind == Kind::Linear                ? "WarmupDecayLR"
                                                       : "WarmupCosineLR";
    return Json{{"type", type}, {"params", params}};
}

} // namespace

Result<Configuration> deepSpeedConfig(const plan::Document &document)
{
    const plan::Plan &plan = document.plan;
    const auto uniform = uniformOf(document, kDeepSpeed);
    if (!uniform)
        return uniform.error();
    if (Status fits = checkLayout(plan, *uniform); !fits)
        return fits.error();
    const auto scheduler = schedulerOf(plan.optimizer);
    if (!scheduler)
        return scheduler.error();
    Json json{{"train_batch_size", plan.globalBatch},
              {"train_micro_batch_size_per_gpu", uniform->microBatch},
              {"gradient_accumulation_steps", plan.microBatches},
              {"optimizer", optimizerOf(plan.optimizer)}};
    if (!scheduler->is_null())
        json["scheduler"] = *scheduler;
    json["gradient_clipping"] = plan.optimizer.clipNorm;
    json["zero_optimization"] = {{"stage", uniform->zero}};
    if (uniform->zero > 0 && plan.optimizer.rule.name() == "sgd")
        json["zero_allow_untested_optimizer"] = true; // SGD is not on its list for ZeRO (runtime/zero/utils.py)
    Configuration made;
    made.notes.push_back(fmt::format("start {} ranks: {} on each of {} nodes; the model, its data and "
                                     "deepspeed.initialize(config='FILE') are the training program's",
                                     uniform->data, uniform->perNode, uniform->nodes));
    made.notes.insert(made.notes.end(), uniform->launch.begin(), uniform->launch.end());
    if (plan.precision == plan::Precision::BFloat16) {
        json["bf16"] = {{"enabled", true}};
        if (uniform->zero <= 1)
            json["data_types"] = {{"grad_accum_dtype", "fp32"}};
        else
            made.notes.push_back("with ZeRO 2 and 3 DeepSpeed adds up gradients in bfloat16, the plan in float32");
    }
    if (!scheduler->is_null())
        made.notes.push_back(
            "DeepSpeed's schedules move after a step: the learning rate of each step is the plan's of the step before");
    if (!uniform->onFirstDevices()) { // fields that it does not know are passed by
        json["planloom"] = plan::placementText(uniform->placement);
        made.notes.emplace_back("field planloom carries the plan's devices for planloom plan --from; DeepSpeed passes "
                                "it by");
    }
    made.text = json.dump(2) + "\n";
    return made;
}

} // namespace planloom::exporting
