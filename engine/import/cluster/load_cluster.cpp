// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "engine/import/import.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace planloom::import {
namespace {

constexpr std::int64_t kLargestFile = 64 << 20;

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

Result<cluster::Cluster> read(const std::string &text, const std::string &path)
{
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension == ".xml")
        return readNcclTopology(text, path);
    if (extension == ".yaml" || extension == ".yml" || extension == ".json")
        return readClusterYaml(text, path);
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start != std::string::npos && text[start] == '<')
        return readNcclTopology(text, path);
    if (text.find("GPU0") != std::string::npos)
        return readNvidiaSmiTopology(text, path);
    return unsupported(
               "this is no cluster; give .yaml, .json, an NCCL topology .xml or the output of nvidia-smi topo -m")
        .in(path);
}

} // namespace

Shared loadCluster(const std::string &source)
{
    constexpr std::string_view kPreset = "preset:";
    if (source.starts_with(kPreset))
        return share(cluster::preset(std::string_view(source).substr(kPreset.size())));
    if (source == "local" || source.starts_with("local:"))
        return local(source);
    const auto text = readFile(source, kLargestFile);
    if (!text) {
        Error error = text.error();
        if (error.code == ErrorCode::NotFound)
            error.message += fmt::format("; give a file, preset:NAME or local[:N]");
        return error;
    }
    return share(read(*text, source));
}

} // namespace planloom::import
