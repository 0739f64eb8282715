// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::data {

/// The inputs that a model needs, from its graph.
struct Needs {
    enum class Kind : std::uint8_t {
        Tokens,   ///< one input, int64, with a label each
        Features, ///< one input, float32, with one label a sample or with values as targets
        Arrays,   ///< any other: several inputs, or other numbers of labels
    };
    enum class Use : std::uint8_t {
        Feature,       ///< given to the model
        Labels,        ///< classes to compare with
        Values,        ///< numbers to compare with
        Probabilities, ///< the same, 0 to 1
        Mask,          ///< which elements are compared
    };
    /// One of the model's inputs, but for the labels that fillLabels() gives.
    struct Input {
        std::string name;
        graph::DType type = graph::DType::F32; ///< F32, I64 or Bool
        std::int64_t perSample = 0;            ///< elements
        std::int64_t limit = 0; ///< exclusive upper bound of its values: rows of a table, or classes; 0: no bound
        Use use = Use::Feature;
        std::int64_t ignored = -100; ///< Labels: one that does not count
        std::int64_t entries = 0;    ///< of offsets of lists (SpMM): how many entries a sample's lists have in all
    };
    Kind kind = Kind::Features;
    std::string input;          ///< name of the first graph input that is no target: "tokens", "x"
    std::string labels;         ///< the int64 input that fillLabels() gives, "labels"; empty: none
    std::int64_t perSample = 0; ///< tokens (int64) or features (float32) of one sample, of that input
    std::int64_t classes = 0;   ///< labels, and tokens, are smaller than this; 0: not known
    std::int64_t labelsPerSample = 0;
    std::vector<Input> inputs = {}; ///< all but `labels`, in the graph's order
    std::int64_t ignored = -100;    ///< a label that does not count

    /// The only target of values, which tables have in their last columns; nullptr if the targets are others.
    [[nodiscard]] const Input *values() const;
};

/// Error: Unsupported, if the model has no loss (with the remedy), no input, or an input that is not int64, float32 or
/// bool with the samples as first dimension.
Result<Needs> needsOf(const graph::Graph &graph);
/// "labels int64 [N, 64, 64]: 0 to 20, -100 does not count", for each target of the model. Empty without a loss.
std::vector<std::string> targetTexts(const graph::Graph &graph);

/// Samples of one file, all in memory. Immutable: any number of threads may read. Reading allocates nothing.
class DataSet {
public:
    virtual ~DataSet() = default;
    [[nodiscard]] virtual std::int64_t samples() const = 0;
    /// Needs::perSample elements of sample @p sample: int64 tokens or float32 features.
    virtual void fillInput(std::int64_t sample, void *out) const = 0;
    /// The same of the model's @p input-th input: Needs::inputs has the number and type of its elements.
    virtual void fillInputAt(std::size_t /*input*/, std::int64_t sample, void *out) const { fillInput(sample, out); }
    /// True if what is fed together depends on each other: each row of a mini-batch once. Such inputs are filled by
    /// fillBatch(); fillInputAt() gives a mini-batch of one sample.
    [[nodiscard]] virtual bool joinsBatches() const { return false; }
    /// All inputs of a mini-batch of @p samples: @p inputs has memory for each of Needs::inputs, or nullptr for those
    /// that are not wanted.
    virtual void fillBatch(std::span<const std::int64_t> /*samples*/, std::span<void *const> /*inputs*/) const {}
    /// Its labels, Needs::labelsPerSample of them: one per token, or one. Not called where Needs::labels is empty.
    virtual void fillLabels(std::int64_t sample, std::int64_t *out) const = 0;
};

/// Reads @p path, a file or a folder with a file for each input; resources/docs/formats/data.md lists the formats.
/// Errors, each naming the file and, where there is one, the line or row: NotFound, Io, BadInput (malformed, or a
/// mismatch with
/// @p needs, with the figures of data and model).
Result<std::unique_ptr<DataSet>> openDataSet(const std::string &path, const Needs &needs);

} // namespace planloom::data
