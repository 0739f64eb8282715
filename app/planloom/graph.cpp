// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/gnn_sources.h"
#include "app/planloom/terminal.h"
#include "app/planloom/verbs.h"
#include "engine/base/files.h"
#include "engine/gnn/partition.h"
#include "engine/import/graphs/debian_packages.h"
#include "executor/agent/child.h"
#include "executor/data/graph_folder.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// A graph, and the SHA-256 of what it was made of.
struct MadeGraph {
    gnn::GraphData graph;
    std::string from;
};

/// apt's list of main's binary packages, without those of updates and of security.
Result<std::string> aptList()
{
    const std::filesystem::path lists = "/var/lib/apt/lists";
    std::vector<std::string> found;
    std::error_code unknown;
    for (const auto &entry : std::filesystem::directory_iterator(lists, unknown)) {
        const std::string name = entry.path().filename().string();
        const bool other = name.find("-security") != std::string::npos || name.find("-updates") != std::string::npos
            || name.find("-backports") != std::string::npos;
        if (!other && name.find("_main_binary-") != std::string::npos && name.find("_Packages") != std::string::npos)
            found.push_back(entry.path().string());
    }
    if (found.empty())
        return notFound("holds no list of main's packages; run apt-get update, or name a list with --packages")
            .in(lists.string());
    return *std::min_element(found.begin(), found.end());
}

/// The list as text. apt keeps it compressed as it likes, and has a program that reads all of its forms.
Result<std::string> packageList(const std::string &path, Output &output)
{
    constexpr const char *kHelper = "/usr/lib/apt/apt-helper";
    std::error_code unknown;
    if (!std::filesystem::exists(kHelper, unknown)) {
        auto contents = readFile(path);
        if (!contents || !contents->starts_with("\x1f\x8b"))
            return contents;
        return gunzip(*contents);
    }
    if (!std::filesystem::is_regular_file(path, unknown))
        return notFound("does not exist; run apt-get update, or name another list with --packages").in(path);
    auto child = agent::Child::start({kHelper, {"cat-file", path}, agent::allowedEnvironment()});
    if (!child)
        return child.error();
    TerminalProgress progress(output.showsProgress());
    std::string text;
    std::optional<agent::Exit> end;
    constexpr int kPoll = 50; // milliseconds
    while (!(end = child->poll())) {
        text += child->read(kPoll);
        progress.report(-1, "reading the list of packages");
        if (progress.stopped())
            return cancelled();
    }
    for (std::string rest = child->read(0); !rest.empty(); rest = child->read(0))
        text += rest;
    if (end->status != 0 || end->signal != 0)
        return failed(fmt::format("apt-helper could not read it ({}): {}", agent::describe(*end),
                                  text.substr(0, text.find('\n'))))
            .in(path);
    return text;
}

Result<MadeGraph> debian(const GraphOptions &options, Output &output)
{
    std::string path = options.packages;
    if (path.empty()) {
        auto list = aptList();
        if (!list)
            return list.error();
        path = *std::move(list);
    }
    const auto text = packageList(path, output);
    if (!text)
        return text.error();
    constexpr std::int64_t kWidth = 64; // that zoo:graphsage takes
    auto graph = import::debianDependencyGraph(*text, path, options.width > 0 ? options.width : kWidth);
    if (!graph)
        return graph.error();
    graph->source = "debian:" + std::filesystem::path(path).filename().string();
    return MadeGraph{*std::move(graph), sha256(*text)};
}

Result<MadeGraph> madeGraph(const GraphOptions &options, Output &output)
{
    if (options.kind == "debian")
        return debian(options, output);
    if (options.kind == "karate")
        return MadeGraph{gnn::karateClub(), {}};
    gnn::BlockModel model = options.blocks;
    model.seed = static_cast<std::uint64_t>(options.seed);
    if (options.width > 0)
        model.width = options.width;
    auto graph = gnn::blockModelGraph(model);
    if (!graph)
        return graph.error();
    return MadeGraph{*std::move(graph), {}};
}

} // namespace

Status graph(const GraphOptions &options, Output &output)
{
    auto made = madeGraph(options, output);
    if (!made)
        return made.error();
    gnn::GraphData &graph = made->graph;
    data::PartitionNote note;
    if (options.parts > 0) {
        const auto method = gnn::partitionMethodFromName(options.method);
        if (!method)
            return method.error();
        const auto seed = static_cast<std::uint64_t>(options.seed);
        auto part = gnn::partitionOf(graph, {*method, options.parts, seed, options.balanceTraining});
        if (!part)
            return part.error();
        graph.part = *std::move(part);
        note = {options.method, seed, options.balanceTraining};
    }
    if (Status status = data::writeGraphFolder(graph, note, made->from, options.out); !status)
        return status;
    ordered_json result{{"path", options.out}};
    result.update(graphResult(graph, output));
    output.line("written to " + options.out);
    output.result(result);
    return {};
}

} // namespace planloom::cli
