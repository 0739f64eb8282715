// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/level_of_detail.h"
#include "engine/trace/trace.h"
#include "engine/trace/waits.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::trace {

/// Different texts, numbered as they come, which stay where they are. A trace has hundreds of thousands of ids: they
/// are found by a table of numbers and not by one of allocated nodes. Thread contract: as for a vector.
class Names {
public:
    /// Room for so many texts.
    void reserve(std::size_t texts);
    /// The number of @p text; a new one if it has none yet.
    std::uint32_t add(std::string_view text);
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view text) const;
    [[nodiscard]] const std::vector<std::string_view> &texts() const { return m_texts; } ///< by number

private:
    [[nodiscard]] std::size_t slotOf(std::string_view text) const; ///< its own, or the one where it would be
    void spread(std::size_t slots);

    std::vector<std::string_view> m_texts;
    std::vector<std::uint32_t> m_slots; ///< a power of two of them, half of them free at least: numbers + 1; 0: free
};

/// A trace as views ask for it: rows of slices, and where a task, a step or a micro-batch is among them. A task belongs
/// to one rank and one lane, those of its first record. About 26 bytes a slice and 30 a task beside the tables.
///
/// Making one of a whole trace costs O(records + tasks) and, for a trace of one step, O(records log records): it is
/// done away from the UI thread. Thread contract: const members from any thread while none appends.
class Index {
public:
    /// A slice: a row of lod().rows() and its place there. Valid until the next append().
    struct Slice {
        std::uint32_t row = 0;
        std::uint32_t index = 0;
        friend auto operator<=>(const Slice &, const Slice &) = default;
    };

    Index() : Index(std::make_shared<const Tables>()) {}
    /// Without records yet.
    explicit Index(std::shared_ptr<const Tables> tables);
    /// Of a whole trace, which it keeps.
    explicit Index(const std::shared_ptr<const Trace> &trace);

    /// Adds records, in any order. Cost: amortised O(1) each where they are sorted.
    void append(std::span<const Record> records);

    [[nodiscard]] const Tables &tables() const { return *m_tables; }
    [[nodiscard]] const LevelOfDetail &lod() const { return m_lod; }
    [[nodiscard]] const Waits &waits() const { return m_waits; }
    [[nodiscard]] Record record(const Slice &slice) const { return m_lod.rows()[slice.row].record(slice.index); }

    /// From the first start of each step to its last end; of a step without records begin > end.
    [[nodiscard]] const std::vector<Window> &steps() const { return m_steps; }
    /// The rank on this device; -1: none.
    [[nodiscard]] std::int32_t rankOn(std::string_view device) const;
    /// Rows of @p rank: [first, last).
    [[nodiscard]] std::pair<std::size_t, std::size_t> rowsOf(std::int32_t rank) const;
    /// Stages of the tasks that @p rank computes, sorted.
    [[nodiscard]] std::span<const std::int32_t> stagesOf(std::int32_t rank) const;

    /// True if a task is of this row of the table of kinds.
    [[nodiscard]] bool hasKind(std::size_t kind) const { return kind < m_hasKind.size() && m_hasKind[kind]; }
    /// Rank of a task; -1 if it has no record.
    [[nodiscard]] std::int32_t rankOf(std::int32_t task) const;
    /// Tasks with this id, one per rank that has it; of a whole trace in the order of ranks.
    [[nodiscard]] std::span<const std::int32_t> tasksCalled(std::string_view id) const;
    /// The task with this id on @p rank; -1: none. Cost: O(log ranks that have it); O(those) after append().
    [[nodiscard]] std::int32_t taskOn(std::int32_t rank, std::string_view id) const;
    /// The slice of @p task in @p step; the first one if @p step is negative. Cost: O(tasks of its lane in the step).
    [[nodiscard]] std::optional<Slice> find(std::int32_t task, std::int32_t step) const;
    /// The slice of @p record; nothing: it is none of this trace, or was cut to fit its row. Cost: O(rows of its rank +
    /// log slices).
    [[nodiscard]] std::optional<Slice> sliceOf(const Record &record) const;
    /// Slices whose task id contains @p text, whatever the case, in the order of rows, at most @p limit. Cost:
    /// O(different ids + slices of the lanes that have such tasks).
    [[nodiscard]] std::vector<Slice> search(std::string_view text, std::size_t limit) const;
    /// The slice of the same micro-batch in the same step before (by < 0) or after @p slice, by start, row and place.
    /// Cost: O(log slices) in a trace of one step; in others O(tasks of the micro-batch * tasks of a lane in a step).
    [[nodiscard]] std::optional<Slice> alongMicroBatch(const Slice &slice, int by) const;

private:
    struct Home {
        std::int32_t rank = -1;
        std::int32_t lane = -1;
    };
    /// Slices are ordered by it along a micro-batch.
    struct Place {
        std::int64_t start = 0;
        Slice slice;
        friend auto operator<=>(const Place &, const Place &) = default;
    };

    void nameTasks();
    void nameDevices();
    void noteRecord(const Record &record);
    void noteStage(std::int32_t rank, std::int32_t stage);
    void findRows();
    void orderByRank();
    void orderMicroBatches();
    [[nodiscard]] Place placeOf(const Slice &slice) const;
    [[nodiscard]] std::int32_t microBatchOf(const Slice &slice) const;
    [[nodiscard]] std::vector<bool> namesWith(std::string_view text) const;
    [[nodiscard]] std::vector<bool> rowsWith(const std::vector<bool> &names) const;

    std::shared_ptr<const Tables> m_tables;
    LevelOfDetail m_lod;
    Waits m_waits;
    std::vector<Window> m_steps;
    std::unordered_map<std::string_view, std::int32_t> m_rankOn; ///< by device
    std::vector<Home> m_homes;                                   ///< per task
    std::vector<std::vector<std::int32_t>> m_stages;             ///< per rank
    std::vector<std::uint32_t> m_firstRow; ///< per rank, and the number of rows behind the last one

    Names m_names;                          ///< different ids
    std::vector<std::uint32_t> m_nameOf;    ///< per task
    std::vector<bool> m_hasKind;            ///< per row of the table of kinds
    std::vector<std::uint32_t> m_firstTask; ///< per name: range in m_tasksByName
    std::vector<std::int32_t> m_tasksByName;
    bool m_byRank = false; ///< so are the tasks of a name ordered; not after append()
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> m_tasksOfMicroBatch;
    std::unordered_map<std::int32_t, std::vector<Slice>> m_ordered; ///< per micro-batch; empty after append()
};

} // namespace planloom::trace
