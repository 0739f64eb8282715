// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/reading_records.h"

namespace planloom::runtime {

void ReadingRecords::read(const PlanloomReadings &readings, std::int64_t now)
{
    const std::array values{readings.smClock, readings.memoryClock, readings.power, readings.temperature};
    static_assert(std::tuple_size_v<decltype(values)> == program::kReadings.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto reading = static_cast<program::Reading>(i);
        const std::int32_t row = values[i] < 0 ? -1 : m_rows.level(reading, values[i]);
        Span &span = m_spans[i];
        if (row == span.row && now - span.start < kLongest)
            continue;
        close(reading, now);
        span = {row, now};
    }
}

void ReadingRecords::end(std::int64_t now)
{
    for (std::size_t i = 0; i < m_spans.size(); ++i)
        close(static_cast<program::Reading>(i), now);
}

void ReadingRecords::close(program::Reading reading, std::int64_t now)
{
    Span &span = m_spans[static_cast<std::size_t>(reading)];
    if (span.row >= 0 && now > span.start)
        m_recording.writeKernel(
            {span.start, now - span.start, span.row, -1, m_rank.value, m_rows.lane(reading)});
    span.row = -1;
}

} // namespace planloom::runtime
