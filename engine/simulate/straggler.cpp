// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/straggler.h"

#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "engine/simulate/versions.h"

namespace planloom::simulate {
namespace {

Result<program::Program> programOf(plan::Plan plan, const plan::Subject &subject, admm::Parallel form)
{
    plan.admm->parallel = form;
    plan.then.reset();
    return compile::compilePlan(plan, subject, {.bodies = false});
}

program::Program slowed(program::Program program, int worker, double factor)
{
    for (program::Task &task : program.tasks) {
        const program::Rank &rank = program.ranks[task.rank.index()];
        if (task.lane == program::Lane::Compute
            && program.body(rank.bodies.front()).replica == static_cast<std::size_t>(worker))
            task.duration = task.duration * factor;
    }
    return program;
}

double samplesByVersions(const program::Program &program, const VersionTimes &times)
{
    double samples = 0;
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
        samples += times.iterationsPerSecond(static_cast<int>(r))
            * static_cast<double>(program.body(program.ranks[r].bodies.front()).maxSamples);
    return samples;
}

} // namespace

Straggler::Straggler(const plan::Plan &plan, const plan::Subject &subject)
    : m_workers(static_cast<int>(plan.stages.front().replicas())),
      m_plan(plan),
      m_subject(subject)
{
}

Result<double> Straggler::samplesPerSecond(admm::Parallel form, int worker, double factor)
{
    const bool served = form == admm::Parallel::Asynchronous;
    Compiled &compiled = served ? m_asynchronous : m_synchronous;
    if (!compiled)
        compiled.emplace(programOf(m_plan, m_subject, form));
    if (!*compiled)
        return compiled->error();
    const program::Program program = slowed(**compiled, worker, factor);
    if (!served) {
        const auto seconds = iterationSeconds(program);
        return seconds ? Result<double>(static_cast<double>(program.globalBatch) / *seconds) : seconds;
    }
    const auto times = versions(program, steadyVersions(program));
    return times ? Result<double>(samplesByVersions(program, *times)) : times.error();
}

} // namespace planloom::simulate
