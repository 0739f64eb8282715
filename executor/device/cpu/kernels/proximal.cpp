// SPDX-License-Identifier: Apache-2.0
// Sub-problems of training by ADMM. Values of samples in float32; sums over samples and the systems that they make in
// double, since they square the condition number of the data.
#include "executor/device/kernel_support.h"
#include "executor/device/random_kernel.h"
#include "executor/device/cpu/outer_sums.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <numeric>

namespace planloom::device {

namespace {

struct TanhProblem {
    float p = 1, q = 1;
    std::int64_t iterations = 1;
};

/// tanh to within a unit in the last place of 1: enough where it is compared with numbers of its size, and half of the
/// work of simd::tanh, which is exact near 0, too.
inline float tanhNearOne(float x) { return 1.0F - 2.0F / (simd::exp(2.0F * x) + 1.0F); }

/// Of each element: where the steps begin, alpha and beta; both duals, or null.
struct TanhInputs {
    const float *a, *alpha, *beta, *dualOfA, *dualOfState;
};

/// Steps on the majorant whose curvature is that of |f'' (f - beta)| at its largest, 4 / (3 sqrt(3)) <= 0.77.
PLANLOOM_CLONES void solveTanh(const TanhProblem &problem, const TanhInputs &in, std::int64_t n, float *out)
{
    constexpr float kCurvature = 0.77F;
    constexpr std::int64_t kPiece = 1024; // whose arrays stay in a first-level cache through all steps
    const float p = problem.p;
    const float q = problem.q;
    const float perP = 1.0F / p;
    const float perQ = 1.0F / q;
    float pulls[kPiece];
    float states[kPiece];
    float scale[kPiece];
    for (std::int64_t begin = 0; begin < n; begin += kPiece) {
        const std::int64_t count = std::min(kPiece, n - begin);
        if (in.dualOfA != nullptr) {
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
                pulls[i] = in.alpha[begin + i] + perP * in.dualOfA[begin + i];
                states[i] = in.beta[begin + i] - perQ * in.dualOfState[begin + i];
            }
        } else {
            std::copy_n(in.alpha + begin, count, pulls);
            std::copy_n(in.beta + begin, count, states);
        }
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i)
            scale[i] = 1.0F / (p + q * (1.0F + kCurvature * (1.0F + std::fabs(states[i]))));
        float *own = out + begin;
        for (std::int64_t step = 0; step < problem.iterations; ++step) {
            const float *from = step == 0 ? in.a + begin : own; // which may be one place
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
                const float f = tanhNearOne(from[i]);
                own[i] = from[i] - (p * (from[i] - pulls[i]) + q * (f - states[i]) * (1.0F - f * f)) * scale[i];
            }
        }
    }
}

Made makeProximalTanh(const Request &request)
{
    for (std::size_t i = 1; i < request.inputs.size(); ++i)
        if (request.in(i) != request.in(0))
            return wrong(request, "all inputs must be " + text(request.in(0)) + ", got " + text(request.in(i)));
    const TanhProblem problem{static_cast<float>(request.op.number("p", 1)),
                              static_cast<float>(request.op.number("q", 1)), request.op.integer("iterations", 1)};
    const bool duals = request.hasInput(3) && request.hasInput(4);
    return makeFunction([problem, duals, n = request.inputs[0].elements()](Inputs in, Outputs out) {
        const auto at = [&](std::size_t input, std::int64_t begin) { return floats(in[input]) + begin; };
        constexpr std::int64_t kPiece = kGrain / 8; // as long as a light loop over kGrain elements
        parallelFor(n, kPiece, [&](std::int64_t begin, std::int64_t end) {
            const TanhInputs own{at(0, begin), at(1, begin), at(2, begin), duals ? at(3, begin) : nullptr,
                                 duals ? at(4, begin) : nullptr};
            solveTanh(problem, own, end - begin, floats(out[0]) + begin);
        });
    });
}

struct CrossEntropyProblem {
    std::int64_t rows = 0, classes = 0, iterations = 1;
    float penalty = 1;
};

constexpr std::int64_t kRowsTogether = 16; ///< whose steps of Newton are made at once, a vector lane each

