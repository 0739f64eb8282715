// SPDX-License-Identifier: Apache-2.0
// Sums, means, products, extremes and their gradients along any set of axes; running sums; the index of a maximum.
// Float sums are made in double: there is no choice of order that a thread count could influence.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

namespace planloom::device {

namespace {

constexpr std::int64_t kColumns = 128; // accumulators of one work item: 1 KiB of doubles

/// The dimensions of a tensor in groups of neighbours that are all reduced or all kept.
class Groups {
public:
    Groups(const Dims &dims, const std::vector<bool> &reduced)
    {
        std::int64_t stride = 1;
        for (std::size_t d = dims.size(); d-- > 0;) {
            auto &side = reduced[d] ? m_reduced : m_kept;
            if (dims[d] == 1)
                continue;
            const bool extends = !side.empty() && side.back().stride * side.back().size == stride;
            if (extends)
                side.back().size *= dims[d];
            else
                side.push_back({dims[d], stride});
            stride *= dims[d];
        }
    }

    /// Elements of the result, and of the input of one of them.
    [[nodiscard]] std::int64_t kept() const { return total(m_kept); }
    [[nodiscard]] std::int64_t reduced() const { return total(m_reduced); }
    /// Neighbours in memory on each side; 1 if the other side's lie innermost.
    [[nodiscard]] std::int64_t innerKept() const { return inner(m_kept); }
    [[nodiscard]] std::int64_t innerReduced() const { return inner(m_reduced); }
    /// Equally distant parts of a result that follow each other in the order of reducedOffset: how many, and how far
    /// apart.
    [[nodiscard]] std::int64_t run() const { return m_reduced.empty() ? 1 : m_reduced[0].size; }
    [[nodiscard]] std::int64_t runStride() const { return m_reduced.empty() ? 0 : m_reduced[0].stride; }
    [[nodiscard]] std::int64_t keptOffset(std::int64_t index) const { return offset(m_kept, index); }
    [[nodiscard]] std::int64_t reducedOffset(std::int64_t index) const { return offset(m_reduced, index); }

private:
    struct Group {
        std::int64_t size, stride;
    };
    static std::int64_t total(const std::vector<Group> &side)
    {
        std::int64_t n = 1;
        for (const Group &group : side)
            n *= group.size;
        return n;
    }
    static std::int64_t inner(const std::vector<Group> &side)
    {
        return !side.empty() && side[0].stride == 1 ? side[0].size : 1;
    }
    static std::int64_t offset(const std::vector<Group> &side, std::int64_t index)
    {
        std::int64_t at = 0;
        for (const Group &group : side) {
            at += index % group.size * group.stride;
            index /= group.size;
        }
        return at;
    }
    std::vector<Group> m_kept;    ///< innermost first
    std::vector<Group> m_reduced; ///< innermost first
};

struct Sum {
    static constexpr double kStart = 0;
    static double add(double a, float x) { return a + static_cast<double>(x); }
    static double join(double a, double b) { return a + b; }
};
struct Product {
    static constexpr double kStart = 1;
    static double add(double a, float x) { return a * static_cast<double>(x); }
    static double join(double a, double b) { return a * b; }
};
struct Maximum {
    static constexpr double kStart = -std::numeric_limits<double>::infinity();
    static double add(double a, float x) { return static_cast<double>(x) > a ? static_cast<double>(x) : a; }
    static double join(double a, double b) { return b > a ? b : a; }
};
struct Minimum {
    static constexpr double kStart = std::numeric_limits<double>::infinity();
    static double add(double a, float x) { return static_cast<double>(x) < a ? static_cast<double>(x) : a; }
    static double join(double a, double b) { return b < a ? b : a; }
};

/// sums[c] += x[r * stride + c] for rows r in order.
PLANLOOM_CLONES void addRows(const float *x, std::int64_t stride, std::int64_t rows, std::int64_t columns, double *sums)
{
    std::int64_t r = 0;
    for (; r + 4 <= rows;
         r += 4, x += 4 * stride) { // the same additions in the same order, with fewer loads and stores of the sums
        for (std::int64_t c = 0; c < columns; ++c) {
            double sum = sums[c] + static_cast<double>(x[c]);
            sum += static_cast<double>(x[stride + c]);
            sum += static_cast<double>(x[2 * stride + c]);
            sums[c] = sum + static_cast<double>(x[3 * stride + c]);
        }
    }
    for (; r < rows; ++r, x += stride) {
        for (std::int64_t c = 0; c < columns; ++c)
            sums[c] += static_cast<double>(x[c]);
    }
}

/// Several results that are neighbours in memory, row by row of their inputs.
template <class R>
void reduceColumns(const Groups &groups, const float *x, std::int64_t first, std::int64_t columns, double factor,
                   float *y)
{
    std::array<double, kColumns> sums;
    sums.fill(R::kStart);
    const float *base = x + groups.keptOffset(first);
    const std::int64_t rows = groups.reduced();
    if constexpr (std::is_same_v<R, Sum>) {
        for (std::int64_t r = 0; r < rows; r += groups.run())
            addRows(base + groups.reducedOffset(r), groups.runStride(), groups.run(), columns, sums.data());
    } else {
        for (std::int64_t r = 0; r < rows; ++r) {
            const float *row = base + groups.reducedOffset(r);
            for (std::int64_t c = 0; c < columns; ++c)
                sums[static_cast<std::size_t>(c)] = R::add(sums[static_cast<std::size_t>(c)], row[c]);
        }
    }
    for (std::int64_t c = 0; c < columns; ++c)
        y[first + c] = static_cast<float>(sums[static_cast<std::size_t>(c)] * factor);
}

/// One result whose parts lie in runs; eight partial results let the loop vectorise in a fixed order.
template <class R>
double reduceRuns(const Groups &groups, const float *x)
{
    constexpr std::int64_t kLanes = 8;
    std::array<double, kLanes> lanes;
    lanes.fill(R::kStart);
    double rest = R::kStart;
    const std::int64_t run = groups.innerReduced();
    const std::int64_t runs = groups.reduced() / std::max<std::int64_t>(1, run);
    for (std::int64_t r = 0; r < runs; ++r) {
        const float *at = x + groups.reducedOffset(r * run);
        std::int64_t i = 0;
        for (; i + kLanes <= run; i += kLanes) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane)
                lanes[static_cast<std::size_t>(lane)] = R::add(lanes[static_cast<std::size_t>(lane)], at[i + lane]);
        }
        for (; i < run; ++i)
            rest = R::add(rest, at[i]);
    }
    for (const double lane : lanes)
        rest = R::join(rest, lane);
    return rest;
}

