// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/piece.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::checkpoint {
namespace {

/// Positions that both hold along one axis: where they begin in either's local tensor.
struct Segment {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t count = 0;
};

using Intervals = std::vector<sharding::Interval>;

std::vector<Segment> common(const Intervals &from, const Intervals &to)
{
    std::vector<Segment> segments;
    std::int64_t fromBase = 0;
    std::int64_t toBase = 0;
    for (std::size_t i = 0, j = 0; i < from.size() && j < to.size();) {
        const std::int64_t begin = std::max(from[i].begin, to[j].begin);
        const std::int64_t end = std::min(from[i].end, to[j].end);
        if (begin < end)
            segments.push_back({fromBase + begin - from[i].begin, toBase + begin - to[j].begin, end - begin});
        if (from[i].end < to[j].end) {
            fromBase += from[i].end - from[i].begin;
            ++i;
        } else {
            toBase += to[j].end - to[j].begin;
            ++j;
        }
    }
    return segments;
}

bool whole(const Intervals &axis, std::int64_t size)
{
    return axis.size() == 1 && axis[0].begin == 0 && axis[0].end == size;
}

std::int64_t extent(const Intervals &axis)
{
    std::int64_t sum = 0;
    for (const auto &interval : axis)
        sum += interval.end - interval.begin;
    return sum;
}

/// Axes of both pieces; axes that neither cuts are folded into the one before.
struct Axes {
    std::vector<std::vector<Segment>> segments;
    std::vector<std::int64_t> fromStride; ///< elements of the local tensor per position of the axis
    std::vector<std::int64_t> toStride;

    Axes(const Piece &from, const Piece &to)
    {
        std::vector<std::int64_t> shape = from.shape;
        sharding::Region a = from.region;
        sharding::Region b = to.region;
        while (shape.size() > 1 && whole(a.back(), shape.back()) && whole(b.back(), shape.back()))
            fold(shape, a, b);
        if (shape.empty()) {
            a = b = {{{0, 1}}};
            shape = {1};
        }
        segments.resize(shape.size());
        fromStride.assign(shape.size(), 1);
        toStride.assign(shape.size(), 1);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            segments[axis] = common(a[axis], b[axis]);
            if (axis > 0) {
                fromStride[axis - 1] = fromStride[axis] * extent(a[axis]);
                toStride[axis - 1] = toStride[axis] * extent(b[axis]);
            }
        }
    }

private:
    static void fold(std::vector<std::int64_t> &shape, sharding::Region &a, sharding::Region &b)
    {
        const std::int64_t inner = shape.back();
        shape.pop_back();
        shape.back() *= inner;
        for (sharding::Region *region : {&a, &b}) {
            region->pop_back();
            for (auto &interval : region->back())
                interval = {interval.begin * inner, interval.end * inner};
        }
    }
};

class Walk {
public:
    Walk(const Piece &from, const Piece &to, const std::function<void(std::int64_t, std::int64_t, std::int64_t)> &visit)
        : m_axes(from, to),
          m_from(from),
          m_to(to),
          m_visit(visit)
    {
    }

    void run() { descend(0, 0, 0); }

private:
    void descend(std::size_t axis, std::int64_t from, std::int64_t to)
    {
        const bool last = axis + 1 == m_axes.segments.size();
        for (const Segment &segment : m_axes.segments[axis]) {
            if (last) {
                emit(from + segment.from, to + segment.to, segment.count);
                continue;
            }
            const std::int64_t fromStride = m_axes.fromStride[axis];
            const std::int64_t toStride = m_axes.toStride[axis];
            for (std::int64_t i = 0; i < segment.count; ++i) {
                const std::int64_t a = from + (segment.from + i) * fromStride;
                const std::int64_t b = to + (segment.to + i) * toStride;
                if (held(m_from, a, fromStride) && held(m_to, b, toStride))
                    descend(axis + 1, a, b);
            }
        }
    }

    static bool held(const Piece &piece, std::int64_t begin, std::int64_t count)
    {
        return begin < piece.flatBegin + piece.flatCount && begin + count > piece.flatBegin;
    }

    void emit(std::int64_t from, std::int64_t to, std::int64_t count) const
    {
        const std::int64_t skip = std::max({std::int64_t{0}, m_from.flatBegin - from, m_to.flatBegin - to});
        const std::int64_t end =
            std::min({count, m_from.flatBegin + m_from.flatCount - from, m_to.flatBegin + m_to.flatCount - to});
        if (skip < end)
            m_visit(from + skip - m_from.flatBegin, to + skip - m_to.flatBegin, end - skip);
    }

    Axes m_axes;
    const Piece &m_from;
    const Piece &m_to;
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)> &m_visit;
};

} // namespace

std::optional<Kind> Kind::fromText(std::string_view text)
{
    // Checkpoints of AdamW and SGD call the optimizer's states so.
    constexpr std::string_view kOptimizer = "optimizer:";
    const bool known = text == "parameter" || text == "state" || text == "replicas" || text == "moment1"
        || text == "moment2" || (text.starts_with(kOptimizer) && text.size() > kOptimizer.size());
    return known ? std::optional(Kind(std::string(text))) : std::nullopt;
}

sharding::Region wholeRegion(const std::vector<std::int64_t> &shape)
{
    sharding::Region region;
    for (const std::int64_t size : shape)
        region.push_back({{0, size}});
    return region;
}

std::int64_t wholeElements(const std::vector<std::int64_t> &shape)
{
    std::int64_t count = 1;
    for (const std::int64_t size : shape)
        if (size < 0 || __builtin_mul_overflow(count, size, &count))
            return -1;
    std::int64_t bytes = 0;
    return __builtin_mul_overflow(count, std::int64_t{8}, &bytes) ? -1 : count;
}

Status check(const Piece &piece)
{
    const auto wrong = [&](const char *what) {
        return badInput(fmt::format("{} of '{}' {}", piece.kind.text(), piece.name, what));
    };
    if (wholeElements(piece.shape) < 0)
        return wrong("has impossible sizes");
    if (piece.region.size() != piece.shape.size())
        return wrong("has a region of another number of axes than its shape");
    std::int64_t local = 1;
    for (std::size_t axis = 0; axis < piece.shape.size(); ++axis) {
        std::int64_t at = 0;
        for (const auto &interval : piece.region[axis]) {
            if (interval.begin < at || interval.end < interval.begin || interval.end > piece.shape[axis])
                return wrong("has a region outside its shape");
            at = interval.end;
        }
        local *= extent(piece.region[axis]);
    }
    if (piece.flatCount == 0) // a rank that holds none of the tensor: where that would begin means nothing
        return {};
    if (piece.flatBegin < 0 || piece.flatCount < 0 || piece.flatBegin > local
        || piece.flatCount > local - piece.flatBegin)
        return wrong("has a range outside its region");
    return {};
}

void eachCommonRun(const Piece &from, const Piece &to,
                   const std::function<void(std::int64_t, std::int64_t, std::int64_t)> &visit)
{
    if (from.flatCount > 0 && to.flatCount > 0) // else sizes may be anything
        Walk(from, to, visit).run();
}

} // namespace planloom::checkpoint
