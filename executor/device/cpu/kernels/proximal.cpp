// SPDX-License-Identifier: Apache-2.0
// Sub-problems of training by ADMM. Values of samples in float32; sums over samples and the systems that they make in
// double, since they square the condition number of the data.
#include "executor/device/kernel_support.h"
#include "executor/device/random_kernel.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <numeric>

namespace planloom::device {

namespace {

struct TanhProblem {
    float p = 1, q = 1;
    std::int64_t iterations = 1;
};

/// A step on the majorant whose curvature is that of |f'' (f - beta)| at its largest, 4 / (3 sqrt(3)) <= 0.77.
PLANLOOM_CLONES void solveTanh(const TanhProblem &problem, const float *a, const float *alpha, const float *beta,
                               std::int64_t n, float *out)
{
    constexpr float kCurvature = 0.77F;
    const float p = problem.p;
    const float q = problem.q;
    for (std::int64_t step = 0; step < problem.iterations; ++step) {
        const float *from = step == 0 ? a : out; // which may be one place
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
            const float f = simd::tanh(from[i]);
            const float bound = p + q * (1.0F + kCurvature * (1.0F + std::fabs(beta[i])));
            out[i] = from[i] - (p * (from[i] - alpha[i]) + q * (f - beta[i]) * (1.0F - f * f)) / bound;
        }
    }
}

Made makeProximalTanh(const Request &request)
{
    for (std::size_t i = 1; i < 3; ++i)
        if (request.in(i) != request.in(0))
            return wrong(request, "alpha and beta must be " + text(request.in(0)) + ", got " + text(request.in(i)));
    const TanhProblem problem{static_cast<float>(request.op.number("p", 1)),
                              static_cast<float>(request.op.number("q", 1)), request.op.integer("iterations", 1)};
    return makeFunction([problem, n = request.inputs[0].elements()](Inputs in, Outputs out) {
        const float *a = floats(in[0]);
        const float *alpha = floats(in[1]);
        const float *beta = floats(in[2]);
        float *y = floats(out[0]);
        constexpr std::int64_t kPiece = kGrain / 8; // as long as a light loop over kGrain elements
        parallelFor(n, kPiece, [=](std::int64_t begin, std::int64_t end) {
            solveTanh(problem, a + begin, alpha + begin, beta + begin, end - begin, y + begin);
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

/// Rows [begin, end), at most kRowsTogether. A label that is no class is seen at once, and nothing is read outside.
void solveCrossEntropy(const CrossEntropyProblem &problem, const float *start, const float *centre,
                       const std::int64_t *labels, std::int64_t begin, std::int64_t end, float *scratch, float *y)
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
    for (std::int64_t r = begin; r < end; ++r) {
        const bool isClass = labels[r] >= 0 && labels[r] < problem.classes;
        for (std::int64_t c = 0; c < problem.classes; ++c)
            y[r * problem.classes + c] =
                isClass ? o[c * kRowsTogether + r - begin] : std::numeric_limits<float>::quiet_NaN();
    }
}

Made makeProximalCrossEntropy(const Request &request)
{
    const Dims &dims = request.in(0);
    if (dims.size() != 2 || request.in(1) != dims || request.inputs[2].elements() != dims[0])
        return wrong(request,
                     "outputs and centre must be (M, C) and labels (M), got " + text(dims) + ", " + text(request.in(1))
                         + " and " + text(request.in(2)));
    const CrossEntropyProblem problem{dims[0], dims[1], request.op.integer("iterations", 1),
                                      static_cast<float>(request.op.number("penalty", 1))};
    const int threads = threadCount();
    const std::int64_t each = 3 * problem.classes * kRowsTogether;
    return makeFunction([problem, threads, each,
                         scratch = std::vector<float>(static_cast<std::size_t>(threads * each))](Inputs in,
                                                                                                 Outputs out) mutable {
        const float *start = floats(in[0]);
        const float *centre = floats(in[1]);
        const std::int64_t *labels = ints(in[2]);
        float *y = floats(out[0]);
        float *own = scratch.data();
        parallelItems((problem.rows + kRowsTogether - 1) / kRowsTogether, threads, [=](std::int64_t block, int thread) {
            const std::int64_t begin = block * kRowsTogether;
            solveCrossEntropy(problem, start, centre, labels, begin, std::min(problem.rows, begin + kRowsTogether),
                              own + thread * each, y);
        });
    });
}

struct SumsShape {
    std::int64_t steps = 1, rows = 0, columns = 0, outputs = 0;
};

constexpr std::int64_t kTogether = 8; ///< rows whose products are added in one pass over the sums
constexpr std::int64_t kLines = 4;    ///< lines of the sums that are made in one pass over the rows

/// sum[l * lineStride + j] += factors[l][k] * z[k * stride + j] for k < kTogether in order and j < n, in double.
PLANLOOM_CLONES void addScaled(const float *z, std::int64_t stride, const double (&factors)[kLines][kTogether],
                               std::int64_t n, double *sum, std::int64_t lineStride)
{
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {
        double a = sum[j];
        double b = sum[lineStride + j];
        double c = sum[2 * lineStride + j];
        double d = sum[3 * lineStride + j];
        for (std::int64_t k = 0; k < kTogether; ++k) {
            const auto value = static_cast<double>(z[k * stride + j]);
            a += factors[0][k] * value;
            b += factors[1][k] * value;
            c += factors[2][k] * value;
            d += factors[3][k] * value;
        }
        sum[j] = a;
        sum[lineStride + j] = b;
        sum[2 * lineStride + j] = c;
        sum[3 * lineStride + j] = d;
    }
}

/// Up to kLines lines from @p line on, all of the triangle, or behind it of the product. Rows are added in their order.
void sumLines(const SumsShape &shape, const std::vector<double> &weights, const float *z, const float *y,
              std::int64_t line, double *sum, float *gram, float *product)
{
    const bool triangle = line < shape.columns;
    const std::int64_t count = std::min(kLines, (triangle ? shape.columns : shape.columns + shape.outputs) - line);
    const std::int64_t n = triangle ? line + count : shape.columns;
    const float *from = triangle ? z + line : y + line - shape.columns;
    const std::int64_t stride = triangle ? shape.columns : shape.outputs;
    std::fill_n(sum, kLines * shape.columns, 0.0);
    for (std::int64_t step = 0; step < shape.steps; ++step) {
        const double weight = triangle ? weights[static_cast<std::size_t>(step)] : 1;
        const std::int64_t end = (step + 1) * shape.rows;
        for (std::int64_t row = step * shape.rows; row < end; row += kTogether) {
            const std::int64_t rows = std::min(kTogether, end - row);
            double factors[kLines][kTogether] = {};
            for (std::int64_t k = 0; k < rows; ++k)
                for (std::int64_t l = 0; l < count; ++l)
                    factors[l][k] = weight * static_cast<double>(from[(row + k) * stride + l]);
            if (rows == kTogether) {
                addScaled(z + row * shape.columns, shape.columns, factors, n, sum, shape.columns);
                continue;
            }
            for (std::int64_t k = 0; k < rows; ++k)
                for (std::int64_t l = 0; l < count; ++l)
                    for (std::int64_t j = 0; j < n; ++j)
                        sum[l * shape.columns + j] +=
                            factors[l][k] * static_cast<double>(z[(row + k) * shape.columns + j]);
        }
    }
    for (std::int64_t l = 0; l < count; ++l) {
        const std::int64_t own = line + l;
        float *to = triangle ? gram + own * (own + 1) / 2 : product + (own - shape.columns) * shape.columns;
        for (std::int64_t j = 0; j < (triangle ? own + 1 : n); ++j)
            to[j] = static_cast<float>(sum[l * shape.columns + j]);
    }
}

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
    const int threads = threadCount();
    return makeFunction([shape, threads, weights = std::move(weights),
                         sums = std::vector<double>(static_cast<std::size_t>(
                             threads * kLines * shape.columns))](Inputs in, Outputs out) mutable {
        const float *z = floats(in[0]);
        const float *y = shape.outputs > 0 ? floats(in[1]) : nullptr;
        float *gram = floats(out[0]);
        float *product = shape.outputs > 0 ? floats(out[1]) : nullptr;
        double *scratch = sums.data();
        const std::int64_t ofTriangle = (shape.columns + kLines - 1) / kLines;
        const std::int64_t ofProduct = (shape.outputs + kLines - 1) / kLines;
        parallelItems(ofTriangle + ofProduct, threads, [&, scratch](std::int64_t item, int thread) {
            const std::int64_t line = item < ofTriangle ? item * kLines : shape.columns + (item - ofTriangle) * kLines;
            sumLines(shape, weights, z, y, line, scratch + thread * kLines * shape.columns, gram, product);
        });
    });
}

/// The factor's lower triangle in place of the matrix's, row by row. False: a pivot is no larger than what float32 sums
/// leave to chance.
bool factorise(double *matrix, std::int64_t n)
{
    constexpr double kLeastPivot = 0x1p-24;
    const auto row = [matrix](std::int64_t i) { return matrix + i * (i + 1) / 2; };
    for (std::int64_t i = 0; i < n; ++i) {
        double *own = row(i);
        const double before = own[i];
        for (std::int64_t j = 0; j < i; ++j) {
            const double *other = row(j);
            double value = own[j];
            for (std::int64_t k = 0; k < j; ++k)
                value -= own[k] * other[k];
            own[j] = value / other[j];
            own[i] -= own[j] * own[j];
        }
        if (!(own[i] > kLeastPivot * before))
            return false;
        own[i] = std::sqrt(own[i]);
    }
    return true;
}

constexpr std::int64_t kLanes = 16; ///< right sides that are solved together

/// x of L L^T x = x, for kLanes right sides: x[i] has a number of each.
PLANLOOM_CLONES void substitute(const double *factor, std::int64_t n, double *x)
{
    const auto eliminate = [x](double *own, std::int64_t k, double by) {
        const double *other = x + k * kLanes;
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            own[lane] -= by * other[lane];
    };
    for (std::int64_t i = 0; i < n; ++i) {
        const double *row = factor + i * (i + 1) / 2;
        double *own = x + i * kLanes;
        for (std::int64_t k = 0; k < i; ++k)
            eliminate(own, k, row[k]);
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            own[lane] /= row[i];
    }
    for (std::int64_t i = n; i-- > 0;) {
        double *own = x + i * kLanes;
        for (std::int64_t k = i + 1; k < n; ++k)
            eliminate(own, k, factor[k * (k + 1) / 2 + i]);
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            own[lane] /= factor[i * (i + 1) / 2 + i];
    }
}

struct SolveShape {
    std::int64_t rows = 0, columns = 0;
    double ridge = 0, shift = 0;
};

/// Solves for rows [begin, end) of at most kLanes.
void solveRows(const SolveShape &shape, const double *factor, const float *right, const float *old, std::int64_t begin,
               std::int64_t end, double *x, float *solution)
{
    std::fill_n(x, shape.columns * kLanes, 0.0);
    for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t i = 0; i < shape.columns; ++i) {
            const std::int64_t at = r * shape.columns + i;
            x[i * kLanes + r - begin] =
                static_cast<double>(right[at]) + (old != nullptr ? shape.shift * static_cast<double>(old[at]) : 0.0);
        }
    substitute(factor, shape.columns, x);
    for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t i = 0; i < shape.columns; ++i)
            solution[r * shape.columns + i] = static_cast<float>(x[i * kLanes + r - begin]);
}

/// y = right * inverse for symmetric inverses whose lines are kLanes-padded, four rows at a time.
PLANLOOM_CLONES void multiplyRows(const float *right, std::int64_t rows, std::int64_t n, const float *inverse, float *y)
{
    constexpr std::int64_t kRows = 4;
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
        trace += system[i * (i + 1) / 2 + i];
    return trace <= kMostCondition * shape.shift;
}

/// Rows by an inverse; `scratch` is for the substitution of kLanes rows.
void solveByInverse(const SolveShape &shape, const double *factor, const float *right, double *scratch, float *inverse,
                    float *solution)
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
        multiplyRows(right + begin * n, end - begin, n, inverse, solution + begin * n);
    });
}

