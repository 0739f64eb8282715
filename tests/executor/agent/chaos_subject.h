// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/store/store.h"
#include "executor/agent/agent_fixture.h"
#include "executor/agent/chaos_faults.h"
#include "executor/agent/chaos_processes.h"
#include "executor/checkpoint/restore.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>

/// The training of tst_chaos, and the files that it reads of a run.
namespace planloom::testing {

/// A GPT over bytes of four layers.
inline std::string nanoPlan(Layout layout)
{
    graph::TransformerConfig config{.name = "gpt-nano",
                                    .layers = 4,
                                    .heads = 4,
                                    .hidden = 64,
                                    .feedForward = 256,
                                    .vocabulary = 256,
                                    .context = 64};
    cluster::RegularCluster spec;
    spec.name = "pair";
    spec.perNode = 2;
    spec.type = {"CPU", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10};
    spec.intraBandwidth = 4e9;
    spec.interPointToPoint = spec.interCollective = 1e9;
    plan::Document document;
    document.subject =
        plan::makeSubject(std::make_shared<graph::Graph>(*graph::gpt(config)),
                          std::make_shared<cluster::Cluster>(*cluster::regular(spec)), nullptr, "zoo:gpt-nano");
    const std::size_t layers = document.subject.layers().size();
    plan::Plan &plan = document.plan;
    plan.modelName = "gpt-nano";
    plan.clusterName = "pair";
    plan.planner.name = "manual";
    plan.globalBatch = 16;
    plan.microBatches = 2;
    plan.optimizer.schedule = {plan::LearningRateSchedule::Kind::Cosine, 2, kSteps, 0.1};
    plan.optimizer.clipNorm = 1;
    const std::size_t stages = layout == Layout::Stages ? 2 : 1;
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = fmt::format("stage{}", s);
        stage.firstLayer = layers * s / stages;
        stage.lastLayer = layers * (s + 1) / stages;
        stage.devices.emplace_back(static_cast<std::int64_t>(s));
        if (layout == Layout::Replicas || layout == Layout::Tensors)
            stage.devices.emplace_back(1);
        if (layout == Layout::Replicas)
            stage.zero = 1;
        if (layout == Layout::Tensors) {
            stage.mesh = {1, 2};
            stage.shardings = {{"*.attn.c_attn.weight", "B,S(1:64+64+64)"},
                               {"*.attn.c_attn.bias", "B,S(0:64+64+64)"},
                               {"*.attn.c_proj.weight", "B,S(0)"},
                               {"*.mlp.c_fc.weight", "B,S(1)"},
                               {"*.mlp.c_fc.bias", "B,S(0)"},
                               {"*.mlp.c_proj.weight", "B,S(0)"}};
        }
        plan.stages.push_back(stage);
    }
    return plan::toJson(document);
}

inline std::string words()
{
    std::string text;
    std::mt19937 random(7);
    for (int i = 0; i < 6000; ++i)
        text += fmt::format("{} ", random() % 97 * 31);
    return text;
}

/// `PROGRAM train PLAN DATA RUN RESUME RESTARTS HUNG STEPS`: a client in a separate process. It notes when the state
/// changed.
inline int trainHere(char **argv)
{
    agent::TrainRequest request;
    request.planJson = *readFile(argv[2]);
    request.settings.data = argv[3];
    request.runDir = argv[4];
    request.resume = std::string_view(argv[5]) == "1";
    request.settings.restarts = std::atoi(argv[6]);
    request.settings.hungSeconds = std::atof(argv[7]);
    request.settings.steps = std::atoi(argv[8]);
    request.settings.seed = 11;
    request.settings.threads = 1;
    request.settings.checkpointEvery = kEvery;
    request.settings.keep = kKeep;
    auto client = agent::Client::startLocal();
    if (!client) {
        fmt::print(stderr, "{}\n", client.error().text());
        return 3;
    }
    agent::RunEvents events;
    const char *log = argv[9];
    events.onState = [&](agent::RunState state, const std::string &message) {
        if (std::FILE *file = std::fopen(log, "a")) {
            fmt::print(file, "{} {} {}\n", std::chrono::steady_clock::now().time_since_epoch().count(),
                       static_cast<int>(state), message);
            std::fclose(file);
        }
    };
    const Status status = (*client)->train(request, events);
    if (!status)
        fmt::print(stderr, "{}\n", status.error().text());
    return status ? 0 : 1;
}

