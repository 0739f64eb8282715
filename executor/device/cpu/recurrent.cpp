// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/recurrent.h"

#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace planloom::device {

namespace {

using Kind = GateFunction::Kind;

PLANLOOM_CLONES void sigmoids(float *x, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        x[i] = simd::sigmoid(x[i]);
}

PLANLOOM_CLONES void tangents(float *x, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        x[i] = simd::tanh(x[i]);
}

float one(const GateFunction &f, float x)
{
    switch (f.kind) {
    case Kind::Sigmoid: return simd::sigmoid(x);
    case Kind::Tanh: return simd::tanh(x);
    case Kind::Relu: return std::max(x, 0.0F);
    case Kind::Affine: return f.alpha * x + f.beta;
    case Kind::LeakyRelu: return x < 0 ? f.alpha * x : x;
    case Kind::ThresholdedRelu: return x > f.alpha ? x : 0.0F;
    case Kind::ScaledTanh: return f.alpha * simd::tanh(f.beta * x);
    case Kind::HardSigmoid: return std::min(1.0F, std::max(0.0F, f.alpha * x + f.beta));
    case Kind::Elu: return x < 0 ? f.alpha * (simd::exp(x) - 1.0F) : x;
    case Kind::Softsign: return x / (1.0F + std::fabs(x));
    case Kind::Softplus: return std::max(x, 0.0F) + std::log1p(simd::exp(-std::fabs(x)));
    }
    return x;
}

float slope(const GateFunction &f, float y)
{
    switch (f.kind) {
    case Kind::Sigmoid: return y * (1.0F - y);
    case Kind::Tanh: return 1.0F - y * y;
    case Kind::Relu: return y > 0 ? 1.0F : 0.0F;
    case Kind::Affine: return f.alpha;
    case Kind::LeakyRelu: return y < 0 ? f.alpha : 1.0F;
    case Kind::ThresholdedRelu: return y != 0 ? 1.0F : 0.0F;
    case Kind::ScaledTanh: return f.beta * (f.alpha - y * y / f.alpha);
    case Kind::HardSigmoid: return y > 0 && y < 1 ? f.alpha : 0.0F;
    case Kind::Elu: return y < 0 ? y + f.alpha : 1.0F;
    case Kind::Softsign: return (1.0F - std::fabs(y)) * (1.0F - std::fabs(y));
    case Kind::Softplus: return 1.0F - simd::exp(-y);
    }
    return 1.0F;
}

struct NamedFunction {
    const char *name;
    Kind kind;
    float alpha, beta; ///< defaults of the file
};

constexpr NamedFunction kFunctions[] = {
    {"sigmoid", Kind::Sigmoid, 0, 0},
    {"tanh", Kind::Tanh, 0, 0},
    {"relu", Kind::Relu, 0, 0},
    {"affine", Kind::Affine, 1, 0},
    {"leakyrelu", Kind::LeakyRelu, 0.01F, 0},
    {"thresholdedrelu", Kind::ThresholdedRelu, 1, 0},
    {"scaledtanh", Kind::ScaledTanh, 1, 1},
    {"hardsigmoid", Kind::HardSigmoid, 0.2F, 0.5F},
    {"elu", Kind::Elu, 1, 0},
    {"softsign", Kind::Softsign, 0, 0},
    {"softplus", Kind::Softplus, 0, 0},
};

bool takesAlpha(Kind kind)
{
    return kind == Kind::Affine || kind == Kind::LeakyRelu || kind == Kind::ThresholdedRelu || kind == Kind::ScaledTanh
        || kind == Kind::HardSigmoid || kind == Kind::Elu;
}

bool takesBeta(Kind kind) { return kind == Kind::Affine || kind == Kind::ScaledTanh || kind == Kind::HardSigmoid; }

std::vector<std::string> words(const std::string &line)
{
    std::vector<std::string> result;
    std::string word;
    for (const char c : line + ",") {
        if (c != ',') {
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            continue;
        }
        if (!word.empty())
            result.push_back(std::move(word));
        word.clear();
    }
    return result;
}

std::vector<double> numbers(const graph::Op &op, const char *key)
{
    const auto found = op.attributes.find(key);
    const auto *list = found == op.attributes.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
    return list ? *list : std::vector<double>();
}

/// alpha and beta are lists that hold a number for each function that takes one, in order.
Result<std::vector<GateFunction>> functionsOf(const Request &request, const std::vector<std::string> &defaults,
                                              std::int64_t directions)
{
    std::vector<std::string> names = words(request.op.text("activations"));
    if (names.empty())
        for (std::int64_t d = 0; d < directions; ++d)
            names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() != defaults.size() * static_cast<std::size_t>(directions))
        return wrong(request,
                     "attribute 'activations' names " + std::to_string(names.size()) + " functions for "
                         + std::to_string(directions) + " directions");
    const auto alphas = numbers(request.op, "activation_alpha");
    const auto betas = numbers(request.op, "activation_beta");
    std::size_t alpha = 0;
    std::size_t beta = 0;
    std::vector<GateFunction> functions;
    for (const std::string &name : names) {
        const auto *known = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                         [&](const NamedFunction &f) { return name == f.name; });
        if (known == std::end(kFunctions))
            return cannot(request, "gate function '" + name + "' is not known");
        GateFunction function{known->kind, known->alpha, known->beta};
        if (takesAlpha(known->kind) && alpha < alphas.size())
            function.alpha = static_cast<float>(alphas[alpha++]);
        if (takesBeta(known->kind) && beta < betas.size())
            function.beta = static_cast<float>(betas[beta++]);
        functions.push_back(function);
    }
    return functions;
}

