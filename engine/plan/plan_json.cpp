// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/known_fields.h"
#include "engine/plan/admm_training_json.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/sampled_job_json.h"
#include "engine/plan/training.h"
#include "engine/plan/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace planloom::plan {
namespace {

using nlohmann::json;

constexpr const char *kSchema = "planloom.plan/1";
constexpr const char *kWholeStage = "*"; // in memory.recompute: every operator of the stage
constexpr const char *kAttention = "attention";
constexpr const char *kLayers = "layers"; // every operator, a layer at a time
constexpr std::int64_t kLargestFile = std::int64_t{1} << 30;
constexpr int kMostWarmup = std::numeric_limits<int>::max();
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

/// One line, keys sorted: the form whose SHA-256 stands in the file.
std::string canonical(const json &value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Text that our own writers made.
json parsed(const std::string &text) { return json::parse(text, nullptr, false); }

json finiteOnly(const std::map<std::string, double> &numbers)
{
    json made = json::object();
    for (const auto &[key, value] : numbers) {
        if (std::isfinite(value))
            made[key] = value;
    }
    return made;
}

// Fields that came with sharding and real training are written only where they say something: files without them read
// as before.

json recomputeToJson(Recompute recompute)
{
    switch (recompute) {
    case Recompute::None: return json::array();
    case Recompute::Selective: return json::array({kAttention});
    case Recompute::Layers: return json::array({kLayers});
    case Recompute::Full: break;
    }
    return json::array({kWholeStage});
}

json memoryToJson(const Stage &stage)
{
    json memory{{"recompute", recomputeToJson(stage.recompute)}, {"offload", json::array()}};
    if (stage.zero != 0)
        memory["zero"] = stage.zero;
    if (stage.memory.limits()) {
        memory["policy"] = name(stage.memory.filter);
        for (const MemorySetting &setting : memorySettings())
            if (setting.isWritten(stage.memory))
                memory[setting.name] = setting.get(stage.memory);
    }
    return memory;
}

json stageToJson(const Stage &stage, const cluster::Cluster &cluster)
{
    json devices = json::array();
    for (const DeviceId device : stage.devices) // a draft that is being edited may name what does not exist
        devices.push_back(device.valid() && device.index() < cluster.devices().size()
                              ? cluster.device(device).name
                              : fmt::format("device {}", device.value));
    json made{{"name", stage.name},
              {"layers", {stage.firstLayer, stage.lastLayer}},
              {"devices", std::move(devices)},
              {"mesh", stage.mesh},
              {"replica_shares", stage.replicaShares},
              {"shardings", stage.shardings},
              {"memory", memoryToJson(stage)}};
    if (stage.registers != 0)
        made["registers"] = stage.registers;
    return made;
}

json scheduleToJson(const Schedule &from)
{
    json made{{"kind", name(from.kind)}, {"warmup", from.warmup}, {"order", json::object()}};
    for (const auto &[device, order] : from.order) {
        json &ids = made["order"][device] = json::array();
        for (const schedule::PassStep &step : order)
            ids.push_back(schedule::textOf(step));
    }
    if (!from.lanePolicy.empty())
        made["lane_policy"] = from.lanePolicy;
    return made;
}

json scheduleToJson(const LearningRateSchedule &schedule)
{
    return {{"kind", name(schedule.kind)},
            {"warmup_steps", schedule.warmupSteps},
            {"total_steps", schedule.totalSteps},
            {"minimum", schedule.minimum}};
}

} // namespace

json optimizerToJson(const Optimizer &optimizer)
{
    json made{{"kind", optimizer.rule.name()},
              {"learning_rate", optimizer.learningRate},
              {"weight_decay", optimizer.weightDecay}};
    for (const auto &[name, value] : optimizer.rule.formula().settings)
        made[name] = value;
    if (optimizer.clipNorm != 0)
        made["clip_norm"] = optimizer.clipNorm;
    const LearningRateSchedule &schedule = optimizer.schedule;
    if (schedule.kind != LearningRateSchedule::Kind::Constant || schedule.warmupSteps != 0 || schedule.totalSteps != 0
        || schedule.minimum != 0)
        made["schedule"] = scheduleToJson(schedule);
    for (const ParameterGroup &group : optimizer.groups)
        made["groups"].push_back({{"match", group.match},
                                  {"weight_decay", group.weightDecay},
                                  {"learning_rate_factor", group.learningRateFactor}});
    return made;
}

namespace {

json annotationsToJson(const std::vector<Annotation> &annotations)
{
    json made = json::array();
    for (const Annotation &annotation : annotations) {
        json entry{{"scope", annotation.scope}, {"strategy", name(annotation.kind)}};
        if (annotation.devices > 0)
            entry["devices"] = annotation.devices;
        made.push_back(std::move(entry));
    }
    return made;
}

/// One top-level field a line, one stage a line: the plan can be edited by hand, and the embedded model stays out of
/// the way.
class Writer {
public:
    void field(const char *key, const json &value) { raw(key, canonical(value)); }
    /// @p value is JSON.
    void raw(const std::string &key, const std::string &value)
    {
        m_lines.push_back(fmt::format("  \"{}\": {}", key, value));
    }
    void list(const char *key, const json &entries)
    {
        std::vector<std::string> lines;
        for (const json &entry : entries)
            lines.push_back("    " + canonical(entry));
        raw(key, lines.empty() ? "[]" : fmt::format("[\n{}\n  ]", fmt::join(lines, ",\n")));
    }
    [[nodiscard]] std::string text() const { return fmt::format("{{\n{}\n}}\n", fmt::join(m_lines, ",\n")); }

private:
    std::vector<std::string> m_lines;
};

/// Reads what the plan is about and checks that it is what the plan was made for.
Result<Subject> subjectFrom(JsonReader &top)
{
    JsonReader embedded = top.object("embedded");
    JsonReader graphField = embedded.object("graph");
    JsonReader clusterField = embedded.object("cluster");
    JsonReader model = top.object("model");
    JsonReader clusterName = top.object("cluster");
    if (Status status = top.failure(); !status)
        return status.error();
    const auto check = [](JsonReader &named, const std::string &text, const char *what) {
        const std::string given = named.text("sha256", std::string());
        if (!given.empty() && given != sha256(text))
            named.fail("sha256",
                       fmt::format("the embedded {} is not the one that the plan was made for; plan again, or delete "
                                   "this field to accept it",
                                   what));
    };
    const std::string graphText = canonical(graphField.value());
    const std::string clusterText = canonical(clusterField.value());
    check(model, graphText, "model");
    check(clusterName, clusterText, "cluster");
    auto graph = graph::graphFromJson(graphText);
    if (!graph)
        graphField.fail({}, graph.error().message);
    auto cluster = cluster::clusterFromJson(clusterText);
    if (!cluster)
        clusterField.fail({}, cluster.error().message);
    std::shared_ptr<const cost::Profile> profile;
    if (embedded.has("profile") && !embedded.value()["profile"].is_null()) {
        JsonReader field = embedded.object("profile");
        auto read = cost::profileFromJson(canonical(field.value()));
        if (read)
            profile = std::make_shared<const cost::Profile>(*std::move(read));
        else
            field.fail({}, read.error().message);
    }
    const std::string source = model.text("source", std::string());
    if (Status status = top.failure(); !status)
        return status.error();
    return makeSubject(std::make_shared<const graph::Graph>(*std::move(graph)),
                       std::make_shared<const cluster::Cluster>(*std::move(cluster)), std::move(profile), source);
}

/// The policy and its settings, each as a text or a number.
void memoryPolicyFrom(JsonReader &reader, Memory &memory)
{
    const auto filter = findMemoryFilter(reader.text("policy", name(MemoryFilter::None)));
    if (!filter)
        return reader.fail("policy", filter.error().message);
    memory.filter = *filter;
    for (const MemorySetting &setting : memorySettings()) {
        if (!reader.has(setting.name))
            continue;
        const json &value = reader.value()[setting.name];
        const Status read = !memory.limits()
            ? Status(badInput("has no meaning without a policy; leave it out"))
            : setting.set(memory, value.is_string() ? value.get<std::string>() : value.dump());
        if (!read)
            return reader.fail(setting.name, read.error().message);
    }
    if (const Status good = check(memory); !good)
        reader.fail("policy", good.error().message);
}

void memoryFrom(JsonReader &reader, Stage &stage)
{
    if (!reader.has("memory"))
        return;
    JsonReader memory = reader.object("memory");
    std::vector<std::string_view> known{"recompute", "offload", "zero", "policy"};
    for (const MemorySetting &setting : memorySettings())
        known.emplace_back(setting.name);
    refuseOthers(memory, known);
    if (memory.has("recompute") && memory.value()["recompute"].is_boolean()) {
        stage.recompute = memory.flag("recompute", false) ? Recompute::Full : Recompute::None;
    } else {
        memory.each("recompute", [&stage](JsonReader &entry) {
            const std::string what = entry.asText();
            if (what != kWholeStage && what != kAttention && what != kLayers)
                entry.fail(
                    {}, "must be \"*\", the whole stage, \"layers\", each by itself, or \"attention\", its core only");
            // The one that keeps the least counts.
            stage.recompute = std::max(stage.recompute,
                                       what == kWholeStage   ? Recompute::Full
                                           : what == kLayers ? Recompute::Layers
                                                             : Recompute::Selective);
        });
    }
    stage.zero = static_cast<int>(memory.integerOr("zero", 0, 0, 3));
    memoryPolicyFrom(memory, stage.memory);
    memory.each("offload", [](JsonReader &entry) { entry.fail({}, "offload is not supported; leave the list empty"); });
}

void layersFrom(JsonReader &reader, Stage &stage)
{
    if (reader.has("ops"))
        reader.fail("ops", "stages are cut between layers; give \"layers\": [first, one past the last]");
    std::vector<std::int64_t> bounds;
    if (!reader.has("layers"))
        reader.fail("layers", "is missing; give [first, one past the last]");
    reader.each("layers", [&bounds](JsonReader &entry) {
        bounds.push_back(entry.asInteger(0, std::numeric_limits<std::int32_t>::max()));
    });
    if (bounds.size() != 2) {
        reader.fail("layers", "must be [first, one past the last]");
        return;
    }
    stage.firstLayer = static_cast<std::size_t>(bounds[0]);
    stage.lastLayer = static_cast<std::size_t>(bounds[1]);
}

Stage stageFrom(JsonReader &reader, const cluster::Cluster &cluster)
{
    Stage stage;
    refuseOthers(reader,
                 {"name", "layers", "ops", "devices", "mesh", "replica_shares", "shardings", "memory", "registers"});
    stage.name = reader.text("name", std::string());
    layersFrom(reader, stage);
    reader.each("devices", [&](JsonReader &entry) {
        const std::string name = entry.asText();
        const DeviceId device = cluster.find(name);
        if (!device.valid())
            entry.fail({},
                       fmt::format("device \"{}\" is not in cluster {}, whose {} devices are {} to {}", name,
                                   cluster.name(), cluster.devices().size(), cluster.devices().front().name,
                                   cluster.devices().back().name));
        stage.devices.push_back(device);
    });
    reader.each("mesh",
                [&stage](JsonReader &entry) { stage.mesh.push_back(static_cast<int>(entry.asInteger(1, 1 << 20))); });
    reader.each("replica_shares", [&stage](JsonReader &entry) { stage.replicaShares.push_back(entry.asNumber()); });
    reader.each("shardings", [&stage](JsonReader &entry) { stage.shardings[entry.name()] = entry.asText(); });
    memoryFrom(reader, stage);
    stage.registers = static_cast<int>(reader.integerOr("registers", 0, 0, kMostWarmup));
    return stage;
}

Schedule scheduleFrom(JsonReader reader)
{
    Schedule made;
    refuseOthers(reader, {"kind", "warmup", "order", "lane_policy"});
    const std::string kind = reader.text("kind");
    if (const auto known = scheduleFromName(kind))
        made.kind = *known;
    else
        reader.fail("kind", fmt::format("\"{}\" is not known; there are {}", kind, fmt::join(scheduleNames(), ", ")));
    reader.each("warmup", [&made](JsonReader &entry) {
        made.warmup.push_back(static_cast<int>(entry.asInteger(1, kMostWarmup)));
    });
    reader.each("order", [&made](JsonReader &device) {
        std::vector<schedule::PassStep> &order = made.order[device.name()];
        device.each([&order](JsonReader &entry) {
            const std::string text = entry.asText();
            if (const auto step = schedule::passStepFrom(text))
                order.push_back(*step);
            else
                entry.fail(
                    "",
                    fmt::format("\"{}\" is no pass; write a stage, F, B or W, and a micro-batch, such as s0.F.m0",
                                text));
        });
    });
    made.lanePolicy = reader.text("lane_policy", "");
    return made;
}

LearningRateSchedule learningRateFrom(JsonReader reader)
{
    LearningRateSchedule schedule;
    refuseOthers(reader, {"kind", "warmup_steps", "total_steps", "minimum"});
    const std::string kind = reader.text("kind", name(schedule.kind));
    if (const auto known = learningRateKindFromName(kind))
        schedule.kind = *known;
    else
        reader.fail("kind", fmt::format("\"{}\" is not known; there are constant, linear and cosine", kind));
    schedule.warmupSteps = reader.integerOr("warmup_steps", 0, 0, kMostSteps);
    schedule.totalSteps = reader.integerOr("total_steps", 0, 0, kMostSteps);
    schedule.minimum = reader.number("minimum", schedule.minimum);
    return schedule;
}

/// The rule with its settings, which are the fields that are not every rule's.
update::ConfiguredRule ruleFrom(JsonReader &reader)
{
    constexpr std::array kOfAll{"kind", "learning_rate", "weight_decay", "clip_norm", "schedule", "groups"};
    auto rule = update::ConfiguredRule::named(reader.text("kind"));
    if (!rule) {
        reader.fail("kind", rule.error().message);
        return {};
    }
    constexpr std::array kOnceOfAll{"momentum", "beta1", "beta2", "epsilon"}; // plan files had them for every rule
    const auto contains = [](const auto &names, const std::string &name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    reader.each([&](JsonReader &field) {
        const std::string name = field.name();
        const bool isSetting = rule->rule().setting(name) != nullptr;
        if (contains(kOfAll, name) || (!isSetting && contains(kOnceOfAll, name)))
            return;
        if (const Status known = rule->set(name, isSetting ? field.asNumber() : 0); !known)
            reader.fail(name, known.error().message);
    });
    return *rule;
}

} // namespace

Optimizer optimizerFrom(JsonReader reader)
{
    Optimizer optimizer;
    optimizer.rule = ruleFrom(reader);
    optimizer.learningRate = reader.number("learning_rate", optimizer.learningRate);
    optimizer.weightDecay = reader.number("weight_decay", optimizer.weightDecay);
    optimizer.clipNorm = reader.number("clip_norm", optimizer.clipNorm);
    if (reader.has("schedule"))
        optimizer.schedule = learningRateFrom(reader.object("schedule"));
    reader.each("groups", [&optimizer](JsonReader &entry) {
        refuseOthers(entry, {"match", "weight_decay", "learning_rate_factor"});
        ParameterGroup group{entry.text("match"), optimizer.weightDecay, 1};
        group.weightDecay = entry.number("weight_decay", group.weightDecay);
        group.learningRateFactor = entry.number("learning_rate_factor", group.learningRateFactor);
        optimizer.groups.push_back(std::move(group));
    });
    return optimizer;
}

namespace {

Annotation annotationFrom(JsonReader &reader)
{
    refuseOthers(reader, {"scope", "strategy", "devices"});
    Annotation annotation{reader.text("scope"), Annotation::Kind::Replicate,
                          static_cast<int>(reader.integerOr("devices", 0, 1, cluster::kMostDevices))};
    const std::string strategy = reader.text("strategy");
    if (strategy == name(Annotation::Kind::Split))
        annotation.kind = Annotation::Kind::Split;
    else if (strategy != name(Annotation::Kind::Replicate))
        reader.fail("strategy", fmt::format("\"{}\" is not known; there are replicate and split", strategy));
    return annotation;
}

std::optional<Why> whyFrom(JsonReader reader)
{
    auto why = whyFromJson(canonical(reader.value()));
    if (why)
        return *std::move(why);
    reader.fail({}, why.error().message);
    return std::nullopt;
}

PlannerInfo plannerFrom(JsonReader reader)
{
    PlannerInfo planner;
    planner.name = reader.text("name", std::string());
    planner.searchSeconds = reader.number("search_seconds", 0.0);
    reader.each("options", [&planner](JsonReader &entry) { planner.options[entry.name()] = entry.asText(); });
    return planner;
}

void averagingFrom(JsonReader &reader, DelayedAveraging &averaging)
{
    constexpr std::int64_t kMost = std::int64_t{1} << 40; // validate() knows the ranges
    averaging.localSteps = reader.integerOr("local_steps", averaging.localSteps, 0, kMost);
    averaging.delay = reader.integerOr("delay", averaging.delay, 0, kMost);
    averaging.localWeight = reader.number("local_weight", averaging.localWeight);
    averaging.warmupSteps = reader.integerOr("warmup_steps", averaging.warmupSteps, 0, kMost);
    const auto inside = findInside(reader.text("inside", name(averaging.inside)));
    if (!inside)
        reader.fail("inside", inside.error().message);
    else
        averaging.inside = *inside;
    const auto merge = findMerge(reader.text("merge", name(averaging.merge)));
    if (!merge)
        reader.fail("merge", merge.error().message);
    else
        averaging.merge = *merge;
}

void sparseFrom(JsonReader &reader, SparseExchange &sparse)
{
    const auto scheduling = findExchangeScheduling(reader.text("scheduling", name(sparse.scheduling)));
    if (!scheduling)
        reader.fail("scheduling", scheduling.error().message);
    else
        sparse.scheduling = *scheduling;
    reader.each("tables", [&](JsonReader &entry) {
        SparseTable table;
        refuseOthers(entry, {"parameter", "strategy", "split"});
        table.parameter = entry.text("parameter");
        const auto strategy = findTableStrategy(entry.text("strategy", name(table.strategy)));
        if (!strategy)
            entry.fail("strategy", strategy.error().message);
        else
            table.strategy = *strategy;
        table.split = entry.flag("split", table.split);
        sparse.tables.push_back(std::move(table));
    });
}

/// Fields of other exchanges would have no effect.
void refuseOthersOf(JsonReader &reader, const Exchange &exchange)
{
    const auto refuse = [&](const char *field, const std::string &of) {
        if (reader.has(field))
            reader.fail(field,
                        fmt::format("has no meaning with exchange {}: it is of {}; leave it out", name(exchange.policy),
                                    of));
    };
    if (!exchange.averages())
        for (const char *field : {"local_steps", "delay", "local_weight", "merge", "warmup_steps", "inside"})
            refuse(field, "averages (kind, dense or a group dasgd)");
    if (exchange.policy != ExchangePolicy::Sparse)
        for (const char *field : {"dense", "scheduling", "tables"})
            refuse(field, "kind embrace");
}

void exchangeFrom(JsonReader reader, Plan &plan)
{
    const auto policyOf = [](JsonReader &from, const char *field) {
        const auto policy = findExchangePolicy(from.text(field));
        if (!policy)
            from.fail(field, policy.error().message);
        return policy ? *policy : ExchangePolicy::AllReduce;
    };
    refuseOthers(reader,
                 {"kind", "groups", "dense", "across_steps", "bucket_bytes", "local_steps", "delay", "local_weight",
                  "merge", "warmup_steps", "inside", "scheduling", "tables"});
    plan.exchange.policy = policyOf(reader, "kind");
    reader.each("groups", [&](JsonReader &entry) {
        refuseOthers(entry, {"match", "kind"});
        plan.exchange.groups.push_back({entry.text("match"), policyOf(entry, "kind")});
    });
    if (reader.has("dense"))
        plan.exchange.dense = policyOf(reader, "dense");
    plan.exchange.acrossSteps = reader.flag("across_steps", false);
    refuseOthersOf(reader, plan.exchange);
    if (plan.exchange.averages())
        averagingFrom(reader, plan.exchange.averaging);
    if (plan.exchange.policy == ExchangePolicy::Sparse)
        sparseFrom(reader, plan.exchange.sparse);
    plan.bucketBytes = reader.integerOr("bucket_bytes", Plan::kBucketBytes, 0, std::int64_t{1} << 40);
}

void averagingToJson(const DelayedAveraging &averaging, json &exchange)
{
    exchange["local_steps"] = averaging.localSteps;
    exchange["delay"] = averaging.delay;
    exchange["local_weight"] = averaging.localWeight;
    exchange["merge"] = name(averaging.merge);
    exchange["warmup_steps"] = averaging.warmupSteps;
    if (averaging.inside != Inside::Replica)
        exchange["inside"] = name(averaging.inside);
}

void sparseToJson(const SparseExchange &sparse, json &exchange)
{
    exchange["scheduling"] = name(sparse.scheduling);
    for (const SparseTable &table : sparse.tables)
        exchange["tables"].push_back(
            {{"parameter", table.parameter}, {"strategy", name(table.strategy)}, {"split", table.split}});
}

json exchangeToJson(const Plan &plan)
{
    json exchange = {{"kind", name(plan.exchange.policy)}};
    for (const ExchangeGroup &group : plan.exchange.groups)
        exchange["groups"].push_back({{"match", group.match}, {"kind", name(group.policy)}});
    if (plan.exchange.dense != ExchangePolicy::AllReduce)
        exchange["dense"] = name(plan.exchange.dense);
    if (plan.exchange.acrossSteps)
        exchange["across_steps"] = true;
    if (plan.exchange.averages())
        averagingToJson(plan.exchange.averaging, exchange);
    if (plan.exchange.policy == ExchangePolicy::Sparse)
        sparseToJson(plan.exchange.sparse, exchange);
    if (plan.bucketBytes != Plan::kBucketBytes)
        exchange["bucket_bytes"] = plan.bucketBytes;
    return exchange;
}

Plan planFrom(JsonReader &top, const cluster::Cluster &cluster)
{
    Plan plan;
    // Those of the last two lines stand in what `plan --json` prints.
    refuseOthers(top, {"schema",        "model",       "cluster",        "planner",  "annotations", "global_batch",
                       "micro_batches", "stages",      "schedule",       "exchange", "precision",   "optimizer",
                       "training",      "job",         "roles",          "estimate", "predicted",   "why",
                       "embedded", //
                       "notation",      "block_split", "search_seconds", "complete", "space",       "notes",
                       "alternatives",  "pareto",      "comparison"});
    plan.modelName = top.object("model").text("name");
    plan.modelSource = top.object("model").text("source", std::string());
    plan.clusterName = top.object("cluster").text("name");
    if (top.has("planner"))
        plan.planner = plannerFrom(top.object("planner"));
    top.each("annotations", [&plan](JsonReader &entry) { plan.annotations.push_back(annotationFrom(entry)); });
    plan.globalBatch = top.integer("global_batch", 1);
    plan.microBatches = top.integer("micro_batches", 1);
    top.each("stages", [&](JsonReader &entry) { plan.stages.push_back(stageFrom(entry, cluster)); });
    plan.schedule = scheduleFrom(top.object("schedule"));
    if (top.has("exchange"))
        exchangeFrom(top.object("exchange"), plan);
    const std::string precision = top.text("precision", name(plan.precision));
    if (const auto known = precisionFromName(precision))
        plan.precision = *known;
    else
        top.fail("precision", fmt::format("\"{}\" is not known; there are fp32 and bf16", precision));
    if (top.has("optimizer"))
        plan.optimizer = optimizerFrom(top.object("optimizer"));
    trainingFrom(top, plan);
    jobFrom(top, plan);
    top.each("estimate", [&plan](JsonReader &entry) { plan.estimate[entry.name()] = entry.asNumber(); });
    if (top.has("predicted") && !top.value()["predicted"].is_null())
        plan.predictedJson = canonical(top.object("predicted").value());
    if (top.has("why") && !top.value()["why"].is_null())
        plan.why = whyFrom(top.object("why"));
    return plan;
}

} // namespace

std::string toJson(const Document &document) { return toJson(document, nlohmann::ordered_json::object()); }

std::string toJson(const Document &document, const nlohmann::ordered_json &leading)
{
    const Plan &plan = document.plan;
    const Subject &subject = document.subject;
    const json graph = parsed(graph::toJson(*subject.graph));
    const json cluster = parsed(cluster::toJson(*subject.cluster));
    json stages = json::array();
    for (const Stage &stage : plan.stages)
        stages.push_back(stageToJson(stage, *subject.cluster));
    json predicted = plan.predictedJson.empty() ? json() : parsed(plan.predictedJson);
    if (predicted.is_discarded())
        predicted = nullptr;

    Writer writer;
    for (const auto &[key, value] : leading.items())
        writer.raw(key, value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    writer.field("schema", kSchema);
    writer.field("model",
                 {{"name", plan.modelName}, {"source", plan.modelSource}, {"sha256", sha256(canonical(graph))}});
    writer.field("cluster", {{"name", plan.clusterName}, {"sha256", sha256(canonical(cluster))}});
    writer.field("planner",
                 {{"name", plan.planner.name},
                  {"options", plan.planner.options},
                  {"search_seconds", plan.planner.searchSeconds}});
    if (!plan.annotations.empty())
        writer.list("annotations", annotationsToJson(plan.annotations));
    writer.field("global_batch", plan.globalBatch);
    writer.field("micro_batches", plan.microBatches);
    writer.list("stages", stages);
    writer.field("schedule", scheduleToJson(plan.schedule));
    writer.field("exchange", exchangeToJson(plan));
    if (plan.precision != Precision::Float32)
        writer.field("precision", name(plan.precision));
    if (plan.admm)
        writer.field("training", trainingToJson(plan));
    else
        writer.field("optimizer", optimizerToJson(plan.optimizer));
    if (plan.job)
        writer.field("job", jobToJson(*plan.job));
    if (!plan.roles.empty())
        writer.list("roles", rolesToJson(plan.roles));
    writer.field("estimate", finiteOnly(plan.estimate));
    writer.field("predicted", predicted);
    if (plan.why)
        writer.field("why", parsed(toJson(*plan.why)));
    writer.field("embedded",
                 {{"graph", graph},
                  {"cluster", cluster},
                  {"profile", subject.profile ? parsed(cost::toJson(*subject.profile)) : json()}});
    return writer.text();
}

Result<Document> documentFromJson(std::string_view text)
{
    const auto parsedText = parseJson(text);
    if (!parsedText)
        return parsedText.error();
    JsonReader top(*parsedText);
    if (const std::string schema = top.text("schema"); !top.failed() && schema != kSchema)
        return unsupported(
            fmt::format("field \"schema\": \"{}\" is not \"{}\"; this Planloom reads no other", schema, kSchema));
    auto subject = subjectFrom(top);
    if (Status status = top.failure(text); !status)
        return status.error();
    if (!subject)
        return subject.error();
    Plan plan = planFrom(top, *subject->cluster);
    if (Status status = top.failure(text); !status)
        return status.error();
    Field field;
    if (Status status = validate(plan, *subject, field); !status) {
        Error error = status.error();
        error.line = lineOfField(text, field);
        return error;
    }
    Subject costed = inPrecision(*subject, plan.precision);
    return Document{std::move(plan), std::move(costed)};
}

Result<Document> readPlan(const std::string &path)
{
    const auto text = readFile(path, kLargestFile);
    if (!text)
        return text.error();
    auto document = documentFromJson(*text);
    if (!document)
        return document.error().in(path);
    return document;
}

Status writePlan(const Document &document, const std::string &path)
{
    return writeFileAtomically(path, toJson(document));
}

} // namespace planloom::plan
