// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/compile.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/stage_replica.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace planloom::test {

/// Gives out samples in the order in which they lie, though a step asks for them in a seeded one: so that what is
/// trained on is known to others.
class InOrder final : public data::DataSet {
public:
    InOrder(const data::DataSet &data, std::int64_t seed)
        : m_data(data),
          m_place(static_cast<std::size_t>(data.samples()))
    {
        const data::SampleOrder order(data.samples(), seed, 0);
        for (std::int64_t i = 0; i < data.samples(); ++i)
            m_place[static_cast<std::size_t>(order.sampleIndex(0, data.samples(), i))] = i;
    }
    [[nodiscard]] std::int64_t samples() const override { return m_data.samples(); }
    void fillInput(std::int64_t sample, void *out) const override { m_data.fillInput(at(sample), out); }
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        m_data.fillInputAt(input, at(sample), out);
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override { m_data.fillLabels(at(sample), out); }

private:
    [[nodiscard]] std::int64_t at(std::int64_t sample) const { return m_place[static_cast<std::size_t>(sample)]; }
    const data::DataSet &m_data;
    std::vector<std::int64_t> m_place;
};

/// A whole model as the one rank of a plan holds it, trained step by step in this process.
class OneRank final : private runtime::PassHooks {
public:
    struct Options {
        std::int64_t samples = 1; ///< a step
        std::int64_t seed = 1;
        plan::Precision precision = plan::Precision::Float32;
        plan::Optimizer optimizer;
        std::string modelFolder; ///< where weights beside the model lie
    };

    /// @p data must outlive it.
    static Result<std::unique_ptr<OneRank>> make(const std::shared_ptr<const graph::Graph> &graph,
                                                 const data::DataSet &data, const Options &options)
    {
        std::unique_ptr<OneRank> made(new OneRank(graph, options));
        auto needs = data::needsOf(*graph);
        if (!needs)
            return needs.error();
        if (const Status status = made->compile(); !status)
            return status.error();
        made->m_feed = std::make_unique<runtime::Feed>(
            runtime::Feed{&data, *needs, data::SampleOrder(data.samples(), options.seed, 0)});
        device::Device &device = device::cpuDevice();
        auto arena = runtime::Arena::allocate(device, made->m_program.ranks.front().arenaBytes);
        if (!arena)
            return arena.error();
        made->m_arena = std::move(*arena);
        auto queue = device.makeQueue();
        if (!queue)
            return queue.error();
        made->m_queue = std::move(*queue);
        auto norms = runtime::UpdateNorms::create(made->m_program, options.optimizer.rule.formula().norms, device);
        if (!norms)
            return norms.error();
        made->m_norms = std::move(*norms);
        auto stage = runtime::StageReplica::create(
            made->m_program, made->m_program.bodies.front(), {device, *made->m_queue, made->m_arena},
            {*graph, *made->m_feed, options.seed, options.modelFolder, options.optimizer, made->m_norms});
        if (!stage)
            return stage.error();
        made->m_stage.emplace(std::move(*stage));
        return made;
    }

    /// The loss of one step: forward, backward, optimizer.
    double step()
    {
        runtime::StageRunner &runner = *m_stage->runner;
        if (const Status fed = runner.forward(0, m_step, *this); !fed)
            return std::numeric_limits<double>::quiet_NaN();
        runner.backward(0, *this);
        if (const Status updated = m_stage->updater.updateAlone({m_step++, m_plan.optimizer.learningRate}); !updated)
            return std::numeric_limits<double>::quiet_NaN();
        return runner.takeLoss();
    }

    [[nodiscard]] const plan::Plan &plan() const { return m_plan; }
    [[nodiscard]] const program::Program &program() const { return m_program; }
    [[nodiscard]] const runtime::Feed &feed() const { return *m_feed; }

private:
    OneRank(std::shared_ptr<const graph::Graph> graph, const Options &options) : m_graph(std::move(graph))
    {
        m_plan.globalBatch = options.samples;
        m_plan.precision = options.precision;
        m_plan.optimizer = options.optimizer;
    }
    void betweenOperators() override {}

    Status compile()
    {
        cluster::RegularCluster spec;
        spec.name = "one";
        spec.type = {"CPU",
                     {{"float32", 1e11}},
                     Bytes(std::int64_t{1} << 50),
                     1e10}; // only its memory matters: it must not bind
        spec.intraBandwidth = spec.interPointToPoint = spec.interCollective = 1e9;
        auto cluster = cluster::regular(spec);
        if (!cluster)
            return cluster.error();
        const auto subject =
            plan::makeSubject(m_graph, std::make_shared<const cluster::Cluster>(std::move(*cluster)), nullptr, {});
        plan::Stage stage;
        stage.name = "all";
        stage.lastLayer = subject.layers().size();
        stage.devices = {DeviceId(0)};
        m_plan.stages.push_back(std::move(stage));
        auto program = compile::compilePlan(m_plan, subject);
        if (!program)
            return program.error();
        m_program = std::move(*program);
        return {};
    }

    std::shared_ptr<const graph::Graph> m_graph;
    plan::Plan m_plan;
    program::Program m_program;
    std::unique_ptr<runtime::Feed> m_feed;
    runtime::Arena m_arena;
    std::unique_ptr<device::Queue> m_queue;
    runtime::UpdateNorms m_norms;
    std::optional<runtime::StageReplica> m_stage;
    std::int64_t m_step = 0;
};

} // namespace planloom::test
