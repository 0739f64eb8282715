// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/cluster/cluster_settings.h"
#include "engine/import/import.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace planloom::import {
namespace {

using Shared = Result<std::shared_ptr<const cluster::Cluster>>;

Shared share(Result<cluster::Cluster> made)
{
    if (!made)
        return made.error();
    return std::make_shared<const cluster::Cluster>(*std::move(made));
}

/// "local" or "local:N".
Shared local(const std::string &source)
{
    if (source == "local")
        return share(localCluster(0));
    const std::string_view digits = std::string_view(source).substr(source.find(':') + 1);
    int devices = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), devices);
    if (error != std::errc{} || end != digits.data() + digits.size() || devices < 1)
        return badInput(fmt::format("\"{}\" is not local:N; write the number of CPU devices, such as local:4", source));
    return share(localCluster(devices));
}

/// A setting that the file's format has no use for would be a mistake of the user.
Status checkSettings(const ClusterSource &source, ClusterFormat format)
{
    const std::vector<ClusterSettingInfo> &known = settingsOf(format);
    for (const std::string &key : source.given) {
        const bool taken = std::any_of(known.begin(), known.end(), [&](const auto &info) { return info.key == key; });
        if (!taken)
            return badInput(fmt::format("{}= is not for such a file, which {}; leave it out", key,
                                        known.empty() ? "says all of its cluster" : "leaves only its GPUs' type open"))
                .in(source.file);
    }
    return {};
}

Result<cluster::Cluster> read(const std::string &text, const ClusterSource &source)
{
    const ClusterFormat format = clusterFormat(source.file, text);
    if (const Status good = checkSettings(source, format); !good && format != ClusterFormat::None)
        return good.error();
    switch (format) {
    case ClusterFormat::Nccl: return readNcclTopology(text, source.file);
    case ClusterFormat::Yaml: return readClusterYaml(text, source.file);
    case ClusterFormat::Smi: return readNvidiaSmiTopology(text, source.file, source.settings);
    case ClusterFormat::Slurm: return readSlurmTopology(text, source.file, source.settings);
    case ClusterFormat::None: break;
    }
    return unsupported("this is no cluster; give .yaml, .json, an NCCL topology .xml, Slurm's topology.conf or the "
                       "output of nvidia-smi topo -m")
        .in(source.file);
}

} // namespace

Shared loadCluster(const std::string &source)
{
    constexpr std::string_view kPreset = "preset:";
    if (source.starts_with(kPreset))
        return share(cluster::preset(std::string_view(source).substr(kPreset.size())));
    if (source == "local" || source.starts_with("local:"))
        return local(source);
    const auto parsed = parseClusterSource(source);
    if (!parsed)
        return parsed.error();
    const auto text = readFile(parsed->file, kLargestClusterFile);
    if (!text) {
        Error error = text.error();
        if (error.code == ErrorCode::NotFound)
            error.message += fmt::format("; give a file, preset:NAME or local[:N]");
        return error;
    }
    return share(read(*text, *parsed));
}

} // namespace planloom::import
