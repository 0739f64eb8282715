// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "engine/cluster/cluster.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

std::string typesOf(const cluster::Cluster &cluster)
{
    std::set<std::string> names;
    for (const auto &device : cluster.devices())
        names.insert(cluster.typeOf(device.id).name);
    return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace

Status clusters(Output &output)
{
    ordered_json all = ordered_json::array();
    Table table({"CLUSTER", "NODES", "DEVICES", "KIND"});
    for (const auto &name : cluster::presetNames()) {
        const auto made = cluster::preset(name);
        if (!made)
            return made.error();
        table.row({"preset:" + name, std::to_string(made->nodes().size()), std::to_string(made->devices().size()),
                   typesOf(*made)});
        all.push_back(ordered_json{{"name", "preset:" + name},
                                   {"nodes", made->nodes().size()},
                                   {"devices", made->devices().size()},
                                   {"types", typesOf(*made)}});
    }
    table.print(output);
    output.line();
    output.line(
        "Also: local, local:N (this machine as N CPU devices), FILE.yaml, FILE.json, an NCCL topology FILE.xml,");
    output.line("the text of `nvidia-smi topo -m` (,gpu=TYPE where it does not name its GPUs), Slurm's");
    output.line("topology.conf,gpu=TYPE,gpus=N,network=RATE[,ports=N][,uplink=RATE][,intra=RATE].");
    output.result(ordered_json{{"clusters", all}});
    return {};
}

} // namespace planloom::cli
