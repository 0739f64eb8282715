// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"
#include "engine/graph/layers.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::plan {

/// The strategy that a user sets for a scope of the model: Whale's two primitives (Jia et al., USENIX ATC 2022, §3.1).
/// The layers of a scope form one task graph; task graphs one behind the other form a pipeline.
struct Annotation {
    enum class Kind : std::uint8_t {
        Replicate, ///< copies of the scope share out the samples
        Split,     ///< one copy, its tensors cut into parts
    };
    /// "h/3": that scope and what lies in it; "h/0..h/5": from the first to the last, whatever lies between; "*": what
    /// no other annotation names
    std::string scope;
    Kind kind = Kind::Replicate;
    int devices = 0; ///< replicas or parts; 0: as many as there are devices for
    friend bool operator==(const Annotation &, const Annotation &) = default;
};
const char *name(Annotation::Kind kind); ///< "replicate", "split"

/// "h/3=split:4", "*=replicate" and back. Error: BadInput that shows the accepted forms.
std::string toText(const Annotation &annotation);
Result<Annotation> annotationFromText(std::string_view text);
/// The part behind the "=": "split:4".
std::string strategyText(const Annotation &annotation);

inline constexpr const char *kOtherScopes = "*";

/// The layers [first, last) that an annotation is about.
struct AnnotatedLayers {
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t annotation = 0; ///< position in the list
};

/// The layers of @p scope. Errors: NotFound that lists names near @p scope; BadInput where it is only a part of a
/// layer, or its layers do not lie together. Cost: O(operators).
Result<AnnotatedLayers> layersOfScope(std::string_view scope, const graph::Graph &graph,
                                      const graph::LayerView &layers);

/// The layers of every annotation but "*", in the model's order. Errors (BadInput) besides those of layersOfScope: a
/// scope that is annotated twice, or lies in another that is annotated.
Result<std::vector<AnnotatedLayers>> annotatedLayers(const std::vector<Annotation> &annotations,
                                                     const graph::Graph &graph, const graph::LayerView &layers);

/// Scopes that may be annotated, in the model's order: those of whole layers, outer ones before what lies in them.
std::vector<std::string> annotatableScopes(const graph::Graph &graph, const graph::LayerView &layers);

} // namespace planloom::plan
