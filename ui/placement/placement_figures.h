// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/progress.h"
#include "engine/gnn/bounds.h"
#include "engine/gnn/job.h"
#include "engine/gnn/transfer_policy.h"
#include "engine/plan/plan.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// What a network card carries, by purpose; the order in which bars are stacked.
enum class Cargo : std::uint8_t { Features, Batches, Gradients };
inline constexpr std::size_t kCargos = 3;

/// One direction of a machine's network card: seconds an iteration that its bytes take at its rate.
struct CardLoad {
    std::array<double, kCargos> seconds{};
    [[nodiscard]] double sum() const { return seconds[0] + seconds[1] + seconds[2]; }
};

/// What a role sends another one: mean bytes.
struct Sent {
    std::int32_t from = 0;
    std::int32_t to = 0;
    double bytes = 0;
    Cargo cargo = Cargo::Features;
};

/// Roles on machines with what follows from it. Figures are of one iteration unless said otherwise.
struct PlacementFigures {
    using DocumentPtr = std::shared_ptr<const plan::Document>;
    DocumentPtr document; ///< whose roles they are, there or elsewhere
    gnn::Job job;         ///< resources: devices, role-slots
    /// The same as a search has it: what trainers sum up by all-reduce goes around a ring of them, over the network,
    /// where `job` has it in the seconds of trainers. Cards, connections and bounds are of this one.
    gnn::Job withRing;
    gnn::Placement machineOf;
    double seconds = 0; ///< under the plan's policy, queues filled
    /// The same under each; 0: not computed, as the job is large.
    std::array<double, std::size(gnn::kTransferPolicies)> byPolicy{};
    gnn::TransferPolicy policy = gnn::TransferPolicy::Degree;
    gnn::Bounds bounds;        ///< of all iterations, as a search has them
    double allSeconds = 0;     ///< of all iterations under the plan's policy, as a search has them
    std::vector<CardLoad> out; ///< per machine
    std::vector<CardLoad> in;
    std::int32_t busiest = -1; ///< machine of the busiest direction; -1: nothing is sent
    bool busiestOut = false;
    std::vector<double> features; ///< [store][sampler]: mean bytes
    std::vector<Sent> sent;       ///< between roles, also of one machine

    [[nodiscard]] std::int32_t stores() const { return job.volumes.stores; }
    [[nodiscard]] std::int32_t samplers() const { return job.volumes.samplers; }
    [[nodiscard]] double busiestSeconds() const;
};

/// Of the roles of @p document, which must have a job. Any thread. Cost: a simulation of the trainers and a schedule a
/// policy; of a large job under its own policy alone. Errors: those of the simulation, Cancelled.
Result<PlacementFigures> figuresOf(const PlacementFigures::DocumentPtr &document, Progress &progress);
/// The same with roles elsewhere.
Result<PlacementFigures> figuresOf(const PlacementFigures::DocumentPtr &document, const gnn::Placement &machineOf,
                                   Progress &progress);

/// Whether one role may go to @p machine, or what that lacks. @p figures: of the plan's roles as it has them.
Status checkMove(const PlacementFigures &figures, std::size_t role, std::int32_t machine);
/// What follows from one role elsewhere.
struct MovedRole {
    double seconds = 0;   ///< of one iteration
    double overBound = 1; ///< all iterations over the lower bound
};
/// Any thread. Cost: three schedules; of a trainer also a simulation of all of them. Errors: those of checkMove and of
/// simulations, Cancelled.
Result<MovedRole> figuresWith(const PlacementFigures &figures, std::size_t role, std::int32_t machine,
                              Progress &progress);

/// What one role sends another one on another machine. Means of an iteration.
struct ConnectionShare {
    std::int32_t from = 0;
    std::int32_t to = 0;
    double bytes = 0;
    double alone = 0; ///< seconds that they take with both cards for themselves
    double takes = 0; ///< seconds in the schedule
    /// Credit: the part of the cards' rate that it has while it sends.
    [[nodiscard]] double credit() const { return takes > 0 ? alone / takes : 1; }
    [[nodiscard]] double deficit() const { return takes - alone; } ///< seconds that it waits for others
};
/// Of all connections between machines that carry something. Any thread. Cost: a schedule. Error: Cancelled.
Result<std::vector<ConnectionShare>> connectionShares(const PlacementFigures &figures, Progress &progress);

/// What the store of a part sends. Means of an iteration.
struct PartLoad {
    double bytes = 0;
    double away = 0; ///< of them, to other machines
};
/// By store.
std::vector<PartLoad> partLoads(const PlacementFigures &figures);

/// Mean bytes an iteration from stores to samplers, as a run sent them. Its mini-batches are others than those whose
/// bytes the plan has.
struct SentFeatures {
    std::vector<double> bytes;   ///< [store][sampler]
    std::int64_t iterations = 0; ///< that the means are of
};
/// From what the processes of a run noted in @p folder/transfers; nothing where one of their files is missing.
SentFeatures sentFeatures(const PlacementFigures &figures, const std::string &folder);

} // namespace planloom::ui
