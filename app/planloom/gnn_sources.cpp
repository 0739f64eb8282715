// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/gnn_sources.h"

#include "engine/base/files.h"
#include "engine/gnn/job_json.h"
#include "engine/gnn/partition.h"
#include "executor/data/graph_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace planloom::cli {

using nlohmann::ordered_json;
namespace {

/// Median, 99th percentile and largest number of neighbours.
std::array<std::int64_t, 3> degreesOf(const gnn::GraphData &graph)
{
    std::vector<std::int64_t> degrees;
    for (std::int64_t node = 0; node < graph.nodes(); ++node)
        degrees.push_back(static_cast<std::int64_t>(graph.neighbours(node).size()));
    std::sort(degrees.begin(), degrees.end());
    return {degrees[degrees.size() / 2], degrees[degrees.size() * 99 / 100], degrees.back()};
}

ordered_json partitionResult(const gnn::GraphData &graph, Output &output)
{
    const gnn::PartitionFigures figures = gnn::partitionFigures(graph, graph.part);
    output.line(fmt::format("{} parts: {} edges cut ({}); largest over mean: nodes {:.3f}, arcs {:.3f}, labelled nodes "
                            "{:.3f}",
                            graph.parts(), count(figures.cutEdges), percent(figures.cutShare), figures.nodesOverMean,
                            figures.arcsOverMean, figures.trainingOverMean));
    if (figures.partWithoutTraining >= 0)
        output.note(fmt::format("part {} has no labelled nodes: its sampler can take seeds from the whole graph only",
                                figures.partWithoutTraining));
    return {{"parts", graph.parts()},
            {"cut_edges", figures.cutEdges},
            {"cut_share", figures.cutShare},
            {"nodes_over_mean", figures.nodesOverMean},
            {"arcs_over_mean", figures.arcsOverMean},
            {"training_over_mean", figures.trainingOverMean}};
}

} // namespace

Result<LoadedJob> loadJob(const std::string &path)
{
    const auto text = readFile(path);
    if (!text)
        return text.error();
    auto file = gnn::jobFromJson(*text);
    if (!file)
        return file.error().in(path, file.error().line);
    LoadedJob loaded;
    if (!file->graphFolder.empty()) {
        const auto folder = std::filesystem::path(path).parent_path() / file->graphFolder;
        auto graph = data::readGraphFolder(folder.string());
        if (!graph)
            return graph.error();
        auto volumes = gnn::sampledVolumes(*graph, file->homes, file->iterations, file->sampling);
        if (!volumes)
            return volumes.error().in(path);
        file->job.volumes = *std::move(volumes);
        file->job.volumes.model = file->modelBytes;
        loaded.graph = *std::move(graph);
        loaded.sampling = file->sampling;
        loaded.homes = file->homes;
    }
    if (Status status = gnn::checkJob(file->job); !status)
        return status.error().in(path);
    loaded.job = std::move(file->job);
    return loaded;
}

ordered_json graphResult(const gnn::GraphData &graph, Output &output)
{
    const auto labelled =
        std::count_if(graph.labels.begin(), graph.labels.end(), [](std::int32_t label) { return label >= 0; });
    const auto degrees = degreesOf(graph);
    output.line(fmt::format("{}: {} nodes, {} edges, {} features, {} labelled nodes of {} classes", graph.source,
                            count(graph.nodes()), count(graph.edges()), graph.width, count(labelled), graph.classes()));
    output.line(fmt::format("neighbours: median {}, 99 % up to {}, most {}", degrees[0], degrees[1], degrees[2]));
    ordered_json result{{"source", graph.source},      {"nodes", graph.nodes()},     {"edges", graph.edges()},
                        {"features", graph.width},     {"classes", graph.classes()}, {"labelled", labelled},
                        {"median_degree", degrees[0]}, {"p99_degree", degrees[1]},   {"largest_degree", degrees[2]}};
    if (!graph.part.empty())
        result["partition"] = partitionResult(graph, output);
    return result;
}

} // namespace planloom::cli
