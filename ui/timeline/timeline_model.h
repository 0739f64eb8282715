// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/simulate/simulate.h"
#include "engine/trace/gauges.h"
#include "engine/trace/index.h"
#include "engine/trace/rounds.h"
#include "engine/trace/trace.h"
#include "ui/timeline/timeline_rows.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::ui {

/// The two clocks' traces as rows, one under the other per rank. No Qt in it. Thread contract: one thread at a time.
///
/// The time that is shown is the measured trace's. The predicted iteration, a round of one step or more
/// (trace::Rounds), is laid over one measured round (the anchor): its records are shown offset() later than they say.
/// Without a measured trace the offset is 0.
///
/// Indexes of whole traces are made by their loaders, away from the UI thread. The work here costs O(rows) where
/// rows are laid out anew, and not more than the slices or tasks that it names elsewhere.
class TimelineModel {
public:
    using IndexPtr = std::shared_ptr<const trace::Index>;

    using Row = TimelineRows::Row;
    using Group = TimelineRows::Group;
    using Range = TimelineRows::Range;
    /// The slice under the mouse.
    struct Slice {
        bool measured = false;
        std::size_t lod = 0;
        std::uint32_t index = 0;
        friend bool operator==(const Slice &, const Slice &) = default;
    };
    struct Totals {
        std::int64_t count = 0;
        std::int64_t busy = 0; ///< nanoseconds
    };
    /// An average of a bucket of parameters on one rank (exchange dasgd), as shown, nanoseconds: when the snapshot that
    /// it begins with was taken, and when its merge began. Nothing: that is not in the trace.
    struct Average {
        std::optional<std::int64_t> snapshot;
        std::optional<std::int64_t> merge;
    };

    struct StepBegin {
        std::int64_t step = 0;
        std::int64_t time = 0; ///< nanoseconds, as shown: when its first task began
    };

    TimelineModel();
    /// @p index: of simulation->trace; made here, if it is missing.
    void setPredicted(std::shared_ptr<const simulate::Simulation> simulation, IndexPtr index = nullptr);
    /// @p index: of @p measured, which then does not grow; made here, if it is missing. @p file: the same trace, where
    /// it is another program's, whose details are shown.
    void resetMeasured(const trace::Trace &measured, IndexPtr index = nullptr,
                       std::shared_ptr<const trace::Trace> file = nullptr);
    /// Records of @p measured from @p first on are new. Returns true if rows were added.
    bool appendMeasured(const trace::Trace &measured, std::size_t first);
    /// Whether @p measured is the trace that grows here, less its oldest records.
    [[nodiscard]] bool isRestOf(const trace::Trace &measured) const;
    /// @p index, of the first @p indexed records of @p measured, takes the place of the one that grows. Adds the
    /// records behind these. Cost: O(those + rows).
    void replaceGrowing(const trace::Trace &measured, std::shared_ptr<trace::Index> index, std::size_t indexed);
    /// Without the measured trace as long as it is not shown; it goes on growing.
    void setShowMeasured(bool show);
    [[nodiscard]] bool showsMeasured() const { return m_showMeasured; }
    void setShowCommunication(bool show);
    /// Which rows are shown, and where. It stays as it is from trace to trace.
    void setChoices(const RowChoices &choices);
    [[nodiscard]] const RowChoices &choices() const { return m_choices; }

    /// Where its rows stand.
    [[nodiscard]] const TimelineRows &layout() const { return m_layout; }
    [[nodiscard]] const std::vector<Group> &groups() const { return m_layout.groups(); }
    [[nodiscard]] const std::vector<Row> &rows() const { return m_layout.rows(); }
    /// Stages of the group's compute tasks, sorted.
    [[nodiscard]] std::vector<int> stages(const Group &group) const;
    /// Of its first compute task; -1: none.
    [[nodiscard]] int stage(const Group &group) const;
    /// Share of the predicted iteration in which the compute lane is idle, in the long run; -1: no such row.
    [[nodiscard]] double predictedIdle(const Group &group) const;

