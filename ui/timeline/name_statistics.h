// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/level_of_detail.h"
#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace planloom::ui {

/// What happens in a range of time, by name of task or kernel, over all devices. Worked out in pieces, as ranges may
/// hold millions of slices. No Qt in it.
class NameStatistics {
public:
    struct Entry {
        bool measured = false;
        std::string lane; ///< its name
        std::string name;
        trace::Kind kind = trace::Kind::Other;
        std::int64_t count = 0; ///< slices that overlap the range
        std::int64_t busy = 0;  ///< nanoseconds of them within the range
        double share = 0;       ///< of what runs on lanes of that name, by that clock
        std::int64_t sum = 0;   ///< whole durations
        std::int64_t least = 0;
        std::int64_t most = 0;
        [[nodiscard]] std::int64_t mean() const { return count > 0 ? sum / count : 0; }
    };

    /// @p window as shown. The model must not change until it is complete.
    NameStatistics(const TimelineModel &model, trace::Window window) : m_model(&model), m_window(window) {}

    /// Adds rows, until at least @p slices were added or all have been. True if all have. Cost: O(slices of these rows
    /// in the range log names).
    bool add(std::size_t slices);
    /// By clock and lane, in each the busiest first. Empty until all has been added.
    [[nodiscard]] const std::vector<Entry> &entries() const { return m_entries; }

private:
    struct Sums {
        trace::Kind kind = trace::Kind::Other;
        std::int64_t count = 0;
        std::int64_t busy = 0;
        std::int64_t sum = 0;
        std::int64_t least = 0;
        std::int64_t most = 0;
    };
    std::size_t addRow(bool measured, const trace::Row &row);
    void finish();

    const TimelineModel *m_model;
    trace::Window m_window;
    std::size_t m_next = 0; ///< row: of the predicted trace, then of the measured one
    std::map<std::tuple<bool, std::int32_t, std::string>, Sums, std::less<>> m_sums; ///< by clock, lane and name
    std::vector<Entry> m_entries;
};

} // namespace planloom::ui