Made makeCholeskySolve(const Request &request)
{
    const Dims &product = request.in(1);
    if (product.size() != 2 || request.inputs[0].elements() != product[1] * (product[1] + 1) / 2
        || request.out() != product || (request.hasInput(2) && request.in(2) != product))
        return wrong(request,
                     "sums " + text(request.in(0)) + ", product " + text(product) + " and solution do not fit");
    const SolveShape shape{product[0], product[1], request.op.number("ridge", 0), request.op.number("shift", 0)};
    const auto n = static_cast<std::size_t>(shape.columns);
    const int threads = threadCount();
    const std::size_t padded = (n + kLanes - 1) / kLanes * kLanes;
    return makeFunction([shape, threads, system = std::vector<double>(n * (n + 1) / 2),
                         inverse = std::vector<float>(usesInverse(shape) ? n * padded : 0),
                         scratch = std::vector<double>(static_cast<std::size_t>(threads) * n
                                                       * kLanes)](Inputs in, Outputs out) mutable {
        const float *old = in.size() > 2 ? floats(in[2]) : nullptr;
        const float *right = floats(in[1]);
        float *solution = floats(out[0]);
        std::copy_n(floats(in[0]), system.size(), system.begin());
        for (std::int64_t i = 0; i < shape.columns; ++i)
            system[static_cast<std::size_t>(i * (i + 1) / 2 + i)] +=
                shape.shift + (i + 1 < shape.columns ? shape.ridge : 0);
        const bool invertible = !inverse.empty() && isWellConditioned(shape, system.data());
        if (!factorise(system.data(), shape.columns)) {
            std::fill_n(solution, shape.rows * shape.columns, std::numeric_limits<float>::quiet_NaN());
            return;
        }
        if (invertible && old == nullptr) {
            solveByInverse(shape, system.data(), right, scratch.data(), inverse.data(), solution);
            return;
        }
        const std::int64_t blocks = (shape.rows + kLanes - 1) / kLanes;
        parallelItems(blocks, threads, [&](std::int64_t block, int thread) {
            solveRows(shape, system.data(), right, old, block * kLanes, std::min(shape.rows, (block + 1) * kLanes),
                      scratch.data() + thread * shape.columns * kLanes, solution);
        });
    });
}

