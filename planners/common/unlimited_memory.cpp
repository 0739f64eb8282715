// SPDX-License-Identifier: Apache-2.0
#include "planners/common/unlimited_memory.h"

#include "planners/common/hardware.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace planloom::planners {
namespace {

constexpr double kPlenty = 1e15; ///< bytes: more than any plan needs; sums of thousands of devices stay exact

} // namespace

Result<Problem> withoutMemoryLimit(const Problem &problem)
{
    const plan::Subject &real = problem.subject;
    double least = std::numeric_limits<double>::infinity();
    for (const cluster::DeviceType &type : real.cluster->types())
        least = std::min(least, static_cast<double>(type.memory.value()));
    auto cluster = withMemory(*real.cluster, std::max(1.0, kPlenty / least));
    if (!cluster)
        return cluster.error();
    Problem unlimited = problem;
    unlimited.subject =
        plan::inPrecision(plan::makeSubject(real.graph, std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                            real.profile, real.modelSource),
                          problem.precision);
    return unlimited;
}

Result<PlanReport> onDevicesOf(const Problem &problem, PlanReport report)
{
    auto real = finish(std::move(report.plan), problem, std::move(report.alternatives));
    if (!real)
        return real;
    real->pareto = std::move(report.pareto);
    real->notes = std::move(report.notes);
    real->complete = report.complete;
    return real;
}

} // namespace planloom::planners
