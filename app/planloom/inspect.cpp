// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/gnn_sources.h"
#include "app/planloom/inspect_gnn.h"
#include "app/planloom/inspect_memory.h"
#include "app/planloom/report.h"
#include "app/planloom/sources.h"
#include "app/planloom/overlay_report.h"
#include "app/planloom/trace_report.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/cluster/cores.h"
#include "engine/cost/transformer.h"
#include "engine/graph/gradients/loss.h"
#include "engine/graph/operators/operators.h"
#include "engine/import/import.h"
#include "engine/import/loss/choice.h"
#include "engine/import/trace/foreign_trace.h"
#include "engine/store/workspace_file.h"
#include "engine/trace/rounds.h"
#include "executor/checkpoint/restore.h"
#include "executor/data/data_set.h"
#include "executor/data/graph_folder.h"
#include "executor/device/plugin/library.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSniffBytes = 64 << 20;

enum class What { Model, Cluster, Profile, Plan, Run, Trace, Memory, Workspace, Graph, Job, Placement };

/// Text files are told apart by their schema or, if foreign, by their beginning.
Result<What> sniffText(const std::string &path)
{
    const auto text = readFile(path, std::int64_t{1} << 30);
    if (!text)
        return text.error();
    const std::string_view head = std::string_view(*text).substr(0, kSniffBytes);
    const std::string placement = fmt::format("\"{}\"", kPlacementSchema);
    const std::pair<const char *, What> schemas[] = {
        {"\"planloom.plan/1\"", What::Plan},       {"\"planloom.profile/1\"", What::Profile},
        {"\"planloom.cluster/1\"", What::Cluster}, {"\"planloom.graph/1\"", What::Model},
        {"\"planloom.gnn-job/1\"", What::Job},     {placement.c_str(), What::Placement}};
    // A plan embeds the others: the schema that comes first is the file's own.
    std::size_t first = std::string_view::npos;
    const bool isMatrix = fs::path(path).extension() == ".txt" && head.find("GPU0") != std::string_view::npos;
    What what = isMatrix || import::isSlurmTopology(head) ? What::Cluster : What::Model;
    for (const auto &[schema, kind] : schemas) {
        const std::size_t at = head.find(schema);
        if (at < first) {
            first = at;
            what = kind;
        }
    }
    return what;
}

Result<What> whatIs(const std::string &source)
{
    if (source.starts_with("zoo:"))
        return What::Model;
    if (source.starts_with("preset:") || source == "local" || source.starts_with("local:"))
        return What::Cluster;
    if (data::isGraphFolder(source))
        return What::Graph;
    if (isRunFolder(source))
        return What::Run;
    if (store::isWorkspaceFile(source))
        return What::Workspace;
    if (import::traceFormat(source) != import::TraceFormat::None)
        return What::Trace;
    if (isMemorySnapshot(source))
        return What::Memory;
    if (import::clusterFileOf(source) != source && fs::exists(import::clusterFileOf(source)))
        return What::Cluster; // "topology.conf,gpu=H100-SXM,gpus=8"
    const std::string extension = fs::path(source).extension().string();
    const std::map<std::string, What> byExtension = {{".onnx", What::Model},    {".yaml", What::Cluster},
                                                     {".yml", What::Cluster},   {".xml", What::Cluster},
                                                     {".pltrace", What::Trace}, {".planloom", What::Workspace}};
    const auto known = byExtension.find(extension);
    return known != byExtension.end() ? Result<What>(known->second) : sniffText(source);
}

struct LayerFigures {
    std::int64_t parameters = 0;
    double forward = 0;
    double backward = 0;
};

LayerFigures figuresOf(const graph::Graph &graph, const graph::Layer &layer)
{
    LayerFigures sum;
    for (std::int32_t at = layer.first.value; at < layer.last.value; ++at) {
        const auto one = graph::figures(graph, OpId(at), 1);
        sum.forward += one.forward.value();
        sum.backward += one.backward.value();
        for (const TensorId id : graph.op(OpId(at)).inputs) {
            // A shared parameter counts where it is read first.
            if (id.valid() && graph.tensor(id).role == graph::TensorRole::Parameter
                && graph.consumers(id).front() == OpId(at))
                sum.parameters += graph.tensor(id).shape.elements(1);
        }
    }
    return sum;
}

