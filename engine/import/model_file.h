// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"

#include <string>

namespace planloom::import {

/// Whether @p graph, as a plan file holds it, is trained with its model's file @p source at hand, and the weights
/// beside that: first values are there and not in the plan. Reads the file if so, as a plan may name any file as its
/// model's. Errors: those of withFirstValues() (import.h), whose code this shares.
Result<bool> needsModelFile(const graph::Graph &graph, const std::string &source);

} // namespace planloom::import
