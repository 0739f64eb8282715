// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sampled_job.h"

#include "engine/plan/batch_form.h"
#include "engine/plan/plan.h"
#include "engine/plan/role_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace planloom::plan {
namespace {

using gnn::RoleKind;

std::int32_t machineNamed(const cluster::Cluster &cluster, const std::string &name)
{
    for (std::size_t i = 0; i < cluster.nodes().size(); ++i) {
        if (cluster.nodes()[i].name == name)
            return static_cast<std::int32_t>(i);
    }
    return -1;
}

Status checkSettings(const Plan &plan, const Subject &subject)
{
    const SampledJob &job = *plan.job;
    if (plan.stages.size() != 1 || plan.stages.front().shards() != 1)
        return badInput("a sampled job trains replicas of one stage; give the plan one stage without a mesh");
    if (plan.microBatches != 1)
        return badInput(fmt::format("a sampled job has one mini-batch a trainer and step, not {} micro-batches; set "
                                    "micro_batches to 1",
                                    plan.microBatches));
    const auto trainers = static_cast<std::int64_t>(plan.stages.front().replicas());
    if (plan.globalBatch % trainers != 0)
        return badInput(fmt::format("a batch of {} is not a multiple of the {} trainers; use one, such as {}",
                                    plan.globalBatch, trainers,
                                    (plan.globalBatch + trainers - 1) / trainers * trainers));
    if (job.prefetch < 1)
        return badInput(fmt::format("prefetch is {}; give at least 1 mini-batch", job.prefetch));
    for (const double seconds : {job.drawSeconds, job.rowSeconds, job.sampleSeconds, job.updateSeconds}) {
        if (!(seconds >= 0) || seconds > 1e9)
            return badInput(
                "draw_seconds, row_seconds, sample_seconds and update_seconds must be numbers of seconds from 0 on");
    }
    if (job.chunkBytes < 1)
        return badInput(fmt::format("messages are cut into chunks of {} bytes; give at least 1", job.chunkBytes));
    if (Status status = gnn::checkFanout(job.fanout); !status)
        return status;
    return checkSampledInputs(*subject.graph, {job.fanout, job.graph.features});
}

Status checkRole(const PlacedRole &role, const Plan &plan, const cluster::Cluster &cluster)
{
    if (role.kind == RoleKind::Trainer)
        return badInput(
            fmt::format("role {} is a trainer: trainers are the stage's replicas; list graph stores, samplers "
                        "and parameter servers only",
                        role.name));
    if (machineNamed(cluster, role.machine) < 0)
        return badInput(fmt::format("role {} is on machine \"{}\", which cluster {} does not have; its machines are {} "
                                    "to {}",
                                    role.name, role.machine, cluster.name(), cluster.nodes().front().name,
                                    cluster.nodes().back().name));
    if (role.kind == RoleKind::GraphStore && (role.part < 0 || role.part >= plan.job->graph.parts))
        return badInput(fmt::format("graph store {} holds part {}, and the graph has {}", role.name, role.part,
                                    plan.job->graph.parts));
    const auto trainers = static_cast<std::int32_t>(plan.stages.front().replicas());
    if (role.kind == RoleKind::Sampler && (role.trainer < 0 || role.trainer >= trainers))
        return badInput(
            fmt::format("sampler {} works for trainer {}, and the plan has {}", role.name, role.trainer, trainers));
    return {};
}

/// Names stand in messages and files, beside those of trainers.
Status checkName(const std::string &name, const Plan &plan)
{
    const bool plain =
        std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (name.empty() || !plain)
        return badInput(fmt::format("a role is called \"{}\"; use letters, digits, - and _", name));
    for (std::size_t trainer = 0; trainer < plan.stages.front().replicas(); ++trainer) {
        if (name == fmt::format("w{}", trainer))
            return badInput(fmt::format("role {} has the name of a trainer; give it another", name));
    }
    return {};
}

/// Each part has one store, each trainer a sampler for every of its samples.
Status checkCover(const Plan &plan)
{
    std::set<std::int32_t> parts;
    std::vector<std::int64_t> samplers(plan.stages.front().replicas());
    for (const PlacedRole &role : plan.roles) {
        if (role.kind == RoleKind::Sampler)
            ++samplers[static_cast<std::size_t>(role.trainer)];
        else if (role.kind == RoleKind::GraphStore && !parts.insert(role.part).second)
            return badInput(fmt::format("part {} has two graph stores; leave out {}", role.part, role.name));
    }
    for (std::int32_t part = 0; part < plan.job->graph.parts; ++part) {
        if (!parts.contains(part))
            return badInput(fmt::format("part {} of the graph has no store; add a role of kind graph-store", part));
    }
    const std::int64_t share = plan.globalBatch / static_cast<std::int64_t>(samplers.size());
    for (std::size_t trainer = 0; trainer < samplers.size(); ++trainer) {
        if (samplers[trainer] == 0)
            return badInput(fmt::format("trainer {} has no sampler; add a role of kind sampler for it", trainer));
        if (samplers[trainer] > share)
            return badInput(
                fmt::format("trainer {} has {} samplers for {} samples; use fewer", trainer, samplers[trainer], share));
    }
    return {};
}

std::size_t countOf(const Plan &plan, RoleKind kind)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(plan.roles, [kind](const PlacedRole &role) { return role.kind == kind; }));
}