Status checkArguments(const Request &request, const Recurrence &how, std::size_t first, std::size_t states)
{
    const std::int64_t d = how.directions;
    const auto expect = [&](std::size_t input, const Dims &dims) -> Status {
        if (!request.hasInput(input) || request.in(input) == dims)
            return {};
        return wrong(request,
                     "input " + std::to_string(input) + " should be " + text(dims) + ", got "
                         + text(request.in(input)));
    };
    const Dims state = how.batchFirst ? Dims{how.batch, d, how.hidden} : Dims{d, how.batch, how.hidden};
    std::vector<std::pair<std::size_t, Dims>> expected{{first + 1, {d, how.width(), how.features}},
                                                       {first + 2, {d, how.width(), how.hidden}},
                                                       {first + 3, {d, 2 * how.width()}},
                                                       {first + 4, {how.batch}}};
    for (std::size_t i = 0; i < states; ++i)
        expected.emplace_back(first + 5 + i, state);
    for (const auto &[input, dims] : expected)
        if (const Status fits = expect(input, dims); !fits)
            return fits;
    if (request.hasInput(first + 4) && request.inputs[first + 4].type != graph::DType::I32
        && request.inputs[first + 4].type != graph::DType::I64)
        return wrong(request, "the sequence lengths must be integers");
    return {};
}

} // namespace

void GateFunction::apply(float *x, std::int64_t n) const
{
    if (kind == Kind::Sigmoid)
        return sigmoids(x, n);
    if (kind == Kind::Tanh)
        return tangents(x, n);
    for (std::int64_t i = 0; i < n; ++i)
        x[i] = one(*this, x[i]);
}

void GateFunction::scaleByDerivative(const float *y, float *dx, std::int64_t n) const
{
    if (kind == Kind::Sigmoid) {
        for (std::int64_t i = 0; i < n; ++i)
            dx[i] *= y[i] * (1.0F - y[i]);
        return;
    }
    if (kind == Kind::Tanh) {
        for (std::int64_t i = 0; i < n; ++i)
            dx[i] *= 1.0F - y[i] * y[i];
        return;
    }
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] *= slope(*this, y[i]);
}

