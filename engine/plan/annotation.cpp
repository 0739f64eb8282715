// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/annotation.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>

namespace planloom::plan {
namespace {

constexpr int kMostDevices = 65536;
constexpr std::size_t kNearNames = 4;
constexpr std::size_t kLongestScope = 512; // names nearer than that are not worth the table

bool within(std::string_view inner, std::string_view outer)
{
    return inner == outer || (inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '/');
}

/// Edit distance (Levenshtein), in O(a * b).
std::size_t distance(std::string_view a, std::string_view b)
{
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

std::vector<std::string> nearNames(std::string_view scope, std::vector<std::string> names)
{
    scope = scope.substr(0, kLongestScope);
    std::vector<std::pair<std::size_t, std::string>> ranked;
    for (std::string &each : names)
        ranked.emplace_back(distance(scope, std::string_view(each).substr(0, kLongestScope)), std::move(each));
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<std::string> near;
    for (std::size_t i = 0; i < std::min(kNearNames, ranked.size()); ++i)
        near.push_back(ranked[i].second);
    return near;
}

/// How much of a layer lies in a scope.
enum class Covers { None, Part, All };

Covers covers(std::string_view scope, const graph::Graph &graph, const graph::Layer &layer)
{
    if (within(layer.name, scope))
        return Covers::All;
    std::size_t inside = 0;
    std::size_t scoped = 0;
    for (OpId id = layer.first; id < layer.last; id = OpId(id.value + 1)) {
        const graph::Op &op = graph.op(id);
        const bool in = within(op.scope, scope) || op.name == scope;
        inside += in ? 1 : 0;
        scoped += in || !op.scope.empty() ? 1 : 0;
    }
    if (inside == 0)
        return Covers::None;
    return inside == scoped ? Covers::All : Covers::Part;
}

Result<AnnotatedLayers> layersOfOne(std::string_view scope, const graph::Graph &graph, const graph::LayerView &layers)
{
    AnnotatedLayers range{layers.size(), 0, 0};
    std::size_t count = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const Covers how = covers(scope, graph, layers.layers[i]);
        if (how == Covers::Part)
            return badInput(fmt::format(
                "scope \"{}\" is a part of layer {} ({}), and task graphs are made of whole layers; annotate \"{}\"",
                scope, i, layers.layers[i].name, layers.layers[i].name));
        if (how == Covers::None)
            continue;
        range.first = std::min(range.first, i);
        range.last = i + 1;
        ++count;
    }
    if (count == 0)
        return notFound(fmt::format("model {} has no scope \"{}\"; near it are {}", graph.name(), scope,
                                    fmt::join(nearNames(scope, annotatableScopes(graph, layers)), ", ")));
    if (count != range.last - range.first)
        return badInput(fmt::format("the layers of scope \"{}\" do not lie together, and a task graph is a run of "
                                    "layers; annotate parts of it, such as \"{}\"",
                                    scope, layers.layers[range.first].name));
    return range;
}

} // namespace

const char *name(Annotation::Kind kind) { return kind == Annotation::Kind::Split ? "split" : "replicate"; }

std::string strategyText(const Annotation &annotation)
{
    return annotation.devices > 0 ? fmt::format("{}:{}", name(annotation.kind), annotation.devices)
                                  : std::string(name(annotation.kind));
}

std::string toText(const Annotation &annotation) { return annotation.scope + "=" + strategyText(annotation); }

Result<Annotation> annotationFromText(std::string_view text)
{
    const Error form = badInput(fmt::format(
        "\"{}\" is not an annotation; write SCOPE=split:4, SCOPE=replicate:2 or SCOPE=replicate, with 1 to {} devices",
        text, kMostDevices));
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || equals == 0)
        return form;
    Annotation annotation;
    annotation.scope = text.substr(0, equals);
    std::string_view strategy = text.substr(equals + 1);
    const std::size_t colon = strategy.find(':');
    if (colon != std::string_view::npos) {
        const std::string_view number = strategy.substr(colon + 1);
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), annotation.devices);
        if (error != std::errc() || end != number.data() + number.size() || annotation.devices < 1
            || annotation.devices > kMostDevices)
            return form;
        strategy = strategy.substr(0, colon);
    }
    if (strategy == name(Annotation::Kind::Split))
        annotation.kind = Annotation::Kind::Split;
    else if (strategy != name(Annotation::Kind::Replicate))
        return form;
    return annotation;
}

Result<AnnotatedLayers> layersOfScope(std::string_view scope, const graph::Graph &graph, const graph::LayerView &layers)
{
    const std::size_t dots = scope.find("..");
    if (dots == std::string_view::npos || dots == 0 || dots + 2 == scope.size())
        return layersOfOne(scope, graph, layers);
    const auto begin = layersOfOne(scope.substr(0, dots), graph, layers);
    if (!begin)
        return begin.error();
    const auto end = layersOfOne(scope.substr(dots + 2), graph, layers);
    if (!end)
        return end.error();
    if (end->last <= begin->first)
        return badInput(
            fmt::format("scope \"{}\" ends before it begins; give the one that comes first in the model first", scope));
    return AnnotatedLayers{begin->first, end->last, 0};
}

Result<std::vector<AnnotatedLayers>> annotatedLayers(const std::vector<Annotation> &annotations,
                                                     const graph::Graph &graph, const graph::LayerView &layers)
{
    std::vector<AnnotatedLayers> ranges;
    bool others = false;
    for (std::size_t i = 0; i < annotations.size(); ++i) {
        if (annotations[i].scope == kOtherScopes) {
            if (std::exchange(others, true))
                return badInput("what is not annotated has two strategies; give one annotation of \"*\"");
            continue;
        }
        auto range = layersOfScope(annotations[i].scope, graph, layers);
        if (!range)
            return range.error();
        range->annotation = i;
        ranges.push_back(*range);
    }
    std::stable_sort(ranges.begin(), ranges.end(),
                     [](const AnnotatedLayers &a, const AnnotatedLayers &b) { return a.first < b.first; });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].first >= ranges[i - 1].last)
            continue;
        const std::string &a = annotations[ranges[i - 1].annotation].scope;
        const std::string &b = annotations[ranges[i].annotation].scope;
        if (a == b)
            return badInput(fmt::format("scope \"{}\" is annotated twice; leave one annotation out", a));
        return badInput(fmt::format(
            "annotations do not nest, but layer {} ({}) is in scope \"{}\" and in \"{}\"; annotate one of them",
            ranges[i].first, layers.layers[ranges[i].first].name, a, b));
    }
    return ranges;
}

std::vector<std::string> annotatableScopes(const graph::Graph &graph, const graph::LayerView &layers)
{
    std::vector<std::string> scopes;
    std::set<std::string, std::less<>> seen;
    const auto add = [&](std::string_view scope) {
        if (seen.contains(scope))
            return;
        seen.emplace(scope);
        scopes.emplace_back(scope);
    };
    std::set<std::string, std::less<>> refused;
    for (const graph::Layer &layer : layers.layers) {
        for (std::size_t slash = layer.name.find('/'); slash != std::string::npos;
             slash = layer.name.find('/', slash + 1)) {
            const std::string outer = layer.name.substr(0, slash);
            if (seen.contains(outer) || refused.contains(outer))
                continue;
            if (layersOfOne(outer, graph, layers))
                add(outer);
            else
                refused.insert(outer);
        }
        add(layer.name);
    }
    return scopes;
}

} // namespace planloom::plan
