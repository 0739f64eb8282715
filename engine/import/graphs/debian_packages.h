// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/gnn/graph_data.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace planloom::import {

/// The dependency graph of a Debian archive from the text of its list of binary packages (Debian policy, §5 and §7).
/// A node is a package. An edge is Depends or Pre-Depends: of alternatives the first, of a virtual package the first
/// that provides it; names that are neither are left out, as are dependencies of a package on itself. The label is the
/// Section, of the ten that most packages have (by size, then name), else none. Features are @p width signed buckets of
/// the words of the short description (FNV-1a), of length 1; all 0 for a description without words.
/// Errors (BadInput), with the line: a paragraph without Package, no package at all, a width below 1.
/// Cost: linear in the text, and O(edges log edges).
Result<gnn::GraphData> debianDependencyGraph(std::string_view text, const std::string &path, std::int64_t width);

} // namespace planloom::import
