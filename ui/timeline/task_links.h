// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace planloom::ui {

/// What a slice waited for, and what waits for it: the dependencies of its task and, where tasks start together, of the
/// other members of its group, in its own trace. No Qt in it.
struct TaskLinks {
    using Slice = TimelineModel::Slice;
    struct Link {
        Slice from;
        Slice to;
        bool determines = false; ///< the later one began when the earlier one ended
    };
    static constexpr std::size_t kMost = 200; ///< links of each kind that are kept

    std::vector<Link> causes;
    std::vector<Link> effects;
    std::vector<Slice> members; ///< that start together with it, without itself
    std::size_t causeCount = 0; ///< of all, those included of which there is no record, or which are not kept
    std::size_t effectCount = 0;

    /// Empty where the causes of the trace are not known. Cost: O(dependencies of the program).
    static TaskLinks of(const TimelineModel &model, const Slice &slice);
    [[nodiscard]] bool empty() const { return causes.empty() && effects.empty() && members.empty(); }
};

/// What the start of @p slice waited for last: a cause, or the slice before it on its lane, or on that of another
/// member of its group, whichever ended last. Nothing: it is the first.
std::optional<TimelineModel::Slice> causeOfStart(const TimelineModel &model, const TimelineModel::Slice &slice);

/// The effect of @p slice that starts first, one that starts at its end before others. Nothing: nothing waits for it.
std::optional<TimelineModel::Slice> nextEffect(const TimelineModel &model, const TimelineModel::Slice &slice);

} // namespace planloom::ui
