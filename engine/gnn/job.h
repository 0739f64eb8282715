// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/gnn/network.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::gnn {

/// What carries roles: its port to the network and its capacity.
struct Machine {
    std::string name;
    Port port;
    std::vector<double> capacity; ///< per resource of the job
};

/// The kinds of processes of a job.
enum class RoleKind : std::uint8_t {
    GraphStore,      ///< holds a part of the graph and the features of its nodes
    Sampler,         ///< draws the neighbourhoods of the mini-batches of its trainer
    Trainer,         ///< computes
    ParameterServer, ///< sums up gradients and hands out parameters
};
const char *name(RoleKind kind); ///< "graph-store", "sampler", "trainer", "parameter-server"
Result<RoleKind> roleKindFromName(std::string_view text);

/// A process of a job, and what it needs.
struct Role {
    std::string name;
    RoleKind kind = RoleKind::Trainer;
    std::vector<double> demand; ///< per resource of the job
    std::int32_t trainer = -1;  ///< of a sampler: which trainer it works for, counted among the trainers
    std::int32_t machine = -1;  ///< of a graph store: where its part lies
};

/// Bytes that roles send in each iteration. Which ones they are does not depend on the placement (sampling.h), so all
/// placements are compared on the same.
struct Volumes {
    std::int32_t iterations = 0;
    std::int32_t stores = 0;
    std::int32_t samplers = 0;
    std::vector<double> features; ///< [iteration][sampler][store]: from the store to the sampler
    std::vector<double> batches;  ///< [iteration][sampler]: from the sampler to its trainer
    double model = 0; ///< of all parameters; a trainer sends and gets it once an iteration, cut evenly over the servers

    Volumes() = default;
    Volumes(std::int32_t iterationCount, std::int32_t storeCount, std::int32_t samplerCount);
    [[nodiscard]] double &feature(std::int32_t iteration, std::int32_t store, std::int32_t sampler);
    [[nodiscard]] double feature(std::int32_t iteration, std::int32_t store, std::int32_t sampler) const;
    [[nodiscard]] double &batch(std::int32_t iteration, std::int32_t sampler);
    [[nodiscard]] double batch(std::int32_t iteration, std::int32_t sampler) const;
};

/// Error (BadInput): tables that would take more than 2^26 numbers, half a gigabyte.
Status checkVolumeSize(std::int64_t iterations, std::int64_t stores, std::int64_t samplers);

/// How trainers combine their gradients.
enum class GradientExchange : std::uint8_t {
    ParameterServers, ///< gradients to all servers, parameters back; without servers nothing is sent
    AllReduce,        ///< around a ring of the trainers, in their order
};
const char *name(GradientExchange exchange); ///< "parameter-server", "all-reduce"
/// Error: NotFound that lists the names.
Result<GradientExchange> gradientExchangeFromName(std::string_view text);

/// Sampled training of a graph neural network as a set of roles: graph stores send features to samplers, these send
/// mini-batches to trainers, trainers send gradients to parameter servers and get parameters back. A plain value;
/// checkJob() says whether it is consistent.
struct Job {
    std::vector<std::string> resources; ///< "trainer-slots", "cores"
    std::vector<Machine> machines;
    std::vector<Role> roles;   ///< graph stores, samplers, trainers, parameter servers, in this order
    double drawSeconds = 0;    ///< of a sampler, for the neighbourhoods of a mini-batch, before it asks; 0: no task
    double requestShare = 0;   ///< bytes of a sampler's request for each byte of features; 0: no message
    double featureSeconds = 0; ///< of a graph store, for each byte of features; 0: no task
    double sampleSeconds = 0;  ///< of a sampler, for one mini-batch once all its features are there
    double trainSeconds = 0;
    double serveSeconds = 0;   ///< of a parameter server, an iteration
    std::int32_t prefetch = 1; ///< mini-batches that a sampler may be ahead of its trainer
    bool sumsGradients =
        false; ///< no trainer begins an iteration before all ended the last: they sum up gradients in it
    GradientExchange exchange = GradientExchange::ParameterServers;
    Volumes volumes;

    [[nodiscard]] std::int32_t count(RoleKind kind) const;
    [[nodiscard]] std::int32_t first(RoleKind kind) const; ///< index of the first role of @p kind, were there one
};

/// Errors (BadInput): roles out of order, a sampler without a trainer, a trainer without a sampler, a store without a
/// machine, demands or capacities of another length than resources, figures that are negative or not finite, rates that
/// are not positive, no iteration, a prefetch below 1, volumes of another size, parameter servers beside all-reduce.
Status checkJob(const Job &job);

/// A message of the exchange of gradients in one iteration, between roles.
struct Exchanged {
    std::int32_t from = 0;
    std::int32_t to = 0;
    double bytes = 0;
};
/// Gradients by trainer and server, then parameters by trainer and server; or 2 (W - 1) / W of the model from each of W
/// trainers to the next, what a ring all-reduce carries.
std::vector<Exchanged> exchangeOf(const Job &job);

/// A machine for each role.
using Placement = std::vector<std::int32_t>;

/// Errors: BadInput (a role without a machine, a store that is not with its part), Infeasible, naming machine, resource
/// and figures.
Status checkPlacement(const Job &job, std::span<const std::int32_t> machineOf);

/// What the steps of a job's network are, for traces and messages.
struct StepLabels {
    std::vector<std::string> name; ///< per step: "s1.NS.n3", "g0.SN.s1.n3", "g0s1.n3", "s1.LD.n3", "s1w0.n3", "w0.F.n3"
    std::vector<std::int32_t> role; ///< per step: who computes or sends
};

/// The tasks and messages of a job. Iteration n: features of n once the trainer has started n - prefetch, or, where
/// these take time, the sampler's draw of n by then, its requests, and the stores' tasks; the sampler after all its
/// features and its task before; the trainer after all its mini-batches, its task before and the parameters of n - 1
/// (all-reduce: all messages of n - 1 between trainers); a server after all gradients and its task before. Connections,
/// in the order of their priority: requests and features by store and sampler, mini-batches by sampler, gradients and
/// parameters by trainer and server. Every iteration has the same steps in the same order. @p labels, if given, is
/// filled.
Network networkOf(const Job &job, StepLabels *labels = nullptr);

std::vector<Port> portsOf(const Job &job);

} // namespace planloom::gnn
