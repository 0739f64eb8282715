// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/model/scope_graph.h"

#include <string>
#include <vector>

namespace planloom::ui {

/// What can be searched for in a model: its scopes, runs of repeated ones and operators, by name, type and attributes.
/// Made once for a model; then a search reads about 100 bytes an operator. Immutable.
class ModelSearch {
public:
    /// One that can be found.
    struct Entry {
        std::string key;        ///< as in GraphNode
        std::string name;       ///< without the scopes around it
        std::string shown;      ///< with them
        std::string type;       ///< "MatMul"; empty: a scope
        std::string attributes; ///< "axis=-1, eps=1e-05"
        std::string text;       ///< all of these in lower case
    };

    /// Cost: O(operators * (depth of scopes + attributes)).
    explicit ModelSearch(const ScopeGraph &scopes);

    /// Places in entries() that have all words of @p text, in any case, in the graph's order. A word with a '/' is
    /// looked for in the whole path, too. Nothing for an empty text.
    [[nodiscard]] std::vector<std::size_t> find(const std::string &text) const;
    [[nodiscard]] const std::vector<Entry> &entries() const { return m_entries; }

private:
    std::vector<Entry> m_entries;
};

} // namespace planloom::ui
