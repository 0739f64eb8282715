// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/import/import.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// An ONNX file read to be run forward as it is, which is how its results are compared with other programs'.
namespace planloom::import {

/// A serialized TensorProto: an input or output of ONNX's own backend tests.
struct TensorFile {
    std::string name;
    graph::DType type = graph::DType::F32;
    std::vector<std::int64_t> dims;
    std::vector<std::byte> data; ///< row-major
};

/// Errors: BadInput; Unsupported for an element type that we have not, such as a string.
Result<TensorFile> readTensorFile(std::string_view bytes, const std::string &name);

/// The value of a graph input.
struct FedInput {
    TensorFile tensor;  ///< with the input's name
    bool known = false; ///< the value may be used while reading: axes, shapes and counts are attributes in our language
};

/// Takes nothing for the batch or for a weight, keeps every data type, and adds no loss. The graph's inputs are those
/// of @p inputs that are not known; its outputs are the file's, in their order.
Result<Model> readOnnxExactly(std::string_view bytes, const std::string &name, const std::string &folder,
                              const std::vector<FedInput> &inputs);

/// Summary of a file, without reading its operators.
struct OnnxOutline {
    std::int64_t opset = 0;          ///< of ONNX's own operators; 0: it uses none
    std::vector<std::string> inputs; ///< in order, initializers left out
    std::vector<std::string> outputs;
    std::vector<std::string> operators; ///< types, sorted, each once; of another domain as "domain::Type"
    std::vector<std::string> constants; ///< inputs that an operator wants to know while the file is read
    std::string strangeType; ///< the type of an input or output that we have not: "sequence", "string", "uint16"
};

Result<OnnxOutline> outlineOf(std::string_view bytes);

} // namespace planloom::import
