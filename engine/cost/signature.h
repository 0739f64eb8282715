// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <string>

namespace planloom::cost {

/// The properties that determine an operator's time, without its name and place: type, attributes, and type, sizes (the
/// batch as N) and layout of its inputs and outputs. Operators of equal signature take equally long for equally many
/// samples:
///     Gemm{transB=1}(f32[64N,128],f32[512,128],f32[512])->(f32[64N,512])
std::string signatureOf(const graph::Graph &graph, const graph::Op &op);

} // namespace planloom::cost