/// Activations that a transformer keeps of one sample for its backward pass on one device in 16 bits, by part; an empty
/// object for other models.
ordered_json keptByPart(const graph::Graph &graph, Output &output)
{
    const auto shape = cost::transformerOf(graph);
    if (!shape)
        return ordered_json::object();
    const cost::TransformerCosts costs(*shape);
    cost::TransformerLayout layout;
    const cost::LayerActivations layer = costs.activations(layout);
    const double all = costs.activationBytes(layout);
    layout.kept = cost::Kept::Selective;
    const double selective = costs.activationBytes(layout);
    layout.kept = cost::Kept::Inputs;
    const double inputs = costs.activationBytes(layout);
    const auto bytes = [](double number) { return format(Bytes(static_cast<std::int64_t>(number))); };
    output.line(fmt::format(
        "kept          {} a sample in 16 bits: attention {}, MLP {}, norms {}; embedding {}, head {} besides",
        bytes(all), bytes(layer.attention * shape->layers), bytes(layer.mlp * shape->layers),
        bytes(layer.norms * shape->layers), bytes(costs.embeddingActivations(layout)),
        bytes(costs.headActivations(layout))));
    output.line(fmt::format("recomputing   keeps {} (selective) or {} (every layer)", bytes(selective), bytes(inputs)));
    return ordered_json{{"attention_bytes", layer.attention * shape->layers},
                        {"mlp_bytes", layer.mlp * shape->layers},
                        {"norm_bytes", layer.norms * shape->layers},
                        {"embedding_bytes", costs.embeddingActivations(layout)},
                        {"head_bytes", costs.headActivations(layout)},
                        {"selective_bytes", selective},
                        {"layer_input_bytes", inputs}};
}

std::string nameOf(const graph::Graph &graph, TensorId id)
{
    return id.valid() ? graph.tensor(id).name : std::string();
}

/// "softmax cross-entropy of 'logits' and 'labels'"
std::string termText(const graph::Graph &graph, const graph::LossTerm &term)
{
    const auto kinds = import::lossKinds();
    const auto kind = std::ranges::find_if(kinds, [&](const auto &one) { return term.type == one.type; });
    std::string text = kind == kinds.end() ? term.type : std::string(kind->text);
    text += fmt::format(" of '{}'", nameOf(graph, term.output));
    if (term.target.valid())
        text += fmt::format(" and '{}'", nameOf(graph, term.target));
    return term.mask.valid() ? text + fmt::format(" where '{}'", nameOf(graph, term.mask)) : text;
}

/// Inputs, the loss with where it comes from, and the targets that it wants.
ordered_json lossOf(const graph::Graph &graph, Output &output)
{
    const std::vector<graph::Target> targets = graph::targetsOf(graph);
    for (const TensorId id : graph.withRole(graph::TensorRole::Input))
        if (std::ranges::none_of(targets, [&](const graph::Target &target) { return target.input == id; }))
            output.line(fmt::format("input         {} {} {}", graph.tensor(id).name, graph::name(graph.tensor(id).type),
                                    graph.tensor(id).shape.text()));
    if (!graph.loss().valid())
        return nullptr;
    const graph::LossTerms found = graph::lossTerms(graph);
    std::string text;
    for (const graph::LossTerm &term : std::views::reverse(found.terms))
        text += (text.empty() ? "" : " + ") + termText(graph, term);
    if (!found.whole)
        text += text.empty() ? nameOf(graph, graph.loss()) : " + other operators";
    const graph::LossOrigin &origin = graph.lossOrigin();
    constexpr const char *kOrigins[] = {"computed by the model", "added for what the model ends in", "chosen"};
    const char *from = kOrigins[static_cast<std::size_t>(origin.kind)];
    std::string terms;
    for (const std::string &term : origin.terms)
        terms += " --loss " + term;
    output.line(fmt::format("loss          {}: {}{}", text, from, terms.empty() ? "" : " (" + terms.substr(1) + ")"));
    const std::vector<std::string> texts = data::targetTexts(graph);
    for (const std::string &target : texts)
        output.line("target        " + target);
    return ordered_json{{"text", text}, {"origin", from}, {"terms", origin.terms}, {"targets", texts}};
}