/// Servers update what trainers' gradients sum up to, whole and as they come.
Status checkServers(const Plan &plan)
{
    const Exchange &exchange = plan.exchange;
    const bool byServers = exchange.policy == ExchangePolicy::ParameterServer;
    if ((!byServers && exchange.policy != ExchangePolicy::AllReduce) || !exchange.groups.empty())
        return badInput(
            fmt::format("a sampled job exchanges all parameters by all-reduce or parameter-server, not {}{}; "
                        "set exchange.kind to one of them",
                        name(exchange.policy), exchange.groups.empty() ? "" : " with groups"));
    const std::size_t servers = countOf(plan, RoleKind::ParameterServer);
    if (byServers != (servers > 0))
        return badInput(byServers
                            ? "exchange parameter-server needs servers; add a role of kind parameter-server"
                            : "there are parameter servers, and the trainers sum up their gradients by all-reduce; set "
                              "exchange.kind to parameter-server, or leave the servers out");
    return {};
}

Status checkVolumesOf(const Plan &plan)
{
    const gnn::Volumes &volumes = plan.job->volumes;
    if (plan.job->volumesBatch != plan.globalBatch)
        return badInput(
            fmt::format("the volumes are those of a batch of {}, and the plan's batch is {}; plan again with "
                        "--batch {}",
                        plan.job->volumesBatch, plan.globalBatch, plan.globalBatch));
    const std::size_t samplers = countOf(plan, RoleKind::Sampler);
    const std::size_t stores = countOf(plan, RoleKind::GraphStore);
    const auto iterations = static_cast<std::size_t>(std::max(volumes.iterations, 0));
    const auto isAmount = [](double bytes) { return bytes >= 0 && bytes <= 1e18; };
    if (iterations == 0 || volumes.samplers != static_cast<std::int32_t>(samplers)
        || volumes.stores != static_cast<std::int32_t>(stores)
        || volumes.features.size() != iterations * samplers * stores || volumes.batches.size() != iterations * samplers)
        return badInput(
            fmt::format("the volumes are not those of {} stores and {} samplers; plan again", stores, samplers));
    if (!std::ranges::all_of(volumes.features, isAmount) || !std::ranges::all_of(volumes.batches, isAmount))
        return badInput("the volumes have bytes that are negative or not finite; plan again");
    return {};
}

/// Bytes/s of the way between two machines.
double rateBetween(const cluster::Cluster &cluster, const cluster::Node &a, const cluster::Node &b)
{
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        return cluster.twoLevel().interPointToPoint;
    double rate = 1e15; // of machines without a link between them, had they one
    for (const std::size_t link : cluster.route(a.devices.front(), b.devices.front()))
        rate = std::min(rate, cluster.links()[link].pointToPoint);
    return rate;
}

/// Bytes/s of a message between two processes of a machine: it is copied into memory that they share and out of it.
double rateWithin(const Subject &subject, const cluster::Node &node)
{
    constexpr double kCopiesWithin = 2;
    if (subject.profile) {
        if (const auto copied = subject.profile->extra.find("host_copy_bytes_per_second");
            copied != subject.profile->extra.end() && copied->second > 0)
            return copied->second / kCopiesWithin;
    }
    const cluster::Device &device = subject.cluster->device(node.devices.front());
    return subject.cluster->types()[device.type].memoryBandwidth / (2 * kCopiesWithin); // a copy reads and writes
}