/// Newton's steps for kRowsTogether rows; @p o, @p centre and @p scratch have a number of each row for each class. The
/// Hessian is diagonal, probability + penalty, less a term of rank one (Sherman and Morrison).
PLANLOOM_CLONES void newtonSteps(const CrossEntropyProblem &problem, const float *centre, const std::int64_t *labels,
                                 float *o, float *scratch)
{
    const float penalty = problem.penalty;
    float largest[kRowsTogether];
    float share[kRowsTogether];
    float slope[kRowsTogether];
    float rest[kRowsTogether]; // the sum of probabilities less p^2 / (p + penalty)
    float scaleOfLabel[kRowsTogether];
    const auto eachClass = [&](const auto &update) {
        for (std::int64_t c = 0; c < problem.classes; ++c)
            for (std::int64_t r = 0; r < kRowsTogether; ++r)
                update(c * kRowsTogether + r, r);
    };
    for (std::int64_t step = 0; step < problem.iterations; ++step) {
        std::copy_n(o, kRowsTogether, largest);
        eachClass([&](std::int64_t at, std::int64_t r) { largest[r] = o[at] > largest[r] ? o[at] : largest[r]; });
        std::fill_n(share, kRowsTogether, 0.0F);
        eachClass([&](std::int64_t at, std::int64_t r) {
            scratch[at] = simd::exp(o[at] - largest[r]);
            share[r] += scratch[at];
        });
        for (std::int64_t r = 0; r < kRowsTogether; ++r) {
            share[r] = 1.0F / share[r];
            slope[r] = rest[r] = 0;
        }
        eachClass([&](std::int64_t at, std::int64_t r) {
            const float probability = scratch[at] * share[r];
            const float scaled = probability / (probability + penalty);
            scratch[at] = probability;
            slope[r] += scaled * (probability + penalty * (o[at] - centre[at]));
            rest[r] += scaled * penalty;
        });
        for (std::int64_t r = 0; r < kRowsTogether; ++r) {
            const float ofLabel = scratch[labels[r] * kRowsTogether + r];
            scaleOfLabel[r] = 1.0F / (ofLabel + penalty);
            slope[r] = (slope[r] - ofLabel * scaleOfLabel[r]) / rest[r]; // the label's -1 in the gradient
        }
        eachClass([&](std::int64_t at, std::int64_t r) {
            const float probability = scratch[at];
            const float gradient = probability + penalty * (o[at] - centre[at]);
            o[at] -= (gradient + probability * slope[r]) / (probability + penalty);
        });
        for (std::int64_t r = 0; r < kRowsTogether; ++r)
            o[labels[r] * kRowsTogether + r] += scaleOfLabel[r];
    }
}

/// One step on a majorant for kRowsTogether rows: centre - (softmax(o) - labels) / penalty.
PLANLOOM_CLONES void majorantStep(const CrossEntropyProblem &problem, const float *centre, const std::int64_t *labels,
                                  float *o, float *scratch)
{
    const float scale = 1.0F / problem.penalty;
    float largest[kRowsTogether];
    float share[kRowsTogether] = {};
    const auto eachClass = [&](const auto &update) {
        for (std::int64_t c = 0; c < problem.classes; ++c)
            for (std::int64_t r = 0; r < kRowsTogether; ++r)
                update(c * kRowsTogether + r, r);
    };
    std::copy_n(o, kRowsTogether, largest);
    eachClass([&](std::int64_t at, std::int64_t r) { largest[r] = o[at] > largest[r] ? o[at] : largest[r]; });
    eachClass([&](std::int64_t at, std::int64_t r) {
        scratch[at] = simd::exp(o[at] - largest[r]);
        share[r] += scratch[at];
    });
    eachClass([&](std::int64_t at, std::int64_t r) { o[at] = centre[at] - scratch[at] / share[r] * scale; });
    for (std::int64_t r = 0; r < kRowsTogether; ++r)
        o[labels[r] * kRowsTogether + r] += scale;
}

/// The cross-entropy of kRowsTogether rows.
PLANLOOM_CLONES void lossesOf(const CrossEntropyProblem &problem, const std::int64_t *labels, const float *o,
                              float *losses)
{
    float largest[kRowsTogether];
    float share[kRowsTogether] = {};
    std::copy_n(o, kRowsTogether, largest);
    for (std::int64_t c = 0; c < problem.classes; ++c)
        for (std::int64_t r = 0; r < kRowsTogether; ++r)
            largest[r] = std::max(o[c * kRowsTogether + r], largest[r]);
    for (std::int64_t c = 0; c < problem.classes; ++c)
        for (std::int64_t r = 0; r < kRowsTogether; ++r)
            share[r] += simd::exp(o[c * kRowsTogether + r] - largest[r]);
    for (std::int64_t r = 0; r < kRowsTogether; ++r)
        losses[r] = largest[r] + std::log(share[r]) - o[labels[r] * kRowsTogether + r];
}

