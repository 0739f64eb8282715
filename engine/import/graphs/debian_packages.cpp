// SPDX-License-Identifier: Apache-2.0
#include "engine/import/graphs/debian_packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::import {
namespace {

/// Fields of one package, borrowed from the list.
struct DebianPackage {
    std::string_view name;
    std::string_view section;
    std::string_view description;
    std::vector<std::string_view> depends; ///< Depends and Pre-Depends
    std::string_view provides;
    int line = 0;
};

std::string_view trimmed(std::string_view text)
{
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Calls @p visit with each part of @p text between two @p separators.
template <class Visit>
void eachPart(std::string_view text, char separator, const Visit &visit)
{
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (const std::string_view part = trimmed(text.substr(0, end)); !part.empty())
            visit(part);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// "libc6 (>= 2.34)", "python3:any": the package's name.
std::string_view nameIn(std::string_view relation) { return relation.substr(0, relation.find_first_of(" (:[<")); }

Status setField(DebianPackage &package, std::string_view line)
{
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos)
        return badInput("is no field: there is no colon; give the list of packages as apt has it");
    const std::string_view field = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (field == "Package")
        package.name = value;
    else if (field == "Section")
        package.section = value;
    else if (field == "Description")
        package.description = value;
    else if (field == "Depends" || field == "Pre-Depends")
        package.depends.push_back(value);
    else if (field == "Provides")
        package.provides = value;
    return {};
}

/// Paragraphs of fields; what continues a field on the next line is not among those that are read.
Result<std::vector<DebianPackage>> packagesIn(std::string_view text, const std::string &path)
{
    std::vector<DebianPackage> packages;
    DebianPackage package;
    int number = 0;
    while (!text.empty() || package.line > 0) {
        ++number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (trimmed(line).empty()) {
            if (package.line == 0)
                continue;
            if (package.name.empty())
                return badInput("begins a paragraph without a Package field; give the list of packages as apt has it")
                    .in(path, package.line);
            packages.push_back(std::exchange(package, {}));
            continue;
        }
        if (package.line == 0)
            package.line = number;
        if (line.front() == ' ' || line.front() == '\t')
            continue;
        if (Status status = setField(package, line); !status)
            return status.error().in(path, number);
    }
    if (packages.empty())
        return badInput("lists no package; run apt-get update").in(path);
    return packages;
}

std::vector<gnn::Edge> edgesOf(const std::vector<DebianPackage> &packages,
                               const std::unordered_map<std::string_view, std::int64_t> &number)
{
    std::unordered_map<std::string_view, std::int64_t> provider;
    for (const DebianPackage &package : packages) {
        eachPart(package.provides, ',',
                 [&](std::string_view provided) { provider.emplace(nameIn(provided), number.at(package.name)); });
    }
    std::vector<gnn::Edge> edges;
    for (const DebianPackage &package : packages) {
        const std::int64_t node = number.at(package.name);
        const auto depend = [&](std::string_view alternatives) {
            const std::string_view wanted = nameIn(trimmed(alternatives.substr(0, alternatives.find('|'))));
            auto found = number.find(wanted);
            if (found == number.end()) {
                found = provider.find(wanted);
                if (found == provider.end())
                    return;
            }
            if (found->second != node)
                edges.push_back({node, found->second});
        };
        for (const std::string_view depends : package.depends)
            eachPart(depends, ',', depend);
    }
    return edges;
}

std::vector<std::int32_t> labelsOf(const std::vector<DebianPackage> &packages)
{
    constexpr std::size_t kClasses = 10;
    std::map<std::string_view, std::int64_t> sizes;
    for (const DebianPackage &package : packages)
        ++sizes[package.section];
    sizes.erase(std::string_view());
    std::vector<std::pair<std::int64_t, std::string_view>> largest;
    for (const auto &[section, size] : sizes)
        largest.push_back({-size, section});
    std::sort(largest.begin(), largest.end());
    std::map<std::string_view, std::int32_t> classOf;
    for (std::size_t i = 0; i < std::min(kClasses, largest.size()); ++i)
        classOf[largest[i].second] = static_cast<std::int32_t>(i);
    std::vector<std::int32_t> labels;
    for (const DebianPackage &package : packages) {
        const auto found = classOf.find(package.section);
        labels.push_back(found == classOf.end() ? gnn::GraphData::kNoLabel : found->second);
    }
    return labels;
}

std::uint64_t fnv1a(std::string_view text)
{
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : text) {
        hash ^= static_cast<unsigned char>(c);
        hash *= 0x100000001b3U;
    }
    return hash;
}

void addFeatures(std::string_view description, std::int64_t width, std::vector<float> &features)
{
    std::vector<double> buckets(static_cast<std::size_t>(width));
    std::string word;
    const auto take = [&] {
        if (!word.empty()) {
            const std::uint64_t hash = fnv1a(word);
            buckets[hash % static_cast<std::uint64_t>(width)] += (hash >> 63) != 0 ? -1 : 1;
            word.clear();
        }
    };
    for (const char c : description) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else
            take();
    }
    take();
    double squares = 0;
    for (const double bucket : buckets)
        squares += bucket * bucket;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (const double bucket : buckets)
        features.push_back(static_cast<float>(bucket * scale));
}

} // namespace

Result<gnn::GraphData> debianDependencyGraph(std::string_view text, const std::string &path, std::int64_t width)
{
    constexpr std::int64_t kMostWidth = 65536;
    if (width < 1 || width > kMostWidth)
        return badInput(fmt::format("{} features a node; give 1 to {}", width, kMostWidth));
    auto listed = packagesIn(text, path);
    if (!listed)
        return listed.error();
    std::unordered_map<std::string_view, std::int64_t> number;
    std::vector<DebianPackage> packages; // of several versions the first
    for (DebianPackage &package : *listed) {
        if (number.emplace(package.name, static_cast<std::int64_t>(packages.size())).second)
            packages.push_back(std::move(package));
    }
    gnn::GraphData graph;
    graph.source = "debian";
    gnn::setEdges(graph, static_cast<std::int64_t>(packages.size()), edgesOf(packages, number));
    graph.labels = labelsOf(packages);
    graph.width = width;
    for (const DebianPackage &package : packages)
        addFeatures(package.description, width, graph.features);
    return graph;
}

} // namespace planloom::import
