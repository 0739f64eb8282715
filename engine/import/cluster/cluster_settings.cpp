// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/cluster_settings.h"

#include "engine/base/files.h"
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/cluster/quantity.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::import {
namespace {

constexpr int kMostOfNode = 1024; // GPUs or ports

Status takeCount(std::string_view key, const std::string &value, int &count)
{
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (error != std::errc{} || end != value.data() + value.size() || count < 1 || count > kMostOfNode)
        return badInput(fmt::format("{}={}: it must be a whole number from 1 to {}", key, value, kMostOfNode));
    return {};
}

Status takeRate(std::string_view key, const std::string &value, double &rate)
{
    const auto read = parseQuantity(value, QuantityKind::BytesPerSecond);
    if (!read)
        return badInput(fmt::format("{}={}: {}", key, value, read.error().message));
    if (!(*read > 0))
        return badInput(fmt::format("{}={}: it must be greater than zero", key, value));
    rate = *read;
    return {};
}

/// "FILE" and the texts "KEY=VALUE" behind it.
std::vector<std::string> partsOf(const std::string &source)
{
    std::error_code unknown;
    if (std::filesystem::exists(source, unknown))
        return {source};
    std::vector<std::string> parts;
    std::size_t begin = source.find(',');
    for (std::size_t at = begin; at != std::string::npos; at = source.find(',', at + 1)) { // the longest existing name
        if (std::filesystem::exists(source.substr(0, at), unknown))
            begin = at;
    }
    parts.push_back(source.substr(0, begin));
    while (begin != std::string::npos) {
        const std::size_t end = source.find(',', begin + 1);
        parts.push_back(source.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
        begin = end;
    }
    return parts;
}

Status takeSetting(const std::string &key, const std::string &value, ClusterSettings &settings)
{
    if (key == "gpu") {
        const auto type = gpuType(value);
        if (!type)
            return type.error();
        settings.gpu = value;
        return {};
    }
    if (key == "gpus")
        return takeCount(key, value, settings.gpus);
    if (key == "ports")
        return takeCount(key, value, settings.ports);
    if (key == "network")
        return takeRate(key, value, settings.network);
    if (key == "uplink")
        return takeRate(key, value, settings.uplink);
    if (key == "intra")
        return takeRate(key, value, settings.intra);
    return badInput(fmt::format("there is no setting \"{}\" of a cluster; there are gpu, gpus, ports, network, uplink, "
                                "intra",
                                key));
}

} // namespace

const std::vector<ClusterSettingInfo> &settingsOf(ClusterFormat format)
{
    using Kind = ClusterSettingInfo::Kind;
    static const std::vector<ClusterSettingInfo> none;
    static const std::vector<ClusterSettingInfo> smi{{"gpu", "Type of the GPUs", Kind::Gpu, true}};
    static const std::vector<ClusterSettingInfo> slurm{
        {"gpu", "Type of the GPUs", Kind::Gpu, true},
        {"gpus", "GPUs of a node", Kind::Count, true},
        {"network", "Rate of a node's port into its switch", Kind::Rate, true},
        {"ports", "Network ports of a node; default: 1", Kind::Count, false},
        {"uplink", "Rate of a switch into the one above; default: as much as all nodes beneath it", Kind::Rate, false},
        {"intra", "Rate of a GPU inside of its node; default: its NVLinks, or its PCI slot", Kind::Rate, false}};
    switch (format) {
    case ClusterFormat::Smi: return smi;
    case ClusterFormat::Slurm: return slurm;
    case ClusterFormat::None:
    case ClusterFormat::Yaml:
    case ClusterFormat::Nccl: break;
    }
    return none;
}

Result<cluster::DeviceType> gpuType(const std::string &gpu)
{
    const cluster::DeviceType *type = cluster::knownDeviceType(gpu);
    if (!type)
        type = gpuByProductName(gpu);
    if (!type)
        return notFound(fmt::format("gpu={}: no such type of device is known; there are {}", gpu,
                                    fmt::join(cluster::knownDeviceTypeNames(), ", ")));
    return *type;
}

Result<ClusterSource> parseClusterSource(const std::string &source)
{
    const std::vector<std::string> parts = partsOf(source);
    ClusterSource made{parts.front(), {}, {}};
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const std::size_t equals = parts[i].find('=');
        if (equals == std::string::npos || equals == 0)
            return badInput(fmt::format("\"{}\" behind the file's name is no setting; write FILE,KEY=VALUE", parts[i]))
                .in(made.file);
        const std::string key = parts[i].substr(0, equals);
        if (std::find(made.given.begin(), made.given.end(), key) != made.given.end())
            return badInput(fmt::format("{}= is given twice; leave one out", key)).in(made.file);
        if (const Status taken = takeSetting(key, parts[i].substr(equals + 1), made.settings); !taken)
            return taken.error().in(made.file);
        made.given.push_back(key);
    }
    return made;
}

ClusterFormat clusterFormat(const std::string &name, std::string_view text)
{
    const std::string extension = std::filesystem::path(name).extension().string();
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (extension == ".xml" || (start != std::string_view::npos && text[start] == '<'))
        return ClusterFormat::Nccl;
    if (extension == ".yaml" || extension == ".yml" || extension == ".json")
        return ClusterFormat::Yaml;
    if (isSlurmTopology(text))
        return ClusterFormat::Slurm;
    return text.find("GPU0") != std::string_view::npos ? ClusterFormat::Smi : ClusterFormat::None;
}

std::string clusterFileOf(const std::string &source) { return partsOf(source).front(); }

bool looksLikeCluster(const std::string &name, std::string_view head)
{
    const ClusterFormat format = clusterFormat(name, head);
    return format == ClusterFormat::Slurm || format == ClusterFormat::Smi;
}

std::vector<ClusterSettingInfo> openClusterSettings(const std::string &source)
{
    const auto parsed = parseClusterSource(source);
    const auto text = parsed ? readFile(parsed->file, kLargestClusterFile) : Result<std::string>(parsed.error());
    if (!text)
        return {};
    const ClusterFormat format = clusterFormat(parsed->file, *text);
    const std::vector<ClusterSettingInfo> &all = settingsOf(format);
    const bool isMissing = std::any_of(all.begin(), all.end(), [&](const ClusterSettingInfo &setting) {
        return setting.required
            && std::find(parsed->given.begin(), parsed->given.end(), setting.key) == parsed->given.end();
    });
    const bool isSaid = format == ClusterFormat::Smi && namesEveryGpu(*text);
    return isMissing && !isSaid ? all : std::vector<ClusterSettingInfo>();
}

} // namespace planloom::import
