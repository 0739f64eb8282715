// SPDX-License-Identifier: Apache-2.0
// Configurations of DeepSpeed (0.16).
#include "engine/base/json_reader.h"
#include "engine/import/setup/setup.h"
#include "engine/import/setup/reader.h"

#include <algorithm>
#include <set>

namespace planloom::import {
namespace {

using Kind = plan::LearningRateSchedule::Kind;
using plan::Setup;
using update::ConfiguredRule;

/// Fields that change the plan but have no counterpart in plans, with the reason.
constexpr std::pair<const char *, const char *> kRefused[] = {
    {"amp", "plans compute in float32 or bfloat16; use bf16"},
    {"elasticity", "it chooses the batch when training starts; write train_batch_size"},
    {"compression_training", "plans train all of the model; leave it out"},
    {"progressive_layer_drop", "plans train all of the model; leave it out"},
    {"sparse_attention", "the model is given apart from the file; leave it out"},
    {"autotuning", "it chooses the configuration when training starts; write the chosen one"},
    {"pipeline", "DeepSpeed's pipelines are made in code; plan with planner manual and pipeline=N instead"},
};

class DeepSpeedReader {
public:
    DeepSpeedReader(const nlohmann::json &json, const std::string &file) : m_top(json)
    {
        m_setup.format = "DeepSpeed configuration";
        m_setup.file = file;
    }

    Result<Setup> read(std::string_view text)
    {
        for (const auto &[key, why] : kRefused)
            if (m_top.has(key))
                m_top.fail(key, fmt::format("is set, but {}", why));
        batches();
        optimizer();
        scheduler();
        precision();
        zero();
        tensors();
        if (given(m_top, "planloom"))
            placement();
        given(m_top, "zero_allow_untested_optimizer");
        passedBy(m_top, m_known);
        if (m_top.failed())
            return m_top.failure(text).error().in(m_setup.file);
        notePassedBy(m_setup, m_passedBy);
        return std::move(m_setup);
    }

private:
    /// Remembers the field as one that is read; false if it is not there or left to the training program.
    bool given(JsonReader &object, const char *key)
    {
        m_known.insert(object.path() + "." + key);
        if (!object.has(key))
            return false;
        const nlohmann::json &value = object.value()[key];
        if (value.is_string() && value == "auto")
            object.fail(key, "is 'auto', which the training program fills in; write its value");
        return true;
    }

    /// The devices of the plan that the file was exported from.
    void placement()
    {
        const auto found = plan::placementFromText(m_top.text("planloom"));
        if (!found)
            m_top.fail("planloom", "has what this reader cannot follow: " + found.error().message);
        else if (!*found)
            m_top.fail("planloom", "is not a placement; write planloom.devices:8-15/16, or leave it out");
        else
            m_setup.placement = *found;
    }

    void passedBy(JsonReader &object, const std::set<std::string> &known)
    {
        if (!object.value().is_object())
            return;
        for (const auto &[key, value] : object.value().items())
            if (!known.count(object.path() + "." + key) && m_passedBy.size() < 100)
                m_passedBy.push_back(object.path().empty() ? key : object.path() + "." + key);
    }

    std::int64_t size(JsonReader &object, const char *key)
    {
        return given(object, key) ? object.integer(key, 1, kMostOfASize) : 0;
    }
    double number(JsonReader &object, const char *key, double fallback)
    {
        if (!given(object, key))
            return fallback;
        const double value = object.number(key);
        if (value < 0)
            object.fail(key, "must not be negative");
        return value;
    }

    void batches()
    {
        const std::int64_t all = size(m_top, "train_batch_size");
        const std::int64_t each = size(m_top, "train_micro_batch_size_per_gpu");
        const std::int64_t steps = size(m_top, "gradient_accumulation_steps");
        if (all == 0 && each == 0)
            m_top.fail("train_batch_size", "is missing; give it, or train_micro_batch_size_per_gpu");
        m_setup.globalBatch = all;
        m_setup.microBatch = each;
        m_setup.accumulation = std::max<std::int64_t>(1, steps);
        if (all > 0 && each > 0 && steps > 0) {
            if (all % (each * steps) != 0)
                return m_top.fail("train_batch_size",
                                  fmt::format("is {}, not a multiple of {} samples in {} steps; correct one of them",
                                              all, each, steps));
            m_setup.data = static_cast<std::size_t>(all / (each * steps));
        }
    }

    void optimizer()
    {
        plan::Optimizer &to = m_setup.optimizer;
        if (!given(m_top, "optimizer")) {
            m_setup.notes.emplace_back("no optimizer is named (the training program makes it); the plan has AdamW");
            return;
        }
        JsonReader from = m_top.object("optimizer");
        given(from, "type");
        const std::string type = from.text("type");
        const bool isAdam = type == "AdamW" || type == "Adam";
        if (!isAdam && type != "SGD" && type != "Lion")
            from.fail("type", fmt::format("is '{}'; plans have AdamW, Lion and SGD", type));
        to.rule = *ConfiguredRule::named(isAdam ? "adamw" : type == "Lion" ? "lion" : "sgd");
        if (!given(from, "params"))
            return;
        JsonReader params = from.object("params");
        to.learningRate = number(params, "lr", 1e-3);
        to.weightDecay = number(params, "weight_decay", 0);
        const double epsilon = number(params, "eps", 1e-8);
        if (given(params, "adam_w_mode") && type == "Adam" && !params.flag("adam_w_mode", true) && to.weightDecay != 0)
            params.fail("adam_w_mode", "is off, and plans decay weights as AdamW does; use AdamW, or no weight_decay");
        std::vector<double> betas;
        if (given(params, "betas"))
            params.each("betas", [&](JsonReader &beta) { betas.push_back(beta.asNumber()); });
        if (!betas.empty() && betas.size() != 2)
            params.fail("betas", "has not two entries; give both");
        const bool both = betas.size() == 2;
        if (isAdam)
            to.rule = *ConfiguredRule::named(
                "adamw", {{"beta1", both ? betas[0] : 0.9}, {"beta2", both ? betas[1] : 0.999}, {"epsilon", epsilon}});
        else if (type == "SGD")
            to.rule = *ConfiguredRule::named("sgd", {{"momentum", number(params, "momentum", 0)}});
        else if (type == "Lion") // whose betas are (0.9, 0.999) in DeepSpeed
            to.rule =
                *ConfiguredRule::named("lion", {{"beta1", both ? betas[0] : 0.9}, {"beta2", both ? betas[1] : 0.999}});
        passedBy(from, m_known);
        passedBy(params, m_known);
    }

