// SPDX-License-Identifier: Apache-2.0
// The text layer profiles of the DAPPLE and PipeDream repositories: lines "id -- description --
// forward_compute_time=ms, ..." for nodes and indented "id -- id" for edges.
#include "engine/import/import.h"
#include "engine/import/model/profile_graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

namespace planloom::import {
namespace {

constexpr std::size_t kMostNodes = 100000;

struct ProfileNode {
    std::string id;
    std::string description;
    double forwardMs = 0;
    double backwardMs = 0;
    double activationBytes = 0;
    double parameterBytes = 0;
    int line = 0;
};

std::string_view trimmed(std::string_view text)
{
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> splitAt(std::string_view text, std::string_view separator)
{
    std::vector<std::string_view> parts;
    while (true) {
        const auto at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos)
            return parts;
        text.remove_prefix(at + separator.size());
    }
}

bool parseNumber(std::string_view text, double &value)
{
    text = trimmed(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && std::isfinite(value) && value >= 0;
}

/// A number, or "[a; b; c]", which is summed.
bool parseBytes(std::string_view text, double &sum)
{
    text = trimmed(text);
    if (text.empty() || text.front() != '[')
        return parseNumber(text, sum);
    if (text.back() != ']')
        return false;
    sum = 0;
    for (const std::string_view part : splitAt(text.substr(1, text.size() - 2), ";")) {
        double one = 0;
        if (!parseNumber(part, one))
            return false;
        sum += one;
    }
    return true;
}

class ProfileReader {
public:
    ProfileReader(std::string_view text, std::string name) : m_text(text), m_name(std::move(name)) {}

    Result<std::vector<ProfileLayerSpec>> read()
    {
        int line = 0;
        for (const std::string_view raw : splitAt(m_text, "\n")) {
            ++line;
            if (trimmed(raw).empty())
                continue;
            const bool edge = raw.front() == '\t' || raw.front() == ' ';
            const Status done = edge ? readEdge(trimmed(raw), line) : readNode(trimmed(raw), line);
            if (!done)
                return done.error().in(m_name, line);
        }
        dropNodes();
        return layers();
    }

private:
    Status readNode(std::string_view text, int line)
    {
        const auto first = text.find(" -- ");
        const auto last = text.rfind(" -- ");
        if (first == std::string_view::npos || first == last)
            return badInput("is not a node of a layer profile; write 'id -- description -- forward_compute_time=.., "
                            "backward_compute_time=.., activation_size=.., parameter_size=..'");
        ProfileNode node;
        node.id = trimmed(text.substr(0, first));
        node.description = trimmed(text.substr(first + 4, last - first - 4));
        node.line = line;
        if (const Status fields = readFields(text.substr(last + 4), node); !fields)
            return fields;
        if (m_nodes.size() >= kMostNodes)
            return badInput(fmt::format("has more than {} layers", kMostNodes));
        if (!m_index.emplace(node.id, m_nodes.size()).second)
            return badInput(fmt::format("node '{}' is given twice", node.id));
        m_nodes.push_back(std::move(node));
        return {};
    }

    static Status readFields(std::string_view text, ProfileNode &node)
    {
        const std::map<std::string_view, double *> wanted = {{"forward_compute_time", &node.forwardMs},
                                                             {"backward_compute_time", &node.backwardMs},
                                                             {"activation_size", &node.activationBytes},
                                                             {"parameter_size", &node.parameterBytes}};
        std::set<std::string_view> found;
        for (const std::string_view field : splitAt(text, ",")) {
            const auto equals = field.find('=');
            const std::string_view key = trimmed(field.substr(0, equals));
            const auto target = wanted.find(key);
            if (equals == std::string_view::npos || target == wanted.end())
                return badInput(fmt::format("has an unknown field '{}'", trimmed(field)));
            if (!parseBytes(field.substr(equals + 1), *target->second))
                return badInput(fmt::format("{} must be a number that is not negative, not '{}'", key,
                                            trimmed(field.substr(equals + 1))));
            found.insert(key);
        }
        if (found.size() != wanted.size())
            return badInput(
                "lacks one of forward_compute_time, backward_compute_time, activation_size and parameter_size");
        return {};
    }

    Status readEdge(std::string_view text, int line)
    {
        const auto parts = splitAt(text, " -- ");
        if (parts.size() != 2)
            return badInput("is not an edge of a layer profile; write 'id -- id'");
        m_edges.push_back({std::string(trimmed(parts[0])), std::string(trimmed(parts[1])), line});
        return {};
    }

    /// Source nodes that only feed data, and unused parts of tuples, are no layers.
    void dropNodes()
    {
        std::set<std::string> used;
        for (const Edge &edge : m_edges)
            used.insert(edge.from);
        m_dropped.assign(m_nodes.size(), false);
        for (std::size_t n = 0; n < m_nodes.size(); ++n) {
            const bool input = m_nodes[n].description.starts_with("Input");
            const bool unusedPart = m_nodes[n].description.starts_with("__getitem__") && !used.contains(m_nodes[n].id);
            m_dropped[n] = input || unusedPart;
        }
    }

    Result<std::vector<ProfileLayerSpec>> layers()
    {
        std::map<std::string, int> times;
        for (std::size_t n = 0; n < m_nodes.size(); ++n)
            if (!m_dropped[n])
                ++times[shortName(m_nodes[n])];
        std::vector<std::size_t> position(m_nodes.size(), 0);
        std::vector<ProfileLayerSpec> specs;
        for (std::size_t n = 0; n < m_nodes.size(); ++n) {
            if (m_dropped[n])
                continue;
            const ProfileNode &node = m_nodes[n];
            position[n] = specs.size();
            const std::string brief = shortName(node);
            specs.push_back({times[brief] == 1 ? brief : fmt::format("{} {}", node.id, brief),
                             node.forwardMs,
                             node.backwardMs,
                             node.activationBytes,
                             node.parameterBytes,
                             {},
                             false});
        }
        for (const Edge &edge : m_edges) {
            const auto from = m_index.find(edge.from);
            const auto to = m_index.find(edge.to);
            if (from == m_index.end() || to == m_index.end())
                return badInput(fmt::format("the edge names '{}', which is no node of this profile",
                                            from == m_index.end() ? edge.from : edge.to))
                    .in(m_name, edge.line);
            if (!m_dropped[from->second] && !m_dropped[to->second])
                specs[position[to->second]].inputs.push_back(position[from->second]);
        }
        for (std::size_t n = 0; n < m_nodes.size(); ++n)
            if (!m_dropped[n])
                specs[position[n]].inPlace = isInPlace(m_nodes[n], specs[position[n]], specs);
        return specs;
    }

    /// Said by the description, as PyTorch prints it, or implied: what takes no time and is no larger than an input is
    /// a view of it (View, Size, a part of a tuple) or computed into it.
    static bool isInPlace(const ProfileNode &node, const ProfileLayerSpec &layer,
                          const std::vector<ProfileLayerSpec> &layers)
    {
        const auto holds = [&](std::size_t input) { return layer.outputBytes <= layers[input].outputBytes; };
        if (layer.parameterBytes > 0 || !std::any_of(layer.inputs.begin(), layer.inputs.end(), holds))
            return false;
        const std::string &text = node.description;
        const bool said = text.find("inplace") != std::string::npos && text.find("inplace=False") == std::string::npos;
        return said || (layer.forwardMs == 0 && layer.backwardMs == 0);
    }

    static std::string shortName(const ProfileNode &node)
    {
        const std::string brief(trimmed(std::string_view(node.description).substr(0, node.description.find('('))));
        return brief.empty() ? node.id : brief;
    }

    struct Edge {
        std::string from, to;
        int line;
    };
    std::string_view m_text;
    std::string m_name;
    std::vector<ProfileNode> m_nodes;
    std::map<std::string, std::size_t> m_index;
    std::vector<Edge> m_edges;
    std::vector<bool> m_dropped;
};

/// "...-pbs-32.txt" names the profiled batch.
std::optional<double> batchFromName(std::string_view name)
{
    constexpr std::string_view kMark = "-pbs-";
    const auto at = name.rfind(kMark);
    double batch = 0;
    if (at != std::string_view::npos)
        std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), batch);
    return batch > 0 && std::isfinite(batch) ? std::optional(batch) : std::nullopt;
}

} // namespace

Result<Model> readLayerProfile(std::string_view text, const std::string &name, double profileBatch)
{
    const auto specs = ProfileReader(text, name).read();
    if (!specs)
        return specs.error();
    if (specs->empty())
        return badInput("holds no layers; it is not a layer profile").in(name);
    const auto slash = name.find_last_of('/');
    std::string brief = slash == std::string::npos ? name : name.substr(slash + 1);
    brief = brief.substr(0, brief.find(".txt"));
    auto model = profileModel(brief, profileBatch > 0 ? std::optional(profileBatch) : batchFromName(name), *specs);
    if (!model) {
        Error error = model.error();
        error.file = name; // the person knows the file, not the model's short name
        return error;
    }
    model->source = name;
    return model;
}

} // namespace planloom::import