/// Rows [begin, end), at most kRowsTogether. A label that is no class is seen at once, and nothing is read outside.
/// @p losses: of the result, or null.
void solveCrossEntropy(const CrossEntropyProblem &problem, const float *start, const float *centre,
                       const std::int64_t *labels, std::int64_t begin, std::int64_t end, float *scratch, float *y,
                       float *losses)
{
    const std::int64_t size = problem.classes * kRowsTogether;
    float *o = scratch;
    float *to = scratch + size;
    std::int64_t known[kRowsTogether] = {};
    std::fill_n(scratch, 2 * size, 0.0F);
    for (std::int64_t r = begin; r < end; ++r) {
        const bool isClass = labels[r] >= 0 && labels[r] < problem.classes;
        known[r - begin] = isClass ? labels[r] : 0;
        for (std::int64_t c = 0; c < problem.classes; ++c) {
            o[c * kRowsTogether + r - begin] = start[r * problem.classes + c];
            to[c * kRowsTogether + r - begin] = centre[r * problem.classes + c];
        }
    }
    if (problem.iterations > 0)
        newtonSteps(problem, to, known, o, scratch + 2 * size);
    else
        majorantStep(problem, to, known, o, scratch + 2 * size);
    float own[kRowsTogether] = {};
    if (losses != nullptr)
        lossesOf(problem, known, o, own);
    for (std::int64_t r = begin; r < end; ++r) {
        const bool isClass = labels[r] >= 0 && labels[r] < problem.classes;
        if (losses != nullptr)
            losses[r] = isClass ? own[r - begin] : std::numeric_limits<float>::quiet_NaN();
        for (std::int64_t c = 0; c < problem.classes; ++c)
            y[r * problem.classes + c] =
                isClass ? o[c * kRowsTogether + r - begin] : std::numeric_limits<float>::quiet_NaN();
    }
}

Made makeProximalCrossEntropy(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() != 2 || request.in(1) != dims || request.inputs[2].elements() != dims[0]
        || (request.hasOutput(1) && request.outputs[1].elements() != dims[0]))
        return wrong(request,
                     "outputs and centre must be (M, C) and labels (M), got " + text(dims) + ", " + text(request.in(1))
                         + " and " + text(request.in(2)));
    const CrossEntropyProblem problem{dims[0], dims[1], request.op.integer("iterations", 1),
                                      static_cast<float>(request.op.number("penalty", 1))};
    const int threads = threadCount();
    const std::int64_t each = 3 * problem.classes * kRowsTogether;
    return makeFunction([problem, threads, each, withLosses = request.hasOutput(1),
                         scratch = std::vector<float>(static_cast<std::size_t>(threads * each))](Inputs in,
                                                                                                 Outputs out) mutable {
        const float *start = floats(in[0]);
        const float *centre = floats(in[1]);
        const std::int64_t *labels = ints(in[2]);
        float *y = floats(out[0]);
        float *losses = withLosses ? floats(out[1]) : nullptr;
        float *own = scratch.data();
        parallelItems((problem.rows + kRowsTogether - 1) / kRowsTogether, threads, [=](std::int64_t block, int thread) {
            const std::int64_t begin = block * kRowsTogether;
            solveCrossEntropy(problem, start, centre, labels, begin, std::min(problem.rows, begin + kRowsTogether),
                              own + thread * each, y, losses);
        });
    });
}

struct SumsShape {
    std::int64_t steps = 1, rows = 0, columns = 0, outputs = 0;
};

/// Sums over rows in double, a band of lines by a thread. Lines are those of the triangle and behind them those of the
/// product, both padded to groups of kOuterLines.
class OuterSums final : public Kernel {
public:
    OuterSums(const SumsShape &shape, std::vector<double> weights, int threads)
        : m_shape(shape),
          m_weights(std::move(weights)),
          m_threads(threads),
          m_stride(outerStride(shape.columns)),
          m_ofTriangle(groupsOf(shape.columns)),
          m_groups(m_ofTriangle + groupsOf(shape.outputs))
    {
        constexpr std::int64_t kBandBytes = 256 * 1024; // of a second-level cache
        constexpr std::int64_t kBandsEach = 4;          // of a thread, as they are of unequal work
        const std::int64_t fits = kBandBytes / (kOuterLines * m_stride * static_cast<std::int64_t>(sizeof(double)));
        const std::int64_t fair = threads > 1 ? m_groups / (kBandsEach * threads) : m_groups;
        m_band = std::clamp<std::int64_t>(std::min(fits, fair), 1, m_groups);
        m_scratch.resize(static_cast<std::size_t>(threads * scratchEach()));
    }

