// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"

#include <cstdint>
#include <memory>
#include <string>

namespace planloom::data {

/// What a model wants to be fed, read off its graph's inputs.
struct Needs {
    enum class Kind : std::uint8_t { Tokens, Features };
    Kind kind = Kind::Features;
    std::string input;              ///< name of the graph input: "tokens", "x"
    std::string labels;             ///< "labels"
    std::int64_t perSample = 0;     ///< tokens (int64) or features (float32) of one sample
    std::int64_t classes = 0;       ///< labels, and tokens, are smaller than this; 0: not known
};

/// Error: Unsupported, if the inputs are not tokens (int64) or features (float32) with labels (int64).
Result<Needs> needsOf(const graph::Graph &graph);

/// Samples of one file, all in memory. Immutable: any number of threads may read. Reading allocates nothing.
class DataSet {
public:
    virtual ~DataSet() = default;
    [[nodiscard]] virtual std::int64_t samples() const = 0;
    /// Needs::perSample elements of sample @p sample: int64 tokens or float32 features.
    virtual void fillInput(std::int64_t sample, void *out) const = 0;
    /// Its labels: one per token, or one.
    virtual void fillLabels(std::int64_t sample, std::int64_t *out) const = 0;
};

/// Reads @p path; the README of this folder lists the formats. Errors, each naming the file and, where there is one, the line or row:
/// NotFound, Io, BadInput (malformed, or not what @p needs wants: says what the data has and what the model wants).
Result<std::unique_ptr<DataSet>> openDataSet(const std::string &path, const Needs &needs);

} // namespace planloom::data