Status inspectModel(const std::string &source, const import::ModelOptions &how, Output &output)
{
    const auto model = import::loadModel(source, how);
    if (!model)
        return model.error();
    const graph::Graph &graph = *model->graph;
    const auto layers = graph::layersOf(graph);
    ordered_json list = ordered_json::array();
    Table table({"LAYER", "NAME", "OPERATORS", "PARAMETERS", "FORWARD", "CROSSES IN"});
    LayerFigures total;
    for (std::size_t k = 0; k < layers.size(); ++k) {
        const auto &layer = layers.layers[k];
        const LayerFigures figures = figuresOf(graph, layer);
        total.forward += figures.forward;
        total.backward += figures.backward;
        const Bytes cut = layers.cutBytes(graph, k, 1);
        const int operators = layer.last.value - layer.first.value;
        table.row({std::to_string(k), layer.name, std::to_string(operators), count(figures.parameters),
                   format(Flops(figures.forward)), format(cut)});
        list.push_back(ordered_json{{"name", layer.name},
                                    {"operators", operators},
                                    {"parameters", figures.parameters},
                                    {"forward_flops", figures.forward},
                                    {"backward_flops", figures.backward},
                                    {"cut_bytes", cut.value()}});
    }
    output.line(fmt::format("model         {}", graph.name()));
    output.line(fmt::format("operators     {} in {} layers", count(static_cast<std::int64_t>(graph.ops().size())),
                            layers.size()));
    output.line(fmt::format("parameters    {}  ({})", count(graph.parameterCount()), format(graph.parameterBytes())));
    output.line(fmt::format("a sample      {} forward, {} backward", format(Flops(total.forward)),
                            format(Flops(total.backward))));
    const ordered_json kept = keptByPart(graph, output);
    const ordered_json loss = lossOf(graph, output);
    const Status trainable = checkTraining(*model);
    if (!trainable)
        output.line("training      cannot be done: " + trainable.error().message);
    if (model->profile)
        output.line(fmt::format("times         {} layers, {}", model->profile->ops.size(), model->profile->source));
    const auto unit = graph::profileUnit(graph);
    if (unit)
        output.line("unit          " + unitText(*unit));
    for (const auto &warning : model->warnings)
        output.line("warning       " + warning);
    output.line();
    table.print(output);
    output.result(ordered_json{{"kind", "model"},
                               {"name", graph.name()},
                               {"source", model->source},
                               {"operators", graph.ops().size()},
                               {"layers", layers.size()},
                               {"parameters", graph.parameterCount()},
                               {"parameter_bytes", graph.parameterBytes().value()},
                               {"forward_flops_per_sample", total.forward},
                               {"backward_flops_per_sample", total.backward},
                               {"trainable", trainable.ok()},
                               {"not_trainable", trainable ? ordered_json() : ordered_json(trainable.error().message)},
                               {"loss", loss},
                               {"has_times", model->profile != nullptr},
                               {"profile_samples", unit && unit->said ? ordered_json(unit->samples) : ordered_json()},
                               {"kept_per_sample", kept},
                               {"warnings", model->warnings},
                               {"layer_list", list}});
    return {};
}

/// "user@address:port, 8 slots".
std::string textOf(const cluster::Host &host)
{
    std::string text = host.user.empty() ? host.address : host.user + "@" + host.address;
    if (host.port > 0)
        text += fmt::format(" port {}", host.port);
    return host.ranks > 0 ? fmt::format("{}, {} slots", text, host.ranks) : text;
}