    void run(Inputs in, Outputs out) override
    {
        parallelItems((m_groups + m_band - 1) / m_band, m_threads, [&](std::int64_t band, int thread) {
            sumBand(in, out, band * m_band, std::min(m_groups, (band + 1) * m_band),
                    m_scratch.data() + thread * scratchEach());
        });
    }

private:
    static constexpr std::int64_t kTileRows = 32; ///< that are converted at once, and stay in a first-level cache

    static std::int64_t groupsOf(std::int64_t lines) { return (lines + kOuterLines - 1) / kOuterLines; }
    /// Of a thread: its sums, a tile of Z, of Z times the weight, and of Y.
    [[nodiscard]] std::int64_t scratchEach() const
    {
        return m_band * kOuterLines * m_stride + kTileRows * (2 * m_stride + outerStride(m_shape.outputs));
    }

    void sumBand(Inputs in, Outputs out, std::int64_t begin, std::int64_t end, double *sums)
    {
        double *z = sums + m_band * kOuterLines * m_stride;
        double *weighted = z + kTileRows * m_stride;
        double *y = weighted + kTileRows * m_stride;
        std::fill_n(sums, (end - begin) * kOuterLines * m_stride, 0.0);
        for (std::int64_t step = 0; step < m_shape.steps; ++step)
            for (std::int64_t row = 0; row < m_shape.rows; row += kTileRows) {
                const std::int64_t rows = std::min(kTileRows, m_shape.rows - row);
                const std::int64_t at = step * m_shape.rows + row;
                const float *from = floats(in[0]) + at * m_shape.columns;
                widenRows(from, rows, m_shape.columns, 1, z);
                if (begin < m_ofTriangle)
                    widenRows(from, rows, m_shape.columns, m_weights[static_cast<std::size_t>(step)], weighted);
                if (end > m_ofTriangle)
                    widenRows(floats(in[1]) + at * m_shape.outputs, rows, m_shape.outputs, 1, y);
                for (std::int64_t group = begin; group < end; ++group)
                    addGroup(group, rows, z, weighted, y, sums + (group - begin) * kOuterLines * m_stride);
            }
        for (std::int64_t group = begin; group < end; ++group)
            give(group, sums + (group - begin) * kOuterLines * m_stride, out);
    }

    void addGroup(std::int64_t group, std::int64_t rows, const double *z, const double *weighted, const double *y,
                  double *sums) const
    {
        const OuterRows right{z, m_stride};
        if (group < m_ofTriangle) {
            const std::int64_t line = group * kOuterLines;
            addOuterProducts(rows, {weighted + line, m_stride}, right, std::min(line + kOuterLines, m_shape.columns),
                             sums);
            return;
        }
        const std::int64_t line = (group - m_ofTriangle) * kOuterLines;
        addOuterProducts(rows, {y + line, outerStride(m_shape.outputs)}, right, m_shape.columns, sums);
    }

    /// A group's sums, rounded once.
    void give(std::int64_t group, const double *sums, Outputs out) const
    {
        const bool triangle = group < m_ofTriangle;
        const std::int64_t line = (triangle ? group : group - m_ofTriangle) * kOuterLines;
        const std::int64_t end = std::min(line + kOuterLines, triangle ? m_shape.columns : m_shape.outputs);
        for (std::int64_t own = line; own < end; ++own, sums += m_stride) {
            float *to = triangle ? floats(out[0]) + own * (own + 1) / 2 : floats(out[1]) + own * m_shape.columns;
            const std::int64_t n = triangle ? own + 1 : m_shape.columns;
            std::transform(sums, sums + n, to, [](double sum) { return static_cast<float>(sum); });
        }
    }

    SumsShape m_shape;
    std::vector<double> m_weights;
    int m_threads;
    std::int64_t m_stride;     ///< of Z in double
    std::int64_t m_ofTriangle; ///< groups of lines
    std::int64_t m_groups;
    std::int64_t m_band = 1; ///< groups
    std::vector<double> m_scratch;
};

