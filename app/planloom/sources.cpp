// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/sources.h"

#include "engine/base/files.h"
#include "engine/cost/framework.h"
#include "engine/graph/gradients/loss.h"
#include "engine/graph/rewrite/form.h"
#include "executor/data/data_set.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace planloom::cli {

namespace fs = std::filesystem;

namespace {

/// Operators have equal names in models of one family: a profile of another model gives wrong times without any sign.
void warnOfAnotherModel(const cost::Profile &profile, const graph::Graph &graph, const std::string &path,
                        Output &output)
{
    if (profile.ops.empty() || profile.model.empty()
        || fs::path(profile.model).filename() == fs::path(graph.name()).filename())
        return;
    const bool named = std::any_of(graph.ops().begin(), graph.ops().end(),
                                   [&](const graph::Op &op) { return profile.ops.contains(op.name); });
    if (named)
        output.note("warning: " + path + " is a profile of " + profile.model + ", not of " + graph.name()
                    + ", whose operators of the same name are given its times; measure this model");
}

/// Without a loss there is no backward pass to plan. Other models that cannot be trained can be simulated.
Status checkLoss(const import::Model &model, Output &output)
{
    if (graph::isLayerProfile(*model.graph))
        return {};
    const Status trainable = checkTraining(model);
    if (trainable || !model.graph->loss().valid())
        return trainable;
    output.note("warning: the plan can be simulated, not trained: " + trainable.error().message);
    return {};
}

} // namespace

Result<plan::Subject> loadSubject(const std::string &model, const import::ModelOptions &how, const std::string &cluster,
                                  const std::string &profile, Output &output)
{
    auto loaded = import::loadModel(model, how);
    if (!loaded)
        return loaded.error();
    for (const auto &warning : loaded->warnings)
        output.note("warning: " + warning);
    if (const Status planned = checkLoss(*loaded, output); !planned)
        return planned.error().in(model);
    auto devices = import::loadCluster(cluster);
    if (!devices)
        return devices.error();
    std::shared_ptr<const cost::Profile> times = loaded->profile;
    if (!profile.empty()) {
        auto read = loadProfile(profile);
        if (!read)
            return read.error();
        warnOfAnotherModel(*read, *loaded->graph, profile, output);
        times = std::make_shared<const cost::Profile>(*std::move(read));
    }
    return plan::makeSubject(loaded->graph, *devices, times, loaded->source);
}

Result<plan::Subject> asComputedBy(const FrameworkChoice &choice, plan::Subject subject, plan::Precision precision)
{
    if ((!choice.attention.empty() || choice.dropout) && graph::isLayerProfile(*subject.graph))
        return badInput("--attention and --dropout change a model's operators, and a layer profile has times instead; "
                        "leave them out");
    graph::Form form{{}, choice.dropout};
    std::shared_ptr<const cost::Profile> profile = subject.profile;
    if (!choice.name.empty()) {
        const auto framework = cost::findFramework(choice.name);
        if (!framework)
            return badInput("--framework: " + framework.error().message);
        form.fusedAttention = (*framework)->fusedAttention;
        form.dropout = choice.dropout ? choice.dropout : (*framework)->dropout;
        const auto types = subject.cluster->types();
        if (profile && profile->source.find(cost::kFrameworkSource) != std::string::npos)
            return badInput("--framework: the profile has the facts of a framework already (" + profile->source
                            + "); leave it out, or plan anew");
        const bool float16 = precision == plan::Precision::BFloat16
            && std::none_of(types.begin(), types.end(),
                            [](const cluster::DeviceType &type) { return type.peakFlops.contains("bfloat16"); });
        profile = cost::withFacts(profile, **framework, float16);
    }
    if (!choice.attention.empty())
        form.fusedAttention = choice.attention == "fused";
    std::shared_ptr<const graph::Graph> model = subject.graph;
    if (form.changes() && !graph::isLayerProfile(*model)) {
        auto formed = graph::inForm(*model, form);
        if (!formed)
            return formed.error();
        model = std::make_shared<const graph::Graph>(*std::move(formed));
    }
    if (model == subject.graph && profile == subject.profile)
        return subject;
    return plan::makeSubject(model, subject.cluster, profile, subject.modelSource);
}

Status checkTraining(const graph::Graph &graph)
{
    if (const Status good = graph::checkTrainable(graph); !good)
        return good;
    const auto needs = data::needsOf(graph);
    return needs ? Status() : Status(needs.error());
}

