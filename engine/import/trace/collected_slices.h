// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/trace/counters.h"
#include "engine/import/trace/foreign_kinds.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::import {

/// Texts with numbers, in the order in which they come.
class CollectedNames {
public:
    std::int32_t of(std::string_view text)
    {
        const auto found = m_numbers.find(text);
        if (found != m_numbers.end())
            return found->second;
        const auto number = static_cast<std::int32_t>(m_texts.size());
        m_numbers.emplace(m_texts.emplace_back(text), number);
        return number;
    }
    [[nodiscard]] bool has(std::string_view text) const { return m_numbers.contains(text); }
    [[nodiscard]] const std::string &text(std::size_t number) const { return m_texts[number]; }
    [[nodiscard]] std::size_t size() const { return m_texts.size(); }

private:
    std::deque<std::string> m_texts; // views of them stay valid
    std::unordered_map<std::string_view, std::int32_t> m_numbers;
};

/// A process as the file describes it.
struct CollectedProcess {
    std::string name, label;
    std::int64_t order = 0;
    std::vector<std::pair<std::int64_t, std::int32_t>> steps; ///< start, number
    std::unordered_map<std::int32_t, std::int32_t> threads;   ///< by the number of the thread's text
};

/// What few slices have beside their record. 24 bytes.
struct SliceExtra {
    std::int64_t correlation = -1, external = -1; ///< -1: none
    std::uint32_t arguments = 0;                  ///< row of the texts; 0: none
    bool isLaunch = false;
    bool isOperator = false;
    [[nodiscard]] bool isNone() const { return correlation < 1 && external < 1 && arguments == 0; }
};

/// A slice that has begun.
struct OpenSlice {
    trace::Record record;
    SliceExtra extra;
};

/// A thread, or a stream of a GPU.
struct CollectedThread {
    std::int32_t process = 0;
    std::string id;
    std::string name;
    std::vector<OpenSlice> open;
};

/// What slices of one task have in common.
struct CollectedLabel {
    std::int32_t name = 0;
    trace::Kind kind = trace::Kind::Other;
    std::int32_t stage = -1, microBatch = -1;
    std::int32_t step = -1; ///< the step whose range is called so
    friend bool operator==(const CollectedLabel &, const CollectedLabel &) = default;
};

/// All that a SliceCollector has got: records have the numbers of processes, threads and labels instead of ranks, lanes
/// and tasks, and starts as in the file.
struct CollectedSlices {
    ForeignKinds kinds;
    CollectedNames processNames, threadNames, sliceNames, argumentTexts;
    std::vector<CollectedProcess> processes;
    std::vector<CollectedThread> threads;
    std::vector<CollectedLabel> labels;
    std::vector<std::vector<std::int32_t>> labelsOfName;
    std::vector<trace::Record> records;
    std::vector<SliceExtra> extras; ///< by record; empty: no slice has any
    Counters counters;
    std::string clock = "wall";
    std::int64_t dropped = 0;
};

/// Makes the trace, whose times begin at 0 where the first slice does; @p origin: when that was. Uses up records and
/// extras. Cost: O(n log n).
trace::Trace buildTrace(CollectedSlices &slices, std::int64_t &origin);

} // namespace planloom::import
