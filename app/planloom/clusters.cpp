// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/json_text.h"
#include "app/planloom/verbs.h"
#include "engine/cluster/cluster.h"

#include <fmt/format.h>
#include <set>

namespace planloom::cli {
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
    JsonArray all;
    Table table({"CLUSTER", "NODES", "DEVICES", "KIND"});
    for (const auto &name : cluster::presetNames()) {
        const auto made = cluster::preset(name);
        if (!made)
            return made.error();
        table.row({"preset:" + name, std::to_string(made->nodes().size()), std::to_string(made->devices().size()), typesOf(*made)});
        all.raw(JsonObject()
                    .add("name", "preset:" + name)
                    .add("nodes", made->nodes().size())
                    .add("devices", made->devices().size())
                    .add("types", typesOf(*made))
                    .text());
    }
    table.print(output);
    output.line();
    output.line("Also: local, local:N (this machine as N CPU devices), FILE.yaml, FILE.json, an NCCL topology FILE.xml,");
    output.line("the text of `nvidia-smi topo -m`.");
    output.json(JsonObject().raw("clusters", all.text()).text());
    return {};
}

} // namespace planloom::cli
