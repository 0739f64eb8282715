// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/sizes.h"

#include "engine/import/onnx/weights.h"

#include <fmt/format.h>
#include <utility>

namespace planloom::import {

std::int64_t DeclaredSizes::findBatch(const onnx::GraphProto &graph,
                                      const std::vector<const onnx::ValueInfoProto *> &inputs)
{
    for (const onnx::ValueInfoProto *input : inputs) {
        const auto &shape = input->type().tensor_type().shape();
        const int axis = batchAxisOf(graph, input->name());
        if (shape.dim_size() <= axis)
            continue;
        m_batchName = shape.dim(axis).dim_param();
        m_batchSize = shape.dim(axis).has_dim_value() ? shape.dim(axis).dim_value() : 0;
        break;
    }
    return m_batchSize;
}

Result<graph::Shape> DeclaredSizes::shapeOf(const onnx::TensorShapeProto &proto, const std::string &name, int batchAxis)
{
    std::vector<graph::Dim> dims;
    for (int axis = 0; axis < proto.dim_size(); ++axis) {
        const auto &dim = proto.dim(axis);
        if (dim.has_dim_value() && dim.dim_value() < 0)
            return badInput(fmt::format("'{}' has a negative size; the file is damaged", name));
        const bool isBatch = axis == batchAxis
            && (dim.has_dim_value() ? m_batchSize > 0 && dim.dim_value() == m_batchSize
                                    : dim.dim_param() == m_batchName);
        if (isBatch)
            dims.push_back({1, true});
        else if (dim.has_dim_value())
            dims.push_back({dim.dim_value(), false});
        else {
            m_open.insert(dim.dim_param().empty() ? fmt::format("dimension {} of '{}'", axis, name) : dim.dim_param());
            dims.push_back({kOpenDimension, false});
        }
    }
    return graph::Shape(std::move(dims));
}

} // namespace planloom::import
