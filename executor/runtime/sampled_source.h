// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/graph_data.h"
#include "engine/plan/batch_form.h"
#include "engine/plan/plan.h"
#include "engine/run/settings.h"
#include "executor/data/order.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace planloom::runtime {

/// Samples of a global batch, or held-out samples.
struct SampledRange {
    static constexpr std::int64_t kHeldOut = -1;
    std::int64_t step = 0; ///< kHeldOut: held-out samples from number `begin` on
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

/// What a sampler tells its trainer ahead of a block.
struct BlockCounts {
    std::int64_t rows = 0;
    std::int64_t places = 0; ///< of all its trees
};

/// The trees of a range as places of nodes, and which rows they need.
struct SampledDraw {
    std::vector<std::int64_t> seeds; ///< nodes, by sample
    /// Nodes. Of trees: the seeds, then all first hops, then all second ones; of blocks one tree behind the other, each
    /// as gnn::appendTree has it.
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> rows;       ///< each node of `places` once, ascending
    std::vector<std::int32_t> rowOfPlace; ///< per place: index in `rows`
    [[nodiscard]] BlockCounts counts() const
    {
        return {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(places.size())};
    }
};

/// Fills rows and rowOfPlace from places, which are below @p nodes. Cost: O(places + nodes / 64), or, of few places in
/// a large graph, O(places log places).
void findRows(SampledDraw &draw, std::int64_t nodes);

/// The structure of a job's graph and the order of its seed nodes. A pure function of plan, settings and folder, so
/// that every process, and a prediction, draws the same trees. Immutable.
class SampledSource {
public:
    /// Reads the graph folder Settings::data. Errors: those of readGraphFolder; BadInput (another graph than the
    /// plan's, no labelled nodes).
    static Result<SampledSource> open(const plan::Plan &plan, const run::Request &request);

    [[nodiscard]] const gnn::GraphData &graph() const { return m_graph; }
    [[nodiscard]] const data::SampleOrder &order() const { return m_order; }
    [[nodiscard]] std::int64_t samples() const { return static_cast<std::int64_t>(m_seeds.size()); }
    [[nodiscard]] SampledDraw draw(const SampledRange &range, plan::BatchForm form) const;
    [[nodiscard]] std::int32_t partOf(std::int64_t node) const
    {
        return m_graph.part.empty() ? 0 : m_graph.part[static_cast<std::size_t>(node)];
    }
    /// Keeps the rows of part @p part alone; -1: none. Rows of others are then not to be read.
    void keepFeatures(std::int32_t part);
    /// The @p node's features: it must be of the part that was kept.
    [[nodiscard]] const float *features(std::int64_t node) const
    {
        return m_graph.features.data() + m_rowOf[static_cast<std::size_t>(node)] * m_graph.width;
    }

private:
    SampledSource(gnn::GraphData graph, std::vector<std::int64_t> seeds, const plan::Plan &plan,
                  const run::Request &request);
    using Nodes = std::vector<std::int64_t>;
    [[nodiscard]] std::int64_t seedAt(const SampledRange &range, std::int64_t i) const;
    [[nodiscard]] Nodes treePlaces(std::int64_t step, const Nodes &seeds) const;
    [[nodiscard]] Nodes blockPlaces(std::int64_t step, const Nodes &seeds, bool whole) const;

    gnn::GraphData m_graph;
    std::vector<std::int64_t> m_seeds; ///< labelled nodes: the samples
    data::SampleOrder m_order;
    gnn::Fanout m_fanout;
    std::uint64_t m_seed;
    std::int64_t m_globalBatch;
    std::vector<std::int64_t> m_rowOf; ///< per node, in GraphData::features as it is kept
};

/// The share of sampler @p index of @p count in a trainer's range.
SampledRange shareOf(const SampledRange &range, std::size_t index, std::size_t count);

/// Bytes of the messages of a job. Each row once from the store of its part, with its number; a mini-batch as the model
/// takes it: a row for each place of the trees, or a block (BlockCounts, then as BlockLayout has it).
constexpr std::int64_t kCommandBytes = 32; ///< trainer to sampler, a mini-batch
constexpr std::int64_t requestBytes(std::int64_t rows) { return rows == 0 ? 0 : 16 + 8 * rows; }
constexpr std::int64_t rowBytes(std::int64_t rows, std::int64_t width) { return rows * (8 + 4 * width); }
inline std::int64_t treeBytes(std::int64_t samples, const gnn::Fanout &fanout, std::int64_t width)
{
    return samples * (8 + 4 * width * fanout.rows());
}
constexpr std::int64_t kCountBytes = sizeof(BlockCounts); ///< sampler to trainer
/// Where a block's message has what, in bytes. The degrees of rows are what factors of entries, and the number of a
/// node's entries, follow from.
struct BlockLayout {
    std::int64_t rows = 0;    ///< behind 8 bytes of label a sample; each a number and features
    std::int64_t degrees = 0; ///< 4 a row, of lists with factors
    std::int64_t places = 0;  ///< 4 each: which of the rows it is
    std::int64_t end = 0;
};
constexpr BlockLayout blockLayout(std::int64_t samples, const BlockCounts &counts, std::int64_t width,
                                  plan::BatchForm form)
{
    BlockLayout layout;
    layout.rows = 8 * samples;
    layout.degrees = layout.rows + rowBytes(counts.rows, width);
    layout.places = layout.degrees + (form == plan::BatchForm::WholeBlocks ? 4 * counts.rows : 0);
    layout.end = layout.places + 4 * counts.places;
    return layout;
}

/// Bytes from one process to another in an iteration.
struct SampledTransfer {
    std::int64_t iteration = 0;
    std::string from; ///< names of roles; trainers are "w0", "w1", ...
    std::string to;
    std::int64_t bytes = 0;
    friend auto operator<=>(const SampledTransfer &, const SampledTransfer &) = default;
};
/// What the processes of @p plan send in iteration @p step, sorted; connections without bytes are left out. Cost: the
/// trees of a global batch.
std::vector<SampledTransfer> predictedTransfers(const plan::Plan &plan, plan::BatchForm form,
                                                const SampledSource &source, std::int64_t step);

/// What one process sends in the iterations of its run, for predictedTransfers() to be compared with: the file
/// RUN/transfers/NAME.csv (run::readSent).
class SentBytes {
public:
    /// Keeps what the file has of iterations before @p first, with which the run goes on. Error: Io.
    Status open(const std::string &runFolder, const std::string &name, std::int64_t first);
    /// Once an iteration and receiver. Held-out samples are not noted.
    void add(std::int64_t iteration, const std::string &to, std::int64_t bytes);
    /// Error: Io.
    Status close();

private:
    [[nodiscard]] Status check() const;
    std::string m_path;
    std::ofstream m_file;
};
/// All that the processes of @p plan sent, sorted; of an iteration that was repeated the last time. Errors: NotFound,
/// BadInput (a line that is no transfer).
Result<std::vector<SampledTransfer>> readTransfers(const plan::Plan &plan, const std::string &runFolder);

} // namespace planloom::runtime