    [[nodiscard]] const trace::Row &slices(const Row &row) const { return lod(row.measured).rows()[row.lod]; }
    [[nodiscard]] const trace::TaskInfo &task(bool measured, std::int32_t index) const;
    /// Of a row that shows a value over time; nullptr: it shows tasks.
    [[nodiscard]] const trace::Gauge *gauge(const Row &row) const;
    [[nodiscard]] const trace::Tables &tables(bool measured) const { return index(measured).tables(); }
    /// Those that tasks have, of both clocks, each name once; the standard ones before there is a trace.
    [[nodiscard]] std::vector<trace::KindInfo> kinds() const;
    [[nodiscard]] bool empty() const { return rows().empty(); }
    [[nodiscard]] bool hasMeasured() const { return lod(true).size() > 0; }
    [[nodiscard]] std::int64_t dropped() const { return m_dropped; }
    /// "predicted"; "measured", or "simulated" where the other trace is a simulator's.
    [[nodiscard]] const char *clockName(bool measured) const
    {
        return !measured ? "predicted" : m_simulated ? "simulated" : "measured";
    }

    [[nodiscard]] std::int64_t begin() const;
    [[nodiscard]] std::int64_t end() const;
    [[nodiscard]] std::int64_t offset() const { return m_offset; } ///< of predicted records, nanoseconds

    [[nodiscard]] int steps() const { return static_cast<int>(m_measured->steps().size()); }
    /// The first step of the anchor; -1: nothing is measured.
    /// The first measured step of which there are records: of a run that was resumed, the step where it went on.
    [[nodiscard]] int firstStep() const;
    /// False: of this measured step there are no records.
    [[nodiscard]] bool hasStep(int step) const;
    [[nodiscard]] int anchorStep() const { return m_anchor; }
    /// The round that @p step is in becomes the anchor.
    void setAnchorStep(int step);
    /// Steps of a measured round.
    [[nodiscard]] int roundSteps() const { return std::max(tables(true).rounds.steps, 1); }
    /// The first step of the last round that is whole (trace::lastWholeRound); 0 without one.
    [[nodiscard]] int lastWholeRound() const;
    /// The measured round that @p step is in, as far as it has records.
    [[nodiscard]] trace::Round round(int step) const;
    /// When the first task of @p step began and the last ended.
    [[nodiscard]] trace::Window step(int step) const { return m_measured->steps()[static_cast<std::size_t>(step)]; }

    [[nodiscard]] std::optional<std::size_t> rowOf(const Slice &slice) const
    {
        return m_layout.rowOf(slice.measured, slice.lod);
    }
    [[nodiscard]] std::optional<Slice> sliceAt(std::size_t row, double time, double tolerance) const;
    /// With its start as shown.
    [[nodiscard]] trace::Record record(const Slice &slice) const;
    [[nodiscard]] const trace::TaskInfo &task(const Slice &slice) const;
    [[nodiscard]] const trace::KindInfo &kind(const Slice &slice) const;
    [[nodiscard]] const std::string &device(const Slice &slice) const;
    /// Nanoseconds in which it waited for the other members of its group (trace::Waits).
    [[nodiscard]] std::int64_t waiting(const Slice &slice) const;