inline std::size_t linesIn(const std::string &path)
{
    const std::string text = textOf(path);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Losses as they stand in the file: the shortest text that reads back the same, so equal text is equal bits.
inline std::vector<std::string> lossesOf(const std::string &run)
{
    std::vector<std::string> losses;
    std::istringstream lines(textOf(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const auto begin = line.find("\"loss\":") + 7;
        losses.push_back(line.substr(begin, line.find(',', begin) - begin));
    }
    return losses;
}

/// The same, as the data base has them.
inline Result<std::vector<double>> storedLossesOf(const std::string &run)
{
    auto workspace = store::Workspace::open(run + "/metrics.db");
    if (!workspace)
        return workspace.error();
    const auto runs = workspace->listRuns();
    if (!runs)
        return runs.error();
    const auto steps = workspace->steps(runs->front().id);
    if (!steps)
        return steps.error();
    std::vector<double> losses;
    for (const run::StepMetrics &step : *steps)
        losses.push_back(step.loss);
    return losses;
}

/// A run goes on without its data base where the disk is full, and reports it.
inline std::string forgottenByTheDataBase(const std::string &run)
{
    if (textOf(run + "/log").find("the run goes on without it") != std::string::npos)
        return {};
    const auto stored = storedLossesOf(run);
    if (!stored)
        return stored.error().text();
    std::vector<double> written;
    for (const std::string &loss : lossesOf(run))
        written.push_back(std::stod(loss));
    return *stored == written
        ? std::string()
        : fmt::format("the data base has {} of {} steps, or other losses", stored->size(), written.size());
}

/// The largest step with a checkpoint by the run's own log.
inline std::int64_t committedBy(const std::string &run)
{
    std::int64_t newest = 0;
    const std::string log = textOf(run + "/log");
    constexpr std::string_view kSaid = "checkpoint of step ";
    for (std::size_t at = log.find(kSaid); at != std::string::npos; at = log.find(kSaid, at + 1)) {
        if (at < 3 || log.compare(at - 2, 2, ": ") == 0) // not "there is no checkpoint of step"
            newest = std::max<std::int64_t>(newest, std::atoll(log.c_str() + at + kSaid.size()));
    }
    return newest;
}

/// Every tensor of a checkpoint, put together from its shards.
using Tensors = std::map<std::pair<checkpoint::Kind, std::string>, std::vector<std::byte>>;
inline Result<Tensors> tensorsOf(const checkpoint::Manifest &manifest)
{
    Tensors tensors;
    std::vector<checkpoint::Piece> wholes;
    for (const checkpoint::StoredPiece &stored : manifest.pieces) {
        checkpoint::Piece whole = stored.what;
        const auto [place, isNew] = tensors.try_emplace({whole.kind, whole.name});
        if (!isNew)
            continue;
        whole.region = checkpoint::wholeRegion(whole.shape);
        whole.flatBegin = 0;
        whole.flatCount = checkpoint::wholeElements(whole.shape);
        place->second.resize(static_cast<std::size_t>(whole.bytes()));
        whole.data = place->second.data();
        wholes.push_back(std::move(whole));
    }
    if (const Status restored = checkpoint::restore(manifest, wholes); !restored)
        return restored.error();
    return tensors;
}

inline std::uintmax_t bytesIn(const std::string &folder)
{
    std::uintmax_t bytes = 0;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
        bytes += entry.is_regular_file() ? entry.file_size() + 4096 : 4096;
    return bytes;
}

} // namespace planloom::testing
