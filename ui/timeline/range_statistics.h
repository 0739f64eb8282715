// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/level_of_detail.h"
#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace planloom::ui {

/// What happens in a range of time, by device, lane, kind and stage. Worked out in pieces, as ranges may hold millions
/// of slices. No Qt in it.
class RangeStatistics {
public:
    struct Entry {
        std::size_t group = 0; ///< of the model: the device
        bool measured = false;
        std::int32_t lane = 0;
        bool whole = false; ///< of all kinds of the lane
        trace::Kind kind = trace::Kind::Other;
        std::int32_t stage = -1;
        std::int64_t count = 0;   ///< slices that overlap the range
        std::int64_t busy = 0;    ///< nanoseconds of them within the range
        std::int64_t idle = -1;   ///< of the lane within the range; -1: of an entry that is not whole
        std::int64_t hidden = -1; ///< of `busy` beside the device's compute; -1: it is no communication
        std::int64_t sum = 0;     ///< whole durations
        std::int64_t least = 0;   ///< of them
        std::int64_t most = 0;
        [[nodiscard]] std::int64_t exposed() const { return hidden < 0 ? -1 : busy - hidden; }
        [[nodiscard]] std::int64_t mean() const { return count > 0 ? sum / count : 0; }
    };

    /// @p window as shown. The model must not change until it is complete.
    RangeStatistics(const TimelineModel &model, trace::Window window) : m_model(&model), m_window(window) {}

    [[nodiscard]] trace::Window window() const { return m_window; }
    /// Adds devices, until at least @p slices were added or all have been. True if all have. Cost: O(slices of these
    /// devices in the range log those of their compute lanes).
    bool add(std::size_t slices);
    /// By device, clock and lane, in each the whole lane first. Of rows that are hidden, too.
    [[nodiscard]] const std::vector<Entry> &entries() const { return m_entries; }
    [[nodiscard]] bool complete() const { return m_complete; }

private:
    using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>; ///< disjoint, ascending

    std::size_t addDevice(std::size_t group, bool measured);
    std::size_t addLane(std::size_t group, bool measured, std::size_t first, std::size_t last, const Spans &compute);
    /// When slices of rows [first, last) run, within the range, of that clock's own time.
    [[nodiscard]] Spans spansOf(bool measured, std::size_t first, std::size_t last) const;
    [[nodiscard]] trace::Window ownWindow(bool measured) const;

    const TimelineModel *m_model;
    trace::Window m_window;
    std::size_t m_nextGroup = 0;
    bool m_complete = false;
    std::vector<Entry> m_entries;
};

} // namespace planloom::ui