/// Copies the new values of a piece over the old ones; returns the sum of the squared changes.
double keepPiece(const float *from, float *state, std::int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
        const auto change = static_cast<double>(from[i] - state[i]);
        sum += change * change;
        state[i] = from[i];
    }
    return sum;
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
            double &sum = m_sums[static_cast<std::size_t>(piece)];
            if (shards() == 1) {
                sum = keepPiece(from + begin, state + begin, end - begin);
                return;
            }
            sum = 0;
            for (std::int64_t row = begin / m_width; row < end / m_width; ++row)
                sum += keepPiece(from + row * m_width, state + (row * shards() + shard()) * m_width, m_width);
        });
        floats(out[0])[0] = static_cast<float>(m_scale * std::accumulate(m_sums.begin(), m_sums.end(), 0.0));
    }

private:
    std::int64_t m_count, m_width, m_each;
    double m_scale;
    std::vector<double> m_sums;
};

Made makeKeepState(const Request &request)
{
    const std::int64_t shards = std::max<std::int64_t>(1, request.op.integer("shards", 1));
    const bool fits = shards == 1
        ? request.in(1) == request.in(0)
        : request.in(1).size() == 2 && request.inputs[0].elements() == shards * request.inputs[1].elements();
    if (!fits || request.outputs[0].elements() != 1)
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
    {"ProximalTanh", "fff", "f", makeProximalTanh}, {"ProximalCrossEntropy", "ffi", "f", makeProximalCrossEntropy},
    {"OuterSums", "ff?", "ff?", makeOuterSums},     {"CholeskySolve", "fff?", "f", makeCholeskySolve},
    {"KeepState", "ff", "f", makeKeepState},        {"ReadState", "f", "f", makeReadState},
    {"SumsOfShards", "ff", "f", makeSumsOfShards},
};

} // namespace

std::span<const KernelEntry> proximalKernels() { return kEntries; }

} // namespace planloom::device