Status inspectCluster(const std::string &source, Output &output)
{
    const auto loaded = import::loadCluster(source);
    if (!loaded)
        return loaded.error();
    const cluster::Cluster &cluster = **loaded;
    output.line(fmt::format("cluster       {}: {} nodes, {} devices, {} links", cluster.name(), cluster.nodes().size(),
                            cluster.devices().size(), cluster.links().size()));
    std::vector<DeviceId> all;
    for (const auto &device : cluster.devices())
        all.push_back(device.id);
    const std::vector<std::int32_t> shared = cluster::coresOf(cluster, all);
    for (const auto &node : cluster.nodes())
        if (node.cores > 0)
            output.line(fmt::format("cores         {}: {}", node.name, node.cores));
    for (const auto &node : cluster.nodes())
        if (!node.host.address.empty())
            output.line(fmt::format("host          {}: {}", node.name, textOf(node.host)));
    for (const std::string &note : cluster::sharedCoreNotes(cluster, all))
        output.line("              " + note);
    ordered_json devices = ordered_json::array();
    Table table({"DEVICE", "NODE", "TYPE", "FLOAT32", "MEMORY", "BANDWIDTH"});
    for (const auto &device : cluster.devices()) {
        const auto &type = cluster.typeOf(device.id);
        const auto peak = type.peakFlops.find("float32");
        const double flops = peak == type.peakFlops.end() ? 0 : peak->second;
        const std::string &node = cluster.nodes()[device.node.index()].name;
        table.row({device.name, node, type.name, format(Flops(flops)) + "/s", format(type.memory),
                   format(Bytes(static_cast<std::int64_t>(type.memoryBandwidth))) + "/s"});
        devices.push_back(ordered_json{{"name", device.name},
                                       {"node", node},
                                       {"type", type.name},
                                       {"float32_flops", flops},
                                       {"memory_bytes", type.memory.value()},
                                       {"memory_bandwidth", type.memoryBandwidth}});
        if (const int cores = cluster.nodes()[device.node.index()].cores; cores > 0)
            devices.back()["node_cores"] = cores;
        if (const std::string &address = cluster.nodes()[device.node.index()].host.address; !address.empty())
            devices.back()["address"] = address;
        if (const std::int32_t core = shared[devices.size() - 1]; core >= 0)
            devices.back()["core"] = core;
    }
    table.print(output);
    const bool local = source == "local" || source.starts_with("local:");
    const auto gpus = local ? device::cudaDevices() : Result<std::vector<std::string>>(std::vector<std::string>());
    if (local)
        output.line("CUDA          " + (gpus ? fmt::format("{}", fmt::join(*gpus, ", ")) : gpus.error().text()));
    ordered_json links = ordered_json::array();
    for (const auto &link : cluster.links()) {
        links.push_back(ordered_json{{"a", cluster.vertices()[link.a].name},
                                     {"b", cluster.vertices()[link.b].name},
                                     {"point_to_point", link.pointToPoint},
                                     {"collective", link.collective},
                                     {"latency_seconds", link.latency.value()},
                                     {"full_duplex", link.fullDuplex}});
    }
    output.result(ordered_json{{"kind", "cluster"},
                               {"name", cluster.name()},
                               {"nodes", cluster.nodes().size()},
                               {"devices", devices},
                               {"links", links}});
    return {};
}

Status inspectProfile(const std::string &path, Output &output)
{
    const auto profile = loadProfile(path);
    if (!profile)
        return profile.error();
    output.line(fmt::format("profile       {} on {}", profile->model,
                            profile->deviceType.empty() ? "any device" : profile->deviceType));
    output.line(fmt::format("source        {}", profile->source));
    Table table({"OPERATOR", "SAMPLES", "FORWARD", "BACKWARD"});
    for (const auto &[name, times] : profile->ops) {
        for (const auto &time : times)
            table.row({name, fmt::format("{:g}", time.samples), format(time.forward), format(time.backward)});
    }
    table.print(output);
    ordered_json extra = ordered_json::object();
    for (const auto &[key, value] : profile->extra) {
        output.line(fmt::format("{:<32} {:.6g}", key, value));
        extra[key] = value;
    }
    output.result(ordered_json{{"kind", "profile"},
                               {"model", profile->model},
                               {"device_type", profile->deviceType},
                               {"source", profile->source},
                               {"operators", profile->ops.size()},
                               {"extra", extra}});
    return {};
}

ordered_json planJson(const plan::Document &document)
{
    const auto &plan = document.plan;
    ordered_json stages = ordered_json::array();
    for (const auto &stage : plan.stages) {
        ordered_json devices = ordered_json::array();
        for (const DeviceId id : stage.devices)
            devices.push_back(document.subject.cluster->device(id).name);
        stages.push_back(
            ordered_json{{"name", stage.name}, {"layers", {stage.firstLayer, stage.lastLayer}}, {"devices", devices}});
    }
    ordered_json json = ordered_json::object();
    json["kind"] = "plan";
    json["notation"] = plan::notation(plan);
    json["model"] = plan.modelName;
    json["cluster"] = plan.clusterName;
    json["planner"] = plan.planner.name;
    json["global_batch"] = plan.globalBatch;
    json["micro_batches"] = plan.microBatches;
    json["schedule"] = plan::name(plan.schedule.kind);
    json["stages"] = stages;
    ordered_json annotations = ordered_json::array();
    for (const plan::Annotation &annotation : plan.annotations)
        annotations.push_back(plan::toText(annotation));
    json["annotations"] = annotations;
    json["predicted"] = plan.predictedJson.empty() ? ordered_json() : ordered_json::parse(plan.predictedJson);
    json["why"] = plan.why ? ordered_json::parse(plan::toJson(*plan.why)) : ordered_json();
    return json;
}

