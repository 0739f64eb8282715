// SPDX-License-Identifier: Apache-2.0
#include "engine/base/files.h"
#include "executor/data/readers.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

namespace planloom::data {
namespace {

using graph::DType;

/// One file, held as it is; read into the model's type sample by sample.
struct Column {
    std::string contents;
    NpyArray array; ///< of contents
    std::int64_t perSample = 0;
    DType type = DType::F32;
    Needs::Use use = Needs::Use::Feature;

    [[nodiscard]] std::int64_t samples() const { return array.shape[0]; }

    void fill(std::int64_t sample, void *out) const
    {
        const std::int64_t first = sample * perSample;
        const bool asStored = (type == DType::F32 && array.type == "f4") || (type == DType::I64 && array.type == "i8")
            || (type == DType::Bool && array.type == "b1");
        if (asStored) {
            std::memcpy(out, array.elements.data() + static_cast<std::size_t>(first) * array.width,
                        static_cast<std::size_t>(perSample) * array.width);
            return;
        }
        const double scale = array.type == "u1" && use == Needs::Use::Feature ? 1.0 / 255 : 1;
        for (std::int64_t i = 0; i < perSample; ++i) {
            const double value = array.at(first + i);
            if (type == DType::F32)
                static_cast<float *>(out)[i] = static_cast<float>(value * scale);
            else if (type == DType::I64)
                static_cast<std::int64_t *>(out)[i] = static_cast<std::int64_t>(value);
            else
                static_cast<std::uint8_t *>(out)[i] = value != 0 ? 1 : 0;
        }
    }
};

class ArrayData final : public DataSet {
public:
    ArrayData(std::vector<std::unique_ptr<Column>> inputs, std::unique_ptr<Column> labels)
        : m_inputs(std::move(inputs)),
          m_labels(std::move(labels))
    {
    }
    [[nodiscard]] std::int64_t samples() const override { return m_inputs.front()->samples(); }
    void fillInput(std::int64_t sample, void *out) const override { m_inputs.front()->fill(sample, out); }
    void fillInputAt(std::size_t input, std::int64_t sample, void *out) const override
    {
        m_inputs[input]->fill(sample, out);
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override { m_labels->fill(sample, out); }

private:
    std::vector<std::unique_ptr<Column>> m_inputs;
    std::unique_ptr<Column> m_labels;
};

std::string sampleText(std::int64_t element, const Column &column)
{
    return "sample " + std::to_string(element / column.perSample);
}

/// Bytes are pixels where they are given to the model; how many of them make 1 where a result is compared with them,
/// the model's author knows.
Status checkType(const Column &column, const std::string &path)
{
    if (column.type == DType::I64 && column.array.isReal())
        return badInput(column.use == Needs::Use::Labels
                            ? "holds real numbers where the model wants class numbers; save int64, or plan with --loss "
                              "mse to compare with values"
                            : "holds real numbers where the model wants integers; save it as int64")
            .in(path);
    if (column.use == Needs::Use::Mask && column.array.type != "b1")
        return badInput("holds numbers where the model wants true or false; save bool").in(path);
    if (column.use == Needs::Use::Values && column.array.type == "u1")
        return badInput("holds bytes, and the model's results are compared with it: save float32 in the results' scale")
            .in(path);
    return {};
}

/// The range [0, limit) or [0, 1] that every element is in, if there is one.
struct Range {
    double below = 0;
    bool closed = false; ///< `below` is in it
    [[nodiscard]] bool has(double value) const { return value >= 0 && (value < below || (closed && value == below)); }
};

std::optional<Range> rangeOf(const Needs::Input &need)
{
    if (need.use == Needs::Use::Probabilities)
        return Range{1, true};
    if (need.type == DType::I64 && need.limit > 0)
        return Range{static_cast<double>(need.limit), false};
    return {};
}

/// Integers below the need's limit, of labels also the ignored one, or real numbers that are finite.
Status checkElements(const Column &column, const std::string &path, const Needs::Input &need)
{
    const std::optional<Range> range = rangeOf(need);
    const std::int64_t count = column.samples() * column.perSample;
    for (std::int64_t i = 0; i < count; ++i) {
        const double value = column.array.at(i);
        if (!std::isfinite(value))
            return badInput(sampleText(i, column) + " is not finite; clean the data").in(path);
        const bool skipped = need.use == Needs::Use::Labels && value == static_cast<double>(need.ignored);
        if (!range || skipped || range->has(value))
            continue;
        if (range->closed)
            return badInput(sampleText(i, column) + " holds " + std::to_string(value)
                            + ", and binary cross-entropy takes 0 to 1; rescale the targets, or plan with another "
                              "--loss")
                .in(path);
        return badInput(sampleText(i, column) + " holds " + std::to_string(static_cast<std::int64_t>(value))
                        + ", and the model takes 0 to " + std::to_string(need.limit - 1)
                        + "; use data made for this model")
            .in(path);
    }
    return {};
}

Result<std::unique_ptr<Column>> readColumn(const std::string &path, const Needs::Input &need)
{
    auto contents = readFile(path);
    if (!contents)
        return contents.error();
    if (!looksLikeNpy(*contents))
        return badInput("is no .npy file; save the array with numpy.save").in(path);
    auto column = std::make_unique<Column>();
    column->contents = std::move(*contents);
    auto array = parseNpy(column->contents, path);
    if (!array)
        return array.error();
    column->array = std::move(*array);
    column->type = need.type;
    column->use = need.use;
    column->perSample = 1;
    for (std::size_t axis = 1; axis < column->array.shape.size(); ++axis)
        column->perSample *= column->array.shape[axis];
    if (column->array.shape.empty() || column->perSample != need.perSample)
        return badInput("has " + std::to_string(column->perSample) + " elements in a sample, and the model's input \""
                        + need.name + "\" wants " + std::to_string(need.perSample)
                        + "; use data or a model that fits the other")
            .in(path);
    if (const Status status = checkType(*column, path); !status)
        return status.error();
    if (const Status status = checkElements(*column, path, need); !status)
        return status.error();
    return column;
}

} // namespace

std::string arrayNames(const Needs &needs)
{
    std::string names;
    for (const Needs::Input &input : needs.inputs)
        names += input.name + ".npy, ";
    if (needs.labels.empty())
        names.resize(names.size() - 2);
    return needs.labels.empty() ? names : names + needs.labels + ".npy";
}

Result<std::unique_ptr<DataSet>> readArrays(const std::string &folder, const Needs &needs)
{
    const std::filesystem::path in(folder);
    const std::string wanted = "; the folder must hold " + arrayNames(needs);
    const auto read = [&](const Needs::Input &need) -> Result<std::unique_ptr<Column>> {
        const std::string path = (in / (need.name + ".npy")).string();
        std::error_code unknown;
        if (!std::filesystem::exists(path, unknown))
            return Error{ErrorCode::NotFound, "is missing" + wanted, path, 0};
        return readColumn(path, need);
    };
    std::unique_ptr<Column> labels;
    if (!needs.labels.empty()) {
        auto column =
            read({needs.labels, DType::I64, needs.labelsPerSample, needs.classes, Needs::Use::Labels, needs.ignored});
        if (!column)
            return column.error();
        labels = *std::move(column);
    }
    std::vector<std::unique_ptr<Column>> inputs;
    for (const Needs::Input &need : needs.inputs) {
        auto column = read(need);
        if (!column)
            return column.error();
        const Column &first = labels ? *labels : inputs.empty() ? **column : *inputs.front();
        if ((*column)->samples() != first.samples())
            return badInput("has " + std::to_string((*column)->samples()) + " samples and "
                            + (labels ? needs.labels : needs.inputs.front().name) + ".npy has "
                            + std::to_string(first.samples()) + "; save as many of each")
                .in((in / (need.name + ".npy")).string());
        inputs.push_back(*std::move(column));
    }
    return std::unique_ptr<DataSet>(std::make_unique<ArrayData>(std::move(inputs), std::move(labels)));
}

} // namespace planloom::data
