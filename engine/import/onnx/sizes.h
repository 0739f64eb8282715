// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/shape.h"

#include <cstdint>
#include <onnx/onnx_pb.h>
#include <set>
#include <string>
#include <vector>

namespace planloom::import {

/// Shapes as an ONNX file declares them: which of the sizes is the batch, and which are left open.
class DeclaredSizes {
public:
    /// Sizes other than the batch that a file leaves open (a sequence length, an image size) are bound to this.
    static constexpr std::int64_t kOpenDimension = 128;

    /// The batch is given by the first of @p inputs that has a place for it: a name, or a size, which is
    /// returned; 0: a name.
    std::int64_t findBatch(const onnx::GraphProto &graph, const std::vector<const onnx::ValueInfoProto *> &inputs);
    /// The shape of tensor @p name, whose batch, if it has one, is at @p batchAxis. Error (BadInput): a negative size.
    Result<graph::Shape> shapeOf(const onnx::TensorShapeProto &proto, const std::string &name, int batchAxis = 0);
    /// Sizes left open so far, by the names that the file gives.
    [[nodiscard]] const std::set<std::string> &open() const { return m_open; }

private:
    std::string m_batchName;
    std::int64_t m_batchSize = 0;
    std::set<std::string> m_open;
};

} // namespace planloom::import