Status inspectPlan(const std::string &path, Output &output)
{
    const auto document = plan::readPlan(path);
    if (!document)
        return document.error();
    printPlan(document->plan, document->subject, output);
    output.line();
    ordered_json json = planJson(*document);
    json["loss"] = lossOf(*document->subject.graph, output);
    if (document->plan.why) {
        output.line();
        printWhy(*document->plan.why, 0, output);
    }
    output.result(json);
    return {};
}

/// The content of a run's metrics.db, also while it runs; null if it has none.
ordered_json metricsOfRun(const std::string &folder, Output &output)
{
    std::error_code unknown;
    if (!fs::exists(folder + "/metrics.db", unknown))
        return nullptr;
    auto workspace = store::Workspace::open(folder + "/metrics.db");
    const auto runs = workspace ? workspace->listRuns() : Result<std::vector<store::Run>>(workspace.error());
    if (!runs || runs->empty())
        return nullptr;
    const auto steps = workspace->steps(runs->front().id);
    const auto validations = workspace->validations(runs->front().id);
    if (!steps || !validations || steps->empty())
        return nullptr;
    const run::StepMetrics &last = steps->back();
    ordered_json json = ordered_json::object();
    json["state"] = runs->front().state;
    json["steps"] = steps->size();
    json["loss_first"] = steps->front().loss;
    json["loss_last"] = last.loss;
    json["learning_rate_last"] = last.learningRate;
    json["gradient_norm_last"] = last.gradientNorm;
    json["validations"] = validations->size();
    output.line(fmt::format("metrics       {} steps, loss {:.6g} -> {:.6g}, learning rate {:.4g}", steps->size(),
                            steps->front().loss, last.loss, last.learningRate));
    const auto best = std::ranges::min_element(*validations, {}, &run::Validation::loss);
    if (best == validations->end())
        return json;
    json["validation_loss_best"] = best->loss;
    json["validation_step_best"] = best->step;
    json["validation_perplexity_best"] = best->perplexity();
    output.line(fmt::format("validation    best of {} at step {}: {}", validations->size(), best->step, scores(*best)));
    return json;
}

/// The steps of the run's checkpoints, newest first.
ordered_json checkpointsOfRun(const std::string &folder, Output &output)
{
    ordered_json steps = ordered_json::array();
    std::string text;
    for (const checkpoint::Manifest &manifest : checkpoint::checkpoints(folder)) {
        steps.push_back(manifest.state.step);
        text += (text.empty() ? "" : ", ") + std::to_string(manifest.state.step);
    }
    if (!text.empty())
        output.line("checkpoints   after steps " + text);
    return steps;
}

Status inspectRun(const std::string &folder, Output &output)
{
    const auto run = readRun(folder);
    if (!run)
        return run.error();
    printPlan(run->document.plan, run->document.subject, output);
    output.line();
    if (run->summary) {
        output.line(fmt::format("steps         {}", run->summary->steps));
        output.line(fmt::format("loss          {:.6g} -> {:.6g}", run->summary->lossFirst, run->summary->lossLast));
        output.line(fmt::format("iteration     {} (median), predicted {}",
                                format(Seconds(run->summary->iterationSecondsMedian)),
                                format(Seconds(run->summary->predictedIterationSeconds))));
        noteOnProcessors(folder, *run->summary, output);
    } else {
        output.line("has no summary: it is running, it failed, or it ended before its first step");
    }
    const ordered_json metrics = metricsOfRun(folder, output);
    const ordered_json checkpoints = checkpointsOfRun(folder, output);
    output.result(
        ordered_json{{"kind", "run"},
                     {"folder", folder},
                     {"plan", planJson(run->document)},
                     {"summary", run->summary ? ordered_json::parse(run::toJson(*run->summary)) : ordered_json()},
                     {"metrics", metrics},
                     {"checkpoints", checkpoints}});
    return {};
}

