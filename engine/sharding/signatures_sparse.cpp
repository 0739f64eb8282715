// SPDX-License-Identifier: Apache-2.0
// Sums of rows by lists of entries: columns can be split, lists cannot, as offsets count all entries before them.
#include "engine/sharding/signature_rules.h"

namespace planloom::sharding {
namespace {

/// Offsets, indices, X, weights?: linear in X.
void spMM(const OpAtHand &, Proposals &to)
{
    to.plainRow({kAll, kAll, 1, kAll}, {1});
    to.plainRow({kAll, kAll, kSum, kAll}, {kSum});
}

/// dY, offsets, indices, weights?
void spMMGrad(const OpAtHand &, Proposals &to)
{
    to.plainRow({1, kAll, kAll, kAll}, {1});
    to.plainRow({kSum, kAll, kAll, kAll}, {kSum});
}

/// dY, offsets, indices, X: a sum over the columns.
void spMMWeightGrad(const OpAtHand &, Proposals &to)
{
    to.plainRow({1, kAll, kAll, 1}, {kSum});
    to.plainRow({kSum, kAll, kAll, kAll}, {kSum});
}

} // namespace

std::vector<SignatureRule> sparseRules()
{
    return {
        {"SpMM", spMM},
        {"SpMMGrad", spMMGrad, localizeShape},
        {"SpMMWeightGrad", spMMWeightGrad},
    };
}

} // namespace planloom::sharding