Made makeOuterSums(const Request &request)
{
    const Dims &zDims = request.in(0);
    if (zDims.size() < 2 || zDims.size() > 3)
        return wrong(request, "Z must be (T, M, K) or (M, K), got " + text(zDims));
    SumsShape shape{zDims.size() == 3 ? zDims[0] : 1, zDims[zDims.size() - 2], zDims.back(), 0};
    if (request.hasInput(1)) {
        const Dims &yDims = request.in(1);
        if (yDims.size() != zDims.size() || !std::equal(zDims.begin(), zDims.end() - 1, yDims.begin()))
            return wrong(request, "Z " + text(zDims) + " and Y " + text(yDims) + " do not have the same rows");
        shape.outputs = yDims.back();
    }
    std::vector<double> weights = request.op.numbers("weights");
    if (static_cast<std::int64_t>(weights.size()) != shape.steps)
        return wrong(request, "attribute 'weights' must have " + std::to_string(shape.steps) + " numbers");
    if (request.outputs[0].elements() != shape.columns * (shape.columns + 1) / 2
        || (request.hasOutput(1) ? request.outputs[1].elements() : 0) != shape.outputs * shape.columns)
        return wrong(request, "the sums do not fit Z " + text(zDims));
    return std::unique_ptr<Kernel>(std::make_unique<OuterSums>(shape, std::move(weights), threadCount()));
}

/// The factor's lower triangle in place of the matrix's: column j of both begins at matrix[j * n], and has its element
/// of row i at matrix[j * n + i]. False: a pivot is no larger than what float32 sums leave to chance.
PLANLOOM_CLONES bool factorise(double *matrix, std::int64_t n)
{
    constexpr double kLeastPivot = 0x1p-24;
    for (std::int64_t j = 0; j < n; ++j) {
        double *own = matrix + j * n;
        const double before = own[j];
        for (std::int64_t k = 0; k < j; ++k) {
            const double *other = matrix + k * n;
            const double by = other[j];
#pragma omp simd
            for (std::int64_t i = j; i < n; ++i)
                own[i] -= by * other[i];
        }
        if (!(own[j] > kLeastPivot * before))
            return false;
        const double root = std::sqrt(own[j]);
        own[j] = root;
        for (std::int64_t i = j + 1; i < n; ++i)
            own[i] /= root;
    }
    return true;
}

constexpr std::int64_t kLanes = 16; ///< right sides that are solved together

/// x of L L^T x = x, for kLanes right sides: x[i] has a number of each.
PLANLOOM_CLONES void substitute(const double *factor, std::int64_t n, double *x)
{
    double own[kLanes];
    const auto eliminate = [&](std::int64_t k, double by) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            own[lane] -= by * x[k * kLanes + lane];
    };
    const auto divide = [&](std::int64_t i) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            x[i * kLanes + lane] = own[lane] / factor[i * n + i];
    };
    for (std::int64_t i = 0; i < n; ++i) {
        std::copy_n(x + i * kLanes, kLanes, own);
        for (std::int64_t k = 0; k < i; ++k)
            eliminate(k, factor[k * n + i]);
        divide(i);
    }
    for (std::int64_t i = n; i-- > 0;) {
        std::copy_n(x + i * kLanes, kLanes, own);
        for (std::int64_t k = i + 1; k < n; ++k)
            eliminate(k, factor[i * n + k]);
        divide(i);
    }
}

struct SolveShape {
    std::int64_t rows = 0, columns = 0;
    double ridge = 0, shift = 0;
};

/// Right sides: product + shift * old + addend, the last two or null.
struct RightSides {
    const float *product, *old, *addend;
    double shift;

    template <class Number>
    [[nodiscard]] Number at(std::int64_t i) const
    {
        auto side = static_cast<Number>(product[i]);
        if (old != nullptr)
            side += static_cast<Number>(shift) * static_cast<Number>(old[i]);
        if (addend != nullptr)
            side += static_cast<Number>(addend[i]);
        return side;
    }
};

/// Solves for rows [begin, end) of at most kLanes.
void solveRows(const SolveShape &shape, const double *factor, const RightSides &right, std::int64_t begin,
               std::int64_t end, double *x, float *solution)
{
    std::fill_n(x, shape.columns * kLanes, 0.0);
    for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t i = 0; i < shape.columns; ++i)
            x[i * kLanes + r - begin] = right.at<double>(r * shape.columns + i);
    substitute(factor, shape.columns, x);
    for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t i = 0; i < shape.columns; ++i)
            solution[r * shape.columns + i] = static_cast<float>(x[i * kLanes + r - begin]);
}

