// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/edit.h"

#include "engine/plan/device_text.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/stage_edits.h"
#include "engine/plan/validate.h"
#include "engine/update/rule_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

namespace planloom::plan {
namespace {

std::string_view withoutBlanks(std::string_view text)
{
    const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && blank(text.back()))
        text.remove_suffix(1);
    return text;
}

/// All of @p text, but for blanks around it.
template <class Number>
std::optional<Number> numberFrom(std::string_view text)
{
    text = withoutBlanks(text);
    Number number{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

Error notA(const std::string &text, const char *what, const char *fix)
{
    return badInput("\"" + text + "\" is not " + what + "; " + fix);
}

// --- of the whole plan

Result<Plan> withBatch(const Document &document, std::size_t, const std::string &text)
{
    const auto samples = numberFrom<std::int64_t>(text);
    if (!samples || *samples < 1)
        return notA(text, "a number of samples", "enter 1 or more");
    Plan plan = document.plan;
    plan.globalBatch = *samples;
    return plan;
}

Result<Plan> withMicroBatches(const Document &document, std::size_t, const std::string &text)
{
    const auto count = numberFrom<std::int64_t>(text);
    if (!count || *count < 1)
        return notA(text, "a number of micro-batches", "enter 1 or more");
    Plan plan = document.plan;
    setMicroBatches(plan, *count);
    return plan;
}

Result<Plan> withSchedule(const Document &document, std::size_t, const std::string &text)
{
    const auto kind = scheduleFromName(withoutBlanks(text));
    if (!kind || *kind == ScheduleKind::Custom) {
        std::string names;
        for (const std::string &name : scheduleNames())
            if (scheduleFromName(name) != ScheduleKind::Custom)
                names += (names.empty() ? "" : ", ") + name;
        return badInput("\"" + text + "\" is not a schedule that a plan can be given; choose one of " + names
                        + ", or give the order of a file with planloom simulate --order");
    }
    Plan plan = document.plan;
    setSchedule(plan, *kind);
    return plan;
}

Result<Plan> withPrecision(const Document &document, std::size_t, const std::string &text)
{
    const auto precision = precisionFromName(withoutBlanks(text));
    if (!precision)
        return notA(text, "a precision", "choose fp32 or bf16");
    Plan plan = document.plan;
    plan.precision = *precision;
    return plan;
}

/// The optimizer of steps by gradients; null: the plan has none.
Optimizer *optimizerIn(Plan &plan) { return plan.then ? &plan.then->optimizer : plan.admm ? nullptr : &plan.optimizer; }

Error withoutGradients() { return badInput("the plan trains by ADMM and has no steps by gradients"); }

Result<Plan> withOptimizer(const Document &document, std::size_t, const std::string &text)
{
    Plan plan = document.plan;
    Optimizer *optimizer = optimizerIn(plan);
    if (!optimizer)
        return withoutGradients();
    auto rule = update::ruleFromText(withoutBlanks(text));
    if (!rule)
        return rule.error();
    if (const Status good = rule->check(); !good)
        return good.error();
    optimizer->rule = *std::move(rule);
    return plan;
}

Result<Plan> withRate(const Document &document, double Optimizer::*rate, const std::string &text)
{
    Plan plan = document.plan;
    Optimizer *optimizer = optimizerIn(plan);
    if (!optimizer)
        return withoutGradients();
    const auto number = numberFrom<double>(text);
    if (!number)
        return notA(text, "a number", "write it as 0.001");
    optimizer->*rate = *number;
    return plan;
}

Result<Plan> withLearningRate(const Document &document, std::size_t, const std::string &text)
{
    return withRate(document, &Optimizer::learningRate, text);
}

Result<Plan> withWeightDecay(const Document &document, std::size_t, const std::string &text)
{
    return withRate(document, &Optimizer::weightDecay, text);
}

Result<Plan> withClipNorm(const Document &document, std::size_t, const std::string &text)
{
    return withRate(document, &Optimizer::clipNorm, text);
}

Result<Plan> withExchange(const Document &document, std::size_t, const std::string &text)
{
    auto exchange = exchangeFromText(std::string(withoutBlanks(text)));
    if (!exchange)
        return exchange.error();
    Plan plan = document.plan;
    exchange->groups = std::move(plan.exchange.groups); // which the text does not have
    plan.exchange = *std::move(exchange);
    return plan;
}

// --- of a stage

Result<Plan> withName(const Document &document, std::size_t stage, const std::string &text)
{
    Plan plan = document.plan;
    plan.stages[stage].name = withoutBlanks(text);
    return plan;
}

/// "0-17", "0 – 17", "0..17", "0 to 17": first and last.
std::optional<std::pair<std::size_t, std::size_t>> layerRange(const std::string &text)
{
    for (const std::string_view between : {"–", "-", "..", "to"}) {
        const std::size_t at = text.find(between);
        if (at == std::string::npos)
            continue;
        const auto first = numberFrom<std::uint32_t>(std::string_view(text).substr(0, at));
        const auto last = numberFrom<std::uint32_t>(std::string_view(text).substr(at + between.size()));
        return first && last ? std::optional(std::pair<std::size_t, std::size_t>(*first, *last)) : std::nullopt;
    }
    return std::nullopt;
}

Result<Plan> withLayers(const Document &document, std::size_t stage, const std::string &text)
{
    const auto range = layerRange(text);
    if (!range)
        return notA(text, "a range of layers", "enter the first and the last, such as 0 – 17");
    const std::size_t layers = document.subject.layers().size();
    if (stage == 0 && range->first != 0)
        return badInput("The first stage begins at layer 0");
    if (stage + 1 == document.plan.stages.size() && range->second + 1 != layers)
        return badInput("The last stage ends at the last layer, " + std::to_string(layers - 1));
    Plan plan = document.plan;
    setLayers(plan, stage, range->first, range->second + 1);
    return plan;
}

Result<Plan> onDevices(const Document &document, std::size_t stage, const Result<std::vector<DeviceId>> &devices)
{
    if (!devices)
        return devices.error();
    Plan plan = document.plan;
    setDevices(plan, stage, *devices);
    return plan;
}

Result<Plan> withDevices(const Document &document, std::size_t stage, const std::string &text)
{
    return onDevices(document, stage, devicesFromText(*document.subject.cluster, text));
}

Result<Plan> withReplicaCount(const Document &document, std::size_t stage, const std::string &text)
{
    const auto count = numberFrom<std::uint32_t>(text);
    if (!count)
        return notA(text, "a number of replicas", "enter 1 or more");
    return onDevices(document, stage, withReplicas(document, stage, *count));
}

Result<Plan> withWarmUp(const Document &document, std::size_t stage, const std::string &text)
{
    std::string plain(withoutBlanks(text));
    std::ranges::transform(plain, plain.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool automatic = plain.empty() || plain == "auto";
    const auto cap = numberFrom<int>(plain);
    if (!automatic && (!cap || *cap < 1))
        return notA(text, "a warm-up depth", "enter a number of at least 1, or auto");
    Plan plan = document.plan;
    setWarmupCap(plan, stage, automatic ? 0 : *cap);
    return plan;
}

Result<Plan> withTensor(const Document &document, std::size_t stage, const std::string &text)
{
    const auto parts = numberFrom<std::uint32_t>(text);
    if (!parts || *parts < 1)
        return notA(text, "a number of tensor parts", "enter 1 or more");
    return withTensorParts(document, stage, *parts);
}

Result<Plan> withZero(const Document &document, std::size_t stage, const std::string &text)
{
    const auto level = numberFrom<int>(text);
    if (!level)
        return notA(text, "a ZeRO level", "enter 0, 1, 2 or 3");
    Plan plan = document.plan;
    plan.stages[stage].zero = *level;
    return plan;
}

Result<Plan> withShardings(const Document &document, std::size_t stage, const std::string &text)
{
    auto shardings = shardingsFromText(text);
    if (!shardings)
        return shardings.error();
    Plan plan = document.plan;
    plan.stages[stage].shardings = *std::move(shardings);
    return plan;
}

Result<Plan> withRecompute(const Document &document, std::size_t stage, const std::string &text)
{
    const auto recompute = recomputeFromName(withoutBlanks(text));
    if (!recompute)
        return notA(text, "a form of recomputation", "choose none, selective, layers or full");
    Plan plan = document.plan;
    plan.stages[stage].recompute = *recompute;
    return plan;
}

Result<Plan> withSplit(const Document &document, std::size_t stage, const std::string &text)
{
    const auto layer = numberFrom<std::uint32_t>(text);
    if (!layer)
        return notA(text, "a layer", "enter the first layer of the second part");
    return splitStage(document, stage, *layer);
}

Result<Plan> withNextMerged(const Document &document, std::size_t stage, const std::string &text)
{
    if (withoutBlanks(text) != "next")
        return notA(text, "what a stage merges with", "write next");
    return mergeWithNext(document.plan, stage);
}

constexpr EditField kEditFields[] = {
    {"batch", "N", "samples of one iteration, over all replicas", false, withBatch},
    {"micro_batches", "N", "number of parts that the batch is split into", false, withMicroBatches},
    {"schedule", "NAME", "order of forward and backward passes", false, withSchedule},
    {"precision", "fp32|bf16", "number format of activations and matrix products", false, withPrecision},
    {"optimizer", "NAME[,SETTING=X...]", "update rule; its rates stay", false, withOptimizer},
    {"learning_rate", "X", "step size of the update rule", false, withLearningRate},
    {"weight_decay", "X", "part of each parameter that a step takes away, times the learning rate", false,
     withWeightDecay},
    {"clip_norm", "X", "2-norm that gradients are scaled down to; 0: never", false, withClipNorm},
    {"exchange", "KIND[,KEY=VALUE...]", "how replicas combine what they learn, as plan --exchange", false,
     withExchange},
    {"name", "TEXT", "name of the stage", true, withName},
    {"layers", "FIRST-LAST", "its layers; the neighbouring stages are adjusted", true, withLayers},
    {"devices", "NAME,...", "its devices; n0:g0-3 stands for four", true, withDevices},
    {"replicas", "N", "more take idle devices, fewer free devices", true, withReplicaCount},
    {"tensor_parts", "N", "devices that share the tensors of a replica, cut as Megatron-LM does", true, withTensor},
    {"shardings", "TENSOR=SBP;...", "how the devices of the mesh hold tensors", true, withShardings},
    {"zero", "0..3", "ZeRO level", true, withZero},
    {"recompute", "none|selective|layers|full", "what runs again in the backward pass", true, withRecompute},
    {"warmup", "N|auto", "forward passes before the first backward", true, withWarmUp},
    {"split", "LAYER", "a second stage begins at the layer; the devices are divided", true, withSplit},
    {"merge", "next", "one stage of it and the next; the devices are united", true, withNextMerged},
};

const EditField *findField(std::string_view key, bool ofStage)
{
    const auto *found = std::ranges::find_if(kEditFields, [&](const EditField &field) {
        return field.ofStage == ofStage && key == field.key;
    });
    return found == std::end(kEditFields) ? nullptr : found;
}

Error unknownKey(std::string_view key)
{
    std::string known;
    for (const EditField &field : kEditFields)
        known += (known.empty() ? "" : ", ") + std::string(field.ofStage ? "stages.N." : "") + field.key;
    return notFound("a plan has no key \"" + std::string(key) + "\" to edit; there are " + known);
}

} // namespace

std::span<const EditField> editFields() { return kEditFields; }

Result<Plan> withStageValue(const Document &document, std::size_t stage, std::string_view key, const std::string &text)
{
    const EditField *field = findField(key, true);
    return field ? field->apply(document, stage, text) : unknownKey(key);
}

Result<Plan> withValue(const Document &document, std::string_view key, const std::string &text)
{
    if (const EditField *field = findField(key, false))
        return field->apply(document, 0, text);
    constexpr std::string_view kStages = "stages.";
    const std::size_t dot = key.find('.', kStages.size());
    const EditField *field =
        key.starts_with(kStages) && dot != std::string_view::npos ? findField(key.substr(dot + 1), true) : nullptr;
    if (!field)
        return unknownKey(key);
    const std::string_view number = key.substr(kStages.size(), dot - kStages.size());
    const std::size_t count = document.plan.stages.size();
    if (number != "*") {
        const auto stage = numberFrom<std::uint32_t>(number);
        if (!stage || *stage >= count)
            return notFound("the plan has no stage \"" + std::string(number) + "\"; it has stages 0 to "
                            + std::to_string(count - 1) + ", and * stands for all");
        return field->apply(document, *stage, text);
    }
    Document all = document;
    for (std::size_t stage = 0; stage < count && stage < all.plan.stages.size(); ++stage) {
        auto plan = field->apply(all, stage, text);
        if (!plan)
            return plan;
        all.plan = *std::move(plan);
    }
    return all.plan;
}

Result<Document> withPlan(const Document &before, Plan plan)
{
    Subject subject =
        plan.precision == before.plan.precision ? before.subject : inPrecision(before.subject, plan.precision);
    if (const Status valid = validate(plan, subject); !valid)
        return valid.error();
    plan.predictedJson.clear();
    plan.why.reset();
    const bool sameEstimate = before.plan.estimate == plan.estimate;
    if (plan.precision != before.plan.precision || (sameEstimate && simulationKey(plan) != simulationKey(before.plan)))
        plan.estimate.clear(); // the planner's, of the plan before
    return Document{std::move(plan), std::move(subject)};
}

} // namespace planloom::plan
