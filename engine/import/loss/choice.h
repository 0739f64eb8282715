// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace planloom::import {

/// A loss that can be added to a model.
struct LossKind {
    const char *name;     ///< in `--loss`
    const char *type;     ///< the operator; empty: the output is the loss itself
    const char *text;     ///< "softmax cross-entropy"
    const char *settings; ///< that it has beside `weight`, separated by blanks
};
std::span<const LossKind> lossKinds();
/// "cross-entropy, binary-cross-entropy, mse, l1, huber, own".
std::string lossNames();

/// What to compare an output of a model with: "[OUTPUT=]NAME[,SETTING=VALUE]...".
struct LossChoice {
    const LossKind *kind = nullptr;
    std::string output;               ///< empty: the first one of floats
    double weight = 1;                ///< its share in the sum of several
    double delta = 1;                 ///< huber: where the square ends
    std::int64_t ignored = -100;      ///< cross-entropy: a label that does not count
    std::optional<std::int64_t> axis; ///< cross-entropy: of the classes; nothing: by the operators of the model
    bool mask = false;                ///< others: an input says which elements count
};

/// Errors (BadInput): unknown names and settings, with those that exist; numbers out of range.
Result<LossChoice> lossFromText(const std::string &text);
/// The shortest text that means the same.
std::string toText(const LossChoice &choice);
/// The kind named @p name, which must exist.
const LossKind &lossKind(std::string_view name);

} // namespace planloom::import