    /// The same task by the other clock: predicted → measured in the anchor step; measured → predicted.
    [[nodiscard]] std::optional<Slice> counterpart(const Slice &slice) const;
    [[nodiscard]] std::optional<Slice> onRow(const Slice &slice, int by) const; ///< previous or next on its row
    [[nodiscard]] std::optional<Slice> alongMicroBatch(const Slice &slice,
                                                       int by) const; ///< previous or next work on its micro-batch
    /// Averages of the compute lane @p row whose snapshot or merge is in a step that @p window (as shown) touches; none
    /// where these are too many to be told apart. Cost: O(steps + those in the window * buckets * tasks of the lane in
    /// a step).
    [[nodiscard]] std::vector<Average> averages(const Row &row, trace::Window window) const;
    /// The steps that begin in @p window (as shown), in their order: of the measured trace, where it has any, else of a
    /// prediction that spans several; none where there is one step only, or where more than 500 of them do. Cost:
    /// O(steps).
    [[nodiscard]] std::vector<StepBegin> stepBegins(trace::Window window) const;
    /// When versions of a parameter server's parameters (program::ServerRows) were ready in @p window, both as shown,
    /// by one clock, ascending; nullopt where there are more than @p most. Cost: O(log slices + those in the window).
    [[nodiscard]] std::optional<std::vector<std::int64_t>> versions(bool measured, trace::Window window,
                                                                    std::size_t most) const;
    /// Whether that clock has a parameter server's tasks.
    [[nodiscard]] bool hasServer(bool measured) const { return server(measured) >= 0; }
    /// The slice of a task, by its place in the table of tasks, in a step of that clock's trace.
    [[nodiscard]] std::optional<Slice> sliceIn(bool measured, std::int32_t task, std::int32_t step) const;
    /// What the tasks of that clock's trace wait for, by their places in its table; nullptr: it is not known. A
    /// measured trace has the causes of the prediction that it lies beside, if its table begins with the same tasks.
    [[nodiscard]] const simulate::Causes *causes(bool measured) const;
    /// Of a slice of another program's trace: the call, or else the operator, that caused it, and what it caused, by
    /// start. Empty where the trace does not tell. Cost: O(those that it names * log slices).
    struct Related {
        std::vector<Slice> callers;
        std::vector<Slice> caused;
    };
    [[nodiscard]] Related related(const Slice &slice, std::size_t most) const;
    /// Whether its trace tells what caused it: by causes(), or as another program's.
    [[nodiscard]] bool knowsCauses(const Slice &slice) const;
    /// Lines "key: value" of another program's trace; empty: there are none.
    [[nodiscard]] std::string_view arguments(const Slice &slice) const;
    /// Index of a clock's trace, for what walks over all of it. The measured one may grow on this thread.
    [[nodiscard]] const trace::Index &traceIndex(bool measured) const { return index(measured); }
    [[nodiscard]] const IndexPtr &tracePointer(bool measured) const { return measured ? m_measured : m_predicted; }
    [[nodiscard]] const std::shared_ptr<const simulate::Simulation> &simulation() const { return m_simulation; }
    /// A slice of the task with this id on this device (any device if empty), predicted if there is one.
    [[nodiscard]] std::optional<Slice> find(std::string_view taskId, std::string_view device) const;
    /// All slices whose task id contains @p text, in time order, at most @p limit.
    [[nodiscard]] std::vector<Slice> search(std::string_view text, std::size_t limit = 100'000) const;
    /// Slices that overlap @p window (as shown), of those of @p rows (indexes into rows()) that are of one clock and
    /// show tasks.
    [[nodiscard]] Totals totals(trace::Window window, bool measured, Range rows) const;
    [[nodiscard]] Totals totals(trace::Window window, bool measured) const
    {
        return totals(window, measured, {0, rows().size()});
    }

private:
    [[nodiscard]] const trace::Index &index(bool measured) const { return measured ? *m_measured : *m_predicted; }
    [[nodiscard]] const trace::LevelOfDetail &lod(bool measured) const { return index(measured).lod(); }
    [[nodiscard]] std::optional<Slice> sliceOf(bool measured, std::int32_t task) const;
    [[nodiscard]] std::optional<Slice> sliceOf(bool measured, std::int32_t task, std::int32_t stepOfRound) const;
    [[nodiscard]] std::optional<Slice> findAnywhere(bool measured, std::string_view id) const;
    [[nodiscard]] std::int32_t server(bool measured) const; ///< its rank; -1: none
    [[nodiscard]] const Group *groupOf(const Slice &slice) const;
    [[nodiscard]] std::optional<std::size_t> numberInFile(const Slice &slice) const; ///< of its record in m_file
    void layOut();

    IndexPtr m_predicted;
    std::vector<double> m_idle; ///< per predicted rank that has a device; empty: not known
    IndexPtr m_measured;        ///< empty while it is not shown
    IndexPtr m_allMeasured;
    std::shared_ptr<trace::Index> m_growing;    ///< m_allMeasured, if it was made here
    std::shared_ptr<const trace::Trace> m_file; ///< null: m_measured is of no file
    bool m_showMeasured = true;
    bool m_simulated = false; ///< the second trace is from the simulator, too
    std::int64_t m_dropped = 0;
    int m_anchor = -1;
    std::int64_t m_offset = 0;
    RowChoices m_choices;
    std::shared_ptr<const simulate::Simulation> m_simulation; ///< the prediction
    mutable std::optional<bool> m_sameTasks; ///< the measured trace's table begins with the prediction's tasks
    TimelineRows m_layout;
    std::vector<std::int32_t> m_snapshots[2]; ///< per clock: tasks of that kind
    std::vector<trace::Gauge> m_gauges[2];    ///< per clock
};

} // namespace planloom::ui
