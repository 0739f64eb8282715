// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/simulate/simulate.h"
#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planloom::ui {

/// The two clocks' traces as rows, one under the other per rank. No Qt in it. Thread contract: one thread at a time.
///
/// The time that is shown is the measured trace's. The predicted iteration is laid over one measured step (the anchor): its records
/// are shown offset() later than they say. Without a measured trace the offset is 0.
class TimelineModel {
public:
    static constexpr int kComputeHeight = 24; ///< pixels
    static constexpr int kLaneHeight = 13;
    static constexpr int kRowGap = 2;
    static constexpr int kGroupGap = 10;

    struct Row {
        bool measured = false;
        std::size_t group = 0;
        std::size_t lod = 0; ///< index into the level of detail's rows
        std::int16_t lane = 0;
        int y = 0; ///< pixels from the top of the content
        int height = 0;
    };
    /// The rows of one device.
    struct Group {
        std::string device;
        int stage = -1; ///< of its first compute task
        std::vector<int> stages; ///< of all its compute tasks, sorted
        int y = 0;
        int height = 0;
        double predictedIdle = -1; ///< share of the iteration in which the compute lane is idle; -1: no such rows
        double measuredIdle = -1;  ///< of the anchor step
    };
    /// A slice that somebody points at.
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

    void setPredicted(std::shared_ptr<const simulate::Simulation> simulation);
    void resetMeasured(const trace::Trace &measured);
    /// Records of @p measured from @p first on are new. Returns true if rows were added.
    bool appendMeasured(const trace::Trace &measured, std::size_t first);
    void setShowCommunication(bool show);
    [[nodiscard]] bool showsCommunication() const { return m_communication; }

    [[nodiscard]] const std::vector<Group> &groups() const { return m_groups; }
    [[nodiscard]] const std::vector<Row> &rows() const { return m_rows; }
    [[nodiscard]] int contentHeight() const { return m_height; }
    [[nodiscard]] const trace::Row &slices(const Row &row) const { return lod(row.measured).rows()[row.lod]; }
    [[nodiscard]] const trace::TaskInfo &task(bool measured, std::int32_t index) const;
    [[nodiscard]] bool empty() const { return m_rows.empty(); }
    [[nodiscard]] bool hasMeasured() const { return m_measuredLod.size() > 0; }
    [[nodiscard]] std::int64_t dropped() const { return m_dropped; }

    [[nodiscard]] std::int64_t begin() const;
    [[nodiscard]] std::int64_t end() const;
    [[nodiscard]] std::int64_t offset() const { return m_offset; } ///< of predicted records, nanoseconds

    [[nodiscard]] int steps() const { return static_cast<int>(m_steps.size()); }
    [[nodiscard]] int anchorStep() const { return m_anchor; }
    void setAnchorStep(int step);
    /// When the first task of @p step began and the last ended.
    [[nodiscard]] trace::Window step(int step) const { return m_steps[static_cast<std::size_t>(step)]; }

    [[nodiscard]] std::optional<std::size_t> rowAt(int y) const;
    [[nodiscard]] std::optional<std::size_t> rowOf(const Slice &slice) const;
    [[nodiscard]] std::optional<Slice> sliceAt(std::size_t row, double time, double tolerance) const;
    /// With its start as shown.
    [[nodiscard]] trace::Record record(const Slice &slice) const;
    [[nodiscard]] const trace::TaskInfo &task(const Slice &slice) const;
    [[nodiscard]] const std::string &device(const Slice &slice) const;

    /// The same task by the other clock: predicted → measured in the anchor step; measured → predicted.
    [[nodiscard]] std::optional<Slice> counterpart(const Slice &slice) const;
    [[nodiscard]] std::optional<Slice> onRow(const Slice &slice, int by) const;          ///< previous or next on its row
    [[nodiscard]] std::optional<Slice> alongMicroBatch(const Slice &slice, int by) const; ///< previous or next work on its micro-batch
    /// A slice of the task with this id on this device (any device if empty), predicted if there is one.
    [[nodiscard]] std::optional<Slice> find(std::string_view taskId, std::string_view device) const;
    /// All slices whose task id contains @p text, in time order, at most @p limit.
    [[nodiscard]] std::vector<Slice> search(std::string_view text, std::size_t limit = 100'000) const;
    /// Slices that overlap @p window (as shown), of the rows of one clock.
    [[nodiscard]] Totals totals(trace::Window window, bool measured) const;

private:
    [[nodiscard]] const trace::LevelOfDetail &lod(bool measured) const { return measured ? m_measuredLod : m_predictedLod; }
    /// The slice of task @p id among the rows of @p rank (and of @p lane, if not negative); of the anchor step, if measured.
    [[nodiscard]] std::optional<Slice> findIn(bool measured, int rank, int lane, std::string_view id) const;
    [[nodiscard]] std::optional<std::size_t> groupOf(const std::string &device) const;
    void noteSteps(const trace::Trace &measured, std::size_t first);
    void layOut();
    /// Adds the stages of @p row's tasks to @p stages; of a long row those of its beginning, in which every stage has its turn.
    void noteStages(bool measured, const trace::Row &row, std::vector<int> &stages) const;
    std::size_t groupFor(const std::string &device);
    void addRows(std::size_t group, bool measured, std::int16_t rank, int &y);
    void measureIdle();

    std::shared_ptr<const simulate::Simulation> m_predicted;
    trace::LevelOfDetail m_predictedLod;
    std::vector<trace::RankInfo> m_measuredRanks;
    std::vector<trace::TaskInfo> m_measuredTasks;
    trace::LevelOfDetail m_measuredLod;
    std::vector<trace::Window> m_steps;
    std::int64_t m_dropped = 0;
    int m_anchor = -1;
    std::int64_t m_offset = 0;
    bool m_communication = true;

    std::vector<Group> m_groups;
    std::vector<std::pair<int, int>> m_ranks; ///< per group: predicted rank, measured rank; -1: none
    std::vector<Row> m_rows;
    int m_height = 0;
};

} // namespace planloom::ui
