// SPDX-License-Identifier: Apache-2.0
#include "profiler/shared_core_work.h"

#include "engine/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace planloom::profiler {
namespace {

constexpr double kTimesAsLong = 1.5;      ///< work of this many times the collective's own time, at first
constexpr double kMostSecondsBeside = 20; ///< behind which the rounds so far have to do
constexpr std::size_t kRoundsBeside = 11;
constexpr int kMostPieces = 1 << 14;
constexpr double kMostOfCore = 0.95; ///< that a collective is taken to have
constexpr double kShares = 1.3;      ///< wall time over processor time from which on a rank is taken to share its core

} // namespace

SharedCoreWork::SharedCoreWork(const WorkTimes &few, int fewPieces, double alone)
    : m_shares(few.seconds >= kShares * few.computed),
      m_pieces(static_cast<int>(std::ceil(fewPieces * std::max(1.0, kTimesAsLong * alone / few.seconds))))
{
}

bool SharedCoreWork::wantsMore() const { return m_longer.size() < kRoundsBeside && m_spent < kMostSecondsBeside; }

void SharedCoreWork::add(const WorkTimes &without, const WorkTimes &with)
{
    m_spent += without.seconds + with.seconds;
    if (with.waited > 0 && m_pieces < kMostPieces) {
        m_pieces *= 2;
        m_longer.clear();
        m_parts.clear();
        return;
    }
    // Ranks take turns on the core: of what all take longer a rank's part is that which it has of the work.
    const double longer = with.seconds - with.waited - without.seconds;
    m_longer.push_back(longer * without.computed / without.seconds);
    m_parts.push_back(with.collective > 0 ? longer / with.collective : 0);
}

double SharedCoreWork::coreSecondsPerByte(std::int64_t bytes) const
{
    return m_longer.empty() || bytes <= 0 ? 0 : std::max(0.0, median(m_longer) / static_cast<double>(bytes));
}

double SharedCoreWork::weight() const
{
    const double part = m_parts.empty() ? 0 : std::min(median(m_parts), kMostOfCore);
    return std::max(1.0, part / (1 - part));
}

} // namespace planloom::profiler
