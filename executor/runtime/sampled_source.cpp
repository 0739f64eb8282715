// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/sampled_source.h"

#include "engine/base/files.h"
#include "engine/run/transfers.h"
#include "executor/data/graph_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

namespace planloom::runtime {
namespace {

std::vector<std::int64_t> labelledNodes(const gnn::GraphData &graph)
{
    std::vector<std::int64_t> nodes;
    for (std::int64_t node = 0; node < graph.nodes(); ++node) {
        if (graph.labels[static_cast<std::size_t>(node)] >= 0)
            nodes.push_back(node);
    }
    return nodes;
}

/// The graph of the folder is the one that the plan was made for.
Status checkGraphOf(const plan::SampledJob &job, const std::string &folder)
{
    if (!data::isGraphFolder(folder))
        return badInput("is no graph folder, and the plan has a sampled job; make one with planloom graph").in(folder);
    const auto note = readFile(folder + "/graph.json");
    if (!note)
        return note.error();
    if (sha256(*note) != job.graph.sha256)
        return badInput("is not the graph that the plan was made for (field job.graph.sha256); plan again with it, or "
                        "train on the one that was planned with")
            .in(folder);
    return {};
}

/// Where the share of each replica begins in the global batch, and the end.
std::vector<std::int64_t> beginsOf(const plan::Plan &plan)
{
    std::vector<std::int64_t> begins{0};
    for (const std::int64_t size : plan::replicaSizes(plan.stages.front(), plan.globalBatch))
        begins.push_back(begins.back() + size);
    return begins;
}

/// Rows by sorting the places. Cost: O(places log places).
void sortRows(SampledDraw &draw)
{
    draw.rows = draw.places;
    std::ranges::sort(draw.rows);
    draw.rows.erase(std::unique(draw.rows.begin(), draw.rows.end()), draw.rows.end());
    for (std::size_t i = 0; i < draw.places.size(); ++i)
        draw.rowOfPlace[i] =
            static_cast<std::int32_t>(std::ranges::lower_bound(draw.rows, draw.places[i]) - draw.rows.begin());
}

/// Rows by a bit for each of the graph's @p nodes. Cost: O(nodes / 64 + places).
void markRows(SampledDraw &draw, std::int64_t nodes)
{
    constexpr std::size_t kBits = 64;
    const auto wordOf = [](std::int64_t node) { return static_cast<std::size_t>(node) / kBits; };
    const auto bitOf = [](std::int64_t node) { return std::uint64_t{1} << (static_cast<std::size_t>(node) % kBits); };
    std::vector<std::uint64_t> marked(static_cast<std::size_t>(nodes) / kBits + 1);
    for (const std::int64_t node : draw.places)
        marked[wordOf(node)] |= bitOf(node);
    std::vector<std::int32_t> before(marked.size()); // rows of the words in front
    for (std::size_t word = 0; word < marked.size(); ++word) {
        before[word] = static_cast<std::int32_t>(draw.rows.size());
        for (std::uint64_t left = marked[word]; left != 0; left &= left - 1)
            draw.rows.push_back(static_cast<std::int64_t>(word * kBits) + std::countr_zero(left));
    }
    for (std::size_t i = 0; i < draw.places.size(); ++i) {
        const std::size_t word = wordOf(draw.places[i]);
        draw.rowOfPlace[i] = before[word] + std::popcount(marked[word] & (bitOf(draw.places[i]) - 1));
    }
}

} // namespace

void findRows(SampledDraw &draw, std::int64_t nodes)
{
    constexpr std::size_t kNodesAPlace = 64; // with more of them the bits cost more than the sort
    draw.rows.clear();
    draw.rowOfPlace.resize(draw.places.size());
    if (static_cast<std::size_t>(nodes) / kNodesAPlace <= draw.places.size())
        markRows(draw, nodes);
    else
        sortRows(draw);
}

Result<SampledSource> SampledSource::open(const plan::Plan &plan, const run::Request &request)
{
    const std::string &folder = request.settings.data;
    if (Status same = checkGraphOf(*plan.job, folder); !same)
        return same.error();
    auto graph = data::readGraphFolder(folder);
    if (!graph)
        return graph.error();
    const plan::SampledGraph &planned = plan.job->graph;
    if (graph->width != planned.features || graph->parts() != planned.parts)
        return badInput(fmt::format("has {} features a node and {} parts, and the plan's field job.graph says {} and "
                                    "{}; plan again",
                                    graph->width, graph->parts(), planned.features, planned.parts))
            .in(folder);
    auto seeds = labelledNodes(*graph);
    if (seeds.empty())
        return badInput("has no labelled nodes to train on").in(folder);
    return SampledSource(*std::move(graph), std::move(seeds), plan, request);
}

SampledSource::SampledSource(gnn::GraphData graph, std::vector<std::int64_t> seeds, const plan::Plan &plan,
                             const run::Request &request)
    : m_graph(std::move(graph)),
      m_seeds(std::move(seeds)),
      m_order(static_cast<std::int64_t>(m_seeds.size()), request.settings.seed, request.settings.holdout),
      m_fanout(plan.job->fanout),
      m_seed(plan.job->seed),
      m_globalBatch(plan.globalBatch)
{
    if (request.from.sample >= 0)
        m_order.goOn(request.from.step, m_globalBatch, request.from.sample);
}

std::int64_t SampledSource::seedAt(const SampledRange &range, std::int64_t i) const
{
    const std::int64_t sample = range.step == SampledRange::kHeldOut
        ? m_order.heldOutIndex((range.begin + i) % m_order.heldOut())
        : m_order.sampleIndex(range.step, m_globalBatch, range.begin + i);
    return m_seeds[static_cast<std::size_t>(sample)];
}

SampledSource::Nodes SampledSource::treePlaces(std::int64_t step, const Nodes &seeds) const
{
    const std::size_t count = seeds.size();
    const auto first = static_cast<std::size_t>(m_fanout.first);
    const auto second = first * static_cast<std::size_t>(m_fanout.second);
    Nodes nodes(count * (1 + first + second));
    const std::span places(nodes);
    for (std::size_t i = 0; i < count; ++i) {
        places[i] = seeds[i];
        gnn::sampleTreeInto(m_graph, m_fanout, m_seed, step, seeds[i], places.subspan(count + i * first, first),
                            places.subspan(count + count * first + i * second, second));
    }
    return nodes;
}

SampledSource::Nodes SampledSource::blockPlaces(std::int64_t step, const Nodes &seeds, bool whole) const
{
    Nodes places;
    places.reserve(seeds.size() * static_cast<std::size_t>(whole ? 1 + m_fanout.first : m_fanout.rows()));
    for (const std::int64_t seed : seeds)
        gnn::appendTree(m_graph, {m_fanout, whole, m_seed, step}, seed, places);
    return places;
}

SampledDraw SampledSource::draw(const SampledRange &range, plan::BatchForm form) const
{
    SampledDraw draw;
    draw.seeds.reserve(static_cast<std::size_t>(range.count));
    for (std::int64_t i = 0; i < range.count; ++i)
        draw.seeds.push_back(seedAt(range, i));
    draw.places = form == plan::BatchForm::Trees
        ? treePlaces(range.step, draw.seeds)
        : blockPlaces(range.step, draw.seeds, form == plan::BatchForm::WholeBlocks);
    findRows(draw, m_graph.nodes());
    return draw;
}

void SampledSource::keepFeatures(std::int32_t part)
{
    std::vector<float> kept;
    m_rowOf.assign(static_cast<std::size_t>(m_graph.nodes()), 0);
    std::int64_t rows = 0;
    for (std::int64_t node = 0; node < m_graph.nodes(); ++node) {
        if (partOf(node) != part)
            continue;
        m_rowOf[static_cast<std::size_t>(node)] = rows++;
        const auto begin = m_graph.features.begin() + node * m_graph.width;
        kept.insert(kept.end(), begin, begin + m_graph.width);
    }
    kept.shrink_to_fit();
    m_graph.features = std::move(kept);
}

SampledRange shareOf(const SampledRange &range, std::size_t index, std::size_t count)
{
    const auto i = static_cast<std::int64_t>(index);
    const auto n = static_cast<std::int64_t>(count);
    const std::int64_t begin = range.count * i / n;
    return {range.step, range.begin + begin, range.count * (i + 1) / n - begin};
}

std::vector<SampledTransfer> predictedTransfers(const plan::Plan &plan, plan::BatchForm form,
                                                const SampledSource &source, std::int64_t step)
{
    const std::vector<std::int64_t> begins = beginsOf(plan);
    std::vector<std::size_t> samplers(begins.size());
    std::vector<std::string> stores(static_cast<std::size_t>(plan.job->graph.parts));
    for (const plan::PlacedRole &role : plan.roles) {
        if (role.kind == gnn::RoleKind::Sampler)
            ++samplers[static_cast<std::size_t>(role.trainer)];
        else if (role.kind == gnn::RoleKind::GraphStore)
            stores[static_cast<std::size_t>(role.part)] = role.name;
    }
    std::vector<std::size_t> seen(begins.size());
    std::vector<SampledTransfer> transfers;
    const std::int64_t width = plan.job->graph.features;
    for (const plan::PlacedRole &role : plan.roles) {
        if (role.kind != gnn::RoleKind::Sampler)
            continue;
        const auto trainer = static_cast<std::size_t>(role.trainer);
        const SampledRange whole{step, begins[trainer], begins[trainer + 1] - begins[trainer]};
        const SampledRange range = shareOf(whole, seen[trainer]++, samplers[trainer]);
        std::vector<std::int64_t> rows(stores.size());
        const SampledDraw draw = source.draw(range, form);
        for (const std::int64_t node : draw.rows)
            ++rows[static_cast<std::size_t>(source.partOf(node))];
        const std::int64_t batch = form == plan::BatchForm::Trees
            ? treeBytes(range.count, plan.job->fanout, width)
            : kCountBytes + blockLayout(range.count, draw.counts(), width, form).end;
        const std::string worker = fmt::format("w{}", trainer);
        transfers.push_back({step, worker, role.name, kCommandBytes});
        transfers.push_back({step, role.name, worker, batch});
        for (std::size_t part = 0; part < stores.size(); ++part) {
            if (rows[part] == 0)
                continue;
            transfers.push_back({step, role.name, stores[part], requestBytes(rows[part])});
            transfers.push_back({step, stores[part], role.name, rowBytes(rows[part], width)});
        }
    }
    std::ranges::sort(transfers);
    return transfers;
}

Status SentBytes::open(const std::string &runFolder, const std::string &name, std::int64_t first)
{
    m_path = run::transfersFile(runFolder, name);
    std::error_code ignored; // an error shows when the file is written
    std::filesystem::create_directories(std::filesystem::path(m_path).parent_path(), ignored);
    if (Status kept = run::keepSentBefore(m_path, first); !kept)
        return kept;
    m_file.open(m_path, std::ios::app);
    return check();
}

void SentBytes::add(std::int64_t iteration, const std::string &to, std::int64_t bytes)
{
    if (iteration != SampledRange::kHeldOut && bytes > 0)
        m_file << iteration << ',' << to << ',' << bytes << '\n';
}

Status SentBytes::close()
{
    m_file.close();
    return check();
}

Status SentBytes::check() const
{
    if (m_file)
        return {};
    return ioError("cannot be written; look at the disk's free space and at who may write there").in(m_path);
}

Result<std::vector<SampledTransfer>> readTransfers(const plan::Plan &plan, const std::string &runFolder)
{
    std::vector<std::string> names;
    for (const plan::PlacedRole &role : plan.roles)
        names.push_back(role.name);
    for (std::size_t trainer = 0; trainer < plan.stages.front().replicas(); ++trainer)
        names.push_back(fmt::format("w{}", trainer));
    std::vector<SampledTransfer> transfers;
    for (const std::string &name : names) {
        const auto sums = run::readSent(run::transfersFile(runFolder, name));
        if (!sums)
            return sums.error();
        for (const auto &[key, bytes] : *sums)
            transfers.push_back({key.first, name, key.second, bytes});
    }
    std::ranges::sort(transfers);
    return transfers;
}

} // namespace planloom::runtime
