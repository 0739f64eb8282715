// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/files.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/plan/plan.h"
#include "executor/agent/agent.h"
#include "executor/agent/client.h"

#include <QDir>
#include <QTest>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::testing {

/// A small multi-layer perceptron on @p ranks CPU devices of one machine: @p stages stages, the ranks shared out among
/// them.
inline Result<std::string> smallPlan(int ranks, int stages, std::int64_t batch = 8, std::int64_t microBatches = 4)
{
    auto model = graph::mlp("small", {16, 32, 32, 4});
    if (!model)
        return model.error();
    cluster::RegularCluster spec;
    spec.name = "test";
    spec.perNode = ranks;
    spec.type = {"CPU", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10};
    spec.intraBandwidth = 4e9;
    spec.interPointToPoint = 1e9;
    spec.interCollective = 1e9;
    auto cluster = cluster::regular(spec);
    if (!cluster)
        return cluster.error();
    plan::Document document;
    document.subject = plan::makeSubject(std::make_shared<graph::Graph>(std::move(*model)),
                                         std::make_shared<cluster::Cluster>(std::move(*cluster)), nullptr, "zoo:small");
    const std::size_t layers = document.subject.layers().size();
    plan::Plan &plan = document.plan;
    plan.modelName = "small";
    plan.modelSource = "zoo:small";
    plan.clusterName = "test";
    plan.planner.name = "manual";
    plan.globalBatch = batch;
    plan.microBatches = microBatches;
    const int places = std::min(ranks, stages); // more stages than ranks go round them
    const int replicas = ranks / places;
    if (stages > ranks)
        plan.schedule.kind = plan::ScheduleKind::Interleaved1F1B;
    for (int s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = fmt::format("stage {}", s);
        stage.firstLayer = layers * static_cast<std::size_t>(s) / static_cast<std::size_t>(stages);
        stage.lastLayer = layers * static_cast<std::size_t>(s + 1) / static_cast<std::size_t>(stages);
        for (int r = 0; r < replicas; ++r)
            stage.devices.emplace_back(s % places * replicas + r);
        plan.stages.push_back(stage);
    }
    if (const Status good = plan::validate(plan, document.subject); !good)
        return good.error();
    return plan::toJson(document);
}

/// 200 rows of 16 features and a label of 4, which depends on them.
inline std::string smallData()
{
    std::string text;
    unsigned state = 1;
    for (int row = 0; row < 200; ++row) {
        int label = 0;
        for (int i = 0; i < 16; ++i) {
            state = state * 1664525U + 1013904223U;
            const int value = static_cast<int>(state >> 28);
            text += fmt::format("{},", value / 16.0);
            label += i < 2 ? value / 8 << i : 0;
        }
        text += fmt::format("{}\n", label);
    }
    return text;
}

/// Everything that a client is told.
struct Heard {
    std::string runId, runDir;
    trace::Tables tables;
    std::vector<trace::Record> records;
    std::int64_t dropped = 0;
    std::vector<run::StepMetrics> steps;
    std::vector<agent::RunState> states;
    std::optional<run::Summary> summary;
    std::function<void()> onStep;

    agent::RunEvents events()
    {
        agent::RunEvents all;
        all.onStarted = [this](const std::string &id, const std::string &dir) { runId = id, runDir = dir; };
        all.onTraceTables = [this](const trace::Tables &heard) { tables = heard; };
        all.onRecords = [this](const auto &r, std::int64_t lost) {
            records.insert(records.end(), r.begin(), r.end()), dropped = lost;
        };
        all.onStep = [this](const run::StepMetrics &step) {
            steps.push_back(step);
            if (onStep)
                onStep();
        };
        all.onState = [this](agent::RunState state, const std::string &) { states.push_back(state); };
        all.onSummary = [this](const run::Summary &s) { summary = s; };
        return all;
    }
};

/// Processes whose command line holds @p text, this one left out.
inline std::vector<int> processesWith(const std::string &text)
{
    std::vector<int> found;
    for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == ::getpid())
            continue;
        std::FILE *file = std::fopen((entry.path() / "cmdline").c_str(), "r");
        if (!file)
            continue;
        std::string line(1 << 14, '\0');
        line.resize(std::fread(line.data(), 1, line.size(), file));
        std::fclose(file);
        if (line.find(text) != std::string::npos)
            found.push_back(std::stoi(name));
    }
    return found;
}

/// A test program is its own planloom: `PROGRAM agent ...` and `PROGRAM worker ...` do what the command does.
inline std::optional<int> actAsPlanloom(int argc, char **argv,
                                        int (*worker)(const std::string &folder, const std::string &socket))
{
    const std::vector<std::string_view> arguments(argv + 1, argv + argc);
    if (arguments.size() >= 3 && arguments[0] == "agent")
        return agent::runAgent({std::string(arguments[2]), {}, arguments.back() == "--exit-with-parent"});
    if (arguments.size() == 5 && arguments[0] == "worker")
        return worker(std::string(arguments[2]), std::string(arguments[4]));
    ::setenv("PLANLOOM_BINARY", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);
    return std::nullopt;
}

/// A worker that trains; plans of tests hold all weights.
inline int realWorker(const std::string &folder, const std::string &socket)
{
    return agent::runWorkerProcess(folder, socket, {});
}

} // namespace planloom::testing