template <class R>
void reduce(const Groups &groups, double factor, const float *x, float *y)
{
    const std::int64_t inner = groups.innerKept();
    if (inner > 1) {
        const std::int64_t perRow = (inner + kColumns - 1) / kColumns;
        const std::int64_t items = groups.kept() / inner * perRow;
        parallelFor(items, rowGrain(std::min(inner, kColumns) * groups.reduced()),
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t item = begin; item < end; ++item) {
                            const std::int64_t column = item % perRow * kColumns;
                            reduceColumns<R>(groups, x, item / perRow * inner + column,
                                             std::min(kColumns, inner - column), factor, y);
                        }
                    });
        return;
    }
    parallelFor(groups.kept(), rowGrain(groups.reduced()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k)
            y[k] = static_cast<float>(reduceRuns<R>(groups, x + groups.keptOffset(k)) * factor);
    });
}

/// Which dimensions the attribute axes names; all of them if it names none.
Result<std::vector<bool>> reducedAxes(const Request &request, std::size_t rank)
{
    const auto axes = request.op.integers("axes");
    std::vector<bool> reduced(rank, axes.empty());
    for (const std::int64_t axis : axes) {
        auto resolved = resolveAxis(request, axis, rank);
        if (!resolved)
            return resolved.error();
        reduced[*resolved] = true;
    }
    return reduced;
}

template <class R, bool kMean = false>
Made makeReduce(const Request &request)
{
    auto reduced = reducedAxes(request, request.in(0).size());
    if (!reduced)
        return reduced.error();
    const Groups groups(request.in(0), *reduced);
    if (groups.kept() != request.outputs[0].elements())
        return wrong(request, text(request.in(0)) + " does not reduce to " + text(request.out()));
    const double factor = kMean ? 1.0 / static_cast<double>(std::max<std::int64_t>(1, groups.reduced())) : 1.0;
    return makeFunction([=](Inputs in, Outputs out) { reduce<R>(groups, factor, floats(in[0]), floats(out[0])); });
}

