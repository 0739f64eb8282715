// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"
#include "engine/import/onnx/known_value.h"

#include <onnx/onnx_pb.h>

namespace planloom::import {

/// Conversion of half and double precision.
enum class Floats : std::uint8_t {
    Single, ///< all are read as float32, as training needs
    AsStored,
};

/// Our data type for an ONNX element type. False if there is none.
bool dataType(int onnxType, graph::DType &type, Floats floats = Floats::Single);

/// A tensor of an ONNX file: its sizes, and its elements in the file, beside it, or nowhere.
struct StoredTensor {
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> dims;
    graph::Initializer init; ///< Data or File
};

/// Errors (BadInput): a size that does not fit its data, external data that leads out of @p folder or past its file's
/// end.
Result<StoredTensor> readTensor(const onnx::TensorProto &proto, const std::string &folder,
                                Floats floats = Floats::Single);

/// The elements as numbers; nothing for data in another file or more than kMostFoldedElements elements.
std::optional<KnownValue> knownValue(const StoredTensor &tensor);

} // namespace planloom::import
