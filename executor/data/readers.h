// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/graph_data.h"
#include "executor/data/data_set.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::data {

/// Rows of features with a label or with values as targets, as every table-like format is read into. 4 bytes a feature
/// or value, 8 a label.
struct Table {
    std::int64_t columns = 0;
    std::int64_t targetColumns = 0;   ///< 0: rows have labels
    std::vector<float> features;      ///< row-major
    std::vector<float> targets;       ///< row-major
    std::vector<std::int64_t> labels; ///< one per row
    std::string rowWord = "row";      ///< how an error calls a row ("line" in a text file)
    std::int64_t firstRow = 0;        ///< and which number the first one has
    std::string missing;              ///< a file beside it that would have had the targets; empty: there was one

    [[nodiscard]] std::int64_t rows() const
    {
        return targetColumns > 0 ? static_cast<std::int64_t>(targets.size()) / targetColumns
                                 : static_cast<std::int64_t>(labels.size());
    }
    /// The numbers behind a row's features: its label, or its values as they are. Error: a label that is no whole
    /// number.
    Status addTargets(std::span<const double> numbers);
};

/// The readers of the formats; @p contents is already inflated, @p path is for messages and for files beside it.
/// @p targetColumns of values stand behind the features; 0: a label does.
Result<Table> readCsv(std::string_view contents, const std::string &path, std::int64_t targetColumns = 0);
Result<Table> readNpy(std::string_view contents, const std::string &path, std::int64_t targetColumns = 0);
Result<Table> readIdx(std::string_view contents, const std::string &path);

bool looksLikeNpy(std::string_view contents);
bool looksLikeIdx(std::string_view contents);

/// Numbers of a .npy file, borrowed from its contents.
struct NpyArray {
    std::vector<std::int64_t> shape;
    std::string_view type;     ///< as the header writes it, after the byte order: "f4", "i8"
    std::string_view elements; ///< little-endian, row-major
    std::size_t width = 0;     ///< bytes of an element
    double (*read)(const char *at) = nullptr;

    [[nodiscard]] double at(std::int64_t index) const
    {
        return read(elements.data() + static_cast<std::size_t>(index) * width);
    }
    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(elements.size() / width); }
    [[nodiscard]] bool isReal() const { return type == "f4" || type == "f8"; }
};
Result<NpyArray> parseNpy(std::string_view contents, const std::string &path);

/// A folder with a file INPUT.npy for each of the model's inputs, and labels.npy.
Result<std::unique_ptr<DataSet>> readArrays(const std::string &folder, const Needs &needs);
/// "input_ids.npy, labels.npy"
std::string arrayNames(const Needs &needs);

/// A folder that planloom graph wrote, for a model of two-hop trees (graph::graphSage): a sample is a labelled node.
Result<std::unique_ptr<DataSet>> readGraphTrees(const std::string &folder, const Needs &needs);

/// The same for a model in block form (graph::graphSageBlocks, graph::gcn).
Result<std::unique_ptr<DataSet>> readGraphBlocks(const std::string &folder, const Needs &needs);
/// Of draws. A data set knows no steps: a node's tree is the same in each epoch.
inline constexpr std::uint64_t kTreeSeed = 1;
inline constexpr std::int64_t kTreeStep = 0;
/// Errors (BadInput): features of another number than @p input wants, no labelled nodes, more classes than the model
/// has.
Status checkGraphFits(const gnn::GraphData &graph, std::int64_t width, const std::string &input, const Needs &needs);

/// Tokens of @p width bytes each (1: text), cut into samples of needs.perSample.
Result<std::unique_ptr<DataSet>> makeTokenData(std::string contents, int width, const std::string &path,
                                               const Needs &needs);
/// 1: text; 2, 4: a token file by its name.
int tokenWidth(const std::string &path);

/// The file, inflated if it is a gzip file.
Result<std::string> readMaybeCompressed(const std::string &path);

/// @p value as a label; error if it is no whole number.
Result<std::int64_t> labelFrom(double value);

} // namespace planloom::data