/// y = right * inverse for symmetric inverses whose lines are kLanes-padded, kRows rows at a time.
PLANLOOM_CLONES void multiplyRows(const float *right, std::int64_t rows, std::int64_t n, const float *inverse, float *y)
{
    constexpr std::int64_t kRows = 8;
    const std::int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
        const std::int64_t count = std::min(kRows, rows - begin);
        const float *from[kRows];
        for (std::int64_t k = 0; k < kRows; ++k)
            from[k] = right + (begin + std::min(k, count - 1)) * n;
        for (std::int64_t j = 0; j < n; j += kLanes) {
            float sums[kRows][kLanes] = {};
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t k = 0; k < kRows; ++k)
                    for (std::int64_t lane = 0; lane < kLanes; ++lane)
                        sums[k][lane] += from[k][i] * inverse[i * padded + j + lane];
            for (std::int64_t k = 0; k < count; ++k)
                std::copy_n(sums[k], std::min(kLanes, n - j), y + (begin + k) * n + j);
        }
    }
}

/// Where many rows have one system, its inverse is made, in double, and the rows are multiplied by it in float32.
bool usesInverse(const SolveShape &shape)
{
    return shape.shift > 0 && shape.ridge == 0 && shape.rows >= 4 * shape.columns;
}

/// The condition of a matrix of squares with a shift on its diagonal is at most its trace over the shift: up to here
/// float32 loses no more than in the products that make right sides.
bool isWellConditioned(const SolveShape &shape, const double *system)
{
    constexpr double kMostCondition = 1000;
    double trace = 0;
    for (std::int64_t i = 0; i < shape.columns; ++i)
        trace += system[i * shape.columns + i];
    return trace <= kMostCondition * shape.shift;
}

PLANLOOM_CLONES void sumSides(const RightSides &right, std::int64_t begin, std::int64_t end, float *to)
{
    for (std::int64_t i = begin; i < end; ++i)
        to[i - begin] = right.at<float>(i);
}

/// Rows by an inverse; `scratch` is for the substitution of kLanes rows.
void solveByInverse(const SolveShape &shape, const double *factor, const RightSides &right, double *scratch,
                    float *inverse, float *solution)
{
    const std::int64_t n = shape.columns;
    const std::int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
    for (std::int64_t begin = 0; begin < n; begin += kLanes) {
        const std::int64_t end = std::min(n, begin + kLanes);
        std::fill_n(scratch, n * kLanes, 0.0);
        for (std::int64_t r = begin; r < end; ++r)
            scratch[r * kLanes + r - begin] = 1;
        substitute(factor, n, scratch);
        for (std::int64_t r = begin; r < end; ++r)
            for (std::int64_t i = 0; i < n; ++i)
                inverse[i * padded + r] = static_cast<float>(scratch[i * kLanes + r - begin]);
    }
    parallelFor(shape.rows, rowGrain(8 * n), [=](std::int64_t begin, std::int64_t end) {
        std::vector<float> sides(static_cast<std::size_t>((end - begin) * n));
        sumSides(right, begin * n, end * n, sides.data());
        multiplyRows(sides.data(), end - begin, n, inverse, solution + begin * n);
    });
}

/// A product of rows with a system, and what may stand beside it.
class CholeskySolve final : public Kernel {
public:
    CholeskySolve(const Request &request, const SolveShape &shape)
        : m_shape(shape),
          m_threads(threadCount()),
          m_old(request.hasInput(2)),
          m_addend(request.hasInput(3)),
          m_system(static_cast<std::size_t>(shape.columns * shape.columns)),
          m_scratch(static_cast<std::size_t>(m_threads * shape.columns * kLanes))
    {
        const std::int64_t padded = (shape.columns + kLanes - 1) / kLanes * kLanes;
        if (usesInverse(shape))
            m_inverse.resize(static_cast<std::size_t>(shape.columns * padded));
    }