Status inspectTrace(const std::string &path, const std::string &plan, Output &output)
{
    NoProgress none;
    const auto read = import::readAnyTrace(path, none);
    if (!read)
        return read.error();
    const trace::Trace *trace = &read->trace;
    std::int32_t steps = 0;
    for (const auto &record : trace->records)
        steps = std::max(steps, record.step + 1);
    const double seconds = static_cast<double>(trace->end() - trace->begin()) * 1e-9;
    const auto round = trace::lastWholeRound(trace->rounds, trace::stepWindows(*trace));
    output.line(fmt::format("trace         {} clock, {} ranks, {} tasks, {} steps", trace->clock, trace->ranks.size(),
                            trace->tasks.size(), steps));
    output.line(fmt::format("records       {} over {}, {} lost",
                            count(static_cast<std::int64_t>(trace->records.size())), format(Seconds(seconds)),
                            trace->dropped));
    if (round && trace->rounds.steps > 1)
        output.line(fmt::format("rounds        of {} steps; the last whole one has steps {} to {}, {} each",
                                trace->rounds.steps, round->first, round->first + round->steps - 1,
                                format(Seconds(round->secondsPerStep()))));
    for (const std::string &note : read->notes)
        output.line("note          " + note);
    const ordered_json report = reportTrace(*trace, output);
    ordered_json laid;
    if (!plan.empty()) {
        output.line();
        auto over = reportOverlay(*trace, path, plan, output);
        if (!over)
            return over.error();
        laid = *std::move(over);
    }
    output.result(ordered_json{{"kind", "trace"},
                               {"clock", trace->clock},
                               {"ranks", trace->ranks.size()},
                               {"tasks", trace->tasks.size()},
                               {"steps", steps},
                               {"round_steps", trace->rounds.steps},
                               {"records", trace->records.size()},
                               {"dropped", trace->dropped},
                               {"seconds", seconds},
                               {"notes", read->notes},
                               {"report", report},
                               {"over_plan", laid}});
    return {};
}

Status inspectWorkspace(const std::string &path, Output &output)
{
    std::error_code unknown;
    if (!fs::exists(path, unknown))
        return notFound("cannot be opened: there is no such file; check the path").in(path);
    auto workspace = store::Workspace::open(path);
    if (!workspace)
        return workspace.error();
    ordered_json json = ordered_json::object();
    json["kind"] = "workspace";
    Table table({"KIND", "NAME", "FROM"});
    for (const store::Kind kind : {store::Kind::Model, store::Kind::Cluster, store::Kind::Plan, store::Kind::Profile}) {
        const auto entries = workspace->list(kind);
        if (!entries)
            return entries.error();
        ordered_json names = ordered_json::array();
        for (const auto &entry : *entries) {
            table.row({store::name(kind), entry.name, entry.source});
            names.push_back(entry.name);
        }
        json[fmt::format("{}s", store::name(kind))] = names;
    }
    const auto runs = workspace->listRuns();
    if (!runs)
        return runs.error();
    ordered_json list = ordered_json::array();
    for (const auto &run : *runs) {
        table.row({"run", fmt::format("{} on {}: {}", run.model, run.cluster, run.state), run.folder});
        list.push_back(ordered_json{{"folder", run.folder},
                                    {"state", run.state},
                                    {"model", run.model},
                                    {"cluster", run.cluster},
                                    {"plan", run.plan},
                                    {"steps", run.steps},
                                    {"loss_last", run.lossLast},
                                    {"iteration_seconds_median", run.iterationSecondsMedian}});
    }
    table.print(output);
    json["runs"] = list;
    output.result(json);
    return {};
}

} // namespace

Status inspect(const InspectOptions &options, Output &output)
{
    const auto what = whatIs(options.what);
    if (!what)
        return what.error();
    if (options.sequence > 0 && *what != What::Model)
        return badInput("is no model; leave --sequence out").in(options.what);
    if (!options.loss.empty() && *what != What::Model)
        return badInput("is no model; leave --loss out").in(options.what);
    if (options.profileSamples > 0 && *what != What::Model)
        return badInput("is no layer profile; leave --profile-samples out").in(options.what);
    if (!options.plan.empty() && *what != What::Trace)
        return badInput("is no trace; leave --plan out").in(options.what);
    switch (*what) {
    case What::Model:
        return inspectModel(options.what, {options.sequence, options.loss, options.profileSamples}, output);
    case What::Cluster: return inspectCluster(options.what, output);
    case What::Profile: return inspectProfile(options.what, output);
    case What::Plan: return inspectPlan(options.what, output);
    case What::Run: return inspectRun(options.what, output);
    case What::Trace: return inspectTrace(options.what, options.plan, output);
    case What::Memory: return inspectMemory(options.what, output);
    case What::Workspace: return inspectWorkspace(options.what, output);
    case What::Graph: return inspectGraph(options.what, output);
    case What::Job: return inspectJob(options.what, output);
    case What::Placement: return inspectPlacement(options.what, output);
    }
    return {};
}

} // namespace planloom::cli