Result<Recurrence> recurrenceOf(const Request &request, std::size_t first, std::int64_t gates,
                                const std::vector<std::string> &defaults, std::size_t states)
{
    const Dims &x = request.in(first);
    const Dims &r = request.in(first + 2);
    if (x.size() != 3 || r.size() != 3)
        return wrong(request, "X and R must have three dimensions, got " + text(x) + " and " + text(r));
    Recurrence how;
    how.batchFirst = request.op.integer("layout") != 0;
    how.steps = x[how.batchFirst ? 1 : 0];
    how.batch = x[how.batchFirst ? 0 : 1];
    how.features = x[2];
    how.hidden = r[2];
    how.gates = gates;
    const std::string direction = request.op.text("direction", "forward");
    how.directions = direction == "bidirectional" ? 2 : 1;
    how.backwards = direction == "reverse";
    how.clip = static_cast<float>(request.op.number("clip"));
    if (direction != "forward" && !how.backwards && how.directions == 1)
        return wrong(request, "attribute 'direction' is '" + direction + "'");
    if (const Status fits = checkArguments(request, how, first, states); !fits)
        return fits.error();
    auto functions = functionsOf(request, defaults, how.directions);
    if (!functions)
        return functions.error();
    how.functions = std::move(*functions);
    return how;
}

Lengths::Lengths(const Recurrence &how, const Request &request, std::size_t input)
    : m_input(input),
      m_given(request.hasInput(input)),
      m_wide(m_given && request.inputs[input].type == graph::DType::I64),
      m_steps(static_cast<std::size_t>(how.batch), how.steps)
{
}

void Lengths::read(Inputs in)
{
    for (std::size_t n = 0; m_given && n < m_steps.size(); ++n)
        m_steps[n] = m_wide ? static_cast<const std::int64_t *>(in[m_input])[n]
                            : static_cast<const std::int32_t *>(in[m_input])[n];
}

const float *TimeMajor::read(const float *x)
{
    if (!m_how.batchFirst)
        return x;
    const std::int64_t width = m_how.features;
    parallelFor(m_how.rows(), rowGrain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            std::copy_n(x + (row % m_how.batch * m_how.steps + row / m_how.batch) * width, width,
                        m_copy.data() + row * width);
    });
    return m_copy.data();
}

void TimeMajor::write(float *y)
{
    if (!m_how.batchFirst)
        return;
    const std::int64_t width = m_how.features;
    parallelFor(m_how.rows(), rowGrain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            std::copy_n(m_copy.data() + row * width, width,
                        y + (row % m_how.batch * m_how.steps + row / m_how.batch) * width);
    });
}

void readState(const Recurrence &how, std::int64_t direction, const float *state, float *rows)
{
    if (!state) {
        std::fill_n(rows, how.state(), 0.0F);
        return;
    }
    for (std::int64_t n = 0; n < how.batch; ++n)
        std::copy_n(state + how.stateRow(direction, n), how.hidden, rows + n * how.hidden);
}

void writeState(const Recurrence &how, std::int64_t direction, const float *rows, float *state)
{
    for (std::int64_t n = 0; n < how.batch; ++n)
        std::copy_n(rows + n * how.hidden, how.hidden, state + how.stateRow(direction, n));
}

void readStates(const Recurrence &how, std::int64_t direction, const Lengths &lengths, const float *y,
                const float *initial, StateLine &line)
{
    if (how.steps == 0)
        return;
    float *start = line.before(how.time(0, direction), direction);
    readState(how, direction, initial, start);
    parallelFor(how.rows(), rowGrain(how.hidden), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t time = row / how.batch;
            const std::int64_t sample = row % how.batch;
            const float *from =
                lengths.covers(time, sample) ? y + how.outputRow(time, direction, sample) : start + sample * how.hidden;
            std::copy_n(from, how.hidden, line.after(time, direction) + sample * how.hidden);
        }
    });
}

void columnSums(const float *x, std::int64_t rows, std::int64_t columns, float *sums)
{
    constexpr std::int64_t kColumns = 256; // of a piece: its sums stay in the first-level cache
    parallelFor(columns, kColumns, [=](std::int64_t begin, std::int64_t end) {
        std::fill(sums + begin, sums + end, 0.0F);
        for (std::int64_t r = 0; r < rows; ++r) {
            const float *line = x + r * columns;
            for (std::int64_t j = begin; j < end; ++j)
                sums[j] += line[j];
        }
    });
}

void clampAll(float limit, float *x, std::int64_t n)
{
    for (std::int64_t i = 0; limit > 0 && i < n; ++i)
        x[i] = std::min(limit, std::max(-limit, x[i]));
}

} // namespace planloom::device
