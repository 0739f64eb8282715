// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/signatures.h"

#include <span>

// Shared by the files with signatures. A rule is written as rows: for each axis along which an operator can be split,
// the axis of every input and output that goes with it.
namespace planloom::sharding {

inline constexpr int kAll = -1; ///< instead of an axis: every device has the whole tensor
inline constexpr int kSum = -2; ///< the whole tensor is the sum over the devices

/// Collects the signatures that fit the tensors.
class Proposals {
public:
    explicit Proposals(const OpAtHand &at);

    /// Axes of the inputs and outputs; missing ones are kAll. Splits with segments that come in on a split input are
    /// proposed as well.
    void row(std::vector<int> inputs, std::vector<int> outputs);
    /// The same without segments.
    void plainRow(const std::vector<int> &inputs, const std::vector<int> &outputs);
    void add(Signature signature);
    /// All inputs in, all outputs out, as P: the operator is linear in all of them together.
    void linear();

    std::vector<Signature> take() { return std::move(m_found); }

private:
    [[nodiscard]] std::vector<std::vector<std::int64_t>> incomingSegments(const std::vector<int> &inputs) const;
    void addRow(const std::vector<int> &inputs, const std::vector<int> &outputs,
                const std::vector<std::int64_t> &segments);
    const OpAtHand &m_at;
    std::vector<Signature> m_found;
};

/// The signatures that operators of a type can have (OneFlow, SBP).
struct SignatureRule {
    const char *type;
    void (*propose)(const OpAtHand &, Proposals &); ///< nullptr: all-B only, on purpose
    /// Rewrites attributes that hold sizes; nullptr if there are none.
    void (*localize)(const OpAtHand &, const Signature &, graph::Attributes &) = nullptr;
};

/// The rule of an element-wise type without its own row: nullptr for others.
const SignatureRule *ruleByTraits(const graph::OpTraits &traits);
std::vector<SignatureRule> elementwiseRules();
std::vector<SignatureRule> matrixRules();
std::vector<SignatureRule> layerRules(); ///< normalisations, softmax, images, losses
std::vector<SignatureRule> shapingRules();
std::vector<SignatureRule> reductionRules();
std::vector<SignatureRule> indexingRules();
std::vector<SignatureRule> sparseRules();
std::vector<SignatureRule> boxingRules();

/// nullptr if the type has none. Cost: O(1).
const SignatureRule *findRule(const graph::OpType &type);

// Helpers for rules.

/// The operator's attribute `axis`, counted from the front.
int axisOf(const OpAtHand &at, std::int64_t fallback, std::size_t rank);
/// Where axis @p axis of a tensor of rank @p rank lies in @p shape under numpy's broadcasting; kAll if it is not there
/// or repeated.
int aligned(const graph::Shape &shape, std::size_t axis, const graph::Shape &whole);
/// Sets attributes `shape` and `batch_axis` to output 0's local shape.
void localizeShape(const OpAtHand &at, const Signature &signature, graph::Attributes &attributes);

} // namespace planloom::sharding