    void scheduler()
    {
        if (!given(m_top, "scheduler"))
            return;
        JsonReader from = m_top.object("scheduler");
        given(from, "type");
        const std::string type = from.text("type");
        plan::LearningRateSchedule &to = m_setup.optimizer.schedule;
        if (type == "WarmupLR")
            to.kind = Kind::Constant;
        else if (type == "WarmupDecayLR")
            to.kind = Kind::Linear;
        else if (type == "WarmupCosineLR")
            to.kind = Kind::Cosine;
        else
            return from.fail("type",
                             fmt::format("is '{}'; plans have WarmupLR, WarmupDecayLR and WarmupCosineLR", type));
        if (!given(from, "params"))
            return from.fail("params", "is missing; give warmup_num_steps and the others");
        JsonReader params = from.object("params");
        to.warmupSteps = given(params, "warmup_num_steps") ? params.integer("warmup_num_steps", 1, kMostSteps) : 1000;
        if (given(params, "warmup_type") ? params.text("warmup_type") != "linear" : true)
            params.fail("warmup_type",
                        "is 'log' (or left out, which is the same), and plans warm up in a line; set it to linear");
        if (to.kind != Kind::Constant)
            to.totalSteps = given(params, "total_num_steps") ? params.integer("total_num_steps", 1, kMostSteps) : 0;
        if (to.kind != Kind::Constant && to.totalSteps == 0)
            params.fail("total_num_steps", "is missing; give the step at which the learning rate stops falling");
        rates(params);
        passedBy(from, m_known);
        passedBy(params, m_known);
    }

    void rates(JsonReader &params)
    {
        plan::Optimizer &to = m_setup.optimizer;
        if (to.schedule.kind == Kind::Cosine) {
            to.schedule.minimum = std::min(1.0, number(params, "cos_min_ratio", 1e-4));
            return noteWarmup(m_setup, number(params, "warmup_min_ratio", 0));
        }
        to.learningRate = number(params, "warmup_max_lr", to.schedule.kind == Kind::Linear ? 1e-3 : to.learningRate);
        const double start = number(params, "warmup_min_lr", 0);
        if (to.learningRate > 0)
            noteWarmup(m_setup, start / to.learningRate);
    }

    void precision()
    {
        if (given(m_top, "fp16") && m_top.object("fp16").flag("enabled", false))
            m_top.fail("fp16", "is on, but plans compute in float32 or bfloat16; use bf16");
        if (given(m_top, "bf16") && m_top.object("bf16").flag("enabled", false))
            m_setup.precision = plan::Precision::BFloat16;
        given(m_top, "data_types");
        m_setup.optimizer.clipNorm = number(m_top, "gradient_clipping", 0);
    }

    void zero()
    {
        if (!given(m_top, "zero_optimization"))
            return;
        JsonReader from = m_top.object("zero_optimization");
        if (given(from, "stage"))
            m_setup.zero = static_cast<int>(from.integer("stage", 0, 3));
        for (const char *key : {"offload_optimizer", "offload_param"}) {
            if (!given(from, key) || !from.value()[key].is_object())
                continue;
            JsonReader where = from.object(key);
            if (where.text("device", "none") != "none")
                from.fail(key, "offloads memory, which plans do not support; leave it out");
        }
        for (const char *key : {"zero_hpz_partition_size", "mics_shard_size"})
            if (given(from, key) && from.integer(key, -1, kMostOfASize) > 1)
                from.fail(key, "cuts over some of the replicas, and plans over all; leave it out");
        passedBy(from, m_known);
    }

    void tensors()
    {
        if (given(m_top, "tensor_parallel")
            && m_top.object("tensor_parallel").integerOr("autotp_size", 0, 0, kMostOfASize) > 1)
            m_top.fail("tensor_parallel",
                       "splits tensors as DeepSpeed chooses when training starts; plan with planner manual and "
                       "tensor=N instead");
    }

    JsonReader m_top;
    Setup m_setup;
    std::set<std::string> m_known;
    std::vector<std::string> m_passedBy;
};

} // namespace

Result<plan::Setup> readDeepSpeedConfig(std::string_view text, const std::string &name)
{
    const auto json = parseJson(text);
    if (!json)
        return json.error().in(name);
    if (!json->is_object())
        return badInput("is not a DeepSpeed configuration, which is a JSON object").in(name);
    return DeepSpeedReader(*json, name).read(text);
}

} // namespace planloom::import
