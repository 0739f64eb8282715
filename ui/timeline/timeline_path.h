// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/base/result.h"
#include "engine/simulate/critical_path.h"
#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace planloom::ui {

/// The critical path (simulate::CriticalPath) of the prediction, or of the measured round that it lies beside, in terms
/// of slices. No Qt in it.
struct TimelinePath {
    struct Piece {
        TimelineModel::Slice slice;
        std::int64_t begin = 0; ///< as shown, nanoseconds
        std::int64_t end = 0;
        bool earlier = false; ///< it ran a period before the slice, which is not in the trace
    };
    struct Sum {
        std::string kind;
        std::int64_t nanoseconds = 0;
        std::int64_t count = 0;
    };
    bool measured = false;
    std::int64_t length = 0; ///< nanoseconds; what the sums and the waits come to
    std::int64_t waits = 0;
    int steps = 1;
    std::vector<Piece> pieces; ///< in the order of time
    std::vector<Sum> sums;     ///< by kind, the longest first
};

/// What is needed to find a critical path on another thread.
class PathRequest {
public:
    /// Errors: NotFound (no records, or it is not known what the trace's tasks waited for). Cost: of a measured trace
    /// O(records of the round log those).
    static Result<PathRequest> of(const TimelineModel &model, bool measured);
    /// Any thread. Cost: of a prediction O(its records log those), and what the walk costs.
    [[nodiscard]] Result<TimelinePath> answer() const;
    /// That it goes over.
    [[nodiscard]] std::size_t records() const { return m_measured ? m_shown.records.size() : m_index->lod().size(); }
    [[nodiscard]] bool measured() const { return m_measured; }

private:
    /// Records of a clock with the slices that show them.
    struct Shown {
        std::vector<trace::Record> records;
        std::vector<TimelineModel::Slice> slices;
    };
    [[nodiscard]] Shown recordsIn(trace::Window window) const;

    bool m_measured = false;
    TimelineModel::IndexPtr m_index;
    std::shared_ptr<const simulate::Simulation> m_simulation; ///< that has the causes
    simulate::PathOfSteps m_steps;
    std::int64_t m_offset = 0;
    Shown m_shown; ///< of a measured trace, which may grow meanwhile
};

} // namespace planloom::ui
