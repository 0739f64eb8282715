// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace planloom::import {

/// A slice of another program's trace.
struct Slice {
    std::string_view process, thread, name, category;
    std::int64_t start = 0;    ///< nanoseconds
    std::int64_t duration = 0; ///< nanoseconds, at least 0
    std::int64_t step = -1;    ///< -1: by the step ranges of its process
    std::int64_t stage = -1;
    std::int64_t microBatch = -1;
    std::int64_t correlation = -1; ///< joins a call and what it starts on a device; below 1: none
    std::int64_t external = -1;    ///< joins an operator and what it causes; below 1: none
    bool isLaunch = false;         ///< of the correlation, the call
    bool isOperator = false;       ///< of the external id, the operator
    std::string_view arguments;    ///< lines for a reader's eye; at most 4 KiB are kept, and 64 MiB of a trace
};

/// The number in a name that programs give to the range of a step: "ProfilerStep#7", "step 7", "Iteration_7",
/// "train step: 7"; -1: it is none.
std::int32_t stepInName(std::string_view name);

/// Makes a trace of slices that come in any order: processes become ranks, threads lanes, names tasks. Slices of one
/// thread that overlap get lanes of their own. 32 bytes a slice; 24 more where slices have correlations or arguments.
class SliceCollector {
public:
    SliceCollector();
    SliceCollector(SliceCollector &&) noexcept;
    ~SliceCollector();

    /// False: it ends beyond what 64 bits can count, or there are more than 2^31 slices, names or threads.
    bool add(const Slice &slice);
    /// A slice whose end() is to come; the last one that began on a thread ends first.
    void begin(const Slice &slice);
    /// False: nothing has begun there, or it would end before it began.
    bool end(std::string_view process, std::string_view thread, std::int64_t time);
    /// A value of a counter of the process, from @p time until the next one.
    void count(std::string_view process, std::string_view counter, std::int64_t time, double value);
    [[nodiscard]] std::int64_t openSlices() const;       ///< that have begun and not ended
    [[nodiscard]] std::int64_t argumentsLeftOut() const; ///< slices whose arguments are beyond what is kept

    void nameProcess(std::string_view process, std::string_view name);
    void labelProcess(std::string_view process, std::string_view label); ///< "GPU 0"
    void orderProcess(std::string_view process, std::int64_t order);
    void nameThread(std::string_view process, std::string_view thread, std::string_view name);
    void setClock(std::string clock); ///< "wall" if it is not set
    void setDropped(std::int64_t count);

    /// Once. Times begin at 0 where the first slice does; @p origin: when that was. Cost: O(n log n).
    trace::Trace finish(std::int64_t *origin = nullptr);

private:
    struct Data;
    std::unique_ptr<Data> m_data;
};

} // namespace planloom::import
