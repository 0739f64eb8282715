// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "engine/sharding/sbp.h"

#include <vector>

namespace planloom::sharding {

inline Sbp split(int axis, std::vector<std::int64_t> segments = {})
{
    if (segments.size() == 1)
        segments.clear(); // one segment is the whole axis
    return {Sbp::Kind::Split, axis, std::move(segments)};
}
inline Sbp broadcast() { return {}; }
inline Sbp partial() { return {Sbp::Kind::Partial, 0, {}}; }
inline bool isSplit(const Sbp &sbp) { return sbp.kind == Sbp::Kind::Split; }
inline bool isPartial(const Sbp &sbp) { return sbp.kind == Sbp::Kind::Partial; }
inline bool isBroadcast(const Sbp &sbp) { return sbp.kind == Sbp::Kind::Broadcast; }

/// How an operator may lie on one dimension of a mesh: with its inputs like this, each device makes its outputs like
/// that from its inputs. Inputs that are left out are B.
struct Signature {
    std::vector<Sbp> inputs;
    std::vector<Sbp> outputs;
    friend bool operator==(const Signature &, const Signature &) = default;
};

/// An operator with its tensors, before this dimension of the mesh is applied (local to the dimensions further out).
struct OpAtHand {
    const graph::Op &op;
    std::vector<const graph::Tensor *> inputs; ///< nullptr: left out
    std::vector<const graph::Tensor *> outputs;
    int parts = 1; ///< devices in a line
    std::vector<Sbp> have =
        {}; ///< how the inputs lie so far (or nothing): splits with segments are proposed only where one comes in
};
OpAtHand atHand(const graph::Graph &graph, const graph::Op &op, int parts);

/// The 1-D signatures of OneFlow §2.4 and ours; all-B comes first. Only divisible ones: every segment of a split axis
/// by the parts; an axis that carries the batch is split inside each sample. On n dimensions an operator has their
/// product, one dimension after the other, each on the local operator of those before it. A type without rules has
/// all-B only.
std::vector<Signature> signatures(const OpAtHand &at);
/// Whether the type has a rule; an all-B rule counts, too.
bool hasSignatures(const graph::OpType &type);

/// The tensor's sizes on one device of a line of @p parts.
graph::Shape localShape(const graph::Shape &shape, const Sbp &sbp, int parts);
/// Whether @p sbp can lie on @p tensor: its axis is there, segments add up, and sizes divide.
bool canLie(const graph::Tensor &tensor, const Sbp &sbp, int parts);
/// Empty if it can; otherwise what is wrong.
std::string whyNot(const graph::Tensor &tensor, const Sbp &sbp, int parts);

/// The operator's attributes with sizes, head counts and groups as one device has them.
graph::Attributes localAttributes(const OpAtHand &at, const Signature &signature);

} // namespace planloom::sharding
