// SPDX-License-Identifier: Apache-2.0
#include "executor/data/data_set.h"

#include "engine/base/files.h"
#include "engine/graph/gradients/loss.h"
#include "executor/data/block_writer.h"
#include "executor/data/graph_folder.h"
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
    TableData(Table table, const Needs &needs) : m_table(std::move(table)), m_inputs(needs.inputs) {}
    [[nodiscard]] std::int64_t samples() const override { return m_table.rows(); }
    void fillInput(std::int64_t sample, void *out) const override
    {
        std::copy_n(m_table.features.data() + sample * m_table.columns, m_table.columns, static_cast<float *>(out));
    }
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        if (input >= m_inputs.size() || m_inputs[input].use == Needs::Use::Feature)
            return fillInput(sample, out);
        std::copy_n(m_table.targets.data() + sample * m_table.targetColumns, m_table.targetColumns,
                    static_cast<float *>(out));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override
    {
        *out = m_table.labels[static_cast<std::size_t>(sample)];
    }

private:
    Table m_table;
    std::vector<Needs::Input> m_inputs;
};

std::string listed(const std::vector<const Tensor *> &inputs)
{
    std::string text;
    for (const Tensor *input : inputs)
        text += (text.empty() ? "" : ", ") + input->name + " " + graph::name(input->type) + input->shape.text();
    return text.empty() ? "none" : text;
}

/// Rows of the table that @p indices looks up; 0 if it does something else.
std::int64_t tableSize(const graph::Graph &graph, const Tensor &indices)
{
    for (const OpId reader : graph.consumers(indices.id)) {
        const graph::Op &op = graph.op(reader);
        if (op.type == "SpMM" && op.inputs[1] == indices.id)
            return graph.tensor(op.inputs[2]).shape[0].size;
        if (op.type != "Gather" || op.inputs[1] != indices.id || op.integer("axis") != 0)
            continue;
        const graph::Shape &table = graph.tensor(op.inputs[0]).shape;
        return table.rank() == 0 ? 0 : table[0].size;
    }
    return 0;
}

/// Entries that the lists of @p offsets have for a sample; 0 if it is something else.
std::int64_t entriesBehind(const graph::Graph &graph, const Tensor &offsets)
{
    for (const OpId reader : graph.consumers(offsets.id)) {
        const graph::Op &op = graph.op(reader);
        if (op.type == "SpMM" && op.inputs[0] == offsets.id)
            return graph.tensor(op.inputs[1]).shape.elements(1);
    }
    return 0;
}

Status checkLabels(const Table &table, const std::string &path, const Needs &needs)
{
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

Status checkProbabilities(const Table &table, const std::string &path)
{
    const auto outside =
        std::find_if(table.targets.begin(), table.targets.end(), [](float value) { return value < 0 || value > 1; });
    if (outside == table.targets.end())
        return {};
    const std::int64_t row = table.firstRow + (outside - table.targets.begin()) / table.targetColumns;
    return badInput(table.rowWord + " " + std::to_string(row) + " has target " + std::to_string(*outside)
                    + ", and binary cross-entropy takes 0 to 1; rescale the targets, or plan with another --loss")
        .in(path, table.rowWord == "line" ? static_cast<int>(row) : 0);
}

Status checkTable(const Table &table, const std::string &path, const Needs &needs)
{
    if (table.rows() == 0)
        return badInput("no samples; give at least one row").in(path);
    const std::int64_t behind = std::max<std::int64_t>(1, table.targetColumns);
    if (!table.missing.empty() && table.columns + behind == needs.perSample)
        return badInput("has the model's " + std::to_string(needs.perSample) + " features in a sample and no "
                        + (table.targetColumns > 0 ? "targets" : "labels") + " behind them, and " + table.missing
                        + " is missing; save them there")
            .in(path);
    if (table.columns != needs.perSample)
        return badInput("has " + std::to_string(table.columns) + " features in a sample, and the model's input \""
                        + needs.input + "\" wants " + std::to_string(needs.perSample)
                        + "; use data or a model that fits the other")
            .in(path);
    if (needs.values() == nullptr)
        return checkLabels(table, path, needs);
    return needs.values()->use == Needs::Use::Probabilities ? checkProbabilities(table, path) : Status();
}

Result<Table> readTable(std::string_view contents, const std::string &path, std::int64_t targetColumns)
{
    if (looksLikeNpy(contents))
        return readNpy(contents, path, targetColumns);
    if (looksLikeIdx(contents) && targetColumns > 0)
        return badInput("holds images with class labels, and the model is compared with values; give .npy or .csv")
            .in(path);
    if (looksLikeIdx(contents))
        return readIdx(contents, path);
    if (path.find(".csv") != std::string::npos)
        return readCsv(contents, path, targetColumns);
    return badInput("is neither .npy, IDX nor .csv, and the model wants rows of features with a label; convert the "
                    "data to one of them")
        .in(path);
}

Needs::Use useOf(graph::Target::Use use)
{
    switch (use) {
    case graph::Target::Use::Labels: return Needs::Use::Labels;
    case graph::Target::Use::Values: return Needs::Use::Values;
    case graph::Target::Use::Probabilities: return Needs::Use::Probabilities;
    case graph::Target::Use::Mask: return Needs::Use::Mask;
    }
    return Needs::Use::Values;
}

/// The labels that fillLabels() gives: those named so, else the only ones.
TensorId labelsOf(const graph::Graph &graph, const std::vector<graph::Target> &targets)
{
    TensorId only;
    int count = 0;
    for (const graph::Target &target : targets) {
        if (target.use != graph::Target::Use::Labels)
            continue;
        if (graph.tensor(target.input).name == "labels")
            return target.input;
        only = target.input;
        ++count;
    }
    return count == 1 ? only : TensorId();
}

/// The inputs by what they are for.
Needs inputsByUse(const graph::Graph &graph, const std::vector<const Tensor *> &inputs)
{
    const std::vector<graph::Target> targets = graph::targetsOf(graph);
    const TensorId labels = labelsOf(graph, targets);
    Needs needs;
    for (const Tensor *tensor : inputs) {
        const std::int64_t elements = tensor->shape.elements(1);
        const auto target = std::find_if(targets.begin(), targets.end(),
                                         [&](const graph::Target &one) { return one.input == tensor->id; });
        if (target == targets.end()) {
            needs.inputs.push_back({tensor->name, tensor->type, elements, tableSize(graph, *tensor)});
            needs.inputs.back().entries = entriesBehind(graph, *tensor);
        } else if (target->input == labels) {
            needs.labels = tensor->name;
            needs.labelsPerSample = elements;
            needs.classes = target->classes;
            needs.ignored = target->ignored;
        } else {
            needs.inputs.push_back(
                {tensor->name, tensor->type, elements, target->classes, useOf(target->use), target->ignored});
        }
    }
    return needs;
}

Needs::Kind kindOf(const Needs &needs, const Needs::Input &first)
{
    const bool alone = needs.inputs.size() == 1 && !needs.labels.empty();
    if (alone && first.type == DType::I64 && needs.labelsPerSample == first.perSample)
        return Needs::Kind::Tokens;
    const bool labelled = alone && needs.labelsPerSample == 1;
    const bool valued = needs.inputs.size() == 2 && needs.values() != nullptr;
    return first.type == DType::F32 && (labelled || valued) ? Needs::Kind::Features : Needs::Kind::Arrays;
}

} // namespace