    void run(Inputs in, Outputs out) override
    {
        fill(floats(in[0]));
        const RightSides right{floats(in[1]), m_old ? floats(in[2]) : nullptr, m_addend ? floats(in[3]) : nullptr,
                               m_shape.shift};
        float *solution = floats(out[0]);
        double *system = m_system.data();
        const bool invertible = !m_inverse.empty() && isWellConditioned(m_shape, system);
        if (!factorise(system, m_shape.columns)) {
            std::fill_n(solution, m_shape.rows * m_shape.columns, std::numeric_limits<float>::quiet_NaN());
            return;
        }
        if (invertible)
            return solveByInverse(m_shape, system, right, m_scratch.data(), m_inverse.data(), solution);
        parallelItems((m_shape.rows + kLanes - 1) / kLanes, m_threads, [&](std::int64_t block, int thread) {
            solveRows(m_shape, system, right, block * kLanes, std::min(m_shape.rows, (block + 1) * kLanes),
                      m_scratch.data() + thread * m_shape.columns * kLanes, solution);
        });
    }

private:
    void fill(const float *sums)
    {
        const std::int64_t n = m_shape.columns;
        for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j <= i; ++j)
                m_system[static_cast<std::size_t>(j * n + i)] = static_cast<double>(*sums++);
            m_system[static_cast<std::size_t>(i * n + i)] += m_shape.shift + (i + 1 < n ? m_shape.ridge : 0);
        }
    }

    SolveShape m_shape;
    int m_threads;
    bool m_old, m_addend;
    std::vector<double> m_system;
    std::vector<double> m_scratch;
    std::vector<float> m_inverse; ///< empty: not used
};

Made makeCholeskySolve(const Request &request)
{
    const Dims &product = request.in(1);
    bool fits = product.size() == 2 && request.inputs[0].elements() == product[1] * (product[1] + 1) / 2
        && request.out() == product;
    for (std::size_t i = 2; i < request.inputs.size(); ++i)
        fits = fits && (!request.hasInput(i) || request.in(i) == product);
    if (!fits)
        return wrong(request,
                     "sums " + text(request.in(0)) + ", product " + text(product) + " and solution do not fit");
    const SolveShape shape{product[0], product[1], request.op.number("ridge", 0), request.op.number("shift", 0)};
    return std::unique_ptr<Kernel>(std::make_unique<CholeskySolve>(request, shape));
}

struct Kept {
    double changes = 0; ///< squared, summed up
    double growth = 0;  ///< of the sum of squares
};

/// Copies the new values of a piece over the old ones.
PLANLOOM_CLONES void keepPiece(const float *from, float *state, std::int64_t n, Kept &kept)
{
    double changes = 0;
    double growth = 0;
#pragma omp simd reduction(+ : changes, growth)
    for (std::int64_t i = 0; i < n; ++i) {
        const auto change = static_cast<double>(from[i] - state[i]);
        changes += change * change;
        growth += change * (static_cast<double>(from[i]) + static_cast<double>(state[i]));
        state[i] = from[i];
    }
    kept.changes += changes;
    kept.growth += growth;
}

/// A kernel whose state has columns, or rows, of several shards: in step s those of shard s mod `shards`.
class OfShard : public RandomKernel {
public:
    explicit OfShard(const Request &request) : m_shards(std::max<std::int64_t>(1, request.op.integer("shards", 1))) {}
    void begin(const Draw &draw) override { m_shard = draw.step % m_shards; }

protected:
    [[nodiscard]] std::int64_t shards() const { return m_shards; }
    [[nodiscard]] std::int64_t shard() const { return m_shard; }

private:
    std::int64_t m_shards;
    std::int64_t m_shard = 0;
};

/// Pieces are of one size, so that no number of threads changes the sum.
class KeepState final : public OfShard {
public:
    explicit KeepState(const Request &request)
        : OfShard(request),
          m_count(request.inputs[1].elements()),
          m_width(shards() > 1 ? request.in(1)[1] : m_count),
          m_each(shards() > 1 ? std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, m_width)) * m_width
                              : kGrain),
          m_scale(request.op.number("scale", 1)),
          m_sums(static_cast<std::size_t>((m_count + m_each - 1) / std::max<std::int64_t>(1, m_each)))
    {
    }

    void run(Inputs in, Outputs out) override
    {
        auto *state = const_cast<float *>(floats(in[0])); // NOLINT(cppcoreguidelines-pro-type-const-cast)
        const float *from = floats(in[1]);
        parallelItems(std::ssize(m_sums), threadCount(), [&](std::int64_t piece, int) {
            const std::int64_t begin = piece * m_each;
            const std::int64_t end = std::min(begin + m_each, m_count);
            Kept &sum = m_sums[static_cast<std::size_t>(piece)] = {};
            if (shards() == 1)
                return keepPiece(from + begin, state + begin, end - begin, sum);
            for (std::int64_t row = begin / m_width; row < end / m_width; ++row)
                keepPiece(from + row * m_width, state + (row * shards() + shard()) * m_width, m_width, sum);
        });
        Kept all;
        for (const Kept &piece : m_sums) {
            all.changes += piece.changes;
            all.growth += piece.growth;
        }
        floats(out[0])[0] = static_cast<float>(m_scale * all.changes);
        floats(out[1])[0] = static_cast<float>(std::sqrt(m_scale) / 2 * all.growth);
    }

