// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/compile.h"
#include "executor/runtime/gpu_communicator.h"
#include "executor/runtime/training_fixture.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace planloom::test {

/// Numbers for any model: features in [-1, 1), tokens and labels below their limits, the same for everyone.
class MadeUpData final : public data::DataSet {
public:
    MadeUpData(data::Needs needs, std::int64_t samples) : m_needs(std::move(needs)), m_samples(samples) {}
    [[nodiscard]] std::int64_t samples() const override { return m_samples; }
    void fillInput(std::int64_t sample, void *out) const override { fillInputAt(0, sample, out); }
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        const data::Needs::Input &what = m_needs.inputs[input];
        for (std::int64_t i = 0; i < what.perSample; ++i) {
            const std::uint64_t random = mix(sample, i, static_cast<std::int64_t>(input));
            if (what.type == graph::DType::I64)
                static_cast<std::int64_t *>(out)[i] = below(random, what.limit);
            else
                static_cast<float *>(out)[i] = static_cast<float>(random >> 40) * 0x1p-23F - 1;
        }
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        for (std::int64_t i = 0; i < m_needs.labelsPerSample; ++i)
            out[i] = below(mix(sample, i, -1), m_needs.classes);
    }

private:
    static std::uint64_t mix(std::int64_t sample, std::int64_t element, std::int64_t input)
    {
        std::uint64_t x = static_cast<std::uint64_t>((sample * 131 + input) * 65537 + element) + 0x9e3779b97f4a7c15ULL;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
        return x ^ (x >> 31);
    }
    static std::int64_t below(std::uint64_t random, std::int64_t limit)
    {
        return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(std::max<std::int64_t>(limit, 1)));
    }
    data::Needs m_needs;
    std::int64_t m_samples;
};

/// How devices communicate.
struct DeviceExchange {
    const PlanloomCommunicationTable *table = nullptr;             ///< between the devices; nullptr: through the host
    std::chrono::nanoseconds deadline = std::chrono::seconds(240); ///< on a busy machine, too
};

/// Losses and use of memory of a training whose rank r runs on @p deviceOf(r); nullptr: the processor. @p onStep: after
/// each, by rank 0.
inline Outcome trainOnDevices(const plan::Subject &subject, const plan::Plan &plan, const Training &how,
                              const std::function<device::PluginDevice *(std::size_t rank)> &deviceOf,
                              const std::function<void(std::int64_t step)> &onStep = {},
                              const DeviceExchange &exchange = {})
{
    Outcome outcome;
    const auto program = compile::compilePlan(plan, subject);
    const auto needs = data::needsOf(*subject.graph);
    if (!program || !needs) {
        outcome.problem = !program ? program.error().text() : needs.error().text();
        return outcome;
    }
    const MadeUpData data(*needs, 64);
    const runtime::Feed feed{&data, *needs, data::SampleOrder(data.samples(), how.seed, 0.25)};
    const std::size_t ranks = program->ranks.size();
    outcome.peaks.resize(ranks);
    outcome.collectiveBytes.resize(ranks);
    std::vector<std::string> problems(ranks);
    comm::LocalGroup group(static_cast<int>(ranks));
    const auto work = [&](std::size_t rank, comm::Communicator &given) -> Status {
        device::PluginDevice *device = deviceOf(rank);
        const auto communication = exchange.table != nullptr
            ? Result<const PlanloomCommunicationTable *>(exchange.table)
            : Result<const PlanloomCommunicationTable *>(notFound("there is no NCCL"));
        auto gpus = runtime::GpuCommunicator::create(given, device, communication, exchange.deadline);
        if (!gpus)
            return gpus.error();
        comm::Communicator &communicator = *gpus ? **gpus : given;
        trace::Ring ring(1 << 16);
        runtime::ExecutorOptions options;
        options.steps = how.steps;
        options.seed = how.seed;
        options.optimizer = plan.optimizer;
        options.device = device;
        options.deadline = exchange.deadline;
        if (rank == 0)
            options.onStep = [&](const run::StepMetrics &result) {
                outcome.losses.push_back(result.loss);
                if (onStep)
                    onStep(result.step);
            };
        auto executor = runtime::RankExecutor::create(*program, *subject.graph, communicator, feed, ring, options);
        if (!executor)
            return executor.error();
        const std::unique_ptr<runtime::GpuCommunicator> teams = std::move(*gpus); // goes before the executor's memory
        const auto ended = [&given](Status status) { // before memory goes that others may be sending to
            if (!status)
                given.abort(status.error().text());
            return status;
        };
        if (const Status run = ended((*executor)->run()); !run)
            return run;
        outcome.peaks[rank] = (*executor)->peakBytes();
        outcome.collectiveBytes[rank] = (*executor)->collectiveBytes();
        if (outcome.peaks[rank] != program->ranks[rank].arenaBytes)
            return failed("the arena is not as large as planned");
        const auto evaluation = (*executor)->evaluate();
        if (!evaluation)
            return ended(evaluation.error());
        if (rank == 0)
            outcome.evaluation = *evaluation;
        const Status arrived = ended(communicator.barrier(exchange.deadline));
        if (arrived && teams)
            teams->leave(exchange.deadline);
        return arrived;
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                omp_set_num_threads(1);
                const auto communicator = group.end(static_cast<int>(rank));
                const Status status = work(rank, *communicator);
                problems[rank] = status ? std::string() : status.error().text();
                if (!status)
                    communicator->abort(problems[rank]);
            });
    }
    for (const std::string &problem : problems)
        if (outcome.problem.empty())
            outcome.problem = problem;
    return outcome;
}

} // namespace planloom::test
