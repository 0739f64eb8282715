// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace planloom::compile {

/// A part of the parameters on the host (HostedPart) and its update.
struct PartUpdate {
    std::int64_t place = 0; ///< bytes, in the pool
    std::int64_t bytes = 0;
    double update = 0; ///< seconds, alone
    double in = 0;     ///< seconds of its copy to the device
    double out = 0;    ///< and back; negative: there is none
};

/// How it follows from those before.
struct PartCourse {
    /// Of the earlier parts whose place it has the last one, and the last that is copied back: the others are gone
    /// before, as parts come and go in their order.
    std::vector<std::size_t> awaits;
    double delay = 0; ///< seconds by which its update takes longer than alone, as copies run beside it
};

/// Updates of @p parts in their order, each as soon as its part is there, while later ones come and earlier ones go on
/// lanes of their own: copies take from updates what memory::CopyLoad of @p load says, as they do from the operators of
/// passes. The first part comes when nothing else runs. Cost: O(parts log parts).
std::vector<PartCourse> updateParts(const std::vector<PartUpdate> &parts, double load);

} // namespace planloom::compile