private:
    std::int64_t m_count, m_width, m_each;
    double m_scale;
    std::vector<Kept> m_sums;
};

Made makeKeepState(const Request &request)
{
    const std::int64_t shards = std::max<std::int64_t>(1, request.op.integer("shards", 1));
    const bool fits = shards == 1
        ? request.in(1) == request.in(0)
        : request.in(1).size() == 2 && request.inputs[0].elements() == shards * request.inputs[1].elements();
    if (!fits || request.outputs[0].elements() != 1 || request.outputs[1].elements() != 1)
        return wrong(request, "state " + text(request.in(0)) + " and value " + text(request.in(1)) + " do not fit");
    return std::unique_ptr<Kernel>(std::make_unique<KeepState>(request));
}

class ReadState final : public OfShard {
public:
    explicit ReadState(const Request &request)
        : OfShard(request),
          m_rows(request.in(0)[0]),
          m_width(request.in(0)[1] / shards())
    {
    }

    void run(Inputs in, Outputs out) override
    {
        const float *state = floats(in[0]) + shard() * m_width;
        float *y = floats(out[0]);
        parallelFor(m_rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, m_width)),
                    [=, this](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t row = begin; row < end; ++row)
                            std::copy_n(state + row * shards() * m_width, m_width, y + row * m_width);
                    });
    }

private:
    std::int64_t m_rows, m_width;
};

Made makeReadState(const Request &request)
{
    if (request.in(0).size() != 2
        || request.inputs[0].elements() % std::max<std::int64_t>(1, request.op.integer("shards", 1)) != 0)
        return wrong(request, "state " + text(request.in(0)) + " has no columns for each shard");
    return std::unique_ptr<Kernel>(std::make_unique<ReadState>(request));
}

/// Puts the shard's numbers into its row and adds all rows up, in their order, in double.
class SumsOfShards final : public OfShard {
public:
    explicit SumsOfShards(const Request &request) : OfShard(request), m_count(request.inputs[1].elements()) {}

    void run(Inputs in, Outputs out) override
    {
        auto *state = const_cast<float *>(floats(in[0])); // NOLINT(cppcoreguidelines-pro-type-const-cast)
        std::copy_n(floats(in[1]), m_count, state + shard() * m_count);
        float *y = floats(out[0]);
        for (std::int64_t i = 0; i < m_count; ++i) {
            double sum = 0;
            for (std::int64_t row = 0; row < shards(); ++row)
                sum += static_cast<double>(state[row * m_count + i]);
            y[i] = static_cast<float>(sum);
        }
    }

private:
    std::int64_t m_count;
};

Made makeSumsOfShards(const Request &request)
{
    if (request.inputs[0].elements()
        != std::max<std::int64_t>(1, request.op.integer("shards", 1)) * request.inputs[1].elements())
        return wrong(request, "sums " + text(request.in(0)) + " and " + text(request.in(1)) + " do not fit");
    return std::unique_ptr<Kernel>(std::make_unique<SumsOfShards>(request));
}

constexpr KernelEntry kEntries[] = {
    {"ProximalTanh", "ffff?f?", "f", makeProximalTanh},
    {"ProximalCrossEntropy", "ffi", "ff?", makeProximalCrossEntropy},
    {"OuterSums", "ff?", "ff?", makeOuterSums},
    {"CholeskySolve", "fff?f?", "f", makeCholeskySolve},
    {"KeepState", "ff", "ff", makeKeepState},
    {"ReadState", "f", "f", makeReadState},
    {"SumsOfShards", "ff", "f", makeSumsOfShards},
};

} // namespace

std::span<const KernelEntry> proximalKernels() { return kEntries; }

} // namespace planloom::device
