// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/analysis/kernels.h"

#include <string>
#include <vector>

namespace planloom::analysis {

/// Kernels of one name in two traces.
struct KernelChange {
    std::string name;
    std::string kind;     ///< its name
    Kernel a, b;          ///< count 0: it is not there
    double change = 0;    ///< of the duration of a run, B / A - 1; see kernelChanges()
    double error = 0;     ///< standard, of `change`
    bool isKnown = false; ///< false: too few runs, or one side has none
    bool isSure = false;  ///< `change` is no chance, see kernelChanges()
    double perStep = 0;   ///< nanoseconds by which all runs of a step take longer in B, of a step of a rank
};

/// Every name of either trace. Sure ones first, then by perStep's size, the largest first.
///
/// A kernel may run with several shapes, so that runs are compared place by place: the n-th of its name in a step of A
/// with the n-th in steps of B, if both have equally many a step and each place has two runs at least; else all runs
/// at once. `change` is the difference of the places' means, trimmed by a tenth at either end, against A's; its error
/// is Yuen's (winsorized variances, 1974). It is sure if it exceeds z standard errors, z² = 2 ln(20 k) with k kernels
/// compared: a chance of 1 in 20 that any of them all is called sure wrongly, for normal noise.
///
/// Steps of equal work are assumed. Cost: O(n log n) of both traces.
std::vector<KernelChange> kernelChanges(const trace::Trace &a, const trace::Trace &b);

} // namespace planloom::analysis
