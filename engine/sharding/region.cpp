// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/region.h"

#include <algorithm>

namespace planloom::sharding {
namespace {

/// Positions [begin, end) of the row that the intervals make when they are laid end to end, appended to @p to.
void cut(const std::vector<Interval> &from, std::int64_t begin, std::int64_t end, std::vector<Interval> &to)
{
    for (const Interval &piece : from) {
        const std::int64_t length = piece.end - piece.begin;
        const std::int64_t first = std::clamp<std::int64_t>(begin, 0, length);
        const std::int64_t last = std::clamp<std::int64_t>(end, 0, length);
        begin -= length;
        end -= length;
        if (first >= last)
            continue;
        if (!to.empty() && to.back().end == piece.begin + first)
            to.back().end = piece.begin + last;
        else
            to.push_back({piece.begin + first, piece.begin + last});
    }
}

std::int64_t length(const std::vector<Interval> &intervals)
{
    std::int64_t sum = 0;
    for (const Interval &one : intervals)
        sum += one.end - one.begin;
    return sum;
}

/// The part of an axis that is left of @p have after splitting it for device @p index of @p parts.
std::vector<Interval> splitIntervals(const std::vector<Interval> &have, const Sbp &sbp, int parts, int index)
{
    std::vector<std::int64_t> segments = sbp.segments;
    if (segments.empty())
        segments.push_back(length(have));
    std::vector<Interval> part;
    std::int64_t at = 0;
    for (const std::int64_t segment : segments) {
        const std::int64_t own = segment / parts;
        cut(have, at + index * own, at + (index + 1) * own, part);
        at += segment;
    }
    return part;
}

} // namespace

Region regionOf(const std::vector<std::int64_t> &sizes, const NdSbp &sbp, const Mesh &mesh, int device)
{
    Region region;
    for (const std::int64_t size : sizes)
        region.push_back({{0, size}});
    const std::vector<int> place = mesh.coordinates(device);
    for (std::size_t d = 0; d < sbp.size() && d < place.size(); ++d)
        if (sbp[d].kind == Sbp::Kind::Split) {
            std::vector<Interval> &axis = region[static_cast<std::size_t>(sbp[d].axis)];
            axis = splitIntervals(axis, sbp[d], mesh.sizes[d], place[d]);
        }
    return region;
}

std::int64_t elements(const Region &region)
{
    std::int64_t count = 1;
    for (const auto &axis : region)
        count *= length(axis);
    return count;
}

} // namespace planloom::sharding
