// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/random.h"

#include <cstdint>
#include <string>
#include <vector>

/// Small jobs whose schedules are known, and random ones.
namespace planloom::testing {

inline gnn::Machine machine(double rate, std::vector<double> capacity = {})
{
    return {"m", {rate, rate}, std::move(capacity)};
}

inline void addRole(gnn::Job &job, gnn::RoleKind kind, std::vector<double> demand, std::int32_t trainer = -1,
                    std::int32_t at = -1)
{
    const char *letter = kind == gnn::RoleKind::GraphStore ? "g"
        : kind == gnn::RoleKind::Sampler                   ? "s"
        : kind == gnn::RoleKind::Trainer                   ? "w"
                                                           : "p";
    job.roles.push_back({letter + std::to_string(job.count(kind)), kind, std::move(demand), trainer, at});
}

/// Three machines with unit cards; stores on 0 and 1, two samplers of a trainer each, one server.
inline gnn::Job threeMachineJob(std::int32_t iterations)
{
    gnn::Job job;
    job.machines.assign(3, machine(1));
    for (const int store : {0, 1})
        addRole(job, gnn::RoleKind::GraphStore, {}, -1, store);
    for (const int trainer : {0, 1})
        addRole(job, gnn::RoleKind::Sampler, {}, trainer);
    addRole(job, gnn::RoleKind::Trainer, {});
    addRole(job, gnn::RoleKind::Trainer, {});
    addRole(job, gnn::RoleKind::ParameterServer, {});
    job.sampleSeconds = 1;
    job.trainSeconds = 2;
    job.serveSeconds = 1;
    job.prefetch = 2;
    job.volumes = gnn::Volumes(iterations, 2, 2);
    job.volumes.model = 1;
    for (std::int32_t n = 0; n < iterations; ++n) {
        for (std::int32_t s = 0; s < 2; ++s) {
            for (std::int32_t g = 0; g < 2; ++g)
                job.volumes.feature(n, g, s) = 1 + (g + s + n) % 2;
            job.volumes.batch(n, s) = 2;
        }
    }
    return job;
}

/// Three machines of (trainer slots, cores) (1, 4), (1, 3), (0, 4) with a store each; two samplers for each of two
/// trainers, whose home parts are @p homes; one server. Only 120 of 3^7 placements fit.
inline gnn::Job tightJob(const std::vector<std::int32_t> &homes)
{
    gnn::Job job;
    job.resources = {"trainer-slots", "cores"};
    job.machines = {machine(4, {1, 4}), machine(4, {1, 3}), machine(4, {0, 4})};
    for (const int store : {0, 1, 2})
        addRole(job, gnn::RoleKind::GraphStore, {0, 1}, -1, store);
    for (const int trainer : {0, 0, 1, 1})
        addRole(job, gnn::RoleKind::Sampler, {0, 1}, trainer);
    for (int trainer = 0; trainer < 2; ++trainer)
        addRole(job, gnn::RoleKind::Trainer, {1, 1});
    addRole(job, gnn::RoleKind::ParameterServer, {0, 1});
    job.sampleSeconds = 1;
    job.trainSeconds = 3;
    job.serveSeconds = 1;
    job.prefetch = 2;
    job.volumes = gnn::Volumes(6, 3, 4);
    job.volumes.model = 2;
    for (std::int32_t n = 0; n < 6; ++n) {
        for (std::int32_t s = 0; s < 4; ++s) {
            for (std::int32_t g = 0; g < 3; ++g)
                job.volumes.feature(n, g, s) = g == homes[static_cast<std::size_t>(s / 2)] ? 6 : 1 + (g + s + n) % 2;
            job.volumes.batch(n, s) = 4;
        }
    }
    return job;
}

/// A machine of each role: the stores', then @p rest.
inline gnn::Placement placed(const gnn::Job &job, const std::vector<std::int32_t> &rest)
{
    gnn::Placement placement;
    for (const gnn::Role &role : job.roles) {
        if (role.kind == gnn::RoleKind::GraphStore)
            placement.push_back(role.machine);
    }
    placement.insert(placement.end(), rest.begin(), rest.end());
    return placement;
}

} // namespace planloom::testing