/// dY (of any shape that broadcasting made) summed down to the shape of the output.
Made makeReduceSumTo(const Request &request)
{
    const Dims &from = request.in(0);
    const Dims &to = request.out();
    if (to.size() > from.size())
        return wrong(request, text(from) + " does not sum down to " + text(to));
    std::vector<bool> reduced(from.size(), true);
    const std::size_t missing = from.size() - to.size();
    for (std::size_t d = 0; d < to.size(); ++d) {
        reduced[missing + d] = to[d] == 1;
        if (to[d] != 1 && to[d] != from[missing + d])
            return wrong(request, text(from) + " does not sum down to " + text(to));
    }
    const Groups groups(from, reduced);
    return makeFunction([groups](Inputs in, Outputs out) { reduce<Sum>(groups, 1.0, floats(in[0]), floats(out[0])); });
}

/// Gradients of reductions: dX has the shape that was reduced; dY, and Y where needed, have one element per kept index.
Result<Groups> gradientGroups(const Request &request)
{
    auto reduced = reducedAxes(request, request.out().size());
    if (!reduced)
        return reduced.error();
    Groups groups(request.out(), *reduced);
    if (groups.kept() != request.inputs[0].elements())
        return wrong(request, text(request.in(0)) + " is no reduction of " + text(request.out()));
    if (request.inputs.size() == 3 && (request.in(1) != request.out() || request.inputs[2].elements() != groups.kept()))
        return wrong(request, "X and Y do not fit dX " + text(request.out()));
    return groups;
}

/// Neighbouring kept elements go to all that were reduced to them, row by row.
void spreadColumns(const Groups &groups, const float *dy, float share, std::int64_t first, std::int64_t columns,
                   float *dx)
{
    std::array<float, kColumns> values;
    for (std::int64_t c = 0; c < columns; ++c)
        values[static_cast<std::size_t>(c)] = dy[first + c] * share;
    float *base = dx + groups.keptOffset(first);
    for (std::int64_t r = 0; r < groups.reduced(); r += groups.run())
        for (std::int64_t i = 0; i < groups.run(); ++i)
            std::copy_n(values.data(), columns, base + groups.reducedOffset(r) + i * groups.runStride());
}

void spreadRuns(const Groups &groups, float value, float *dx)
{
    const std::int64_t run = groups.innerReduced();
    for (std::int64_t r = 0; r < groups.reduced(); r += run)
        std::fill_n(dx + groups.reducedOffset(r), run, value);
}

void spread(const Groups &groups, const float *dy, float *dx)
{
    const float share = 1.0F / static_cast<float>(std::max<std::int64_t>(1, groups.reduced()));
    const std::int64_t inner = groups.innerKept();
    const std::int64_t perRow = (inner + kColumns - 1) / kColumns;
    const std::int64_t items = inner > 1 ? groups.kept() / inner * perRow : groups.kept();
    parallelFor(items, rowGrain(std::min(inner, kColumns) * groups.reduced()),
                [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                        const std::int64_t column = item % perRow * kColumns;
                        if (inner > 1)
                            spreadColumns(groups, dy, share, item / perRow * inner + column,
                                          std::min(kColumns, inner - column), dx);
                        else
                            spreadRuns(groups, dy[item] * share, dx + groups.keptOffset(item));
                    }
                });
}

Made makeMeanGrad(const Request &request)
{
    auto made = gradientGroups(request);
    if (!made)
        return made.error();
    return makeFunction([groups = *made](Inputs in, Outputs out) { spread(groups, floats(in[0]), floats(out[0])); });
}

/// Maximum and minimum alike: the first element that is the extreme takes the gradient.
Made makeExtremeGrad(const Request &request)
{
    auto made = gradientGroups(request);
    if (!made)
        return made.error();
    return makeFunction([groups = *made](Inputs in, Outputs out) {
        parallelFor(groups.kept(), rowGrain(groups.reduced()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k) {
                const std::int64_t at = groups.keptOffset(k);
                bool taken = false;
                for (std::int64_t r = 0; r < groups.reduced(); ++r) {
                    const std::int64_t i = at + groups.reducedOffset(r);
                    const bool takes = !taken && floats(in[1])[i] == floats(in[2])[k];
                    floats(out[0])[i] = takes ? floats(in[0])[k] : 0.0F;
                    taken = taken || takes;
                }
            }
        });
    });
}

