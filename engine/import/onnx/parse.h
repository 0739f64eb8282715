// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/import/onnx/exact.h"

#include <memory>
#include <onnx/onnx_pb.h>
#include <string_view>

namespace planloom::import {

/// The bytes of an ONNX file. Errors (BadInput): damaged, too large, without a graph.
Result<std::unique_ptr<onnx::ModelProto>> parseOnnx(std::string_view bytes);

/// @p tensor's elements as a first value.
graph::Initializer dataInitializer(const TensorFile &tensor);

} // namespace planloom::import
