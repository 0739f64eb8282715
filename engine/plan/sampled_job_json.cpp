// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sampled_job_json.h"

#include "engine/base/json_reader.h"
#include "engine/base/known_fields.h"

namespace planloom::plan {
namespace {

constexpr const char *kSampledKind = "gnn-sampled";
constexpr std::int64_t kMostSampled = std::int64_t{1} << 53; // JSON numbers are exact up to here
constexpr std::int64_t kMostOfRoles = 65536;

std::vector<double> amountsOf(JsonReader &reader, const char *key)
{
    std::vector<double> amounts;
    reader.list(key, [&](JsonReader &entry) { amounts.push_back(entry.asNumber()); });
    return amounts;
}

gnn::Volumes volumesOf(JsonReader &reader)
{
    gnn::Volumes volumes;
    volumes.iterations = static_cast<std::int32_t>(reader.integer("iterations", 1, 1 << 20));
    volumes.stores = static_cast<std::int32_t>(reader.integer("stores", 1, kMostOfRoles));
    volumes.samplers = static_cast<std::int32_t>(reader.integer("samplers", 1, kMostOfRoles));
    volumes.features = amountsOf(reader, "features");
    volumes.batches = amountsOf(reader, "batches");
    return volumes;
}

nlohmann::json volumesToJson(const gnn::Volumes &volumes, std::int64_t batch)
{
    return {{"batch", batch},
            {"iterations", volumes.iterations},
            {"stores", volumes.stores},
            {"samplers", volumes.samplers},
            {"features", volumes.features},
            {"batches", volumes.batches}};
}

gnn::Fanout fanoutOf(JsonReader &reader)
{
    std::vector<std::int64_t> hops;
    reader.list("fanout", [&](JsonReader &entry) { hops.push_back(entry.asInteger(1, gnn::kMostFanout)); });
    if (hops.size() == 2)
        return {hops[0], hops[1]};
    reader.fail("fanout", "must be two numbers, the neighbours drawn at the first and the second hop");
    return {};
}

/// An object, or the policy alone.
void transfersFrom(JsonReader &reader, SampledJob &job)
{
    const auto policyFrom = [&job](JsonReader &from, const char *key) {
        const auto policy = gnn::transferPolicyFromName(from.text(key, gnn::name(job.transfers)));
        if (policy)
            job.transfers = *policy;
        else
            from.fail(key, policy.error().message);
    };
    if (!reader.has("transfers") || !reader.value().at("transfers").is_object()) {
        policyFrom(reader, "transfers");
        return;
    }
    JsonReader transfers = reader.object("transfers");
    refuseOthers(transfers, {"policy", "chunk_bytes"});
    policyFrom(transfers, "policy");
    job.chunkBytes = transfers.integerOr("chunk_bytes", SampledJob::kChunkBytes, 1, std::int64_t{1} << 40);
}

SampledJob jobOf(JsonReader reader)
{
    SampledJob job;
    refuseOthers(reader,
                 {"kind", "graph", "fanout", "seed", "prefetch", "transfers", "draw_seconds", "row_seconds",
                  "sample_seconds", "update_seconds", "volumes"});
    if (const std::string kind = reader.text("kind"); kind != kSampledKind)
        reader.fail("kind", "\"" + kind + "\" is not known; there is \"gnn-sampled\"");
    JsonReader graph = reader.object("graph");
    refuseOthers(graph, {"sha256", "nodes", "edges", "features", "parts"});
    job.graph.sha256 = graph.text("sha256");
    job.graph.nodes = graph.integer("nodes", 1, kMostSampled);
    job.graph.edges = graph.integer("edges", 1, kMostSampled);
    job.graph.features = graph.integer("features", 1, 1 << 20);
    job.graph.parts = static_cast<std::int32_t>(graph.integer("parts", 1, kMostOfRoles));
    job.fanout = fanoutOf(reader);
    job.seed = static_cast<std::uint64_t>(reader.integerOr("seed", 1, 0, kMostSampled));
    job.prefetch = static_cast<std::int32_t>(reader.integerOr("prefetch", 1, 1, 1 << 20));
    transfersFrom(reader, job);
    job.drawSeconds = reader.number("draw_seconds", 0.0);
    job.rowSeconds = reader.number("row_seconds", 0.0);
    job.sampleSeconds = reader.number("sample_seconds", 0.0);
    job.updateSeconds = reader.number("update_seconds", 0.0);
    JsonReader volumes = reader.object("volumes");
    job.volumesBatch = volumes.integerOr("batch", 0, 1, kMostSampled);
    job.volumes = volumesOf(volumes);
    return job;
}

PlacedRole roleOf(JsonReader &reader)
{
    PlacedRole role;
    refuseOthers(reader, {"name", "kind", "machine", "part", "trainer"});
    role.name = reader.text("name");
    const auto kind = gnn::roleKindFromName(reader.text("kind"));
    if (kind)
        role.kind = *kind;
    else
        reader.fail("kind", kind.error().message);
    role.machine = reader.text("machine");
    role.part = static_cast<std::int32_t>(reader.integerOr("part", -1, 0, kMostOfRoles));
    role.trainer = static_cast<std::int32_t>(reader.integerOr("trainer", -1, 0, kMostOfRoles));
    return role;
}

} // namespace

nlohmann::json jobToJson(const SampledJob &job)
{
    return {{"kind", kSampledKind},
            {"graph",
             {{"sha256", job.graph.sha256},
              {"nodes", job.graph.nodes},
              {"edges", job.graph.edges},
              {"features", job.graph.features},
              {"parts", job.graph.parts}}},
            {"fanout", {job.fanout.first, job.fanout.second}},
            {"seed", job.seed},
            {"prefetch", job.prefetch},
            {"transfers", {{"policy", gnn::name(job.transfers)}, {"chunk_bytes", job.chunkBytes}}},
            {"draw_seconds", job.drawSeconds},
            {"row_seconds", job.rowSeconds},
            {"sample_seconds", job.sampleSeconds},
            {"update_seconds", job.updateSeconds},
            {"volumes", volumesToJson(job.volumes, job.volumesBatch)}};
}

nlohmann::json rolesToJson(const std::vector<PlacedRole> &roles)
{
    nlohmann::json list = nlohmann::json::array();
    for (const PlacedRole &role : roles) {
        nlohmann::json entry{{"name", role.name}, {"kind", gnn::name(role.kind)}, {"machine", role.machine}};
        if (role.part >= 0)
            entry["part"] = role.part;
        if (role.trainer >= 0)
            entry["trainer"] = role.trainer;
        list.push_back(std::move(entry));
    }
    return list;
}

void jobFrom(JsonReader &top, Plan &plan)
{
    if (top.has("job"))
        plan.job = jobOf(top.object("job"));
    if (plan.job && plan.job->volumesBatch == 0) // not written by older versions
        plan.job->volumesBatch = plan.globalBatch;
    top.each("roles", [&](JsonReader &entry) { plan.roles.push_back(roleOf(entry)); });
}

} // namespace planloom::plan