Status checkTraining(const import::Model &model)
{
    return model.noLoss.empty() ? checkTraining(*model.graph)
                                : unsupported("has no loss, so it cannot be trained: " + model.noLoss);
}

Result<cost::Profile> loadProfile(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto profile = cost::profileFromJson(*text);
    if (!profile)
        return profile.error().in(path);
    return profile;
}

std::string absolutePath(const std::string &path)
{
    std::error_code unknown; // the working folder may be gone
    return path.empty() ? path : std::filesystem::absolute(path, unknown).lexically_normal().string();
}

bool isRunFolder(const std::string &path)
{
    std::error_code unknown;
    return fs::is_directory(path, unknown);
}

Result<RunFiles> readRun(const std::string &folder)
{
    const fs::path base(folder);
    std::error_code unknown;
    if (!fs::exists(base / "plan.json", unknown))
        return badInput("is not the folder of a run (it has no plan.json); name one that planloom train made")
            .in(folder);
    auto document = plan::readPlan((base / "plan.json").string());
    if (!document)
        return document.error();
    RunFiles run{folder, *std::move(document), std::nullopt};
    const std::string summaryPath = (base / "summary.json").string();
    if (!fs::exists(summaryPath, unknown))
        return run;
    const auto text = readFile(summaryPath);
    if (!text)
        return text.error();
    const auto summary = run::summaryFromJson(*text);
    if (!summary)
        return summary.error().in(summaryPath);
    run.summary = *summary;
    return run;
}

namespace {

/// Whole; a terminal's ends with Ctrl-D.
Result<std::string> readStandardInput()
{
    constexpr std::size_t kMostBytes = std::size_t{1} << 30; // of a plan; a file may be longer
    constexpr std::size_t kPiece = 1 << 16;
    std::string text;
    std::string piece(kPiece, '\0');
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(piece.data(), 1, piece.size(), stdin);
        text.append(piece, 0, got);
        if (text.size() > kMostBytes)
            return badInput("is longer than the 1 GiB that are read; name a file").in("standard input");
    }
    return std::ferror(stdin) ? Result<std::string>(ioError("cannot be read: " + systemReason()).in("standard input"))
                              : Result<std::string>(std::move(text));
}

} // namespace

Status writePlanTo(const plan::Document &document, const std::string &path, Output &output)
{
    if (path != kStandardStream)
        return plan::writePlan(document, path);
    output.file(plan::toJson(document));
    return {};
}

Result<plan::Document> readPlanOrRun(const std::string &path)
{
    if (path == kStandardStream) {
        const auto text = readStandardInput();
        if (!text)
            return text.error();
        auto document = plan::documentFromJson(*text);
        return document ? std::move(document) : document.error().in("standard input");
    }
    if (!isRunFolder(path))
        return plan::readPlan(path);
    auto run = readRun(path);
    if (!run)
        return run.error();
    return std::move(run->document);
}

Result<trace::Trace> readRunTrace(const std::string &folder)
{
    return trace::readTrace((fs::path(folder) / "trace.pltrace").string());
}

Result<memory::RunTimes> readMeasuredTimes(const std::string &file)
{
    const auto text = readFile(file);
    if (!text)
        return text.error();
    auto times = memory::runTimesFromJson(*text);
    return times ? std::move(times) : times.error().in(file);
}

Result<std::optional<store::Workspace>> openWorkspace(const std::string &path)
{
    std::optional<store::Workspace> none;
    if (path.empty())
        return none;
    auto opened = store::Workspace::open(path);
    if (!opened)
        return opened.error();
    return std::optional<store::Workspace>(*std::move(opened));
}

Status checkWritable(const std::string &path)
{
    std::error_code unknown;
    if (path.empty() || path == kStandardStream)
        return {};
    if (fs::is_directory(path, unknown))
        return badInput("is a folder, not a file; name a file in it").in(path);
    const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    if (!fs::is_directory(parent, unknown))
        return badInput("cannot be written: its folder does not exist; make the folder or choose another place")
            .in(path);
    if (::access(parent.c_str(), W_OK) != 0)
        return ioError("cannot be written: its folder is not yours to write in; choose another place").in(path);
    return {};
}

std::int64_t now()
{
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

} // namespace planloom::cli
