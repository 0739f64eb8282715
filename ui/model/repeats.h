// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/graph/graph.h"

#include <string>
#include <vector>

namespace planloom::ui {

/// Sibling scopes that follow each other and have the same structure: operators of the same types, shapes and
/// attributes, wired alike, with parameters of the same shapes.
struct Repeat {
    std::string key;                 ///< "h/0 … 11": stands for all of them; no scope has this name
    std::string title;               ///< "h.0 … h.11"
    std::vector<std::string> scopes; ///< in the graph's order
};

/// Shorter runs are not worth a box of their own: opening it costs more than it saves.
inline constexpr std::size_t kFewestRepeats = 3;

/// All runs of at least kFewestRepeats scopes, outer before inner. Scopes of a run are numbered one after the other
/// ("h/0", "h/1"), or each reads what the one before makes; no operator stands between them. Structures are compared
/// by 64-bit hashes. Cost: O(operators * depth of scopes).
std::vector<Repeat> repeatsOf(const graph::Graph &graph);

/// "h/3/attn" as "h", "h/3", "h/3/attn"; nothing for the top.
std::vector<std::string> scopePaths(const std::string &scope);

/// The last part of @p path; a number stands behind the part before it: "mlp" of "h/3/mlp", "h.3" of "h/3".
std::string shortName(const std::string &path);

} // namespace planloom::ui
