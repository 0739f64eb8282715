// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/model_search.h"

#include "ui/model/box_properties.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

namespace planloom::ui {
namespace {

std::string lowerCase(std::string text)
{
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return text;
}

std::string attributesText(const graph::Op &op)
{
    std::string text;
    for (const auto &[name, value] : op.attributes)
        text += (text.empty() ? "" : ", ") + name + "=" + attributeText(value).toStdString();
    return text;
}

bool hasWord(const ModelSearch::Entry &entry, const std::string &word)
{
    return entry.text.find(word) != std::string::npos
        || (word.find('/') != std::string::npos && lowerCase(entry.key).find(word) != std::string::npos);
}

} // namespace

ModelSearch::ModelSearch(const ScopeGraph &scopes)
{
    const auto add = [this](Entry entry) {
        // Words do not reach from one field into the next.
        entry.text = lowerCase(entry.name + "\n" + entry.type + "\n" + entry.attributes);
        m_entries.push_back(std::move(entry));
    };
    std::unordered_set<std::string> seen;
    for (const graph::Op &op : scopes.graph().ops()) {
        for (const std::string &scope : scopes.pathOf(op.id)) {
            if (seen.insert(scope).second)
                add({scope, scopes.titleOf(scope), scopes.isRun(scope) ? scopes.titleOf(scope) : scope, {}, {}, {}});
        }
        add({op.name, op.name.substr(op.name.rfind('/') + 1), op.name, op.type.name(), attributesText(op), {}});
    }
}

std::vector<std::size_t> ModelSearch::find(const std::string &text) const
{
    std::vector<std::string> words;
    std::istringstream parts(lowerCase(text));
    for (std::string word; parts >> word;)
        words.push_back(word);
    std::vector<std::size_t> hits;
    for (std::size_t i = 0; i < m_entries.size() && !words.empty(); ++i) {
        if (std::ranges::all_of(words, [&](const std::string &word) { return hasWord(m_entries[i], word); }))
            hits.push_back(i);
    }
    return hits;
}

} // namespace planloom::ui
