// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/model/zoo.h"
#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "planners/registry.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

/// The runs of Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198),
/// on A100 80 GB in machines of eight, in 16 bits with Adam, and what this tree predicts of them on the way that
/// `planloom plan` goes. For tests and benchmarks.
namespace planloom::test {

struct MegatronRun {
    const char *name;
    const char *model;
    const char *cluster;
    planners::Options options;
    std::int64_t globalBatch;
    std::int64_t microBatch;
    double publishedSeconds; ///< Table 5 (end-to-end iteration time); 0: not published
};

/// "recompute", "sequence" and the rest as the manual planner's options.
inline planners::Options megatronOptions(int tensor, int pipeline, int interleave, const char *recompute, bool sequence)
{
    planners::Options options{
        {"tensor", std::to_string(tensor)}, {"pipeline", std::to_string(pipeline)}, {"data", "1"}, {"vocabulary", "on"},
        {"recompute", recompute},           {"sequence", sequence ? "on" : "off"}};
    if (interleave > 1)
        options["interleave"] = std::to_string(interleave);
    return options;
}

inline std::vector<MegatronRun> megatronRuns()
{
    return {
        {"22B, full recompute", "gpt-22b-2022", "a100-8", megatronOptions(8, 1, 1, "always", false), 4, 4, 1.42},
        {"22B, sequence parallel, selective", "gpt-22b-2022", "a100-8", megatronOptions(8, 1, 1, "selective", true), 4,
         4, 1.10},
        {"175B, full recompute", "gpt-175b-2022", "a100-128", megatronOptions(8, 8, 3, "layers", false), 64, 1, 18.13},
        {"175B, sequence parallel, selective", "gpt-175b-2022", "a100-128", megatronOptions(8, 8, 3, "selective", true),
         64, 1, 13.75},
    };
}

inline Result<planners::Problem> megatronProblem(const MegatronRun &run)
{
    auto model = import::zooModel(run.model);
    if (!model)
        return model.error();
    auto cluster = cluster::preset(run.cluster);
    if (!cluster)
        return cluster.error();
    planners::Problem problem;
    problem.precision = plan::Precision::BFloat16;
    problem.subject =
        plan::inPrecision(plan::makeSubject(model->graph, std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                            nullptr, model->source),
                          problem.precision);
    problem.globalBatch = run.globalBatch;
    problem.microBatch = run.microBatch;
    return problem;
}

inline constexpr double kGibi = 1024.0 * 1024 * 1024;

inline Result<planners::PlanReport> planned(const planners::Problem &problem, const planners::Options &options)
{
    const auto manual = planners::findPlanner("manual");
    NoProgress progress;
    return (*manual)->plan(problem, options, progress);
}

/// Memory of the model's blocks on the first device; the published figures leave embedding and head out.
struct Held {
    double state = 0;       ///< parameters, their sums of gradients, moments and 16 bit copies
    double activations = 0; ///< kept between forward and backward (Table 2), of all micro-batches in flight
};

/// Bytes of a slot that the backward passes of blocks read.
inline double keptByBlocks(const program::Body &body)
{
    const graph::Graph &graph = body.training.graph;
    std::set<std::int64_t> counted; // views lie where their input lies
    double bytes = 0;
    for (const TensorId id : body.training.stash) {
        const program::Placement &place = body.forwardPlaces[id.index()];
        const graph::Tensor &tensor = graph.tensor(id);
        const auto readers = graph.consumers(id);
        const bool block = std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
            return reader.index() >= body.training.forwardOps && graph.op(reader).scope.starts_with("h/");
        });
        if (block && place.area == program::Area::Frame && counted.insert(place.offset).second)
            bytes += static_cast<double>(tensor.bytes(body.maxSamples).value());
    }
    return bytes;
}

/// Bytes of parameters, sums of gradients, moments and 16 bit copies of the blocks.
inline double stateOfBlocks(const program::Body &body)
{
    double bytes = 0;
    for (const program::PersistentTensor &held : body.persistent) {
        if (held.kind != program::PersistentTensor::Kind::Parameter || held.name.find(".h.") == std::string::npos)
            continue;
        const auto moments = static_cast<double>(held.states.size());
        bytes += 4.0 * static_cast<double>(held.count) + 2.0 * static_cast<double>(held.copyCount)
            + 4.0 * (1 + moments) * static_cast<double>(held.updateCount);
    }
    return bytes;
}

inline Result<Held> heldBy(const plan::Plan &plan, const plan::Subject &subject)
{
    const auto program = compile::compilePlan(plan, subject);
    if (!program)
        return program.error();
    Held held;
    std::set<std::int64_t> pools; // stages of one device share their slots
    for (const BodyId index : program->ranks[0].bodies) {
        const program::Body &body = program->body(index);
        const program::Pool &frames = body.pools[static_cast<std::size_t>(program::Area::Frame)];
        held.state += stateOfBlocks(body);
        if (pools.insert(frames.begin).second)
            held.activations += keptByBlocks(body) * frames.count;
    }
    return held;
}

} // namespace planloom::test