const Needs::Input *Needs::values() const
{
    const Input *found = nullptr;
    for (const Input &one : inputs) {
        if (one.use == Use::Feature)
            continue;
        if (found != nullptr || !labels.empty() || (one.use != Use::Values && one.use != Use::Probabilities))
            return nullptr;
        found = &one;
    }
    return found;
}

Result<Needs> needsOf(const graph::Graph &graph)
{
    if (!graph.loss().valid())
        return unsupported("the model has no loss, so it cannot be trained; plan it with --loss (planloom inspect "
                           "says what the model ends in)");
    std::vector<const Tensor *> inputs;
    for (const TensorId id : graph.withRole(graph::TensorRole::Input))
        inputs.push_back(&graph.tensor(id));
    for (const Tensor *tensor : inputs) {
        const bool known = tensor->type == DType::I64 || tensor->type == DType::F32 || tensor->type == DType::Bool;
        if (!known || !tensor->shape.batchLeading())
            return unsupported("the model's inputs are " + listed(inputs)
                               + "; training can feed int64, float32 and bool inputs, all with the samples as first "
                                 "dimension");
    }
    Needs needs = inputsByUse(graph, inputs);
    const auto first = std::find_if(needs.inputs.begin(), needs.inputs.end(),
                                    [](const Needs::Input &one) { return one.use == Needs::Use::Feature; });
    if (first == needs.inputs.end())
        return unsupported("the model's inputs are " + listed(inputs) + ", none of which meets a parameter");
    needs.input = first->name;
    needs.perSample = first->perSample;
    needs.kind = kindOf(needs, *first);
    return needs;
}

std::vector<std::string> targetTexts(const graph::Graph &graph)
{
    std::vector<std::string> texts;
    for (const graph::Target &target : graph::targetsOf(graph)) {
        const Tensor &tensor = graph.tensor(target.input);
        std::string text = tensor.name + " " + graph::name(tensor.type) + " " + tensor.shape.text();
        if (target.classes > 0)
            text += ": 0 to " + std::to_string(target.classes - 1) + ", " + std::to_string(target.ignored)
                + " does not count";
        if (target.use == graph::Target::Use::Probabilities)
            text += ": 0 to 1";
        if (target.use == graph::Target::Use::Mask)
            text += ": true counts";
        texts.push_back(std::move(text));
    }
    return texts;
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

Status Table::addTargets(std::span<const double> numbers)
{
    if (targetColumns > 0) {
        for (const double value : numbers)
            targets.push_back(static_cast<float>(value));
        return {};
    }
    const Result<std::int64_t> label = labelFrom(numbers.front());
    if (!label)
        return label.error();
    labels.push_back(*label);
    return {};
}

Result<std::int64_t> labelFrom(double value)
{
    if (std::nearbyint(value) != value || std::fabs(value) > 1e15)
        return badInput("label " + std::to_string(value)
                        + " is no whole number; the last column must be the class, counted from 0 (a model that is "
                          "compared with values is planned with --loss mse)");
    return static_cast<std::int64_t>(value);
}

Result<std::unique_ptr<DataSet>> openDataSet(const std::string &path, const Needs &needs)
{
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown) && isGraphFolder(path))
        return takesBlocks(needs) ? readGraphBlocks(path, needs) : readGraphTrees(path, needs);
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
    const std::int64_t targets = needs.values() != nullptr ? needs.values()->perSample : 0;
    Result<Table> table = readTable(*contents, path, targets);
    if (!table)
        return table.error();
    if (const Status status = checkTable(*table, path, needs); !status)
        return status.error();
    return std::unique_ptr<DataSet>(std::make_unique<TableData>(std::move(*table), needs));
}

} // namespace planloom::data
