// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <functional>
#include <onnx/onnx_pb.h>
#include <string>
#include <vector>

namespace planloom::import {

/// Node indices in an order in which every node comes after its producers; ties keep the file's order. @p given
/// tells the names that no node has to make. Errors (BadInput): a tensor made twice or by nothing, a cycle, each naming
/// the operator.
Result<std::vector<int>> sortNodes(const onnx::GraphProto &graph,
                                   const std::function<bool(const std::string &)> &given);

} // namespace planloom::import