/// The product of the others: by division where nothing is 0, and by hand around a single 0.
void productGradient(const Groups &groups, const float *x, float dy, float *dx)
{
    double others = 1;
    int zeros = 0;
    for (std::int64_t r = 0; r < groups.reduced(); ++r) {
        const float value = x[groups.reducedOffset(r)];
        if (value == 0.0F)
            ++zeros;
        else
            others *= static_cast<double>(value);
    }
    for (std::int64_t r = 0; r < groups.reduced(); ++r) {
        const std::int64_t i = groups.reducedOffset(r);
        const bool own = x[i] == 0.0F;
        double rest = 0;
        if (zeros == 0)
            rest = others / static_cast<double>(x[i]);
        else if (zeros == 1 && own)
            rest = others;
        dx[i] = static_cast<float>(static_cast<double>(dy) * rest);
    }
}

Made makeProductGrad(const Request &request)
{
    auto made = gradientGroups(request);
    if (!made)
        return made.error();
    return makeFunction([groups = *made](Inputs in, Outputs out) {
        parallelFor(groups.kept(), rowGrain(groups.reduced()), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k) {
                const std::int64_t at = groups.keptOffset(k);
                productGradient(groups, floats(in[1]) + at, floats(in[0])[k], floats(out[0]) + at);
            }
        });
    });
}

Made makeArgMax(const Request &request)
{
    auto axis = resolveAxis(request, request.op.integer("axis", 0), request.in(0).size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(request.in(0), *axis);
    if (view.n == 0 || request.outputs[0].elements() != view.outer * view.inner)
        return wrong(request, text(request.in(0)) + " has no maxima of shape " + text(request.out()));
    const bool last = request.op.integer("select_last_index") != 0;
    return makeFunction([view, last](Inputs in, Outputs out) {
        parallelFor(view.outer * view.inner, rowGrain(view.n), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t line = begin; line < end; ++line) {
                const float *x = floats(in[0]) + line / view.inner * view.n * view.inner + line % view.inner;
                std::int64_t best = 0;
                for (std::int64_t i = 1; i < view.n; ++i)
                    best =
                        x[i * view.inner] > x[best * view.inner] || (last && x[i * view.inner] == x[best * view.inner])
                        ? i
                        : best;
                ints(out[0])[line] = best;
            }
        });
    });
}

Made makeCumSum(const Request &request)
{
    auto axis = resolveAxis(request, request.op.integer("axis", 0), request.in(0).size());
    if (!axis)
        return axis.error();
    if (request.in(0) != request.out())
        return wrong(request, "input " + text(request.in(0)) + " and output " + text(request.out()) + " differ");
    const AxisView view = viewAt(request.in(0), *axis);
    const bool reverse = request.op.integer("reverse") != 0;
    const bool exclusive = request.op.integer("exclusive") != 0;
    return makeFunction([=](Inputs in, Outputs out) {
        parallelFor(view.outer * view.inner, rowGrain(view.n), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t line = begin; line < end; ++line) {
                const std::int64_t at = line / view.inner * view.n * view.inner + line % view.inner;
                double sum = 0;
                for (std::int64_t step = 0; step < view.n; ++step) {
                    const std::int64_t i = at + (reverse ? view.n - 1 - step : step) * view.inner;
                    const double before = sum;
                    sum += static_cast<double>(floats(in[0])[i]);
                    floats(out[0])[i] = static_cast<float>(exclusive ? before : sum);
                }
            }
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"ArgMax", "f", "i", makeArgMax},
    {"CumSum", "f", "f", makeCumSum},
    {"ReduceMax", "f", "f", makeReduce<Maximum>},
    {"ReduceMaxGrad", "fff", "f", makeExtremeGrad},
    {"ReduceMean", "f", "f", makeReduce<Sum, true>},
    {"ReduceMeanGrad", "f", "f", makeMeanGrad},
    {"ReduceMin", "f", "f", makeReduce<Minimum>},
    {"ReduceMinGrad", "fff", "f", makeExtremeGrad},
    {"ReduceProd", "f", "f", makeReduce<Product>},
    {"ReduceProdGrad", "fff", "f", makeProductGrad},
    {"ReduceSum", "f", "f", makeReduce<Sum>},
    {"ReduceSumTo", "f", "f", makeReduceSumTo},
};

} // namespace

std::span<const KernelEntry> reduceKernels() { return kEntries; }

} // namespace planloom::device
