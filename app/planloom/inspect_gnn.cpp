// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/inspect_gnn.h"

#include "app/planloom/gnn_sources.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "executor/data/graph_folder.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

constexpr gnn::RoleKind kRoleKinds[] = {gnn::RoleKind::GraphStore, gnn::RoleKind::Sampler, gnn::RoleKind::Trainer,
                                        gnn::RoleKind::ParameterServer};

std::string rate(double bytesPerSecond) { return format(Bytes(static_cast<std::int64_t>(bytesPerSecond))) + "/s"; }

ordered_json machinesResult(const gnn::Job &job, Output &output)
{
    std::vector<std::string> headings{"MACHINE", "OUT", "IN"};
    headings.insert(headings.end(), job.resources.begin(), job.resources.end());
    Table table(headings);
    ordered_json machines = ordered_json::array();
    for (const gnn::Machine &machine : job.machines) {
        std::vector<std::string> cells{machine.name, rate(machine.port.out), rate(machine.port.in)};
        ordered_json capacity = ordered_json::object();
        for (std::size_t r = 0; r < job.resources.size(); ++r) {
            cells.push_back(fmt::format("{:g}", machine.capacity[r]));
            capacity[job.resources[r]] = machine.capacity[r];
        }
        table.row(std::move(cells));
        machines.push_back({{"name", machine.name},
                            {"out_bytes_per_second", machine.port.out},
                            {"in_bytes_per_second", machine.port.in},
                            {"resources", std::move(capacity)}});
    }
    table.print(output);
    return machines;
}

ordered_json rolesResult(const gnn::Job &job, Output &output)
{
    std::vector<std::string> headings{"ROLE", "COUNT"};
    for (const std::string &resource : job.resources)
        headings.push_back(resource + " of all");
    Table table(headings);
    ordered_json roles = ordered_json::object();
    for (const gnn::RoleKind kind : kRoleKinds) {
        const auto first = static_cast<std::size_t>(job.first(kind));
        const auto number = static_cast<std::size_t>(job.count(kind));
        std::vector<std::string> cells{gnn::name(kind), std::to_string(number)};
        for (std::size_t r = 0; r < job.resources.size(); ++r) {
            double sum = 0;
            for (std::size_t role = first; role < first + number; ++role)
                sum += job.roles[role].demand[r];
            cells.push_back(fmt::format("{:g}", sum));
        }
        table.row(std::move(cells));
        roles[gnn::name(kind)] = number;
    }
    table.print(output);
    return roles;
}

} // namespace

Status inspectGraph(const std::string &folder, Output &output)
{
    const auto graph = data::readGraphFolder(folder);
    if (!graph)
        return graph.error();
    ordered_json result{{"kind", "graph"}};
    result.update(graphResult(*graph, output));
    output.result(result);
    return {};
}

Status inspectJob(const std::string &path, Output &output)
{
    const auto loaded = loadJob(path);
    if (!loaded)
        return loaded.error();
    const gnn::Job &job = loaded->job;
    const gnn::Volumes &volumes = job.volumes;
    ordered_json result{{"kind", "gnn-job"}, {"iterations", volumes.iterations}};
    result["machines"] = machinesResult(job, output);
    output.line();
    result["roles"] = rolesResult(job, output);
    output.line();
    const double iterations = volumes.iterations;
    const double features = std::accumulate(volumes.features.begin(), volumes.features.end(), 0.0) / iterations;
    const double batches = std::accumulate(volumes.batches.begin(), volumes.batches.end(), 0.0) / iterations;
    double exchanged = 0;
    for (const gnn::Exchanged &message : gnn::exchangeOf(job))
        exchanged += message.bytes;
    const auto bytes = [](double number) { return format(Bytes(static_cast<std::int64_t>(number))); };
    output.line(fmt::format("{} iterations; in one, on average: {} of features, {} of mini-batches, {} of gradients "
                            "and parameters ({})",
                            volumes.iterations, bytes(features), bytes(batches), bytes(exchanged),
                            gnn::name(job.exchange)));
    output.line(fmt::format("a mini-batch is sampled in {} and trained in {}; samplers are at most {} ahead",
                            format(Seconds(job.sampleSeconds)), format(Seconds(job.trainSeconds)), job.prefetch));
    result["feature_bytes"] = features;
    result["batch_bytes"] = batches;
    result["exchange"] = gnn::name(job.exchange);
    result["exchange_bytes"] = exchanged;
    result["sample_seconds"] = job.sampleSeconds;
    result["train_seconds"] = job.trainSeconds;
    result["prefetch"] = job.prefetch;
    output.result(result);
    return {};
}

Status inspectPlacement(const std::string &path, Output &output)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    const auto document = parseJson(*text);
    if (!document)
        return document.error().in(path, document.error().line);
    JsonReader top(*document);
    const std::string job = top.text("job");
    const std::string policy = top.text("policy");
    const double seconds = top.number("seconds");
    const std::int64_t iterations = top.integer("iterations", 1);
    std::vector<std::string> machines; // in the order in which roles name them
    std::map<std::string, std::string> rolesOn;
    std::int64_t roles = 0;
    top.list("roles", [&](JsonReader &role) {
        const std::string machine = role.text("machine");
        std::string &here = rolesOn[machine];
        if (here.empty())
            machines.push_back(machine);
        here += (here.empty() ? "" : " ") + role.text("name");
        ++roles;
    });
    JsonReader bounds = top.object("bounds");
    const double criticalPath = bounds.number("critical_path_seconds");
    const double port = bounds.number("port_seconds");
    if (Status status = top.failure(*text); !status)
        return status.error().in(path, status.error().line);
    Table table({"MACHINE", "ROLES"});
    for (const std::string &machine : machines)
        table.row({machine, rolesOn[machine]});
    table.print(output);
    output.line();
    output.line(fmt::format("{} iterations of {} take {} under {}; no schedule there takes less than {}", iterations,
                            job, format(Seconds(seconds)), policy, format(Seconds(std::max(criticalPath, port)))));
    output.result(ordered_json{{"kind", "placement"},
                               {"job", job},
                               {"policy", policy},
                               {"iterations", iterations},
                               {"seconds", seconds},
                               {"roles", roles},
                               {"machines", machines.size()},
                               {"critical_path_seconds", criticalPath},
                               {"port_seconds", port}});
    return {};
}

} // namespace planloom::cli