gnn::Machine machineOfNode(const cluster::Cluster &cluster, const cluster::Node &node, double within)
{
    double rate = cluster.nodes().size() > 1 ? 0 : 1e15; // a lone machine's roles send nothing over the network
    for (const cluster::Node &other : cluster.nodes()) {
        if (other.id != node.id)
            rate = std::max(rate, rateBetween(cluster, node, other));
    }
    gnn::Machine machine{node.name, {rate, rate, within}, {static_cast<double>(node.devices.size())}};
    shareCores(cluster, node, machine.port);
    return machine;
}

} // namespace

Status validateJob(const Plan &plan, const Subject &subject, std::string &field)
{
    field = "roles";
    if (!plan.job)
        return plan.roles.empty() ? Status() : badInput("there are roles without a job; add the field \"job\"");
    field = "job";
    if (Status status = checkSettings(plan, subject); !status)
        return status;
    field = "roles";
    std::set<std::string> names;
    for (std::size_t i = 0; i < plan.roles.size(); ++i) {
        const PlacedRole &role = plan.roles[i];
        if (Status status = checkRole(role, plan, *subject.cluster); !status)
            return status;
        if (Status status = checkName(role.name, plan); !status)
            return status;
        if (!names.insert(role.name).second)
            return badInput(fmt::format("two roles are called \"{}\"; give each its own name", role.name));
        if (i > 0 && role.kind < plan.roles[i - 1].kind)
            return badInput(
                fmt::format("{} {} stands behind a {}; list graph stores, then samplers, then parameter servers",
                            gnn::name(role.kind), role.name, gnn::name(plan.roles[i - 1].kind)));
    }
    if (Status status = checkCover(plan); !status)
        return status;
    field = "job";
    if (Status status = checkVolumesOf(plan); !status)
        return status;
    field = "exchange";
    return checkServers(plan);
}

gnn::Job jobOf(const Plan &plan, const Subject &subject, gnn::Placement &machineOf)
{
    const cluster::Cluster &cluster = *subject.cluster;
    gnn::Job job;
    job.resources = {"devices"};
    for (const cluster::Node &node : cluster.nodes())
        job.machines.push_back(machineOfNode(cluster, node, rateWithin(subject, node)));
    machineOf.clear();
    const auto add = [&](gnn::Role role, std::int32_t machine) {
        role.machine = role.kind == RoleKind::GraphStore ? machine : -1;
        job.roles.push_back(std::move(role));
        machineOf.push_back(machine);
    };
    const auto addPlaced = [&](bool servers) {
        for (const PlacedRole &role : plan.roles) {
            if ((role.kind == RoleKind::ParameterServer) == servers)
                add({role.name, role.kind, {0}, role.trainer, -1}, machineNamed(cluster, role.machine));
        }
    };
    addPlaced(false);
    const Stage &stage = plan.stages.front();
    for (std::size_t i = 0; i < stage.devices.size(); ++i)
        add({fmt::format("w{}", i), RoleKind::Trainer, {1}, -1, -1},
            static_cast<std::int32_t>(cluster.device(stage.devices[i]).node.index()));
    addPlaced(true);
    const SampledJob &sampled = *plan.job;
    constexpr double kNumberBytes = 8;
    const double rowBytes = kNumberBytes + 4.0 * static_cast<double>(sampled.graph.features);
    job.drawSeconds = sampled.drawSeconds;
    job.requestShare = kNumberBytes / rowBytes; // a row's number; what a request says besides is short
    job.featureSeconds = sampled.rowSeconds / rowBytes;
    job.sampleSeconds = sampled.sampleSeconds;
    job.serveSeconds = sampled.updateSeconds;
    job.prefetch = sampled.prefetch;
    job.volumes = sampled.volumes;
    const bool servers = job.count(RoleKind::ParameterServer) > 0;
    job.volumes.model = servers ? static_cast<double>(subject.graph->parameterBytes().value()) : 0;
    job.sumsGradients = !servers;
    return job;
}

} // namespace planloom::plan
