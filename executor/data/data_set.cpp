// SPDX-License-Identifier: Apache-2.0
#include "executor/data/data_set.h"

#include "engine/base/files.h"
#include "executor/data/readers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace planloom::data {

namespace {

using graph::DType;
using graph::Tensor;

class TableData final : public DataSet {
public:
    explicit TableData(Table table) : m_table(std::move(table)) {}
    [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(m_table.labels.size()); }
    void fillInput(std::int64_t sample, void *out) const override
    {
        std::copy_n(m_table.features.data() + sample * m_table.columns, m_table.columns, static_cast<float *>(out));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = m_table.labels[static_cast<std::size_t>(sample)];
    }

private:
    Table m_table;
};

std::string listed(const std::vector<const Tensor *> &inputs)
{
    std::string text;
    for (const Tensor *input : inputs)
        text += (text.empty() ? "" : ", ") + input->name + " " + graph::name(input->type) + input->shape.text();
    return text.empty() ? "none" : text;
}

/// How many classes the loss tells apart: the last dimension of its logits; 0 if unknown.
std::int64_t classesOf(const graph::Graph &graph)
{
    for (const graph::Op &op : graph.ops()) {
        if (op.type != "SoftmaxCrossEntropyLoss")
            continue;
        const graph::Shape &logits = graph.tensor(op.inputs[0]).shape;
        return logits.rank() == 0 ? 0 : logits[logits.rank() - 1].size;
    }
    return 0;
}

/// Rows of the table that @p indices looks up; 0 if it does something else.
std::int64_t tableSize(const graph::Graph &graph, const Tensor &indices)
{
    for (const OpId reader : graph.consumers(indices.id)) {
        const graph::Op &op = graph.op(reader);
        if (op.type != "Gather" || op.inputs[1] != indices.id || op.integer("axis") != 0)
            continue;
        const graph::Shape &table = graph.tensor(op.inputs[0]).shape;
        return table.rank() == 0 ? 0 : table[0].size;
    }
    return 0;
}

Status checkTable(const Table &table, const std::string &path, const Needs &needs)
{
    if (table.labels.empty())
        return badInput("no samples; give at least one row").in(path);
    if (table.columns != needs.perSample)
        return badInput("has " + std::to_string(table.columns) + " features in a sample, and the model's input \""
                        + needs.input + "\" wants " + std::to_string(needs.perSample)
                        + "; use data or a model that fits the other")
            .in(path);
    for (std::size_t row = 0; row < table.labels.size(); ++row) {
        const std::int64_t label = table.labels[row];
        const bool known = needs.classes == 0 || label < needs.classes;
        if (label >= 0 && known)
            continue;
        const std::int64_t number = table.firstRow + static_cast<std::int64_t>(row);
        return badInput(table.rowWord + " " + std::to_string(number) + " has label " + std::to_string(label)
                        + ", and the model tells " + std::to_string(needs.classes) + " classes apart, 0 to "
                        + std::to_string(needs.classes - 1) + "; renumber the labels or change the model")
            .in(path, table.rowWord == "line" ? static_cast<int>(number) : 0);
    }
    return {};
}

Result<Table> readTable(std::string_view contents, const std::string &path)
{
    if (looksLikeNpy(contents))
        return readNpy(contents, path);
    if (looksLikeIdx(contents))
        return readIdx(contents, path);
    if (path.find(".csv") != std::string::npos)
        return readCsv(contents, path);
    return badInput("is neither .npy, IDX nor .csv, and the model wants rows of features with a label; convert the "
                    "data to one of them")
        .in(path);
}

} // namespace

Result<Needs> needsOf(const graph::Graph &graph)
{
    std::vector<const Tensor *> inputs;
    for (const TensorId id : graph.withRole(graph::TensorRole::Input))
        inputs.push_back(&graph.tensor(id));
    const Error unfit = unsupported("the model's inputs are " + listed(inputs)
                                    + "; training can feed int64, float32 and bool inputs together with \"labels\" "
                                      "(int64), all with the samples as first dimension");
    Needs needs;
    for (const Tensor *tensor : inputs) {
        const bool known = tensor->type == DType::I64 || tensor->type == DType::F32 || tensor->type == DType::Bool;
        if (!known || !tensor->shape.batchLeading())
            return unfit;
        if (tensor->name != "labels") {
            needs.inputs.push_back({tensor->name, tensor->type, tensor->shape.elements(1), tableSize(graph, *tensor)});
            continue;
        }
        if (tensor->type != DType::I64)
            return unfit;
        needs.labels = tensor->name;
        needs.labelsPerSample = tensor->shape.elements(1);
    }
    if (needs.labels.empty() || needs.inputs.empty())
        return unfit;
    const Needs::Input &first = needs.inputs.front();
    needs.input = first.name;
    needs.perSample = first.perSample;
    needs.classes = classesOf(graph);
    needs.kind = Needs::Kind::Arrays;
    if (needs.inputs.size() == 1 && first.type == DType::I64 && needs.labelsPerSample == first.perSample)
        needs.kind = Needs::Kind::Tokens;
    else if (needs.inputs.size() == 1 && first.type == DType::F32 && needs.labelsPerSample == 1)
        needs.kind = Needs::Kind::Features;
    return needs;
}

Result<std::string> readMaybeCompressed(const std::string &path)
{
    Result<std::string> contents = readFile(path);
    if (!contents)
        return contents.error();
    if (contents->size() < 2 || (*contents)[0] != '\x1f' || (*contents)[1] != '\x8b')
        return contents;
    Result<std::string> inflated = gunzip(*contents);
    if (!inflated)
        return inflated.error().in(path);
    return inflated;
}

Result<std::int64_t> labelFrom(double value)
{
    if (std::nearbyint(value) != value || std::fabs(value) > 1e15)
        return badInput("label " + std::to_string(value)
                        + " is no whole number; the last column must be the class, counted from 0");
    return static_cast<std::int64_t>(value);
}

Result<std::unique_ptr<DataSet>> openDataSet(const std::string &path, const Needs &needs)
{
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown))
        return readArrays(path, needs);
    if (needs.kind == Needs::Kind::Arrays)
        return badInput("is one file, and the model's inputs are fed from a folder: one .npy file for each, named "
                        + arrayNames(needs))
            .in(path);
    Result<std::string> contents = readMaybeCompressed(path);
    if (!contents)
        return contents.error();
    if (contents->empty())
        return badInput("is empty; give a file with samples").in(path);
    if (needs.kind == Needs::Kind::Tokens) {
        if (looksLikeNpy(*contents))
            return badInput("is a .npy file, and a language model wants text or a token file (.bin, .u16, .u32); write "
                            "the tokens without a header")
                .in(path);
        return makeTokenData(std::move(*contents), tokenWidth(path), path, needs);
    }
    Result<Table> table = readTable(*contents, path);
    if (!table)
        return table.error();
    if (const Status status = checkTable(*table, path, needs); !status)
        return status.error();
    return std::unique_ptr<DataSet>(std::make_unique<TableData>(std::move(*table)));
}

} // namespace planloom::data
