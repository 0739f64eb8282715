// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/zoo/zoo.h"
#include "engine/program/program.h"
#include "engine/trace/ring.h"
#include "executor/comm/local_group.h"
#include "executor/runtime/rank_executor.h"

#include <omp.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace planloom::test {

/// Devices enough for every layout: @p count CPUs of one machine, or of each of @p machines.
inline std::shared_ptr<const cluster::Cluster> cpus(int count, int machines = 1)
{
    cluster::RegularCluster spec;
    spec.name = "cpus";
    spec.nodes = machines;
    spec.perNode = count;
    spec.type.name = "CPU";
    spec.type.peakFlops = {{"float32", 1e11}};
    spec.type.memory = Bytes(std::int64_t{8} << 30);
    spec.type.memoryBandwidth = 2e10;
    spec.intraBandwidth = 1e10;
    spec.interPointToPoint = 1e9;
    spec.interCollective = 1e9;
    auto cluster = cluster::regular(spec);
    return cluster ? std::make_shared<const cluster::Cluster>(std::move(*cluster)) : nullptr;
}

struct StageLayout {
    std::vector<double> shares = {1.0}; ///< one per replica
    plan::Recompute recompute = plan::Recompute::None;
};

struct Layout {
    std::vector<StageLayout> stages = {{}};
    std::int64_t globalBatch = 8;
    std::int64_t microBatches = 1;
    plan::ScheduleKind schedule = plan::ScheduleKind::OneF1B;
    std::vector<std::size_t> places =
        {}; ///< per stage: stages of one place have the same devices; empty: every stage has its own
};

/// Layers cut into equal runs, devices given out in order.
inline plan::Plan planOf(const plan::Subject &subject, const Layout &layout, const plan::Optimizer &optimizer = {})
{
    plan::Plan plan;
    plan.modelName = subject.graph->name();
    plan.modelSource = subject.modelSource;
    plan.clusterName = subject.cluster->name();
    plan.globalBatch = layout.globalBatch;
    plan.microBatches = layout.microBatches;
    plan.schedule.kind = layout.schedule;
    plan.optimizer = optimizer;
    const std::size_t layers = subject.layers().size();
    std::int64_t device = 0;
    for (std::size_t s = 0; s < layout.stages.size(); ++s) {
        plan::Stage stage;
        stage.name = "s" + std::to_string(s);
        stage.firstLayer = layers * s / layout.stages.size();
        stage.lastLayer = layers * (s + 1) / layout.stages.size();
        stage.recompute = layout.stages[s].recompute;
        for (std::size_t before = 0; before < s && !layout.places.empty(); ++before)
            if (layout.places[before] == layout.places[s])
                stage.devices = plan.stages[before].devices;
        for (std::size_t replica = stage.devices.size(); replica < layout.stages[s].shares.size(); ++replica)
            stage.devices.emplace_back(device++);
        if (layout.stages[s].shares.size() > 1)
            stage.replicaShares = layout.stages[s].shares;
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

/// Results of a run, per rank where it matters.
struct Outcome {
    std::string problem; ///< empty: none
    std::vector<double> losses;
    std::vector<double> lagrangians;            ///< run::StepMetrics::lagrangian
    std::vector<double> primalResiduals;        ///< run::StepMetrics::primalResidual
    std::vector<std::vector<float>> residuals;  ///< of each step (runtime::ExecutorOptions::onResiduals)
    std::vector<double> distances;              ///< run::StepMetrics::consensusDistance
    std::vector<std::vector<double>> ownLosses; ///< per rank, by step: runtime::ExecutorOptions::onOwnLoss
    std::vector<run::RowCounts> rows;           ///< of the first table, by step: runtime::ExecutorOptions::onRows
    std::vector<std::int64_t> peaks;
    std::vector<std::int64_t> collectiveBytes;
    std::vector<std::vector<trace::Record>> records;
    std::int64_t dropped = 0;
    run::Validation evaluation;
};

struct Training {
    std::int64_t steps = 5;
    std::int64_t seed = 1;
    bool evaluate = false;
    std::int64_t stopAfter = -1;  ///< rank 0 asks to stop during this step
    std::string modelFolder = {}; ///< where weights beside the model lie
    /// Puts a communicator of the test's own around a rank's.
    std::function<std::unique_ptr<comm::Communicator>(std::size_t rank, comm::Communicator &inner)> around = {};
};

/// Trains @p program with one thread per rank.
inline Outcome train(const program::Program &program, const plan::Subject &subject, const plan::Optimizer &optimizer,
                     const runtime::Feed &feed, const Training &how)
{
    const std::size_t ranks = program.ranks.size();
    Outcome outcome;
    outcome.peaks.resize(ranks);
    outcome.ownLosses.resize(ranks);
    outcome.collectiveBytes.resize(ranks);
    outcome.records.resize(ranks);
    std::vector<std::string> problems(ranks);
    std::vector<std::int64_t> dropped(ranks);
    std::atomic<bool> stop{false};
    comm::LocalGroup group(static_cast<int>(ranks));
    const auto work = [&](std::size_t rank) -> Status {
        omp_set_num_threads(1);
        const auto end = group.end(static_cast<int>(rank));
        const auto around = how.around ? how.around(rank, *end) : nullptr;
        comm::Communicator *const communicator = around ? around.get() : &*end;
        trace::Ring ring(1 << 16);
        runtime::ExecutorOptions options;
        options.steps = how.steps;
        options.seed = how.seed;
        options.optimizer = optimizer;
        options.stop = &stop;
        options.modelFolder = how.modelFolder;
        options.onOwnLoss = [&outcome, rank](std::int64_t, double part) { outcome.ownLosses[rank].push_back(part); };
        if (rank == 0) {
            options.onRows = [&](TableId table, std::int64_t, const run::RowCounts &counts) {
                if (table == TableId(0))
                    outcome.rows.push_back(counts);
            };
            options.onResiduals = [&](std::int64_t, std::span<const float> squares) {
                outcome.residuals.emplace_back(squares.begin(), squares.end());
                return Status();
            };
            options.onStep = [&](const run::StepMetrics &result) {
                outcome.losses.push_back(result.loss);
                outcome.lagrangians.push_back(result.lagrangian);
                outcome.primalResiduals.push_back(result.primalResidual);
                outcome.distances.push_back(result.consensusDistance);
                if (result.step + 1 == how.stopAfter)
                    stop = true;
            };
        }
        std::unique_ptr<runtime::RankExecutor> executor; // its memory goes after the abort: others may be sending to it
        const auto status = [&]() -> Status {
            auto made = runtime::RankExecutor::create(program, *subject.graph, *communicator, feed, ring, options);
            if (!made)
                return made.error();
            executor = std::move(*made);
            if (const Status run = executor->run(); !run)
                return run;
            outcome.collectiveBytes[rank] = executor->collectiveBytes();
            if (how.evaluate) {
                const auto evaluation = executor->evaluate();
                if (!evaluation)
                    return evaluation.error();
                if (rank == 0)
                    outcome.evaluation = *evaluation;
            }
            outcome.peaks[rank] = executor->peakBytes();
            return {};
        }();
        if (!status)
            communicator->abort(status.error().text());
        ring.drain(outcome.records[rank], std::size_t{1} << 30);
        dropped[rank] = ring.dropped();
        return status;
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            threads.emplace_back([&, rank] {
                const Status status = work(rank);
                problems[rank] = status ? std::string() : status.error().text();
            });
        }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        outcome.dropped += dropped[rank];
        if (outcome.problem.empty())
            outcome.problem = problems[rank];
    }
    return outcome;
}

} // namespace planloom::test
