// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/analysis/clock_skew.h"
#include "engine/analysis/device_time.h"
#include "engine/analysis/kernels.h"
#include "engine/analysis/lateness.h"
#include "engine/trace/trace.h"
#include "ui/widgets/data_table.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace planloom::ui {

/// What engine/analysis finds in a trace, as tables. No widget.
struct TraceFindings {
    enum class What { Ranks, Collectives, Devices, Kernels }; ///< tables

    std::shared_ptr<const trace::Trace> trace;
    trace::Window window; ///< that devices and kernels are of
    analysis::Collectives collectives;
    analysis::ClockSkew skew;
    std::vector<std::size_t> latest; ///< of collectives.all, by how far the last one was behind
    std::vector<analysis::RankLateness> ranks;
    std::vector<analysis::DeviceTime> devices;
    std::vector<analysis::Kernel> kernels;

    /// Of @p window, else of all. Collectives, clocks and late ranks are always of all. Cost: O(n log n).
    static TraceFindings in(std::shared_ptr<const trace::Trace> trace, const std::optional<trace::Window> &window);

    [[nodiscard]] const std::string &device(std::int32_t rank) const;
    /// The collective that a row of a table is about; of a rank the one that waited longest for it. Nothing: the table
    /// has none, or the rank came last to none.
    [[nodiscard]] std::optional<std::size_t> collectiveOf(What what, int row) const;
    /// A line above the table.
    [[nodiscard]] QString title(What what) const;
    /// How far the clocks are apart and how sure that is; empty: there is one clock.
    [[nodiscard]] QString skewText() const;
    /// Who came last, by how much, and why.
    [[nodiscard]] QString lateText(std::size_t collective, const analysis::LateCause &cause) const;
};

using FindingsPtr = std::shared_ptr<const TraceFindings>;

/// Rows of many collectives are made when they are shown; the table keeps @p findings.
TableData findingsTable(const FindingsPtr &findings, TraceFindings::What what);
/// All rows with a header; times in seconds for kernels, else in nanoseconds.
std::string findingsCsv(const FindingsPtr &findings, TraceFindings::What what);

} // namespace planloom::ui
